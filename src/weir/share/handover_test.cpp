#include <weir/share/handover.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/testing/signal_storm.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/base/text.h>
#include <weir/base/unix_socket.h>
#include <weir/share/handover_server.h>
#include <weir/share/life.h>
#include <weir/share/lifeline.h>

namespace weir::share {
namespace {

using testing::IsOk;
using testing::StatusIs;

constexpr std::size_t kBytes = 4096;

Result<Handed> fetch(const std::string& socket, const HandoverServer::Token& token) {
  return fetch_memory(socket, token, std::chrono::steady_clock::now() + std::chrono::seconds(2));
}

struct HandoverTest : ::testing::Test {
  HandoverTest() : memory(memfd_create("test", MFD_CLOEXEC)) { EXPECT_EQ(ftruncate(memory.get(), kBytes), 0); }
  void start(std::chrono::milliseconds lifetime = std::chrono::seconds(30)) {
    Result<std::unique_ptr<HandoverServer>> started = HandoverServer::start(runtime::system_runtime(), lifetime);
    ASSERT_THAT(started, IsOk());
    server = std::move(*started);
  }
  Descriptor memory;
  std::unique_ptr<HandoverServer> server;
};

TEST_F(HandoverTest, GivesTheSameMemoryOnce) {
  start();
  const auto token = server->offer(memory.get(), true, getuid());
  ASSERT_THAT(token, IsOk());
  const auto fetched = fetch(server->socket(), *token);
  ASSERT_THAT(fetched, IsOk());
  const int descriptor = fetched->memory.get();
  ASSERT_EQ(pwrite(descriptor, "x", 1, 5), 1);
  char seen = 0;
  ASSERT_EQ(pread(memory.get(), &seen, 1, 5), 1);
  EXPECT_EQ(seen, 'x');
  EXPECT_THAT(fetch(server->socket(), *token), StatusIs(ErrorCode::kPermission));
}

TEST_F(HandoverTest, SignalsOfTheProgramAreNoHindrance) {
  start();
  const testing::SignalStorm storm(100);
  int fetched = 0;
  while (storm.come() < 100) {
    const auto token = server->offer(memory.get(), true, getuid());
    ASSERT_THAT(token, IsOk());
    const auto handed = fetch(server->socket(), *token);
    ASSERT_THAT(handed, IsOk()) << "after " << fetched;
    ++fetched;
  }
}

TEST_F(HandoverTest, ProcessesOfOneUserOpenItThemselves) {
  start();
  const auto shown = Shown::of(memory.get());
  const auto life = Shown::of(server->lifeline());
  ASSERT_THAT(shown, IsOk());
  ASSERT_THAT(life, IsOk());
  const auto opened = open_memory(getpid(), *shown, *life);
  ASSERT_THAT(opened, IsOk());
  ASSERT_EQ(pwrite(opened->memory.get(), "x", 1, 5), 1);
  char seen = 0;
  ASSERT_EQ(pread(memory.get(), &seen, 1, 5), 1);
  EXPECT_EQ(seen, 'x');
  EXPECT_TRUE((*Lifeline::map(opened->lifeline.get()))->is_alive());
  EXPECT_EQ(pwrite(opened->lifeline.get(), "x", 1, 0), -1);
  // Numbers that have come to mean something else.
  EXPECT_THAT(open_memory(getpid(), {shown->number, shown->device, shown->file + 1}, *life),
              StatusIs(ErrorCode::kUnavailable));
  EXPECT_THAT(open_memory(getpid(), *shown, {shown->number, life->device, life->file}),
              StatusIs(ErrorCode::kUnavailable));
  EXPECT_THAT(open_memory(getpid(), {9999, shown->device, shown->file}, *life), StatusIs(ErrorCode::kUnavailable));
  EXPECT_THAT(open_memory(1 << 30, *shown, *life), StatusIs(ErrorCode::kUnavailable));
}

TEST_F(HandoverTest, ReadersCannotMapForWriting) {
  start();
  const auto token = server->offer(memory.get(), false, getuid());
  const auto fetched = fetch(server->socket(), *token);
  ASSERT_THAT(fetched, IsOk());
  const int descriptor = fetched->memory.get();
  void* readable = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, descriptor, 0);
  ASSERT_NE(readable, MAP_FAILED);
  munmap(readable, kBytes);
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), MAP_FAILED);
}

TEST_F(HandoverTest, LifelinesEndWithTheServer) {
  start();
  const auto fetched = fetch(server->socket(), *server->offer(memory.get(), true, getuid()));
  ASSERT_THAT(fetched, IsOk());
  const auto lifeline = Lifeline::map(fetched->lifeline.get());
  ASSERT_THAT(lifeline, IsOk());
  EXPECT_TRUE((*lifeline)->is_alive());
  EXPECT_TRUE((*lifeline)->is_of(fetched->lifeline.get()));
  EXPECT_FALSE((*lifeline)->is_of(fetched->memory.get()));
  // Nobody can keep a server alive that is not.
  EXPECT_EQ(pwrite(fetched->lifeline.get(), "x", 1, 0), -1);
  EXPECT_EQ(mmap(nullptr, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fetched->lifeline.get(), 0), MAP_FAILED);
  server->stop();
  EXPECT_FALSE((*lifeline)->is_alive());
}

// However the thread ends: here without a word.
TEST(LifeTest, EndsWithItsThread) {
  const auto life = Life::create();
  ASSERT_THAT(life, IsOk());
  const auto lifeline = Lifeline::map((*life)->descriptor());
  ASSERT_THAT(lifeline, IsOk());
  EXPECT_FALSE((*lifeline)->is_alive());
  bool was_alive = false;
  std::thread([&] {
    EXPECT_THAT((*life)->begin(), IsOk());
    was_alive = (*lifeline)->is_alive();
  }).join();
  EXPECT_TRUE(was_alive);
  EXPECT_FALSE((*lifeline)->is_alive());
}

// No code of the process runs any more: the kernel alone says it.
TEST(LifeTest, EndsWithAKilledProcess) {
  const auto life = Life::create();
  ASSERT_THAT(life, IsOk());
  const auto lifeline = Lifeline::map((*life)->descriptor());
  ASSERT_THAT(lifeline, IsOk());
  const pid_t child = fork();
  if (child == 0) {
    if ((*life)->begin().is_ok()) pause();
    _exit(1);
  }
  while (!(*lifeline)->is_alive()) ASSERT_EQ(waitpid(child, nullptr, WNOHANG), 0);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE((*lifeline)->is_alive());
}

TEST_F(HandoverTest, OtherUsersAndOtherTokensGetNothing) {
  start();
  const auto others = server->offer(memory.get(), true, getuid() + 1);
  EXPECT_THAT(fetch(server->socket(), *others), StatusIs(ErrorCode::kPermission));
  const auto mine = server->offer(memory.get(), true, getuid());
  std::vector<std::uint8_t> wrong = *mine;
  wrong.back() ^= 1;
  EXPECT_THAT(fetch(server->socket(), wrong), StatusIs(ErrorCode::kPermission));
  wrong.pop_back();
  EXPECT_THAT(fetch(server->socket(), wrong), StatusIs(ErrorCode::kPermission));
  const auto fetched = fetch(server->socket(), *mine);
  ASSERT_THAT(fetched, IsOk());
}

TEST_F(HandoverTest, TokensExpire) {
  start(std::chrono::milliseconds(0));
  const auto token = server->offer(memory.get(), true, getuid());
  EXPECT_THAT(fetch(server->socket(), *token), StatusIs(ErrorCode::kPermission));
}

TEST_F(HandoverTest, OnlySoManyOffersAreKept) {
  start();
  const auto first = server->offer(memory.get(), true, getuid());
  for (std::size_t i = 0; i < HandoverServer::kMostOffers; ++i)
    ASSERT_THAT(server->offer(memory.get(), true, getuid()), IsOk());
  EXPECT_THAT(fetch(server->socket(), *first), StatusIs(ErrorCode::kPermission));
}

// Processes that connect and say nothing.
TEST_F(HandoverTest, SilentOnesDoNotKeepOthersWaiting) {
  start();
  UnixAddress address;
  ASSERT_TRUE(make_abstract(server->socket(), address));
  std::vector<Descriptor> silent;
  for (int i = 0; i < 200; ++i) {
    silent.emplace_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(silent.back().get(), address.get(), address.bytes), 0);
  }
  const auto token = server->offer(memory.get(), true, getuid());
  ASSERT_THAT(token, IsOk());
  EXPECT_THAT(fetch_memory(server->socket(), *token, std::chrono::steady_clock::now() + std::chrono::seconds(20)),
              IsOk());
  pollfd poll_for{silent.front().get(), POLLIN, 0};
  EXPECT_EQ(poll(&poll_for, 1, 20'000), 1) << "it was dropped";
}

TEST_F(HandoverTest, AServerThatIsGoneIsUnavailable) {
  start();
  const std::string socket = server->socket();
  const auto token = server->offer(memory.get(), true, getuid());
  server.reset();
  EXPECT_THAT(fetch(socket, *token), StatusIs(ErrorCode::kUnavailable));
  EXPECT_THAT(fetch("", *token), StatusIs(ErrorCode::kInvalidArgument));
}

// The client goes on by message.
TEST_F(HandoverTest, ASocketThatAcceptsNobodyKeepsNobodyWaiting) {
  const HandoverServer::Token token(HandoverServer::kTokenBytes);
  const std::string name = concat("weir-handover-test-", getpid());
  UnixAddress address;
  ASSERT_TRUE(make_abstract(name, address));
  const Descriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), address.get(), address.bytes), 0);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  std::vector<Descriptor> queue;
  do {
    queue.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  } while (connect(queue.back().get(), address.get(), address.bytes) == 0);
  EXPECT_THAT(fetch(name, token), StatusIs(ErrorCode::kUnavailable));
}

// A lifeline that is a pipe without a writer.
TEST_F(HandoverTest, AServerThatShowsAPipeKeepsNobodyWaiting) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const Descriptor pipe(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto handed = open_memory(getpid(), *Shown::of(memory.get()), *Shown::of(pipe.get()));
  ASSERT_THAT(handed, IsOk());
  EXPECT_THAT(Lifeline::map(handed->lifeline.get()), StatusIs(ErrorCode::kCorrupt));
}

TEST_F(HandoverTest, ManyFetchAtOnce) {
  start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 50; ++round) {
        const auto token = server->offer(memory.get(), round % 2 == 0, getuid());
        ASSERT_THAT(token, IsOk());
        const auto fetched = fetch(server->socket(), *token);
        ASSERT_THAT(fetched, IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weir::share
