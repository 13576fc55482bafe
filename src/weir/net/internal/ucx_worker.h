#pragma once

// Links made of UCX endpoints, on the devices of an RDMA fabric that are named: the fabric is trusted, as MPI does.
//
// All messages are sent eagerly.  UCX's rendezvous would write into the receiver's memory on its own, and in UCX 1.13 a
// receive that has begun cannot be cancelled: after a deadline the memory would stay in danger.  kPull and kBody frames
// give the same flow: nothing large is sent before somebody has room for it.
//
// UCX's own shared memory is left out: a process that is killed while it writes there leaves a hole in the queue of its
// peer, which then never gets anything from anybody any more.  Rings (ring_worker.h) take its place.
//
// Nothing here calls back from within UCX, except for frames.

#include <memory>
#include <string>
#include <vector>

#include <sys/socket.h>

#include <weir/base/result.h>
#include <weir/net/internal/link.h>
#include <weir/net/internal/socket_address.h>
#include <weir/net/internal/ucx.h>
#include <weir/net/net.h>

namespace weir::net::internal {

class UcxContext;
class UcxLink;

class UcxWorker : public Worker {
 public:
  /// `devices`: UCX opens what it needs on these, and on no other.  It never uses TCP, whose port obeys strangers, unless
  /// WEIR_UCX_TLS names it.
  static Result<std::unique_ptr<UcxWorker>> create(OnFrame on_frame, const std::string& devices,
                                                   const runtime::Runtime& runtime);
  /// Closes what is open.
  ~UcxWorker() override;

  Result<std::shared_ptr<Link>> connect(const sockaddr* address, socklen_t length);
  Result<std::shared_ptr<Link>> accept(ucp_conn_request_h request);
  [[nodiscard]] ucp_worker_h handle() const { return worker_; }

  Clock::duration arm() override;
  [[nodiscard]] int event_fd() const override { return event_fd_; }
  void flush(Deadline deadline) override;
  void finish_closing(Deadline deadline) override;

 private:
  friend class UcxLink;
  struct Closing {
    void* request;
    std::shared_ptr<UcxLink> link;  // UCX has its address until then
  };

  UcxWorker(std::shared_ptr<UcxContext> context, OnFrame on_frame, const runtime::Clock& clock);
  static ucs_status_t on_message(void* worker, const void* header, size_t header_bytes, void* data, size_t bytes,
                                 const ucp_am_recv_param_t* param);
  Result<std::shared_ptr<Link>> make_link(ucp_ep_params_t params);
  Link* link_of(ucp_ep_h endpoint);
  bool take_in() override;
  void collect() override;

  const runtime::Clock& clock_;
  std::shared_ptr<UcxContext> context_;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::size_t messages_ = 0;  // sent, but not yet let go by UCX
  std::vector<std::shared_ptr<UcxLink>> links_;
  std::vector<Closing> closing_;
};

/// kUnavailable, with UCX's own words.
Status ucx_error(std::string_view operation, ucs_status_t status);

}  // namespace weir::net::internal
