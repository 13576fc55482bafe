#include <weir/client/internal/subfile_slot.h>

#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>

namespace weir::client::internal {
namespace {

using weir::testing::IsOk;

TEST(SubfileSlotTest, ComesByTheSocketWhereItMayNotBeOpened) {
  const Cluster cluster({.servers = 2});
  for (const bool opens : {true, false}) {
    const auto session = *Session::connect(cluster.addresses(), cluster.key(), {});
    if (!opens) session->stop_opening_memory();
    const FileSystem fs(session);
    const auto layout = layout::parse("stripe(unit=64K, over=2)");
    const View view = *fs.create(opens ? "/opened" : "/handed", *layout)->linear();
    const std::vector<std::byte> bytes(1 << 20, std::byte{7});
    ASSERT_THAT(view.write(0, bytes), IsOk());
    EXPECT_EQ(view.report().direct_bytes, std::ssize(bytes));
    std::vector<std::byte> seen(bytes.size());
    ASSERT_THAT(view.read(0, seen), IsOk());
    EXPECT_EQ(seen, bytes);
    EXPECT_EQ(session->opens_memory(), opens);
  }
}

}  // namespace
}  // namespace weir::client::internal
