#include <weir/runtime/runtime.h>

#include <atomic>
#include <csignal>
#include <set>

#include <gtest/gtest.h>

namespace weir::runtime {
namespace {

constexpr std::chrono::milliseconds kMoment{1};

TEST(SystemRuntimeTest, TimeDoesNotGoBack) {
  const Runtime runtime = system_runtime();
  const TimePoint first = runtime.clock->now();
  EXPECT_GE(runtime.clock->now(), first);
  EXPECT_GT(runtime.clock->wall_ns(), 1'700'000'000'000'000'000);
}

TEST(SystemRuntimeTest, SleepsUntilTheTime) {
  const Runtime runtime = system_runtime();
  const TimePoint time = runtime.clock->now() + kMoment;
  runtime.executor->sleep_until(time);
  EXPECT_GE(runtime.clock->now(), time);
}

TEST(SystemRuntimeTest, IdsDiffer) {
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 100; ++i) ids.insert(system_runtime().random->id());
  EXPECT_EQ(ids.size(), 100U);
  EXPECT_FALSE(ids.contains(0));
}

TEST(SystemRuntimeTest, EventThatWasSetEndsOneWait) {
  const Runtime runtime = system_runtime();
  const auto event = runtime.executor->make_event();
  event->set();
  EXPECT_TRUE(event->wait_until(runtime.clock->now()));
  EXPECT_FALSE(event->wait_until(runtime.clock->now() + kMoment));
}

TEST(SystemRuntimeTest, EventWakesThreadThatWaits) {
  const Runtime runtime = system_runtime();
  const auto event = runtime.executor->make_event();
  const auto answer = runtime.executor->make_event();
  std::atomic<bool> is_woken = false;
  const auto thread = runtime.executor->start("waits", [&] {
    event->wait();
    is_woken = true;
    answer->set();
  });
  ASSERT_NE(thread, nullptr);
  event->set();
  answer->wait();
  EXPECT_TRUE(is_woken);
}

TEST(SystemRuntimeTest, ThreadsLeaveSignalsToTheProgram) {
  sigset_t inside;
  ::sigemptyset(&inside);
  system_runtime().executor->start("looks", [&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &inside); });
  EXPECT_EQ(sigismember(&inside, SIGTERM), 1);
  sigset_t here;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &here);
  EXPECT_EQ(sigismember(&here, SIGTERM), 0);
}

TEST(SystemRuntimeTest, SettingsAreTheEnvironment) {
  ::setenv("RUNTIME_TEST_VALUE", "value", 1);
  EXPECT_EQ(system_runtime().settings->get("RUNTIME_TEST_VALUE"), "value");
  ::unsetenv("RUNTIME_TEST_VALUE");
  EXPECT_EQ(system_runtime().settings->get("RUNTIME_TEST_VALUE"), "");
}

}  // namespace
}  // namespace weir::runtime
