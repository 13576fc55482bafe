#include <weir/base/text.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(ConcatTest, JoinsTextsCharactersAndIntegers) {
  const std::string owned = "owned";
  EXPECT_EQ(concat("element ", 3, " of ", std::string_view("four"), ' ', owned), "element 3 of four owned");
}

TEST(ConcatTest, NothingIsTheEmptyText) {
  EXPECT_EQ(concat(), "");
  EXPECT_EQ(concat("", std::string()), "");
}

TEST(ConcatTest, ExtremeIntegers) {
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::max()), "9223372036854775807");
  EXPECT_EQ(concat(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(concat(0, -1), "0-1");
}

TEST(AppendTest, KeepsWhatWasThere) {
  std::string out = "x";
  append(out, '=');
  append(out, 42);
  append(out, "!");
  EXPECT_EQ(out, "x=42!");
}

TEST(ShortenTest, CutsAtTheLimit) {
  EXPECT_EQ(shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(shorten("abcdefg", 6), "abc...");
}

}  // namespace
}  // namespace weir
