#pragma once

// All links of one end, whatever they are made of: rings within the host, UCX to others.

#include <memory>

#include <weir/net/internal/link.h>
#include <weir/net/internal/ring_worker.h>
#include <weir/net/internal/transports.h>
#include <weir/net/internal/ucx_worker.h>

namespace weir::net::internal {

/// \threadsafety One thread at a time.
class Links {
 public:
  Links(Worker::OnFrame on_frame, Rings rings);
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// UCX, which is started when first needed: that takes tens of milliseconds.  `address`: as UcxWorker::create() wants
  /// it.
  Result<UcxWorker*> ucx(const sockaddr_storage& address);
  /// Null if there are none.
  [[nodiscard]] RingWorker* rings() { return rings_.get(); }

  /// A link to whoever listens there: through rings if that is on this host.
  Result<std::shared_ptr<Link>> connect(const Address& address, Deadline deadline);

  /// Does what can be done now; true if there was something.
  bool progress();
  /// Takes in what has come, and new links, without doing more about it than on_frame does.
  void take_in();
  /// Lets others run for a moment if it is quicker to try again after that than to sleep: something has happened just
  /// now, and nobody else wants this core.  False at once if not.
  bool linger();
  /// Waits until there is something to do, `wake_fd` can be read, or the deadline.  May return early.
  void sleep(Deadline deadline, int wake_fd = -1);
  /// As sleep(), but tries for a moment first if something has happened just now: much quicker if the answer is on its
  /// way.
  void spin_then_sleep(Deadline deadline);
  /// Something has happened: a call was sent.
  void note_activity() { last_activity_ = Clock::now(); }

  [[nodiscard]] bool has_streams() const;
  void flush(Deadline deadline);
  void finish_closing(Deadline deadline);

 private:
  Worker::OnFrame on_frame_;
  std::unique_ptr<RingWorker> rings_;
  std::unique_ptr<UcxWorker> ucx_;
  Clock::time_point last_activity_ = Clock::now();
};

/// Of the socket that callers on the host of `address` connect to.
std::string ring_name(const Address& address);

}  // namespace weir::net::internal
