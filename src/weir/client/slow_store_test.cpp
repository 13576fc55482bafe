// A store that takes longer than clients are patient: as long as its server lives, they wait.

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>
#include <weir/storage/memory_store.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using weir::testing::IsOk;

constexpr std::chrono::milliseconds kTimeout{1500};
constexpr std::chrono::milliseconds kSlow = kTimeout * 3 / 2;

/// Memory that is as slow as a disk under load.
class SlowStore final : public storage::Store {
 public:
  SlowStore() : store_(std::move(*storage::make_memory_store({}))) {}
  Status read(storage::SubfileId id, std::span<const storage::ReadPiece> pieces) override {
    return store_->read(id, pieces);
  }
  Status write(storage::SubfileId id, std::span<const storage::WritePiece> pieces, Offset file_end) override {
    std::this_thread::sleep_for(kSlow);
    return store_->write(id, pieces, file_end);
  }
  Status truncate(storage::SubfileId id, Offset length, Offset file_end) override {
    return store_->truncate(id, length, file_end);
  }
  Status reserve(storage::SubfileId id, Offset from, Offset to) override { return store_->reserve(id, from, to); }
  Status sync(storage::SubfileId id) override {
    std::this_thread::sleep_for(kSlow);
    return store_->sync(id);
  }
  Result<storage::SubfileInfo> info(storage::SubfileId id) override { return store_->info(id); }
  Status remove(storage::SubfileId id) override { return store_->remove(id); }
  Result<storage::Usage> usage() override { return store_->usage(); }
  Result<std::vector<storage::SubfileId>> list() override { return store_->list(); }
  [[nodiscard]] std::uint64_t id() const override { return store_->id(); }
  [[nodiscard]] bool waits() const override { return true; }

 private:
  std::unique_ptr<storage::Store> store_;
};

// A small write is made by the thread that answers, a sync by the one for the store.
TEST(SlowStoreTest, IsNoError) {
  ClusterOptions options;
  options.transport = "tcp";
  options.servers = 1;
  options.timeout = kTimeout;
  const Cluster cluster(options, [](int) {
    return Cluster::Stores{std::make_unique<SlowStore>(), storage::make_memory_key_value()};
  });
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", *layout::parse("stripe(unit=4K, over=1)"));
  ASSERT_THAT(file, IsOk());
  const std::vector<std::byte> few(100, std::byte{1});
  EXPECT_THAT(file->linear()->write(0, few), IsOk());
  EXPECT_THAT(file->sync(), IsOk());
}

}  // namespace
}  // namespace weir::client
