#pragma once

// Advisory locks of byte ranges of files, shared or exclusive, as fcntl() of POSIX has them: a holder's locks never
// conflict with each other, a new one takes the place of what the holder had in that range, and unlocking cuts holes.
//
// Fair: who asks first gets it first.  A request waits for locks held by others and for requests of others that came
// earlier and conflict with it, so that writers are not starved by readers.

#include <cstdint>
#include <functional>
#include <list>
#include <unordered_map>
#include <vector>

#include <weir/base/status.h>
#include <weir/layout/mapping.h>
#include <weir/net/net.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time.
class Locks {
 public:
  struct Holder {
    net::PeerId peer = 0;
    std::uint64_t owner = 0;  ///< As the peer numbers those that it locks for.
    friend bool operator==(const Holder&, const Holder&) = default;
  };
  using Granted = std::function<void(Status)>;
  /// Names a request that waits; 0 is none.
  using Ticket = std::uint64_t;

  /// Of all peers together.
  static constexpr std::size_t kMostLocks = 1'000'000;

  /// `most_of_one`: held and waited for by one peer.
  explicit Locks(std::size_t most_of_one = kMostLocks) : most_of_one_(most_of_one) {}

  /// Calls `granted` once: before it returns if nothing is in the way, otherwise when that is so, or with the status
  /// given to cancel().
  /// \returns the ticket of a request that has to wait  \pre range.from < range.to
  Ticket lock(std::uint64_t file, layout::Range range, bool exclusive, Holder holder, Granted granted);
  /// Whether lock() would grant it at once.
  [[nodiscard]] bool is_free(std::uint64_t file, layout::Range range, bool exclusive, Holder holder) const;
  /// Unlocks what the holder has in the range; nothing is fine too.
  void unlock(std::uint64_t file, layout::Range range, Holder holder);
  /// The request gets `status`, if it still waits.
  void cancel(Ticket ticket, const Status& status);
  /// The peer is gone: so are its locks.  Its requests get kUnavailable.
  void drop(net::PeerId peer);
  /// All that wait get `status`.
  void cancel_all(const Status& status);

  [[nodiscard]] std::size_t size() const noexcept { return count_; }  ///< Held and waited for.

 private:
  struct Lock {
    layout::Range range;
    bool exclusive = false;
    Holder holder;
  };
  struct Waiting {
    Lock lock;
    Ticket ticket = 0;
    Granted granted;
  };
  struct File {
    std::vector<Lock> held;
    std::list<Waiting> waiting;
  };
  using Calls = std::vector<std::function<void()>>;

  static bool conflict(const Lock& x, const Lock& y);
  static bool is_blocked(const File& file, const Lock& lock, std::list<Waiting>::const_iterator end);
  void release(File& file, layout::Range range, Holder holder);
  void grant(File& file, const Lock& lock);
  void grant_waiting(File& file, Calls& calls);
  void forget_if_unused(std::uint64_t number);
  [[nodiscard]] Status check_room(net::PeerId peer) const;
  /// Notes that the peer has so many more (modulo 2^64: less).
  void count(net::PeerId peer, std::size_t more);
  template <typename Predicate>
  void cancel_if(Predicate predicate, const Status& status);

  std::unordered_map<std::uint64_t, File> files_;
  std::unordered_map<Ticket, std::uint64_t> files_of_tickets_;
  Ticket last_ticket_ = 0;
  const std::size_t most_of_one_;
  std::size_t count_ = 0;
  std::unordered_map<net::PeerId, std::size_t> counts_;  // of those that have some
};

}  // namespace weir::server::internal
