#include <weir/base/status.h>

#include <set>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

TEST(StatusTest, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.is_ok());
  EXPECT_EQ(status.code(), ErrorCode::kOk);
  EXPECT_THAT(status.message(), IsEmpty());
  EXPECT_EQ(status.location(), std::nullopt);
  EXPECT_THAT(Status::ok(), IsOk());
}

TEST(StatusTest, ErrorKeepsWhatItWasGiven) {
  const Status status = invalid_argument("parse: no layout is called 'strip'", 17);
  EXPECT_FALSE(status.is_ok());
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "parse: no layout is called 'strip'");
  EXPECT_EQ(status.location(), 17);
}

TEST(StatusTest, ADetailIsAddedToAnError) {
  const Status plain = invalid_argument("no", 17);
  const Status status = plain.with_detail(42);
  EXPECT_EQ(plain.detail(), 0);
  EXPECT_EQ(status.detail(), 42);
  EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "no");
  EXPECT_EQ(status.location(), 17);
  EXPECT_THAT(Status::ok().with_detail(42), IsOk());
}

TEST(StatusTest, LocationIsOptional) { EXPECT_EQ(corrupt("cut short").location(), std::nullopt); }

TEST(StatusTest, FactoriesSetTheirCode) {
  EXPECT_THAT(invalid_argument("m"), StatusIs(ErrorCode::kInvalidArgument, "m"));
  EXPECT_THAT(out_of_range("m"), StatusIs(ErrorCode::kOutOfRange, "m"));
  EXPECT_THAT(too_complex("m"), StatusIs(ErrorCode::kTooComplex, "m"));
  EXPECT_THAT(corrupt("m"), StatusIs(ErrorCode::kCorrupt, "m"));
}

TEST(StatusTest, CodeOkMakesSuccessWhateverTheMessage) {
  const Status status{ErrorCode::kOk, "forgotten"};
  EXPECT_THAT(status, IsOk());
  EXPECT_THAT(status.message(), IsEmpty());
}

TEST(StatusTest, CopiesOutliveTheOriginal) {
  Status copy;
  {
    const Status original = out_of_range("beyond 2^62");
    copy = original;
  }
  EXPECT_THAT(copy, StatusIs(ErrorCode::kOutOfRange, "beyond 2^62"));
}

TEST(StatusTest, AssigningOkClearsTheError) {
  Status status = corrupt("bad magic");
  status = Status::ok();
  EXPECT_THAT(status, IsOk());
}

TEST(StatusTest, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(ErrorCode::kTimedOut); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_THAT(std::string(to_string(code)), Not(HasSubstr("unknown")));
    EXPECT_TRUE(names.insert(to_string(code)).second) << to_string(code);
  }
  EXPECT_EQ(to_string(static_cast<ErrorCode>(255)), "unknown error");
}

}  // namespace
}  // namespace weir
