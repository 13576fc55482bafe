// What accesses cost decides how they go.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/client/connection_file.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>
#include <weir/model/machine.h>

namespace weir::client::internal {
namespace {

using ::testing::HasSubstr;
using weir::testing::IsOk;

class CostsTest : public ::testing::Test {
 protected:
  [[nodiscard]] FileSystem connect(const std::optional<model::Io>& costs) const {
    ConnectOptions options;
    options.costs = costs;
    auto fs = FileSystem::connect(ConnectionFile{cluster_.key(), cluster_.addresses()}, options);
    EXPECT_THAT(fs, IsOk());
    return *fs;
  }

  // Writes `count` times so many bytes through a new view; \returns how often that was direct.
  static int direct_writes(const FileSystem& fs, std::size_t bytes, int count) {
    static int number = 0;
    const auto file = fs.create(concat("/costs-", ++number), *layout::parse("stripe(unit=1M, over=1)"));
    EXPECT_THAT(file, IsOk());
    const auto view = file->linear();
    EXPECT_THAT(view, IsOk());
    const std::vector<std::byte> data(bytes, std::byte{1});
    for (int i = 0; i < count; ++i) EXPECT_THAT(view->write(0, data), IsOk());
    return static_cast<int>(view->report().direct_bytes / static_cast<std::int64_t>(bytes));
  }

  Cluster cluster_{{.servers = 1}};
};

TEST_F(CostsTest, BuiltInCostsMapLargeAccessesAtOnce) {
  const FileSystem fs = connect(std::nullopt);
  EXPECT_EQ(fs.costs(), model::Io{});
  EXPECT_EQ(direct_writes(fs, 65536, 3), 3);
  EXPECT_EQ(direct_writes(fs, 65535, 4), 0);
  EXPECT_GT(direct_writes(fs, 65535, 20), 0);
}

TEST_F(CostsTest, DearMappingsAreNotMade) {
  model::Io costs;
  costs.memory.map_seconds = 10;
  EXPECT_EQ(direct_writes(connect(costs), 1 << 20, 10), 0);
}

TEST_F(CostsTest, CheapMappingsAreMadeForFewBytes) {
  model::Io costs;
  costs.memory.map_seconds = 0;
  EXPECT_EQ(direct_writes(connect(costs), 100, 3), 3);
}

TEST_F(CostsTest, ExplanationsHaveNumbers) {
  const FileSystem fs = connect(std::nullopt);
  const auto file = fs.create("/explained", *layout::parse("stripe(unit=1M, over=1)"));
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->linear()->explain(), HasSubstr("worth mapping: a mapping costs 42.5 us, a message 14 us"));
}

TEST_F(CostsTest, CalibratedCostsAreUsed) {
  const weir::testing::TemporaryDirectory folder;
  const std::string path = folder.path() + "/model.toml";
  ConnectOptions options;
  options.file_system = folder.path() + "/fs.toml";
  ASSERT_THAT((ConnectionFile{cluster_.key(), cluster_.addresses()}).write(options.file_system), IsOk());
  ::setenv("WEIR_MODEL", path.c_str(), 1);
  EXPECT_EQ(FileSystem::connect(options)->costs(), model::Io{});
  model::Machine machine;
  machine.pack.regimes = machine.unpack.regimes = {{1e5, {2e-9, 1, 1e-10}, 1e-9, 1e-9, {}}};
  machine.io.memory.map_seconds = 0.25;
  ASSERT_THAT(model::save(machine, path), IsOk());
  EXPECT_EQ(FileSystem::connect(options)->costs(), machine.io);
  std::ofstream(path) << "damaged";
  EXPECT_EQ(FileSystem::connect(options)->costs(), model::Io{});  // and a warning
  ::unsetenv("WEIR_MODEL");
}

}  // namespace
}  // namespace weir::client::internal
