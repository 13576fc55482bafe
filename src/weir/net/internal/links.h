#pragma once

// All links of one end, whatever they are made of: rings within the host, sockets to others, UCX if a fabric is named.

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include <weir/net/internal/link.h>
#include <weir/net/internal/ring_worker.h>
#include <weir/net/internal/socket_worker.h>
#include <weir/net/internal/transports.h>
#include <weir/net/internal/ucx_worker.h>

namespace weir::net::internal {

/// \threadsafety One thread at a time.
class Links {
 public:
  Links(Worker::OnFrame on_frame, SocketWorker::Place place, Rings rings, const runtime::Runtime& runtime);
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Sockets, made when first needed.
  Result<SocketWorker*> sockets();
  /// UCX, which is started when first needed: that takes tens of milliseconds.  \pre has_fabric()
  Result<UcxWorker*> ucx();
  /// Whether other hosts are reached over a fabric, by UCX: WEIR_FABRIC names its devices.
  [[nodiscard]] bool has_fabric() const { return !fabric_.empty(); }
  /// Null if there are none.
  [[nodiscard]] RingWorker* rings() { return rings_.get(); }

  /// A link to the process that listens there: through rings if that is on this host.  Null: it is busy; try again
  /// soon.
  Result<std::shared_ptr<Link>> connect(const SocketAddress& socket, const Key& key);

  /// Does what can be done now; true if there was something.
  bool progress();
  /// Takes in what has come, and new links, without doing more about it than on_frame does.
  void take_in();
  /// Lets others run for a moment if it is quicker to try again after that than to sleep: something has happened just
  /// now, and nobody else wants this core.  False at once if not.
  bool linger();
  /// Waits until there is something to do for `links` or `others` (may be null), `wake_fd` can be read (it is
  /// drained), or the deadline.  May return early.
  static void sleep(Links& links, Links* others, Deadline deadline, int wake_fd);
  /// As sleep(), but tries for a moment first if something has happened just now, unless `is_woken`: much quicker if
  /// the answer is on its way.  \returns whether it made progress
  bool spin_then_sleep(Deadline deadline, int wake_fd, const std::atomic<bool>& is_woken);
  /// Something has happened: a call was sent.
  void note_activity() { last_activity_ = now(); }
  [[nodiscard]] Deadline now() const { return runtime_.clock->now(); }

  void stop_listening();
  /// As Worker::set_most_unsent(), for links that come later, too.
  void set_most_unsent(std::size_t bytes, std::size_t together);
  /// Whether frames wait for an end that does not read.
  [[nodiscard]] bool has_unsent() const;
  [[nodiscard]] bool has_streams() const;
  void flush(Deadline deadline);
  void finish_closing(Deadline deadline);

 private:
  /// Those that there are; null otherwise.
  [[nodiscard]] std::array<Worker*, 3> workers() const { return {rings_.get(), sockets_.get(), ucx_.get()}; }

  const runtime::Runtime runtime_;
  const std::string fabric_;
  Worker::OnFrame on_frame_;
  SocketWorker::Place place_;
  std::unique_ptr<RingWorker> rings_;
  std::unique_ptr<SocketWorker> sockets_;
  std::unique_ptr<UcxWorker> ucx_;
  std::size_t most_unsent_ = SIZE_MAX;
  std::size_t most_unsent_together_ = SIZE_MAX;
  Deadline last_activity_ = now();
};

/// Resets an eventfd.
void drain(int event_fd) noexcept;

/// Of the socket that callers on the host of `address` connect to.
std::string ring_name(const Address& address);

}  // namespace weir::net::internal
