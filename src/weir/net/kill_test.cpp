// One end is killed while calls are under way.  The other must notice, in bounded time, whatever was just happening.
//
// The end to be killed is this program again, in a process of its own (threads do not outlive a fork): the environment
// variable kRole tells it what to play.

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/net/net.h>

namespace weir::net {
namespace {

using namespace std::chrono_literals;
using testing::IsOk;
using testing::StatusIs;

constexpr const char* kRole = "WEIR_NET_TEST_ROLE";
constexpr const char* kAddress = "WEIR_NET_TEST_ADDRESS";
constexpr int kTellFd = 3;  // of the other process: where it tells what it has done

constexpr auto kLong = 60s;  // far more than noticing takes: a caller that waits that long has not noticed
constexpr std::size_t kBodyBytes = std::size_t{4} << 20;

Key test_key() { return {Bytes(32, std::byte{42}), Key::Holder::kServers}; }

Bytes echo_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// Answers calls with their own body, and keeps those without one.
class EchoHandler : public Handler {
 public:
  void handle(Request request) override {
    if (request.body_bytes() == 0) return kept_.push_back(std::move(request));
    struct Echo {
      Request request;
      Bytes body;
    };
    const std::size_t size = request.body_bytes();
    auto echo = std::make_shared<Echo>(Echo{std::move(request), Bytes(size)});
    echo->request.receive(echo->body, [echo](const Status& status) {
      if (status.is_ok()) echo->request.reply({}, echo->body, [echo] {});
    });
  }
  void disconnected(PeerId peer) override {
    ++disconnections;
    std::erase_if(kept_, [&](const Request& request) { return request.peer() == peer; });
  }
  void drop_kept() { kept_.clear(); }

  std::atomic<int> disconnections = 0;

 private:
  std::vector<Request> kept_;
};

/// Calls that follow each other without end: some are being sent, some being answered, some waited for.
class Load {
 public:
  Load(Caller& caller, Connection& connection) : caller_(caller), connection_(connection) {
    for (std::size_t i = 0; i < kStreams; ++i) start(i);
    for (int i = 0; i < 3; ++i) start_kept();
  }
  /// False once all calls have ended.
  [[nodiscard]] bool is_running() const { return under_way_ > 0; }
  void wait() { caller_.wait(Clock::now() + 10ms); }

  std::map<ErrorCode, int> errors;       ///< How the calls with bodies ended, each once.
  std::map<ErrorCode, int> kept_errors;  ///< Those that nobody answers.
  std::size_t answered = 0;
  static constexpr std::size_t kStreams = 4;

 private:
  void start(std::size_t stream) {
    ++under_way_;
    connection_.call({echo_bytes("echo"), bodies_[stream], sinks_[stream], Clock::now() + kLong,
                      [this, stream](const Result<Reply>& reply) {
                        --under_way_;
                        if (!reply.is_ok()) {
                          ++errors[reply.status().code()];
                          return;
                        }
                        ++answered;
                        start(stream);
                      }});
  }
  void start_kept() {
    ++under_way_;
    connection_.call({echo_bytes("keep"), {}, {}, Clock::now() + kLong, [this](const Result<Reply>& reply) {
                        --under_way_;
                        ++kept_errors[reply.status().code()];
                      }});
  }

  Caller& caller_;
  Connection& connection_;
  int under_way_ = 0;
  std::vector<Bytes> bodies_{kStreams, Bytes(kBodyBytes, std::byte{1})};
  std::vector<Bytes> sinks_{kStreams, Bytes(kBodyBytes)};
};

// ---------------------------------------------------------------- the process that is killed

void tell(const std::string& line) { static_cast<void>(!::write(kTellFd, line.data(), line.size())); }

void play_server(const Address& address) {
  EchoHandler handler;
  auto listener = system_network().listen(address, test_key(), handler, {});
  if (!listener.is_ok()) return tell(concat("listen: ", listener.status().message(), "\n"));
  tell(concat((*listener)->address().text, "\n"));
  (*listener)->run();
}

void play_client(const Address& address) {
  auto caller = system_network().make_caller(address, runtime::system_runtime());
  if (!caller.is_ok()) return tell(concat("make_caller: ", caller.status().message(), "\n"));
  auto connection = (*caller)->connect(address, test_key(), Clock::now() + kLong);
  Load load(**caller, *connection);
  while (load.answered < Load::kStreams) load.wait();
  tell("calling\n");
  while (load.is_running()) load.wait();
}

/// Before any test: plays the role that was asked for, instead of testing.
class RoleEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* role = std::getenv(kRole);
    if (role == nullptr) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const Address address{std::getenv(kAddress)};
    if (std::strcmp(role, "server") == 0) play_server(address);
    if (std::strcmp(role, "client") == 0) play_client(address);
    std::_Exit(0);
  }
};

const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new RoleEnvironment);

class OtherProcess {
 public:
  OtherProcess(const char* role, const Address& address) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setenv(kRole, role, 1);
      ::setenv(kAddress, address.text.c_str(), 1);
      ::dup2(ends[1], kTellFd);
      ::execl("/proc/self/exe", "net_test", "--gtest_brief=1", nullptr);
      std::_Exit(127);
    }
    ::close(ends[1]);
    told_ = ::fdopen(ends[0], "r");
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() {
    kill();
    std::fclose(told_);
  }

  /// The next line it tells.
  std::string read_line() {
    char line[1000] = "";
    if (std::fgets(line, sizeof line, told_) == nullptr) return "(ended)";
    return {line, std::strcspn(line, "\n")};
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  std::FILE* told_ = nullptr;
};

// ---------------------------------------------------------------- tests

double cpu_seconds_used() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Through rings, and through sockets.  The environment tells the other process too.
class NetKillTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ::setenv("WEIR_TRANSPORT", GetParam(), 1); }
  void TearDown() override { ::unsetenv("WEIR_TRANSPORT"); }
};

INSTANTIATE_TEST_SUITE_P(Transports, NetKillTest, ::testing::Values("auto", "tcp"),
                         [](const auto& parameter) { return parameter.param; });

TEST_P(NetKillTest, CallsEndWhenTheServerIsKilled) {
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    OtherProcess server("server", {"tcp:127.0.0.1:0"});
    const Address address{server.read_line()};
    auto caller = system_network().make_caller(address, runtime::system_runtime());
    ASSERT_THAT(caller, IsOk());
    auto connection = (*caller)->connect(address, test_key(), Clock::now() + kLong);
    Load load(**caller, *connection);
    while (load.answered < Load::kStreams) load.wait();
    // Different moments: nothing depends on how long that takes.
    for (int i = 0; i < 300 * round; ++i) (*caller)->progress();
    server.kill();
    while (load.is_running()) load.wait();
    EXPECT_EQ(load.kept_errors, (std::map<ErrorCode, int>{{ErrorCode::kUnavailable, 3}}));
    EXPECT_EQ(load.errors, (std::map<ErrorCode, int>{{ErrorCode::kUnavailable, static_cast<int>(Load::kStreams)}}));
    EXPECT_FALSE(connection->is_open());
  }
}

TEST_P(NetKillTest, AnotherServerTakesThePlaceOfTheKilledOne) {
  Address address{"tcp:127.0.0.1:0"};
  std::unique_ptr<Caller> caller;
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    OtherProcess server("server", address);
    address.text = server.read_line();
    if (caller == nullptr) caller = std::move(*system_network().make_caller(address, runtime::system_runtime()));
    auto connection = caller->connect(address, test_key(), Clock::now() + kLong);
    Load load(*caller, *connection);
    while (load.answered < Load::kStreams) load.wait();
    server.kill();
    while (load.is_running()) load.wait();
    const auto nobody = caller->connect(address, test_key(), Clock::now() + kLong);
    std::optional<Result<Reply>> refused;
    nobody->call({echo_bytes("keep"), {}, {}, Clock::now() + kLong, [&](Result<Reply> reply) { refused = reply; }});
    while (!refused) caller->wait(Clock::now() + 1s);
    EXPECT_THAT(*refused, StatusIs(ErrorCode::kUnavailable));
  }
}

/// Passes calls on to another server; answers with what became of that.
class PassingHandler : public Handler {
 public:
  void handle(Request request) override {
    auto shared = std::make_shared<Request>(std::move(request));
    next->call({echo_bytes("keep"), {}, {}, Clock::now() + kLong, [shared](const Result<Reply>& reply) {
                  shared->reply(echo_bytes(to_string(reply.status().code())));
                }});
    ++passed;
  }
  std::unique_ptr<Connection> next;
  std::atomic<int> passed = 0;
};

TEST_P(NetKillTest, ServersNoticeKilledServersThatTheyCall) {
  OtherProcess far("server", {"tcp:127.0.0.1:0"});
  const Address address{far.read_line()};
  PassingHandler handler;
  auto listener = system_network().listen({"tcp:127.0.0.1:0"}, test_key(), handler, {});
  ASSERT_THAT(listener, IsOk());
  handler.next = (*listener)->caller().connect(address, test_key(), Clock::now() + kLong);
  std::thread thread([&] { (*listener)->run(); });
  auto caller = system_network().make_caller((*listener)->address(), runtime::system_runtime());
  ASSERT_THAT(caller, IsOk());
  const auto connection = (*caller)->connect((*listener)->address(), test_key(), Clock::now() + kLong);
  std::optional<Result<Reply>> result;
  connection->call({echo_bytes("pass"), {}, {}, Clock::now() + kLong, [&](Result<Reply> reply) { result = reply; }});
  while (handler.passed == 0) (*caller)->progress();
  far.kill();
  while (!result) (*caller)->wait(Clock::now() + 1s);
  ASSERT_THAT(*result, IsOk());
  EXPECT_EQ((*result)->head, echo_bytes(to_string(ErrorCode::kUnavailable)));
  (*listener)->stop();
  thread.join();
  handler.next.reset();
}

TEST_P(NetKillTest, ServersNoticeKilledClients) {
  EchoHandler handler;
  auto listener = system_network().listen({"tcp:127.0.0.1:0"}, test_key(), handler, {});
  ASSERT_THAT(listener, IsOk());
  std::thread thread([&] { (*listener)->run(); });
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    OtherProcess first("client", (*listener)->address());
    OtherProcess second("client", (*listener)->address());
    EXPECT_EQ(first.read_line(), "calling");
    EXPECT_EQ(second.read_line(), "calling");
    first.kill();
    second.kill();
    const Deadline latest = Clock::now() + kLong;
    while (handler.disconnections < 2 * (round + 1) && Clock::now() < latest) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(handler.disconnections, 2 * (round + 1));
  }
  // Nothing of the dead keeps it busy.
  const double before = cpu_seconds_used();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(cpu_seconds_used() - before, 0.1);
  (*listener)->post([&] { handler.drop_kept(); });
  (*listener)->stop();
  thread.join();
}

}  // namespace
}  // namespace weir::net
