#include <weir/net/internal/ucx_worker.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include <weir/base/text.h>
#include <weir/log/log.h>

namespace weir::net::internal {

namespace {

constexpr unsigned kMessageId = 1;  // UCX tells handlers apart by it; ours are told apart by the frame
constexpr auto kEndpointClosePatience = std::chrono::seconds(1);

struct Setting {
  const char* name;
  const char* value;
};

// In code, so that the user's environment (often set up for MPI) does not change what is tested here.
constexpr Setting kSettings[] = {
    {"RNDV_THRESH", "inf"},
    {"SOCKADDR_TLS_PRIORITY", "tcp"},
    // One piece in one segment.
    {"TX_SEG_SIZE", "16K"},
    {"CM_REUSEADDR", "y"},
    // A host that falls silent is noticed in tens of seconds instead of hours.
    {"KEEPALIVE_INTERVAL", "2s"},
    {"KEEPIDLE", "5s"},
    {"KEEPINTVL", "2s"},
    {"KEEPCNT", "5"},
};

}  // namespace

Status ucx_error(std::string_view operation, ucs_status_t status) {
  return {ErrorCode::kUnavailable, concat(operation, ": ", ucx_calls().ucs_status_string(status))};
}

/// UCX itself; one for all workers of the process on the same devices.
class UcxContext {
 public:
  static Result<std::shared_ptr<UcxContext>> shared(const std::string& devices, const runtime::Settings& settings) {
    static std::mutex mutex;
    static std::map<std::string, std::weak_ptr<UcxContext>> existing;
    const std::lock_guard lock(mutex);
    std::weak_ptr<UcxContext>& known = existing[devices];
    if (auto context = known.lock()) return context;
    WEIR_TRY(std::shared_ptr<UcxContext> context, create(devices, settings));
    known = context;
    return context;
  }

  explicit UcxContext(ucp_context_h context) : context_(context) {}
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;
  ~UcxContext() { ucx_calls().ucp_cleanup(context_); }

  [[nodiscard]] ucp_context_h handle() const { return context_; }

 private:
  static Result<std::shared_ptr<UcxContext>> create(const std::string& devices, const runtime::Settings& settings) {
    WEIR_RETURN_IF_ERROR(load_ucx());
    ucp_config_t* config = nullptr;
    if (const ucs_status_t status = ucx_calls().ucp_config_read("WEIR", nullptr, &config); status != UCS_OK)
      return ucx_error("read UCX's configuration", status);
    const std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)> release(config, ucx_calls().ucp_config_release);
    for (const Setting& setting : kSettings) {
      if (const ucs_status_t status = ucx_calls().ucp_config_modify(config, setting.name, setting.value);
          status != UCS_OK)
        return ucx_error(concat("set UCX's ", setting.name, " to ", setting.value), status);
    }
    const std::string transports = settings.get("WEIR_UCX_TLS");
    ucx_calls().ucp_config_modify(config, "TLS", transports.empty() ? "^sm,tcp" : transports.c_str());
    if (const ucs_status_t status = ucx_calls().ucp_config_modify(config, "NET_DEVICES", devices.c_str());
        status != UCS_OK)
      return ucx_error(concat("set UCX's NET_DEVICES to ", devices), status);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.mt_workers_shared = 1;
    ucp_context_h context = nullptr;
    if (const ucs_status_t status =
            ucx_calls().ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
        status != UCS_OK)
      return ucx_error("start UCX", status);
    return std::make_shared<UcxContext>(context);
  }

  ucp_context_h context_;
};

// ---------------------------------------------------------------- links

class UcxLink : public Link {
 public:
  explicit UcxLink(UcxWorker& worker) : Link(worker) {}
  [[nodiscard]] ucp_ep_h endpoint() const { return endpoint_; }

 private:
  friend class UcxWorker;
  void send_frame(const Frame& frame, Bytes payload) override;
  std::shared_ptr<Outgoing> make_outgoing(std::uint64_t call, std::span<const std::byte> body,
                                          std::function<void()> finished) override;
  void close() override;
  /// Pieces of bodies are UCX's until the end of the endpoint.
  bool tell_dismissal(const std::string& why) override;
  [[nodiscard]] UcxWorker& worker() { return *static_cast<UcxWorker*>(worker_); }
  static void on_error(void* link, ucp_ep_h, ucs_status_t status) {
    static_cast<UcxLink*>(link)->fail(ucx_error("connection", status));
  }

  ucp_ep_h endpoint_ = nullptr;
};

namespace {

/// A message that is UCX's until it is sent.
struct Message {
  FrameHeader header;
  Bytes payload;
  std::size_t& count;  // of messages that are UCX's

  static void on_sent(void* request, ucs_status_t, void* user_data) {
    const std::unique_ptr<Message> message(static_cast<Message*>(user_data));
    --message->count;
    ucx_calls().ucp_request_free(request);
  }
};

/// A few pieces at a time are UCX's.
class UcxOutgoing : public Outgoing {
 public:
  UcxOutgoing(UcxLink& link, std::uint64_t call, std::span<const std::byte> body, std::function<void()> finished)
      : Outgoing(link, call, body, std::move(finished)), endpoint_(link.endpoint()) {
    for (Slot& slot : slots_) slot.owner = this;
  }
  [[nodiscard]] bool is_held() const override { return in_flight_ > 0; }

 private:
  static constexpr std::size_t kMostInFlight = 16;
  struct Slot {
    UcxOutgoing* owner = nullptr;
    FrameHeader header{};
    bool is_busy = false;
  };

  bool pump() override;
  bool send_piece(Slot& slot);
  static void on_sent(void* request, ucs_status_t status, void* slot);

  ucp_ep_h endpoint_;
  std::size_t in_flight_ = 0;
  std::array<Slot, kMostInFlight> slots_;
};

bool UcxOutgoing::pump() {
  std::size_t sent = 0;
  for (Slot& slot : slots_) {
    while (!slot.is_busy && has_more() && sent < kMostAtOnce) {
      if (!send_piece(slot)) return sent > 0;
      ++sent;
    }
  }
  return sent > 0;
}

bool UcxOutgoing::send_piece(Slot& slot) {
  const std::span<const std::byte> piece = body_.subspan(next_, std::min(kPieceBytes, body_.size() - next_));
  slot.header = encode(next_frame(piece.size()));
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &UcxOutgoing::on_sent;
  param.user_data = &slot;
  void* request = ucx_calls().ucp_am_send_nbx(endpoint_, kMessageId, slot.header.data(), slot.header.size(),
                                              piece.data(), piece.size(), &param);
  if (UCS_PTR_IS_ERR(request)) {
    stop();  // the error handler of the endpoint tells the rest
    return false;
  }
  if (request != nullptr) {
    slot.is_busy = true;
    ++in_flight_;
  }
  return true;
}

void UcxOutgoing::on_sent(void* request, ucs_status_t status, void* user_data) {
  auto* slot = static_cast<Slot*>(user_data);
  slot->is_busy = false;
  --slot->owner->in_flight_;
  if (status != UCS_OK) slot->owner->stop();
  ucx_calls().ucp_request_free(request);
}

}  // namespace

void UcxLink::send_frame(const Frame& frame, Bytes payload) {
  auto message = std::make_unique<Message>(Message{encode(frame), std::move(payload), worker().messages_});
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  if (is_handshake(frame.kind)) param.flags |= UCP_AM_SEND_FLAG_REPLY;
  param.cb.send = &Message::on_sent;
  param.user_data = message.get();
  void* request = ucx_calls().ucp_am_send_nbx(endpoint_, kMessageId, message->header.data(), message->header.size(),
                                              message->payload.data(), message->payload.size(), &param);
  if (!UCS_PTR_IS_PTR(request)) return;  // it is sent, or the error handler of the endpoint tells
  ++worker().messages_;
  static_cast<void>(message.release());
}

std::shared_ptr<Outgoing> UcxLink::make_outgoing(std::uint64_t call, std::span<const std::byte> body,
                                                 std::function<void()> finished) {
  return std::make_shared<UcxOutgoing>(*this, call, body, std::move(finished));
}

bool UcxLink::tell_dismissal(const std::string& why) {
  Frame frame;
  frame.kind = FrameKind::kGoodbye;
  frame.session = session();
  const auto text = std::as_bytes(std::span(why));
  send_frame(frame, {text.begin(), text.end()});
  return false;
}

void UcxLink::close() {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucx_calls().ucp_ep_close_nbx(endpoint_, &param);
  std::vector<std::shared_ptr<UcxLink>>& links = worker().links_;
  const auto self = std::find_if(links.begin(), links.end(), [&](const auto& link) { return link.get() == this; });
  if (UCS_PTR_IS_PTR(request)) worker().closing_.push_back({request, *self});
  links.erase(self);
}

// ---------------------------------------------------------------- worker

UcxWorker::UcxWorker(std::shared_ptr<UcxContext> context, OnFrame on_frame, const runtime::Clock& clock)
    : Worker(std::move(on_frame)), clock_(clock), context_(std::move(context)) {}

Result<std::unique_ptr<UcxWorker>> UcxWorker::create(OnFrame on_frame, const std::string& devices,
                                                     const runtime::Runtime& runtime) {
  WEIR_TRY(std::shared_ptr<UcxContext> context, UcxContext::shared(devices, *runtime.settings));
  std::unique_ptr<UcxWorker> self(new UcxWorker(std::move(context), std::move(on_frame), *runtime.clock));
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  // Not those of sending: what UCX 1.13 could not send to a process that was killed stays with it for ever, and would
  // keep it awake.
  params.events = UCP_WAKEUP_RX;
  if (const ucs_status_t status = ucx_calls().ucp_worker_create(self->context_->handle(), &params, &self->worker_);
      status != UCS_OK)
    return ucx_error("create a UCX worker", status);
  if (const ucs_status_t status = ucx_calls().ucp_worker_get_efd(self->worker_, &self->event_fd_); status != UCS_OK)
    return ucx_error("get UCX's event descriptor", status);
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = &UcxWorker::on_message;
  handler.arg = self.get();
  if (const ucs_status_t status = ucx_calls().ucp_worker_set_am_recv_handler(self->worker_, &handler); status != UCS_OK)
    return ucx_error("set the handler of messages", status);
  return self;
}

UcxWorker::~UcxWorker() {
  if (worker_ == nullptr) return;
  on_frame_ = nullptr;
  while (!links_.empty()) links_.back()->abort();
  const auto patience = clock_.now() + kEndpointClosePatience;
  while ((!closing_.empty() || has_streams()) && clock_.now() < patience) progress();
  if (!closing_.empty() || has_streams())
    WEIR_LOG_WARN("UCX: {} endpoints do not close, or keep bodies that were being sent", closing_.size());
  for (const Closing& closing : closing_) ucx_calls().ucp_request_free(closing.request);
  ucx_calls().ucp_worker_destroy(worker_);
}

ucs_status_t UcxWorker::on_message(void* user_data, const void* header, size_t header_bytes, void* data, size_t bytes,
                                   const ucp_am_recv_param_t* param) {
  auto* self = static_cast<UcxWorker*>(user_data);
  // Weir never sends by rendezvous; a peer that does is not Weir.
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  const auto frame = decode_frame({static_cast<const std::byte*>(header), header_bytes}, bytes);
  if (!frame.is_ok()) {
    WEIR_LOG_DEBUG("net: ignored a {}", frame.status().message());
    return UCS_OK;
  }
  const bool has_endpoint = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  if (self->on_frame_)
    self->on_frame_(*frame, {static_cast<const std::byte*>(data), bytes},
                    has_endpoint ? self->link_of(param->reply_ep) : nullptr);
  return UCS_OK;
}

Link* UcxWorker::link_of(ucp_ep_h endpoint) {
  const auto found =
      std::find_if(links_.begin(), links_.end(), [&](const auto& link) { return link->endpoint() == endpoint; });
  return found == links_.end() ? nullptr : found->get();
}

Result<std::shared_ptr<Link>> UcxWorker::make_link(ucp_ep_params_t params) {
  auto link = std::make_shared<UcxLink>(*this);
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxLink::on_error;
  params.err_handler.arg = link.get();
  if (const ucs_status_t status = ucx_calls().ucp_ep_create(worker_, &params, &link->endpoint_); status != UCS_OK)
    return ucx_error("create an endpoint", status);
  link->is_open_ = true;
  links_.push_back(link);
  return std::shared_ptr<Link>(std::move(link));
}

Result<std::shared_ptr<Link>> UcxWorker::connect(const sockaddr* address, socklen_t length) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr.addr = address;
  params.sockaddr.addrlen = length;
  return make_link(params);
}

Result<std::shared_ptr<Link>> UcxWorker::accept(ucp_conn_request_h request) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  return make_link(params);
}

bool UcxWorker::take_in() {
  bool has_progressed = false;
  // A few turns, so that streams and timers do not starve.
  for (int turn = 0; turn < 16 && ucx_calls().ucp_worker_progress(worker_) != 0; ++turn) has_progressed = true;
  return has_progressed;
}

void UcxWorker::collect() {
  std::erase_if(closing_, [](const Closing& closing) {
    if (ucx_calls().ucp_request_check_status(closing.request) == UCS_INPROGRESS) return false;
    ucx_calls().ucp_request_free(closing.request);
    return true;
  });
}

void UcxWorker::flush(Deadline deadline) {
  ucp_request_param_t param{};
  void* request = ucx_calls().ucp_worker_flush_nbx(worker_, &param);
  if (!UCS_PTR_IS_PTR(request)) return;
  while (ucx_calls().ucp_request_check_status(request) == UCS_INPROGRESS && clock_.now() < deadline) progress();
  ucx_calls().ucp_request_free(request);
}

void UcxWorker::finish_closing(Deadline deadline) {
  while (!closing_.empty() && clock_.now() < deadline) progress();
}

Clock::duration UcxWorker::arm() {
  // Something has come; or a peer does not take in what is waiting for it, and no event tells when it does.
  const bool is_armed = ucx_calls().ucp_worker_arm(worker_) == UCS_OK;
  return is_armed && !has_streams() && messages_ == 0 && closing_.empty() ? Clock::duration::max() : kRestless;
}

}  // namespace weir::net::internal
