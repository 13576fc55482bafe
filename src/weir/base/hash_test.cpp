#include <weir/base/hash.h>

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(HashTest, IsXxh3AndGoesOnFromASeed) {
  EXPECT_EQ(hash_of(""), 0x2d06800538d394c2U);  // names of unfinished copies depend on it
  EXPECT_NE(hash_of("a"), hash_of("b"));
  EXPECT_NE(hash_of("b", hash_of("a")), hash_of("a", hash_of("b")));
}

}  // namespace
}  // namespace weir
