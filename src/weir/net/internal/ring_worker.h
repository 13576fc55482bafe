#pragma once

// Links within a host: two rings in shared memory (ring.h), and a Unix socket that wakes the other end when it sleeps,
// and tells when it is gone.  The caller makes the memory and sends it through the socket; the handshake then goes
// through the rings, as over UCX.

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <weir/base/descriptor.h>
#include <weir/net/internal/link.h>

namespace weir::net::internal {

class RingLink;

class RingWorker : public Worker {
 public:
  static Result<std::unique_ptr<RingWorker>> create(OnFrame on_frame);
  ~RingWorker() override;

  /// From now on, callers on this host that know the name get a link, which is given to `on_link`: false if it does not
  /// want it.
  Status listen(std::string_view name, std::function<bool(const std::shared_ptr<Link>&)> on_link);
  void stop_listening() { listener_.reset(); }
  /// Null if nobody on this host listens there, at least nobody who runs for this user or root.
  std::shared_ptr<Link> connect(std::string_view name, Deadline deadline);

  Clock::duration arm() override;
  [[nodiscard]] int event_fd() const override { return events_.get(); }
  void flush(Deadline deadline) override;
  void finish_closing(Deadline) override {}

 private:
  friend class RingLink;
  explicit RingWorker(OnFrame on_frame);
  bool take_in() override;
  void collect() override;
  bool look_at_sockets();
  void accept_all();
  void look_at(RingLink& link);
  bool watch(int descriptor, RingLink* link);

  Descriptor events_;
  Descriptor listener_;
  std::function<bool(const std::shared_ptr<Link>&)> on_link_;
  std::vector<std::shared_ptr<RingLink>> links_;
  bool has_slept_ = false;
  unsigned turns_ = 0;
};

}  // namespace weir::net::internal
