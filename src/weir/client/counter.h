#pragma once

#include <cstdint>
#include <memory>

#include <weir/base/checked.h>
#include <weir/base/result.h>

namespace weir::client {

namespace internal {
class Session;
}

/// A number that processes share, in the memory of server 0: `FileSystem::make_counter` makes one, and others find it
/// by its id.
///
/// Every call is one message, and exact however many clients call.  A counter is gone when it is removed, and when the
/// last handle of the last client is (or its connection); it survives no server: kNotFound then.
///
/// A copy is the same handle.  \threadsafety Safe from any thread.
class Counter {
 public:
  [[nodiscard]] std::uint64_t id() const;

  /// Adds.  \returns the value from before
  /// \error kOutOfRange if the sum would leave [-2^62, 2^62]: nothing is added.  kUnavailable, kTimedOut: whether it
  /// was added is not known
  Result<Offset> fetch_add(Offset delta) const;
  Status set(Offset value) const;
  Result<Offset> get() const;
  /// For all who have it.
  Status remove() const;

 private:
  friend class FileSystem;
  struct State;
  static Result<Counter> make(std::shared_ptr<internal::Session> session, Offset value);
  static Result<Counter> find(std::shared_ptr<internal::Session> session, std::uint64_t id);
  explicit Counter(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace weir::client
