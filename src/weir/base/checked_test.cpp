#include <weir/base/checked.h>

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOkAndHolds;
using testing::StatusIs;

constexpr Offset kLowest = std::numeric_limits<Offset>::min();
constexpr Offset kHighest = std::numeric_limits<Offset>::max();

__extension__ using Wide = __int128;  // the oracle: no product of two offsets overflows it

bool fits(Wide value) { return value >= -Wide{kMaxBytes} && value <= Wide{kMaxBytes}; }

TEST(CheckedAddTest, ReachesTheLimitsAndNotBeyond) {
  EXPECT_THAT(checked_add(2, 3), IsOkAndHolds(5));
  EXPECT_THAT(checked_add(kMaxBytes - 1, 1), IsOkAndHolds(kMaxBytes));
  EXPECT_THAT(checked_add(kMaxBytes, 0), IsOkAndHolds(kMaxBytes));
  EXPECT_THAT(checked_add(kMaxBytes, -kMaxBytes), IsOkAndHolds(0));
  EXPECT_THAT(checked_add(-kMaxBytes, 0), IsOkAndHolds(-kMaxBytes));
  EXPECT_THAT(checked_add(kMaxBytes, 1), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(checked_add(-kMaxBytes, -1), StatusIs(ErrorCode::kOutOfRange));
}

TEST(CheckedAddTest, CatchesWrapAround) {
  EXPECT_THAT(checked_add(kHighest, 1), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(checked_add(kHighest, kHighest), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(checked_add(kLowest, -1), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(checked_add(kLowest, kLowest), StatusIs(ErrorCode::kOutOfRange));  // would wrap to 0
}

TEST(CheckedAddTest, MessageNamesTheValues) {
  EXPECT_THAT(checked_add(kMaxBytes, 7),
              StatusIs(ErrorCode::kOutOfRange, AllOf(HasSubstr("4611686018427387904 + 7"), HasSubstr("2^62"))));
}

TEST(CheckedMulTest, ReachesTheLimitsAndNotBeyond) {
  EXPECT_THAT(checked_mul(6, 7), IsOkAndHolds(42));
  EXPECT_THAT(checked_mul(Offset{1} << 31, Offset{1} << 31), IsOkAndHolds(kMaxBytes));
  EXPECT_THAT(checked_mul(-(Offset{1} << 31), Offset{1} << 31), IsOkAndHolds(-kMaxBytes));
  EXPECT_THAT(checked_mul(kHighest, 0), IsOkAndHolds(0));
  EXPECT_THAT(checked_mul((Offset{1} << 31) + 1, Offset{1} << 31), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(checked_mul(kMaxBytes, 2), StatusIs(ErrorCode::kOutOfRange));
}

TEST(CheckedMulTest, CatchesWrapAround) {
  EXPECT_THAT(checked_mul(Offset{1} << 32, Offset{1} << 32), StatusIs(ErrorCode::kOutOfRange));  // would wrap to 0
  EXPECT_THAT(checked_mul(kLowest, -1), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(checked_mul(kMaxBytes, 4), StatusIs(ErrorCode::kOutOfRange, HasSubstr("4611686018427387904 * 4")));
}

TEST(DivisionTest, RoundsTowardsTheNamedSide) {
  struct Case {
    Offset dividend, divisor, floor, ceil, mod;
  };
  for (const Case& c : {Case{7, 2, 3, 4, 1}, Case{-7, 2, -4, -3, 1}, Case{8, 2, 4, 4, 0}, Case{-8, 2, -4, -4, 0},
                        Case{0, 5, 0, 0, 0}, Case{-1, 5, -1, 0, 4}, Case{1, 5, 0, 1, 1}, Case{4, 1, 4, 4, 0},
                        Case{kHighest, 1, kHighest, kHighest, 0}, Case{kLowest, 1, kLowest, kLowest, 0},
                        Case{kHighest, kHighest, 1, 1, 0}, Case{kLowest, kHighest, -2, -1, kHighest - 1}}) {
    SCOPED_TRACE(concat(c.dividend, " / ", c.divisor));
    EXPECT_EQ(floor_div(c.dividend, c.divisor), c.floor);
    EXPECT_EQ(ceil_div(c.dividend, c.divisor), c.ceil);
    EXPECT_EQ(floor_mod(c.dividend, c.divisor), c.mod);
  }
}

TEST(DivisionTest, IsUsableInConstants) {
  static_assert(floor_div(-1, 4) == -1 && ceil_div(-1, 4) == 0 && floor_mod(-1, 4) == 3);
}

/// Any bit length, so that small and huge values are equally likely.
rc::Gen<Offset> any_offset() {
  return rc::gen::map(
      rc::gen::tuple(rc::gen::inRange(0, 64), rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<Offset>())),
      [](const auto& pair) { return std::get<1>(pair) >> std::get<0>(pair); });
}

RC_GTEST_PROP(CheckedAddProperty, AgreesWithWideArithmetic, ()) {
  const Offset a = *any_offset();
  const Offset b = *any_offset();
  const Wide exact = Wide{a} + b;
  const auto sum = checked_add(a, b);
  RC_ASSERT(sum.is_ok() == fits(exact));
  if (sum.is_ok()) RC_ASSERT(*sum == static_cast<Offset>(exact));
}

RC_GTEST_PROP(CheckedMulProperty, AgreesWithWideArithmetic, ()) {
  const Offset a = *any_offset();
  const Offset b = *any_offset();
  const Wide exact = Wide{a} * b;
  const auto product = checked_mul(a, b);
  RC_ASSERT(product.is_ok() == fits(exact));
  if (product.is_ok()) RC_ASSERT(*product == static_cast<Offset>(exact));
}

RC_GTEST_PROP(DivisionProperty, QuotientAndRemainderGiveTheDividendBack, ()) {
  const Offset a = *any_offset();
  const Offset b = *rc::gen::suchThat(any_offset(), [](Offset value) { return value > 0; });
  const Offset mod = floor_mod(a, b);
  RC_ASSERT(mod >= 0 && mod < b);
  RC_ASSERT(Wide{floor_div(a, b)} * b + mod == Wide{a});
  RC_ASSERT(ceil_div(a, b) == floor_div(a, b) + (mod == 0 ? 0 : 1));
}

}  // namespace
}  // namespace weir
