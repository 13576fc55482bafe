#pragma once

// A listening socket in the epoll set of a worker.  It keeps going when the process has no descriptors left: a spare one is
// closed, so that the next connection can be accepted, and closed at once.  Otherwise that connection would wait, and keep
// the event loop awake.  Should another thread take the spare one, the socket is not watched for a moment.

#include <cstdint>

#include <sys/socket.h>

#include <weir/base/descriptor.h>
#include <weir/net/net.h>

namespace weir::net::internal {

/// \threadsafety One thread at a time.
class Acceptor {
 public:
  /// Watches the socket from now on, with a null pointer as its data.  \returns false if that fails: see errno
  bool begin(Descriptor listener, int events);
  void stop() { listener_.reset(); }
  [[nodiscard]] bool is_open() const { return listener_.is_open(); }

  /// The next connection; not open: there is none that could be accepted now.
  Descriptor accept(sockaddr* from = nullptr, socklen_t* length = nullptr);
  /// Watches the socket again, if it is not and can be.
  void resume();
  /// The longest that may be slept.
  [[nodiscard]] Clock::duration patience() const;

 private:
  bool turn_away();
  bool watch(bool is_watched);

  Descriptor listener_;
  int events_ = -1;
  Descriptor spare_;
  bool is_paused_ = false;
  std::uint64_t turned_away_ = 0;
};

}  // namespace weir::net::internal
