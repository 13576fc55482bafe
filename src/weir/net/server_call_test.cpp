// Servers that call servers, from the loop of their own listener.

#include <atomic>
#include <ctime>
#include <deque>
#include <future>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/net/internal/transport_testing.h>
#include <weir/net/net.h>

namespace weir::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

Bytes relay_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string relay_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
Deadline relay_in(Clock::duration time) { return Clock::now() + time; }

/// Answers "echo" with its body; passes "relay" on to another server as "echo", and "relay keep" as "keep", and answers
/// when that has answered; keeps "keep".
class RelayHandler : public Handler {
 public:
  void handle(Request request) override {
    handler_thread = std::this_thread::get_id();
    const std::string what = relay_text(request.head());
    if (what == "keep") {
      kept.push_back(std::move(request));
      ++kept_count;
      return;
    }
    struct Work {
      Request request;
      Bytes body;
      Bytes sink;
    };
    const std::size_t size = request.body_bytes();
    auto work = std::make_shared<Work>(Work{std::move(request), Bytes(size), Bytes(size)});
    work->request.receive(work->body, [this, work, what](const Status& received) {
      if (!received.is_ok()) return;
      if (what == "echo") return work->request.reply(relay_bytes("echoed"), work->body, [work] {});
      next->call({relay_bytes(what == "relay keep" ? "keep" : "echo"), work->body, work->sink, relay_in(30s),
                  [this, work](Result<Reply> reply) {
                    if (std::this_thread::get_id() != handler_thread) ++strange_threads;
                    const std::string text =
                        reply.is_ok() ? relay_text(reply->head) : std::string(reply.status().message());
                    work->request.reply(relay_bytes(concat("relayed: ", text)), work->sink, [work] {});
                  }});
    });
  }

  std::unique_ptr<Connection> next;
  std::vector<Request> kept;
  std::atomic<int> kept_count = 0;
  std::atomic<int> strange_threads = 0;
  std::thread::id handler_thread;
};

class RelayServer {
 public:
  RelayServer(const Address& address, const Key& key, const ListenOptions& options) : key_(key) {
    auto made = system_network().listen(address, key, handler, options);
    EXPECT_THAT(made, IsOk());
    listener_ = std::move(*made);
    thread_ = std::thread([this] { listener_->run(); });
  }
  ~RelayServer() {
    run([this] {
      handler.kept.clear();
      handler.next.reset();
    });
    stop();
  }
  void run(const std::function<void()>& task) {
    if (!thread_.joinable()) return;
    std::promise<void> done;
    listener_->post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  void call_next(const Address& address) {
    run([&] { handler.next = listener_->caller().connect(address, key_, relay_in(20s)); });
  }
  void request_stop() { listener_->stop(); }
  void stop() {
    listener_->stop();
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] const Address& address() const { return listener_->address(); }

  RelayHandler handler;

 private:
  Key key_;
  std::unique_ptr<Listener> listener_;
  std::thread thread_;
};

class ServerCallTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<RelayServer> make_relay() {
    static std::atomic<int> number = 0;
    const Address address{GetParam() == "local" ? concat("local:relay-", ++number) : "tcp:127.0.0.1:0"};
    return std::make_unique<RelayServer>(address, key,
                                         ListenOptions{.opens_loopback_port = internal::opens_port(GetParam())});
  }
  void SetUp() override {
    if (internal::opens_port(GetParam())) ::setenv("WEIR_TRANSPORT", "tcp", 1);
  }
  void TearDown() override { ::unsetenv("WEIR_TRANSPORT"); }

  const internal::TransportSettings settings{GetParam()};
  const Key key = Key::random();
};

INSTANTIATE_TEST_SUITE_P(Transports, ServerCallTest, ::testing::Values("local", "rings", "tcp", "tls", "ucx"),
                         [](const auto& parameter) { return parameter.param; });

/// Calls, and waits for the answer.
class RelayClient {
 public:
  RelayClient(const RelayServer& server, const Key& key)
      : caller_(std::move(*system_network().make_caller(server.address(), runtime::system_runtime()))),
        connection_(caller_->connect(server.address(), key, relay_in(20s))) {}

  std::shared_ptr<std::optional<Result<Reply>>> start(std::string_view what, std::span<const std::byte> body = {},
                                                      std::span<std::byte> sink = {}) {
    auto result = std::make_shared<std::optional<Result<Reply>>>();
    connection_->call(
        {relay_bytes(what), body, sink, relay_in(30s), [result](Result<Reply> reply) { *result = std::move(reply); }});
    return result;
  }
  Result<Reply> finish(const std::shared_ptr<std::optional<Result<Reply>>>& result) {
    while (!*result) caller_->wait(relay_in(1s));
    return std::move(**result);
  }
  std::string text_of_answer(std::string_view what) {
    const Result<Reply> reply = finish(start(what));
    return reply.is_ok() ? relay_text(reply->head) : std::string(reply.status().message());
  }
  void progress() { caller_->progress(); }

 private:
  std::unique_ptr<Caller> caller_;
  std::unique_ptr<Connection> connection_;
};

TEST_P(ServerCallTest, AServerAsksAnotherBeforeItAnswers) {
  const auto far = make_relay();
  const auto near = make_relay();
  near->call_next(far->address());
  RelayClient client(*near, key);
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{1} << 20}) {
    const Bytes body(size, std::byte{5});
    Bytes sink(size);
    const Result<Reply> reply = client.finish(client.start("relay", body, sink));
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(relay_text(reply->head), "relayed: echoed");
    EXPECT_EQ(body, sink);
  }
  EXPECT_EQ(near->handler.strange_threads, 0);
}

TEST_P(ServerCallTest, ServersCallEachOther) {
  const auto a = make_relay();
  const auto b = make_relay();
  a->call_next(b->address());
  b->call_next(a->address());
  RelayClient to_a(*a, key);
  RelayClient to_b(*b, key);
  constexpr int kCalls = 200;
  std::deque<std::shared_ptr<std::optional<Result<Reply>>>> of_a;
  std::deque<std::shared_ptr<std::optional<Result<Reply>>>> of_b;
  const Bytes body(20'000, std::byte{3});
  std::vector<Bytes> sinks(2 * kCalls, Bytes(body.size()));
  for (std::size_t i = 0; i < kCalls; ++i) {
    of_a.push_back(to_a.start("relay", body, sinks[2 * i]));
    of_b.push_back(to_b.start("relay", body, sinks[2 * i + 1]));
  }
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_THAT(to_a.finish(of_a[static_cast<std::size_t>(i)]), IsOk());
    EXPECT_THAT(to_b.finish(of_b[static_cast<std::size_t>(i)]), IsOk());
  }
  for (const Bytes& sink : sinks) ASSERT_EQ(sink, body);
}

TEST_P(ServerCallTest, TheCalledServerStops) {
  auto far = make_relay();
  const auto near = make_relay();
  near->call_next(far->address());
  RelayClient client(*near, key);
  const auto waiting = client.start("relay keep");
  while (far->handler.kept_count == 0) client.progress();
  far.reset();  // drops what it kept
  const Result<Reply> reply = client.finish(waiting);
  ASSERT_THAT(reply, IsOk());
  EXPECT_THAT(relay_text(reply->head), HasSubstr("relayed: call to "));
  // Later calls are told too, and the server serves on.
  EXPECT_THAT(client.text_of_answer("relay"), HasSubstr("relayed: c"));
  EXPECT_EQ(client.text_of_answer("echo"), "echoed");
}

TEST_P(ServerCallTest, NobodyIsThereToBeCalled) {
  auto far = make_relay();
  const Address address = far->address();
  far.reset();
  const auto near = make_relay();
  near->call_next(address);
  RelayClient client(*near, key);
  EXPECT_THAT(client.text_of_answer("relay"), HasSubstr(concat("relayed: connect to ", address.text)));
}

TEST_P(ServerCallTest, StopWaitsForRequestsThatWaitForOthers) {
  const auto far = make_relay();
  const auto near = make_relay();
  near->call_next(far->address());
  RelayClient client(*near, key);
  const auto waiting = client.start("relay keep");
  while (far->handler.kept_count == 0) client.progress();
  near->request_stop();
  far->run([&] {
    for (Request& request : std::exchange(far->handler.kept, {})) request.reply(relay_bytes("late"));
  });
  near->stop();
  const Result<Reply> reply = client.finish(waiting);
  ASSERT_THAT(reply, IsOk());
  EXPECT_EQ(relay_text(reply->head), "relayed: late");
}

TEST_P(ServerCallTest, StopEndsCallsThatNoRequestWaitsFor) {
  const auto far = make_relay();
  auto near = make_relay();
  near->call_next(far->address());
  std::optional<Result<Reply>> result;
  near->run([&] {
    near->handler.next->call(
        {relay_bytes("keep"), {}, {}, relay_in(60s), [&](Result<Reply> reply) { result = std::move(reply); }});
  });
  while (far->handler.kept_count == 0) near->run([] {});
  near->stop();
  EXPECT_FALSE(result.has_value());
  near->handler.next.reset();
  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(*result, StatusIs(ErrorCode::kUnavailable));
}

TEST_P(ServerCallTest, IdleServersWithConnectionsSleep) {
  const auto far = make_relay();
  const auto near = make_relay();
  near->call_next(far->address());
  RelayClient client(*near, key);
  ASSERT_EQ(client.text_of_answer("relay"), "relayed: echoed");
  const auto cpu = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double before = cpu();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(cpu() - before, 0.1);  // a loop that polls would use all of it
}

}  // namespace
}  // namespace weir::net
