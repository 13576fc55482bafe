#include <weir/base/nearest.h>

#include <array>

#include <gtest/gtest.h>

namespace weir {
namespace {

const std::array<std::string, 5> kKnown{"status", "stat", "put", "relayout", "--servers"};

TEST(NearestTest, ForgivesTypingErrors) {
  EXPECT_EQ(nearest("statsu", kKnown), "status");     // swapped
  EXPECT_EQ(nearest("sttus", kKnown), "status");      // one too few
  EXPECT_EQ(nearest("pput", kKnown), "put");          // one too many
  EXPECT_EQ(nearest("pyt", kKnown), "put");           // a wrong one
  EXPECT_EQ(nearest("relaoyt", kKnown), "relayout");  // two errors of seven characters
  EXPECT_EQ(nearest("--server", kKnown), "--servers");
  EXPECT_EQ(nearest("stat", kKnown), "stat");  // itself comes before what is one away
}

TEST(NearestTest, DoesNotGuessWildly) {
  EXPECT_EQ(nearest("frobnicate", kKnown), std::nullopt);
  EXPECT_EQ(nearest("xyt", kKnown), std::nullopt);  // two errors of three characters
  EXPECT_EQ(nearest("", kKnown), std::nullopt);
  EXPECT_EQ(nearest(std::string(1'000'000, 'x'), kKnown), std::nullopt);
  EXPECT_EQ(nearest("put", std::span<const std::string>()), std::nullopt);
}

}  // namespace
}  // namespace weir
