#include <weir/storage/slow_store.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/storage/blocking.h>
#include <weir/storage/internal/manual_time.h>
#include <weir/storage/internal/store_conformance.h>
#include <weir/storage/internal/waiting_loop.h>
#include <weir/storage/memory_store.h>
#include <weir/storage/store_spec.h>

namespace weir::storage {
namespace {

using internal::StoreCase;
using internal::StoreCaseName;
using internal::StoreConformance;
using internal::StoreHome;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::weir::testing::IsOk;
using ::weir::testing::IsOkAndHolds;
using ::weir::testing::StatusIs;
using namespace std::chrono_literals;

class SlowHome final : public StoreHome {
 public:
  Result<std::unique_ptr<Store>> open(Offset capacity_bytes) override {
    WEIR_TRY(std::unique_ptr<Store> memory, make_memory_store({.capacity_bytes = capacity_bytes}));
    return make_slow_store(std::move(memory), {.seek = 1ns, .bytes_per_second = Offset{1} << 40});
  }
};

INSTANTIATE_TEST_SUITE_P(Slow, StoreConformance,
                         ::testing::Values(StoreCase{.name = "memory",
                                                     .make_home = [] { return std::make_unique<SlowHome>(); },
                                                     .many_subfiles = 2000}),
                         StoreCaseName{});

/// A head of 8 ms and 1000 bytes/s over a store in memory, in a time that passes only by waiting for it.
class SlowStoreTest : public ::testing::Test {
 protected:
  using Seconds = std::chrono::duration<double>;

  void SetUp() override {
    Result<std::unique_ptr<Store>> memory = make_memory_store({});
    ASSERT_THAT(memory.status(), IsOk());
    store_ = make_slow_store(std::move(*memory), {.seek = 8ms, .bytes_per_second = 1000}, time_);
  }

  /// How long it takes to write `bytes` at each of the offsets, in one call.
  Seconds write(SubfileId id, const std::vector<Offset>& offsets, std::size_t bytes) {
    const std::vector<std::byte> data(bytes, std::byte{7});
    std::vector<WritePiece> pieces;
    for (const Offset offset : offsets) pieces.push_back({offset, data});
    const runtime::TimePoint start = time_.now();
    EXPECT_THAT(Blocking(*store_, time_.runtime()).write(id, pieces, 0), IsOk());
    return time_.now() - start;
  }

  Seconds read(SubfileId id, Offset offset, std::size_t bytes) {
    std::vector<std::byte> data(bytes);
    const std::array pieces{ReadPiece{offset, data}};
    const runtime::TimePoint start = time_.now();
    EXPECT_THAT(Blocking(*store_, time_.runtime()).read(id, pieces), IsOk());
    return time_.now() - start;
  }

  internal::ManualTime time_;
  std::unique_ptr<Store> store_;
};

constexpr SubfileId kOneSubfile{5, 0};
constexpr SubfileId kOtherSubfile{5, 1};

TEST_F(SlowStoreTest, ChargesSeekAndRate) {
  EXPECT_DOUBLE_EQ(write(kOneSubfile, {0}, 1000).count(), 1.008);
  EXPECT_DOUBLE_EQ(read(kOneSubfile, 0, 500).count(), 0.508);
}

TEST_F(SlowStoreTest, ContinuesWithoutSeek) {
  write(kOneSubfile, {0}, 1000);
  EXPECT_DOUBLE_EQ(write(kOneSubfile, {1000}, 1000).count(), 1.0);
  EXPECT_DOUBLE_EQ(read(kOneSubfile, 2000, 10).count(), 0.01);
}

TEST_F(SlowStoreTest, SeeksForEveryGap) {
  EXPECT_DOUBLE_EQ(write(kOneSubfile, {0, 10, 30, 20}, 10).count(), 3 * 0.008 + 0.04);
}

TEST_F(SlowStoreTest, SeeksToAnotherSubfile) {
  write(kOneSubfile, {0}, 10);
  EXPECT_DOUBLE_EQ(write(kOtherSubfile, {10}, 10).count(), 0.018);
}

TEST_F(SlowStoreTest, ChargesNothingForNoBytes) {
  write(kOneSubfile, {0}, 10);
  EXPECT_DOUBLE_EQ(write(kOneSubfile, {500}, 0).count(), 0);
  EXPECT_DOUBLE_EQ(write(kOneSubfile, {10}, 10).count(), 0.01) << "the head has not moved";
}

// What is submitted as background waits as long as there is demand, but not for what conflicts with it.
TEST_F(SlowStoreTest, DemandPassesTheHeadBeforeBackground) {
  const std::vector<std::byte> data(10, std::byte{7});
  internal::WaitingLoop loop(time_.runtime());
  store_->deliver_to(&loop);
  std::vector<std::string> order;
  const auto submit = [&](std::string name, SubfileId id, Priority priority) {
    IoBatch batch;
    batch.priority = priority;
    batch.operations.push_back({op::Write{id, {{0, data}}, 0}});
    store_->submit(std::move(batch), [&order, name = std::move(name)](const IoBatch& done) {
      EXPECT_THAT(done.status(), IsOk());
      order.push_back(name);
    });
  };
  submit("at the head", kOneSubfile, Priority::kBackground);
  submit("background", {6, 0}, Priority::kBackground);
  submit("before its demand", {6, 1}, Priority::kBackground);
  submit("demand", {6, 2}, Priority::kDemand);
  submit("demand for the same bytes", {6, 1}, Priority::kDemand);
  loop.run_until([&] { return order.size() == 5; });
  EXPECT_THAT(order, ::testing::ElementsAre("at the head", "before its demand", "demand", "demand for the same bytes",
                                            "background"));
  store_->deliver_to(nullptr);
}

TEST_F(SlowStoreTest, LetsNobodyAroundTheHead) {
  write(kOneSubfile, {0}, 10);
  EXPECT_FALSE(store_->capabilities().mappable);
  EXPECT_FALSE(store_->capabilities().shareable);
  const auto mapped = store_->map(kOneSubfile, 0, 10, true);
  ASSERT_THAT(mapped.status(), IsOk());
  EXPECT_FALSE(mapped->has_value());
  const auto shared = store_->share(kOneSubfile, true, 0, share::Peers::kOwn);
  ASSERT_THAT(shared.status(), IsOk());
  EXPECT_FALSE(shared->has_value());
}

// A server could tell such a name to its clients.
TEST(StoreSpecTest, AMillionDisksAreNoneSlowedDown) {
  std::string name;
  for (int i = 0; i < 1'000'000; ++i) name += "slow:";
  EXPECT_THAT(StoreSpec::parse(name + "memory"), StatusIs(ErrorCode::kInvalidArgument));
}

TEST(StoreSpecTest, ParsesWhatUsersWrite) {
  EXPECT_THAT(StoreSpec::parse("memory"), IsOkAndHolds(StoreSpec{}));
  EXPECT_THAT(StoreSpec::parse("disk:/a?b"), IsOkAndHolds(StoreSpec{"/a?b"}));
  EXPECT_THAT(StoreSpec::parse("slow:memory"), IsOkAndHolds(StoreSpec{"", SlowDisk{}}));
  EXPECT_THAT(StoreSpec::parse("slow:disk:/a?seek=3ms&rate=2K"), IsOkAndHolds(StoreSpec{"/a", SlowDisk{3ms, 2048}}));
  EXPECT_THAT(StoreSpec::parse("slow:memory?seek=0s"), IsOkAndHolds(StoreSpec{"", SlowDisk{.seek = 0s}}));
  EXPECT_THAT(StoreSpec::parse("slow:memory?rate=7"), IsOkAndHolds(StoreSpec{"", SlowDisk{.bytes_per_second = 7}}));
}

TEST(StoreSpecTest, TextComesBack) {
  for (const char* text : {"memory", "disk:/a", "slow:memory?seek=17us&rate=3G", "slow:disk:/a?b?seek=1s"}) {
    const Result<StoreSpec> spec = StoreSpec::parse(text);
    ASSERT_THAT(spec.status(), IsOk());
    EXPECT_THAT(StoreSpec::parse(spec->text()), IsOkAndHolds(*spec)) << text;
  }
  EXPECT_EQ((StoreSpec{"/a", SlowDisk{}}.text()), "slow:disk:/a?seek=8ms&rate=50M");
}

TEST(StoreSpecTest, RejectsOthersAndSaysWhatCanBeWritten) {
  for (const char* text : {"", "disk:", "disc:/a", "Memory"}) {
    EXPECT_THAT(StoreSpec::parse(text), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("disk:DIR"))) << text;
  }
  for (const char* text : {"slow:", "slow:/a", "slow:slow:memory"}) {
    EXPECT_THAT(StoreSpec::parse(text), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("in front of"))) << text;
  }
  for (const char* value : {"", "8", "-8ms", "8 ms", "8min", "9999999s", "ms"}) {
    EXPECT_THAT(StoreSpec::parse(std::string("slow:memory?seek=") + value),
                StatusIs(ErrorCode::kInvalidArgument, AllOf(HasSubstr("seek="), HasSubstr("8ms"))))
        << value;
  }
  for (const char* value : {"", "0", "-1", "M", "1.5M", "9999999999999G"}) {
    EXPECT_THAT(StoreSpec::parse(std::string("slow:memory?rate=") + value),
                StatusIs(ErrorCode::kInvalidArgument, HasSubstr("50M")))
        << value;
  }
  EXPECT_THAT(StoreSpec::parse("slow:memory?sek=8ms"), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("'sek=8ms'")));
}

}  // namespace
}  // namespace weir::storage
