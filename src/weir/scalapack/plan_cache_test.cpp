#include <weir/scalapack/internal/plan_cache.h>

#include <vector>

#include <mpi.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir::scalapack::internal {
namespace {

using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

// A communicator with a cache that goes with it.
class SessionTest : public ::testing::Test {
 protected:
  static constexpr int kSize = 24;

  void SetUp() override {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &ranks_);
    a_.resize(kSize * kSize, rank_);
    b_.resize(kSize * kSize, -1);
  }
  void TearDown() override { MPI_Comm_free(&comm_); }

  PlanCache& cache() { return **PlanCache::of(comm_); }

  // Columns in blocks of `from`, then of `to`, on all processes.
  [[nodiscard]] CopyArguments columns(int from, int to) const {
    CopyArguments call{4, 'i', kSize, kSize, {}, {}};
    call.a = {kSize, kSize, kSize, from, 0, 0, 1, 1, 1, ranks_, kSize, 0, rank_};
    call.b = {kSize, kSize, kSize, to, 0, 0, 1, 1, 1, ranks_, kSize, 0, rank_};
    return call;
  }

  void expect_done(const CopyArguments& call) {
    const Result<Outcome> outcome = cache().run(call, a_.data(), b_.data());
    ASSERT_THAT(outcome, IsOk());
    EXPECT_EQ(*outcome, Outcome::kDone);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int ranks_ = 1;
  std::vector<std::int32_t> a_;
  std::vector<std::int32_t> b_;
};

TEST_F(SessionTest, PlansACallOnce) {
  for (int turn = 0; turn < 3; ++turn) {
    expect_done(columns(2, 3));
    expect_done(columns(1, 5));
  }
  EXPECT_EQ(cache().plans_made(), 2u);
  for (int j = 0, local = 0; j < kSize; ++j) {
    if (j / 5 % ranks_ != rank_) continue;
    for (int i = 0; i < kSize; ++i)
      ASSERT_EQ(b_[static_cast<std::size_t>(local * kSize + i)], j % ranks_) << i << ", " << j;
    ++local;
  }
}

TEST_F(SessionTest, ForgetsTheOldestPlan) {
  for (int block = 1; block <= static_cast<int>(PlanCache::kPlans) + 1; ++block) expect_done(columns(block, 1));
  expect_done(columns(2, 1));
  EXPECT_EQ(cache().plans_made(), PlanCache::kPlans + 1);
  expect_done(columns(1, 1));
  EXPECT_EQ(cache().plans_made(), PlanCache::kPlans + 2);
}

// Everyone learns of the mistake of one, and the next call works.
TEST_F(SessionTest, ErrorsReachEveryProcess) {
  CopyArguments wrong = columns(2, 3);
  if (rank_ == ranks_ - 1) wrong.b.leading_dimension = kSize - 1;
  EXPECT_THAT(cache().run(wrong, a_.data(), b_.data()), StatusIs(ErrorCode::kInvalidArgument));
  if (ranks_ > 1) {
    wrong = columns(2, 3);
    if (rank_ == 0) wrong.n = kSize - 1;
    const auto outcome = cache().run(wrong, a_.data(), b_.data());
    ASSERT_THAT(outcome, StatusIs(ErrorCode::kInvalidArgument));
    EXPECT_THAT(outcome.status().message(),
                HasSubstr("pigemr2d: N differs between processes: 23 on rank 0, 24 on rank"));
  }
  EXPECT_EQ(cache().plans_made(), 0u);
  expect_done(columns(2, 3));
}

// Numbers of rows and columns whose product leaves the range of offsets: nothing is touched.
TEST_F(SessionTest, PassesOnWhatIsBeyondTheAlgebra) {
  constexpr int kHuge = 2147483647;
  CopyArguments call{16, 'z', 1, 1, {}, {}};
  call.a = {kHuge, kHuge, kHuge, kHuge, 0, 0, kHuge, kHuge, 1, ranks_, kHuge, 0, rank_};
  call.b = {1, 1, 1, 1, 0, 0, 1, 1, 1, ranks_, 1, 0, rank_};
  const Result<Outcome> outcome = cache().run(call, a_.data(), b_.data());
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(*outcome, Outcome::kPassOn);
  EXPECT_EQ(b_.front(), -1);
}

TEST(SegmentTest, BuffersStayBounded) {
  for (int processes = 1; processes <= 4096; processes *= 2) {
    const Offset segment = segment_bytes(processes);
    EXPECT_EQ(segment % 64, 0);
    EXPECT_EQ(segment / 64 % 2, 1) << "odd number of cache lines";
    EXPECT_LE(4 * segment * processes, Offset{160} << 20) << processes;
  }
}

}  // namespace
}  // namespace weir::scalapack::internal
