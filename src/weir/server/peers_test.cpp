// Servers that call servers: others and themselves, while they come and go.

#include <weir/server/internal/peers.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>

namespace weir::server::internal {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

/// A server that answers Done to all, or keeps calls until it is told to answer; with calls of its own.
class PeerServer final : public net::Handler {
 public:
  PeerServer(std::uint32_t index, const net::Address& address, const net::Key& key) : index_(index), key_(key) {
    auto listener = net::system_network().listen(address, key, *this, {});
    EXPECT_THAT(listener, IsOk());
    listener_ = std::move(*listener);
    peers_ = std::make_unique<Peers>(
        Peers::Options{.self = index,
                       .key = key,
                       .clock = runtime::system_runtime().clock,
                       .boot = 100 + index,
                       .post = [this](std::function<void()> task) { listener_->post(std::move(task)); },
                       .handle = [this](const CallPtr& call) { answer(*call); }},
        listener_->caller());
    thread_ = std::thread([this] { listener_->run(); });
  }
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;
  ~PeerServer() override {
    run([this] {
      is_stopping_ = true;
      peers_->stop();
      kept_.clear();
    });
    listener_->stop();
    thread_.join();
  }

  void handle(net::Request request) override {
    ++received;
    const auto head = wire::decode_request(request.head());
    ASSERT_THAT(head, IsOk());
    if (is_stopping_)
      return;  // a dropped request fails, as those of a stopping server do; the listener waits for kept ones
    auto call = std::make_shared<ServerCall>(ServerCall{std::move(request), *head, {}, counters_, 100 + index_});
    if (keeps) {
      most_kept = std::max(most_kept, kept_.size() + 1);
      kept_.push_back(std::move(call));
    } else {
      answer(*call);
    }
  }

  [[nodiscard]] const net::Address& address() const { return listener_->address(); }
  void set_servers(const std::vector<net::Address>& servers) {
    run([&] { peers_->set_table(servers, {0, 1}); });
  }
  /// Starts a call; its end can be waited for.
  std::future<Result<wire::ReplyHeadT>> start(std::uint32_t server) {
    auto promise = std::make_shared<std::promise<Result<wire::ReplyHeadT>>>();
    run([&] {
      peers_->call(server, wire::MembershipT{}, 0,
                   [promise](Result<wire::ReplyHeadT> head) { promise->set_value(std::move(head)); });
    });
    return promise->get_future();
  }
  Result<wire::ReplyHeadT> call(std::uint32_t server) { return start(server).get(); }
  void answer_kept() {
    run([this] {
      for (const CallPtr& call : std::exchange(kept_, {})) answer(*call);
    });
  }
  /// Runs a task in the event loop, and waits.
  void run(const std::function<void()>& task) {
    std::promise<void> done;
    listener_->post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

  std::atomic<int> received{0};  ///< From other processes, as far as can be told.
  std::atomic<bool> keeps{false};
  std::size_t most_kept = 0;

 private:
  static void answer(ServerCall& call) { call.answer(wire::DoneT{}); }

  std::uint32_t index_;
  net::Key key_;
  wire::CountersT counters_;
  bool is_stopping_ = false;  // event loop only
  std::vector<CallPtr> kept_;
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<Peers> peers_;
  std::thread thread_;
};

class PeersTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    for (std::uint32_t i = 0; i < 2; ++i) {
      addresses.push_back({std::string(GetParam()) == "tcp" ? std::string("tcp:127.0.0.1:0")
                                                            : concat("local:peers-test-", ::getpid(), "-", i)});
      start(i);
    }
    tell();
  }
  void start(std::uint32_t index) {
    servers[index] = std::make_unique<PeerServer>(index, addresses[index], key);
    addresses[index] = servers[index]->address();
  }
  void tell() {
    for (const auto& server : servers) server->set_servers(addresses);
  }

  const net::Key key = net::Key::random();
  std::vector<net::Address> addresses;
  std::unique_ptr<PeerServer> servers[2];
};

TEST_P(PeersTest, CallsGoBothWays) {
  const auto there = servers[0]->call(1);
  ASSERT_THAT(there, IsOk());
  EXPECT_EQ(there->boot, 101u);
  const auto back = servers[1]->call(0);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->boot, 100u);
  EXPECT_EQ(servers[0]->received, 1);
  EXPECT_EQ(servers[1]->received, 1);
}

TEST_P(PeersTest, AServerCallsItselfWithoutAMessage) {
  const auto answer = servers[0]->call(0);
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->boot, 100u);
  EXPECT_EQ(servers[0]->received, 0);
}

TEST_P(PeersTest, AServerThatDiesEndsItsCallsAndIsReachedWhenItIsBack) {
  ASSERT_THAT(servers[0]->call(1), IsOk());
  servers[1].reset();
  EXPECT_THAT(servers[0]->call(1), StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1 at")));
  start(1);
  servers[1]->set_servers(addresses);
  EXPECT_THAT(servers[0]->call(1), IsOk());
  EXPECT_THAT(servers[1]->call(0), IsOk());
}

TEST_P(PeersTest, AServerThatWasRestartedIsReachedAtOnce) {
  ASSERT_THAT(servers[0]->call(1), IsOk());
  servers[1].reset();
  start(1);
  EXPECT_THAT(servers[0]->call(1), IsOk()) << "on a new connection";
}

TEST_P(PeersTest, CallsInFlightEndWithTheServer) {
  servers[1]->keeps = true;
  auto call = servers[0]->start(1);
  while (servers[1]->received == 0) std::this_thread::yield();
  servers[1].reset();
  EXPECT_THAT(call.get(), StatusIs(ErrorCode::kUnavailable));
}

TEST_P(PeersTest, FewCallsAreInFlightAtATime) {
  servers[1]->keeps = true;
  std::vector<std::future<Result<wire::ReplyHeadT>>> calls;
  for (std::size_t i = 0; i < 3 * Peers::kMostInFlight; ++i) calls.push_back(servers[0]->start(1));
  while (std::cmp_less(servers[1]->received.load(), Peers::kMostInFlight)) std::this_thread::yield();
  servers[1]->keeps = false;
  servers[1]->answer_kept();
  for (auto& call : calls) EXPECT_THAT(call.get(), IsOk());
  EXPECT_EQ(servers[1]->most_kept, Peers::kMostInFlight);
  EXPECT_EQ(servers[1]->received, static_cast<int>(3 * Peers::kMostInFlight));
}

TEST_P(PeersTest, AServerThatStopsEndsItsOwnCalls) {
  servers[1]->keeps = true;
  auto call = servers[0]->start(1);
  while (servers[1]->received == 0) std::this_thread::yield();
  servers[0].reset();
  // Never answered, or told: no callback outlives the server.
  EXPECT_EQ(servers[1]->received, 1);
  (void)call;
}

TEST_P(PeersTest, AnIndexOutOfRangeIsAnError) {
  EXPECT_THAT(servers[0]->call(7), StatusIs(ErrorCode::kUnavailable, HasSubstr("out of range (2 servers)")));
}

INSTANTIATE_TEST_SUITE_P(Transports, PeersTest, ::testing::Values("local", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace weir::server::internal
