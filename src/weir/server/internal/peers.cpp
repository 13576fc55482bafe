#include <weir/server/internal/peers.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <weir/base/text.h>
#include <weir/net/request.h>

namespace weir::server::internal {

namespace {

/// A call of this server to itself, as its handler sees it.
class OwnRequest final : public net::Request::Impl {
 public:
  using Answered = std::function<void(const Result<net::Reply>&)>;

  OwnRequest(const net::Identity& identity, Peers::Bodies bodies, Answered answered)
      : identity_(identity), bodies_(bodies), answered_(std::move(answered)) {}
  OwnRequest(const OwnRequest&) = delete;
  OwnRequest& operator=(const OwnRequest&) = delete;
  ~OwnRequest() override {
    if (answered_) answered_(Status(ErrorCode::kUnavailable, "the server has dropped the call"));
  }

  [[nodiscard]] std::span<const std::byte> head() const override { return {}; }
  [[nodiscard]] std::size_t body_bytes() const override { return bodies_.out.size(); }
  [[nodiscard]] net::PeerId peer() const override { return Peers::kSelf; }
  [[nodiscard]] const net::Identity& identity() const override { return identity_; }
  [[nodiscard]] std::shared_ptr<const std::atomic<bool>> is_wanted() const override {
    static const auto always = std::make_shared<const std::atomic<bool>>(true);
    return always;
  }

  void receive(std::span<std::byte> into, std::function<void(Status)> done) override {
    if (!into.empty()) std::memcpy(into.data(), bodies_.out.data(), std::min(into.size(), bodies_.out.size()));
    done(Status::ok());
  }
  void reply(net::Bytes head, std::span<const std::byte> body, std::function<void()> sent) override {
    if (!body.empty() && body.size() <= bodies_.in.size()) std::memcpy(bodies_.in.data(), body.data(), body.size());
    std::exchange(answered_, {})(net::Reply{std::move(head), body.size()});
    if (sent) sent();
  }

 private:
  const net::Identity& identity_;
  Peers::Bodies bodies_;
  Answered answered_;
};

}  // namespace

Peers::Peers(Options options, net::Caller& caller) : options_(std::move(options)), caller_(caller) {}

Peers::~Peers() {
  *is_alive_ = false;
  peers_.clear();  // while the rest is there, which ends of calls look at
}

void Peers::set_table(const std::vector<net::Address>& servers, std::vector<std::uint32_t> target_servers) {
  target_servers_ = std::move(target_servers);
  peers_.resize(std::max(peers_.size(), servers.size()));
  for (std::uint32_t i = 0; i < servers.size(); ++i) {
    if (peers_[i] && peers_[i]->address == servers[i]) continue;
    const std::shared_ptr<Peer> gone = std::exchange(peers_[i], std::make_shared<Peer>());
    peers_[i]->address = servers[i];
    if (!gone) continue;
    peers_[i]->waiting = std::exchange(gone->waiting, {});
    gone->connection.reset();  // its calls come here
    send_next(i);
  }
}

std::string Peers::name_of(std::uint32_t server) const {
  if (server >= peers_.size()) return concat("server ", server);
  return concat("server ", server, " at ", peers_[server]->address.text);
}

void Peers::start(std::uint32_t server, wire::RequestHeadT head, Bodies bodies, Done done) {
  if (is_stopped_) return end(std::move(done), Status(ErrorCode::kUnavailable, "this server is stopping"));
  if (server == options_.self) return call_self(std::move(head), bodies, std::move(done));
  if (server >= peers_.size()) {
    return end(std::move(done), Status(ErrorCode::kUnavailable, concat("server index ", server, " is out of range (",
                                                                       peers_.size(), " servers)")));
  }
  peers_[server]->waiting.push_back({wire::encode(head), bodies, std::move(done)});
  send_next(server);
}

void Peers::send_next(std::uint32_t server) {
  const std::shared_ptr<Peer> peer = peers_[server];
  while (!peer->waiting.empty() && peer->in_flight < kMostInFlight) {
    Waiting next = std::move(peer->waiting.front());
    peer->waiting.pop_front();
    send(server, peer, std::move(next));
  }
}

void Peers::send(std::uint32_t server, const std::shared_ptr<Peer>& peer, Waiting waiting) {
  if (!peer->connection || !peer->connection->is_open()) {
    peer->connection.reset();
    peer->connection = caller_.connect(peer->address, options_.key, options_.clock->now() + options_.timeout);
  }
  ++peer->in_flight;
  ++waiting.attempts;
  net::Call call;
  call.head = waiting.head;
  call.body = waiting.bodies.out;
  call.sink = waiting.bodies.in;
  call.deadline = options_.clock->now() + options_.timeout;
  call.patience = options_.timeout;
  call.done = [this, is_alive = is_alive_, server, weak = std::weak_ptr(peer),
               waiting = std::move(waiting)](const Result<net::Reply>& reply) mutable {
    if (!*is_alive) return;
    if (const std::shared_ptr<Peer> sent_to = weak.lock()) --sent_to->in_flight;
    ended(server, std::move(waiting), reply);
  };
  peer->connection->call(std::move(call));
}

void Peers::ended(std::uint32_t server, Waiting waiting, const Result<net::Reply>& reply) {
  const bool is_broken = reply.status().code() == ErrorCode::kUnavailable;
  if (is_broken && waiting.attempts == 1 && !is_stopped_) {
    peers_[server]->waiting.push_front(std::move(waiting));
  } else {
    end(std::move(waiting.done), decode(server, reply, waiting.bodies.in.size()));
  }
  // Not here: this may be the end of the connection.
  if (peers_[server]->waiting.empty()) return;
  options_.post([this, is_alive = is_alive_, server] {
    if (*is_alive && !is_stopped_) send_next(server);
  });
}

Result<wire::ReplyHeadT> Peers::decode(std::uint32_t server, const Result<net::Reply>& reply,
                                       std::size_t expected_bytes) const {
  const auto named = [&](const Status& status) {
    return Status(status.code(), concat(name_of(server), ": ", status.message()));
  };
  if (!reply.is_ok()) return named(reply.status());
  Result<wire::ReplyHeadT> head = wire::decode_reply(reply->head);
  if (!head.is_ok()) return named(head.status());
  if (const wire::FailureT* failure = head->answer.AsFailure()) return named(wire::to_status(*failure));
  if (reply->body_bytes != expected_bytes) {
    return named(corrupt(concat("a body of ", reply->body_bytes, " bytes instead of ", expected_bytes)));
  }
  return head;
}

void Peers::call_self(wire::RequestHeadT head, Bodies bodies, Done done) {
  auto answered = [this, is_alive = is_alive_, expected = bodies.in.size(),
                   done = std::move(done)](const Result<net::Reply>& reply) mutable {
    if (!*is_alive) return;
    end(std::move(done), decode(options_.self, reply, expected));
  };
  net::Request request(std::make_unique<OwnRequest>(identity_, bodies, std::move(answered)));
  options_.handle(std::make_shared<ServerCall>(ServerCall{
      std::move(request), std::move(head), options_.clock->now() + options_.timeout, own_counters_, options_.boot}));
}

void Peers::end(Done done, Result<wire::ReplyHeadT> result) {
  options_.post([is_alive = is_alive_, done = std::move(done),
                 result = std::make_shared<Result<wire::ReplyHeadT>>(std::move(result))] {
    if (*is_alive) done(std::move(*result));
  });
}

void Peers::stop() {
  is_stopped_ = true;
  for (const std::shared_ptr<Peer>& peer : peers_) {
    peer->connection.reset();
    for (Waiting& waiting : std::exchange(peer->waiting, {})) {
      end(std::move(waiting.done), Status(ErrorCode::kUnavailable, "this server is stopping"));
    }
  }
}

}  // namespace weir::server::internal
