#pragma once

// Processes that measure together: servers and workers, each a process of its own, forked before any of them touches
// the network.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <weir/client/file_system.h>
#include <weir/transfer/testing/ratio.h>

namespace weir::bench {

using transfer::internal::Ratio;

/// Ends the program with a message: a benchmark has nobody to report errors to.
[[noreturn]] void give_up(const std::string& what);

inline void expect(const Status& status) {
  if (!status.is_ok()) give_up(status.message());
}
template <typename T>
T expect(Result<T> result) {
  if (!result.is_ok()) give_up(result.status().message());
  return std::move(result).value();
}

double now_seconds();

/// Calls `work` again and again.  \returns the seconds of each call
std::vector<double> times_of(int calls, const std::function<void()>& work);

/// Memory that is there before anything is measured.
class Buffer {
 public:
  explicit Buffer(Offset size);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::span<std::byte> span() const { return {data_, size_}; }

 private:
  std::size_t size_;
  std::byte* data_;
};

struct TeamShared;

/// A worker as one of several.  All functions but rank() and size() are collective: every member calls them in the same
/// order.
class Team {
 public:
  Team(TeamShared& shared, int group, int rank, int size) : shared_(shared), group_(group), rank_(rank), size_(size) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool is_first() const { return rank_ == 0; }

  void barrier() const;
  /// Calls `work` so many times in every member.  \returns seconds from the first start to the last end, the same
  /// everywhere
  [[nodiscard]] double time(const std::function<void()>& work, int repeats) const;
  /// Repeats that make time() about as long as asked for.
  [[nodiscard]] int repeats_for(const std::function<void()>& work, double seconds) const;
  /// rival's time / our time, of neighbouring turns.
  [[nodiscard]] Ratio compare(const std::function<void()>& ours, const std::function<void()>& rival, int turns,
                              double turn_seconds) const;
  [[nodiscard]] double sum(double value) const;
  [[nodiscard]] double mean(double value) const { return sum(value) / size_; }
  /// One member after the other, while the others sleep.
  void in_turn(const std::function<void()>& work) const;

  /// Memory that all workers see.
  [[nodiscard]] std::byte* shared_memory() const;
  /// The file system of the servers with that store, its number in TeamOptions::stores.
  [[nodiscard]] client::FileSystem connect(std::size_t store, bool direct) const;
  /// Of one of the servers with that store.
  [[nodiscard]] int server_process(std::size_t store, int index) const;
  /// A folder that goes away with the team.
  [[nodiscard]] std::string folder() const;

 private:
  [[nodiscard]] double time_once(const std::function<void()>& work, int repeats) const;
  TeamShared& shared_;
  int group_;
  int rank_;
  int size_;
};

struct TeamOptions {
  int workers = 2;
  int servers = 2;                            ///< Of each store.
  std::vector<std::string> stores{"memory"};  ///< As server::Options::store.
  Offset capacity_bytes = Offset{1} << 30;    ///< Of each server with a memory store.
  std::size_t shared_bytes = 0;
};

/// Runs `body` in every worker: with all of them, and with the first two (a null pointer in the others).
/// \returns what main() should return
int run_team(const TeamOptions& options, const std::function<void(Team& all, Team* pair)>& body);

}  // namespace weir::bench
