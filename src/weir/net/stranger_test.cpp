// Strangers at a server's port: they do not have the key, or misuse a connection that they have.

#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/descriptor.h>
#include <weir/base/testing/matchers.h>
#include <weir/net/internal/bytes.h>
#include <weir/net/internal/handshake.h>
#include <weir/net/internal/socket_peer_testing.h>
#include <weir/net/internal/socket_worker.h>
#include <weir/net/internal/tls.h>
#include <weir/net/internal/transports.h>

namespace weir::net {
namespace {

using namespace std::chrono_literals;
using internal::Frame;
using internal::FrameKind;
using internal::SocketAddress;
using internal::SocketPeer;
using internal::Tls;
using testing::IsOk;
using testing::StatusIs;

constexpr auto kStrangerLong = 20s;  // nothing takes that long

/// Answers everything with nothing.
class CountingHandler final : public Handler {
 public:
  void handle(Request request) override {
    ++handled;
    request.reply({});
  }
  std::atomic<int> handled = 0;
};

class StrangerTest : public ::testing::Test {
 protected:
  void start(ListenOptions options = {}) {
    options.opens_loopback_port = true;
    auto made = system_network().listen({"tcp:127.0.0.1:0"}, key, handler, options);
    ASSERT_THAT(made, IsOk());
    listener = std::move(*made);
    address = *internal::resolve(listener->address());
    thread = std::thread([this] { listener->run(); });
  }
  void TearDown() override {
    if (!thread.joinable()) return;
    listener->stop();
    thread.join();
  }

  /// A socket that is connected to the server, from 127.0.0.`host`.
  [[nodiscard]] Descriptor connect(std::uint8_t host = 1) const {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + host - 1);
    const int on = 1;
    EXPECT_EQ(::setsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on), 0);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from), 0) << std::strerror(errno);
    EXPECT_EQ(::connect(socket.get(), address.get(), address.length), 0) << std::strerror(errno);
    return socket;
  }
  /// One on which TLS is done, without encryption.
  [[nodiscard]] Descriptor connect_with(const Key& with) const {
    Descriptor socket = connect();
    auto tls = Tls::create(Tls::End::kCaller, socket.get(), with, Tls::Records::kPlain);
    EXPECT_THAT(tls, IsOk());
    for (;;) {
      const auto progress = (*tls)->handshake();
      EXPECT_THAT(progress, IsOk());
      if (!progress.is_ok() || *progress == Tls::Progress::kDone) return socket;
      pollfd poll{socket.get(), POLLIN, 0};
      ::poll(&poll, 1, 1000);
    }
  }
  static void send(const Descriptor& socket, const Bytes& bytes) {
    // The server may have closed it.
    static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  /// Whether the server closes it, soon.
  static bool is_closed(const Descriptor& socket) {
    const auto deadline = Clock::now() + kStrangerLong;
    while (Clock::now() < deadline) {
      pollfd poll{socket.get(), POLLIN, 0};
      if (::poll(&poll, 1, 100) == 0) continue;
      char bytes[4096];
      if (::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT) <= 0) return true;
    }
    return false;
  }
  /// How a call of somebody with this key ends.
  [[nodiscard]] Result<Reply> call_with(const Key& with) const {
    const auto caller =
        internal::make_process_caller(kProtocolVersion, internal::Rings::kOff, runtime::system_runtime());
    EXPECT_THAT(caller, IsOk());
    const auto connection = (*caller)->connect(listener->address(), with, Clock::now() + kStrangerLong);
    std::optional<Result<Reply>> result;
    connection->call(
        {{}, {}, {}, Clock::now() + kStrangerLong, [&](Result<Reply> reply) { result = std::move(reply); }});
    while (!result) (*caller)->wait(Clock::now() + 1s);
    return std::move(*result);
  }
  void expect_service() const { EXPECT_THAT(call_with(key.for_clients()), IsOk()); }

  const Key key = Key::random();
  CountingHandler handler;
  std::unique_ptr<Listener> listener;
  SocketAddress address;
  std::thread thread;
};

Bytes frame_on_stream(const Frame& frame, std::uint32_t payload_bytes, std::uint32_t zeros = 0) {
  Bytes bytes;
  internal::append(bytes, payload_bytes);
  internal::append(bytes, zeros);
  const internal::FrameHeader header = internal::encode(frame);
  internal::append(bytes, header);
  return bytes;
}

TEST_F(StrangerTest, GarbageEndsItsOwnConnectionOnly) {
  start();
  std::mt19937 random(17);
  std::vector<Bytes> garbage{Bytes(17), Bytes(1), Bytes(100'000), Bytes(5, std::byte{0xff})};
  // Heads of TLS records: a handshake of 16 KiB, one that is too long, an alert, application data.
  for (const std::string& head :
       {std::string("\x16\x03\x01\x40\x00\x01", 6), std::string("\x16\x03\x01\xff\xff", 5),
        std::string("\x15\x03\x03\x00\x02\x02\x28", 7), std::string("\x17\x03\x03\x00\x10", 5)}) {
    Bytes bytes(head.size());
    std::memcpy(bytes.data(), head.data(), head.size());
    bytes.resize(bytes.size() + 100, std::byte{7});
    garbage.push_back(std::move(bytes));
  }
  for (int i = 0; i < 50; ++i) {
    Bytes bytes(1 + random() % 3000);
    for (std::byte& one : bytes) one = static_cast<std::byte>(random());
    if (i % 2 == 0) bytes[0] = std::byte{0x16};
    garbage.push_back(std::move(bytes));
  }
  std::vector<Descriptor> sockets;
  for (const Bytes& bytes : garbage) {
    sockets.push_back(connect());
    send(sockets.back(), bytes);
  }
  expect_service();
  EXPECT_EQ(handler.handled, 1);
}

TEST_F(StrangerTest, OtherKeysGetNothing) {
  start();
  EXPECT_THAT(call_with(Key::random()), StatusIs(ErrorCode::kPermission));
  expect_service();
  EXPECT_EQ(handler.handled, 1);
}

TEST_F(StrangerTest, ManyThatSayNothingDoNotKeepOthersOut) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr rlim_t kMany = 10'000;
  const auto many = static_cast<std::size_t>(std::min<rlim_t>(kMany, limit.rlim_max / 4));
  start({.stranger_patience = std::chrono::hours(1)});
  std::vector<Descriptor> silent;
  for (std::size_t i = 0; i < many; ++i) {
    silent.push_back(connect(static_cast<std::uint8_t>(2 + i % 200)));
    if (i % 2 == 0) send(silent.back(), {std::byte{0x16}, std::byte{3}, std::byte{1}});  // a handshake begins
    if (i % (many / 4) == 0) expect_service();
  }
  expect_service();
  EXPECT_TRUE(is_closed(silent.front())) << "the oldest have made room";
}

// The oldest of all are those of another host: they stay while one host floods the server.
TEST_F(StrangerTest, AHostThatFloodsTheServerPushesOutItsOwn) {
  start({.stranger_patience = std::chrono::hours(1)});
  const Descriptor other = connect(2);
  std::vector<Descriptor> flood;
  for (int i = 0; i < 600; ++i) flood.push_back(connect(3));
  EXPECT_TRUE(is_closed(flood.front()));
  expect_service();
  pollfd poll{other.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 0), 0) << "it still may say something";
}

TEST_F(StrangerTest, AllThatSayNothingAreDropped) {
  start({.stranger_patience = 1s});  // others must not need as long
  std::vector<Descriptor> silent;
  for (std::size_t i = 0; i < 200; ++i) {
    silent.push_back(connect());
    if (i % 2 == 0) send(silent.back(), {std::byte{0x16}, std::byte{3}, std::byte{1}});
  }
  for (const Descriptor& one : silent) EXPECT_TRUE(is_closed(one));
  expect_service();
}

/// Answers everything with much.
class LongHandler final : public Handler {
 public:
  void handle(Request request) override {
    ++handled;
    request.reply(Bytes(std::size_t{64} << 10));
  }
  void disconnected(PeerId) override { ++disconnections; }
  std::atomic<int> handled = 0;
  std::atomic<int> disconnections = 0;
};

class UnreadTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Encrypted, UnreadTest, ::testing::Bool());

// It is not read while much waits for it, then dropped; when it goes on at last, it is told why.
TEST_P(UnreadTest, ACallerThatReadsNoAnswersIsDroppedAndToldWhy) {
  constexpr int kMany = 6000;
  const bool is_encrypted = GetParam();
  if (is_encrypted) ::setenv("WEIR_ENCRYPTION", "always", 1);
  const Key key = Key::random();
  LongHandler handler;
  ListenOptions options{.stall_limit = 400ms, .limits = {.unread_bytes = std::size_t{1} << 20}};
  options.opens_loopback_port = true;
  auto made = system_network().listen({"tcp:127.0.0.1:0"}, key, handler, options);
  ASSERT_THAT(made, IsOk());
  Listener& listener = **made;
  std::thread thread([&] { listener.run(); });
  {
    SocketPeer peer(*internal::resolve(listener.address()), key.for_clients());
    peer.introduce(key.for_clients());
    for (int i = 1; i <= kMany; ++i) peer.send(FrameKind::kCall, {}, static_cast<std::uint64_t>(i));
    const auto until = Clock::now() + kStrangerLong;
    while (handler.disconnections == 0 && Clock::now() < until) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(handler.disconnections, 1);
    EXPECT_LT(handler.handled, kMany / 2) << "answers pile up";
    EXPECT_TRUE(peer.await(FrameKind::kGoodbye));
    EXPECT_THAT(std::string(reinterpret_cast<const char*>(peer.last.data()), peer.last.size()),
                ::testing::HasSubstr("WEIR_LIMIT_STALL"));
  }
  listener.stop();
  thread.join();
  ::unsetenv("WEIR_ENCRYPTION");
}

TEST_F(StrangerTest, OneThatDoesNotFinishTlsIsDropped) {
  start({.stranger_patience = 1s});  // others must not need as long
  const Descriptor silent = connect();
  const Descriptor half = connect();
  send(half, {std::byte{0x16}, std::byte{3}, std::byte{1}});
  EXPECT_TRUE(is_closed(silent));
  EXPECT_TRUE(is_closed(half));
  expect_service();
}

// With the key, but without the handshake that says who calls.
TEST_F(StrangerTest, CallsBeforeTheHandshakeAreNotServed) {
  start();
  const Descriptor socket = connect_with(key);
  for (const std::uint64_t session : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    send(socket, frame_on_stream({.kind = FrameKind::kCall, .session = session, .call = 1}, 0));
  }
  expect_service();
  EXPECT_EQ(handler.handled, 1);
}

TEST_F(StrangerTest, FramesThatAreNotSoundEndTheirConnection) {
  start();
  const Frame call{.kind = FrameKind::kCall, .call = 1};
  const std::vector<Bytes> unsound{
      frame_on_stream(call, 0, 1),
      frame_on_stream(call, ~std::uint32_t{0}),
      frame_on_stream({.kind = FrameKind::kBody, .call = 1, .number = kMostBodyBytes}, 1),
      frame_on_stream({.kind = FrameKind::kBody, .call = 1}, 0),
      frame_on_stream({.kind = static_cast<FrameKind>(99)}, 0),
      frame_on_stream({.kind = FrameKind::kHello}, internal::kMostHandshakeBytes + 1),
      Bytes(48, std::byte{0xff}),
  };
  for (const Bytes& bytes : unsound) {
    const Descriptor socket = connect_with(key);
    send(socket, bytes);
    EXPECT_TRUE(is_closed(socket));
  }
  expect_service();
}

TEST_F(StrangerTest, ASessionIsGoodOnItsOwnConnectionOnly) {
  start();
  SocketPeer victim(address, key);
  const std::uint64_t session = victim.introduce(key);
  victim.send(FrameKind::kCall, {}, 1);
  ASSERT_TRUE(victim.await(FrameKind::kReply));
  SocketPeer thief(address, key);
  thief.introduce(key);
  thief.set_session(session);
  thief.send(FrameKind::kCall, {}, 2);
  thief.send(FrameKind::kGoodbye);
  expect_service();
  victim.send(FrameKind::kCall, {}, 3);
  ASSERT_TRUE(victim.await(FrameKind::kReply)) << "the goodbye of another is not its own";
  EXPECT_EQ(handler.handled, 3);
}

}  // namespace
}  // namespace weir::net
