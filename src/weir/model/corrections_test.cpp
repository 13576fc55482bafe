#include <weir/model/corrections.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::model {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::Ge;
using ::testing::Le;

constexpr Offset kBytes = Offset{1} << 20;

Corrections::Clock::time_point time_at(std::chrono::nanoseconds since_start) {
  return Corrections::Clock::time_point(std::chrono::seconds(1000)) + since_start;
}

TEST(CorrectionsTest, NothingMeasuredChangesNothing) {
  const Corrections corrections;
  EXPECT_EQ(corrections.ratio(Kind::kAloneRead, kBytes, time_at({})), 1);
  const auto factors = corrections.factors(Kind::kAloneRead, Kind::kTwoPhaseRead, kBytes, time_at({}));
  EXPECT_EQ(factors.first, 1);
  EXPECT_EQ(factors.second, 1);
}

RC_GTEST_PROP(CorrectionsPropertyTest, PredictionsConvergeOnTheTruth, ()) {
  // True time = predicted time * truth * noise, for accesses of one size.
  const double truth = std::exp(*rc::gen::inRange(-200, 201) / 100.0);  // 0.135 to 7.4
  const Offset bytes = *rc::gen::inRange<Offset>(0, Offset{1} << 40);
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  std::lognormal_distribution<double> noise(0, 0.2);
  Corrections corrections;
  for (int i = 0; i < 100; ++i) {
    const double predicted = 1e-3;
    corrections.note(Kind::kAloneWrite, bytes, predicted, predicted * truth * noise(random), time_at(milliseconds(i)));
  }
  const double ratio = corrections.ratio(Kind::kAloneWrite, bytes, time_at(milliseconds(100)));
  RC_ASSERT(std::abs(std::log(ratio / truth)) < 0.35);  // the noise of the last dozen
}

RC_GTEST_PROP(CorrectionsPropertyTest, RatiosStayWithinBounds, ()) {
  Corrections corrections;
  const int count = *rc::gen::inRange(0, 50);
  for (int i = 0; i < count; ++i) {
    const double measured = std::exp(*rc::gen::inRange(-40, 40));
    corrections.note(Kind::kAloneRead, kBytes, 1e-3, measured,
                     time_at(std::chrono::seconds(*rc::gen::inRange(-1000, 1000))));
    const auto now = time_at(std::chrono::seconds(*rc::gen::inRange(-1000, 1000)));
    const double ratio = corrections.ratio(Kind::kAloneRead, kBytes, now);
    RC_ASSERT(ratio >= 1 / Corrections::kMost && ratio <= Corrections::kMost);
    const auto factors = corrections.factors(Kind::kAloneRead, Kind::kTwoPhaseRead, kBytes, now);
    RC_ASSERT(factors.second >= 1 / Corrections::kMost && factors.second <= Corrections::kMost);
  }
}

TEST(CorrectionsTest, KindsAndSizesAreApart) {
  Corrections corrections;
  for (int i = 0; i < 20; ++i) corrections.note(Kind::kAloneRead, kBytes, 1, 4, time_at({}));
  EXPECT_GT(corrections.ratio(Kind::kAloneRead, kBytes, time_at({})), 3);
  EXPECT_GT(corrections.ratio(Kind::kAloneRead, kBytes + kBytes / 2, time_at({})), 3);
  EXPECT_EQ(corrections.ratio(Kind::kAloneRead, kBytes * 16, time_at({})), 1);
  EXPECT_EQ(corrections.ratio(Kind::kAloneRead, 0, time_at({})), 1);
  for (const Kind other : {Kind::kAloneWrite, Kind::kTwoPhaseRead, Kind::kTwoPhaseWrite}) {
    EXPECT_EQ(corrections.ratio(other, kBytes, time_at({})), 1);
  }
  corrections.note(Kind::kTwoPhaseWrite, kMaxBytes, 1, 2, time_at({}));
  EXPECT_GT(corrections.ratio(Kind::kTwoPhaseWrite, kMaxBytes, time_at({})), 1);
}

TEST(CorrectionsTest, TimesThatCannotBeAreIgnored) {
  Corrections corrections;
  for (const double bad : {0.0, -1.0, std::nan("")}) {
    corrections.note(Kind::kAloneRead, kBytes, bad, 1, time_at({}));
    corrections.note(Kind::kAloneRead, kBytes, 1, bad, time_at({}));
  }
  EXPECT_EQ(corrections.ratio(Kind::kAloneRead, kBytes, time_at({})), 1);
}

TEST(CorrectionsTest, RatiosFade) {
  Corrections corrections;
  for (int i = 0; i < 100; ++i) corrections.note(Kind::kAloneRead, kBytes, 1, 4, time_at({}));
  EXPECT_THAT(corrections.ratio(Kind::kAloneRead, kBytes, time_at({})), DoubleNear(4, 0.01));
  EXPECT_THAT(corrections.ratio(Kind::kAloneRead, kBytes, time_at(Corrections::kHalfLife)), DoubleNear(2, 0.01));
  EXPECT_THAT(corrections.ratio(Kind::kAloneRead, kBytes, time_at(1000 * Corrections::kHalfLife)), DoubleNear(1, 0.01));
  // What was forgotten is learned again as fast as at first.
  corrections.note(Kind::kAloneRead, kBytes, 1, 4, time_at(1000 * Corrections::kHalfLife));
  EXPECT_THAT(corrections.ratio(Kind::kAloneRead, kBytes, time_at(1000 * Corrections::kHalfLife)), DoubleNear(2, 0.1));
}

TEST(CorrectionsTest, AMethodThatWasNotMeasuredSharesTheMachine) {
  Corrections corrections;
  for (int i = 0; i < 100; ++i) corrections.note(Kind::kAloneRead, kBytes, 1, 4, time_at({}));
  const auto factors = corrections.factors(Kind::kAloneRead, Kind::kTwoPhaseRead, kBytes, time_at({}));
  EXPECT_THAT(factors.first, DoubleNear(4, 0.01));
  EXPECT_THAT(factors.second, DoubleNear(2, 0.01));
}

// A choice between two methods whose predictions are wrong ends with the one that is faster in truth.
TEST(CorrectionsTest, ChoicesFollowMeasuredTimes) {
  struct Case {
    double predicted[2];
    double measured[2];
    int best;
  };
  for (const Case& one : {Case{{1, 1.2}, {5, 1.2}, 1}, Case{{1.2, 1}, {1.2, 5}, 0}, Case{{1, 3}, {1, 3}, 0},
                          Case{{1, 1.1}, {4, 4.4}, 0}, Case{{1, 1.5}, {6, 2}, 1}}) {
    Corrections corrections;
    constexpr Kind kKinds[] = {Kind::kAloneRead, Kind::kTwoPhaseRead};
    int chosen = 0;
    for (int i = 0; i < 200; ++i) {
      const auto now = time_at(milliseconds(i));
      const auto factors = corrections.factors(kKinds[0], kKinds[1], kBytes, now);
      chosen = factors.first * one.predicted[0] <= factors.second * one.predicted[1] ? 0 : 1;
      corrections.note(kKinds[chosen], kBytes, one.predicted[chosen], one.measured[chosen], now);
    }
    EXPECT_EQ(chosen, one.best) << one.predicted[0] << ' ' << one.measured[0];
  }
}

TEST(CorrectionsTest, ThreadsNoteAtTheSameTime) {
  Corrections corrections;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        corrections.note(Kind::kAloneRead, kBytes, 1, 2, time_at({}));
        EXPECT_THAT(corrections.ratio(Kind::kAloneRead, kBytes, time_at({})), AllOf(Ge(1.0), Le(2.001)));
      }
    });
  }
  threads.clear();
  EXPECT_THAT(corrections.ratio(Kind::kAloneRead, kBytes, time_at({})), DoubleNear(2, 0.01));
}

}  // namespace
}  // namespace weir::model
