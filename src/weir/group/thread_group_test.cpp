#include <weir/group/thread_group.h>

#include <atomic>
#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/group/testing/conformance.h>
#include <weir/group/testing/run_ranks.h>

namespace weir::group {
namespace {

using testing::ConformanceCase;
using ::testing::HasSubstr;
using testing::run_ranks;
using weir::testing::IsOk;
using weir::testing::StatusIs;

class ThreadGroupConformanceTest : public ::testing::TestWithParam<std::tuple<ConformanceCase, int>> {};

TEST_P(ThreadGroupConformanceTest, Passes) {
  const auto& [one, ranks] = GetParam();
  run_ranks(ranks, [&one = one](const std::unique_ptr<Group>& group) { one.run(*group); });
}

INSTANTIATE_TEST_SUITE_P(All, ThreadGroupConformanceTest,
                         ::testing::Combine(::testing::ValuesIn(testing::kConformanceCases),
                                            ::testing::Values(1, 2, 3, 7)),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param).name) + "On" +
                                  std::to_string(std::get<1>(tested.param));
                         });

TEST(GroupTermsTest, WhereATermEndsCounts) {
  EXPECT_NE(hash_of({{"a", "xy"}, {"b", "z"}}), hash_of({{"a", "x"}, {"b", "yz"}}));
}

TEST(ThreadGroupTest, MissingRanksAreNamedAndLateOnesFail) {
  constexpr Limit kLimit{std::chrono::milliseconds(50), "TEST_LIMIT"};
  std::latch are_over(3);
  run_ranks(
      5,
      [&](const std::unique_ptr<Group>& group) {
        std::array<std::uint64_t, 1> words{};
        const bool is_late = group->rank() == 1 || group->rank() == 3;
        if (is_late) are_over.wait();
        EXPECT_THAT(group->greatest("call", words),
                    StatusIs(ErrorCode::kTimedOut,
                             "call: ranks 1,3 did not come to this collective call within 50 ms (TEST_LIMIT)"));
        EXPECT_TRUE(group->is_broken());
        EXPECT_THAT(
            group->gather("next", "text"),
            StatusIs(ErrorCode::kTimedOut, HasSubstr("next: an earlier call failed for good: call: ranks 1,3")));
        if (!is_late) are_over.count_down();
        group->leave("test");  // the others do not come any more
      },
      kLimit);
}

// Rounds follow each other closely: a rank that is slow to leave one must not see the next.
TEST(ThreadGroupTest, ManyRounds) {
  std::atomic<int> wrong{0};
  run_ranks(7, [&](const std::unique_ptr<Group>& group) {
    for (Offset round = 0; round < 2000; ++round) {
      const Result<Offset> sum = group->sum_below("test", round);
      const Result<Offset> value = group->value_of("test", static_cast<int>(round % 7), round + group->rank());
      if (!sum.is_ok() || *sum != round * group->rank() || !value.is_ok() || *value != round + round % 7) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace weir::group
