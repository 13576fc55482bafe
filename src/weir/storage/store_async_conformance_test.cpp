// What every store does with many operations in flight: the part of the conformance suite that does not wait.

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
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
#include <weir/storage/internal/store_conformance.h>
#include <weir/storage/internal/waiting_loop.h>
#include <weir/storage/memory_store.h>
#include <weir/storage/slow_store.h>
#include <weir/storage/volatile_store.h>

namespace weir::storage::internal {
namespace {

using ::weir::testing::IsOk;
using ::weir::testing::StatusIs;
using ByteVector = std::vector<std::byte>;

ByteVector some_bytes(std::mt19937_64& random, std::size_t count) {
  ByteVector bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 255 + 1);
  return bytes;
}

/// Batches of a store that complete in any order; each must, once.
class Flight {
 public:
  explicit Flight(Store& store) : store_(store), loop_(runtime::system_runtime()) { store_.deliver_to(&loop_); }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight() { store_.deliver_to(nullptr); }

  void submit(IoBatch batch, Completion check) {
    const std::size_t number = completed_.size();
    completed_.push_back(0);
    store_.submit(std::move(batch), [this, number, check = std::move(check)](IoBatch done) {
      EXPECT_EQ(++completed_[number], 1) << "batch " << number;
      ++count_;
      check(std::move(done));
    });
  }
  void wait() {
    loop_.run_until([this] { return count_ == completed_.size(); });
  }
  [[nodiscard]] std::size_t in_flight() const { return completed_.size() - count_; }

 private:
  Store& store_;
  WaitingLoop loop_;
  std::vector<int> completed_;
  std::size_t count_ = 0;
};

/// Bytes of a subfile, as they are when all that was submitted has taken effect.
struct Model {
  ByteVector bytes;
  Offset file_end = 0;

  void write(std::size_t offset, const ByteVector& data, Offset end) {
    if (!data.empty() && bytes.size() < offset + data.size()) bytes.resize(offset + data.size());
    std::copy(data.begin(), data.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    file_end = std::max(file_end, end);
  }
  [[nodiscard]] ByteVector read(std::size_t offset, std::size_t size) const {
    ByteVector result(size);
    for (std::size_t i = 0; i < size && offset + i < bytes.size(); ++i) result[i] = bytes[offset + i];
    return result;
  }
};

/// Random operations, submitted without waiting for those before.
class RandomFlight {
 public:
  RandomFlight(Store& store, std::uint64_t seed) : flight_(store), random_(seed) {}

  void submit_some() {
    IoBatch batch;
    batch.priority = random_() % 3 == 0 ? Priority::kBackground : Priority::kDemand;
    std::vector<std::function<void(const Operation&)>> checks;
    const std::size_t count = 1 + random_() % 4;
    for (std::size_t i = 0; i < count; ++i) batch.operations.push_back({any_operation(checks)});
    flight_.submit(std::move(batch), [checks = std::move(checks)](const IoBatch& done) {
      ASSERT_EQ(done.operations.size(), checks.size());
      for (std::size_t i = 0; i < checks.size(); ++i) {
        EXPECT_THAT(done.operations[i].status, IsOk());
        checks[i](done.operations[i]);
      }
    });
  }
  void wait() { flight_.wait(); }

 private:
  using Checks = std::vector<std::function<void(const Operation&)>>;

  op::Any any_operation(Checks& checks) {
    const SubfileId id{21, static_cast<std::uint32_t>(random_() % 3)};
    Model& model = models_[id];
    checks.emplace_back([](const Operation&) {});
    switch (random_() % 16) {
      case 0: return truncate(id, model);
      case 1: {
        checks.back() = [length = static_cast<Offset>(model.bytes.size()),
                         end = model.file_end](const Operation& done) {
          EXPECT_EQ(std::get<op::Info>(done.what).result.length, length);
          EXPECT_EQ(std::get<op::Info>(done.what).result.file_end, end);
        };
        return op::Info{id};
      }
      case 2: return op::Sync{id};
      case 3:
        if (random_() % 4 != 0) return op::Sync{id};
        model = {};
        return op::Remove{id};
      case 4:
      case 5:
      case 6:
      case 7:
      case 8: return read(id, model, checks.back());
      default: return write(id, model);
    }
  }

  op::Any truncate(SubfileId id, Model& model) {
    const std::size_t length = random_() % kSpan;
    model.bytes.resize(length);
    model.file_end = static_cast<Offset>(random_() % 1000);
    return op::Truncate{id, static_cast<Offset>(length), model.file_end};
  }

  op::Any write(SubfileId id, Model& model) {
    op::Write write{id, {}, static_cast<Offset>(random_() % 100'000)};
    std::size_t offset = random_() % kSpan;
    for (std::size_t pieces = 1 + random_() % 3; pieces > 0; --pieces) {
      const ByteVector& bytes = buffers_.emplace_back(some_bytes(random_, random_() % 20'000));
      write.pieces.push_back({static_cast<Offset>(offset), bytes});
      model.write(offset, bytes, write.file_end);
      offset += bytes.size() + random_() % 30'000;
    }
    return write;
  }

  op::Any read(SubfileId id, const Model& model, std::function<void(const Operation&)>& check) {
    const std::size_t offset = random_() % kSpan;
    ByteVector& buffer = buffers_.emplace_back(random_() % 40'000, std::byte{0xAA});
    check = [&buffer, expected = model.read(offset, buffer.size()), offset](const Operation&) {
      EXPECT_TRUE(buffer == expected) << buffer.size() << " bytes at " << offset;
    };
    return op::Read{id, {{static_cast<Offset>(offset), buffer}}};
  }

  static constexpr std::size_t kSpan = 200'000;
  Flight flight_;
  std::mt19937_64 random_;
  std::map<SubfileId, Model> models_;
  std::deque<ByteVector> buffers_;  // stay where they are
};

TEST_P(StoreConformance, ConflictingOperationsTakeEffectInOrder) {
  const std::uint64_t seed = testing::choose_seed();
  SCOPED_TRACE(concat("WEIR_TEST_SEED=", seed));
  for (std::uint64_t round = 0; round < 3 && !HasFailure(); ++round) {
    RandomFlight run(*store_, seed + round);
    for (int i = 0; i < 60; ++i) run.submit_some();
    run.wait();
    for (std::uint32_t element = 0; element < 3; ++element) {
      ASSERT_THAT(Blocking(*store_).remove({21, element}), IsOk());
    }
  }
}

TEST_P(StoreConformance, ManyOperationsAreInFlightTogether) {
  constexpr std::size_t kBytes = 30'000;
  constexpr int kCount = 300;
  std::mt19937_64 random{7};
  std::deque<ByteVector> written;
  std::deque<ByteVector> seen;
  Flight flight(*store_);
  for (int i = 0; i < kCount; ++i) {
    const SubfileId id{30, static_cast<std::uint32_t>(i % 7)};
    const Offset offset = static_cast<Offset>(kBytes) * (i / 7);
    const ByteVector& bytes = written.emplace_back(some_bytes(random, kBytes));
    ByteVector& buffer = seen.emplace_back(kBytes);
    IoBatch write;
    write.operations.push_back({op::Write{id, {{offset, bytes}}, 0}});
    flight.submit(std::move(write), [](const IoBatch& done) { EXPECT_THAT(done.status(), IsOk()); });
    IoBatch read;
    read.operations.push_back({op::Read{id, {{offset, buffer}}}});
    flight.submit(std::move(read), [&bytes, &buffer, i](const IoBatch& done) {
      EXPECT_THAT(done.status(), IsOk());
      EXPECT_TRUE(buffer == bytes) << i;
    });
  }
  flight.wait();
}

TEST_P(StoreConformance, AFailureInTheMiddleFailsNothingElse) {
  std::mt19937_64 random{8};
  const ByteVector bytes = some_bytes(random, 100);
  ByteVector buffer(100);
  IoBatch batch;
  batch.operations.push_back({op::Write{{31, 0}, {{0, bytes}}, 5}});
  batch.operations.push_back({op::Write{{31, 0}, {{-1, bytes}}, 5}});
  batch.operations.push_back({op::Truncate{{31, 0}, 100, -3}});
  batch.operations.push_back({op::Read{{31, 0}, {{0, buffer}}}});
  batch.operations.push_back({op::Info{{31, 0}}});
  const IoBatch done = Blocking(*store_).run(std::move(batch));
  EXPECT_THAT(done.status(), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(done.operations[0].status, IsOk());
  EXPECT_THAT(done.operations[1].status, StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(done.operations[2].status, StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(done.operations[3].status, IsOk());
  EXPECT_EQ(buffer, bytes);
  EXPECT_EQ(std::get<op::Info>(done.operations[4].what).result.file_end, 5);
}

TEST_P(StoreConformance, WhatNobodyWantsIsNotBegun) {
  const ByteVector bytes(100, std::byte{1});
  IoBatch batch;
  batch.is_wanted = std::make_shared<std::atomic<bool>>(false);
  batch.operations.push_back({op::Write{{32, 0}, {{0, bytes}}, 5}});
  EXPECT_THAT(Blocking(*store_).run(std::move(batch)).status(), StatusIs(ErrorCode::kUnavailable));
  EXPECT_EQ(Blocking(*store_).info({32, 0})->length, 0);
}

TEST_P(StoreConformance, StoppingCompletesEveryBatchOnce) {
  std::mt19937_64 random{9};
  const ByteVector bytes = some_bytes(random, 50'000);
  std::vector<Status> statuses;
  Flight flight(*store_);
  constexpr int kCount = 100;
  for (int i = 0; i < kCount; ++i) {
    IoBatch batch;
    batch.operations.push_back({op::Write{{33, static_cast<std::uint32_t>(i % 5)}, {{i * Offset{50'000}, bytes}}, 0}});
    batch.operations.push_back({op::Sync{{33, static_cast<std::uint32_t>(i % 5)}}});
    flight.submit(std::move(batch), [&](const IoBatch& done) { statuses.push_back(done.operations[0].status); });
  }
  store_->stop();
  EXPECT_EQ(flight.in_flight(), 0u);
  ASSERT_EQ(statuses.size(), static_cast<std::size_t>(kCount));
  for (const Status& status : statuses) {
    EXPECT_TRUE(status.is_ok() || status.code() == ErrorCode::kUnavailable) << status.message();
  }
  store_->stop();
  EXPECT_THAT(Blocking(*store_).sync({33, 0}), StatusIs(ErrorCode::kUnavailable));
}

// ---- stores that have no test of their own

class FaultyHome final : public StoreHome {
 public:
  FaultyHome(bool is_on_disk, runtime::Duration most_delay) : is_on_disk_(is_on_disk), most_delay_(most_delay) {}
  Result<std::unique_ptr<Store>> open(Offset capacity_bytes) override {
    WEIR_TRY(std::unique_ptr<Store> store,
             is_on_disk_ ? open_disk_store(directory_.path()) : make_memory_store({.capacity_bytes = capacity_bytes}));
    return std::unique_ptr<Store>(std::make_unique<FaultyStore>(std::shared_ptr<Store>(std::move(store)),
                                                                std::make_shared<Faults>(FaultOptions{}),
                                                                FaultyTimes{most_delay_, testing::choose_seed()}));
  }

 private:
  testing::TemporaryDirectory directory_;
  bool is_on_disk_;
  runtime::Duration most_delay_;
};

StoreCase faulty_case(std::string name, bool is_on_disk, runtime::Duration most_delay, Offset many_subfiles) {
  return {.name = std::move(name),
          .make_home = [=] { return std::make_unique<FaultyHome>(is_on_disk, most_delay); },
          .is_durable = is_on_disk,
          .has_capacity = !is_on_disk,
          .far_offset = is_on_disk ? Offset{1} << 43 : Offset{1} << 50,
          .many_subfiles = many_subfiles};
}

INSTANTIATE_TEST_SUITE_P(Faulty, StoreConformance,
                         ::testing::Values(faulty_case("at_once", false, {}, 500),
                                           faulty_case("out_of_order", false, std::chrono::microseconds(50), 100),
                                           faulty_case("disk_at_once", true, {}, 50),
                                           faulty_case("disk_out_of_order", true, std::chrono::microseconds(50), 50)),
                         StoreCaseName{});

class VolatileHome final : public StoreHome {
 public:
  Result<std::unique_ptr<Store>> open(Offset capacity_bytes) override {
    disk_->capacity_bytes = capacity_bytes > 0 ? capacity_bytes : VolatileDisk::kUnlimited;
    return std::unique_ptr<Store>(std::make_unique<VolatileStore>(std::make_shared<Power>(), disk_));
  }

 private:
  std::shared_ptr<VolatileDisk> disk_ = std::make_shared<VolatileDisk>();
};

INSTANTIATE_TEST_SUITE_P(Volatile, StoreConformance,
                         ::testing::Values(StoreCase{.name = "plain",
                                                     .make_home = [] { return std::make_unique<VolatileHome>(); },
                                                     .is_durable = true,
                                                     .many_subfiles = 500}),
                         StoreCaseName{});

class SlowDiskHome final : public StoreHome {
 public:
  Result<std::unique_ptr<Store>> open(Offset) override {
    WEIR_TRY(std::unique_ptr<Store> disk, open_disk_store(directory_.path()));
    return make_slow_store(std::move(disk), {.seek = std::chrono::nanoseconds(1), .bytes_per_second = Offset{1} << 40});
  }

 private:
  testing::TemporaryDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(SlowDisk, StoreConformance,
                         ::testing::Values(StoreCase{.name = "plain",
                                                     .make_home = [] { return std::make_unique<SlowDiskHome>(); },
                                                     .is_durable = true,
                                                     .has_capacity = false,
                                                     .far_offset = Offset{1} << 43,
                                                     .many_subfiles = 100}),
                         StoreCaseName{});

}  // namespace
}  // namespace weir::storage::internal
