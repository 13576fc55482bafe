#include <weir/launch/internal/elf.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::launch::internal {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

TEST(NeededLibrariesTest, ReadsProgramsAndNothingElse) {
  EXPECT_THAT(needed_libraries("/proc/self/exe"), Contains("libc.so.6"));
  EXPECT_THAT(needed_libraries("/etc/passwd"), IsEmpty());
  EXPECT_THAT(needed_libraries("/no/such/file"), IsEmpty());
}

}  // namespace
}  // namespace weir::launch::internal
