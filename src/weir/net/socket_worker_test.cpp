// Links between hosts, one worker against another in one thread.

#include <weir/net/internal/socket_worker.h>

#include <cstring>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>

#include <weir/base/testing/matchers.h>

namespace weir::net {
namespace {

using internal::Frame;
using internal::FrameKind;
using internal::Link;
using internal::SocketAddress;
using internal::SocketWorker;
using testing::IsOk;

/// A worker that listens, and one that calls it.
class SocketWorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto listening = SocketWorker::create(
        [this](const Frame& frame, std::span<const std::byte>, const Link* from) {
          if (frame.kind == FrameKind::kCall) ++calls[from];
        },
        nullptr, runtime::system_runtime());
    auto calling = SocketWorker::create(nullptr, nullptr, runtime::system_runtime());
    ASSERT_THAT(listening, IsOk());
    ASSERT_THAT(calling, IsOk());
    listener = std::move(*listening);
    caller = std::move(*calling);
    const auto any = internal::resolve({"tcp:127.0.0.1:0"});
    ASSERT_THAT(any, IsOk());
    const auto bound = listener->listen(*any, key, [this](const std::shared_ptr<Link>& link) {
      accepted.push_back(link);
      return true;
    });
    ASSERT_THAT(bound, IsOk());
    address = *bound;
  }

  /// Of the caller; a frame has come through it.
  std::shared_ptr<Link> connect() {
    const auto link = caller->connect(address, key);
    EXPECT_THAT(link, IsOk());
    const std::size_t known = calls.size();
    send_call(**link);
    while (calls.size() == known) {
      caller->progress();
      listener->arm();
      listener->progress();
    }
    return *link;
  }

  /// Until something has come to the listener.
  void wait_for_bytes() const {
    pollfd event{listener->event_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&event, 1, -1), 1);
  }

  static void send_call(Link& link) {
    Frame frame;
    frame.kind = FrameKind::kCall;
    link.send(frame);
  }

  const Key key = Key::random();
  std::map<const Link*, int> calls;
  std::vector<std::shared_ptr<Link>> accepted;
  std::unique_ptr<SocketWorker> listener;
  std::unique_ptr<SocketWorker> caller;
  SocketAddress address;
};

TEST_F(SocketWorkerTest, ALinkThatAlwaysTalksDoesNotKeepOthersWaiting) {
  const auto talkative = connect();
  const auto other = connect();
  const Link* const from_other = accepted.at(1).get();
  const int before = calls.at(from_other);
  send_call(*talkative);
  wait_for_bytes();
  while (listener->take_in()) {  // and it is the one that is looked at first
  }
  send_call(*other);
  wait_for_bytes();
  int looks = 0;
  for (; calls.at(from_other) == before && looks < 100; ++looks) {
    send_call(*talkative);
    listener->take_in();
  }
  EXPECT_LT(looks, 20);
}

TEST_F(SocketWorkerTest, LooksThatFollowASleepMissNothing) {
  const auto talkative = connect();
  const auto other = connect();
  send_call(*talkative);
  wait_for_bytes();
  listener->take_in();
  for (int round = 0; round < 20; ++round) {
    const int before = calls.at(accepted.at(1).get());
    send_call(*other);
    wait_for_bytes();
    listener->arm();
    while (listener->take_in()) {
    }
    EXPECT_EQ(calls.at(accepted.at(1).get()), before + 1) << round;
  }
}

// Whatever the congestion control of the system is.
TEST_F(SocketWorkerTest, ConnectionsWithinAHostAreNotPaced) {
  const auto link = connect();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  int connections = 0;
  for (int socket = 0; socket < static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 4096)); ++socket) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state != TCP_ESTABLISHED)
      continue;
    ++connections;
    char name[16] = "";
    length = sizeof name;
    ASSERT_EQ(::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
    EXPECT_STREQ(name, "reno");
  }
  EXPECT_EQ(connections, 2);
}

}  // namespace
}  // namespace weir::net
