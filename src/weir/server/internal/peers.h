#pragma once

// Calls from this server to the servers of the file system, itself included.
//
//   Peers ──┬── another server: a connection, made when first needed and again when it is broken, with this server's key
//           └── this server: the call is handled as if it had come from outside, without a message
//
// Everything happens on the event loop, and nothing waits: each call ends in a task of the loop, never inside call().
// Few calls are in flight to a server at a time; others are queued.  As with clients, a call ends when its server gives
// no sign of life, however long a slow disk takes.  A call that finds its connection broken is made once more on a new
// one: only operations that may be done twice are called this way.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <weir/net/net.h>
#include <weir/server/internal/call.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time: that of the event loop.
class Peers {
 public:
  struct Options {
    std::uint32_t self = 0;  ///< Index of this server.
    net::Key key;
    std::chrono::milliseconds timeout{10'000};  ///< Without a sign of life.
    const runtime::Clock* clock = nullptr;
    std::uint64_t boot = 0;                                ///< Of this server.
    std::function<void(std::function<void()>)> post = {};  ///< Runs a task in the event loop, soon.
    std::function<void(const CallPtr&)> handle = {};       ///< Handles a call of this server to itself.
  };
  static constexpr std::size_t kMostInFlight = 16;  ///< To one server.
  static constexpr net::PeerId kSelf = 0;           ///< What this server is to itself; peers that connect are not 0.

  /// \pre `caller` outlives it.
  Peers(Options options, net::Caller& caller);
  /// Calls in flight end without a word.
  ~Peers();

  /// Servers by their index, and the server of each target.  Connections to servers whose address is another now end.
  void set_table(const std::vector<net::Address>& servers, std::vector<std::uint32_t> target_servers);
  /// Of a target that is not in the table: an index that no server has.
  [[nodiscard]] std::uint32_t server_of(std::uint32_t target) const {
    return target < target_servers_.size() ? target_servers_[target] : UINT32_MAX;
  }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(peers_.size()); }
  [[nodiscard]] std::uint32_t self() const { return options_.self; }
  /// For messages.
  [[nodiscard]] std::string name_of(std::uint32_t server) const;

  /// Bytes that go with a call; both stay until it ends.
  struct Bodies {
    std::span<const std::byte> out = {};
    std::span<std::byte> in = {};  ///< For the body of the answer, which has just this length.
  };
  using Done = std::function<void(Result<wire::ReplyHeadT>)>;

  /// \param store  the one that is meant; 0: any
  /// Ends with the answer, or what the server says has failed; kUnavailable or kTimedOut if it cannot be reached: names
  /// it.
  template <typename Table>
  void call(std::uint32_t server, Table table, std::uint64_t store, Bodies bodies, Done done) {
    wire::RequestHeadT head;
    head.operation.Set(std::move(table));
    head.remaining_ms = options_.timeout.count();
    head.store = store;
    start(server, std::move(head), bodies, std::move(done));
  }
  template <typename Table>
  void call(std::uint32_t server, Table table, std::uint64_t store, Done done) {
    call(server, std::move(table), store, {}, std::move(done));
  }

  /// All calls end with kUnavailable, and so do those that come later.
  void stop();

 private:
  struct Waiting {
    net::Bytes head;
    Bodies bodies;
    Done done;
    int attempts = 0;
  };
  struct Peer {
    net::Address address;
    std::unique_ptr<net::Connection> connection;
    std::size_t in_flight = 0;
    std::deque<Waiting> waiting;
  };
  void start(std::uint32_t server, wire::RequestHeadT head, Bodies bodies, Done done);
  void call_self(wire::RequestHeadT head, Bodies bodies, Done done);
  void send_next(std::uint32_t server);
  void send(std::uint32_t server, const std::shared_ptr<Peer>& peer, Waiting waiting);
  void ended(std::uint32_t server, Waiting waiting, const Result<net::Reply>& reply);
  [[nodiscard]] Result<wire::ReplyHeadT> decode(std::uint32_t server, const Result<net::Reply>& reply,
                                                std::size_t expected_bytes) const;
  void end(Done done, Result<wire::ReplyHeadT> result);

  Options options_;
  net::Caller& caller_;
  const net::Identity identity_ = [] {
    net::Identity identity = net::Identity::of_this_process();
    identity.is_server = true;
    return identity;
  }();
  wire::CountersT own_counters_;  // of calls to itself, which are no traffic
  std::vector<std::shared_ptr<Peer>> peers_;
  std::vector<std::uint32_t> target_servers_;
  bool is_stopped_ = false;
  const std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace weir::server::internal
