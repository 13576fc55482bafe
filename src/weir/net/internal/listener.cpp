// The answering end: accepts callers of other processes, checks the key, hands requests to the handler.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <unordered_map>

#include <sys/eventfd.h>
#include <unistd.h>

#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/net/internal/errors.h>
#include <weir/net/internal/handshake.h>
#include <weir/net/internal/links.h>
#include <weir/net/internal/request.h>
#include <weir/net/internal/tasks.h>
#include <weir/net/internal/transports.h>

namespace weir::net::internal {

namespace {

/// Peers that have not proven the key: so many at a time, for so long.
constexpr std::size_t kMostStrangers = 256;
constexpr auto kStrangerPatience = std::chrono::seconds(5);
/// How long stop() waits for bodies that callers do not take in.
constexpr auto kStopPatience = std::chrono::seconds(2);
constexpr auto kClosePatience = std::chrono::milliseconds(500);

/// A body on its way in.
struct Incoming {
  std::span<std::byte> into;
  std::size_t received_bytes = 0;
  std::function<void(Status)> done;
};

struct Peer {
  PeerId id = 0;
  std::shared_ptr<Link> link;
  ListenerHandshake handshake;
  bool is_proven = false;
  Identity identity;
  std::uint64_t session = 0;                                              // of frames from it
  std::unordered_map<std::uint64_t, Incoming> incoming;                   // by call
  std::unordered_map<std::uint64_t, std::shared_ptr<Outgoing>> outgoing;  // by call
};

/// What requests may still need when the listener is gone.
struct Shared {
  Address address;
  std::size_t outstanding = 0;  // requests that the handler has
};

class ProcessRequest : public Request::Impl {
 public:
  ProcessRequest(std::shared_ptr<Shared> shared, std::shared_ptr<Peer> peer, const Frame& frame,
                 std::span<const std::byte> payload)
      : shared_(std::move(shared)),
        peer_(std::move(peer)),
        call_(frame.call),
        head_bytes_(frame.head_bytes),
        body_bytes_(frame.number),
        sink_bytes_(frame.sink_bytes),
        payload_(payload.begin(), payload.end()) {
    ++shared_->outstanding;
  }
  ProcessRequest(const ProcessRequest&) = delete;
  ProcessRequest& operator=(const ProcessRequest&) = delete;

  ~ProcessRequest() override {
    forget_body();
    if (!is_answered_) send(FrameKind::kDropped);
    --shared_->outstanding;
  }

  [[nodiscard]] std::span<const std::byte> head() const override { return std::span(payload_).first(head_bytes_); }
  [[nodiscard]] std::size_t body_bytes() const override { return body_bytes_; }
  [[nodiscard]] PeerId peer() const override { return peer_->id; }
  [[nodiscard]] const Identity& identity() const override { return peer_->identity; }

  void receive(std::span<std::byte> into, std::function<void(Status)> done) override {
    if (into.size() != body_bytes_) return done(wrong_room(into.size(), body_bytes_));
    const std::span<const std::byte> here = std::span(payload_).subspan(head_bytes_);
    if (here.size() == body_bytes_) {
      if (!here.empty()) std::memcpy(into.data(), here.data(), here.size());
      return done(Status::ok());
    }
    if (!peer_->link->is_open()) return done(gone(shared_->address, "the caller is gone"));
    if (peer_->incoming.contains(call_)) return done(corrupt(concat("receive: two calls have the number ", call_)));
    peer_->incoming[call_] = {into, 0, std::move(done)};
    send(FrameKind::kPull);
  }

  void reply(Bytes head, std::span<const std::byte> body, std::function<void()> sent) override {
    is_answered_ = true;
    forget_body();
    if (head.size() > kMostHeadBytes) {
      WEIR_LOG_ERROR("net: a reply with a head of {} bytes is not sent; at most {}", head.size(), kMostHeadBytes);
      send(FrameKind::kDropped);
      if (sent) sent();
      return;
    }
    Frame frame;
    frame.kind = FrameKind::kReply;
    frame.call = call_;
    frame.head_bytes = static_cast<std::uint32_t>(head.size());
    frame.number = body.size();
    const bool is_inline = head.size() + body.size() <= kPieceBytes;
    if (is_inline) head.insert(head.end(), body.begin(), body.end());
    peer_->link->send(frame, std::move(head));
    // A body that the caller has no room for is not sent: it sees that from the frame.
    if (is_inline || body.size() > sink_bytes_ || !peer_->link->is_open()) {
      if (sent) sent();
      return;
    }
    send_body(body, std::move(sent));
  }

 private:
  void send(FrameKind kind) {
    Frame frame;
    frame.kind = kind;
    frame.call = call_;
    peer_->link->send(frame);
  }

  void send_body(std::span<const std::byte> body, std::function<void()> sent) {
    peer_->outgoing[call_] =
        peer_->link->send_body(call_, body, [weak = std::weak_ptr(peer_), call = call_, then = std::move(sent)] {
          if (const auto peer = weak.lock()) peer->outgoing.erase(call);
          if (then) then();
        });
  }

  void forget_body() {
    const auto found = peer_->incoming.find(call_);
    if (found == peer_->incoming.end()) return;
    const Incoming forgotten = std::move(found->second);  // what `done` holds ends after the entry
    peer_->incoming.erase(found);
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Peer> peer_;
  std::uint64_t call_;
  std::size_t head_bytes_;
  std::size_t body_bytes_;
  std::size_t sink_bytes_;
  Bytes payload_;  // the head, and a small body
  bool is_answered_ = false;
};

class ProcessListener : public Listener {
 public:
  static Result<std::unique_ptr<Listener>> create(const Address& address, const Key& key, Handler& handler);
  ProcessListener(const ProcessListener&) = delete;
  ProcessListener& operator=(const ProcessListener&) = delete;
  ~ProcessListener() override;

  [[nodiscard]] const Address& address() const override { return shared_->address; }
  void run() override;
  void stop() override;
  void post(Task task) override;
  void at(Clock::time_point time, Task task) override { timers_.add(time, std::move(task)); }

 private:
  ProcessListener(const Key& key, Handler& handler)
      : key_(key),
        handler_(handler),
        links_(
            [this](const Frame& frame, std::span<const std::byte> payload, Link* from) { take(frame, payload, from); },
            Rings::kOn) {}
  Status listen(const Address& address);
  void listen_on_this_host();
  static void on_connect(ucp_conn_request_h request, void* listener);
  void accept(ucp_conn_request_h request);
  [[nodiscard]] bool wants_strangers() const { return !is_stopping_ && strangers_.size() < kMostStrangers; }
  void add(std::shared_ptr<Link> link);
  void stop_listening();

  void take(const Frame& frame, std::span<const std::byte> payload, Link* from);
  void take_greeting(const Frame& frame, std::span<const std::byte> payload, Link* from);
  void take_body(Peer& peer, const Frame& frame, std::span<const std::byte> payload);
  void cancel(Peer& peer, std::uint64_t call);
  void welcome(const std::shared_ptr<Peer>& peer, Identity identity);
  void refuse(Peer& peer, const Status& why);
  void lose(PeerId id);
  /// Bodies on their way in do not come any more.
  void fail_incoming(Peer& peer);

  void wake();
  void sleep();
  [[nodiscard]] bool may_return();

  const Key key_;
  Handler& handler_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::unordered_map<PeerId, std::shared_ptr<Peer>> peers_;
  std::unordered_map<const Link*, std::shared_ptr<Peer>> strangers_;  // have not proven the key
  std::unordered_map<std::uint64_t, std::shared_ptr<Peer>> sessions_;
  PeerId next_peer_ = 1;
  Timers timers_;
  Inbox inbox_;
  int wake_fd_ = -1;
  std::atomic<bool> is_stopping_ = false;
  Clock::time_point stop_patience_ = Clock::time_point::max();
  std::vector<Task> ready_;  // what frames have caused: done outside of the workers, as handlers may do anything
  Links links_;
  ucp_listener_h listener_ = nullptr;
};

Result<std::unique_ptr<Listener>> ProcessListener::create(const Address& address, const Key& key, Handler& handler) {
  std::unique_ptr<ProcessListener> self(new ProcessListener(key, handler));
  self->wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (self->wake_fd_ < 0) return Status(ErrorCode::kIoError, concat("eventfd: ", std::strerror(errno)));
  WEIR_RETURN_IF_ERROR(self->listen(address));
  return std::unique_ptr<Listener>(std::move(self));
}

Status ProcessListener::listen(const Address& address) {
  const Result<SocketAddress> socket = resolve(address);
  if (!socket.is_ok()) return {ErrorCode::kIoError, concat("listen: ", socket.status().message())};
  const Result<UcxWorker*> ucx = links_.ucx();
  if (!ucx.is_ok()) return {ErrorCode::kIoError, concat("listen on ", address.text, ": ", ucx.status().message())};
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&socket->storage);
  params.sockaddr.addrlen = socket->length;
  params.conn_handler.cb = &ProcessListener::on_connect;
  params.conn_handler.arg = this;
  if (const ucs_status_t status = ucp_listener_create((*ucx)->handle(), &params, &listener_); status != UCS_OK)
    return {ErrorCode::kIoError, concat("listen on ", address.text, ": ", ucs_status_string(status))};
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (const ucs_status_t status = ucp_listener_query(listener_, &attributes); status != UCS_OK)
    return {ErrorCode::kIoError, concat("listen on ", address.text, ": ", ucs_status_string(status))};
  shared_->address = to_address(attributes.sockaddr);
  listen_on_this_host();
  return Status::ok();
}

// Callers that cannot come this way take the other.
void ProcessListener::listen_on_this_host() {
  if (links_.rings() == nullptr) return;
  const Status status = links_.rings()->listen(ring_name(address()), [this](const std::shared_ptr<Link>& link) {
    if (!wants_strangers()) return false;
    add(link);
    return true;
  });
  if (!status.is_ok()) WEIR_LOG_WARN("net: {}; messages within this host go through UCX", status.message());
}

void ProcessListener::stop_listening() {
  if (links_.rings() != nullptr) links_.rings()->stop_listening();
  if (listener_ != nullptr) ucp_listener_destroy(std::exchange(listener_, nullptr));
}

ProcessListener::~ProcessListener() {
  stop_listening();
  ready_.clear();
  for (const auto& entry : peers_) fail_incoming(*entry.second);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

// ---------------------------------------------------------------- the loop

void ProcessListener::run() {
  while (true) {
    for (const Task& task : inbox_.take()) task();
    timers_.run(Clock::now());
    const bool has_progressed = links_.progress();
    for (const Task& task : std::exchange(ready_, {})) task();
    if (may_return()) break;
    if (has_progressed) continue;
    if (!links_.linger()) sleep();
  }
  // Replies that were sent leave before the connections end.
  stop_listening();
  for (const auto& entry : peers_) entry.second->link->say_goodbye();
  links_.flush(Clock::now() + kClosePatience);
  for (const auto& entry : std::exchange(peers_, {})) {
    entry.second->link->abort();
    fail_incoming(*entry.second);
  }
  strangers_.clear();
  sessions_.clear();
  links_.finish_closing(Clock::now() + kClosePatience);
}

bool ProcessListener::may_return() {
  if (!is_stopping_ || shared_->outstanding > 0) return false;
  if (stop_patience_ == Clock::time_point::max()) stop_patience_ = Clock::now() + kStopPatience;
  return !links_.has_streams() || Clock::now() > stop_patience_;
}

void ProcessListener::stop() {
  is_stopping_ = true;
  wake();
}

void ProcessListener::post(Task task) {
  if (inbox_.add(std::move(task))) wake();
}

void ProcessListener::wake() {
  const std::uint64_t one = 1;
  // Fails only if it is full, and then it is awake.
  static_cast<void>(!::write(wake_fd_, &one, sizeof one));
}

void ProcessListener::sleep() {
  links_.sleep(std::min(timers_.next(), stop_patience_), wake_fd_);
  std::uint64_t count = 0;
  static_cast<void>(!::read(wake_fd_, &count, sizeof count));
}

// ---------------------------------------------------------------- peers

void ProcessListener::on_connect(ucp_conn_request_h request, void* listener) {
  static_cast<ProcessListener*>(listener)->accept(request);
}

void ProcessListener::accept(ucp_conn_request_h request) {
  if (!wants_strangers()) {
    ucp_listener_reject(listener_, request);
    return;
  }
  Result<std::shared_ptr<Link>> link = (*links_.ucx())->accept(request);
  if (!link.is_ok()) {
    WEIR_LOG_WARN("net: {}: a connection failed: {}", address().text, link.status().message());
    return;
  }
  add(std::move(*link));
}

void ProcessListener::add(std::shared_ptr<Link> link) {
  auto peer = std::make_shared<Peer>(Peer{.id = next_peer_++,
                                          .link = std::move(link),
                                          .handshake = ListenerHandshake(key_, kProtocolVersion),
                                          .identity = {},
                                          .incoming = {},
                                          .outgoing = {}});
  peer->link->set_on_failure([this, id = peer->id](const Status&) { lose(id); });
  strangers_[peer->link.get()] = peer;
  peers_[peer->id] = peer;
  timers_.add(Clock::now() + kStrangerPatience, [this, id = peer->id] {
    const auto found = peers_.find(id);
    if (found != peers_.end() && !found->second->is_proven) lose(id);
  });
}

void ProcessListener::lose(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const std::shared_ptr<Peer> peer = found->second;
  peers_.erase(found);
  sessions_.erase(peer->session);
  strangers_.erase(peer->link.get());
  peer->link->abort();
  fail_incoming(*peer);
  // After the requests of it that have come.
  if (peer->is_proven) ready_.push_back([this, id] { handler_.disconnected(id); });
}

void ProcessListener::fail_incoming(Peer& peer) {
  auto incoming = std::exchange(peer.incoming, {});
  for (auto& entry : incoming) entry.second.done(gone(address(), "the caller is gone"));
}

void ProcessListener::take_greeting(const Frame& frame, std::span<const std::byte> payload, Link* from) {
  const auto found = strangers_.find(from);
  if (found == strangers_.end()) return;
  const std::shared_ptr<Peer> peer = found->second;
  if (frame.kind == FrameKind::kHello) {
    Result<Bytes> challenge = peer->handshake.challenge(payload);
    if (!challenge.is_ok()) return refuse(*peer, challenge.status());
    Frame answer;
    answer.kind = FrameKind::kChallenge;
    peer->link->send(answer, std::move(*challenge));
  } else if (frame.kind == FrameKind::kProof) {
    Result<Identity> identity = peer->handshake.accept(payload);
    if (!identity.is_ok()) return refuse(*peer, identity.status());
    welcome(peer, std::move(*identity));
  }
}

void ProcessListener::welcome(const std::shared_ptr<Peer>& peer, Identity identity) {
  strangers_.erase(peer->link.get());
  const Sessions sessions = peer->handshake.sessions();
  peer->is_proven = true;
  peer->identity = std::move(identity);
  peer->session = sessions.to_listener;
  sessions_[peer->session] = peer;
  Frame answer;
  answer.kind = FrameKind::kWelcome;
  peer->link->send(answer);
  peer->link->set_session(sessions.to_caller);
}

void ProcessListener::refuse(Peer& peer, const Status& why) {
  WEIR_LOG_INFO("net: {}: a caller was refused: {}", address().text, why.message());
  Frame answer;
  answer.kind = FrameKind::kRefusal;
  peer.link->send(answer, peer.handshake.refuse(why));
  // It closes when it has read that; if it does not, its time as a stranger ends.
}

// ---------------------------------------------------------------- frames of peers that have proven the key

void ProcessListener::take(const Frame& frame, std::span<const std::byte> payload, Link* from) {
  if (is_handshake(frame.kind)) return take_greeting(frame, payload, from);
  const auto found = sessions_.find(frame.session);
  if (found == sessions_.end()) return;
  const std::shared_ptr<Peer>& peer = found->second;
  switch (frame.kind) {
    case FrameKind::kCall: {
      // Shared only because tasks can be copied.  While stopping, it is dropped.
      auto request = std::make_shared<Request>(std::make_unique<ProcessRequest>(shared_, peer, frame, payload));
      if (!is_stopping_) ready_.push_back([this, request] { handler_.handle(std::move(*request)); });
      return;
    }
    case FrameKind::kBody: return take_body(*peer, frame, payload);
    case FrameKind::kGoodbye: return peer->link->fail(left());
    case FrameKind::kCancel: return cancel(*peer, frame.call);
    default: return;
  }
}

void ProcessListener::take_body(Peer& peer, const Frame& frame, std::span<const std::byte> payload) {
  const auto found = peer.incoming.find(frame.call);
  if (found == peer.incoming.end()) return;
  Incoming& incoming = found->second;
  const std::size_t room = incoming.into.size();
  if (frame.number > room || payload.size() > room - frame.number) return;
  std::memcpy(incoming.into.data() + frame.number, payload.data(), payload.size());
  incoming.received_bytes += payload.size();
  if (incoming.received_bytes < room) return;
  const auto done = std::move(incoming.done);
  peer.incoming.erase(found);
  ready_.push_back([done] { done(Status::ok()); });
}

void ProcessListener::cancel(Peer& peer, std::uint64_t call) {
  if (const auto found = peer.outgoing.find(call); found != peer.outgoing.end()) found->second->stop();
  const auto found = peer.incoming.find(call);
  if (found == peer.incoming.end()) return;
  const auto done = std::move(found->second.done);
  peer.incoming.erase(found);
  ready_.push_back([this, done] { done(gone(address(), "the caller has given up")); });
}

}  // namespace

Result<std::unique_ptr<Listener>> listen_process(const Address& address, const Key& key, Handler& handler) {
  return ProcessListener::create(address, key, handler);
}

}  // namespace weir::net::internal
