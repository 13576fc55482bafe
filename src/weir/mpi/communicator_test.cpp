#include <weir/mpi/communicator.h>

#include <array>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/group/testing/conformance.h>

namespace weir::mpi {
namespace {

using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

using Clock = std::chrono::steady_clock;

class CommunicatorConformanceTest : public ::testing::TestWithParam<group::testing::ConformanceCase> {};

TEST_P(CommunicatorConformanceTest, Passes) {
  Communicator group = Communicator::duplicate(MPI_COMM_WORLD, "test").value();
  GetParam().run(group);
}

INSTANTIATE_TEST_SUITE_P(All, CommunicatorConformanceTest, ::testing::ValuesIn(group::testing::kConformanceCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(CommunicatorTest, NeedsACommunicatorOfOneGroup) {
  EXPECT_THAT(Communicator::duplicate(MPI_COMM_NULL, "test"),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("test: the communicator is MPI_COMM_NULL")));
}

TEST(CommunicatorTest, ErrorsOfMpiNameTheCall) {
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_THAT(await("test", MPI_ERR_RANK, request), StatusIs(ErrorCode::kIoError, HasSubstr("test: ")));
  EXPECT_THAT(await("test", MPI_SUCCESS, request), IsOk());
}

// ---------------------------------------------------------------- with a limit

constexpr std::chrono::milliseconds kQuiet{50};

// The limit is long beside `kQuiet`: ranks on a busy machine must still tell in time that they wait.
Communicator limited(std::chrono::seconds limit) {
  return Communicator::duplicate(MPI_COMM_WORLD, "test", {.limit = {limit, "WEIR_LIMIT"}, .quiet = kQuiet}).value();
}

TEST(LimitedCommunicatorTest, FreesItsCommunicatorWhenAllLeave) {
  Communicator group = limited(std::chrono::seconds(60));
  // Long enough for the others to tell that they wait.
  if (group.rank() == 0) std::this_thread::sleep_for(4 * kQuiet);
  std::array<std::uint64_t, 1> words{};
  ASSERT_THAT(group.greatest("test", words), IsOk());
  group.leave("test");
  EXPECT_EQ(group.comm(), MPI_COMM_NULL);
}

// Each rank tells the others at every chance that it waits.  What would arrive late is lost to the next communicator,
// or taken for its messages.
TEST(LimitedCommunicatorTest, AllNoticesArriveBeforeTheCommunicatorIsFreed) {
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    Communicator group = Communicator::duplicate(MPI_COMM_WORLD, "test",
                                                 {.limit = {std::chrono::seconds(60), "WEIR_LIMIT"},
                                                  .quiet = std::chrono::milliseconds(0),
                                                  .awake = Backoff::kMessages})
                             .value();
    if (group.size() == 1) GTEST_SKIP() << "needs two ranks";
    for (int call = 0; call < 3; ++call) {
      if ((round + call) % group.size() == group.rank()) {
        std::this_thread::sleep_for(std::chrono::microseconds(round % 20 * 10));
      }
      std::array<std::uint64_t, 7> words{};
      ASSERT_THAT(group.greatest("test", words), IsOk()) << "round " << round;
    }
    group.leave("test");
    ASSERT_EQ(group.comm(), MPI_COMM_NULL);
  }
}

TEST(LimitedCommunicatorTest, AMissingRankIsNamedInTime) {
  constexpr std::chrono::seconds kLimit{3};
  Communicator group = limited(kLimit);
  if (group.size() == 1) GTEST_SKIP() << "needs two ranks";
  MPI_Barrier(MPI_COMM_WORLD);
  const Clock::time_point start = Clock::now();
  std::array<std::uint64_t, 1> words{};
  if (group.rank() != 1) {
    EXPECT_THAT(
        group.greatest("call", words),
        StatusIs(ErrorCode::kTimedOut, "call: rank 1 did not come to this collective call within 3 s (WEIR_LIMIT)"));
    EXPECT_GE(Clock::now() - start, kLimit);
    EXPECT_LT(Clock::now() - start, 20 * kLimit);
    EXPECT_TRUE(group.is_broken());
    EXPECT_THAT(group.greatest("next", words),
                StatusIs(ErrorCode::kTimedOut, HasSubstr("next: an earlier call failed for good: call: rank 1")));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (group.rank() == 1) static_cast<void>(group.greatest("call", words));  // so that MPI is done with the call
  group.leave("test");                                                      // the others do not come any more
}

TEST(LimitedCommunicatorTest, EachRequestCanHaveALimit) {
  int word = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_EQ(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_SELF, &request), MPI_SUCCESS);
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(50);
  const Status status = await("test", MPI_SUCCESS, request, {.is_too_long = [&] { return Clock::now() > deadline; }});
  EXPECT_THAT(status, StatusIs(ErrorCode::kTimedOut, HasSubstr("test")));
  EXPECT_GT(Clock::now(), deadline);
  MPI_Cancel(&request);
  MPI_Request_free(&request);
}

}  // namespace
}  // namespace weir::mpi
