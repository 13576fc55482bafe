#include <weir/base/result.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using testing::IsOk;
using testing::IsOkAndHolds;
using ::testing::Not;
using ::testing::Pointee;
using testing::StatusIs;

Result<int> half(int number) {
  if (number % 2 != 0) return invalid_argument("half: " + std::to_string(number) + " is odd", number);
  return number / 2;
}

Result<int> quarter(int number, bool* reached_end = nullptr) {
  WEIR_TRY(const int first, half(number));
  WEIR_TRY(const int second, half(first));
  if (reached_end != nullptr) *reached_end = true;
  return second;
}

Status check_quarter(int number) {
  WEIR_RETURN_IF_ERROR(quarter(number).status());
  return Status::ok();
}

TEST(ResultTest, HoldsAValue) {
  Result<std::string> result = std::string("abc");
  EXPECT_TRUE(result.is_ok());
  EXPECT_THAT(result.status(), IsOk());
  EXPECT_EQ(result.value(), "abc");
  EXPECT_EQ(*result, "abc");
  EXPECT_EQ(result->size(), 3U);
  result->push_back('d');
  EXPECT_EQ(*result, "abcd");
}

TEST(ResultTest, HoldsAnError) {
  const Result<std::string> result = corrupt("bad magic");
  EXPECT_FALSE(result.is_ok());
  EXPECT_THAT(result.status(), StatusIs(ErrorCode::kCorrupt, "bad magic"));
}

TEST(ResultTest, ValueOfADefaultTypeIsStillAValue) {
  EXPECT_THAT(Result<int>(0), IsOkAndHolds(0));
  EXPECT_THAT(Result<std::vector<int>>(std::vector<int>{}), IsOk());
}

TEST(ResultTest, CarriesTypesThatOnlyMove) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  EXPECT_THAT(result, IsOkAndHolds(Pointee(7)));
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_THAT(taken, Pointee(7));
}

TEST(ResultTest, BoolIsAValueAndNotSuccess) {
  const Result<bool> result = false;
  EXPECT_THAT(result, IsOkAndHolds(false));
}

TEST(ResultTest, CopyIsIndependent) {
  Result<std::vector<int>> original = std::vector<int>{1, 2};
  const Result<std::vector<int>> copy = original;
  original->push_back(3);
  EXPECT_THAT(copy, IsOkAndHolds(ElementsAre(1, 2)));
  EXPECT_THAT(original, IsOkAndHolds(ElementsAre(1, 2, 3)));
}

TEST(TryTest, DeclaresTheValue) {
  bool reached_end = false;
  EXPECT_THAT(quarter(12, &reached_end), IsOkAndHolds(3));
  EXPECT_TRUE(reached_end);
}

TEST(TryTest, ReturnsTheFirstErrorWithAllItHolds) {
  bool reached_end = false;
  EXPECT_THAT(quarter(7, &reached_end), StatusIs(ErrorCode::kInvalidArgument, "half: 7 is odd"));
  EXPECT_THAT(quarter(6, &reached_end), StatusIs(ErrorCode::kInvalidArgument, "half: 3 is odd"));
  EXPECT_THAT(quarter(6).status().location(), Eq(3));
  EXPECT_FALSE(reached_end);
}

TEST(TryTest, MovesTheValueOut) {
  const auto take = []() -> Result<int> {
    WEIR_TRY(const std::unique_ptr<int> pointer, Result<std::unique_ptr<int>>(std::make_unique<int>(5)));
    return *pointer;
  };
  EXPECT_THAT(take(), IsOkAndHolds(5));
}

TEST(TryTest, EvaluatesItsExpressionOnce) {
  int calls = 0;
  const auto count = [&]() -> Result<int> { return ++calls; };
  const auto run = [&]() -> Status {
    WEIR_TRY(const int value, count());
    EXPECT_EQ(value, 1);
    return Status::ok();
  };
  EXPECT_THAT(run(), IsOk());
  EXPECT_EQ(calls, 1);
}

TEST(ReturnIfErrorTest, PassesErrorsOnAndSuccessBy) {
  EXPECT_THAT(check_quarter(8), IsOk());
  EXPECT_THAT(check_quarter(6), StatusIs(ErrorCode::kInvalidArgument, "half: 3 is odd"));
}

// The matchers are what every other test relies on: they must be able to fail.
TEST(MatcherTest, RejectWhatTheyShould) {
  EXPECT_THAT(half(3), Not(IsOk()));
  EXPECT_THAT(half(3), Not(IsOkAndHolds(1)));
  EXPECT_THAT(half(4), Not(IsOkAndHolds(1)));
  EXPECT_THAT(half(4), Not(StatusIs(ErrorCode::kInvalidArgument)));
  EXPECT_THAT(half(3), Not(StatusIs(ErrorCode::kCorrupt)));
  EXPECT_THAT(half(3), Not(StatusIs(ErrorCode::kInvalidArgument, "half: 4 is odd")));
}

TEST(MatcherTest, PrintsErrorsInFull) {
  EXPECT_EQ(::testing::PrintToString(half(3)), "invalid argument: half: 3 is odd (location 3)");
  EXPECT_EQ(::testing::PrintToString(half(4)), "ok, holds 2");
  EXPECT_EQ(::testing::PrintToString(Status::ok()), "ok");
}

}  // namespace
}  // namespace weir
