// The answering end: accepts callers of other processes, checks the key, hands requests to the handler.
//
// The handler is called without the lock: it may take long.  A second thread then takes in frames, tells callers that
// ask that the server works, and leaves the rest for later.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <stop_token>
#include <thread>
#include <unordered_map>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weir/base/os_error.h>
#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/net/internal/errors.h>
#include <weir/net/internal/handshake.h>
#include <weir/net/internal/links.h>
#include <weir/net/internal/tasks.h>
#include <weir/net/internal/transports.h>
#include <weir/net/request.h>

namespace weir::net::internal {

namespace {

/// Peers that have not proven the key: so many at a time.
constexpr std::size_t kMostStrangers = 256;
/// How long stop() waits for bodies that callers do not take in.
constexpr auto kStopPatience = std::chrono::seconds(2);
constexpr auto kClosePatience = std::chrono::milliseconds(500);
/// Callers that hold bodies are looked at so many times per stall limit, and dropped after as many looks in a row
/// without progress: a server that was itself stopped for long has looked only once.
constexpr int kLooksPerStall = 4;
/// How long a handler may take before the second thread steps in.
constexpr auto kLongHandling = std::chrono::milliseconds(250);
constexpr int kMostPortTries = 100;

/// A body on its way in.
struct Incoming {
  std::span<std::byte> into;
  std::size_t received_bytes = 0;
  std::function<void(Status)> done;
};

class ProcessRequest;

struct Peer {
  PeerId id = 0;
  std::shared_ptr<Link> link;
  ListenerHandshake handshake;
  bool is_proven = false;
  Identity identity;
  std::uint64_t session = 0;                                              // of frames from it
  std::unordered_map<std::uint64_t, Incoming> incoming;                   // by call
  std::unordered_map<std::uint64_t, std::shared_ptr<Outgoing>> outgoing;  // by call
  std::unordered_map<std::uint64_t, ProcessRequest*> requests;            // by call: not answered yet
  std::uint64_t received_bytes = 0;                                       // of all bodies so far
  std::uint64_t seen_bytes = 0;                                           // that had moved when it was last looked at
  int idle_looks = 0;                                                     // in a row, that found no progress

  /// Of bodies that are on their way, and of those that came before.
  [[nodiscard]] std::uint64_t moved_bytes() const {
    std::uint64_t bytes = received_bytes;
    for (const auto& entry : outgoing) bytes += entry.second->sent_bytes();
    return bytes;
  }
};

/// What requests may still need when the listener is gone.
struct Shared {
  Address address;
  /// Held by the thread that is at the links, the peers, or what follows; not while the handler runs.  Recursive:
  /// requests lock it wherever they are.
  std::recursive_mutex mutex;
  std::size_t outstanding = 0;  // requests that the handler has
  bool has_new_body = false;    // a body has begun to move
  std::vector<Task> ready;      // what frames have caused, for the listener's thread
};
using Lock = std::lock_guard<std::recursive_mutex>;

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
    peer_->requests.emplace(call_, this);
  }
  ProcessRequest(const ProcessRequest&) = delete;
  ProcessRequest& operator=(const ProcessRequest&) = delete;

  ~ProcessRequest() override {
    const Lock lock(shared_->mutex);
    forget_body();
    forget_request();
    if (!is_answered_) send(FrameKind::kDropped);
    --shared_->outstanding;
  }

  [[nodiscard]] std::span<const std::byte> head() const override { return std::span(payload_).first(head_bytes_); }
  [[nodiscard]] std::size_t body_bytes() const override { return body_bytes_; }
  [[nodiscard]] PeerId peer() const override { return peer_->id; }
  [[nodiscard]] const Identity& identity() const override { return peer_->identity; }

  [[nodiscard]] std::shared_ptr<const std::atomic<bool>> is_wanted() const override { return is_wanted_; }
  /// The caller is gone or has given up.
  void set_unwanted() { *is_wanted_ = false; }

  void receive(std::span<std::byte> into, std::function<void(Status)> done) override {
    if (into.size() != body_bytes_) return done(wrong_room(into.size(), body_bytes_));
    const std::span<const std::byte> here = std::span(payload_).subspan(head_bytes_);
    if (here.size() == body_bytes_) {
      if (!here.empty()) std::memcpy(into.data(), here.data(), here.size());
      return done(Status::ok());
    }
    if (const Status status = pull(into, done); !status.is_ok()) done(status);
  }

  void reply(Bytes head, std::span<const std::byte> body, std::function<void()> sent) override {
    if (!send_reply(std::move(head), body, sent) && sent) sent();
  }

 private:
  /// Takes `done` if it succeeds.
  Status pull(std::span<std::byte> into, std::function<void(Status)>& done) {
    const Lock lock(shared_->mutex);
    if (!peer_->link->is_open()) return gone(shared_->address, "the caller is gone");
    if (peer_->incoming.contains(call_)) return corrupt(concat("receive: two calls have the number ", call_));
    peer_->incoming[call_] = {into, 0, std::move(done)};
    shared_->has_new_body = true;
    send(FrameKind::kPull);
    return Status::ok();
  }

  /// \returns whether a body is on its way: `sent` comes later then
  bool send_reply(Bytes head, std::span<const std::byte> body, std::function<void()>& sent) {
    const Lock lock(shared_->mutex);
    is_answered_ = true;
    forget_body();
    forget_request();
    if (head.size() > kMostHeadBytes) {
      WEIR_LOG_ERROR("net: a reply with a head of {} bytes is not sent; at most {}", head.size(), kMostHeadBytes);
      send(FrameKind::kDropped);
      return false;
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
    if (is_inline || body.size() > sink_bytes_ || !peer_->link->is_open()) return false;
    send_body(body, std::move(sent));
    return true;
  }

  void send(FrameKind kind) {
    Frame frame;
    frame.kind = kind;
    frame.call = call_;
    peer_->link->send(frame);
  }

  void send_body(std::span<const std::byte> body, std::function<void()> sent) {
    shared_->has_new_body = true;
    peer_->outgoing[call_] = peer_->link->send_body(
        call_, body, [shared = shared_, weak = std::weak_ptr(peer_), call = call_, then = std::move(sent)] {
          if (const auto peer = weak.lock()) peer->outgoing.erase(call);
          if (then) shared->ready.push_back(then);
        });
  }

  void forget_body() {
    const auto found = peer_->incoming.find(call_);
    if (found == peer_->incoming.end()) return;
    const Incoming forgotten = std::move(found->second);  // what `done` holds ends after the entry
    peer_->incoming.erase(found);
  }

  void forget_request() {
    const auto found = peer_->requests.find(call_);
    if (found != peer_->requests.end() && found->second == this) peer_->requests.erase(found);
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Peer> peer_;
  std::shared_ptr<std::atomic<bool>> is_wanted_ = std::make_shared<std::atomic<bool>>(true);
  std::uint64_t call_;
  std::size_t head_bytes_;
  std::size_t body_bytes_;
  std::size_t sink_bytes_;
  Bytes payload_;  // the head, and a small body
  bool is_answered_ = false;
};

class ProcessListener : public Listener {
 public:
  static Result<std::unique_ptr<Listener>> create(const Address& address, const Key& key, Handler& handler,
                                                  const ListenOptions& options);
  ProcessListener(const ProcessListener&) = delete;
  ProcessListener& operator=(const ProcessListener&) = delete;
  ~ProcessListener() override;

  [[nodiscard]] const Address& address() const override { return shared_->address; }
  void run() override;
  void stop() override;
  void post(Task task) override;
  void at(Clock::time_point time, Task task) override {
    const Lock lock(shared_->mutex);
    timers_.add(time, std::move(task));
  }

 private:
  ProcessListener(const Key& key, Handler& handler, const ListenOptions& options)
      : key_(key),
        handler_(handler),
        options_(options),
        links_(
            [this](const Frame& frame, std::span<const std::byte> payload, Link* from) { take(frame, payload, from); },
            Rings::kOn) {}
  Status listen(const Address& address);
  void listen_on_this_host();
  Status listen_on_this_host_only(const SocketAddress& socket);
  Status listen_to_rings();
  static void on_connect(ucp_conn_request_h request, void* listener);
  void accept(ucp_conn_request_h request);
  [[nodiscard]] bool wants_strangers() const { return !is_stopping_ && strangers_.size() < kMostStrangers; }
  void add(std::shared_ptr<Link> link);
  void stop_listening();

  void take(const Frame& frame, std::span<const std::byte> payload, Link* from);
  void take_greeting(const Frame& frame, std::span<const std::byte> payload, Link* from);
  void take_body(Peer& peer, const Frame& frame, std::span<const std::byte> payload);
  void cancel(Peer& peer, std::uint64_t call);
  static void tell_working(Peer& peer, std::uint64_t call);
  void welcome(const std::shared_ptr<Peer>& peer, Identity identity);
  void refuse(Peer& peer, const Status& why);
  void lose(PeerId id);
  /// Bodies on their way in do not come any more.
  void fail_incoming(Peer& peer);
  /// Looks at callers that hold bodies, again and again while there are any.
  void watch_for_stalls();
  void look_for_stalls();

  void wake();
  void sleep();
  [[nodiscard]] bool may_return();
  /// Calls them without the lock.
  void run_tasks(const std::vector<Task>& tasks);
  [[nodiscard]] std::vector<Task> take_ready();
  /// True if something has happened, or there is something to do.
  bool progress();
  /// The second thread.
  void stand_in(const std::stop_token& stop);

  const Key key_;
  Handler& handler_;
  const ListenOptions options_;
  bool is_watching_ = false;
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
  Links links_;
  ucp_listener_h listener_ = nullptr;

  // Of the second thread; with the lock:
  bool is_handling_ = false;
  std::uint64_t handlings_ = 0;
  bool is_idle_ = false;  // it waits for the next handling
  std::condition_variable_any handling_;
  std::jthread stand_in_;  // last: it uses the others
};

Result<std::unique_ptr<Listener>> ProcessListener::create(const Address& address, const Key& key, Handler& handler,
                                                          const ListenOptions& options) {
  std::unique_ptr<ProcessListener> self(new ProcessListener(key, handler, options));
  self->wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (self->wake_fd_ < 0) return os_error(ErrorCode::kIoError, "eventfd");
  WEIR_RETURN_IF_ERROR(self->listen(address));
  return std::unique_ptr<Listener>(std::move(self));
}

Status ProcessListener::listen(const Address& address) {
  const Result<SocketAddress> socket = resolve(address);
  if (!socket.is_ok()) return {ErrorCode::kIoError, concat("listen: ", socket.status().message())};
  const bool wants_port = options_.opens_loopback_port || rings_by_environment() == Rings::kOff;
  if (is_loopback(socket->storage) && !wants_port && links_.rings() != nullptr)
    return listen_on_this_host_only(*socket);
  const Result<UcxWorker*> ucx = links_.ucx(socket->storage);
  if (!ucx.is_ok()) return {ErrorCode::kIoError, concat("listen on ", address.text, ": ", ucx.status().message())};
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&socket->storage);
  params.sockaddr.addrlen = socket->length;
  params.conn_handler.cb = &ProcessListener::on_connect;
  params.conn_handler.arg = this;
  if (const ucs_status_t status = ucx_calls().ucp_listener_create((*ucx)->handle(), &params, &listener_);
      status != UCS_OK)
    return {ErrorCode::kIoError, concat("listen on ", address.text, ": ", ucx_calls().ucs_status_string(status))};
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (const ucs_status_t status = ucx_calls().ucp_listener_query(listener_, &attributes); status != UCS_OK)
    return {ErrorCode::kIoError, concat("listen on ", address.text, ": ", ucx_calls().ucs_status_string(status))};
  shared_->address = to_address(attributes.sockaddr);
  listen_on_this_host();
  return Status::ok();
}

Status ProcessListener::listen_to_rings() {
  return links_.rings()->listen(ring_name(address()), [this](const std::shared_ptr<Link>& link) {
    if (!wants_strangers()) return false;
    add(link);
    return true;
  });
}

// No port is opened: its number is only part of a name.
Status ProcessListener::listen_on_this_host_only(const SocketAddress& socket) {
  SocketAddress place = socket;
  in_port_t& port = place.storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(place.storage).sin6_port
                                                        : reinterpret_cast<sockaddr_in&>(place.storage).sin_port;
  const bool may_choose = port == 0;
  std::random_device random;
  std::uniform_int_distribution<int> ports(1024, 65535);
  Status status;
  for (int tries = 0; tries < (may_choose ? kMostPortTries : 1); ++tries) {
    if (may_choose) port = htons(static_cast<in_port_t>(ports(random)));
    shared_->address = to_address(place.storage);
    status = listen_to_rings();
    if (status.is_ok()) return status;
  }
  return {ErrorCode::kIoError, concat("listen on ", shared_->address.text, ": ", status.message())};
}

// Callers that cannot come this way take the other.
void ProcessListener::listen_on_this_host() {
  if (links_.rings() == nullptr) return;
  const Status status = listen_to_rings();
  if (!status.is_ok()) WEIR_LOG_WARN("net: {}; messages within this host go through UCX", status.message());
}

void ProcessListener::stop_listening() {
  if (links_.rings() != nullptr) links_.rings()->stop_listening();
  if (listener_ != nullptr) ucx_calls().ucp_listener_destroy(std::exchange(listener_, nullptr));
}

ProcessListener::~ProcessListener() {
  stand_in_ = {};
  stop_listening();
  shared_->ready.clear();
  for (const auto& entry : peers_) fail_incoming(*entry.second);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

// ---------------------------------------------------------------- the loop

void ProcessListener::run() {
  stand_in_ = std::jthread([this](const std::stop_token& stop) { stand_in(stop); });
  while (true) {
    run_tasks(inbox_.take());
    run_tasks(timers_.due(Clock::now()));
    const bool has_progressed = progress();
    run_tasks(take_ready());
    if (may_return()) break;
    if (has_progressed) continue;
    if (!links_.linger()) sleep();
  }
  stand_in_ = {};
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
  for (const Task& task : take_ready()) task();
}

bool ProcessListener::progress() {
  const Lock lock(shared_->mutex);
  const bool has_progressed = links_.progress();
  if (std::exchange(shared_->has_new_body, false) && !is_watching_) watch_for_stalls();
  return has_progressed || !shared_->ready.empty();
}

std::vector<Task> ProcessListener::take_ready() {
  const Lock lock(shared_->mutex);
  return std::exchange(shared_->ready, {});
}

void ProcessListener::run_tasks(const std::vector<Task>& tasks) {
  if (tasks.empty()) return;
  bool has_to_wake = false;
  {
    const Lock lock(shared_->mutex);
    is_handling_ = true;
    ++handlings_;
    has_to_wake = std::exchange(is_idle_, false);
  }
  if (has_to_wake) handling_.notify_one();
  for (const Task& task : tasks) task();
  const Lock lock(shared_->mutex);
  is_handling_ = false;
}

void ProcessListener::stand_in(const std::stop_token& stop) {
  std::unique_lock lock(shared_->mutex);
  for (std::uint64_t seen = 0; !stop.stop_requested();) {
    is_idle_ = !is_handling_ && handlings_ == seen;
    if (is_idle_) handling_.wait(lock, stop, [&] { return handlings_ != seen; });
    handling_.wait_for(lock, stop, kLongHandling, [] { return false; });
    if (is_handling_ && handlings_ == seen && !stop.stop_requested()) links_.take_in();
    seen = handlings_;
  }
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
    ucx_calls().ucp_listener_reject(listener_, request);
    return;
  }
  Result<std::shared_ptr<Link>> link = (*links_.ucx({}))->accept(request);
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
                                          .outgoing = {},
                                          .requests = {}});
  peer->link->set_on_failure([this, id = peer->id](const Status&) { lose(id); });
  strangers_[peer->link.get()] = peer;
  peers_[peer->id] = peer;
  timers_.add(Clock::now() + options_.stranger_patience, [this, id = peer->id] {
    const auto found = peers_.find(id);
    if (found != peers_.end() && !found->second->is_proven) lose(id);
  });
}

void ProcessListener::lose(PeerId id) {
  const Lock lock(shared_->mutex);
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const std::shared_ptr<Peer> peer = found->second;
  peers_.erase(found);
  sessions_.erase(peer->session);
  strangers_.erase(peer->link.get());
  peer->link->abort();
  // After the requests of it that have come.
  shared_->ready.push_back([this, peer] { fail_incoming(*peer); });
  if (peer->is_proven) shared_->ready.push_back([this, id] { handler_.disconnected(id); });
}

void ProcessListener::watch_for_stalls() {
  is_watching_ = true;
  timers_.add(Clock::now() + options_.stall_limit / kLooksPerStall, [this] { look_for_stalls(); });
}

void ProcessListener::look_for_stalls() {
  const Lock lock(shared_->mutex);
  std::vector<PeerId> stalled;
  bool has_bodies = false;
  for (const auto& [id, peer] : peers_) {
    if (peer->incoming.empty() && peer->outgoing.empty()) {
      peer->idle_looks = 0;
      continue;
    }
    has_bodies = true;
    const std::uint64_t seen = std::exchange(peer->seen_bytes, peer->moved_bytes());
    peer->idle_looks = seen == peer->seen_bytes ? peer->idle_looks + 1 : 0;
    if (peer->idle_looks >= kLooksPerStall) stalled.push_back(id);
  }
  for (const PeerId id : stalled) {
    const Peer& peer = *peers_.at(id);
    WEIR_LOG_WARN(
        "net: {}: dropped caller {} (user {}): it stopped in the middle of {} bodies for {} ms; what it sent is "
        "discarded",
        address().text, id, peer.identity.uid, peer.incoming.size() + peer.outgoing.size(),
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.stall_limit).count());
    lose(id);
  }
  is_watching_ = false;
  if (has_bodies) watch_for_stalls();
}

void ProcessListener::fail_incoming(Peer& peer) {
  std::unordered_map<std::uint64_t, Incoming> incoming;
  {
    const Lock lock(shared_->mutex);
    for (const auto& entry : peer.requests) entry.second->set_unwanted();
    incoming.swap(peer.incoming);
  }
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
      if (!is_stopping_) shared_->ready.push_back([this, request] { handler_.handle(std::move(*request)); });
      return;
    }
    case FrameKind::kBody: return take_body(*peer, frame, payload);
    case FrameKind::kGoodbye: return peer->link->fail(left());
    case FrameKind::kCancel: return cancel(*peer, frame.call);
    case FrameKind::kAsk: return tell_working(*peer, frame.call);
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
  peer.received_bytes += payload.size();
  if (incoming.received_bytes < room) return;
  const auto done = std::move(incoming.done);
  peer.incoming.erase(found);
  shared_->ready.push_back([done] { done(Status::ok()); });
}

void ProcessListener::tell_working(Peer& peer, std::uint64_t call) {
  if (!peer.requests.contains(call)) return;
  Frame frame;
  frame.kind = FrameKind::kWorking;
  frame.call = call;
  peer.link->send(frame);
}

void ProcessListener::cancel(Peer& peer, std::uint64_t call) {
  if (const auto request = peer.requests.find(call); request != peer.requests.end()) request->second->set_unwanted();
  if (const auto found = peer.outgoing.find(call); found != peer.outgoing.end()) found->second->stop();
  const auto found = peer.incoming.find(call);
  if (found == peer.incoming.end()) return;
  const auto done = std::move(found->second.done);
  peer.incoming.erase(found);
  shared_->ready.push_back([this, done] { done(gone(address(), "the caller has given up")); });
}

}  // namespace

Result<std::unique_ptr<Listener>> listen_process(const Address& address, const Key& key, Handler& handler,
                                                 const ListenOptions& options) {
  return ProcessListener::create(address, key, handler, options);
}

}  // namespace weir::net::internal
