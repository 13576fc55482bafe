#include <weir/simulation/network.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>

#include <weir/base/hash.h>
#include <weir/base/text.h>
#include <weir/net/request.h>

namespace weir::simulation {

namespace internal {

namespace {

using Task = std::function<void()>;

Status gone(const net::Address& address, std::string_view why) {
  return {ErrorCode::kUnavailable, concat("call to ", address.text, ": ", why)};
}

std::string summary(const net::Bytes& head, std::size_t body_bytes) {
  const std::string_view bytes(reinterpret_cast<const char*>(head.data()), head.size());
  return concat(hash_of(bytes), " + ", body_bytes);
}

}  // namespace

/// What a thread of a process has to do.
class Loop {
 public:
  explicit Loop(Simulation& simulation) : event_(simulation.runtime().executor->make_event()) {}

  void post(Task task) {
    if (is_closed_) return;
    tasks_.push_back(std::move(task));
    event_->set();
  }
  bool run_one() {
    if (tasks_.empty()) return false;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
    return true;
  }
  void run_all() {
    while (run_one()) continue;
  }
  void wake() { event_->set(); }
  void wait(TimePoint deadline) {
    if (tasks_.empty()) (void)event_->wait_until(deadline);
  }
  void close() {
    is_closed_ = true;
    const std::deque<Task> dropped = std::exchange(tasks_, {});
  }

 private:
  std::deque<Task> tasks_;
  std::unique_ptr<runtime::Event> event_;
  bool is_closed_ = false;
};

enum class End : std::uint8_t { kCaller, kListener };
constexpr End other(End end) { return end == End::kCaller ? End::kListener : End::kCaller; }

/// A connection, as the network sees it: two ends, and messages between them.
class Line : public std::enable_shared_from_this<Line> {
 public:
  Line(Network& network, std::string caller, std::string listener)
      : network_(network), ends_{{std::move(caller)}, {std::move(listener)}} {}

  [[nodiscard]] const std::string& process(End end) const { return at(end).process; }
  [[nodiscard]] bool is_broken(End end) const { return at(end).is_broken; }
  [[nodiscard]] bool connects(const std::string& one, const std::string& two) const {
    return (ends_[0].process == one && ends_[1].process == two) || (ends_[0].process == two && ends_[1].process == one);
  }
  [[nodiscard]] bool touches(const std::string& name) const {
    return ends_[0].process == name || ends_[1].process == name;
  }
  /// Called once, when that end learns that the connection is broken.
  void set_on_break(End end, Task task) { at(end).on_break = std::move(task); }

  /// `arrive` is called at the other end, unless the message is lost.
  void send(End from, std::string what, Task arrive) {
    const End to = other(from);
    if (at(from).is_broken || !network_.leaves(at(from).process)) return;
    TimePoint& last = at(to).last_arrival;
    last = std::max(last, network_.simulation_.now() + network_.random_delay());
    network_.simulation_.at(last, [self = shared_from_this(), to, what = std::move(what), task = std::move(arrive)] {
      self->arrive(to, what, task);
    });
  }

  /// The link is whole again: what waited for it goes on.
  void heal() {
    for (const End to : {End::kCaller, End::kListener}) {
      for (auto& [what, task] : std::exchange(at(to).held, {})) {
        TimePoint& last = at(to).last_arrival;
        last = std::max(last, network_.simulation_.now() + network_.random_delay());
        network_.simulation_.at(
            last, [self = shared_from_this(), to, what = what, task = task] { self->arrive(to, what, task); });
      }
    }
  }

  void break_end(End end) {
    if (std::exchange(at(end).is_broken, true)) return;
    at(end).held.clear();
    if (at(end).on_break) std::exchange(at(end).on_break, nullptr)();
  }

  /// A process has died: the other end hears of it at once or after a while, as with sockets.
  void break_by(const std::string& dead) {
    for (const End end : {End::kCaller, End::kListener}) {
      if (at(end).process == dead) {
        break_end(end);
      } else {
        const Duration delay = network_.simulation_.one_in(4) ? network_.options_.break_after : network_.random_delay();
        network_.simulation_.after(delay, [self = shared_from_this(), end] { self->break_end(end); });
      }
    }
  }

 private:
  struct Side {
    std::string process;
    bool is_broken = false;
    TimePoint last_arrival{};
    std::vector<std::pair<std::string, Task>> held{};  // while the link is cut
    Task on_break{};
  };
  Side& at(End end) { return ends_[static_cast<std::size_t>(end)]; }
  [[nodiscard]] const Side& at(End end) const { return ends_[static_cast<std::size_t>(end)]; }

  void arrive(End to, const std::string& what, const Task& task) {
    if (at(to).is_broken) return;
    if (network_.is_cut(ends_[0].process, ends_[1].process)) {
      if (at(to).held.empty()) watch_cut(to);
      at(to).held.emplace_back(what, task);
      return;
    }
    network_.simulation_.note(concat(process(other(to)), " -> ", process(to), " ", what));
    task();
  }

  // If what waits now still waits then, both ends give the connection up.
  void watch_cut(End to) {
    network_.simulation_.after(network_.options_.break_after, [self = shared_from_this(), to] {
      if (self->at(to).held.empty()) return;
      self->break_end(End::kCaller);
      self->break_end(End::kListener);
    });
  }

  Network& network_;
  Side ends_[2];
};

/// One call, as both ends see it.
struct SimulatedCall {
  std::uint64_t id = 0;
  net::Bytes head;
  net::Bytes body;
  std::size_t sink_bytes = 0;
  std::atomic<bool> is_wanted = true;
  bool is_at_listener = false;  // and not answered
};

// ---------------------------------------------------------------- the calling end

class ConnectionState : public std::enable_shared_from_this<ConnectionState> {
 public:
  ConnectionState(Simulation& simulation, std::shared_ptr<Loop> loop, net::Address address, std::shared_ptr<Line> line)
      : simulation_(simulation), loop_(std::move(loop)), address_(std::move(address)), line_(std::move(line)) {}

  [[nodiscard]] const net::Address& address() const { return address_; }
  [[nodiscard]] bool is_open() const { return why_closed_.is_ok(); }
  [[nodiscard]] Line& line() { return *line_; }
  void set_accepted(SimulatedListener* listener) { listener_ = listener; }
  [[nodiscard]] bool is_connecting() const { return is_open() && listener_ == nullptr; }

  void call(net::Call call, const std::function<void(const std::shared_ptr<SimulatedCall>&)>& send) {
    const std::uint64_t id = next_++;
    auto shared = std::make_shared<SimulatedCall>();
    shared->id = id;
    shared->head = std::move(call.head);
    shared->body.assign(call.body.begin(), call.body.end());
    shared->sink_bytes = call.sink.size();
    const net::Deadline deadline = call.deadline;
    pending_.emplace(id, Pending{std::move(call), shared});
    if (!is_open()) {
      loop_->post([self = shared_from_this(), id] { self->finish(id, self->why_closed_); });
      return;
    }
    send(shared);
    look_later(id, deadline);
  }

  void take_reply(std::uint64_t id, Result<net::Reply> reply, const net::Bytes& body) {
    loop_->post([self = shared_from_this(), id, reply = std::move(reply), body]() mutable {
      const auto found = self->pending_.find(id);
      if (found == self->pending_.end()) return;
      if (!body.empty()) std::memcpy(found->second.call.sink.data(), body.data(), body.size());
      self->finish(id, std::move(reply));
    });
  }

  /// All calls end with `why`.
  void close(const Status& why) {
    if (!is_open()) return;
    why_closed_ = why;
    loop_->post([self = shared_from_this()] { self->finish_all(); });
  }
  void finish_all() {
    while (!pending_.empty()) finish(pending_.begin()->first, why_closed_);
  }

 private:
  struct Pending {
    net::Call call;
    std::shared_ptr<SimulatedCall> shared;
  };

  void finish(std::uint64_t id, Result<net::Reply> result) {
    const auto found = pending_.find(id);
    if (found == pending_.end()) return;
    const Pending ended = std::move(found->second);
    pending_.erase(found);
    ended.shared->is_wanted = false;
    ended.call.done(std::move(result));
  }

  void look_later(std::uint64_t id, TimePoint time) {
    if (time == TimePoint::max()) return;
    simulation_.at(time, [weak = weak_from_this(), id] {
      if (const auto self = weak.lock()) self->loop_->post([self, id] { self->look_at(id); });
    });
  }

  // A caller with patience asks a silent server whether it still works on the call.
  void look_at(std::uint64_t id) {
    const auto found = pending_.find(id);
    if (found == pending_.end()) return;
    const Pending& pending = found->second;
    if (pending.call.patience > Duration::zero() && pending.shared->is_at_listener && !line_->is_broken(End::kCaller)) {
      return look_later(id, simulation_.now() + pending.call.patience);
    }
    finish(id, Status(ErrorCode::kTimedOut, concat("call to ", address_.text, ": no answer before the deadline")));
  }

  Simulation& simulation_;
  std::shared_ptr<Loop> loop_;
  net::Address address_;
  std::shared_ptr<Line> line_;
  SimulatedListener* listener_ = nullptr;  // once it has accepted
  Status why_closed_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Pending> pending_;
};

// ---------------------------------------------------------------- the answering end

class SimulatedListener final : public net::Listener {
 public:
  SimulatedListener(Network& network, std::string process, net::Address address, net::Key key, net::Handler& handler);
  SimulatedListener(const SimulatedListener&) = delete;
  SimulatedListener& operator=(const SimulatedListener&) = delete;
  ~SimulatedListener() override;

  [[nodiscard]] const net::Address& address() const override { return address_; }
  void run() override {
    for (;;) {
      if (loop_->run_one()) continue;
      if (is_stopping_ && outstanding_ == 0) break;
      loop_->wait(TimePoint::max());
    }
    shut();
  }
  void stop() override {
    is_stopping_ = true;
    loop_->wake();
  }
  void post(Task task) override { loop_->post(std::move(task)); }
  void at(net::Clock::time_point time, Task task) override {
    network_.simulation_.at(time, [weak = std::weak_ptr(loop_), task = std::move(task)] {
      if (const auto loop = weak.lock()) loop->post(task);
    });
  }
  net::Caller& caller() override { return *caller_; }

  [[nodiscard]] const std::string& process() const { return process_; }
  [[nodiscard]] Simulation& simulation() const { return network_.simulation_; }
  [[nodiscard]] const std::shared_ptr<Loop>& loop() const { return loop_; }
  [[nodiscard]] Duration random_delay() { return network_.random_delay(); }

  /// Says no, or takes calls of the line from now on.
  Result<net::PeerId> accept(const std::shared_ptr<Line>& line, const net::Key& key) {
    if (is_stopping_) return Status(ErrorCode::kUnavailable, "the server stops");
    const bool is_server = key.holder == net::Key::Holder::kServers;
    if (key.bytes != (is_server ? key_ : key_.for_clients()).bytes)
      return Status(ErrorCode::kPermission, "the keys differ");
    const net::PeerId peer = network_.next_peer_++;
    peers_[peer] = {line, network_.identity_of(line->process(End::kCaller), is_server)};
    line->set_on_break(End::kListener, [this, peer] { disconnect(peer); });
    return peer;
  }
  void disconnect(net::PeerId peer) {
    if (peers_.erase(peer) == 0) return;
    for (const std::weak_ptr<SimulatedCall>& weak : calls_[peer]) {
      if (const auto call = weak.lock()) call->is_wanted = false;
    }
    calls_.erase(peer);
    loop_->post([this, peer] { handler_.disconnected(peer); });
  }
  void take_call(net::PeerId peer, const std::shared_ptr<Line>& line, const std::shared_ptr<ConnectionState>& caller,
                 const std::shared_ptr<SimulatedCall>& call);
  void release() {
    --outstanding_;
    loop_->wake();
  }
  void hold() { ++outstanding_; }

 private:
  void shut();

  Network& network_;
  std::string process_;
  net::Address address_;
  net::Key key_;
  net::Handler& handler_;
  std::shared_ptr<Loop> loop_;
  std::unique_ptr<net::Caller> caller_;
  struct Peer {
    std::shared_ptr<Line> line;
    net::Identity identity;
  };
  std::map<net::PeerId, Peer> peers_;
  std::map<net::PeerId, std::vector<std::weak_ptr<SimulatedCall>>> calls_;
  std::size_t outstanding_ = 0;  // requests that the handler has
  bool is_stopping_ = false;
  bool is_shut_ = false;
};

namespace {

class SimulatedRequest final : public net::Request::Impl {
 public:
  SimulatedRequest(SimulatedListener& listener, net::PeerId peer, net::Identity identity, std::shared_ptr<Line> line,
                   std::shared_ptr<ConnectionState> caller, std::shared_ptr<SimulatedCall> call)
      : listener_(listener),
        peer_(peer),
        line_(std::move(line)),
        caller_(std::move(caller)),
        call_(std::move(call)),
        identity_(std::move(identity)) {}
  SimulatedRequest(const SimulatedRequest&) = delete;
  SimulatedRequest& operator=(const SimulatedRequest&) = delete;
  ~SimulatedRequest() override {
    call_->is_at_listener = false;
    if (!is_answered_) send(gone(listener_.address(), "the server has dropped it"), {});
    listener_.release();
  }

  [[nodiscard]] std::span<const std::byte> head() const override { return call_->head; }
  [[nodiscard]] std::size_t body_bytes() const override { return call_->body.size(); }
  [[nodiscard]] net::PeerId peer() const override { return peer_; }
  [[nodiscard]] const net::Identity& identity() const override { return identity_; }
  [[nodiscard]] std::shared_ptr<const std::atomic<bool>> is_wanted() const override {
    return {call_, &call_->is_wanted};
  }

  void receive(std::span<std::byte> into, std::function<void(Status)> done) override {
    if (into.size() != call_->body.size()) {
      return done(invalid_argument(concat("receive: room for ", into.size(), " bytes, the body has ", body_bytes())));
    }
    receiving_ = std::make_shared<int>();
    listener_.at(listener_.simulation().now() + listener_.random_delay(),
                 [this, into, done = std::move(done), weak = std::weak_ptr(receiving_)] {
                   if (weak.expired()) return;  // answered or dropped meanwhile
                   receiving_.reset();
                   if (!call_->is_wanted) return done(gone(listener_.address(), "the caller has given up"));
                   if (!into.empty()) std::memcpy(into.data(), call_->body.data(), into.size());
                   done(Status::ok());
                 });
  }

  void reply(net::Bytes head, std::span<const std::byte> body, std::function<void()> sent) override {
    is_answered_ = true;
    receiving_.reset();
    call_->is_at_listener = false;
    if (body.size() > call_->sink_bytes) {
      send(invalid_argument(concat("reply from ", listener_.address().text, ": a body of ", body.size(),
                                   " bytes; the call has room for ", call_->sink_bytes)),
           {});
    } else {
      send(net::Reply{std::move(head), body.size()}, net::Bytes(body.begin(), body.end()));
    }
    if (!sent) return;
    listener_.hold();
    listener_.at(listener_.simulation().now() + listener_.random_delay(),
                 [&listener = listener_, sent = std::move(sent)] {
                   sent();
                   listener.release();
                 });
  }

 private:
  void send(Result<net::Reply> reply, net::Bytes body) {
    std::string what = reply.is_ok() ? concat("reply ", summary(reply->head, body.size())) : "no reply";
    line_->send(End::kListener, std::move(what),
                [caller = caller_, id = call_->id, reply = std::move(reply), body = std::move(body)] {
                  caller->take_reply(id, reply, body);
                });
  }

  SimulatedListener& listener_;
  net::PeerId peer_;
  std::shared_ptr<Line> line_;
  std::shared_ptr<ConnectionState> caller_;
  std::shared_ptr<SimulatedCall> call_;
  net::Identity identity_;
  std::shared_ptr<int> receiving_;
  bool is_answered_ = false;
};

class SimulatedConnection final : public net::Connection {
 public:
  SimulatedConnection(std::shared_ptr<ConnectionState> state,
                      std::function<void(const std::shared_ptr<SimulatedCall>&)> send)
      : state_(std::move(state)), send_(std::move(send)) {}
  SimulatedConnection(const SimulatedConnection&) = delete;
  SimulatedConnection& operator=(const SimulatedConnection&) = delete;
  ~SimulatedConnection() override {
    Line& line = state_->line();
    line.send(End::kCaller, "goodbye", [self = line.shared_from_this()] { self->break_end(End::kListener); });
    line.set_on_break(End::kCaller, nullptr);
    state_->close(gone(state_->address(), "the connection was closed"));
    state_->finish_all();
  }

  void call(net::Call call) override { state_->call(std::move(call), send_); }
  [[nodiscard]] bool is_open() const override { return state_->is_open(); }
  [[nodiscard]] const net::Address& address() const override { return state_->address(); }

 private:
  std::shared_ptr<ConnectionState> state_;
  std::function<void(const std::shared_ptr<SimulatedCall>&)> send_;
};

}  // namespace

/// The network of one process.
class Endpoint final : public net::Network {
 public:
  Endpoint(simulation::Network& network, std::string process) : network_(network), process_(std::move(process)) {}

  Result<std::unique_ptr<net::Caller>> make_caller(const net::Address&, const runtime::Runtime&) override {
    return make_caller_on(std::make_shared<Loop>(network_.simulation_));
  }
  std::unique_ptr<net::Caller> make_caller_on(std::shared_ptr<Loop> loop);

  Result<std::unique_ptr<net::Listener>> listen(const net::Address& address, const net::Key& key, net::Handler& handler,
                                                const net::ListenOptions&) override {
    if (network_.listeners_.contains(address.text))
      return Status(ErrorCode::kIoError, concat("listen on ", address.text, ": the name is taken"));
    return std::unique_ptr<net::Listener>(
        std::make_unique<SimulatedListener>(network_, process_, address, key, handler));
  }

  std::unique_ptr<net::Connection> connect(const std::shared_ptr<Loop>& loop, const net::Address& address,
                                           const net::Key& key, net::Deadline deadline);

 private:
  simulation::Network& network_;
  std::string process_;
};

namespace {

class SimulatedCaller final : public net::Caller {
 public:
  SimulatedCaller(Endpoint& endpoint, std::shared_ptr<Loop> loop) : endpoint_(endpoint), loop_(std::move(loop)) {}
  SimulatedCaller(const SimulatedCaller&) = delete;
  SimulatedCaller& operator=(const SimulatedCaller&) = delete;
  // That of a listener is closed by now.  What is left holds connections, and those the loop.
  ~SimulatedCaller() override { loop_->close(); }

  std::unique_ptr<net::Connection> connect(const net::Address& address, const net::Key& key,
                                           net::Deadline deadline) override {
    return endpoint_.connect(loop_, address, key, deadline);
  }
  void progress() override { loop_->run_all(); }
  void wait(net::Deadline deadline) override {
    loop_->wait(deadline);
    loop_->run_all();
  }
  void wake() override { loop_->wake(); }

 private:
  Endpoint& endpoint_;
  std::shared_ptr<Loop> loop_;
};

}  // namespace

std::unique_ptr<net::Caller> Endpoint::make_caller_on(std::shared_ptr<Loop> loop) {
  return std::make_unique<SimulatedCaller>(*this, std::move(loop));
}

std::unique_ptr<net::Connection> Endpoint::connect(const std::shared_ptr<Loop>& loop, const net::Address& address,
                                                   const net::Key& key, net::Deadline deadline) {
  // Addresses are "sim:PROCESS".
  const std::string to = address.text.substr(address.text.find(':') + 1);
  const auto line = std::make_shared<Line>(network_, process_, to);
  network_.lines_.push_back(line);
  const auto state = std::make_shared<ConnectionState>(network_.simulation_, loop, address, line);
  const auto refuse = [weak = std::weak_ptr(state), address](ErrorCode code, std::string_view why) {
    if (const auto alive = weak.lock()) alive->close({code, concat("connect to ", address.text, ": ", why)});
  };
  line->set_on_break(End::kCaller, [weak = std::weak_ptr(state), address] {
    if (const auto alive = weak.lock()) alive->close(gone(address, "the server is gone"));
  });
  if (!network_.is_alive(process_)) line->break_end(End::kCaller);

  const auto peer = std::make_shared<net::PeerId>(0);
  line->send(End::kCaller, "hello", [this, line, state, refuse, address, key, peer] {
    const auto found = network_.listeners_.find(address.text);
    if (found == network_.listeners_.end() || !network_.is_alive(found->second->process())) {
      return line->send(End::kListener, "nobody",
                        [refuse] { refuse(ErrorCode::kUnavailable, "nobody listens there"); });
    }
    const Result<net::PeerId> accepted = found->second->accept(line, key);
    if (!accepted.is_ok()) {
      return line->send(End::kListener, "no", [refuse, why = accepted.status()] { refuse(why.code(), why.message()); });
    }
    *peer = *accepted;
    line->send(End::kListener, "welcome", [state, listener = found->second] { state->set_accepted(listener); });
  });
  network_.simulation_.at(deadline, [weak = std::weak_ptr(state), refuse] {
    const auto alive = weak.lock();
    if (alive && alive->is_connecting()) refuse(ErrorCode::kUnavailable, "no answer before the deadline");
  });

  auto send = [this, line, weak = std::weak_ptr(state), address, peer](const std::shared_ptr<SimulatedCall>& call) {
    const auto caller = weak.lock();
    line->send(End::kCaller, concat("call ", summary(call->head, call->body.size())),
               [this, line, caller, address, peer, call] {
                 const auto found = network_.listeners_.find(address.text);
                 if (*peer == 0 || found == network_.listeners_.end()) return;  // refused, or it ended meanwhile
                 found->second->take_call(*peer, line, caller, call);
               });
  };
  return std::make_unique<SimulatedConnection>(state, std::move(send));
}

SimulatedListener::SimulatedListener(Network& network, std::string process, net::Address address, net::Key key,
                                     net::Handler& handler)
    : network_(network),
      process_(std::move(process)),
      address_(std::move(address)),
      key_(std::move(key)),
      handler_(handler),
      loop_(std::make_shared<Loop>(network.simulation_)),
      caller_(network.process(process_).endpoint->make_caller_on(loop_)) {
  network_.listeners_[address_.text] = this;
}

SimulatedListener::~SimulatedListener() { shut(); }

void SimulatedListener::take_call(net::PeerId peer, const std::shared_ptr<Line>& line,
                                  const std::shared_ptr<ConnectionState>& caller,
                                  const std::shared_ptr<SimulatedCall>& call) {
  if (!peers_.contains(peer) || is_stopping_) return;  // the caller learns that the connection is broken
  call->is_at_listener = true;
  calls_[peer].push_back(call);
  hold();
  // Shared only because tasks can be copied.  A task that never runs drops the request.
  auto request = std::make_shared<net::Request>(
      std::make_unique<SimulatedRequest>(*this, peer, peers_.at(peer).identity, line, caller, call));
  loop_->post([this, request] { handler_.handle(std::move(*request)); });
}

void SimulatedListener::shut() {
  if (std::exchange(is_shut_, true)) return;
  network_.listeners_.erase(address_.text);
  loop_->close();
  for (const auto& [id, peer] : std::exchange(peers_, {})) {
    peer.line->set_on_break(End::kListener, nullptr);
    peer.line->break_by(process_);
  }
}

}  // namespace internal

// ---------------------------------------------------------------- the network

Network::Network(Simulation& simulation, NetworkOptions options) : simulation_(simulation), options_(options) {}

Network::~Network() = default;

Network::Process& Network::process(const std::string& name) {
  Process& process = processes_[name];
  if (process.endpoint == nullptr) process.endpoint = std::make_unique<internal::Endpoint>(*this, name);
  return process;
}

net::Network& Network::of(const std::string& name) { return *process(name).endpoint; }

void Network::cut(const std::string& one, const std::string& other) {
  simulation_.note(concat("cut ", one, " ", other));
  cuts_.insert(std::minmax(one, other));
}

void Network::heal(const std::string& one, const std::string& other) {
  simulation_.note(concat("heal ", one, " ", other));
  cuts_.erase(std::minmax(one, other));
  for (const auto& weak : lines_) {
    const auto line = weak.lock();
    if (line && line->connects(one, other)) line->heal();
  }
}

void Network::heal_all() {
  while (!cuts_.empty()) {
    const auto [one, other] = *cuts_.begin();
    heal(one, other);
  }
}

bool Network::is_cut(const std::string& one, const std::string& other) const {
  return !cuts_.empty() && cuts_.contains(std::minmax(one, other));
}

void Network::kill(const std::string& name) {
  Process& dead = process(name);
  if (!std::exchange(dead.is_alive, false)) return;
  dead.dies_at = UINT64_MAX;
  simulation_.note(concat("kill ", name));
  std::erase_if(lines_, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : std::vector(lines_)) {
    const auto line = weak.lock();
    if (line && line->touches(name)) line->break_by(name);
  }
}

void Network::revive(const std::string& name) {
  simulation_.note(concat("revive ", name));
  process(name).is_alive = true;
}

void Network::kill_at(const std::string& name, std::uint64_t message) {
  process(name).dies_at = process(name).sent + message;
}

void Network::spare(const std::string& name) { process(name).dies_at = UINT64_MAX; }

bool Network::is_alive(const std::string& name) const {
  const auto found = processes_.find(name);
  return found == processes_.end() || found->second.is_alive;
}

void Network::set_identity(const std::string& name, net::Identity identity) {
  process(name).identity = std::move(identity);
}

net::Identity Network::identity_of(const std::string& name, bool is_server) {
  net::Identity identity = process(name).identity.value_or(net::Identity::of_this_process());
  identity.is_server = is_server;
  return identity;
}

std::uint64_t Network::sent_by(const std::string& name) const {
  const auto found = processes_.find(name);
  return found == processes_.end() ? 0 : found->second.sent;
}

bool Network::leaves(const std::string& sender) {
  Process& process = this->process(sender);
  if (process.is_alive && process.sent == process.dies_at) kill(sender);
  if (!process.is_alive) return false;
  ++process.sent;
  return true;
}

}  // namespace weir::simulation
