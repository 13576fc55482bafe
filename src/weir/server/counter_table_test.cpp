#include <weir/server/internal/counter_table.h>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir::server::internal {
namespace {

using testing::IsOk;
using testing::StatusIs;
using wire::CounterAction;

wire::UseCounterT request(CounterAction action, std::uint64_t counter, Offset value = 0, std::uint64_t holder = 0) {
  wire::UseCounterT it;
  it.action = action;
  it.counter = counter;
  it.value = value;
  it.holder = holder;
  return it;
}

std::uint64_t make(CounterTable& table, net::PeerId peer, Offset value = 0, std::uint64_t holder = 0) {
  const auto made = table.use(peer, request(CounterAction::Make, 0, value, holder));
  EXPECT_THAT(made, IsOk());
  return made.is_ok() ? made->counter : 0;
}

Offset value_of(CounterTable& table, net::PeerId peer, std::uint64_t counter) {
  const auto got = table.use(peer, request(CounterAction::Get, counter));
  EXPECT_THAT(got, IsOk());
  return got.is_ok() ? got->value : -1;
}

TEST(CounterTableTest, AddsAndTellsTheValueFromBefore) {
  CounterTable table;
  const std::uint64_t counter = make(table, 1, 5);
  EXPECT_EQ(table.use(1, request(CounterAction::Add, counter, 10))->value, 5);
  EXPECT_EQ(table.use(2, request(CounterAction::Add, counter, -20))->value, 15);
  EXPECT_EQ(table.use(2, request(CounterAction::Set, counter, 7))->value, -5);
  EXPECT_EQ(value_of(table, 1, counter), 7);
}

TEST(CounterTableTest, NumbersThatAreTakenOrZeroAreNotGivenAgain) {
  std::uint64_t calls = 0;
  CounterTable table([&] { return calls++ / 2; });  // 0, 0, 1, 1, 2, ...
  EXPECT_EQ(make(table, 1), 1u);
  EXPECT_EQ(make(table, 1), 2u);
  EXPECT_EQ(table.size(), 2u);
}

TEST(CounterTableTest, ValuesStayInRangeAndAreThenAsTheyWere) {
  CounterTable table;
  const std::uint64_t counter = make(table, 1, kMaxBytes);
  EXPECT_THAT(table.use(1, request(CounterAction::Add, counter, 1)), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(table.use(1, request(CounterAction::Set, counter, INT64_MIN)), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_EQ(value_of(table, 1, counter), kMaxBytes);
  EXPECT_THAT(table.use(1, request(CounterAction::Make, 0, INT64_MAX)), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_EQ(table.size(), 1u) << "a counter that could not be made is left over";
}

TEST(CounterTableTest, IsGoneWhenRemovedOrWhenAllHaveLeft) {
  CounterTable table;
  const std::uint64_t removed = make(table, 1);
  EXPECT_THAT(table.use(2, request(CounterAction::Remove, removed)), IsOk());
  EXPECT_THAT(table.use(1, request(CounterAction::Get, removed)), StatusIs(ErrorCode::kNotFound));

  const std::uint64_t left = make(table, 1, 0, 10);
  EXPECT_THAT(table.use(1, request(CounterAction::Get, left, 0, 11)), IsOk());
  EXPECT_THAT(table.use(1, request(CounterAction::Leave, left, 0, 10)), IsOk());
  EXPECT_THAT(table.use(1, request(CounterAction::Leave, left, 0, 10)), IsOk()) << "leaving twice is leaving";
  EXPECT_EQ(table.size(), 1u);
  EXPECT_THAT(table.use(1, request(CounterAction::Leave, left, 0, 11)), IsOk());
  EXPECT_EQ(table.size(), 0u);
}

TEST(CounterTableTest, IsGoneWithTheLastPeerThatUsedIt) {
  CounterTable table;
  const std::uint64_t counter = make(table, 1, 3);
  EXPECT_EQ(value_of(table, 2, counter), 3);
  table.drop(1);
  EXPECT_EQ(value_of(table, 2, counter), 3);
  table.drop(2);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_THAT(table.use(3, request(CounterAction::Add, counter, 1)), StatusIs(ErrorCode::kNotFound));
}

TEST(CounterTableTest, TakesBoundedMemory) {
  CounterTable table;
  const std::uint64_t counter = make(table, 1);
  for (std::uint64_t holder = 1; holder < CounterTable::kMostHolders; ++holder) {
    ASSERT_THAT(table.use(1, request(CounterAction::Get, counter, 0, holder)), IsOk());
  }
  EXPECT_THAT(table.use(2, request(CounterAction::Make, 0)), StatusIs(ErrorCode::kNoSpace));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(value_of(table, 1, counter), 0) << "those who hold it go on";
  table.drop(1);
  EXPECT_NE(make(table, 2), 0u);
}

}  // namespace
}  // namespace weir::server::internal
