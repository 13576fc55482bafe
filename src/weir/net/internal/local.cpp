// The channel inside one process.  Calls are tasks posted to the listener's thread; answers are posted back to the
// Caller.
//
// Bodies are copied by the listener's thread straight between the memories of both ends, under the lock of the call.  A
// caller that gives up takes the same lock, so its memory is not touched afterwards.

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include <weir/base/text.h>
#include <weir/net/internal/call_table.h>
#include <weir/net/internal/errors.h>
#include <weir/net/internal/handshake.h>
#include <weir/net/internal/tasks.h>
#include <weir/net/internal/transports.h>
#include <weir/net/request.h>

namespace weir::net::internal {

namespace {

/// Where answers arrive.  \threadsafety Safe from any thread.
class ReplyBox {
 public:
  struct Arrived {
    CallId call;
    Result<Reply> result;
  };

  /// `event`: of the thread that takes answers.
  explicit ReplyBox(std::shared_ptr<runtime::Event> event) : event_(std::move(event)) {}

  void add(CallId call, Result<Reply> result) {
    {
      const std::lock_guard lock(mutex_);
      arrived_.push_back({call, std::move(result)});
    }
    event_->set();
  }
  [[nodiscard]] std::vector<Arrived> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(arrived_, {});
  }
  [[nodiscard]] runtime::Event& event() { return *event_; }

 private:
  std::mutex mutex_;
  std::shared_ptr<runtime::Event> event_;
  std::vector<Arrived> arrived_;
};

/// One call, as both ends see it.
struct SharedCall {
  SharedCall(CallId number, Call& call, std::shared_ptr<ReplyBox> box)
      : id(number), head(std::move(call.head)), body(call.body), sink(call.sink), replies(std::move(box)) {}

  const CallId id;
  const Bytes head;
  const std::span<const std::byte> body;
  const std::span<std::byte> sink;
  const std::shared_ptr<ReplyBox> replies;

  std::mutex mutex;
  // Changed with the mutex locked: body and sink may be touched, and an answer is waited for.
  std::atomic<bool> is_wanted = true;
};

struct LocalPeer {
  PeerId id;
  Identity identity;
};

class LocalCaller;

/// The listener, as connections see it: it may end before they do.
class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Address address, Key key, Handler& handler, const runtime::Runtime& runtime)
      : address_(std::move(address)),
        key_(std::move(key)),
        handler_(handler),
        clock_(*runtime.clock),
        event_(runtime.executor->make_event()) {}

  [[nodiscard]] const Address& address() const { return address_; }
  [[nodiscard]] const Key& key() const { return key_; }

  // ---- safe from any thread
  void post(Task task);
  /// False if it takes no more calls.
  bool submit(const std::shared_ptr<LocalPeer>& peer, const std::shared_ptr<SharedCall>& call);
  void sign_on(SignOn told);
  void disconnect(PeerId peer);
  [[nodiscard]] bool is_open() const;
  PeerId next_peer();
  void stop();
  /// Calls that were not handed to the handler are dropped.
  void close();
  /// A request is over.
  void release();

  /// Of the listener's thread.
  [[nodiscard]] const std::shared_ptr<runtime::Event>& event() const { return event_; }

  // ---- the listener's thread

  /// `caller`: driven by this loop.
  void run(LocalCaller& caller);
  void at(Deadline time, Task task) { timers_.add(time, std::move(task)); }

 private:
  [[nodiscard]] Task take_task();
  [[nodiscard]] bool may_return() const;

  const Address address_;
  const Key key_;
  Handler& handler_;
  const runtime::Clock& clock_;
  const std::shared_ptr<runtime::Event> event_;
  Timers timers_;  // the listener's thread only

  mutable std::mutex mutex_;  // guards what follows
  std::deque<Task> tasks_;
  std::size_t outstanding_ = 0;  // requests that the handler has, or that wait for it
  bool is_stopping_ = false;
  bool is_closed_ = false;
  PeerId next_peer_ = 1;
};

class LocalRequest : public Request::Impl {
 public:
  LocalRequest(std::shared_ptr<Core> core, std::shared_ptr<LocalPeer> peer, std::shared_ptr<SharedCall> call)
      : core_(std::move(core)), peer_(std::move(peer)), call_(std::move(call)) {}
  LocalRequest(const LocalRequest&) = delete;
  LocalRequest& operator=(const LocalRequest&) = delete;

  ~LocalRequest() override {
    if (!is_answered_) call_->replies->add(call_->id, gone(core_->address(), "the server has dropped it"));
    core_->release();
  }

  [[nodiscard]] std::span<const std::byte> head() const override { return call_->head; }
  [[nodiscard]] std::size_t body_bytes() const override { return call_->body.size(); }
  [[nodiscard]] PeerId peer() const override { return peer_->id; }
  [[nodiscard]] const Identity& identity() const override { return peer_->identity; }

  [[nodiscard]] std::shared_ptr<const std::atomic<bool>> is_wanted() const override {
    return {call_, &call_->is_wanted};
  }

  void receive(std::span<std::byte> into, std::function<void(Status)> done) override { done(copy_body(into)); }

  void reply(Bytes head, std::span<const std::byte> body, std::function<void()> sent) override {
    is_answered_ = true;
    send(std::move(head), body);
    if (sent) sent();
  }

 private:
  Status copy_body(std::span<std::byte> into) {
    if (into.size() != body_bytes()) return wrong_room(into.size(), body_bytes());
    const std::lock_guard lock(call_->mutex);
    if (!call_->is_wanted) return gone(core_->address(), "the caller has given up");
    if (!into.empty()) std::memcpy(into.data(), call_->body.data(), into.size());
    return Status::ok();
  }

  void send(Bytes head, std::span<const std::byte> body) {
    const std::lock_guard lock(call_->mutex);
    if (!call_->is_wanted) return;
    if (const Status status = check_reply(core_->address(), head.size(), body.size(), call_->sink.size());
        !status.is_ok())
      return call_->replies->add(call_->id, status);
    if (!body.empty()) std::memcpy(call_->sink.data(), body.data(), body.size());
    call_->replies->add(call_->id, Reply{std::move(head), body.size()});
  }

  std::shared_ptr<Core> core_;
  std::shared_ptr<LocalPeer> peer_;
  std::shared_ptr<SharedCall> call_;
  bool is_answered_ = false;
};

void Core::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    tasks_.push_back(std::move(task));
  }
  event_->set();
}

bool Core::submit(const std::shared_ptr<LocalPeer>& peer, const std::shared_ptr<SharedCall>& call) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_ || is_closed_) return false;
    ++outstanding_;
    // Shared only because tasks can be copied.  A task that never runs drops the request.
    auto request = std::make_shared<Request>(std::make_unique<LocalRequest>(shared_from_this(), peer, call));
    tasks_.push_back([this, request] { handler_.handle(std::move(*request)); });
  }
  event_->set();
  return true;
}

void Core::sign_on(SignOn told) {
  post([this, told = std::move(told)] { handler_.signed_on(told); });
}

void Core::disconnect(PeerId peer) {
  post([this, peer] { handler_.disconnected(peer); });
}

bool Core::is_open() const {
  const std::lock_guard lock(mutex_);
  return !is_stopping_ && !is_closed_;
}

PeerId Core::next_peer() {
  const std::lock_guard lock(mutex_);
  return next_peer_++;
}

void Core::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  event_->set();
}

void Core::close() {
  std::deque<Task> dropped;  // ends after the lock: requests take it
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  dropped.swap(tasks_);
}

void Core::release() {
  {
    const std::lock_guard lock(mutex_);
    --outstanding_;
  }
  event_->set();
}

// ---------------------------------------------------------------- who listens

class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  Status add(const std::shared_ptr<Core>& core) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<Core>& place = cores_[core->address().text];
    if (!place.expired())
      return {ErrorCode::kIoError, concat("listen on ", core->address().text, ": the name is taken")};
    place = core;
    return Status::ok();
  }
  void remove(const Address& address) {
    const std::lock_guard lock(mutex_);
    cores_.erase(address.text);
  }
  std::shared_ptr<Core> find(const Address& address) {
    const std::lock_guard lock(mutex_);
    const auto found = cores_.find(address.text);
    return found == cores_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Core>> cores_;
};

// ---------------------------------------------------------------- the calling end

/// What a Caller and its connections share.
struct LocalCallerState {
  explicit LocalCallerState(std::shared_ptr<runtime::Event> event)
      : replies(std::make_shared<ReplyBox>(std::move(event))) {}

  CallTable table;
  std::shared_ptr<ReplyBox> replies;

  /// The caller gives up: its memory is not touched any more.
  void abandon(CallId id, Status why) {
    const CallTable::Pending* pending = table.find(id);
    if (pending == nullptr) return;
    auto* shared = static_cast<SharedCall*>(pending->transport.get());
    if (shared != nullptr) {
      const std::lock_guard lock(shared->mutex);
      shared->is_wanted = false;
    }
    table.finish(id, std::move(why));
  }
};

/// The handshake of the network, in one step.
Result<Identity> shake_hands(const Core& core, const Key& key, std::uint32_t version) {
  Identity identity = Identity::of_this_process();
  CallerHandshake caller(key, identity.host, version);
  ListenerHandshake listener(core.key(), kProtocolVersion);
  WEIR_TRY(const Bytes challenge, listener.challenge(caller.hello()));
  WEIR_TRY(const Bytes proof, caller.prove(challenge));
  WEIR_TRY(const Claim claim, listener.accept(proof));
  identity.is_server = claim.is_server;
  identity.voucher = claim.is_server ? Identity::Voucher::kSecret : Identity::Voucher::kKernel;
  identity.origin = "this process";
  return identity;
}

class LocalConnection : public Connection {
 public:
  LocalConnection(std::shared_ptr<LocalCallerState> state, Address address)
      : state_(std::move(state)), address_(std::move(address)) {}
  LocalConnection(const LocalConnection&) = delete;
  LocalConnection& operator=(const LocalConnection&) = delete;

  ~LocalConnection() override {
    for (const CallId id : state_->table.calls_of(this))
      state_->abandon(id, gone(address(), "the connection was closed"));
    state_->table.run_ready_of(this);
    if (core_ != nullptr) core_->disconnect(peer_->id);
  }

  /// All of it, at once.
  Status connect(const Key& key, std::uint32_t version) {
    WEIR_RETURN_IF_ERROR(check_key(address_, key));
    std::shared_ptr<Core> core = Registry::instance().find(address_);
    if (core == nullptr || !core->is_open())
      return cannot_connect(address_, {ErrorCode::kUnavailable, "nobody listens there"});
    Result<Identity> identity = shake_hands(*core, key, version);
    const PeerId id = core->next_peer();
    core->sign_on({.peer = id,
                   .origin = "this process",
                   .identity = identity.is_ok() ? std::optional(*identity) : std::nullopt,
                   .status = identity.status()});
    if (!identity.is_ok()) return cannot_connect(address_, identity.status());
    core_ = std::move(core);
    peer_ = std::make_shared<LocalPeer>(LocalPeer{id, std::move(*identity)});
    return Status::ok();
  }
  void refuse_all(Status why) { refusal_ = std::move(why); }

  void call(Call call) override {
    Status status = refusal_.is_ok() ? check_call(address_, call) : refusal_;
    if (!status.is_ok()) return state_->table.refuse(this, std::move(call), std::move(status));
    const CallId id = state_->table.add(this, std::move(call));
    CallTable::Pending* pending = state_->table.find(id);
    const auto shared = std::make_shared<SharedCall>(id, pending->call, state_->replies);
    pending->transport = shared;
    if (!core_->submit(peer_, shared)) state_->table.finish(id, gone(address_, "the server has stopped"));
  }

  [[nodiscard]] bool is_open() const override { return core_ != nullptr && core_->is_open(); }
  [[nodiscard]] const Address& address() const override { return address_; }

 private:
  std::shared_ptr<LocalCallerState> state_;
  Address address_;
  Status refusal_;              // OK, or why it could not connect
  std::shared_ptr<Core> core_;  // null: it could not connect
  std::shared_ptr<LocalPeer> peer_;
};

class LocalCaller : public Caller {
 public:
  LocalCaller(std::uint32_t version, const runtime::Clock& clock, std::shared_ptr<runtime::Event> event)
      : version_(version), clock_(clock), state_(std::make_shared<LocalCallerState>(std::move(event))) {}

  std::unique_ptr<Connection> connect(const Address& address, const Key& key, Deadline) override {
    auto connection = std::make_unique<LocalConnection>(state_, address);
    connection->refuse_all(connection->connect(key, version_));
    return connection;
  }

  void progress() override {
    for (ReplyBox::Arrived& arrived : state_->replies->take())
      state_->table.finish(arrived.call, std::move(arrived.result));
    const Deadline now = clock_.now();
    for (const CallId id : state_->table.due(now)) look_at(id, now);
    state_->table.run_ready();
  }

  void wait(Deadline deadline) override {
    if (!state_->table.has_ready()) (void)state_->replies->event().wait_until(std::min(deadline, next_look()));
    progress();
  }

  void wake() override { state_->replies->event().set(); }

  [[nodiscard]] Deadline next_look() const { return state_->table.next_look(); }
  [[nodiscard]] bool has_ready() const { return state_->table.has_ready(); }

 private:
  void look_at(CallId id, Deadline now) {
    const CallTable::Look look = state_->table.look_at(id, now);
    CallTable::Pending& pending = *state_->table.find(id);
    const auto* connection = static_cast<const LocalConnection*>(pending.owner);
    // A server of this process lives as long as this process, and none of its requests ends without an answer.
    if (look == CallTable::Look::kAsk) pending.has_sign = true;
    if (look == CallTable::Look::kExpired) state_->abandon(id, timed_out(pending.call, connection->address()));
  }

  std::uint32_t version_;
  const runtime::Clock& clock_;
  std::shared_ptr<LocalCallerState> state_;
};

// ---------------------------------------------------------------- the answering end

Task Core::take_task() {
  const std::lock_guard lock(mutex_);
  if (tasks_.empty()) return nullptr;
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

bool Core::may_return() const {
  const std::lock_guard lock(mutex_);
  return is_stopping_ && outstanding_ == 0 && tasks_.empty();
}

void Core::run(LocalCaller& caller) {
  while (true) {
    for (const Task& task : timers_.due(clock_.now())) task();
    caller.progress();
    if (const Task task = take_task()) {
      task();
      continue;
    }
    if (may_return()) return;
    if (!caller.has_ready()) (void)event_->wait_until(std::min(timers_.next(), caller.next_look()));
  }
}

class LocalListener : public Listener {
 public:
  LocalListener(std::shared_ptr<Core> core, const runtime::Clock& clock)
      : core_(std::move(core)), driven_(kProtocolVersion, clock, core_->event()) {}
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;
  ~LocalListener() override {
    Registry::instance().remove(core_->address());
    core_->close();
  }

  [[nodiscard]] const Address& address() const override { return core_->address(); }
  void run() override {
    core_->run(driven_);
    core_->close();
  }
  void stop() override { core_->stop(); }
  void post(Task task) override { core_->post(std::move(task)); }
  void at(Deadline time, Task task) override { core_->at(time, std::move(task)); }
  Caller& caller() override { return caller_; }

 private:
  std::shared_ptr<Core> core_;
  LocalCaller driven_;
  LoopCaller caller_{driven_, [this] { driven_.wake(); }};
};

}  // namespace

std::unique_ptr<Caller> make_local_caller(std::uint32_t version, const runtime::Runtime& runtime) {
  return std::make_unique<LocalCaller>(version, *runtime.clock, runtime.executor->make_event());
}

Result<std::unique_ptr<Listener>> listen_local(const Address& address, const Key& key, Handler& handler,
                                               const ListenOptions& options) {
  auto core = std::make_shared<Core>(address, key, handler, options.runtime);
  WEIR_RETURN_IF_ERROR(Registry::instance().add(core));
  return std::unique_ptr<Listener>(std::make_unique<LocalListener>(std::move(core), *options.runtime.clock));
}

}  // namespace weir::net::internal
