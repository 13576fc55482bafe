#pragma once

// A network between simulated processes.
//
// Messages of a connection arrive in order, each after a random delay; those of different connections overtake each
// other.  A link between two processes can be cut: messages wait for it to be healed, and connections break if that
// takes too long.  A process can be killed: nothing leaves it any more, and its connections break.
//
//   Network network(simulation);
//   options.network = &network.of("server-0");

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <weir/net/net.h>
#include <weir/simulation/simulation.h>

namespace weir::simulation {

namespace internal {
class Endpoint;
class Line;
class SimulatedListener;
}  // namespace internal

struct NetworkOptions {
  Duration least_delay = std::chrono::microseconds(5);
  Duration most_delay = std::chrono::microseconds(500);
  /// A connection whose link is cut for so long breaks.
  Duration break_after = std::chrono::seconds(2);
};

/// \threadsafety One thread.
class Network {
 public:
  explicit Network(Simulation& simulation, NetworkOptions options = {});
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  /// The network as this process sees it.  Made when first asked for.
  net::Network& of(const std::string& process);

  void cut(const std::string& one, const std::string& other);
  void heal(const std::string& one, const std::string& other);
  void heal_all();
  [[nodiscard]] bool is_cut(const std::string& one, const std::string& other) const;

  /// The process reaches nobody, and nobody reaches it.  Others see their connections break, sooner or later.
  void kill(const std::string& process);
  /// It was started again: connections can be made, old ones stay broken.
  void revive(const std::string& process);
  /// Kills the process instead of letting its `message`-th message from now (0: the next) leave.
  void kill_at(const std::string& process, std::uint64_t message);
  /// Takes that back.
  void spare(const std::string& process);
  [[nodiscard]] bool is_alive(const std::string& process) const;
  /// Who callers in this process are to listeners, from their next connection on; otherwise, the user of the program.
  void set_identity(const std::string& process, net::Identity identity);
  /// So many messages have left the process.
  [[nodiscard]] std::uint64_t sent_by(const std::string& process) const;

 private:
  friend class internal::Endpoint;
  friend class internal::Line;
  friend class internal::SimulatedListener;
  struct Process {
    std::unique_ptr<internal::Endpoint> endpoint;
    bool is_alive = true;
    std::optional<net::Identity> identity{};  // none: that of the program
    std::uint64_t sent = 0;
    std::uint64_t dies_at = UINT64_MAX;
  };

  Process& process(const std::string& name);
  /// Counts a message, or kills its sender.  \returns false if it does not leave
  bool leaves(const std::string& sender);
  [[nodiscard]] net::Identity identity_of(const std::string& process, bool is_server);
  [[nodiscard]] Duration random_delay() {
    return simulation_.random_between(options_.least_delay, options_.most_delay);
  }

  Simulation& simulation_;
  NetworkOptions options_;
  std::map<std::string, Process> processes_;
  std::map<std::string, internal::SimulatedListener*> listeners_;  // by address
  std::set<std::pair<std::string, std::string>> cuts_;
  std::vector<std::weak_ptr<internal::Line>> lines_;
  std::uint64_t next_peer_ = 1;
};

}  // namespace weir::simulation
