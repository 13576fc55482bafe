#pragma once

// Something that many peers want and of which there is only so much at a time: memory for bodies, work of the store.  Deficit
// round robin: peers that wait take turns, and each gets about as many units as the others, whether it asks for many small
// shares or few large ones.  One peer alone never has more than its limit, so that there is always some for the next that
// comes.  Shares of one peer are given in the order in which it asked for them.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>

#include <weir/net/net.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time.
class FairShare {
 public:
  struct Options {
    std::size_t most = 0;         ///< Given at any time; more only to somebody who is alone.
    std::size_t most_of_one = 0;  ///< Of one peer; more only as its only share.
    std::size_t quantum = 0;      ///< What a peer may have more before it is the next one's turn.
  };
  explicit FairShare(const Options& options) : options_(options) {}

  /// Calls `start` when `cost` units are the peer's, maybe before this returns.  They are until give_back().
  template <typename Start>
  void ask(net::PeerId id, std::size_t cost, Start start) {
    Peer& peer = peers_[id];
    if (round_.empty() && !is_serving_ && fits(cost) && fits(peer, cost)) {
      take(peer, cost);
      return start();
    }
    if (peer.waiting.empty()) round_.push_back(id);
    peer.waiting.push_back({cost, std::move(start)});
    serve();
  }

  void give_back(net::PeerId id, std::size_t cost) {
    const auto found = peers_.find(id);
    Peer& peer = found->second;
    in_use_ -= cost;
    peer.in_use -= cost;
    // A few that have nothing now are kept: most come again.
    if (peer.in_use == 0 && peer.waiting.empty() && peers_.size() > kKeptPeers) peers_.erase(found);
    serve();
  }

  [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }
  [[nodiscard]] std::size_t peers() const noexcept { return peers_.size(); }

 private:
  struct Waiting {
    std::size_t cost;
    std::function<void()> start;
  };
  struct Peer {
    std::deque<Waiting> waiting;
    std::size_t in_use = 0;
    std::size_t credit = 0;
  };
  static constexpr std::size_t kKeptPeers = 1024;

  [[nodiscard]] bool fits(std::size_t cost) const { return in_use_ == 0 || in_use_ + cost <= options_.most; }
  [[nodiscard]] bool fits(const Peer& peer, std::size_t cost) const {
    return peer.in_use == 0 || peer.in_use + cost <= options_.most_of_one;
  }
  void take(Peer& peer, std::size_t cost) {
    in_use_ += cost;
    peer.in_use += cost;
  }
  void rotate() {
    round_.push_back(round_.front());
    round_.pop_front();
  }

  void serve() {
    if (is_serving_) return;  // further up the stack: it goes on
    is_serving_ = true;
    // Peers in a row that have as much as one may have: once that is all of them, nothing can be done.
    std::size_t full = 0;
    while (!round_.empty() && full < round_.size()) {
      Peer& peer = peers_.at(round_.front());
      const std::size_t cost = peer.waiting.front().cost;
      if (!fits(peer, cost)) {
        ++full;
        rotate();
        continue;
      }
      full = 0;
      if (round_.size() > 1 && peer.credit < cost) {
        peer.credit += options_.quantum;
        rotate();
        continue;
      }
      // It is its turn, and others do not take the room again and again before it is enough.
      if (!fits(cost)) break;
      start_next(peer, cost);
    }
    is_serving_ = false;
  }

  void start_next(Peer& peer, std::size_t cost) {
    const std::function<void()> start = std::move(peer.waiting.front().start);
    peer.waiting.pop_front();
    peer.credit -= std::min(peer.credit, cost);
    take(peer, cost);
    if (peer.waiting.empty()) {
      peer.credit = 0;
      round_.pop_front();
    }
    start();
  }

  const Options options_;
  std::unordered_map<net::PeerId, Peer> peers_;
  std::deque<net::PeerId> round_;  // of those that wait, in the order of their turns
  std::size_t in_use_ = 0;
  bool is_serving_ = false;
};

}  // namespace weir::server::internal
