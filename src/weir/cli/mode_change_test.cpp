#include <weir/cli/internal/mode_change.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir::cli::internal {
namespace {

using ::testing::HasSubstr;
using weir::testing::StatusIs;

std::uint32_t changed(const char* text, std::uint32_t mode, bool is_directory = false) {
  const Result<ModeChange> change = ModeChange::parse(text);
  EXPECT_THAT(change, weir::testing::IsOk()) << text;
  return change.is_ok() ? change->apply(mode, is_directory) : 0xffff;
}

TEST(ModeChangeTest, OctalReplacesAllBits) {
  EXPECT_EQ(changed("640", 0777), 0640U);
  EXPECT_EQ(changed("0", 07777), 0U);
  EXPECT_EQ(changed("7777", 0), 07777U);
}

TEST(ModeChangeTest, ClausesAreAppliedInOrder) {
  EXPECT_EQ(changed("u+x,go-w", 0666), 0744U);
  EXPECT_EQ(changed("a=r,u+w", 0777), 0644U);
  EXPECT_EQ(changed("o=", 0777), 0770U);
  EXPECT_EQ(changed("+x", 0600), 0711U);
  EXPECT_EQ(changed("u=rw,g=r,o=", 07000), 0640U);
  EXPECT_EQ(changed("g+s,+t", 0750, true), 03750U);
  EXPECT_EQ(changed("u-s", 06755), 02755U);
}

TEST(ModeChangeTest, BigXIsForDirectoriesAndWhatCanBeExecuted) {
  EXPECT_EQ(changed("go+rX", 0600), 0644U);
  EXPECT_EQ(changed("go+rX", 0700), 0755U);
  EXPECT_EQ(changed("go+rX", 0600, true), 0655U);
}

TEST(ModeChangeTest, RefusesOtherText) {
  for (const char* text : {"", "8", "10000", "64x", "u", "u+q", "rw", "u+r,", ",u+r", "+-r", "99999999999999999999"}) {
    EXPECT_THAT(ModeChange::parse(text), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("is not a mode"))) << text;
  }
}

}  // namespace
}  // namespace weir::cli::internal
