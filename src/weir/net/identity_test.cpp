// Who a listener takes a caller for: the user that the kernel or MUNGE names, or the owner of the key, and never the user
// that the caller claims to be.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/net/internal/munge.h>
#include <weir/net/internal/socket_peer_testing.h>
#include <weir/net/internal/transports.h>
#include <weir/net/testing/munge_daemon.h>

namespace weir::net {
namespace {

using namespace std::chrono_literals;
using internal::FrameKind;
using internal::Munge;
using internal::MungeDaemon;
using internal::Rings;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;
using ::testing::UnorderedElementsAre;

constexpr std::uint32_t kAnn = 12345;  // no user of this machine
constexpr std::uint32_t kStaff = 23456;
constexpr std::uint32_t kNobody = 65534;

/// A variable of the environment, as long as this exists.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

Result<Reply> call_once(Rings rings, const Address& address, const Key& key) {
  const auto caller = internal::make_process_caller(kProtocolVersion, rings, runtime::system_runtime());
  if (!caller.is_ok()) return caller.status();
  const auto connection = (*caller)->connect(address, key, Clock::now() + 20s);
  std::optional<Result<Reply>> result;
  connection->call({{}, {}, {}, Clock::now() + 20s, [&](Result<Reply> reply) { result = std::move(reply); }});
  while (!result) (*caller)->wait(Clock::now() + 1s);
  return std::move(*result);
}

/// A process of another user, which makes one call.  \pre No other thread runs.
class OtherUser {
 public:
  OtherUser(std::uint32_t uid, std::uint32_t gid, std::vector<gid_t> groups, Rings rings, const Key& key) {
    int ends[2][2];
    EXPECT_EQ(::pipe(ends[0]), 0);
    EXPECT_EQ(::pipe(ends[1]), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::setgroups(groups.size(), groups.data()) != 0 || ::setresgid(gid, gid, gid) != 0 ||
          ::setresuid(uid, uid, uid) != 0)
        ::_exit(1);
      char address[200]{};
      if (::read(ends[0][0], address, sizeof address - 1) <= 0) ::_exit(1);
      const Result<Reply> reply = call_once(rings, {address}, key);
      const std::string text =
          concat(static_cast<char>('0' + static_cast<int>(reply.status().code())), reply.status().message());
      ::_exit(::write(ends[1][1], text.data(), text.size()) > 0 ? 0 : 1);
    }
    to_ = Descriptor(ends[0][1]);
    from_ = Descriptor(ends[1][0]);
    ::close(ends[0][0]);
    ::close(ends[1][1]);
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;
  ~OtherUser() {
    to_.reset();
    ::waitpid(process_, nullptr, 0);
  }
  Status call(const Address& address) {
    EXPECT_GT(::write(to_.get(), address.text.data(), address.text.size()), 0);
    char text[2000]{};
    const ssize_t got = ::read(from_.get(), text, sizeof text - 1);
    if (got <= 0) return {ErrorCode::kCorrupt, "the other process has failed"};
    const auto code = static_cast<ErrorCode>(text[0] - '0');
    return code == ErrorCode::kOk ? Status::ok() : Status(code, text + 1);
  }

 private:
  pid_t process_ = 0;
  Descriptor to_;
  Descriptor from_;
};

class IdentityTest : public ::testing::Test {
 protected:
  class Recorder final : public Handler {
   public:
    void handle(Request request) override {
      {
        const std::lock_guard lock(mutex);
        last = request.identity();
      }
      request.reply({});
    }
    std::mutex mutex;
    Identity last;
  };

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as other users";
  }
  void start(ListenOptions options = {}) {
    options.opens_loopback_port = true;
    auto made = system_network().listen({"tcp:127.0.0.1:0"}, secret_, handler_, options);
    ASSERT_THAT(made, IsOk());
    listener_ = std::move(*made);
    thread_ = std::thread([this] { listener_->run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    listener_->stop();
    thread_.join();
  }
  void TearDown() override { stop(); }
  [[nodiscard]] const Address& address() const { return listener_->address(); }
  [[nodiscard]] internal::SocketAddress socket() const { return *internal::resolve(address()); }
  Identity last() {
    const std::lock_guard lock(handler_.mutex);
    return handler_.last;
  }

  const Key secret_ = Key::random();
  const Key key_ = secret_.for_clients();
  Recorder handler_;
  std::unique_ptr<Listener> listener_;
  std::thread thread_;
};

// ---------------------------------------------------------------- within a host

TEST_F(IdentityTest, TheKernelVouchesForCallersThroughRings) {
  OtherUser ann(kAnn, kStaff, {7, 8}, Rings::kOn, key_);
  const Variable require("WEIR_MUNGE", "off");
  start();
  ASSERT_THAT(ann.call(address()), IsOk());
  const Identity identity = last();
  EXPECT_EQ(identity.uid, kAnn);
  EXPECT_EQ(identity.gid, kStaff);
  EXPECT_THAT(identity.groups, UnorderedElementsAre(7, 8));
  EXPECT_TRUE(identity.same_host());
  EXPECT_FALSE(identity.is_server);
}

TEST_F(IdentityTest, RootOfThisHostIsRoot) {
  start();
  ASSERT_THAT(call_once(Rings::kOn, address(), key_), IsOk());
  EXPECT_EQ(last().uid, 0u);
  ASSERT_THAT(call_once(Rings::kOn, address(), secret_), IsOk());
  EXPECT_TRUE(last().is_server);
}

// ---------------------------------------------------------------- by the key

TEST_F(IdentityTest, WithoutMungeCallersActAsTheOwnerOfTheKey) {
  OtherUser ann(kAnn, kStaff, {7, 8}, Rings::kOff, key_);
  const Variable off("WEIR_MUNGE", "off");
  start();
  EXPECT_EQ(listener_->admission().identifies, Admission::Identifies::kByKey);
  ASSERT_THAT(ann.call(address()), IsOk());
  const Identity owner = Identity::of_this_process();
  EXPECT_EQ(last().uid, owner.uid);
  EXPECT_EQ(last().gid, owner.gid);
  EXPECT_EQ(last().groups, owner.groups);
}

TEST_F(IdentityTest, AutoFallsBackToTheKeyIfTheDaemonIsMissing) {
  const Variable socket("WEIR_MUNGE_SOCKET", "/nonexistent/munge.socket");
  start();
  EXPECT_EQ(listener_->admission().identifies, Admission::Identifies::kByKey);
}

TEST_F(IdentityTest, RequireNeedsTheDaemon) {
  const Variable socket("WEIR_MUNGE_SOCKET", "/nonexistent/munge.socket");
  const Variable require("WEIR_MUNGE", "require");
  Recorder handler;
  EXPECT_THAT(
      system_network().listen({"tcp:127.0.0.1:0"}, secret_, handler, {.opens_loopback_port = true}),
      StatusIs(ErrorCode::kUnavailable, AllOf(HasSubstr("WEIR_MUNGE"), HasSubstr("/nonexistent/munge.socket"))));
}

TEST_F(IdentityTest, OtherValuesOfTheVariableAreRefused) {
  const Variable value("WEIR_MUNGE", "maybe");
  Recorder handler;
  EXPECT_THAT(system_network().listen({"tcp:127.0.0.1:0"}, secret_, handler, {.opens_loopback_port = true}),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("maybe")));
}

// ---------------------------------------------------------------- by MUNGE

class MungeTest : public IdentityTest {
 protected:
  void SetUp() override {
    IdentityTest::SetUp();
    if (!internal::has_munge()) GTEST_SKIP() << internal::kWhyNoMunge;
    daemon_.emplace();
    socket_.emplace("WEIR_MUNGE_SOCKET", daemon_->socket());
  }
  void TearDown() override {
    IdentityTest::TearDown();
    socket_.reset();
  }
  [[nodiscard]] static Munge munge() { return Munge(*runtime::system_runtime().settings); }
  /// How a caller ends that shows a credential made by `make`.
  FrameKind show(const internal::CallerHandshake::MakeCredential& make) {
    internal::SocketPeer peer(socket(), key_);
    (void)peer.prove(key_, make);
    if (!peer.await_one_of({FrameKind::kWelcome, FrameKind::kRefusal})) return FrameKind::kGoodbye;
    refusal_.assign(reinterpret_cast<const char*>(peer.last.data()), peer.last.size());
    return peer.ended_by;
  }

  std::optional<MungeDaemon> daemon_;
  std::optional<Variable> socket_;
  std::string refusal_;
};

TEST_F(MungeTest, NamesTheUser) {
  OtherUser ann(kAnn, kStaff, {7, 8}, Rings::kOff, key_);
  start();
  EXPECT_EQ(listener_->admission().identifies, Admission::Identifies::kByMunge);
  ASSERT_THAT(ann.call(address()), IsOk());
  const Identity identity = last();
  EXPECT_EQ(identity.uid, kAnn);
  EXPECT_EQ(identity.gid, kStaff);
  EXPECT_THAT(identity.groups, IsEmpty())
      << "this host knows no user of that number, and what the caller has is no matter";
  EXPECT_FALSE(identity.is_server);
}

TEST_F(MungeTest, GroupsAreThoseThatTheListenersHostKnows) {
  EXPECT_THAT(internal::groups_of(0, 0), ::testing::Contains(0u));
  EXPECT_THAT(internal::groups_of(kAnn, kStaff), IsEmpty());
}

TEST_F(MungeTest, RootOfAnotherHostIsNobody) {
  start();
  ASSERT_THAT(call_once(Rings::kOff, address(), key_), IsOk());
  EXPECT_EQ(last().uid, kNobody);
  EXPECT_EQ(last().gid, kNobody);
  EXPECT_THAT(last().groups, IsEmpty());
  // Within this host, the kernel vouches for it, and servers vouch for each other by the secret.
  ASSERT_THAT(call_once(Rings::kOn, address(), key_), IsOk());
  EXPECT_EQ(last().uid, 0u);
  ASSERT_THAT(call_once(Rings::kOff, address(), secret_), IsOk());
  EXPECT_EQ(last().uid, ::geteuid());
  EXPECT_TRUE(last().is_server);
}

TEST_F(MungeTest, RootOfAnotherHostIsRootIfAllowed) {
  start({.squashes_root = false});
  ASSERT_THAT(call_once(Rings::kOff, address(), key_), IsOk());
  EXPECT_EQ(last().uid, 0u);
}

TEST_F(MungeTest, WorksOnEncryptedConnections) {
  const Variable always("WEIR_ENCRYPTION", "always");
  OtherUser ann(kAnn, kStaff, {}, Rings::kOff, key_);
  start();
  ASSERT_THAT(ann.call(address()), IsOk());
  EXPECT_EQ(last().uid, kAnn);
}

TEST_F(MungeTest, CallersWithoutMungeAreToldSo) {
  start();
  const Variable nowhere("WEIR_MUNGE_SOCKET", "/nonexistent/munge.socket");
  EXPECT_THAT(call_once(Rings::kOff, address(), key_),
              StatusIs(ErrorCode::kPermission, AllOf(HasSubstr("MUNGE"), HasSubstr("/nonexistent/munge.socket"))));
  socket_.emplace("WEIR_MUNGE_SOCKET", daemon_->socket());
}

TEST_F(MungeTest, CredentialsAreGoodOnce) {
  const Bytes payload(32, std::byte{5});
  const auto credential = munge().encode(payload);
  ASSERT_THAT(credential, IsOk());
  const auto user = munge().decode(*credential, payload);
  ASSERT_THAT(user, IsOk());
  EXPECT_EQ(user->uid, ::geteuid());
  EXPECT_EQ(user->gid, ::getegid());
  EXPECT_THAT(munge().decode(*credential, payload), StatusIs(ErrorCode::kPermission, HasSubstr("eplayed")));
  const auto other = munge().encode(payload);
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(munge().decode(*other, Bytes(32, std::byte{6})),
              StatusIs(ErrorCode::kPermission, HasSubstr("another connection")));
  const auto shorter = munge().encode(std::span(payload).first(31));
  ASSERT_THAT(shorter, IsOk());
  EXPECT_THAT(munge().decode(*shorter, payload), StatusIs(ErrorCode::kPermission));
}

TEST_F(MungeTest, CredentialsOfOtherConnectionsAreRefused) {
  start();
  // One that was made for another connection of the same caller, and seen on its way.
  std::string seen;
  EXPECT_EQ(show([&](std::span<const std::byte> binding) {
              Result<std::string> made = munge().encode(binding);
              if (made.is_ok()) seen = *made;
              return made;
            }),
            FrameKind::kWelcome);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(show([&](std::span<const std::byte>) -> Result<std::string> { return seen; }), FrameKind::kRefusal);
  EXPECT_THAT(refusal_, HasSubstr("eplayed"));
  // And one that the listener has not seen.
  const auto fresh = munge().encode(Bytes(32, std::byte{1}));
  ASSERT_THAT(fresh, IsOk());
  EXPECT_EQ(show([&](std::span<const std::byte>) -> Result<std::string> { return *fresh; }), FrameKind::kRefusal);
  EXPECT_THAT(refusal_, HasSubstr("another connection"));
}

/// A client that poses as the server, and passes on what its victim says.
class Impostor {
 public:
  Impostor(const Key& key, internal::SocketPeer& to_server) : to_server_(to_server) {
    auto made = internal::SocketWorker::create(
        [this](const internal::Frame& frame, std::span<const std::byte> payload, internal::Link* from) {
          pass_on(frame.kind, {payload.begin(), payload.end()}, *from);
        },
        {}, runtime::system_runtime());
    EXPECT_THAT(made, IsOk());
    worker_ = std::move(*made);
    const auto bound = worker_->listen(*internal::resolve({"tcp:127.0.0.1:0"}), key, [](const auto&) { return true; });
    EXPECT_THAT(bound, IsOk());
    address = internal::to_address(bound->storage);
  }
  void leave() { worker_.reset(); }
  void run_until_answered() {
    while (answer == FrameKind{}) {
      if (!worker_->progress()) std::this_thread::yield();
    }
  }

  Address address;
  FrameKind answer{};  ///< Of the server to the proof of the victim.

 private:
  void pass_on(FrameKind kind, Bytes payload, internal::Link& victim) {
    to_server_.send(kind, std::move(payload));
    EXPECT_TRUE(to_server_.await_one_of({FrameKind::kChallenge, FrameKind::kWelcome, FrameKind::kRefusal}));
    if (kind == FrameKind::kProof) answer = to_server_.ended_by;
    internal::Frame frame;
    frame.kind = to_server_.ended_by;
    victim.send(frame, to_server_.last);
    to_server_.came.clear();
  }

  internal::SocketPeer& to_server_;
  std::unique_ptr<internal::SocketWorker> worker_;
};

TEST_F(MungeTest, CredentialsCannotBePassedOn) {
  for (const char* encryption : {"auto", "always"}) {
    const Variable encrypted("WEIR_ENCRYPTION", encryption);
    start();
    internal::SocketPeer to_server(socket(), key_);
    Impostor impostor(key_, to_server);
    Status seen;
    std::thread victim([&] { seen = call_once(Rings::kOff, impostor.address, key_).status(); });
    impostor.run_until_answered();
    EXPECT_EQ(impostor.answer, FrameKind::kRefusal);
    const std::string refusal(reinterpret_cast<const char*>(to_server.last.data()), to_server.last.size());
    EXPECT_THAT(refusal, HasSubstr("another connection"));
    impostor.leave();
    victim.join();
    EXPECT_FALSE(seen.is_ok());
    stop();
  }
}

TEST_F(MungeTest, GarbageAndMissingCredentialsAreRefused) {
  start();
  const std::vector<std::string> garbage{"", "x", "MUNGE:", "MUNGE:AAAA:", std::string(4096, 'A'), "\xff\xfe"};
  for (const std::string& one : garbage) {
    EXPECT_EQ(show([&](std::span<const std::byte>) -> Result<std::string> { return one; }), FrameKind::kRefusal)
        << one.substr(0, 20);
  }
}

TEST_F(MungeTest, CredentialsOfAnotherDomainAreRefused) {
  const MungeDaemon other('x');
  start();
  EXPECT_EQ(show([&](std::span<const std::byte> binding) {
              const Variable there("WEIR_MUNGE_SOCKET", other.socket());
              return munge().encode(binding);
            }),
            FrameKind::kRefusal);
}

TEST_F(MungeTest, ADaemonThatEndsKeepsCallersOut) {
  start();
  EXPECT_EQ(show([&](std::span<const std::byte> binding) {
              Result<std::string> made = munge().encode(binding);
              daemon_.reset();
              return made;
            }),
            FrameKind::kRefusal);
}

}  // namespace
}  // namespace weir::net
