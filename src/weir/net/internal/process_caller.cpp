// The calling end: connections to other processes, and the calls under way on them.
//
// A connection passes these states:
//
//   connecting    no link: the listener is busy, and is tried again every millisecond
//                 a link: the handshake is in progress; calls wait in `queued_`
//   established   frames carry the session that the handshake agreed on
//   ended         the link failed, the server refused, or the deadline passed: `end_` tells calls that come later

#include <weir/net/internal/process_caller.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include <sys/eventfd.h>
#include <unistd.h>

#include <weir/base/os_error.h>
#include <weir/base/text.h>
#include <weir/net/internal/call_table.h>
#include <weir/net/internal/errors.h>
#include <weir/net/internal/handshake.h>
#include <weir/net/internal/munge.h>

namespace weir::net::internal {

namespace {

constexpr auto kGoodbyePatience = std::chrono::milliseconds(100);
constexpr auto kGivePatience = std::chrono::seconds(2);
constexpr auto kRetryPause = std::chrono::milliseconds(1);

}  // namespace

class ProcessConnection;

/// What a Caller and its connections share.
class CallerState {
 public:
  CallerState(Rings rings, const runtime::Runtime& runtime)
      : settings_(*runtime.settings),
        links_([this](const Frame& frame, std::span<const std::byte> payload,
                      const Link* from) { take(frame, payload, from); },
               [this](const Frame& frame, const Link* from) { return place_of(frame, from); }, rings, runtime) {}

  [[nodiscard]] Links& links() { return links_; }
  [[nodiscard]] CallTable& table() { return table_; }
  [[nodiscard]] Deadline now() const { return links_.now(); }
  [[nodiscard]] const runtime::Settings& settings() const { return settings_; }

  void add_connecting(ProcessConnection& connection) { connecting_.push_back(&connection); }
  void remove_connecting(const ProcessConnection& connection) { std::erase(connecting_, &connection); }
  void add(std::uint64_t session, ProcessConnection& connection) { connections_[session] = &connection; }
  void remove(std::uint64_t session) { connections_.erase(session); }

  /// Ends a call with `result`, as soon as nobody reads its body any more.
  void settle(CallId id, Result<Reply> result);
  void look_at_due(Deadline now);
  [[nodiscard]] Deadline next_look() const;

 private:
  /// What the table keeps for us with each call.
  struct Progress {
    std::shared_ptr<Outgoing> body;
    std::optional<Result<Reply>> result;  // known, but the body is still being read
    std::size_t seen_bytes = 0;           // of the body, sent when the call was last looked at
  };
  void expire(CallId id, CallTable::Pending& pending);

  void take(const Frame& frame, std::span<const std::byte> payload, const Link* from);
  /// The call that a frame is about; null if it is over, or none of the connection's.
  [[nodiscard]] ProcessConnection* connection_of(const Frame& frame, const Link* from) const;
  CallTable::Pending* pending_of(const Frame& frame, const Link* from);
  /// It has ended, but its body is still being sent.
  static bool is_over(CallTable::Pending& pending) {
    return pending.transport != nullptr && progress_of(pending).result.has_value();
  }
  std::span<std::byte> place_of(const Frame& frame, const Link* from);
  void take_greeting(const Frame& frame, std::span<const std::byte> payload, const Link* from);
  void take_reply(CallId id, CallTable::Pending& pending, const Frame& frame, std::span<const std::byte> payload);
  void take_body(CallId id, CallTable::Pending& pending, const Frame& frame, std::span<const std::byte> payload);
  void send_body(CallId id, CallTable::Pending& pending);
  void finish_if_whole(CallId id, CallTable::Pending& pending);
  static Progress& progress_of(CallTable::Pending& pending);

  CallTable table_;
  std::unordered_map<std::uint64_t, ProcessConnection*> connections_;  // by the session of frames to us
  std::vector<ProcessConnection*> connecting_;
  const runtime::Settings& settings_;
  Links links_;  // last: ends first, while what its bodies tell is still there
};

class ProcessConnection : public Connection {
 public:
  ProcessConnection(std::shared_ptr<CallerState> state, Address address, Key key, Deadline deadline,
                    CallerHandshake handshake)
      : state_(std::move(state)),
        address_(std::move(address)),
        key_(std::move(key)),
        deadline_(deadline),
        handshake_(std::move(handshake)) {
    state_->add_connecting(*this);
  }
  ProcessConnection(const ProcessConnection&) = delete;
  ProcessConnection& operator=(const ProcessConnection&) = delete;

  ~ProcessConnection() override {
    if (link_ != nullptr && link_->is_open()) {
      link_->say_goodbye();
      state_->links().flush(state_->now() + kGoodbyePatience);
    }
    end(gone(address_, "the connection was closed"));
    // Bodies that were being sent are given back.
    const auto patience = state_->now() + kGivePatience;
    while (!state_->table().calls_of(this).empty() && state_->now() < patience) state_->links().progress();
    for (const CallId id : state_->table().calls_of(this))
      state_->table().finish(id, gone(address_, "the connection was closed"));
    state_->links().finish_closing(patience);
    state_->table().run_ready_of(this);
  }

  void call(Call call) override {
    CallTable& table = state_->table();
    if (const Status status = check_call(address_, call); !status.is_ok())
      return table.refuse(this, std::move(call), status);
    if (!is_open()) return table.refuse(this, std::move(call), end_);
    Bytes payload = std::move(call.head);
    Frame frame;
    frame.kind = FrameKind::kCall;
    frame.head_bytes = static_cast<std::uint32_t>(payload.size());
    frame.number = call.body.size();
    frame.sink_bytes = call.sink.size();
    if (payload.size() + call.body.size() <= kMostInlineCall)
      payload.insert(payload.end(), call.body.begin(), call.body.end());
    frame.call = table.add(this, std::move(call));
    if (is_connecting()) {
      queued_.push_back({frame, std::move(payload)});
    } else {
      link_->send(frame, std::move(payload));
    }
    state_->links().note_activity();
  }

  [[nodiscard]] bool is_open() const override { return end_.is_ok(); }
  [[nodiscard]] const Address& address() const override { return address_; }
  [[nodiscard]] Link& link() const { return *link_; }
  [[nodiscard]] bool is_connecting() const { return is_open() && session_ == 0; }

  // ---- connecting

  /// Takes the first steps.
  void begin() {
    if (Status status = check_key(address_, key_); !status.is_ok()) return end(std::move(status));
    if (!address_.text.starts_with("tcp:")) {
      return end(
          invalid_argument(concat("connect to ", address_.text, ": other processes have addresses tcp:HOST:PORT")));
    }
    Result<SocketAddress> socket = resolve(address_);
    if (!socket.is_ok()) return end(cannot_connect(address_, socket.status()));
    socket_ = *socket;
    try_link();
  }
  [[nodiscard]] Deadline next_look() const { return link_ == nullptr ? std::min(retry_, deadline_) : deadline_; }
  void look(Deadline now) {
    if (now >= deadline_) {
      end(cannot_connect(address_, {ErrorCode::kUnavailable, "no answer before the deadline"}));
    } else if (link_ == nullptr && now >= retry_) {
      try_link();
    }
  }
  [[nodiscard]] bool is_greeted_by(const Link* link) const { return link_ != nullptr && link_.get() == link; }
  void take_greeting(const Frame& frame, std::span<const std::byte> payload) {
    if (frame.kind == FrameKind::kRefusal) {
      link_->fail(handshake_.read_refusal(payload));
    } else if (frame.kind == FrameKind::kWelcome) {
      establish();
    } else if (frame.kind == FrameKind::kChallenge) {
      Result<Bytes> proof = handshake_.prove(payload, link_->channel(), [this](std::span<const std::byte> binding) {
        return Munge(state_->settings()).encode(binding);
      });
      if (!proof.is_ok()) return link_->fail(proof.status());
      Frame answer;
      answer.kind = FrameKind::kProof;
      link_->send(answer, std::move(*proof));
    }
  }

  /// All calls end.  The link is closed, or is by this.
  void fail(std::string_view why) { end(gone(address_, why)); }

 private:
  struct Queued {
    Frame frame;
    Bytes payload;
  };

  void try_link() {
    Result<std::shared_ptr<Link>> link = state_->links().connect(socket_, key_);
    if (!link.is_ok()) return end(cannot_connect(address_, link.status()));
    retry_ = state_->now() + kRetryPause;
    if (*link == nullptr) return;
    link_ = std::move(*link);
    link_->set_on_failure([this](const Status& why) {
      end(is_connecting() ? cannot_connect(address_, why) : gone(address_, why.message()));
    });
    link_->send(Frame{}, handshake_.hello());
  }

  void establish() {
    const Sessions sessions = handshake_.sessions();
    session_ = sessions.to_caller;
    link_->set_session(sessions.to_listener);
    state_->remove_connecting(*this);
    state_->add(session_, *this);
    for (Queued& queued : std::exchange(queued_, {})) {
      // Those that are over meanwhile are not sent.
      if (state_->table().find(queued.frame.call) != nullptr) link_->send(queued.frame, std::move(queued.payload));
    }
  }

  void end(Status why) {
    if (!end_.is_ok()) return;
    const bool was_connecting = is_connecting();
    end_ = was_connecting ? why : gone(address_, "the server is gone");
    state_->remove_connecting(*this);
    if (session_ != 0) state_->remove(session_);
    queued_.clear();
    if (link_ != nullptr) link_->abort();
    for (const CallId id : state_->table().calls_of(this)) state_->settle(id, why);
  }

  std::shared_ptr<CallerState> state_;
  Address address_;
  Key key_;
  Deadline deadline_;
  Deadline retry_{};
  CallerHandshake handshake_;
  SocketAddress socket_;
  std::shared_ptr<Link> link_;  // null: there is none yet
  std::uint64_t session_ = 0;   // of frames to us; 0: not established
  std::vector<Queued> queued_;
  Status end_;  // OK: open
};

namespace {

ProcessConnection* owner_of(const CallTable::Pending& pending) {
  return static_cast<ProcessConnection*>(const_cast<void*>(pending.owner));  // the table only compares it
}

}  // namespace

CallerState::Progress& CallerState::progress_of(CallTable::Pending& pending) {
  if (pending.transport == nullptr) pending.transport = std::make_shared<Progress>();
  return *static_cast<Progress*>(pending.transport.get());
}

void CallerState::settle(CallId id, Result<Reply> result) {
  CallTable::Pending* pending = table_.find(id);
  if (pending == nullptr) return;
  if (pending->transport == nullptr) return table_.finish(id, std::move(result));
  Progress& progress = progress_of(*pending);
  if (progress.body == nullptr) return table_.finish(id, std::move(result));
  progress.body->stop();
  if (!progress.result) progress.result = std::move(result);
}

Deadline CallerState::next_look() const {
  Deadline next = table_.next_look();
  for (const ProcessConnection* connection : connecting_) next = std::min(next, connection->next_look());
  return next;
}

void CallerState::look_at_due(Deadline now) {
  if (!connecting_.empty()) {
    for (ProcessConnection* connection : std::vector(connecting_)) connection->look(now);
  }
  for (const CallId id : table_.due(now)) {
    CallTable::Pending* pending = table_.find(id);
    if (pending == nullptr) continue;
    // As long as it is being connected to, the server cannot be asked.
    if (owner_of(*pending)->is_connecting()) pending->has_sign = true;
    if (pending->transport != nullptr && progress_of(*pending).body != nullptr) {
      Progress& progress = progress_of(*pending);
      const std::size_t seen = std::exchange(progress.seen_bytes, progress.body->sent_bytes());
      if (seen != progress.seen_bytes) pending->has_sign = true;
    }
    switch (table_.look_at(id, now)) {
      case CallTable::Look::kWait: break;
      case CallTable::Look::kAsk: {
        Frame ask;
        ask.kind = FrameKind::kAsk;
        ask.call = id;
        owner_of(*pending)->link().send(ask);
        break;
      }
      case CallTable::Look::kExpired: expire(id, *pending); break;
    }
  }
}

void CallerState::expire(CallId id, CallTable::Pending& pending) {
  ProcessConnection* connection = owner_of(pending);
  const bool is_held =
      pending.transport != nullptr && progress_of(pending).body != nullptr && progress_of(pending).body->is_held();
  Frame cancel;
  cancel.kind = FrameKind::kCancel;
  cancel.call = id;
  if (!connection->is_connecting()) connection->link().send(cancel);
  settle(id, timed_out(pending.call, connection->address()));
  // Only the end of the connection gives the body back.
  if (is_held && connection->is_open()) connection->fail("the server stopped reading");
}

ProcessConnection* CallerState::connection_of(const Frame& frame, const Link* from) const {
  const auto found = connections_.find(frame.session);
  if (found == connections_.end()) return nullptr;
  // UCX does not tell where a frame comes from.
  return from == nullptr || &found->second->link() == from ? found->second : nullptr;
}

// Late frames of calls that are over are usual; those of others are not ours.
CallTable::Pending* CallerState::pending_of(const Frame& frame, const Link* from) {
  const ProcessConnection* const connection = connection_of(frame, from);
  CallTable::Pending* const pending = table_.find(frame.call);
  return connection != nullptr && pending != nullptr && pending->owner == connection ? pending : nullptr;
}

std::span<std::byte> CallerState::place_of(const Frame& frame, const Link* from) {
  CallTable::Pending* const pending = pending_of(frame, from);
  if (pending == nullptr || is_over(*pending) || frame.number > pending->call.sink.size()) return {};
  return pending->call.sink.subspan(frame.number);
}

void CallerState::take(const Frame& frame, std::span<const std::byte> payload, const Link* from) {
  if (is_handshake(frame.kind)) return take_greeting(frame, payload, from);
  if (frame.kind == FrameKind::kGoodbye) {
    ProcessConnection* const connection = connection_of(frame, from);
    if (connection != nullptr) connection->link().fail(left(printable(payload)));
    return;
  }
  CallTable::Pending* pending = pending_of(frame, from);
  if (pending == nullptr) return;
  pending->has_sign = true;
  switch (frame.kind) {
    case FrameKind::kReply: return take_reply(frame.call, *pending, frame, payload);
    case FrameKind::kBody: return take_body(frame.call, *pending, frame, payload);
    case FrameKind::kPull: return send_body(frame.call, *pending);
    case FrameKind::kDropped:
      return settle(frame.call, gone(owner_of(*pending)->address(),
                                     payload.empty() ? "the server has dropped it" : printable(payload)));
    default: return;
  }
}

void CallerState::take_reply(CallId id, CallTable::Pending& pending, const Frame& frame,
                             std::span<const std::byte> payload) {
  const Address& address = owner_of(pending)->address();
  if (const Status status = check_reply(address, frame.head_bytes, frame.number, pending.call.sink.size());
      !status.is_ok())
    return settle(id, status);
  const auto head = payload.first(frame.head_bytes);
  const auto body = payload.subspan(frame.head_bytes);
  pending.reply = Reply{{head.begin(), head.end()}, frame.number};
  if (!body.empty()) {
    std::memcpy(pending.call.sink.data(), body.data(), body.size());
    pending.received_bytes = body.size();
  }
  finish_if_whole(id, pending);
}

void CallerState::take_body(CallId id, CallTable::Pending& pending, const Frame& frame,
                            std::span<const std::byte> payload) {
  const std::span<std::byte> sink = pending.call.sink;
  if (is_over(pending) || frame.number > sink.size() || payload.size() > sink.size() - frame.number) return;
  std::byte* const place = sink.data() + frame.number;
  if (payload.data() != place) std::memcpy(place, payload.data(), payload.size());
  pending.received_bytes += payload.size();
  finish_if_whole(id, pending);
}

void CallerState::finish_if_whole(CallId id, CallTable::Pending& pending) {
  if (pending.reply && pending.received_bytes >= pending.reply->body_bytes) settle(id, std::move(*pending.reply));
}

void CallerState::send_body(CallId id, CallTable::Pending& pending) {
  Progress& progress = progress_of(pending);
  if (progress.body != nullptr || pending.call.body.empty()) return;  // asked twice
  progress.body = owner_of(pending)->link().send_body(id, pending.call.body, [this, id] {
    CallTable::Pending* sent = table_.find(id);
    if (sent == nullptr) return;
    Progress& state = progress_of(*sent);
    state.body = nullptr;
    if (state.result) {
      Result<Reply> result = std::move(*state.result);
      table_.finish(id, std::move(result));
    }
  });
}

void CallerState::take_greeting(const Frame& frame, std::span<const std::byte> payload, const Link* from) {
  const auto found = std::find_if(connecting_.begin(), connecting_.end(),
                                  [&](const ProcessConnection* one) { return one->is_greeted_by(from); });
  if (found != connecting_.end()) (*found)->take_greeting(frame, payload);
}

// ---------------------------------------------------------------- the caller

ProcessCaller::ProcessCaller(std::uint32_t version, Rings rings, const runtime::Runtime& runtime, Descriptor wake_fd)
    : state_(std::make_shared<CallerState>(rings, runtime)), version_(version), wake_fd_(std::move(wake_fd)) {}

Result<std::unique_ptr<ProcessCaller>> ProcessCaller::create(std::uint32_t version, Rings rings,
                                                             const runtime::Runtime& runtime) {
  Descriptor wake_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_fd.is_open()) return os_error(ErrorCode::kIoError, "eventfd");
  return std::make_unique<ProcessCaller>(version, rings, runtime, std::move(wake_fd));
}

std::unique_ptr<Connection> ProcessCaller::connect(const Address& address, const Key& key, Deadline deadline) {
  auto connection = std::make_unique<ProcessConnection>(
      state_, address, key, deadline, CallerHandshake(key, Identity::of_this_process().host, version_));
  connection->begin();
  return connection;
}

bool ProcessCaller::advance() {
  const bool has_progressed = state_->links().progress();
  state_->look_at_due(state_->now());
  return has_progressed;
}

bool ProcessCaller::has_completions() const { return state_->table().has_ready(); }
void ProcessCaller::run_completions() { state_->table().run_ready(); }
Deadline ProcessCaller::next_look() const { return state_->next_look(); }
Links& ProcessCaller::links() { return state_->links(); }

void ProcessCaller::progress() {
  while (state_->links().progress()) {
    if (has_completions()) break;
  }
  state_->look_at_due(state_->now());
  run_completions();
}

void ProcessCaller::wait(Deadline deadline) {
  bool has_progressed = false;
  if (!has_completions() && !is_woken_) {
    has_progressed = links().spin_then_sleep(std::min(deadline, next_look()), wake_fd_.get(), is_woken_);
  }
  if (is_woken_.exchange(false)) drain(wake_fd_.get());
  // What the caller waits for has come: it is told at once, before others are looked for.
  if (!has_progressed || !has_completions()) return progress();
  state_->look_at_due(state_->now());
  run_completions();
}

void ProcessCaller::wake() {
  if (is_woken_.exchange(true)) return;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_fd_.get(), &one, sizeof one));
}

Result<std::unique_ptr<Caller>> make_process_caller(std::uint32_t version, Rings rings,
                                                    const runtime::Runtime& runtime) {
  WEIR_TRY(auto caller, ProcessCaller::create(version, rings, runtime));
  return std::unique_ptr<Caller>(std::move(caller));
}

}  // namespace weir::net::internal
