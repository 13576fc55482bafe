#include <weir/storage/faulty_store.h>

#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/storage/blocking.h>
#include <weir/storage/memory_store.h>

namespace weir::storage {
namespace {

using ::testing::HasSubstr;
using ::weir::testing::IsOk;
using ::weir::testing::StatusIs;
using When = FaultOptions::When;

constexpr SubfileId kFaultyId{1, 0};

struct Faulty {
  explicit Faulty(FaultOptions options) : faults(std::make_shared<Faults>(options)) {
    auto made = make_memory_store({.capacity_bytes = 1 << 20, .pool_regions = 0});
    inner = std::move(*made);
    store = std::make_unique<FaultyStore>(inner, faults);
  }
  std::shared_ptr<Faults> faults;
  std::shared_ptr<Store> inner;
  std::unique_ptr<FaultyStore> store;
};

Status write_one(Store& store) {
  const std::array bytes{std::byte{5}};
  const std::array pieces{WritePiece{10, bytes}};
  return Blocking(store).write(kFaultyId, pieces, 11);
}

/// Every operation once.  \returns how many failed
int use_all(Store& store) {
  std::array<std::byte, 4> bytes{};
  const std::array pieces{ReadPiece{0, bytes}};
  const std::vector<Status> all{write_one(store),
                                Blocking(store).read(kFaultyId, pieces),
                                Blocking(store).truncate(kFaultyId, 5, 5),
                                Blocking(store).reserve(kFaultyId, 0, 9),
                                Blocking(store).sync(kFaultyId),
                                Blocking(store).info(kFaultyId).status(),
                                Blocking(store).usage().status(),
                                Blocking(store).stored_bytes().status(),
                                Blocking(store).list().status(),
                                store.map(kFaultyId, 0, 5, true).status(),
                                store.share(kFaultyId, true, 0, share::Peers::kOwn).status(),
                                Blocking(store).remove(kFaultyId)};
  int failed = 0;
  for (const Status& status : all) failed += status.is_ok() ? 0 : 1;
  return failed;
}

TEST(FaultyStoreTest, EachOperationCanBeMadeToFail) {
  int n = 0;
  for (;; ++n) {
    SCOPED_TRACE(n);
    Faulty faulty{{.fail_at = n}};
    const int failed = use_all(*faulty.store);
    EXPECT_EQ(failed, faulty.faults->fired() ? 1 : 0);
    if (!faulty.faults->fired()) break;
  }
  EXPECT_EQ(n, 12);
}

TEST(FaultyStoreTest, FailsBeforeOrAfterTheOperation) {
  Faulty before{{.fail_at = 0, .code = ErrorCode::kNoSpace}};
  EXPECT_THAT(write_one(*before.store), StatusIs(ErrorCode::kNoSpace, HasSubstr("write")));
  EXPECT_EQ(Blocking(*before.inner).info(kFaultyId)->length, 0);
  EXPECT_THAT(write_one(*before.store), IsOk());

  Faulty after{{.fail_at = 0, .when = When::kAfter}};
  EXPECT_THAT(write_one(*after.store), StatusIs(ErrorCode::kIoError));
  EXPECT_EQ(Blocking(*after.inner).info(kFaultyId)->length, 11);
}

TEST(FaultyStoreTest, ADeadStoreStaysDead) {
  Faulty faulty{{.fail_at = 2, .stays = true}};
  EXPECT_EQ(use_all(*faulty.store), 10);
  EXPECT_EQ(use_all(*faulty.store), 12);
  EXPECT_EQ(faulty.faults->count(), 24);
}

TEST(FaultyKeyValueTest, CountsTogetherWithAStore) {
  Faulty faulty{{.fail_at = 2}};
  FaultyKeyValue map{make_memory_key_value(), faulty.faults};
  Batch batch;
  batch.put("a", "1");
  EXPECT_THAT(map.apply(batch, true), IsOk());
  EXPECT_THAT(write_one(*faulty.store), IsOk());
  EXPECT_THAT(map.get("a"), StatusIs(ErrorCode::kIoError, HasSubstr("operation 2")));
  EXPECT_THAT(map.scan("", "", [](auto, auto) { return true; }), IsOk());
}

}  // namespace
}  // namespace weir::storage
