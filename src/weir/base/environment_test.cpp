#include <weir/base/environment.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(EnvironmentTest, UnsetIsEmpty) {
  ::setenv("WEIR_ENVIRONMENT_TEST", "x", 1);
  EXPECT_EQ(environment("WEIR_ENVIRONMENT_TEST"), "x");
  ::unsetenv("WEIR_ENVIRONMENT_TEST");
  EXPECT_EQ(environment("WEIR_ENVIRONMENT_TEST"), "");
}

TEST(EnvironmentTest, VariablesAreListedByName) {
  const auto name = [](const Variable& variable) { return std::string_view(variable.name); };
  EXPECT_TRUE(std::ranges::is_sorted(variables(), {}, name));
  for (const Variable& one : variables()) EXPECT_EQ(std::string_view(one.meaning).back(), '.') << one.name;
}

}  // namespace
}  // namespace weir
