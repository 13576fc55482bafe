// One suite for every transport.

#include <weir/net/net.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <deque>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/net/internal/transport_testing.h>
#include <weir/net/internal/transports.h>

namespace weir::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes pattern(std::size_t size, unsigned seed = 1) {
  Bytes bytes(size);
  unsigned state = seed * 2654435761u + 1;
  for (std::byte& value : bytes) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

/// Does with a request what its head says.
class TestHandler : public Handler {
 public:
  void handle(Request request) override {
    const std::string what = text_of(request.head());
    if (what == "hello") return request.reply({});  // not counted
    ++handled;
    last_identity = request.identity();
    if (what == "echo") return echo(std::move(request));
    if (what == "drop") return;
    if (what == "keep" && may_keep) return kept.push_back(std::move(request));
    if (what == "ignore body") return request.reply(bytes_of("ignored"));
    if (what == "wrong room") return receive_wrongly(std::move(request));
    if (what.starts_with("large head ")) return request.reply(Bytes(std::stoul(what.substr(11)), std::byte{7}));
    request.reply(bytes_of("unknown"));
  }
  void disconnected(PeerId) override { ++disconnections; }

  /// Listener's thread.  Answers what was kept.
  void answer_kept() {
    for (Request& request : std::exchange(kept, {})) request.reply(bytes_of("late"), late_body);
  }

  std::atomic<int> handled = 0;
  std::atomic<int> disconnections = 0;
  std::atomic<int> sent = 0;
  std::atomic<bool> may_keep = true;
  std::vector<Request> kept;
  Bytes late_body;
  Identity last_identity;
  std::atomic<int> failed_receives = 0;

 private:
  struct Echo {
    Request request;
    Bytes body;
  };
  void echo(Request request) {
    const std::size_t size = request.body_bytes();
    auto state = std::make_shared<Echo>(Echo{std::move(request), Bytes(size)});
    state->request.receive(state->body, [this, state](const Status& status) {
      if (!status.is_ok()) {
        ++failed_receives;
        return;
      }
      state->request.reply(bytes_of("echoed"), state->body, [this, state] { ++sent; });
    });
  }
  static void receive_wrongly(Request request) {
    Bytes room(request.body_bytes() + 1);
    std::string code = "none";
    request.receive(room, [&](const Status& status) { code = std::string(to_string(status.code())); });
    request.reply(bytes_of(code));
  }
};

/// A listener in a thread of its own.
class TestServer {
 public:
  TestServer(const Address& address, Key key, const ListenOptions& options) : key_(std::move(key)) {
    auto made = system_network().listen(address, key_, handler, options);
    EXPECT_THAT(made, IsOk());
    listener_ = std::move(*made);
    thread_ = std::thread([this] { listener_->run(); });
  }
  ~TestServer() {
    // A call that comes only now must not be kept: stop() would wait for its answer for ever.
    handler.may_keep = false;
    run([this] { handler.kept.clear(); });
    stop();
  }

  /// Runs a task on the listener's thread and waits for it.
  void run(const std::function<void()>& task) {
    if (!thread_.joinable()) return;
    std::promise<void> done;
    listener_->post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  void stop() {
    listener_->stop();
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] Listener& listener() { return *listener_; }
  [[nodiscard]] const Address& address() const { return listener_->address(); }
  [[nodiscard]] const Key& key() const { return key_; }
  void wait_for_kept(std::size_t count) {
    std::size_t now = 0;
    while (now < count) run([&] { now = handler.kept.size(); });
  }

  TestHandler handler;

 private:
  Key key_;
  std::unique_ptr<Listener> listener_;
  std::thread thread_;
};

Deadline in(Clock::duration time) { return Clock::now() + time; }

/// A caller of the transport that is being tested: "local", "rings", "tcp", "tls", "ucx".
std::unique_ptr<Caller> make_test_caller(const std::string& transport, std::uint32_t version = kProtocolVersion) {
  const runtime::Runtime runtime = runtime::system_runtime();
  if (transport == "local") return internal::make_local_caller(version, runtime);
  const internal::Rings rings = transport == "rings" ? internal::Rings::kOn : internal::Rings::kOff;
  return std::move(*internal::make_process_caller(version, rings, runtime));
}

/// How a connection comes to be, as its first call sees it.
Result<Reply> try_to_connect(Caller& caller, const Address& address, const Key& key) {
  const std::unique_ptr<Connection> connection = caller.connect(address, key, in(20s));
  std::optional<Result<Reply>> result;
  connection->call({bytes_of("echo"), {}, {}, in(30s), [&](Result<Reply> reply) { result = std::move(reply); }});
  while (!result) caller.wait(in(1s));
  EXPECT_EQ(connection->is_open(), result->is_ok());
  return std::move(*result);
}

/// A caller with one connection, which is established.
struct TestClient {
  TestClient(const std::string& transport, const TestServer& server)
      : TestClient(transport, server, server.key().for_clients()) {}
  TestClient(const std::string& transport, const TestServer& server, const Key& key)
      : caller(make_test_caller(transport)) {
    connection = caller->connect(server.address(), key, in(20s));
    EXPECT_THAT(call("hello"), IsOk());
  }

  Result<Reply> call(std::string_view what, std::span<const std::byte> body = {}, std::span<std::byte> sink = {},
                     Clock::duration time = 30s) {
    std::optional<Result<Reply>> result;
    connection->call({bytes_of(what), body, sink, in(time), [&](Result<Reply> reply) {
                        EXPECT_FALSE(result.has_value());
                        result = std::move(reply);
                      }});
    while (!result) caller->wait(in(1s));
    return std::move(*result);
  }

  std::unique_ptr<Caller> caller;
  std::unique_ptr<Connection> connection;
};

class NetTest : public ::testing::TestWithParam<std::string> {
 protected:
  const internal::TransportSettings settings_{GetParam()};
  static Address fresh_address() {
    static std::atomic<int> number = 0;
    if (GetParam() == "local") return {concat("local:test-", ++number)};
    return {"tcp:127.0.0.1:0"};
  }
  static std::unique_ptr<Caller> new_caller(std::uint32_t version = kProtocolVersion) {
    return make_test_caller(GetParam(), version);
  }
  static std::unique_ptr<TestServer> make_server(ListenOptions options = {}) {
    options.opens_loopback_port = internal::opens_port(GetParam());
    return std::make_unique<TestServer>(fresh_address(), Key::random(), options);
  }
};

/// Those in which an end can stop while the other goes on.
class ProcessNetTest : public NetTest {};

INSTANTIATE_TEST_SUITE_P(Transports, NetTest, ::testing::Values("local", "rings", "tcp", "tls", "ucx"),
                         [](const auto& parameter) { return parameter.param; });

INSTANTIATE_TEST_SUITE_P(Transports, ProcessNetTest, ::testing::Values("rings", "tcp", "tls", "ucx"),
                         [](const auto& parameter) { return parameter.param; });

TEST_P(NetTest, EchoesBodiesOfAllSizes) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  std::vector<std::size_t> sizes = {0,    1,    2,    63,    64,    65,    4096,  8185,  8186,   8187,
                                    8191, 8192, 8193, 16384, 65536, 73723, 73724, 73725, 1 << 20};
  for (std::size_t size = 3; size < (1 << 20); size = size * 7 / 3) sizes.push_back(size);
  sizes.push_back(std::size_t{64} << 20);
  for (const std::size_t size : sizes) {
    SCOPED_TRACE(size);
    const Bytes body = pattern(size, static_cast<unsigned>(size));
    Bytes sink(size + 3, std::byte{0xee});
    const Result<Reply> reply = client.call("echo", body, sink);
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(text_of(reply->head), "echoed");
    ASSERT_EQ(reply->body_bytes, size);
    EXPECT_TRUE(std::equal(body.begin(), body.end(), sink.begin()));
    EXPECT_EQ(sink[size], std::byte{0xee});
  }
  server->run([] {});
  while (server->handler.sent < static_cast<int>(sizes.size())) server->run([] {});
}

// The caller does nothing but call: nobody has to ask it for the body.
TEST(OneRoundTripTest, BodiesUpTo64KiBTravelWithTheirCall) {
  TestServer server({"tcp:127.0.0.1:0"}, Key::random(), {});
  TestClient client("rings", server);
  const Bytes body = pattern(std::size_t{64} << 10);
  Bytes sink(body.size());
  std::optional<Result<Reply>> result;
  client.connection->call({bytes_of("echo"), body, sink, in(30s), [&](Result<Reply> reply) { result = reply; }});
  while (server.handler.sent == 0) server.run([] {});
  while (!result) client.caller->wait(in(1s));
  EXPECT_THAT(*result, IsOk());
  EXPECT_EQ(sink, body);
}

TEST_P(NetTest, CarriesHeadsUpToTheLimit) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{8192}, std::size_t{8193}, std::size_t{1} << 20, kMostHeadBytes}) {
    SCOPED_TRACE(size);
    const Result<Reply> reply = client.call(concat("large head ", size));
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->head, Bytes(size, std::byte{7}));
  }
  EXPECT_THAT(client.call(std::string(kMostHeadBytes, 'x')), IsOk());
  EXPECT_THAT(client.call(std::string(kMostHeadBytes + 1, 'x')),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("at most")));
}

TEST_P(NetTest, TellsWhoCalls) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  ASSERT_THAT(client.call("echo"), IsOk());
  server->run([&] {
    const Identity expected = Identity::of_this_process();
    EXPECT_EQ(server->handler.last_identity.uid, ::geteuid());
    EXPECT_EQ(server->handler.last_identity.gid, ::getegid());
    EXPECT_EQ(server->handler.last_identity.groups, expected.groups);
    EXPECT_TRUE(server->handler.last_identity.same_host());
  });
}

TEST_P(NetTest, ManyCallsInFlight) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  constexpr std::size_t kCalls = 500;
  std::vector<Bytes> bodies;
  std::vector<Bytes> sinks;
  for (std::size_t i = 0; i < kCalls; ++i) {
    bodies.push_back(pattern(i * 97 % 30000, static_cast<unsigned>(i)));
    sinks.emplace_back(bodies.back().size());
  }
  std::size_t done = 0;
  for (std::size_t i = 0; i < kCalls; ++i) {
    client.connection->call({bytes_of("echo"), bodies[i], sinks[i], in(60s), [&, i](const Result<Reply>& reply) {
                               ++done;
                               ASSERT_THAT(reply, IsOk());
                               EXPECT_EQ(bodies[i], sinks[i]);
                             }});
  }
  while (done < kCalls) client.caller->wait(in(1s));
}

// Pieces of their bodies lie between other frames, and end anywhere in what is read at once.
TEST_P(NetTest, ManyLongCallsInFlight) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  constexpr std::size_t kCalls = 24;
  std::vector<Bytes> bodies;
  std::vector<Bytes> sinks;
  for (std::size_t i = 0; i < kCalls; ++i) {
    bodies.push_back(pattern((i + 1) * 131'101, static_cast<unsigned>(i)));
    sinks.emplace_back(bodies.back().size());
  }
  std::size_t done = 0;
  for (std::size_t i = 0; i < kCalls; ++i) {
    client.connection->call({bytes_of("echo"), bodies[i], sinks[i], in(60s), [&, i](const Result<Reply>& reply) {
                               ++done;
                               ASSERT_THAT(reply, IsOk());
                               EXPECT_TRUE(bodies[i] == sinks[i]) << i;
                             }});
  }
  while (done < kCalls) client.caller->wait(in(1s));
}

TEST_P(NetTest, CallersInSeveralThreads) {
  const auto server = make_server();
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      TestClient client(GetParam(), *server);
      ASSERT_NE(client.connection, nullptr);
      for (unsigned round = 0; round < 50; ++round) {
        const Bytes body = pattern(round * 911 % 50000, number * 1000 + round);
        Bytes sink(body.size());
        ASSERT_THAT(client.call("echo", body, sink), IsOk());
        ASSERT_EQ(body, sink);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server->handler.handled, 200);
  while (server->handler.disconnections < 4) server->run([] {});
}

TEST_P(NetTest, OneCallerSeveralServers) {
  std::vector<std::unique_ptr<TestServer>> servers;
  for (int i = 0; i < 3; ++i) servers.push_back(make_server());
  const auto made = new_caller();
  Caller& caller = *made;
  std::vector<std::unique_ptr<Connection>> connections;
  for (const auto& server : servers) {
    connections.push_back(caller.connect(server->address(), server->key(), in(20s)));
  }
  const Bytes body = pattern(100'000);
  std::vector<Bytes> sinks(3, Bytes(body.size()));
  int done = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    connections[i]->call({bytes_of("echo"), body, sinks[i], in(30s), [&](const Result<Reply>& reply) {
                            EXPECT_THAT(reply, IsOk());
                            ++done;
                          }});
  }
  while (done < 3) caller.wait(in(1s));
  for (const Bytes& sink : sinks) EXPECT_EQ(sink, body);
}

TEST_P(NetTest, DeadlineEndsACallThatNobodyAnswers) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  EXPECT_THAT(client.call("keep", {}, {}, 50ms), StatusIs(ErrorCode::kTimedOut, HasSubstr(server->address().text)));
  // The connection still works.
  EXPECT_TRUE(client.connection->is_open());
  EXPECT_THAT(client.call("echo"), IsOk());
}

TEST_P(NetTest, DeadlineInThePastIsATimeout) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  EXPECT_THAT(client.call("keep", {}, {}, -1s), StatusIs(ErrorCode::kTimedOut));
}

TEST_P(NetTest, LateAnswersTouchNothing) {
  for (const std::size_t size : {std::size_t{100}, std::size_t{1} << 20}) {
    SCOPED_TRACE(size);
    const auto server = make_server();
    TestClient client(GetParam(), *server);
    server->run([&] { server->handler.late_body = pattern(size); });
    Bytes sink(size, std::byte{0xee});
    EXPECT_THAT(client.call("keep", {}, sink, 50ms), StatusIs(ErrorCode::kTimedOut));
    server->wait_for_kept(1);
    server->run([&] { server->handler.answer_kept(); });
    // Takes in what has come meanwhile.
    for (int i = 0; i < 20; ++i) ASSERT_THAT(client.call("echo"), IsOk());
    EXPECT_EQ(sink, Bytes(size, std::byte{0xee}));
  }
}

TEST_P(NetTest, AnswersThatTakeTimeArrive) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  std::optional<Result<Reply>> result;
  client.connection->call({bytes_of("keep"), {}, {}, in(30s), [&](Result<Reply> reply) { result = std::move(reply); }});
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(client.call("echo"), IsOk());
    EXPECT_FALSE(result.has_value());
  }
  server->wait_for_kept(1);
  server->run([&] { server->handler.answer_kept(); });
  while (!result) client.caller->wait(in(1s));
  ASSERT_THAT(*result, IsOk());
  EXPECT_EQ(text_of((*result)->head), "late");
}

// A caller that is stopped calls nothing of ours any more; its sockets stay open.
TEST_P(ProcessNetTest, CallersThatStopWhileTheySendAreDropped) {
  const auto server = make_server({.stall_limit = 200ms});
  TestClient stopped(GetParam(), *server);
  TestClient other(GetParam(), *server);
  const Bytes body = pattern(std::size_t{32} << 20);
  std::optional<Result<Reply>> result;
  stopped.connection->call(
      {bytes_of("echo"), body, {}, in(60s), [&](Result<Reply> reply) { result = std::move(reply); }});
  while (server->handler.handled == 0) stopped.caller->progress();
  const auto deadline = in(20s);
  while (server->handler.disconnections == 0 && Clock::now() < deadline) ASSERT_THAT(other.call("echo"), IsOk());
  EXPECT_EQ(server->handler.disconnections, 1);
  EXPECT_EQ(server->handler.failed_receives, 1);
  // It goes on, and is told.
  while (!result && Clock::now() < deadline) stopped.caller->wait(in(100ms));
  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(*result, StatusIs(ErrorCode::kUnavailable));
}

TEST_P(ProcessNetTest, CallersThatStopWhileTheyReceiveAreDropped) {
  const auto server = make_server({.stall_limit = 200ms});
  TestClient stopped(GetParam(), *server);
  TestClient other(GetParam(), *server);
  Bytes sink(std::size_t{32} << 20);
  server->run([&] { server->handler.late_body = pattern(sink.size()); });
  std::optional<Result<Reply>> result;
  stopped.connection->call(
      {bytes_of("keep"), {}, sink, in(60s), [&](Result<Reply> reply) { result = std::move(reply); }});
  while (server->handler.handled == 0) stopped.caller->progress();
  server->run([&] { server->handler.answer_kept(); });
  const auto deadline = in(20s);
  while (server->handler.disconnections == 0 && Clock::now() < deadline) ASSERT_THAT(other.call("echo"), IsOk());
  EXPECT_EQ(server->handler.disconnections, 1);
  while (!result && Clock::now() < deadline) stopped.caller->wait(in(100ms));
  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(*result, StatusIs(ErrorCode::kUnavailable));
}

// The handler has the request all the time; an answer comes after several deadlines.
TEST_P(NetTest, AServerAtWorkIsWaitedFor) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  constexpr auto kPatience = 1000ms;
  std::optional<Result<Reply>> result;
  Call call{bytes_of("keep"), {}, {}, in(kPatience), [&](Result<Reply> reply) { result = std::move(reply); }};
  call.patience = kPatience;
  client.connection->call(std::move(call));
  const auto until = in(kPatience * 5 / 4);
  while (!result && Clock::now() < until) client.caller->wait(until);
  ASSERT_FALSE(result.has_value()) << result->status().message();
  server->wait_for_kept(1);
  server->run([&] { server->handler.answer_kept(); });
  while (!result) client.caller->wait(in(1s));
  EXPECT_THAT(*result, IsOk());
}

TEST_P(NetTest, WantedRequestsAreToldApart) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  TestClient leaving(GetParam(), *server);
  int expired = 0;
  client.connection->call({bytes_of("keep"), {}, {}, in(60s), [](const Result<Reply>&) {}});
  client.connection->call({bytes_of("keep"), {}, {}, in(50ms), [&](const Result<Reply>&) { ++expired; }});
  leaving.connection->call({bytes_of("keep"), {}, {}, in(60s), [](const Result<Reply>&) {}});
  while (expired == 0) client.caller->wait(in(1s));
  leaving.caller->progress();
  server->wait_for_kept(3);
  leaving.connection.reset();
  while (server->handler.disconnections == 0) server->run([] {});
  // Answered: what was sent before has come, too.
  ASSERT_THAT(client.call("echo"), IsOk());
  int wanted = 0;
  server->run([&] {
    for (const Request& request : server->handler.kept) wanted += request.is_wanted()->load() ? 1 : 0;
  });
  EXPECT_EQ(wanted, 1);
}

TEST_P(NetTest, DroppedRequestsAreTold) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  const Bytes body = pattern(1 << 20);
  EXPECT_THAT(client.call("drop"), StatusIs(ErrorCode::kUnavailable, HasSubstr("dropped")));
  EXPECT_THAT(client.call("drop", body), StatusIs(ErrorCode::kUnavailable, HasSubstr("dropped")));
  EXPECT_THAT(client.call("echo"), IsOk());
}

TEST_P(NetTest, BodiesNeedNotBeReceived) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  const Bytes body = pattern(std::size_t{8} << 20);
  const Result<Reply> reply = client.call("ignore body", body);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(text_of(reply->head), "ignored");
  EXPECT_EQ(reply->body_bytes, 0u);
}

TEST_P(NetTest, SinkThatIsTooSmallIsAnError) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  for (const std::size_t size : {std::size_t{100}, std::size_t{1} << 20}) {
    const Bytes body = pattern(size);
    Bytes sink(size - 1, std::byte{0xee});
    EXPECT_THAT(client.call("echo", body, sink), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("room for")));
    EXPECT_EQ(sink, Bytes(size - 1, std::byte{0xee}));
  }
  EXPECT_THAT(client.call("echo"), IsOk());
}

TEST_P(NetTest, ReceiveWithTheWrongRoomIsRefused) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  for (const std::size_t size : {std::size_t{100}, std::size_t{1} << 20}) {
    const Result<Reply> reply = client.call("wrong room", pattern(size));
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(text_of(reply->head), to_string(ErrorCode::kInvalidArgument));
  }
}

TEST_P(NetTest, WrongKeyIsRefusedByBothEnds) {
  const auto server = make_server();
  const auto caller = new_caller();
  EXPECT_THAT(try_to_connect(*caller, server->address(), Key::random()),
              StatusIs(ErrorCode::kPermission, HasSubstr(server->address().text)));
  EXPECT_THAT(try_to_connect(*caller, server->address(), Key{}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_EQ(server->handler.handled, 0);
  // The right ones still get in.
  EXPECT_THAT(try_to_connect(*caller, server->address(), server->key().for_clients()), IsOk());
  EXPECT_THAT(try_to_connect(*caller, server->address(), server->key()), IsOk());
}

TEST_P(NetTest, OnlyTheSecretMakesAServer) {
  const auto server = make_server();
  const auto is_server = [&](const Key& key) {
    EXPECT_THAT(TestClient(GetParam(), *server, key).call("echo"), IsOk());
    bool is = false;
    server->run([&] { is = server->handler.last_identity.is_server; });
    return is;
  };
  EXPECT_TRUE(is_server(server->key()));
  EXPECT_FALSE(is_server(server->key().for_clients()));
  // A client that says it has the secret.
  Key lie = server->key().for_clients();
  lie.holder = Key::Holder::kServers;
  const auto caller = new_caller();
  EXPECT_THAT(try_to_connect(*caller, server->address(), lie), StatusIs(ErrorCode::kPermission));
  // A server that says it is a client has no key of one.
  lie = server->key();
  lie.holder = Key::Holder::kClients;
  EXPECT_THAT(try_to_connect(*caller, server->address(), lie), StatusIs(ErrorCode::kPermission));
}

TEST_P(NetTest, OtherVersionsAreRefusedByName) {
  const auto server = make_server();
  const auto caller = new_caller(kProtocolVersion + 41);
  const auto refused = try_to_connect(*caller, server->address(), server->key());
  EXPECT_THAT(refused, StatusIs(ErrorCode::kInvalidArgument, HasSubstr(concat("version ", kProtocolVersion + 41))));
  EXPECT_THAT(refused, StatusIs(ErrorCode::kInvalidArgument, HasSubstr(concat("version ", kProtocolVersion, ":"))));
}

TEST_P(NetTest, NobodyListens) {
  Address address{"local:nobody"};
  if (GetParam() != "local") {
    const auto server = make_server();
    address = server->address();
  }
  const auto caller = new_caller();
  EXPECT_THAT(try_to_connect(*caller, address, Key::random()),
              StatusIs(ErrorCode::kUnavailable, HasSubstr(address.text)));
}

TEST_P(NetTest, AllCallsOfAConnectionThatIsRefusedEndWithTheReason) {
  const auto server = make_server();
  const auto caller = new_caller();
  const auto connection = caller->connect(server->address(), Key::random(), in(20s));
  int refused = 0;
  const auto count = [&](const Result<Reply>& reply) {
    EXPECT_THAT(reply, StatusIs(ErrorCode::kPermission, HasSubstr(concat("connect to ", server->address().text))));
    ++refused;
  };
  for (int i = 0; i < 3; ++i) connection->call({bytes_of("echo"), {}, {}, in(30s), count});
  while (refused < 3) caller->wait(in(1s));
  EXPECT_FALSE(connection->is_open());
  connection->call({bytes_of("echo"), {}, {}, in(30s), count});
  while (refused < 4) caller->wait(in(1s));
}

TEST_P(NetTest, WakeEndsAWait) {
  const auto caller = new_caller();
  caller->wake();
  caller->wait(Deadline::max());
  std::thread other([&] { caller->wake(); });
  caller->wait(Deadline::max());
  other.join();
}

// A listener that nobody runs yet: the handshake cannot go on.
TEST_P(ProcessNetTest, ConnectingNeverWaits) {
  TestHandler handler;
  const Key key = Key::random();
  const auto listener =
      system_network().listen(fresh_address(), key, handler, {.opens_loopback_port = internal::opens_port(GetParam())});
  ASSERT_THAT(listener, IsOk());
  const auto caller = new_caller();
  const auto connection = caller->connect((*listener)->address(), key, in(60s));
  std::optional<Result<Reply>> result;
  std::optional<Result<Reply>> expired;
  const Bytes body = pattern(100'000);
  Bytes sink(body.size());
  connection->call({bytes_of("echo"), body, sink, in(60s), [&](Result<Reply> reply) { result = std::move(reply); }});
  connection->call({bytes_of("echo"), {}, {}, in(1ms), [&](Result<Reply> reply) { expired = std::move(reply); }});
  while (!expired) caller->wait(in(1s));
  EXPECT_THAT(*expired, StatusIs(ErrorCode::kTimedOut));
  EXPECT_FALSE(result.has_value());
  EXPECT_TRUE(connection->is_open());
  // What was called meanwhile is sent now, except for what is over.
  std::thread thread([&] { (*listener)->run(); });
  while (!result) caller->wait(in(1s));
  EXPECT_THAT(*result, IsOk());
  EXPECT_EQ(sink, body);
  (*listener)->stop();
  thread.join();
  EXPECT_EQ(handler.handled, 1);
}

TEST_P(ProcessNetTest, ConnectingEndsAtItsDeadline) {
  TestHandler handler;
  const Key key = Key::random();
  const auto listener =
      system_network().listen(fresh_address(), key, handler, {.opens_loopback_port = internal::opens_port(GetParam())});
  ASSERT_THAT(listener, IsOk());
  const auto caller = new_caller();
  const auto connection = caller->connect((*listener)->address(), key, in(20ms));
  std::optional<Result<Reply>> result;
  Call call{bytes_of("echo"), {}, {}, in(10ms), [&](Result<Reply> reply) { result = std::move(reply); }};
  call.patience = 10ms;  // of the server; it has not been reached yet
  connection->call(std::move(call));
  while (!result) caller->wait(in(1s));
  EXPECT_THAT(*result, StatusIs(ErrorCode::kUnavailable, HasSubstr((*listener)->address().text)));
  EXPECT_THAT(*result, StatusIs(ErrorCode::kUnavailable, HasSubstr("no answer before the deadline")));
  EXPECT_FALSE(connection->is_open());
}

TEST_P(NetTest, StopAnswersWhatIsUnderWayAndRefusesTheRest) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  std::optional<Result<Reply>> result;
  client.connection->call({bytes_of("keep"), {}, {}, in(30s), [&](Result<Reply> reply) { result = std::move(reply); }});
  while (server->handler.handled == 0) client.caller->progress();
  server->listener().stop();
  server->run([&] { server->handler.answer_kept(); });
  server->stop();
  while (!result) client.caller->wait(in(1s));
  ASSERT_THAT(*result, IsOk());
  EXPECT_EQ(text_of((*result)->head), "late");
  EXPECT_THAT(client.call("echo", {}, {}, 20s), StatusIs(ErrorCode::kUnavailable));
  EXPECT_FALSE(client.connection->is_open());
}

TEST_P(NetTest, TheEndOfAConnectionEndsItsCalls) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  const Bytes body = pattern(std::size_t{16} << 20);
  int done = 0;
  for (const char* what : {"keep", "echo", "echo"}) {
    client.connection->call({bytes_of(what), body, {}, in(30s), [&](const Result<Reply>& reply) {
                               EXPECT_THAT(reply, StatusIs(ErrorCode::kUnavailable));
                               ++done;
                             }});
  }
  client.caller->progress();
  client.connection.reset();
  EXPECT_EQ(done, 3);
  while (server->handler.disconnections == 0) server->run([] {});
}

TEST_P(NetTest, AConnectionMayEndInItsOwnAnswer) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  bool is_done = false;
  client.connection->call({bytes_of("echo"), {}, {}, in(30s), [&](const Result<Reply>&) {
                             client.connection.reset();
                             is_done = true;
                           }});
  while (!is_done) client.caller->wait(in(1s));
}

TEST_P(NetTest, AnswersMayCallAgain) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  int left = 100;
  std::function<void(Result<Reply>)> again = [&](const Result<Reply>& reply) {
    ASSERT_THAT(reply, IsOk());
    if (--left > 0) client.connection->call({bytes_of("echo"), {}, {}, in(30s), again});
  };
  client.connection->call({bytes_of("echo"), {}, {}, in(30s), again});
  while (left > 0) client.caller->wait(in(1s));
}

TEST_P(NetTest, CallersMayComeAndGo) {
  const auto server = make_server();
  for (int i = 0; i < 20; ++i) {
    TestClient client(GetParam(), *server);
    ASSERT_THAT(client.call("echo"), IsOk());
  }
  while (server->handler.disconnections < 20) server->run([] {});
}

TEST_P(NetTest, TimersRunInOrder) {
  const auto server = make_server();
  std::vector<int> order;
  std::promise<void> last;
  server->run([&] {
    const auto now = Clock::now();
    server->listener().at(now + 20ms, [&] {
      order.push_back(2);
      last.set_value();
    });
    server->listener().at(now + 10ms, [&] { order.push_back(1); });
  });
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector{1, 2}));
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST_P(NetTest, IdleListenersSleep) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  ASSERT_THAT(client.call("echo"), IsOk());
  const double before = cpu_seconds();
  std::this_thread::sleep_for(300ms);
  // A loop that polls would use all of it.
  EXPECT_LT(cpu_seconds() - before, 0.1);
}

TEST_P(NetTest, WaitReturnsAtItsDeadline) {
  const auto server = make_server();
  TestClient client(GetParam(), *server);
  const double before = cpu_seconds();
  const auto until = in(200ms);
  while (Clock::now() < until) client.caller->wait(until);
  EXPECT_LT(cpu_seconds() - before, 0.1);
}

TEST(NetAddressTest, RefusesWhatItDoesNotKnow) {
  TestHandler handler;
  EXPECT_THAT(system_network().make_caller({"udp:1"}, runtime::system_runtime()),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("udp:1")));
  EXPECT_THAT(system_network().listen({"udp:1"}, Key::random(), handler, {}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(system_network().listen({"tcp:127.0.0.1"}, Key::random(), handler, {}), StatusIs(ErrorCode::kIoError));
  EXPECT_THAT(system_network().listen({"tcp:192.0.2.200:1"}, Key::random(), handler, {}),
              StatusIs(ErrorCode::kIoError));
  const auto first = system_network().listen({"local:twice"}, Key::random(), handler, {});
  ASSERT_THAT(first, IsOk());
  EXPECT_THAT(system_network().listen({"local:twice"}, Key::random(), handler, {}),
              StatusIs(ErrorCode::kIoError, HasSubstr("taken")));
}

}  // namespace
}  // namespace weir::net
