#include <weir/launch/child.h>

#include <chrono>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace weir::launch {
namespace {

TEST(RunChildTest, KillsWhatDoesNotListen) {
  ChildOptions options;
  options.deadline = std::chrono::steady_clock::now();
  options.grace = std::chrono::milliseconds(50);
  const auto end = run_child(options, [] {
    ::signal(SIGTERM, SIG_IGN);
    for (;;) ::pause();
    return 0;
  });
  ASSERT_TRUE(end.is_ok());
  EXPECT_TRUE(end->is_late);
  EXPECT_THAT(end->code, ::testing::AnyOf(128 + SIGKILL, 128 + SIGTERM));  // the first may come before it is ignored
}

}  // namespace
}  // namespace weir::launch
