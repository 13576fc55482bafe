// Decorators around each store: operations that fail or are stopped among many in flight.  What decorators do when
// nothing fails is tested by the conformance suite.

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/base/text.h>
#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/faulty_store.h>
#include <weir/storage/internal/waiting_loop.h>
#include <weir/storage/memory_store.h>
#include <weir/storage/slow_store.h>

namespace weir::storage {
namespace {

using ::testing::HasSubstr;
using ::weir::testing::IsOk;
using ::weir::testing::StatusIs;
using When = FaultOptions::When;

struct DecoratedCase {
  const char* name;
  bool is_on_disk;
  bool is_slow;
};

class DecoratedStoreTest : public ::testing::TestWithParam<DecoratedCase> {
 protected:
  static constexpr int kBatches = 60;
  static constexpr std::size_t kBytes = 3000;
  static constexpr SubfileId subfile(int batch) { return {40, static_cast<std::uint32_t>(batch % 5)}; }
  static constexpr Offset offset(int batch) { return Offset{kBytes} * (batch / 5); }

  /// The store itself, without what decorates it.
  Result<std::unique_ptr<Store>> open_plain() {
    directory_.emplace();
    return reopen_plain();
  }
  Result<std::unique_ptr<Store>> reopen_plain() {
    return GetParam().is_on_disk ? open_disk_store(directory_->path())
                                 : make_memory_store({.capacity_bytes = Offset{1} << 26, .pool_regions = 0});
  }

  /// Around it: operations that fail and complete in any order; around that, maybe a slow one.
  void decorate(FaultOptions options) {
    Result<std::unique_ptr<Store>> plain = open_plain();
    ASSERT_THAT(plain.status(), IsOk());
    plain_ = std::move(*plain);
    faults_ = std::make_shared<Faults>(options);
    // Delays that are long beside the time between two batches: so some overtake others, however slow the machine is.
    store_ = std::make_unique<FaultyStore>(plain_, faults_, FaultyTimes{std::chrono::milliseconds(5), 3});
    if (GetParam().is_slow) {
      store_ = make_slow_store(std::move(store_),
                               {.seek = std::chrono::microseconds(1), .bytes_per_second = Offset{1} << 40});
    }
    loop_ = std::make_unique<internal::WaitingLoop>(runtime::system_runtime());
    store_->deliver_to(loop_.get());
    completed_.assign(kBatches, {});
    order_.clear();
  }

  /// Batch i writes bytes of its own, then asks how long the subfile is.
  void submit_all() {
    for (int i = 0; i < kBatches; ++i) {
      data_.emplace_back(kBytes, static_cast<std::byte>(i + 1));
      IoBatch batch;
      batch.operations.push_back({op::Write{subfile(i), {{offset(i), data_.back()}}, 0}});
      batch.operations.push_back({op::Info{subfile(i)}});
      store_->submit(std::move(batch), [this, i](const IoBatch& done) {
        for (const Operation& operation : done.operations) {
          completed_[static_cast<std::size_t>(i)].push_back(operation.status);
        }
        order_.push_back(i);
      });
    }
  }
  [[nodiscard]] const std::vector<Status>& statuses(int batch) const {
    return completed_[static_cast<std::size_t>(batch)];
  }
  void undecorate() {
    store_->deliver_to(nullptr);
    store_.reset();
  }

  /// What batch i has written, or zeros.
  void expect_bytes(Store& store, int batch, bool is_written) {
    std::vector<std::byte> bytes(kBytes, std::byte{0xAA});
    const std::array pieces{ReadPiece{offset(batch), bytes}};
    ASSERT_THAT(Blocking(store).read(subfile(batch), pieces), IsOk());
    const std::vector<std::byte> expected(kBytes, is_written ? static_cast<std::byte>(batch + 1) : std::byte{0});
    EXPECT_TRUE(bytes == expected) << "batch " << batch;
  }

  std::optional<testing::TemporaryDirectory> directory_;
  std::shared_ptr<Store> plain_;
  std::shared_ptr<Faults> faults_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<internal::WaitingLoop> loop_;
  std::deque<std::vector<std::byte>> data_;
  std::vector<std::vector<Status>> completed_;  // by batch
  std::vector<int> order_;
};

TEST_P(DecoratedStoreTest, OneFailureAmongManyInFlightFailsNothingElse) {
  for (const When when : {When::kBefore, When::kAfter}) {
    for (const int fail_at : {0, 1, 40, 2 * kBatches - 1}) {
      SCOPED_TRACE(concat("operation ", fail_at, when == When::kBefore ? " fails" : " is done, and fails"));
      decorate({.fail_at = fail_at, .code = ErrorCode::kNoSpace, .when = when});
      submit_all();
      loop_->run_until([this] { return order_.size() == kBatches; });
      EXPECT_FALSE(std::is_sorted(order_.begin(), order_.end())) << "none has overtaken another";
      int failed = 0;
      for (int i = 0; i < kBatches; ++i) {
        ASSERT_EQ(statuses(i).size(), 2u) << "batch " << i;
        for (const Status& status : statuses(i)) {
          if (status.is_ok()) continue;
          ++failed;
          EXPECT_THAT(status, StatusIs(ErrorCode::kNoSpace, HasSubstr(concat("operation ", fail_at))));
        }
      }
      EXPECT_EQ(failed, 1);
      undecorate();
      for (int i = 0; i < kBatches; ++i) {
        expect_bytes(*plain_, i, statuses(i)[0].is_ok() || when == When::kAfter);
      }
      plain_.reset();
    }
  }
}

TEST_P(DecoratedStoreTest, StoppedWhileADeadStoreFailsCompletesEveryBatchOnce) {
  for (const std::size_t stop_after : {std::size_t{0}, std::size_t{7}, std::size_t{40}}) {
    SCOPED_TRACE(concat("stopped after ", stop_after, " batches"));
    decorate({.fail_at = 30, .stays = true});
    submit_all();
    loop_->run_until([&] { return order_.size() >= stop_after; });
    store_->stop();
    EXPECT_EQ(order_.size(), static_cast<std::size_t>(kBatches));
    for (int i = 0; i < kBatches; ++i) {
      ASSERT_EQ(statuses(i).size(), 2u) << "batch " << i;
      for (const Status& status : statuses(i)) {
        const ErrorCode code = status.code();
        EXPECT_TRUE(code == ErrorCode::kOk || code == ErrorCode::kIoError || code == ErrorCode::kUnavailable)
            << status.message();
      }
    }
    undecorate();
    if (GetParam().is_on_disk) {
      plain_.reset();
      Result<std::unique_ptr<Store>> again = reopen_plain();
      ASSERT_THAT(again.status(), IsOk());
      plain_ = std::move(*again);
    }
    for (int i = 0; i < kBatches; ++i) expect_bytes(*plain_, i, statuses(i)[0].is_ok());
    plain_.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(All, DecoratedStoreTest,
                         ::testing::Values(DecoratedCase{"faulty_memory", false, false},
                                           DecoratedCase{"faulty_disk", true, false},
                                           DecoratedCase{"slow_faulty_memory", false, true},
                                           DecoratedCase{"slow_faulty_disk", true, true}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace weir::storage
