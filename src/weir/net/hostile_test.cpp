// A live listener, and callers that do not keep to the protocol: they speak in frames of their own making.

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/testing/listening_sockets.h>
#include <weir/base/testing/matchers.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/base/text.h>
#include <weir/base/unix_socket.h>
#include <weir/net/internal/handshake.h>
#include <weir/net/internal/links.h>
#include <weir/net/internal/ring_worker.h>
#include <weir/net/internal/socket_address.h>
#include <weir/net/net.h>

namespace weir::net {
namespace {

using namespace std::chrono_literals;
using internal::Frame;
using internal::FrameKind;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr auto kHostileLong = 20s;  // nothing takes that long
constexpr std::size_t kRoom = 100'000;
constexpr std::byte kGuard{0xee};

/// Receives bodies into room that is guarded, and answers with how that ended.  "keep" is answered when told.
class GuardedHandler : public Handler {
 public:
  void handle(Request request) override {
    ++handled;
    if (request.body_bytes() == 0) return kept.push_back(std::move(request));
    struct Receipt {
      Request request;
      Bytes room;
    };
    const std::size_t size = request.body_bytes();
    auto receipt = std::make_shared<Receipt>(Receipt{std::move(request), Bytes(size + 4096, kGuard)});
    receipt->request.receive(std::span(receipt->room).first(size), [this, receipt, size](const Status& status) {
      for (std::size_t i = size; i < receipt->room.size(); ++i) {
        if (receipt->room[i] != kGuard) ++overruns;
      }
      if (!status.is_ok()) {
        ++failures;
        return;
      }
      {
        const std::lock_guard lock(mutex);
        last_body.assign(receipt->room.begin(), receipt->room.begin() + static_cast<std::ptrdiff_t>(size));
      }
      receipt->request.reply({});
    });
  }
  void disconnected(PeerId) override { ++disconnections; }

  std::atomic<int> handled = 0;
  std::atomic<int> failures = 0;
  std::atomic<int> overruns = 0;
  std::atomic<int> disconnections = 0;
  std::vector<Request> kept;  // the listener's thread's
  std::mutex mutex;
  Bytes last_body;
};

class HostileTest : public ::testing::Test {
 protected:
  void start(const ListenOptions& options = {}) {
    auto made = system_network().listen({"tcp:127.0.0.1:0"}, key, handler, options);
    ASSERT_THAT(made, IsOk());
    listener = std::move(*made);
    thread = std::thread([this] { listener->run(); });
  }
  void TearDown() override {
    if (!thread.joinable()) return;
    run([this] { handler.kept.clear(); });
    listener->stop();
    thread.join();
  }
  void run(const std::function<void()>& task) const {
    std::promise<void> done;
    listener->post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  /// A caller that behaves gets an answer.
  void expect_service() const {
    const auto caller = system_network().make_caller(listener->address(), runtime::system_runtime());
    ASSERT_THAT(caller, IsOk());
    auto connection = (*caller)->connect(listener->address(), key, Clock::now() + kHostileLong);
    std::optional<Result<Reply>> result;
    const Bytes body(10, std::byte{1});
    connection->call(
        {{}, body, {}, Clock::now() + kHostileLong, [&](Result<Reply> reply) { result = std::move(reply); }});
    while (!result) (*caller)->wait(Clock::now() + 1s);
    EXPECT_THAT(*result, IsOk());
  }

  const Key key = Key::random();
  GuardedHandler handler;
  Bytes reply_body;  // may be on its way until the listener has stopped
  std::unique_ptr<Listener> listener;
  std::thread thread;
};

/// Speaks in frames, over a ring.
class RawPeer {
 public:
  struct Came {
    Frame frame;
    Bytes payload;
  };

  explicit RawPeer(const Address& address) {
    auto made = internal::RingWorker::create(
        [this](const Frame& frame, std::span<const std::byte> payload, const internal::Link*) {
          came.push_back({frame, {payload.begin(), payload.end()}});
        },
        *runtime::system_runtime().clock);
    EXPECT_THAT(made, IsOk());
    worker_ = std::move(*made);
    link_ = worker_->connect(internal::ring_name(address)).link;
    EXPECT_NE(link_, nullptr);
    link_->set_on_failure([this](const Status& why) {
      is_lost = true;
      lost_why = why.message();
    });
  }

  void send(const Frame& frame, std::size_t payload_bytes = 0, std::byte value = std::byte{7}) {
    link_->send(frame, Bytes(payload_bytes, value));
  }
  void send(FrameKind kind, Bytes payload) {
    Frame frame;
    frame.kind = kind;
    link_->send(frame, std::move(payload));
  }

  bool until(const std::function<bool()>& is_done) {
    const auto deadline = Clock::now() + kHostileLong;
    while (!is_done()) {
      if (Clock::now() > deadline) return false;
      if (!worker_->progress()) std::this_thread::yield();
    }
    return true;
  }
  /// Takes in what there is, once.
  void step() { worker_->progress(); }
  /// Forgets what came before it.
  bool await(FrameKind kind) {
    const auto is_that = [&](const Came& one) { return one.frame.kind == kind; };
    if (!until([&] { return std::any_of(came.begin(), came.end(), is_that); })) return false;
    came.erase(came.begin(), std::find_if(came.begin(), came.end(), is_that) + 1);
    return true;
  }

  void introduce(const Key& key) {
    internal::CallerHandshake handshake(key, Identity::of_this_process().host, kProtocolVersion);
    send(FrameKind::kHello, handshake.hello());
    ASSERT_TRUE(until([&] { return !came.empty(); }));
    ASSERT_EQ(came.front().frame.kind, FrameKind::kChallenge);
    auto proof = handshake.prove(came.front().payload);
    ASSERT_THAT(proof, IsOk());
    send(FrameKind::kProof, *proof);
    ASSERT_TRUE(await(FrameKind::kWelcome));
    link_->set_session(handshake.sessions().to_listener);
  }
  [[nodiscard]] internal::Link& link() { return *link_; }

  /// The first that came of a kind; waits for it.
  const Came* find(FrameKind kind) {
    const auto is_that = [&](const Came& one) { return one.frame.kind == kind; };
    if (!until([&] { return std::any_of(came.begin(), came.end(), is_that); })) return nullptr;
    return &*std::find_if(came.begin(), came.end(), is_that);
  }

  std::vector<Came> came;
  bool is_lost = false;
  std::string lost_why;

 private:
  std::unique_ptr<internal::RingWorker> worker_;
  std::shared_ptr<internal::Link> link_;
};

Frame call_of(std::uint64_t call, std::uint64_t body_bytes) {
  return {.kind = FrameKind::kCall, .call = call, .number = body_bytes};
}
Frame body_at(std::uint64_t call, std::uint64_t at) { return {.kind = FrameKind::kBody, .call = call, .number = at}; }

TEST_F(HostileTest, BodiesThatLeaveTheirRoomAreIgnored) {
  start();
  RawPeer peer(listener->address());
  peer.introduce(key);
  peer.send(call_of(1, kRoom));
  ASSERT_TRUE(peer.await(FrameKind::kPull));
  peer.send(body_at(1, kRoom), 1);
  peer.send(body_at(1, kRoom - 10), 100);
  peer.send(body_at(1, 1), kRoom / 4 + kRoom);
  peer.send(body_at(1, kMostBodyBytes - 1), 1);
  peer.send(body_at(1, ~std::uint64_t{0} - 4), 100);
  peer.send(body_at(2, 0), 100);  // no such call
  // What fits counts, and only that.
  for (std::size_t at = 0; at < kRoom; at += 20'000) peer.send(body_at(1, at), 20'000, std::byte{9});
  ASSERT_TRUE(peer.await(FrameKind::kReply));
  EXPECT_EQ(handler.overruns, 0);
  EXPECT_EQ(handler.failures, 0);
  {
    const std::lock_guard lock(handler.mutex);
    EXPECT_EQ(handler.last_body, Bytes(kRoom, std::byte{9}));
  }
  peer.send(body_at(1, 0), 100);  // that call is over
  expect_service();
}

TEST_F(HostileTest, CallersDoNotReachCallsOfOthers) {
  start();
  RawPeer victim(listener->address());
  victim.introduce(key);
  victim.send(call_of(1, kRoom));
  ASSERT_TRUE(victim.await(FrameKind::kPull));
  RawPeer other(listener->address());
  other.introduce(key);
  for (std::size_t at = 0; at < kRoom; at += 20'000) other.send(body_at(1, at), 20'000, std::byte{66});
  other.send({.kind = FrameKind::kCancel, .call = 1});
  // Answered, so all of the above was taken in.
  other.send(call_of(2, 10), 10);
  ASSERT_TRUE(other.await(FrameKind::kReply));
  for (std::size_t at = 0; at < kRoom; at += 20'000) victim.send(body_at(1, at), 20'000, std::byte{9});
  ASSERT_TRUE(victim.await(FrameKind::kReply));
  const std::lock_guard lock(handler.mutex);
  EXPECT_EQ(handler.last_body, Bytes(kRoom, std::byte{9}));
}

TEST_F(HostileTest, StrangersAreNotServed) {
  start();
  RawPeer peer(listener->address());
  for (const std::uint64_t session : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    peer.link().set_session(session);
    for (const FrameKind kind :
         {FrameKind::kCall, FrameKind::kBody, FrameKind::kCancel, FrameKind::kAsk, FrameKind::kGoodbye}) {
      peer.send({.kind = kind, .call = 1, .number = kind == FrameKind::kCall ? 10u : 0u},
                kind < FrameKind::kPull || kind == FrameKind::kBody ? 10 : 0);
    }
  }
  peer.send(FrameKind::kProof, Bytes(100));  // of nothing
  ASSERT_TRUE(peer.await(FrameKind::kRefusal));
  expect_service();
  EXPECT_EQ(handler.handled, 1);
}

TEST_F(HostileTest, StrangersThatNeverSpeakAreDropped) {
  start({.stranger_patience = 1s});  // others must not need as long
  RawPeer silent(listener->address());
  RawPeer known(listener->address());
  known.introduce(key);
  EXPECT_TRUE(silent.until([&] { return silent.is_lost; }));
  // Those that have proven the key stay.
  known.send(call_of(1, 10), 10);
  EXPECT_TRUE(known.await(FrameKind::kReply));
  EXPECT_EQ(handler.disconnections, 0) << "it never was a caller";
}

TEST_F(HostileTest, ThoseWhoAskAreToldOnlyOfCallsThatAreUnderWay) {
  start();
  RawPeer peer(listener->address());
  peer.introduce(key);
  peer.send({.kind = FrameKind::kAsk, .call = 1});
  peer.send(call_of(1, 0));
  peer.send({.kind = FrameKind::kAsk, .call = 1});
  peer.send({.kind = FrameKind::kAsk, .call = 1});
  peer.send({.kind = FrameKind::kAsk, .call = 2});
  peer.send(call_of(3, 10), 10);
  ASSERT_TRUE(peer.until([&] { return !peer.came.empty() && peer.came.back().frame.kind == FrameKind::kReply; }));
  ASSERT_EQ(peer.came.size(), 3u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(peer.came[i].frame.kind, FrameKind::kWorking);
    EXPECT_EQ(peer.came[i].frame.call, 1u);
  }
  run([this] { handler.kept.front().reply({}); });
  ASSERT_TRUE(peer.await(FrameKind::kReply));
  peer.send({.kind = FrameKind::kAsk, .call = 1});
  peer.send(call_of(4, 10), 10);
  ASSERT_TRUE(peer.until([&] { return !peer.came.empty() && peer.came.back().frame.call == 4u; }));
  EXPECT_EQ(peer.came.size(), 2u) << "the answers of calls 1 (taken in before) and 4, but nothing that tells of work";
}

// The thread that hands requests to the handler is in it: another one tells that the server is at work.
TEST_F(HostileTest, ThoseWhoAskAreToldWhileTheHandlerIsBusy) {
  start();
  RawPeer peer(listener->address());
  peer.introduce(key);
  peer.send(call_of(1, 0));
  peer.send(call_of(2, 10), 10);
  ASSERT_TRUE(peer.await(FrameKind::kReply));
  std::promise<void> may_go_on;
  std::promise<void> is_busy;
  listener->post([&] {
    is_busy.set_value();
    may_go_on.get_future().wait();
  });
  is_busy.get_future().wait();
  peer.send({.kind = FrameKind::kAsk, .call = 1});
  peer.send(call_of(3, 10), 10);
  EXPECT_TRUE(peer.await(FrameKind::kWorking));
  EXPECT_EQ(handler.handled, 2) << "others wait for the handler";
  may_go_on.set_value();
  EXPECT_TRUE(peer.await(FrameKind::kReply));
}

TEST_F(HostileTest, ACallerThatStopsInABodyIsDropped) {
  start({.stall_limit = 100ms});
  RawPeer peer(listener->address());
  peer.introduce(key);
  peer.send(call_of(1, kRoom));
  ASSERT_TRUE(peer.await(FrameKind::kPull));
  peer.send(body_at(1, 0), 1000);
  EXPECT_TRUE(peer.until([&] { return peer.is_lost; }));
  const auto deadline = Clock::now() + kHostileLong;
  while (handler.disconnections == 0 && Clock::now() < deadline) run([] {});
  EXPECT_EQ(handler.failures, 1);
  EXPECT_EQ(handler.disconnections, 1);
  expect_service();
}

// ---------------------------------------------------------------- limits

std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

TEST_F(HostileTest, RequestsBeyondTheLimitAreRefusedAndTheReasonIsTold) {
  start({.limits = {.requests = 3}});
  RawPeer peer(listener->address());
  peer.introduce(key.for_clients());
  for (std::uint64_t call = 1; call <= 4; ++call) peer.send(call_of(call, 0));
  const RawPeer::Came* refused = peer.find(FrameKind::kDropped);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->frame.call, 4u);
  EXPECT_THAT(text_of(refused->payload), HasSubstr("WEIR_LIMIT_REQUESTS"));
  EXPECT_THAT(text_of(refused->payload), HasSubstr(concat("user ", ::geteuid())));
  run([this] {
    EXPECT_EQ(handler.handled, 3);
    handler.kept.clear();
  });
  peer.send(call_of(5, 10), 10);
  EXPECT_TRUE(peer.await(FrameKind::kReply)) << "there is room again";
  run([this] { EXPECT_EQ(listener->limit_counters().refused_requests, 1u); });
}

TEST_F(HostileTest, BytesOfRequestsAreLimited) {
  constexpr std::size_t kHead = 40'000;
  start({.limits = {.request_bytes = 100'000}});
  RawPeer peer(listener->address());
  peer.introduce(key.for_clients());
  for (std::uint64_t call = 1; call <= 3; ++call) {
    Frame frame = call_of(call, 0);
    frame.head_bytes = kHead;
    peer.send(frame, kHead);
  }
  const RawPeer::Came* refused = peer.find(FrameKind::kDropped);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->frame.call, 3u);
  EXPECT_THAT(text_of(refused->payload), HasSubstr("WEIR_LIMIT_MEMORY"));
  expect_service();
}

// One has most of what there is for all: it is refused more, while another still gets its share.
TEST_F(HostileTest, BytesOfAllRequestsAreLimited) {
  constexpr std::size_t kHead = 40'000;
  start({.limits = {.total_request_bytes = 200'000}});
  const auto large_call = [](std::uint64_t call) {
    Frame frame = call_of(call, 0);
    frame.head_bytes = kHead;
    return frame;
  };
  RawPeer greedy(listener->address());
  greedy.introduce(key.for_clients());
  RawPeer modest(listener->address());
  modest.introduce(key.for_clients());
  for (std::uint64_t call = 1; call <= 6; ++call) greedy.send(large_call(call), kHead);
  const RawPeer::Came* refused = greedy.find(FrameKind::kDropped);
  ASSERT_NE(refused, nullptr);
  EXPECT_THAT(text_of(refused->payload), HasSubstr("of all callers"));
  modest.send(large_call(1), kHead);
  modest.send({.kind = FrameKind::kAsk, .call = 1});
  EXPECT_TRUE(modest.await(FrameKind::kWorking));
  run([this] { EXPECT_EQ(handler.handled, 4 + 1); });
}

TEST_F(HostileTest, ServersAreNotLimited) {
  start({.limits = {.connections = 0, .requests = 1, .request_bytes = 1000}});
  RawPeer peer(listener->address());
  peer.introduce(key);
  for (std::uint64_t call = 1; call <= 4; ++call) peer.send(call_of(call, 0));
  peer.send(call_of(5, 10), 10);
  EXPECT_TRUE(peer.await(FrameKind::kReply));
  EXPECT_EQ(handler.handled, 5);
}

TEST_F(HostileTest, ConnectionsBeyondTheLimitAreRefusedAndTheReasonIsTold) {
  start({.limits = {.connections = 2}});
  RawPeer first(listener->address());
  first.introduce(key.for_clients());
  auto second = std::make_unique<RawPeer>(listener->address());
  second->introduce(key.for_clients());
  const auto call_with = [&](const Key& with) {
    const auto caller = system_network().make_caller(listener->address(), runtime::system_runtime());
    const auto connection = (*caller)->connect(listener->address(), with, Clock::now() + kHostileLong);
    std::optional<Result<Reply>> result;
    const Bytes body(10, std::byte{1});
    connection->call(
        {{}, body, {}, Clock::now() + kHostileLong, [&](Result<Reply> reply) { result = std::move(reply); }});
    while (!result) (*caller)->wait(Clock::now() + 1s);
    return result->status();
  };
  EXPECT_THAT(call_with(key.for_clients()), StatusIs(ErrorCode::kUnavailable, HasSubstr("WEIR_LIMIT_CONNECTIONS")));
  EXPECT_THAT(call_with(key), IsOk()) << "of a server";
  second.reset();
  const auto until = Clock::now() + kHostileLong;
  while (handler.disconnections < 2 && Clock::now() < until) run([] {});
  EXPECT_THAT(call_with(key.for_clients()), IsOk());
}

// It sends, and never reads an answer: nothing more is read from it, so that answers do not pile up.
TEST_F(HostileTest, ACallerThatReadsNoAnswersIsNotReadEither) {
  constexpr std::uint64_t kMany = 60'000;
  start({.stall_limit = 1h, .limits = {.unread_bytes = 64 << 10}});
  RawPeer peer(listener->address());
  peer.introduce(key.for_clients());
  peer.send(call_of(1, 0));
  for (std::uint64_t i = 0; i < kMany; ++i) peer.send({.kind = FrameKind::kAsk, .call = 1});
  for (std::uint64_t sent = 0; sent != peer.link().sent_bytes();) {
    sent = peer.link().sent_bytes();
    for (int i = 0; i < 100; ++i) run([] {});
    peer.send({.kind = FrameKind::kAsk, .call = 1});  // sends what has room by now
  }
  EXPECT_LT(peer.link().sent_bytes(), kMany * internal::kFrameBytes / 2);
  expect_service();
  // It reads again, and nothing was lost.
  EXPECT_TRUE(peer.until([&] { return peer.came.size() >= kMany; })) << peer.came.size();
}

TEST_F(HostileTest, ACallerThatReadsNoAnswersIsDroppedAndToldWhy) {
  start({.stall_limit = 100ms});
  RawPeer peer(listener->address());
  peer.introduce(key.for_clients());
  peer.send(call_of(1, 0));
  for (int i = 0; i < 20'000; ++i) peer.send({.kind = FrameKind::kAsk, .call = 1});
  const auto until = Clock::now() + kHostileLong;
  while (handler.disconnections == 0 && Clock::now() < until) {
    run([&] {});
    peer.send({.kind = FrameKind::kAsk, .call = 1});  // sends what has room by now
  }
  EXPECT_EQ(handler.disconnections, 1);
  run([this] { EXPECT_EQ(listener->limit_counters().dropped_connections, 1u); });
  EXPECT_TRUE(peer.until([&] { return peer.is_lost; }));
  EXPECT_THAT(peer.lost_why, HasSubstr("WEIR_LIMIT_STALL"));
  expect_service();
}

/// Processes of this host that connect, and do not even send the memory for messages.
std::vector<Descriptor> connect_silently(const Address& address, std::size_t count) {
  UnixAddress name;
  EXPECT_TRUE(make_abstract(internal::ring_name(address), name));
  std::vector<Descriptor> silent;
  for (std::size_t i = 0; i < count; ++i) {
    silent.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(silent.back().get(), name.get(), name.bytes), 0) << std::strerror(errno);
  }
  return silent;
}

bool is_hung_up(const Descriptor& socket) {
  pollfd poll{socket.get(), POLLIN, 0};
  return ::poll(&poll, 1, static_cast<int>(std::chrono::milliseconds(kHostileLong).count())) == 1 &&
         (poll.revents & POLLHUP) != 0;
}

TEST_F(HostileTest, SilentProcessesDoNotKeepOthersOut) {
  start({.stranger_patience = 1h});
  std::vector<Descriptor> silent;
  for (int turn = 0; turn < 4; ++turn) {
    for (Descriptor& one : connect_silently(listener->address(), 300)) silent.push_back(std::move(one));
    expect_service();
  }
  EXPECT_TRUE(is_hung_up(silent.front())) << "the oldest have made room";
}

TEST_F(HostileTest, SilentProcessesAreDropped) {
  start({.stranger_patience = 1s});  // others must not need as long
  for (const Descriptor& one : connect_silently(listener->address(), 100)) EXPECT_TRUE(is_hung_up(one));
  expect_service();
}

/// This process has no descriptors left, as long as this exists.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit low{std::min<rlim_t>(before_.rlim_cur, 512), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    for (;;) {
      Descriptor one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!one.is_open()) break;
      taken_.push_back(std::move(one));
    }
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<Descriptor> taken_;
};

TEST_F(HostileTest, WithoutDescriptorsKnownCallersAreServedAndOthersTurnedAway) {
  start();
  RawPeer known(listener->address());
  known.introduce(key);
  UnixAddress name;
  ASSERT_TRUE(make_abstract(internal::ring_name(listener->address()), name));
  std::vector<Descriptor> sockets;
  for (int i = 0; i < 20; ++i) sockets.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  {
    const NoDescriptors none;
    for (const Descriptor& one : sockets) ASSERT_EQ(::connect(one.get(), name.get(), name.bytes), 0);
    for (const Descriptor& one : sockets) EXPECT_TRUE(is_hung_up(one));
    known.send(call_of(1, 10), 10);
    EXPECT_TRUE(known.await(FrameKind::kReply));
  }
  expect_service();
}

// Far longer than the limit altogether, but never without a byte for as long.
TEST_F(HostileTest, ACallerThatIsSlowStays) {
  constexpr auto kLimit = 1600ms;
  start({.stall_limit = kLimit});
  RawPeer peer(listener->address());
  peer.introduce(key);
  peer.send(call_of(1, kRoom));
  ASSERT_TRUE(peer.await(FrameKind::kPull));
  const auto begin = Clock::now();
  std::size_t at = 0;
  for (; Clock::now() < begin + kLimit * 5 / 4; ++at) {
    peer.send(body_at(1, at), 1);
    std::this_thread::sleep_for(kLimit / 32);
  }
  peer.send(body_at(1, at), kRoom - at);
  EXPECT_TRUE(peer.await(FrameKind::kReply));
  EXPECT_FALSE(peer.is_lost);
}

TEST_F(HostileTest, ACallerThatReadsSlowlyStays) {
  constexpr auto kLimit = 1600ms;
  start({.stall_limit = kLimit});
  reply_body.resize(std::size_t{64} << 20);  // more than it reads
  RawPeer peer(listener->address());
  peer.introduce(key);
  Frame call = call_of(1, 0);
  call.sink_bytes = reply_body.size();
  peer.send(call);
  while (handler.handled == 0) std::this_thread::yield();
  run([&] { handler.kept.front().reply({}, reply_body); });
  const auto begin = Clock::now();
  while (Clock::now() < begin + kLimit * 5 / 4) {
    peer.step();
    std::this_thread::sleep_for(kLimit / 32);
  }
  EXPECT_FALSE(peer.is_lost);
  EXPECT_EQ(handler.disconnections, 0);
}

// ---------------------------------------------------------------- the other way round

/// An address that nobody else on this host has while the socket lives: bound, but not listening.
class ReservedAddress {
 public:
  ReservedAddress() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto any = internal::resolve({"tcp:127.0.0.1:0"});
    sockaddr_storage bound{};
    socklen_t length = sizeof(bound);
    if (!any.is_ok() || ::bind(socket_.get(), any->get(), any->length) != 0 ||
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
      throw std::runtime_error("no free loopback port");
    }
    address_ = internal::to_address(bound);
  }
  [[nodiscard]] const Address& get() const { return address_; }

 private:
  Descriptor socket_;
  Address address_;
};

/// A listener that lets callers in, asks for the bodies of their calls, and then says nothing.
class SilentListener {
 public:
  SilentListener() : handshake_(key, kProtocolVersion) {
    auto made = internal::RingWorker::create([this](const Frame& frame, std::span<const std::byte> payload,
                                                    internal::Link* from) { take(frame, payload, *from); },
                                             *runtime::system_runtime().clock);
    EXPECT_THAT(made, IsOk());
    worker_ = std::move(*made);
    const Status bound = worker_->listen(internal::ring_name(address), [](const auto&) { return true; });
    if (!bound.is_ok()) throw std::runtime_error(std::string(bound.message()));
  }

  /// Takes in what there is, for as long as the thread is there.
  std::jthread serve() {
    return std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (!step()) std::this_thread::yield();
      }
    });
  }
  /// Takes in what there is, once.
  bool step() { return worker_->progress(); }
  void reply() {
    Frame frame;
    frame.kind = FrameKind::kReply;
    frame.call = last_call_;
    link_->send(frame);
  }

  const Key key = Key::random();
  const ReservedAddress reserved;  // shards of this test run side by side
  const Address address = reserved.get();
  std::atomic<int> proofs = 0;
  std::atomic<int> calls = 0;
  std::atomic<int> asked = 0;
  std::atomic<int> cancelled = 0;
  std::atomic<std::size_t> inline_bytes = 0;  // of bodies, in the frames of their calls
  std::atomic<std::size_t> body_bytes = 0;    // in frames of their own

 private:
  void take(const Frame& frame, std::span<const std::byte> payload, internal::Link& from) {
    Frame answer;
    if (frame.kind == FrameKind::kHello) {
      answer.kind = FrameKind::kChallenge;
      from.send(answer, *handshake_.challenge(payload));
    } else if (frame.kind == FrameKind::kProof) {
      EXPECT_THAT(handshake_.accept(payload), IsOk());
      answer.kind = FrameKind::kWelcome;
      from.send(answer);
      from.set_session(handshake_.sessions().to_caller);
      ++proofs;
    } else if (frame.kind == FrameKind::kCall && payload.size() - frame.head_bytes < frame.number) {
      answer.kind = FrameKind::kPull;
      answer.call = frame.call;
      from.send(answer);
    }
    if (frame.kind == FrameKind::kCall) {
      ++calls;
      inline_bytes += payload.size() - frame.head_bytes;
      last_call_ = frame.call;
      link_ = &from;
    }
    body_bytes += frame.kind == FrameKind::kBody ? payload.size() : 0;
    asked += frame.kind == FrameKind::kAsk ? 1 : 0;
    cancelled += frame.kind == FrameKind::kCancel ? 1 : 0;
  }

  internal::ListenerHandshake handshake_;
  std::unique_ptr<internal::RingWorker> worker_;
  internal::Link* link_ = nullptr;  // of the last call
  std::uint64_t last_call_ = 0;
};

class SilenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::jthread serving = server.serve();
    auto made = system_network().make_caller(server.address, runtime::system_runtime());
    ASSERT_THAT(made, IsOk());
    caller = std::move(*made);
    connection = caller->connect(server.address, server.key, Clock::now() + kHostileLong);
    // Established: the server knows the peer.
    const auto until = Clock::now() + kHostileLong;
    while (server.proofs == 0 && Clock::now() < until) caller->wait(Clock::now() + 1ms);
    ASSERT_GT(server.proofs, 0);
    caller->wait(Clock::now() + 1ms);
  }
  void call(Clock::duration patience, Bytes head = {}) {
    connection->call({std::move(head),
                      body,
                      {},
                      Clock::now() + patience,
                      [this](Result<Reply> reply) { result = std::move(reply); },
                      patience});
  }

  Bytes body;  // outlives the connection, which reads it
  SilentListener server;
  std::unique_ptr<Caller> caller;
  std::unique_ptr<Connection> connection;
  std::optional<Result<Reply>> result;
};

TEST_F(SilenceTest, AServerThatGivesNoSignOfLifeIsNotWaitedFor) {
  const std::jthread serving = server.serve();
  call(100ms);
  const auto until = Clock::now() + kHostileLong;
  while (!result && Clock::now() < until) caller->wait(until);
  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(*result, StatusIs(ErrorCode::kTimedOut, HasSubstr("no sign of life for 100 ms")));
  while (server.cancelled == 0 && Clock::now() < until) caller->progress();
  EXPECT_EQ(server.calls, 1);
  EXPECT_EQ(server.asked, 1);
  EXPECT_EQ(server.cancelled, 1);
}

// The server says nothing for several times the patience of the call, but reads its body all the time.  One thread is
// both ends: every turn moves some bytes, however slow the machine is.
TEST_F(SilenceTest, AServerThatReadsABodySlowlyIsWaitedFor) {
  constexpr auto kPatience = 64ms;
  constexpr int kTurnsWithinPatience = 8;
  body.resize(std::size_t{16} << 20);
  call(kPatience);
  const auto end = Clock::now() + 3 * kPatience;
  for (int turn = 0; Clock::now() < end || turn < kTurnsWithinPatience; ++turn) {
    server.step();
    const auto next = Clock::now() + kPatience / kTurnsWithinPatience;
    while (Clock::now() < next) caller->wait(next);
    ASSERT_FALSE(result.has_value()) << result->status().message();
  }
  ASSERT_LT(server.body_bytes, body.size()) << "nothing was left to be slow with";
  const auto until = Clock::now() + kHostileLong;
  while (server.body_bytes < body.size() && Clock::now() < until) {
    server.step();
    caller->progress();
  }
  server.reply();
  while (!result && Clock::now() < until) caller->progress();
  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(*result, IsOk());
}

// What is sent is all in the call, so the answer to it is the end: one round trip.
TEST_F(SilenceTest, ABodyOf64KiBTravelsInItsCall) {
  const auto until = Clock::now() + kHostileLong;
  body.resize(std::size_t{64} * 1024);
  call(kHostileLong, Bytes(8 * 1024));
  while (server.calls == 0 && Clock::now() < until) {
    server.step();
    caller->progress();
  }
  EXPECT_EQ(server.inline_bytes, body.size());
  server.reply();
  while (!result && Clock::now() < until) caller->progress();
  ASSERT_TRUE(result.has_value());
  EXPECT_THAT(*result, IsOk());
  EXPECT_EQ(server.body_bytes, 0u);
}

TEST_F(SilenceTest, ALongerBodyIsAskedFor) {
  const auto until = Clock::now() + kHostileLong;
  body.resize(std::size_t{80} * 1024);
  call(kHostileLong);
  while (server.body_bytes < body.size() && Clock::now() < until) {
    server.step();
    caller->progress();
  }
  EXPECT_EQ(server.inline_bytes, 0u);
  EXPECT_EQ(server.body_bytes, body.size());
  server.reply();
  while (!result && Clock::now() < until) caller->progress();
  ASSERT_TRUE(result.has_value());
}

// ---------------------------------------------------------------- rings that sleep

/// Two workers and a link between them; they only move when told to.
class WakeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = internal::RingWorker::create([this](const Frame&, std::span<const std::byte> payload,
                                                    const internal::Link*) { received_bytes += payload.size(); },
                                             *runtime::system_runtime().clock);
    ASSERT_THAT(made, IsOk());
    reader = std::move(*made);
    made = internal::RingWorker::create({}, *runtime::system_runtime().clock);
    ASSERT_THAT(made, IsOk());
    writer = std::move(*made);
    const std::string name = concat("weir-wake-test-", ::getpid());
    bool has_come = false;
    ASSERT_THAT(reader->listen(name, [&](const auto&) { return has_come = true; }), IsOk());
    link = writer->connect(name).link;
    ASSERT_NE(link, nullptr);
    while (!has_come) reader->progress();
    reader->arm();  // as after a sleep: the memory is there, too
    reader->progress();
  }
  static void settle(internal::RingWorker& worker) {
    // Sockets are looked at after a sleep.
    for (int i = 0; i < 3 || worker.arm() == Clock::duration::zero(); ++i) worker.progress();
    worker.arm();
  }
  static bool is_woken(const internal::RingWorker& worker, std::chrono::milliseconds timeout) {
    pollfd event{worker.event_fd(), POLLIN, 0};
    return ::poll(&event, 1, static_cast<int>(timeout.count())) == 1;
  }

  std::size_t received_bytes = 0;
  std::unique_ptr<internal::RingWorker> reader;
  std::unique_ptr<internal::RingWorker> writer;
  std::shared_ptr<internal::Link> link;
};

TEST_F(WakeTest, WhatIsSentWakesAReaderThatSleeps) {
  for (int round = 0; round < 3; ++round) {
    settle(*reader);
    ASSERT_FALSE(is_woken(*reader, 0ms));
    link->send({.kind = FrameKind::kBody}, Bytes(10));
    ASSERT_TRUE(is_woken(*reader, kHostileLong));
    reader->progress();
    EXPECT_EQ(received_bytes, 10u * static_cast<std::size_t>(round + 1));
  }
}

TEST_F(WakeTest, WhatIsReadWakesAWriterThatHadNoRoom) {
  const Bytes body(std::size_t{1} << 20);
  bool is_sent = false;
  static_cast<void>(link->send_body(1, body, [&] { is_sent = true; }));
  while (received_bytes < body.size()) {
    while (writer->progress()) {
    }
    if (!is_sent) {
      settle(*writer);
      ASSERT_FALSE(is_woken(*writer, 0ms)) << "the ring is full";
    }
    ASSERT_TRUE(reader->progress());
    ASSERT_TRUE(is_sent || is_woken(*writer, kHostileLong));
  }
  EXPECT_EQ(received_bytes, body.size());
}

// A short frame still has room where the next piece of a body has not: the body waits all the same.
TEST_F(WakeTest, AShortFrameDoesNotHideThatABodyHadNoRoom) {
  const Bytes body(std::size_t{1} << 20);
  static_cast<void>(link->send_body(1, body, {}));
  while (writer->progress()) {
  }
  settle(*writer);
  link->send({.kind = FrameKind::kBody}, Bytes(10));
  writer->arm();
  ASSERT_FALSE(is_woken(*writer, 0ms));
  ASSERT_TRUE(reader->progress());
  EXPECT_TRUE(is_woken(*writer, kHostileLong));
}

// ---------------------------------------------------------------- keys

TEST(KeyTest, FilesThatAreOpenToOthersAreRefused) {
  const std::string path = (std::filesystem::temp_directory_path() / concat("weir-key-test-", ::getpid())).string();
  const Key key = Key::random();
  ASSERT_THAT(key.save(path), IsOk());
  EXPECT_THAT(key.save(path), StatusIs(ErrorCode::kExists));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  const auto loaded = Key::load(path, Key::Holder::kServers);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(loaded->bytes, key.bytes);
  for (const mode_t open : {0640, 0620, 0610, 0604, 0602, 0601}) {
    ASSERT_EQ(::chmod(path.c_str(), open), 0);
    EXPECT_THAT(Key::load(path, Key::Holder::kServers), StatusIs(ErrorCode::kPermission, HasSubstr(path)))
        << std::oct << open;
  }
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  for (const std::size_t size : {std::size_t{0}, std::size_t{31}, std::size_t{33}}) {
    std::ofstream(path, std::ios::trunc) << std::string(size, 'x');
    EXPECT_THAT(Key::load(path, Key::Holder::kServers), StatusIs(ErrorCode::kCorrupt)) << size;
  }
  std::remove(path.c_str());
  EXPECT_THAT(Key::load(path, Key::Holder::kServers), StatusIs(ErrorCode::kNotFound));
}

TEST(KeyTest, OnlyRegularFilesAreRead) {
  const testing::TemporaryDirectory directory;
  const std::string pipe = directory.path() + "/key";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);  // opened for reading, it would wait for a writer
  const auto is_refused = [](const std::string& path) {
    return StatusIs(ErrorCode::kInvalidArgument, HasSubstr(concat("key ", path, " is not a regular file")));
  };
  EXPECT_THAT(Key::load(pipe, Key::Holder::kServers), is_refused(pipe));
  EXPECT_THAT(Key::load(directory.path(), Key::Holder::kServers), is_refused(directory.path()));
  EXPECT_THAT(Key::load("/dev/zero", Key::Holder::kServers), is_refused("/dev/zero"));
}

// ---------------------------------------------------------------- ports

TEST(PortTest, LoopbackAddressesOpenNone) {
  GuardedHandler handler;
  const auto before = testing::listening_sockets(::getpid());
  const auto listener = system_network().listen({"tcp:127.0.0.1:0"}, Key::random(), handler, {});
  ASSERT_THAT(listener, IsOk());
  EXPECT_EQ(testing::listening_sockets(::getpid()), before);
  // The number is part of the address all the same, and taken.
  EXPECT_THAT(system_network().listen((*listener)->address(), Key::random(), handler, {}),
              StatusIs(ErrorCode::kIoError, HasSubstr((*listener)->address().text)));
}

TEST(PortTest, SocketsListenOnTheirAddressOnly) {
  GuardedHandler handler;
  const auto before = testing::listening_sockets(::getpid());
  const auto listener =
      system_network().listen({"tcp:127.0.0.1:0"}, Key::random(), handler, {.opens_loopback_port = true});
  ASSERT_THAT(listener, IsOk());
  std::multiset<std::string> opened = testing::listening_sockets(::getpid());
  for (const std::string& one : before) opened.extract(one);
  EXPECT_FALSE(opened.empty());
  constexpr const char* kLoopback = "0100007F:";
  for (const std::string& one : opened) EXPECT_TRUE(one.starts_with(kLoopback)) << one;
}

}  // namespace
}  // namespace weir::net
