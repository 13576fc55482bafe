#include <weir/base/os_error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir {
namespace {

using testing::StatusIs;

TEST(OsErrorTest, SaysWhatFailedAndWhy) {
  EXPECT_THAT(os_error("open /x", ENOENT), StatusIs(ErrorCode::kNotFound, "open /x: No such file or directory"));
  EXPECT_THAT(os_error("open", "/x", EEXIST), StatusIs(ErrorCode::kExists, "open /x: File exists"));
  EXPECT_THAT(os_error("write", EDQUOT), StatusIs(ErrorCode::kNoSpace));
  EXPECT_THAT(os_error("write", EROFS), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(os_error("make", EEXIST), StatusIs(ErrorCode::kExists));
  EXPECT_THAT(os_error("map", ENOMEM), StatusIs(ErrorCode::kIoError));
  errno = ENOENT;
  EXPECT_THAT(os_error(ErrorCode::kUnavailable, "connect"),
              StatusIs(ErrorCode::kUnavailable, ::testing::HasSubstr("No such")));
}

}  // namespace
}  // namespace weir
