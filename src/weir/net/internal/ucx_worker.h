#pragma once

// UCX behind three small classes: a worker (one thread's endpoints and events), links (endpoints that carry frames), and bodies on their way out.
//
// All messages are sent eagerly.  UCX's rendezvous would write into the receiver's memory on its own, and in UCX 1.13 a receive that has begun
// cannot be cancelled: after a deadline the memory would stay in danger.  kPull and kBody frames give the same flow (nothing large is sent
// before somebody has room for it) at the same speed through shared memory and TCP.
//
// Nothing here calls back from within UCX, except for frames.

#include <array>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include <weir/base/result.h>
#include <weir/net/internal/frame.h>
#include <weir/net/net.h>

namespace weir::net::internal {

class Link;
class UcxWorker;

/// A body on its way out, piece by piece; a few pieces at a time are UCX's.
class Outgoing {
 public:
  Outgoing(Link& link, std::uint64_t call, std::span<const std::byte> body, std::function<void()> finished);

  /// Sends no further piece.  `finished` comes once UCX has let go of those under way.
  void stop() { is_stopped_ = true; }
  /// Whether UCX may still read the body.
  [[nodiscard]] bool is_held() const { return in_flight_ > 0; }

 private:
  friend class UcxWorker;
  friend class Link;
  static constexpr std::size_t kMostInFlight = 16;
  static constexpr std::size_t kMostAtOnce = 32;  // so that one long body does not keep all others waiting

  struct Slot {
    Outgoing* owner = nullptr;
    FrameHeader header{};
    bool is_busy = false;
  };

  /// True if it sent something.
  bool pump();
  bool send_piece(Slot& slot);
  [[nodiscard]] bool has_more() const { return !is_stopped_ && next_ < body_.size(); }
  static void on_sent(void* request, ucs_status_t status, void* slot);

  Link* link_;
  std::uint64_t call_;
  std::span<const std::byte> body_;
  std::function<void()> finished_;
  std::size_t next_ = 0;
  std::size_t in_flight_ = 0;
  bool is_stopped_ = false;
  std::array<Slot, kMostInFlight> slots_;
};

/// One end of a connection.
class Link : public std::enable_shared_from_this<Link> {
 public:
  explicit Link(UcxWorker& worker) : worker_(&worker) {}

  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] ucp_ep_h endpoint() const { return endpoint_; }
  /// What frames from now on carry.
  void set_session(std::uint64_t session) { session_ = session; }
  /// Called once, from UcxWorker::progress(), if the other end is gone.
  void set_on_failure(std::function<void(const Status&)> on_failure) { on_failure_ = std::move(on_failure); }

  /// Nothing if the link is closed: that has been told.
  void send(Frame frame, Bytes payload = {});
  /// `finished` once the body is UCX's no more, sent or not; from UcxWorker::progress().
  std::shared_ptr<Outgoing> send_body(std::uint64_t call, std::span<const std::byte> body,
                                      std::function<void()> finished);
  /// Tells the other end that this one goes; abort() comes next.
  void say_goodbye();
  /// The other end has said so: as if UCX had told.
  void take_goodbye() { on_error(this, endpoint_, UCS_ERR_CONNECTION_RESET); }
  /// Closes at once: what UCX has not sent is given up.  on_failure is not called any more.
  void abort();

 private:
  friend class UcxWorker;
  friend class Outgoing;
  static void on_error(void* link, ucp_ep_h endpoint, ucs_status_t status);
  void stop_streams();

  UcxWorker* worker_;
  ucp_ep_h endpoint_ = nullptr;
  std::uint64_t session_ = 0;
  bool is_open_ = false;
  std::function<void(const Status&)> on_failure_;
};

class UcxContext;

/// \threadsafety One thread at a time.
class UcxWorker {
 public:
  /// A frame has come; `reply_to` only in the handshake: the endpoint that the frame came from.
  using OnFrame = std::function<void(const Frame&, std::span<const std::byte> payload, ucp_ep_h reply_to)>;

  static Result<std::unique_ptr<UcxWorker>> create(OnFrame on_frame);
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;
  /// Closes what is open.
  ~UcxWorker();

  Result<std::shared_ptr<Link>> connect(const sockaddr* address, socklen_t length);
  Result<std::shared_ptr<Link>> accept(ucp_conn_request_h request);

  [[nodiscard]] ucp_worker_h handle() const { return worker_; }

  /// Does what can be done now; true if there was something.
  bool progress();
  /// Whether something happened so recently that more is likely: then it is quicker to try again than to sleep.
  [[nodiscard]] bool is_lively() const;
  /// Waits until there is something to do, `wake_fd` can be read, or the deadline.  May return early.
  void sleep(Deadline deadline, int wake_fd = -1);
  /// As sleep(), but tries for a moment first, which is much quicker if the answer is on its way.
  void spin_then_sleep(Deadline deadline);

  [[nodiscard]] bool has_streams() const { return !streams_.empty(); }
  /// Lets what was sent leave this process.
  void flush(Deadline deadline);
  /// Lets UCX finish with links that were closed; only then does the other end notice.
  void finish_closing(Deadline deadline);

 private:
  friend class Link;
  friend class Outgoing;
  struct Closing {
    void* request;
    std::shared_ptr<Link> link;  // UCX has its address until then
  };

  UcxWorker(std::shared_ptr<UcxContext> context, OnFrame on_frame);
  static ucs_status_t on_message(void* worker, const void* header, size_t header_bytes, void* data, size_t bytes,
                                 const ucp_am_recv_param_t* param);
  Result<std::shared_ptr<Link>> make_link(ucp_ep_params_t params);
  bool pump_streams();
  bool tell_failures();
  void collect_closed();

  std::shared_ptr<UcxContext> context_;
  OnFrame on_frame_;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::size_t messages_ = 0;  // sent, but not yet let go by UCX
  std::list<std::shared_ptr<Outgoing>> streams_;
  std::vector<std::shared_ptr<Link>> links_;
  struct Failure {
    std::shared_ptr<Link> link;
    ucs_status_t why;
  };
  std::vector<Failure> failures_;
  std::vector<Closing> closing_;
  Clock::time_point last_progress_ = Clock::now();
};

/// kUnavailable, with UCX's own words.
Status ucx_error(std::string_view operation, ucs_status_t status);

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

/// Of "tcp:HOST:PORT"; HOST may be a name, an address, or an IPv6 address in brackets.  \error kInvalidArgument, kUnavailable
Result<SocketAddress> resolve(const Address& address);
/// The other way round.
Address to_address(const sockaddr_storage& storage);

}  // namespace weir::net::internal
