// One session, many threads: calls to servers that answer do not wait for one that does not.

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/client/internal/session.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>
#include <weir/net/net.h>
#include <weir/wire/wire.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using internal::Session;
using weir::testing::IsOk;
using weir::testing::StatusIs;

/// Answers questions about the servers; or keeps them, as a server that hangs.
class MemberServer final : public net::Handler {
 public:
  MemberServer(const net::Address& address, const net::Key& key) {
    auto made = net::system_network().listen(address, key, *this, {});
    EXPECT_THAT(made, IsOk());
    listener_ = std::move(*made);
  }
  ~MemberServer() override {
    if (thread_.joinable()) {
      hangs = false;
      answer_kept();
      listener_->stop();
      thread_.join();
    }
  }
  MemberServer(const MemberServer&) = delete;
  MemberServer& operator=(const MemberServer&) = delete;

  void run() {
    thread_ = std::thread([this] { listener_->run(); });
  }
  void handle(net::Request request) override {
    if (hangs) return kept_.push_back(std::move(request));
    request.reply(wire::encode_reply(members, 1));
  }
  void answer_kept() {
    listener_->post([this] {
      for (net::Request& request : std::exchange(kept_, {})) request.reply(wire::encode_reply(members, 1));
    });
  }
  [[nodiscard]] const net::Address& address() const { return listener_->address(); }

  wire::MembersT members;  // set before run()
  std::atomic<bool> hangs = false;

 private:
  std::vector<net::Request> kept_;
  std::unique_ptr<net::Listener> listener_;
  std::thread thread_;
};

class SessionTest : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr std::size_t kServers = 4;
  static constexpr std::size_t kDead = 2;

  void SetUp() override {
    static std::atomic<int> number = 0;
    std::vector<net::Address> addresses;
    for (std::size_t i = 0; i < kServers; ++i) {
      const bool is_local = std::string(GetParam()) == "local";
      const net::Address address{is_local ? concat("local:session-", ::getpid(), "-", ++number) : "tcp:127.0.0.1:0"};
      servers.push_back(std::make_unique<MemberServer>(address, key));
      addresses.push_back(servers.back()->address());
    }
    for (const auto& server : servers) {
      for (std::uint32_t i = 0; i < kServers; ++i) {
        auto member = std::make_unique<wire::ServerT>();
        member->index = i;
        member->address = addresses[i].text;
        server->members.servers.push_back(std::move(member));
        auto target = std::make_unique<wire::TargetT>();
        target->index = target->server = i;
        target->store_id = 7;
        server->members.targets.push_back(std::move(target));
      }
    }
    for (std::size_t i = 0; i < kServers; ++i) {
      if (i != kDead) servers[i]->run();
    }
    ConnectOptions options;
    options.timeout = std::chrono::seconds(60);  // a thread that waits for the dead server waits for long
    auto connected = Session::connect(addresses, key, options);
    ASSERT_THAT(connected, IsOk());
    session = std::move(*connected);
  }
  void TearDown() override { session.reset(); }

  [[nodiscard]] Status ask(std::size_t server) const {
    return session->call<wire::MembersT>(static_cast<std::uint32_t>(server), wire::MembershipT{}).status();
  }

  /// Four threads call each server; those of the dead one must still wait when all others are done.
  void expect_no_waiting(const std::function<void()>& revive) {
    constexpr int kCalls = 200;
    std::atomic<int> dead_ended = 0;
    std::vector<std::thread> waiting;
    std::vector<std::thread> working;
    for (std::size_t i = 0; i < 4; ++i) {
      waiting.emplace_back([&] {
        EXPECT_THAT(ask(kDead), IsOk());
        ++dead_ended;
      });
    }
    for (std::size_t i = 0; i < 12; ++i) {
      const std::size_t server = std::array<std::size_t, 3>{0, 1, 3}.at(i % 3);
      working.emplace_back([&, server] {
        for (int call = 0; call < kCalls; ++call) ASSERT_THAT(ask(server), IsOk());
      });
    }
    for (std::thread& thread : working) thread.join();
    EXPECT_EQ(dead_ended, 0);
    revive();
    for (std::thread& thread : waiting) thread.join();
    EXPECT_EQ(dead_ended, 4);
  }

  const net::Key key = net::Key::random();
  std::vector<std::unique_ptr<MemberServer>> servers;
  std::shared_ptr<Session> session;
};

INSTANTIATE_TEST_SUITE_P(Transports, SessionTest, ::testing::Values("local", "tcp"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST_P(SessionTest, NobodyWaitsForAServerThatCannotBeConnectedTo) {
  expect_no_waiting([&] { servers[kDead]->run(); });
}

TEST_P(SessionTest, NobodyWaitsForAServerThatHangs) {
  servers[kDead]->run();
  ASSERT_THAT(ask(kDead), IsOk());
  servers[kDead]->hangs = true;
  expect_no_waiting([&] {
    servers[kDead]->hangs = false;
    servers[kDead]->answer_kept();
  });
}

TEST_P(SessionTest, NobodyWaitsForAServerThatIsGone) {
  servers[kDead]->run();
  ASSERT_THAT(ask(kDead), IsOk());
  servers[kDead].reset();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      for (int call = 0; call < 50; ++call) {
        const Status status = ask(i % kServers);
        const ErrorCode expected = i % kServers == kDead ? ErrorCode::kUnavailable : ErrorCode::kOk;
        ASSERT_EQ(status.code(), expected) << status.message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Every driver that leaves has another thread drive; nobody is forgotten.
TEST_P(SessionTest, ThreadsTakeOverFromEachOther) {
  servers[kDead]->run();
  std::vector<std::thread> threads;
  std::atomic<int> answered = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        std::vector<internal::Outgoing> calls;
        for (std::uint32_t server = 0; server < kServers; ++server) {
          calls.push_back({server, wire::encode_request(wire::MembershipT{}, 60'000), {}, {}, {}});
        }
        session->run(calls, internal::Repeat::kNever);
        for (const internal::Outgoing& call : calls) answered += session->answer<wire::MembersT>(call).is_ok() ? 1 : 0;
        EXPECT_TRUE(i % 4 != 0 || session->is_connected(0));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 16 * 50 * 4);
}

// ---------------------------------------------------------------- operations that tell their end

struct NoticeCase {
  const char* name;
  const char* transport;
  bool direct;
};
class NoticeTest : public ::testing::TestWithParam<NoticeCase> {
 protected:
  NoticeTest() : cluster_(options()), fs_(cluster_.connect()) {
    file_.emplace(*fs_.create("/file", *layout::parse("stripe(unit=4K, over=3)")));
    view_.emplace(*file_->linear());
  }
  static ClusterOptions options() {
    ClusterOptions options;
    options.transport = GetParam().transport;
    options.direct = GetParam().direct;
    return options;
  }
  Cluster cluster_;
  FileSystem fs_;
  std::optional<File> file_;
  std::optional<View> view_;
};

INSTANTIATE_TEST_SUITE_P(Ways, NoticeTest,
                         ::testing::Values(NoticeCase{"Local", "local", false}, NoticeCase{"Rings", "tcp", false},
                                           NoticeCase{"Direct", "tcp", true}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(NoticeTest, CallsBackWhileTheProgramDoesOtherThings) {
  const std::vector<std::byte> bytes(std::size_t{20} << 20, std::byte{3});
  std::vector<std::byte> back(bytes.size());
  const layout::Element every_other = *layout::Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 2});
  for (const bool in_pieces : {false, true}) {
    const auto length = static_cast<Offset>(in_pieces ? bytes.size() / 2 : bytes.size());
    Pending write = in_pieces ? view_->start_write(0, length, ConstMemory{bytes.data(), every_other})
                              : view_->start_write(0, bytes);
    std::atomic<bool> is_written = false;
    write.on_done([&](const Status& status) {
      EXPECT_THAT(status, IsOk());
      is_written = true;
      is_written.notify_one();
    });
    is_written.wait(false);
    EXPECT_TRUE(write.test() || write.wait().is_ok());
    EXPECT_THAT(write.wait(), IsOk());
    std::fill(back.begin(), back.end(), std::byte{0});
    Pending read =
        in_pieces ? view_->start_read(0, length, Memory{back.data(), every_other}) : view_->start_read(0, back);
    std::atomic<bool> is_read = false;
    read.on_done([&](const Status& status) {
      EXPECT_THAT(status, IsOk());
      is_read = true;
      is_read.notify_one();
    });
    is_read.wait(false);
    EXPECT_EQ(back[0], std::byte{3});
    EXPECT_EQ(back[2 * static_cast<std::size_t>(length / 2) - 2], std::byte{3});
  }
}

TEST_P(NoticeTest, DescriptorsCanBePolled) {
  const std::vector<std::byte> bytes(std::size_t{1} << 20, std::byte{4});
  std::vector<Pending> writes;
  std::vector<pollfd> descriptors;
  for (int i = 0; i < 8; ++i) {
    writes.push_back(view_->start_write(i * static_cast<Offset>(bytes.size()), bytes));
    const Result<int> descriptor = writes.back().descriptor();
    ASSERT_THAT(descriptor, IsOk());
    descriptors.push_back({*descriptor, POLLIN, 0});
  }
  for (std::size_t left = writes.size(); left > 0;) {
    ASSERT_GT(::poll(descriptors.data(), descriptors.size(), -1), 0);
    for (std::size_t i = 0; i < writes.size(); ++i) {
      if (descriptors[i].revents == 0) continue;
      EXPECT_TRUE(writes[i].test());
      EXPECT_THAT(writes[i].wait(), IsOk());
      descriptors[i].fd = -1;
      --left;
    }
  }
  EXPECT_THAT(file_->size(), weir::testing::IsOkAndHolds(static_cast<Offset>(8 * bytes.size())));
}

TEST_P(NoticeTest, ThreadsThatWaitAndCallbacksShareASession) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> bytes(50'000, static_cast<std::byte>(t + 1));
      const Offset at = t * static_cast<Offset>(bytes.size());
      for (int round = 0; round < 20; ++round) {
        Pending write = view_->start_write(at, bytes);
        std::atomic<int> called = 0;
        if (t % 2 == 0) write.on_done([&](const Status&) { ++called; });
        ASSERT_THAT(write.wait(), IsOk());
        EXPECT_EQ(called, t % 2 == 0 ? 1 : 0);
        std::vector<std::byte> back(bytes.size());
        ASSERT_THAT(view_->read(at, back), IsOk());
        ASSERT_EQ(back, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(NoticeTest, ErrorsAreTold) {
  const std::vector<std::byte> bytes(100'000, std::byte{1});
  ASSERT_THAT(view_->write(0, bytes), IsOk());
  // Out of range: done from the start.
  Pending refused = view_->start_write(-1, bytes);
  ErrorCode code = ErrorCode::kOk;
  refused.on_done([&](const Status& status) { code = status.code(); });
  EXPECT_EQ(code, ErrorCode::kOutOfRange);
  const Result<int> descriptor = refused.descriptor();
  ASSERT_THAT(descriptor, IsOk());
  pollfd event{*descriptor, POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, 0), 1);
  for (int server = 1; server < 3; ++server) cluster_.stop(server);
  Pending lost = view_->start_write(0, bytes);
  std::atomic<bool> is_told = false;
  lost.on_done([&](const Status& status) {
    EXPECT_THAT(status, StatusIs(ErrorCode::kUnavailable));
    is_told = true;
    is_told.notify_one();
  });
  is_told.wait(false);
  EXPECT_THAT(lost.wait(), StatusIs(ErrorCode::kUnavailable));
}

}  // namespace
}  // namespace weir::client
