// The calling end: connections to other processes, and the calls under way on them.

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include <weir/base/text.h>
#include <weir/net/internal/call_table.h>
#include <weir/net/internal/errors.h>
#include <weir/net/internal/handshake.h>
#include <weir/net/internal/links.h>
#include <weir/net/internal/transports.h>

namespace weir::net::internal {

namespace {

constexpr auto kGoodbyePatience = std::chrono::milliseconds(100);
constexpr auto kGivePatience = std::chrono::seconds(2);

/// How a connection comes to be; ends with a result.
struct Greeting {
  CallerHandshake handshake;
  std::optional<Status> result;
};

class ProcessConnection;

/// What a Caller and its connections share.
class CallerState {
 public:
  explicit CallerState(Rings rings)
      : links_([this](const Frame& frame, std::span<const std::byte> payload,
                      const Link* from) { take(frame, payload, from); },
               rings) {}

  [[nodiscard]] Links& links() { return links_; }
  [[nodiscard]] CallTable& table() { return table_; }

  Result<std::shared_ptr<Link>> greet(const Address& address, Greeting& greeting, Deadline deadline);

  void add(std::uint64_t session, ProcessConnection& connection) { connections_[session] = &connection; }
  void remove(std::uint64_t session) { connections_.erase(session); }

  /// Ends a call with `result`, as soon as nobody reads its body any more.
  void settle(CallId id, Result<Reply> result);
  void look_at_due(Clock::time_point now);

 private:
  /// What the table keeps for us with each call.
  struct Progress {
    std::shared_ptr<Outgoing> body;
    std::optional<Result<Reply>> result;  // known, but the body is still being read
    std::size_t seen_bytes = 0;           // of the body, sent when the call was last looked at
  };
  void expire(CallId id, CallTable::Pending& pending);

  void take(const Frame& frame, std::span<const std::byte> payload, const Link* from);
  void take_greeting(const Frame& frame, std::span<const std::byte> payload, const Link* from);
  void take_reply(CallId id, CallTable::Pending& pending, const Frame& frame, std::span<const std::byte> payload);
  void take_body(CallId id, CallTable::Pending& pending, const Frame& frame, std::span<const std::byte> payload);
  void send_body(CallId id, CallTable::Pending& pending);
  void finish_if_whole(CallId id, CallTable::Pending& pending);
  static Progress& progress_of(CallTable::Pending& pending);

  CallTable table_;
  std::unordered_map<std::uint64_t, ProcessConnection*> connections_;  // by the session of frames to us
  std::shared_ptr<Link> greeting_link_;
  Greeting* greeting_ = nullptr;
  Links links_;  // last: ends first, while what its bodies tell is still there
};

class ProcessConnection : public Connection {
 public:
  ProcessConnection(std::shared_ptr<CallerState> state, std::shared_ptr<Link> link, Address address, Sessions sessions)
      : state_(std::move(state)), link_(std::move(link)), address_(std::move(address)), session_(sessions.to_caller) {
    link_->set_session(sessions.to_listener);
    link_->set_on_failure([this](const Status& why) { fail(why.message()); });
    state_->add(session_, *this);
  }
  ProcessConnection(const ProcessConnection&) = delete;
  ProcessConnection& operator=(const ProcessConnection&) = delete;

  ~ProcessConnection() override {
    state_->remove(session_);
    if (link_->is_open()) {
      link_->say_goodbye();
      state_->links().flush(Clock::now() + kGoodbyePatience);
    }
    link_->abort();
    fail("the connection was closed");
    // Bodies that were being sent are given back.
    const auto patience = Clock::now() + kGivePatience;
    while (!state_->table().calls_of(this).empty() && Clock::now() < patience) state_->links().progress();
    for (const CallId id : state_->table().calls_of(this))
      state_->table().finish(id, gone(address_, "the connection was closed"));
    state_->links().finish_closing(patience);
    state_->table().run_ready_of(this);
  }

  void call(Call call) override {
    CallTable& table = state_->table();
    if (const Status status = check_call(address_, call); !status.is_ok())
      return table.refuse(this, std::move(call), status);
    if (!link_->is_open()) return table.refuse(this, std::move(call), gone(address_, "the server is gone"));
    Bytes payload = std::move(call.head);
    Frame frame;
    frame.kind = FrameKind::kCall;
    frame.head_bytes = static_cast<std::uint32_t>(payload.size());
    frame.number = call.body.size();
    frame.sink_bytes = call.sink.size();
    if (payload.size() + call.body.size() <= kPieceBytes)
      payload.insert(payload.end(), call.body.begin(), call.body.end());
    frame.call = table.add(this, std::move(call));
    link_->send(frame, std::move(payload));
    state_->links().note_activity();
  }

  [[nodiscard]] bool is_open() const override { return link_->is_open(); }
  [[nodiscard]] const Address& address() const override { return address_; }
  [[nodiscard]] Link& link() const { return *link_; }

  /// All calls end.  The link is closed, or is by this.
  void fail(std::string_view why) {
    link_->abort();
    for (const CallId id : state_->table().calls_of(this)) state_->settle(id, gone(address_, why));
  }

 private:
  std::shared_ptr<CallerState> state_;
  std::shared_ptr<Link> link_;
  Address address_;
  std::uint64_t session_;
};

ProcessConnection* connection_of(const CallTable::Pending& pending) {
  return static_cast<ProcessConnection*>(const_cast<void*>(pending.owner));  // the table only compares it
}

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

void CallerState::look_at_due(Clock::time_point now) {
  for (const CallId id : table_.due(now)) {
    CallTable::Pending* pending = table_.find(id);
    if (pending == nullptr) continue;
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
        connection_of(*pending)->link().send(ask);
        break;
      }
      case CallTable::Look::kExpired: expire(id, *pending); break;
    }
  }
}

void CallerState::expire(CallId id, CallTable::Pending& pending) {
  ProcessConnection* connection = connection_of(pending);
  const bool is_held =
      pending.transport != nullptr && progress_of(pending).body != nullptr && progress_of(pending).body->is_held();
  Frame cancel;
  cancel.kind = FrameKind::kCancel;
  cancel.call = id;
  connection->link().send(cancel);
  settle(id, timed_out(pending.call, connection->address()));
  // Only the end of the connection gives the body back.
  if (is_held && connection->is_open()) connection->fail("the server stopped reading");
}

void CallerState::take(const Frame& frame, std::span<const std::byte> payload, const Link* from) {
  if (is_handshake(frame.kind)) return take_greeting(frame, payload, from);
  const auto found = connections_.find(frame.session);
  if (found != connections_.end() && frame.kind == FrameKind::kGoodbye) return found->second->link().fail(left());
  CallTable::Pending* pending = table_.find(frame.call);
  // Late frames of calls that are over are usual; those of others are not ours.
  if (found == connections_.end() || pending == nullptr || pending->owner != found->second) return;
  pending->has_sign = true;
  switch (frame.kind) {
    case FrameKind::kReply: return take_reply(frame.call, *pending, frame, payload);
    case FrameKind::kBody: return take_body(frame.call, *pending, frame, payload);
    case FrameKind::kPull: return send_body(frame.call, *pending);
    case FrameKind::kDropped: return settle(frame.call, gone(found->second->address(), "the server has dropped it"));
    default: return;
  }
}

void CallerState::take_reply(CallId id, CallTable::Pending& pending, const Frame& frame,
                             std::span<const std::byte> payload) {
  const Address& address = connection_of(pending)->address();
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
  const bool is_over = pending.transport != nullptr && progress_of(pending).result.has_value();
  if (is_over || frame.number > sink.size() || payload.size() > sink.size() - frame.number) return;
  std::memcpy(sink.data() + frame.number, payload.data(), payload.size());
  pending.received_bytes += payload.size();
  finish_if_whole(id, pending);
}

void CallerState::finish_if_whole(CallId id, CallTable::Pending& pending) {
  if (pending.reply && pending.received_bytes >= pending.reply->body_bytes) settle(id, std::move(*pending.reply));
}

void CallerState::send_body(CallId id, CallTable::Pending& pending) {
  Progress& progress = progress_of(pending);
  if (progress.body != nullptr || pending.call.body.empty()) return;  // asked twice
  progress.body = connection_of(pending)->link().send_body(id, pending.call.body, [this, id] {
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
  if (greeting_ == nullptr || greeting_link_ == nullptr || from != greeting_link_.get() || greeting_->result) return;
  if (frame.kind == FrameKind::kRefusal) {
    greeting_->result = greeting_->handshake.read_refusal(payload);
  } else if (frame.kind == FrameKind::kWelcome) {
    greeting_->result = Status::ok();
  } else if (frame.kind == FrameKind::kChallenge) {
    Result<Bytes> proof = greeting_->handshake.prove(payload);
    if (!proof.is_ok()) {
      greeting_->result = proof.status();
      return;
    }
    Frame answer;
    answer.kind = FrameKind::kProof;
    greeting_link_->send(answer, std::move(*proof));
  }
}

Result<std::shared_ptr<Link>> CallerState::greet(const Address& address, Greeting& greeting, Deadline deadline) {
  WEIR_TRY(std::shared_ptr<Link> link, links_.connect(address, deadline));
  link->set_on_failure([&greeting](const Status& why) {
    if (!greeting.result) greeting.result = why;
  });
  greeting_ = &greeting;
  greeting_link_ = link;
  link->send(Frame{}, greeting.handshake.hello());
  while (!greeting.result && Clock::now() < deadline) {
    if (!links_.progress()) links_.sleep(deadline);
  }
  greeting_ = nullptr;
  greeting_link_ = nullptr;
  link->set_on_failure(nullptr);
  const Status result = greeting.result.value_or(Status(ErrorCode::kUnavailable, "no answer before the deadline"));
  if (!result.is_ok()) {
    link->abort();
    return result;
  }
  return link;
}

class ProcessCaller : public Caller {
 public:
  ProcessCaller(std::shared_ptr<CallerState> state, std::uint32_t version)
      : state_(std::move(state)), version_(version) {}

  Result<std::unique_ptr<Connection>> connect(const Address& address, const Key& key, Deadline deadline) override {
    WEIR_RETURN_IF_ERROR(check_key(address, key));
    if (!address.text.starts_with("tcp:"))
      return invalid_argument(concat("connect to ", address.text, ": other processes have addresses tcp:HOST:PORT"));
    Greeting greeting{CallerHandshake(key, Identity::of_this_process(), version_), std::nullopt};
    Result<std::shared_ptr<Link>> link = state_->greet(address, greeting, deadline);
    if (!link.is_ok()) return cannot_connect(address, link.status());
    if (!(*link)->is_open()) return cannot_connect(address, {ErrorCode::kUnavailable, "the server has gone at once"});
    return std::unique_ptr<Connection>(
        std::make_unique<ProcessConnection>(state_, std::move(*link), address, greeting.handshake.sessions()));
  }

  void progress() override {
    while (state_->links().progress()) {
      if (state_->table().has_ready()) break;
    }
    state_->look_at_due(Clock::now());
    state_->table().run_ready();
  }

  void wait(Deadline deadline) override {
    if (!state_->table().has_ready()) state_->links().spin_then_sleep(std::min(deadline, state_->table().next_look()));
    progress();
  }

 private:
  std::shared_ptr<CallerState> state_;
  std::uint32_t version_;
};

}  // namespace

std::unique_ptr<Caller> make_process_caller(std::uint32_t version, Rings rings) {
  return std::make_unique<ProcessCaller>(std::make_shared<CallerState>(rings), version);
}

}  // namespace weir::net::internal
