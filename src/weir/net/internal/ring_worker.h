#pragma once

// Links within a host: two rings in shared memory (ring.h), and a Unix socket that wakes the other end when it sleeps,
// and tells when it is gone.  The caller makes the memory and sends it through the socket; the handshake then goes
// through the rings, as over sockets.

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <weir/base/descriptor.h>
#include <weir/net/internal/acceptor.h>
#include <weir/net/internal/link.h>

namespace weir::net::internal {

class RingLink;

class RingWorker : public Worker {
 public:
  static Result<std::unique_ptr<RingWorker>> create(OnFrame on_frame, const runtime::Clock& clock);
  ~RingWorker() override;

  /// From now on, callers on this host that know the name get a link, which is given to `on_link`: false if it does not
  /// want it.  They may say nothing on it, not even send the memory: limiting that is up to those who get the link.
  Status listen(std::string_view name, std::function<bool(const std::shared_ptr<Link>&)> on_link);
  void stop_listening() { acceptor_.stop(); }
  struct Attempt {
    std::shared_ptr<Link> link;  ///< Null: no process of this user or root on this host listens there.
    bool is_busy = false;        ///< One does, but too many callers wait to be accepted: try again soon.
  };
  Attempt connect(std::string_view name);

  Clock::duration arm() override;
  [[nodiscard]] int event_fd() const override { return events_.get(); }
  void flush(Deadline deadline) override;
  void finish_closing(Deadline) override {}

 private:
  friend class RingLink;
  RingWorker(OnFrame on_frame, const runtime::Clock& clock);
  bool take_in() override;
  void collect() override;
  bool look_at_sockets();
  void accept_all();
  void look_at(RingLink& link);
  bool watch(int descriptor, RingLink* link);

  const runtime::Clock& clock_;
  Descriptor events_;
  Acceptor acceptor_;
  std::function<bool(const std::shared_ptr<Link>&)> on_link_;
  std::vector<std::shared_ptr<RingLink>> links_;
  bool has_slept_ = false;
  unsigned turns_ = 0;
};

}  // namespace weir::net::internal
