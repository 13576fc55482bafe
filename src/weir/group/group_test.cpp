#include <weir/group/group.h>

#include <array>
#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>

namespace weir::group {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using weir::testing::IsOk;
using weir::testing::StatusIs;

using Clock = std::chrono::steady_clock;

class GroupTest : public ::testing::Test {
 protected:
  [[nodiscard]] int last() const { return group_.size() - 1; }

  Group group_ = Group::duplicate(MPI_COMM_WORLD, "test").value();
};

TEST_F(GroupTest, EqualValuesAgree) {
  const std::uint64_t hash = hash_of({{"path", "/x"}, {"mode", "1"}});
  std::array<std::uint64_t, 4> words{hash, ~hash, static_cast<std::uint64_t>(group_.rank()), group_.blame(false)};
  ASSERT_THAT(group_.greatest("test", words), IsOk());
  EXPECT_EQ(words[0], ~words[1]);
  EXPECT_EQ(words[2], static_cast<std::uint64_t>(last()));
  EXPECT_EQ(words[3], 0u);
}

TEST_F(GroupTest, WhereATermEndsCounts) {
  EXPECT_NE(hash_of({{"a", "xy"}, {"b", "z"}}), hash_of({{"a", "x"}, {"b", "yz"}}));
}

TEST_F(GroupTest, RanksThatDifferAreNamed) {
  if (group_.size() == 1) GTEST_SKIP() << "needs two ranks";
  const std::string tail = group_.rank() == last() ? "odd" : "even";
  const std::vector<Term> terms{{"path", "/x"}, {"mode", tail}, {"layout", std::string(1000, 'l') + tail}};
  const std::uint64_t hash = hash_of(terms);
  std::array<std::uint64_t, 2> words{hash, ~hash};
  ASSERT_THAT(group_.greatest("test", words), IsOk());
  EXPECT_NE(words[0], ~words[1]);
  const Result<std::string> text = group_.differences("test", terms);
  ASSERT_THAT(text, IsOk());
  EXPECT_THAT(*text, AllOf(HasSubstr(concat(" mode: rank ", group_.size() == 2 ? 0 : last(), ": ")),
                           HasSubstr(concat("rank ", last(), ": odd")), Not(HasSubstr("path"))));
  // They differ after what is shown.
  EXPECT_THAT(*text, AllOf(HasSubstr(" layout: rank "), HasSubstr("lll... (1003 characters, hash "),
                           HasSubstr("lll... (1004 characters, hash ")));
  EXPECT_LT(text->size(), 700u);
}

TEST_F(GroupTest, TheErrorOfTheLowestRankIsTold) {
  const int first = group_.size() == 1 ? 0 : 1;  // and those above
  for (const std::size_t length : {0, 10, 5000}) {
    const std::string message = concat("no ", group_.rank(), std::string(length, '.'));
    std::array<std::uint64_t, 1> blame{group_.blame(group_.rank() >= first)};
    ASSERT_THAT(group_.greatest("test", blame), IsOk());
    const Result<Failure> failure = group_.failure_of("test", blame[0], {7 + group_.rank(), message});
    ASSERT_THAT(failure, IsOk());
    EXPECT_EQ(failure->code, 7 + first);
    EXPECT_EQ(failure->message, concat("on rank ", first, ": no ", first, std::string(length, '.')));
  }
}

TEST_F(GroupTest, RanksTellEachOther) {
  const Offset rank = group_.rank();
  const std::array<Offset, 2> mine{rank, -rank};
  const auto numbers = group_.gather("test", mine);
  const auto texts = group_.gather("test", std::string(static_cast<std::size_t>(rank), 'x'));
  ASSERT_THAT(numbers, IsOk());
  ASSERT_THAT(texts, IsOk());
  for (std::size_t i = 0; i < static_cast<std::size_t>(group_.size()); ++i) {
    EXPECT_EQ((*numbers)[2 * i + 1], -static_cast<Offset>(i));
    EXPECT_EQ((*texts)[i], std::string(i, 'x'));
  }
  EXPECT_EQ(group_.sum_below("test", rank + 1).value(), rank * (rank + 1) / 2);
  EXPECT_EQ(group_.value_of("test", last(), rank).value(), last());
}

TEST_F(GroupTest, NeedsACommunicatorOfOneGroup) {
  EXPECT_THAT(Group::duplicate(MPI_COMM_NULL, "test"),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("test: the communicator is MPI_COMM_NULL")));
}

TEST_F(GroupTest, ErrorsOfMpiNameTheCall) {
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_THAT(await("test", MPI_ERR_RANK, request), StatusIs(ErrorCode::kIoError, HasSubstr("test: ")));
  EXPECT_THAT(await("test", MPI_SUCCESS, request), IsOk());
}

// ---------------------------------------------------------------- with a limit

constexpr std::chrono::milliseconds kQuiet{50};

// The limit is long beside `kQuiet`: ranks on a busy machine must still tell in time that they wait.
Group limited(std::chrono::seconds limit) {
  return Group::duplicate(MPI_COMM_WORLD, "test", {.limit = limit, .limit_name = "WEIR_LIMIT", .quiet = kQuiet})
      .value();
}

TEST(LimitedGroupTest, FreesItsCommunicatorWhenAllLeave) {
  Group group = limited(std::chrono::seconds(60));
  // Long enough for the others to tell that they wait.
  if (group.rank() == 0) std::this_thread::sleep_for(4 * kQuiet);
  std::array<std::uint64_t, 1> words{};
  ASSERT_THAT(group.greatest("test", words), IsOk());
  group.leave("test");
  EXPECT_EQ(group.comm(), MPI_COMM_NULL);
}

TEST(LimitedGroupTest, AMissingRankIsNamedInTime) {
  constexpr std::chrono::seconds kLimit{3};
  Group group = limited(kLimit);
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

TEST(LimitedGroupTest, EachRequestCanHaveALimit) {
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
}  // namespace weir::group
