// A store that takes longer than clients are patient: as long as its server lives, they wait.

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>
#include <weir/net/net.h>
#include <weir/storage/memory_store.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using weir::testing::IsOk;

constexpr std::chrono::milliseconds kTimeout{1500};
constexpr std::chrono::milliseconds kSlow = kTimeout * 3 / 2;

/// Memory whose writes and syncs are as slow as those of a disk under load.
class SlowStore final : public storage::Store {
 public:
  void submit(storage::IoBatch batch, storage::Completion done) override {
    const auto is_slow = [](const storage::Operation& operation) {
      return std::holds_alternative<storage::op::Write>(operation.what) ||
             std::holds_alternative<storage::op::Sync>(operation.what);
    };
    if (std::ranges::none_of(batch.operations, is_slow)) return store_->submit(std::move(batch), std::move(done));
    loop_->at(net::Clock::now() + kSlow,
              [this, batch = std::move(batch), done = std::move(done)] { store_->submit(batch, done); });
  }
  void stop() override { store_->stop(); }
  storage::Loop* deliver_to(storage::Loop* loop) override { return std::exchange(loop_, loop); }
  [[nodiscard]] storage::Capabilities capabilities() const override { return {}; }
  [[nodiscard]] std::uint64_t id() const override { return store_->id(); }

 private:
  std::unique_ptr<storage::Store> store_ = std::move(*storage::make_memory_store({}));
  storage::Loop* loop_ = nullptr;
};

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
