// The answering end: accepts callers of other processes, checks the key, hands requests to the handler.
//
// The handler is called without the lock: it may take long.  A second thread then takes in frames, tells callers that
// ask that the server works, and leaves the rest for later.
//
// Who calls: through rings, the user the kernel names.  Through a port, the one MUNGE names, or the user of this process
// if MUNGE is not used; a third thread asks MUNGE, which may take long.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
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
#include <weir/net/internal/munge.h>
#include <weir/net/internal/process_caller.h>
#include <weir/net/internal/tasks.h>
#include <weir/net/internal/transports.h>
#include <weir/net/request.h>

namespace weir::net::internal {

namespace {

/// Peers that have not proven the key: so many at a time.
constexpr std::size_t kMostStrangers = 256;
/// How long a caller that was dropped may take to read why.
constexpr auto kFarewellPatience = std::chrono::seconds(60);
/// What a request takes besides its payload.
constexpr std::size_t kRequestBytes = 512;
/// How long stop() waits for bodies that callers do not take in.
constexpr auto kStopPatience = std::chrono::seconds(2);
constexpr auto kClosePatience = std::chrono::milliseconds(500);
/// Callers that hold bodies are looked at so many times per stall limit, and dropped after as many looks in a row
/// without progress: a server that was itself stopped for long has looked only once.
constexpr int kLooksPerStall = 4;
/// How long a handler may take before the second thread steps in.
constexpr auto kLongHandling = std::chrono::milliseconds(250);
constexpr int kMostPortTries = 100;

Admission::Encrypts admitted(Encryption encryption, bool has_fabric) {
  if (has_fabric || encryption == Encryption::kNever) return Admission::Encrypts::kOnRequest;
  return encryption == Encryption::kAlways ? Admission::Encrypts::kAlways : Admission::Encrypts::kBeyondLoopback;
}

/// A body on its way in.
struct Incoming {
  std::span<std::byte> into;
  std::size_t received_bytes = 0;
  std::function<void(Status)> done;
};

class ProcessRequest;

/// Looks at something that is to move.
struct Progress {
  std::uint64_t seen_bytes = 0;  // that had moved at the last look
  int idle_looks = 0;            // in a row, that found no progress

  bool is_stalled(bool has_to_move, std::uint64_t moved_bytes) {
    const std::uint64_t seen = std::exchange(seen_bytes, moved_bytes);
    idle_looks = has_to_move && seen == moved_bytes ? idle_looks + 1 : 0;
    return idle_looks >= kLooksPerStall;
  }
};

struct Peer {
  PeerId id = 0;
  std::shared_ptr<Link> link;
  ListenerHandshake handshake;
  bool is_proven = false;
  bool is_told = false;  // the handler knows how its attempt to sign on has ended
  Identity identity;
  std::uint64_t session = 0;                                              // of frames from it
  std::unordered_map<std::uint64_t, Incoming> incoming;                   // by call
  std::unordered_map<std::uint64_t, std::shared_ptr<Outgoing>> outgoing;  // by call
  std::unordered_map<std::uint64_t, ProcessRequest*> requests;            // by call: not answered yet
  std::size_t held_requests = 0;
  std::size_t held_bytes = 0;  // of them
  bool is_counted = false;     // among callers_
  bool is_refusal_logged = false;
  std::uint64_t received_bytes = 0;  // of all bodies so far
  Progress bodies{};
  Progress answers{};

  /// Of bodies that are on their way, and of those that came before.
  [[nodiscard]] std::uint64_t moved_bytes() const {
    std::uint64_t bytes = received_bytes;
    for (const auto& entry : outgoing) bytes += entry.second->sent_bytes();
    return bytes;
  }
  [[nodiscard]] bool has_bodies() const { return !incoming.empty() || !outgoing.empty(); }
  /// One look.  \returns whether the limit is reached
  bool is_stalled() {
    const bool in_bodies = bodies.is_stalled(has_bodies(), moved_bytes());
    return answers.is_stalled(link->unsent_bytes() > 0, link->sent_bytes()) || in_bodies;
  }
};

/// What requests may still need when the listener is gone.
struct Shared {
  Address address;
  /// Held by the thread that is at the links, the peers, or what follows; not while the handler runs.  Recursive:
  /// requests lock it wherever they are.
  std::recursive_mutex mutex;
  std::size_t outstanding = 0;  // requests that the handler has
  std::size_t held_bytes = 0;   // of them
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
    ++peer_->held_requests;
    charge(payload_.size() + kRequestBytes);
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
    --peer_->held_requests;
    charge(-(payload_.size() + kRequestBytes));
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
  /// Modulo 2^64: gives back what is negative.
  void charge(std::size_t bytes) {
    peer_->held_bytes += bytes;
    shared_->held_bytes += bytes;
  }
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
    // A body that the caller has no room for is not sent: it sees that from the frame.
    if (is_inline || body.size() > sink_bytes_ || !peer_->link->is_open()) {
      peer_->link->send(frame, std::move(head));
      return false;
    }
    send_with_body(frame, std::move(head), body, std::move(sent));
    return true;
  }

  void send(FrameKind kind) {
    Frame frame;
    frame.kind = kind;
    frame.call = call_;
    peer_->link->send(frame);
  }

  void send_with_body(const Frame& frame, Bytes head, std::span<const std::byte> body, std::function<void()> sent) {
    shared_->has_new_body = true;
    peer_->outgoing[call_] = peer_->link->send_with_body(
        frame, std::move(head), body,
        [shared = shared_, weak = std::weak_ptr(peer_), call = call_, then = std::move(sent)] {
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
  void at(Deadline time, Task task) override {
    const Lock lock(shared_->mutex);
    timers_.add(time, std::move(task));
  }
  Caller& caller() override { return loop_caller_; }
  [[nodiscard]] Admission admission() const override { return admission_; }
  [[nodiscard]] LimitCounters limit_counters() const override {
    const Lock lock(shared_->mutex);
    return limit_counters_;
  }

 private:
  ProcessListener(const Key& key, Handler& handler, const ListenOptions& options,
                  std::unique_ptr<ProcessCaller> process_caller)
      : key_(key),
        handler_(handler),
        options_(options),
        links_(
            [this](const Frame& frame, std::span<const std::byte> payload, Link* from) { take(frame, payload, from); },
            [this](const Frame& frame, const Link* from) { return place_of(frame, from); }, Rings::kOn,
            options.runtime),
        caller_(std::move(process_caller)) {
    links_.set_most_unsent(options_.limits.unread_bytes, options_.limits.total_unread_bytes);
  }
  Status listen(const Address& address);
  /// How those that come through the port are identified.
  Status choose_identification();
  Status listen_to_sockets(const SocketAddress& socket);
  Status listen_to_fabric(const SocketAddress& socket);
  void listen_on_this_host();
  Status listen_on_this_host_only(const SocketAddress& socket);
  Status listen_to_rings();
  static void on_connect(ucp_conn_request_h request, void* listener);
  void accept(ucp_conn_request_h request);
  [[nodiscard]] bool wants_strangers() const { return !is_stopping_ && strangers_.size() < kMostStrangers; }
  /// Those that say nothing must not keep others out: the oldest goes of the user or host that has most of them.
  void make_room_for_stranger();
  void add(std::shared_ptr<Link> link);
  /// It has a limited time to become more, or to go.
  void take_as_stranger(const std::shared_ptr<Peer>& peer, Clock::duration patience);
  void stop_listening();

  [[nodiscard]] std::shared_ptr<Peer> peer_of(const Frame& frame, const Link* from) const;
  [[nodiscard]] std::span<std::byte> place_of(const Frame& frame, const Link* from) const;
  void take(const Frame& frame, std::span<const std::byte> payload, Link* from);
  void take_greeting(const Frame& frame, std::span<const std::byte> payload, Link* from);
  void take_body(Peer& peer, const Frame& frame, std::span<const std::byte> payload);
  void cancel(Peer& peer, std::uint64_t call);
  static void tell_working(Peer& peer, std::uint64_t call);
  /// Finds out who has proven the key, and welcomes or refuses it, now or later.
  void identify(const std::shared_ptr<Peer>& peer, const Claim& claim);
  void ask_munge(const std::shared_ptr<Peer>& peer, const Claim& claim);
  /// The third thread.
  [[nodiscard]] Result<Identity> identity_by_munge(const Claim& claim, const Bytes& binding) const;
  void welcome(const std::shared_ptr<Peer>& peer, Identity identity);
  /// Whether there is room for one more connection of such a caller.  \error kUnavailable
  [[nodiscard]] Status check_connections(const Peer& peer, const Identity& identity) const;
  void refuse_connection(const std::shared_ptr<Peer>& peer, const Status& why);
  void count(Peer& peer);
  void refuse(Peer& peer, const Status& why);
  /// Whether there is room for one more request.  \error kUnavailable
  [[nodiscard]] Status check_request(const Peer& peer, std::size_t payload_bytes) const;
  void refuse_call(Peer& peer, std::uint64_t call, const Status& why);
  void lose(PeerId id, const Status& why);
  /// As lose(), of one that is still there: tells it why.
  void drop(PeerId id, const std::string& why);
  /// It is no caller any more.
  void forget(const std::shared_ptr<Peer>& peer);
  /// Tells the handler how an attempt to sign on has ended.
  void tell_sign_on(Peer& peer, const Status& status);
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
  /// Of calls to other servers.  True if something has happened.
  bool progress_caller();
  /// The second thread.
  void stand_in();
  /// The third one.
  void run_questions();
  /// Ends both.
  void end_threads();
  [[nodiscard]] Deadline now() const { return options_.runtime.clock->now(); }

  const Key key_;
  Handler& handler_;
  const ListenOptions options_;
  bool is_watching_ = false;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::unordered_map<PeerId, std::shared_ptr<Peer>> peers_;
  std::unordered_map<const Link*, std::shared_ptr<Peer>> strangers_;  // have not proven the key
  std::unordered_map<std::uint64_t, std::shared_ptr<Peer>> sessions_;
  std::size_t callers_ = 0;  // that are no servers, and those of whom it is not known yet
  std::unordered_map<std::uint32_t, std::size_t> connections_;  // of them, by user
  LimitCounters limit_counters_;
  PeerId next_peer_ = 1;
  Timers timers_;
  Inbox inbox_;
  int wake_fd_ = -1;
  std::atomic<bool> is_stopping_ = false;
  Deadline stop_patience_ = Deadline::max();
  Links links_;
  ucp_listener_h listener_ = nullptr;
  Admission admission_{.squashes_root = options_.squashes_root};
  const Identity own_identity_ = Identity::of_this_process();
  std::unique_ptr<ProcessCaller> caller_;  // with links of its own: only the listener's thread uses them
  LoopCaller loop_caller_{*caller_, [this] { wake(); }};

  // Of the second thread; with the lock:
  bool is_handling_ = false;
  std::uint64_t handlings_ = 0;
  bool is_idle_ = false;  // it waits for the next handling
  bool is_ending_ = false;
  std::unique_ptr<runtime::Event> handling_ = options_.runtime.executor->make_event();
  std::unique_ptr<runtime::Thread> stand_in_;  // after what it uses

  // Of the third thread.
  const Munge munge_{*options_.runtime.settings};
  Inbox questions_;
  std::atomic<bool> has_no_more_questions_ = false;
  std::unique_ptr<runtime::Event> asked_ = options_.runtime.executor->make_event();
  std::unique_ptr<runtime::Thread> questioner_;  // after what it uses
};

Result<std::unique_ptr<Listener>> ProcessListener::create(const Address& address, const Key& key, Handler& handler,
                                                          const ListenOptions& options) {
  WEIR_TRY(auto caller, ProcessCaller::create(kProtocolVersion, rings_by(*options.runtime.settings), options.runtime));
  std::unique_ptr<ProcessListener> self(new ProcessListener(key, handler, options, std::move(caller)));
  self->wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (self->wake_fd_ < 0) return os_error(ErrorCode::kIoError, "eventfd");
  WEIR_RETURN_IF_ERROR(self->listen(address));
  return std::unique_ptr<Listener>(std::move(self));
}

Status ProcessListener::listen(const Address& address) {
  const Result<SocketAddress> socket = resolve(address);
  if (!socket.is_ok()) return {ErrorCode::kIoError, concat("listen: ", socket.status().message())};
  const bool wants_port = options_.opens_loopback_port || rings_by(*options_.runtime.settings) == Rings::kOff;
  if (is_loopback(socket->storage) && !wants_port && links_.rings() != nullptr)
    return listen_on_this_host_only(*socket);
  WEIR_RETURN_IF_ERROR(choose_identification());
  const Status status = links_.has_fabric() ? listen_to_fabric(*socket) : listen_to_sockets(*socket);
  if (!status.is_ok()) return {ErrorCode::kIoError, concat("listen on ", address.text, ": ", status.message())};
  listen_on_this_host();
  return Status::ok();
}

Status ProcessListener::choose_identification() {
  WEIR_TRY(const MungeUse use, munge_use_by(*options_.runtime.settings));
  WEIR_TRY(const Encryption encryption, encryption_by(*options_.runtime.settings));
  admission_.encrypts = admitted(encryption, links_.has_fabric());
  const Status answer = use == MungeUse::kOff ? Status(ErrorCode::kUnavailable, "") : munge_.encode({}).status();
  if (use == MungeUse::kRequire && !answer.is_ok())
    return {answer.code(), concat("listen: MUNGE is required (WEIR_MUNGE): ", answer.message())};
  admission_.identifies = answer.is_ok() ? Admission::Identifies::kByMunge : Admission::Identifies::kByKey;
  if (!answer.is_ok()) return Status::ok();
  questioner_ = options_.runtime.executor->start("weir-munge", [this] { run_questions(); });
  if (questioner_ != nullptr) return Status::ok();
  return {ErrorCode::kUnavailable, "listen: no thread can be started: raise the limit (ulimit -u)"};
}

Status ProcessListener::listen_to_sockets(const SocketAddress& socket) {
  WEIR_TRY(SocketWorker* const sockets, links_.sockets());
  WEIR_TRY(const SocketAddress bound, sockets->listen(socket, key_, [this](const std::shared_ptr<Link>& link) {
    if (is_stopping_) return false;
    make_room_for_stranger();
    add(link);
    return true;
  }));
  shared_->address = to_address(bound.storage);
  return Status::ok();
}

Status ProcessListener::listen_to_fabric(const SocketAddress& socket) {
  WEIR_TRY(UcxWorker* const ucx, links_.ucx());
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = socket.get();
  params.sockaddr.addrlen = socket.length;
  params.conn_handler.cb = &ProcessListener::on_connect;
  params.conn_handler.arg = this;
  if (const ucs_status_t status = ucx_calls().ucp_listener_create(ucx->handle(), &params, &listener_); status != UCS_OK)
    return ucx_error("listen", status);
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (const ucs_status_t status = ucx_calls().ucp_listener_query(listener_, &attributes); status != UCS_OK)
    return ucx_error("listen", status);
  shared_->address = to_address(attributes.sockaddr);
  return Status::ok();
}

Status ProcessListener::listen_to_rings() {
  return links_.rings()->listen(ring_name(address()), [this](const std::shared_ptr<Link>& link) {
    if (is_stopping_) return false;
    make_room_for_stranger();
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
  constexpr std::uint64_t kFirstPort = 1024;
  Status status;
  for (int tries = 0; tries < (may_choose ? kMostPortTries : 1); ++tries) {
    if (may_choose)
      port = htons(static_cast<in_port_t>(kFirstPort + options_.runtime.random->next() % (65536 - kFirstPort)));
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
  if (!status.is_ok()) WEIR_LOG_WARN("net: {}; messages within this host go through sockets", status.message());
}

void ProcessListener::stop_listening() {
  links_.stop_listening();
  if (listener_ != nullptr) ucx_calls().ucp_listener_destroy(std::exchange(listener_, nullptr));
}

ProcessListener::~ProcessListener() {
  end_threads();
  stop_listening();
  shared_->ready.clear();
  for (const auto& entry : peers_) fail_incoming(*entry.second);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

// ---------------------------------------------------------------- the loop

void ProcessListener::run() {
  stand_in_ = options_.runtime.executor->start("weir-net", [this] { stand_in(); });
  if (stand_in_ == nullptr) WEIR_LOG_WARN("net: {}: no thread to answer callers during long requests", address().text);
  while (true) {
    run_tasks(inbox_.take());
    run_tasks(timers_.due(now()));
    const bool has_progressed = progress();
    run_tasks(take_ready());
    const bool has_called = progress_caller();
    if (may_return()) break;
    if (has_progressed || has_called) continue;
    if (!links_.linger() && !caller_->links().linger()) sleep();
  }
  end_threads();
  // Replies that were sent leave before the connections end.
  stop_listening();
  for (const auto& entry : peers_) entry.second->link->say_goodbye();
  links_.flush(now() + kClosePatience);
  for (const auto& entry : std::exchange(peers_, {})) {
    entry.second->link->abort();
    fail_incoming(*entry.second);
  }
  strangers_.clear();
  sessions_.clear();
  links_.finish_closing(now() + kClosePatience);
  for (const Task& task : take_ready()) task();
}

bool ProcessListener::progress() {
  const Lock lock(shared_->mutex);
  const bool has_progressed = links_.progress();
  if ((std::exchange(shared_->has_new_body, false) || links_.has_unsent()) && !is_watching_) watch_for_stalls();
  return has_progressed || !shared_->ready.empty();
}

bool ProcessListener::progress_caller() {
  const bool has_progressed = caller_->advance();
  if (!caller_->has_completions()) return has_progressed;
  run_tasks({[this] { caller_->run_completions(); }});
  return true;
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
  if (has_to_wake) handling_->set();
  for (const Task& task : tasks) task();
  const Lock lock(shared_->mutex);
  is_handling_ = false;
}

void ProcessListener::stand_in() {
  for (std::uint64_t seen = 0;;) {
    bool is_idle = false;
    {
      const Lock lock(shared_->mutex);
      if (is_ending_) return;
      is_idle = is_idle_ = !is_handling_ && handlings_ == seen;
    }
    // Set by the next handling, or at the end.
    if (is_idle) {
      handling_->wait();
      const Lock lock(shared_->mutex);
      if (is_ending_) return;
    }
    handling_->wait_until(now() + kLongHandling);
    const Lock lock(shared_->mutex);
    if (is_ending_) return;
    if (is_handling_ && handlings_ == seen) links_.take_in();
    seen = handlings_;
  }
}

void ProcessListener::run_questions() {
  while (!has_no_more_questions_) {
    for (const Task& question : questions_.take()) {
      if (!has_no_more_questions_) question();
    }
    asked_->wait();
  }
}

void ProcessListener::end_threads() {
  {
    const Lock lock(shared_->mutex);
    is_ending_ = true;
    is_idle_ = false;
  }
  handling_->set();
  stand_in_.reset();
  has_no_more_questions_ = true;
  asked_->set();
  questioner_.reset();
}

bool ProcessListener::may_return() {
  if (!is_stopping_ || shared_->outstanding > 0) return false;
  if (stop_patience_ == Deadline::max()) stop_patience_ = now() + kStopPatience;
  return !links_.has_streams() || now() > stop_patience_;
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
  Links::sleep(links_, &caller_->links(), std::min({timers_.next(), stop_patience_, caller_->next_look()}), wake_fd_);
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
  Result<std::shared_ptr<Link>> link = (*links_.ucx())->accept(request);
  if (!link.is_ok()) {
    WEIR_LOG_WARN("net: {}: a connection failed: {}", address().text, link.status().message());
    return;
  }
  add(std::move(*link));
}

void ProcessListener::make_room_for_stranger() {
  if (strangers_.size() < kMostStrangers) return;
  std::unordered_map<std::uint64_t, std::size_t> counts;
  for (const auto& entry : strangers_) ++counts[entry.first->source()];
  const auto goes_first = [&](const auto& a, const auto& b) {
    const std::size_t of_a = counts[a.first->source()];
    const std::size_t of_b = counts[b.first->source()];
    return of_a != of_b ? of_a > of_b : a.second->id < b.second->id;
  };
  lose(std::min_element(strangers_.begin(), strangers_.end(), goes_first)->second->id,
       {ErrorCode::kTimedOut, "it had not proven the key when others came"});
}

void ProcessListener::add(std::shared_ptr<Link> link) {
  const bool is_vouched = link->vouched().has_value();
  const Asks asks =
      !is_vouched && admission_.identifies == Admission::Identifies::kByMunge ? Asks::kCredential : Asks::kNothing;
  auto peer = std::make_shared<Peer>(Peer{.id = next_peer_++,
                                          .link = std::move(link),
                                          .handshake = ListenerHandshake(key_, kProtocolVersion, asks),
                                          .identity = {},
                                          .incoming = {},
                                          .outgoing = {},
                                          .requests = {}});
  peer->link->set_on_failure([this, id = peer->id](const Status& why) { lose(id, why); });
  peers_[peer->id] = peer;
  take_as_stranger(peer, options_.stranger_patience);
}

void ProcessListener::take_as_stranger(const std::shared_ptr<Peer>& peer, Clock::duration patience) {
  strangers_[peer->link.get()] = peer;
  timers_.add(now() + patience, [this, id = peer->id, link = peer->link.get()] {
    if (peers_.contains(id) && strangers_.contains(link))
      lose(id, {ErrorCode::kTimedOut, "it did not prove the key in time"});
  });
}

void ProcessListener::lose(PeerId id, const Status& why) {
  const Lock lock(shared_->mutex);
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  const std::shared_ptr<Peer> peer = found->second;
  peers_.erase(found);
  strangers_.erase(peer->link.get());
  peer->link->abort();
  if (!is_stopping_) tell_sign_on(*peer, why);
  forget(peer);
}

void ProcessListener::drop(PeerId id, const std::string& why) {
  const std::shared_ptr<Peer> peer = peers_.at(id);
  ++limit_counters_.dropped_connections;
  if (!peer->link->dismiss(why)) return lose(id, {ErrorCode::kTimedOut, why});
  forget(peer);
  take_as_stranger(peer, kFarewellPatience);
}

void ProcessListener::forget(const std::shared_ptr<Peer>& peer) {
  sessions_.erase(peer->session);
  if (std::exchange(peer->is_counted, false)) --callers_;
  // After the requests of it that have come.
  shared_->ready.push_back([this, peer] { fail_incoming(*peer); });
  if (!std::exchange(peer->is_proven, false)) return;
  shared_->ready.push_back([this, id = peer->id] { handler_.disconnected(id); });
  if (peer->identity.is_server) return;
  const auto count = connections_.find(peer->identity.uid);
  if (--count->second == 0) connections_.erase(count);
}

void ProcessListener::tell_sign_on(Peer& peer, const Status& status) {
  if (std::exchange(peer.is_told, true)) return;
  SignOn told{.peer = peer.id, .origin = peer.link->origin(), .identity = peer.link->vouched(), .status = status};
  if (peer.is_proven) told.identity = peer.identity;
  shared_->ready.push_back([this, told = std::move(told)] { handler_.signed_on(told); });
}

void ProcessListener::watch_for_stalls() {
  is_watching_ = true;
  timers_.add(now() + options_.stall_limit / kLooksPerStall, [this] { look_for_stalls(); });
}

void ProcessListener::look_for_stalls() {
  const Lock lock(shared_->mutex);
  std::vector<PeerId> stalled;
  bool has_bodies = false;
  for (const auto& [id, peer] : peers_) {
    if (!peer->is_proven) continue;
    has_bodies |= peer->has_bodies();
    if (peer->is_stalled()) stalled.push_back(id);
  }
  for (const PeerId id : stalled) {
    const Peer& peer = *peers_.at(id);
    const std::string how =
        concat("it stopped in the middle of ", peer.incoming.size() + peer.outgoing.size(), " bodies and left ",
               peer.link->unsent_bytes(), " bytes of answers unread for ",
               std::chrono::duration_cast<std::chrono::milliseconds>(options_.stall_limit).count(), " ms");
    WEIR_LOG_WARN("net: {}: dropped caller {} (user {}): {}; what it sent is discarded", address().text, id,
                  peer.identity.uid, how);
    drop(id, concat("dropped caller ", id, " (user ", peer.identity.uid, "): ", how,
                    "; its locks are gone; WEIR_LIMIT_STALL of the server is the limit"));
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
    const Result<Claim> claim = peer->handshake.accept(payload);
    claim.is_ok() ? identify(peer, *claim) : refuse(*peer, claim.status());
  }
}

void ProcessListener::identify(const std::shared_ptr<Peer>& peer, const Claim& claim) {
  const std::optional<Identity>& vouched = peer->link->vouched();
  if (!vouched && !claim.is_server && admission_.identifies == Admission::Identifies::kByMunge)
    return ask_munge(peer, claim);
  Identity identity = vouched ? *vouched : own_identity_;
  identity.host = vouched ? own_identity_.host : claim.host;  // rings do not reach further
  identity.is_server = claim.is_server;
  identity.voucher = claim.is_server ? Identity::Voucher::kSecret
                     : vouched       ? Identity::Voucher::kKernel
                                     : Identity::Voucher::kKey;
  welcome(peer, std::move(identity));
}

Result<Identity> ProcessListener::identity_by_munge(const Claim& claim, const Bytes& binding) const {
  WEIR_TRY(const Munge::User user, munge_.decode(claim.credential, binding));
  Identity identity;
  if (user.uid == 0 && options_.squashes_root) {
    identity = Identity::nobody();
  } else {
    identity.uid = user.uid;
    identity.gid = user.gid;
    identity.groups = groups_of(user.uid, user.gid);
  }
  identity.host = claim.host;
  identity.voucher = Identity::Voucher::kMunge;
  return identity;
}

void ProcessListener::ask_munge(const std::shared_ptr<Peer>& peer, const Claim& claim) {
  if (const Status status = check_connections(*peer, own_identity_); !status.is_ok())
    return refuse_connection(peer, status);
  strangers_.erase(peer->link.get());  // it has proven the key, and does not have to make room for others
  count(*peer);
  const auto question = [this, claim, id = peer->id, weak = std::weak_ptr(peer),
                         binding = peer->handshake.binding(peer->link->channel())] {
    if (weak.expired()) return;  // it is gone
    const Result<Identity> answer = identity_by_munge(claim, binding);
    post([this, id, answer] {
      const Lock lock(shared_->mutex);
      const auto found = peers_.find(id);
      if (found == peers_.end()) return;
      const std::shared_ptr<Peer> caller = found->second;
      if (answer.is_ok()) return welcome(caller, *answer);
      refuse(*caller, answer.status());
      if (std::exchange(caller->is_counted, false)) --callers_;
      take_as_stranger(caller, options_.stranger_patience);
    });
  };
  static_cast<void>(questions_.add(question));
  asked_->set();
}

Status ProcessListener::check_connections(const Peer& peer, const Identity& identity) const {
  if (identity.is_server) return Status::ok();
  const auto over = [&](std::string_view whose, std::size_t count, std::string_view variable) -> Status {
    return {ErrorCode::kUnavailable, concat(whose, " ", count, " connections to ", address().text,
                                            ", which is the limit; ", variable, " of the server raises it")};
  };
  if (!peer.is_counted && callers_ >= options_.limits.connections)
    return over("there are", callers_, "WEIR_LIMIT_CONNECTIONS");
  const auto count = connections_.find(identity.uid);
  if (count == connections_.end() || count->second < options_.limits.user_connections ||
      identity.uid == own_identity_.uid)
    return Status::ok();
  return over(concat("user ", identity.uid, " has"), count->second, "WEIR_LIMIT_USER_CONNECTIONS");
}

void ProcessListener::count(Peer& peer) {
  if (!std::exchange(peer.is_counted, true)) ++callers_;
}

void ProcessListener::refuse_connection(const std::shared_ptr<Peer>& peer, const Status& why) {
  ++limit_counters_.refused_connections;
  if (std::exchange(peer->is_counted, false)) --callers_;
  refuse(*peer, why);
  if (!strangers_.contains(peer->link.get())) take_as_stranger(peer, options_.stranger_patience);
}

void ProcessListener::welcome(const std::shared_ptr<Peer>& peer, Identity identity) {
  if (const Status status = check_connections(*peer, identity); !status.is_ok()) return refuse_connection(peer, status);
  strangers_.erase(peer->link.get());
  if (!identity.is_server) {
    count(*peer);
    ++connections_[identity.uid];
  }
  const Sessions sessions = peer->handshake.sessions();
  peer->is_proven = true;
  peer->identity = std::move(identity);
  peer->identity.origin = peer->link->origin();
  peer->session = sessions.to_listener;
  sessions_[peer->session] = peer;
  Frame answer;
  answer.kind = FrameKind::kWelcome;
  peer->link->send(answer);
  peer->link->set_session(sessions.to_caller);
  tell_sign_on(*peer, Status::ok());
}

void ProcessListener::refuse(Peer& peer, const Status& why) {
  WEIR_LOG_INFO("net: {}: a caller was refused: {}", address().text, why.message());
  Frame answer;
  answer.kind = FrameKind::kRefusal;
  peer.link->send(answer, peer.handshake.refuse(why));
  tell_sign_on(peer, why);
  // It closes when it has read that; if it does not, its time as a stranger ends.
}

// ---------------------------------------------------------------- frames of peers that have proven the key

// A session belongs to its connection; UCX does not tell where a frame comes from.
std::shared_ptr<Peer> ProcessListener::peer_of(const Frame& frame, const Link* from) const {
  const auto found = sessions_.find(frame.session);
  if (found == sessions_.end() || (from != nullptr && found->second->link.get() != from)) return nullptr;
  return found->second;
}

Status ProcessListener::check_request(const Peer& peer, std::size_t payload_bytes) const {
  const Limits& limits = options_.limits;
  const std::size_t bytes = peer.held_bytes + payload_bytes + kRequestBytes;
  const std::size_t total = shared_->held_bytes + payload_bytes + kRequestBytes;
  if (peer.held_requests < limits.requests && bytes <= limits.request_bytes && total <= limits.total_request_bytes)
    return Status::ok();
  if (peer.identity.is_server) return Status::ok();
  const auto over = [&](std::string_view what, std::size_t most, std::string_view variable) -> Status {
    return {ErrorCode::kUnavailable,
            concat("caller ", peer.id, " (user ", peer.identity.uid, ") has ", peer.held_requests, " requests of ",
                   peer.held_bytes, " bytes under way; the limit is ", most, what, ": wait for answers, or raise ",
                   variable, " of the server")};
  };
  if (peer.held_requests >= limits.requests) return over(" requests", limits.requests, "WEIR_LIMIT_REQUESTS");
  if (bytes > limits.request_bytes) return over(" bytes", limits.request_bytes, "WEIR_LIMIT_MEMORY");
  // All together have too much: those go on that have no more than their share of half of it.
  const std::size_t share = limits.total_request_bytes / 2 / std::max<std::size_t>(sessions_.size(), 1);
  return bytes <= share ? Status::ok() : over(" bytes of all callers", limits.total_request_bytes, "WEIR_LIMIT_MEMORY");
}

void ProcessListener::refuse_call(Peer& peer, std::uint64_t call, const Status& why) {
  ++limit_counters_.refused_requests;
  if (!std::exchange(peer.is_refusal_logged, true))
    WEIR_LOG_WARN("net: {}: a request was refused: {}", address().text, why.message());
  Frame frame;
  frame.kind = FrameKind::kDropped;
  frame.call = call;
  const auto text = std::as_bytes(std::span(why.message())).first(std::min(why.message().size(), kMostReasonBytes));
  peer.link->send(frame, {text.begin(), text.end()});
}

std::span<std::byte> ProcessListener::place_of(const Frame& frame, const Link* from) const {
  const std::shared_ptr<Peer> peer = peer_of(frame, from);
  if (peer == nullptr) return {};
  const auto found = peer->incoming.find(frame.call);
  if (found == peer->incoming.end() || frame.number > found->second.into.size()) return {};
  return found->second.into.subspan(frame.number);
}

void ProcessListener::take(const Frame& frame, std::span<const std::byte> payload, Link* from) {
  if (is_handshake(frame.kind)) return take_greeting(frame, payload, from);
  const std::shared_ptr<Peer> peer = peer_of(frame, from);
  if (peer == nullptr) return;
  switch (frame.kind) {
    case FrameKind::kCall: {
      if (const Status status = check_request(*peer, payload.size()); !status.is_ok())
        return refuse_call(*peer, frame.call, status);
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
  std::byte* const place = incoming.into.data() + frame.number;
  if (payload.data() != place) std::memcpy(place, payload.data(), payload.size());
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
