#pragma once

// Numbers that clients share: each use is one message, worked on by the one thread of the server, so additions are
// exact however many come.
//
// Counters live in memory only.  Their numbers are random: a server that was started again never takes the counter of
// somebody else for an old one, and says that it does not know it.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <weir/base/result.h>
#include <weir/net/net.h>
#include <weir/wire/wire.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time.
class CounterTable {
 public:
  /// Of all peers together: none can take all memory.
  static constexpr std::size_t kMostHolders = 1'000'000;

  CounterTable();
  /// With numbers as `random` gives them, for tests.
  explicit CounterTable(std::function<std::uint64_t()> random) : random_(std::move(random)) {}

  /// \returns the value from before
  /// \error kNotFound if there is no such counter; kOutOfRange if the value would leave [-2^62, 2^62]; kNoSpace
  Result<wire::CounterValueT> use(net::PeerId peer, const wire::UseCounterT& request);
  /// The peer is gone: so are counters that nobody else holds.
  void drop(net::PeerId peer);

  [[nodiscard]] std::size_t size() const noexcept { return counters_.size(); }

 private:
  struct Holder {
    net::PeerId peer = 0;
    std::uint64_t number = 0;
    friend auto operator<=>(const Holder&, const Holder&) = default;
  };
  struct Counter {
    Offset value = 0;
    std::set<Holder> holders;
  };
  using Counters = std::map<std::uint64_t, Counter>;

  Counters::iterator make();
  Status hold(Counter& counter, Holder holder);
  Counters::iterator remove(Counters::iterator counter);

  std::function<std::uint64_t()> random_;
  Counters counters_;
  std::size_t holders_ = 0;
};

}  // namespace weir::server::internal
