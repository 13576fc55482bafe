#include <weir/config/toml.h>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir::config {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

TEST(TomlTest, TablesAreRead) {
  const auto table = parse("a = 1\n[b]\nc = \"x\"\n");
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ((*table)["a"].value<int>(), 1);
  EXPECT_EQ((*table)["b"]["c"].value<std::string>(), "x");
}

TEST(TomlTest, ErrorsNameTheLineAndQuoteNothing) {
  const auto broken = parse("a = 1\n\nkey = \"secret\n");
  EXPECT_THAT(broken, StatusIs(ErrorCode::kCorrupt, HasSubstr("line 3: ")));
  EXPECT_EQ(broken.status().location(), 3);
  EXPECT_THAT(broken.status().message(), Not(HasSubstr("secret")));
}

// The shared library of toml++ 3.3 aborts.
TEST(TomlTest, DamagedListsAreErrors) {
  for (const char* text : {"a = [}", "a = [1, }", "a = [[}]", "[a]\nb = [ }\n"}) {
    EXPECT_THAT(parse(text), StatusIs(ErrorCode::kCorrupt, HasSubstr("line "))) << text;
  }
}

// In toml++ 3.3 they reach what the compiler was told is never reached.
TEST(TomlTest, LettersBeyondAsciiAreErrorsWhereKeysAndValuesAreDue) {
  for (const char* text : {"\u00e9 = 1", "a = \u00fc", "a = 1 \u01a4", "[\u0400]", "\ufffe"}) {
    EXPECT_THAT(parse(text), StatusIs(ErrorCode::kCorrupt, HasSubstr("line 1"))) << text;
  }
  EXPECT_THAT(parse("a = \"\u00e9\"  # \u00fc\n\"\u00e9\" = 1\n"), IsOk());
}

TEST(TomlTest, EveryTruncationIsReadOrNamed) {
  const std::string text =
      "a = 1.5e-9 # x\nb = [\"tcp:127.0.0.1:1\", \"\"\"y\nz\"\"\"]\n[c.d]\ne = {f = [], 'g' = 0x1f}\n";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const auto table = parse(std::string_view(text).substr(0, length));
    if (!table.is_ok()) {
      ASSERT_TRUE(table.status().location());
      EXPECT_GE(*table.status().location(), 1);
      EXPECT_LE(*table.status().location(), 5);
    }
  }
}

}  // namespace
}  // namespace weir::config
