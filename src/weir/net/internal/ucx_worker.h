#pragma once

// Links made of UCX endpoints, to other hosts: TCP here, RDMA where there is some.
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
#include <weir/net/internal/ucx.h>
#include <weir/net/net.h>

namespace weir::net::internal {

class UcxContext;
class UcxLink;

class UcxWorker : public Worker {
 public:
  /// `address`: of this end, or of the first one to be reached.  UCX opens a port of its own on the network device that
  /// has it (that leads there), and on no other; on all devices if that is every address.  WEIR_UCX_NET_DEVICES names
  /// other devices.
  static Result<std::unique_ptr<UcxWorker>> create(OnFrame on_frame, const sockaddr_storage& address);
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

  UcxWorker(std::shared_ptr<UcxContext> context, OnFrame on_frame);
  static ucs_status_t on_message(void* worker, const void* header, size_t header_bytes, void* data, size_t bytes,
                                 const ucp_am_recv_param_t* param);
  Result<std::shared_ptr<Link>> make_link(ucp_ep_params_t params);
  Link* link_of(ucp_ep_h endpoint);
  bool take_in() override;
  void collect() override;

  std::shared_ptr<UcxContext> context_;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::size_t messages_ = 0;  // sent, but not yet let go by UCX
  std::vector<std::shared_ptr<UcxLink>> links_;
  std::vector<Closing> closing_;
};

/// kUnavailable, with UCX's own words.
Status ucx_error(std::string_view operation, ucs_status_t status);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

/// Of "tcp:HOST:PORT"; HOST may be a name, an address, or an IPv6 address in brackets.  \error kInvalidArgument,
/// kUnavailable
Result<SocketAddress> resolve(const Address& address);
/// The other way round.
Address to_address(const sockaddr_storage& storage);
/// Whether only this host reaches it.
bool is_loopback(const sockaddr_storage& storage);
/// The network device that has the address, or that leads to it if none has; empty if that is not one.
std::string device_of(const sockaddr_storage& storage);

}  // namespace weir::net::internal
