#include <weir/layout/binary.h>

#include <initializer_list>
#include <string_view>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using oracle::for_cases;
using oracle::Random;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::IsOkAndHolds;
using weir::testing::StatusIs;

using ByteVector = std::vector<std::byte>;

ByteVector bytes(std::initializer_list<unsigned> values) {
  ByteVector out;
  for (const unsigned value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

ByteVector encoded(std::string_view text) {
  const auto partition = parse(text);
  EXPECT_THAT(partition, IsOk()) << text;
  return encode(*partition);
}

// The form itself: stored metadata depends on these bytes, so they are written out here.

TEST(BinaryTest, WritesTheDocumentedBytes) {
  EXPECT_EQ(encoded("stripe(unit=64K, over=4)"), bytes({0xA1, 0x00, 0x80, 0x80, 0x04, 0x04}));
  EXPECT_EQ(encoded("stripe(disp=2, unit=3, over=4)"), bytes({0xA1, 0x20, 2, 3, 4}));
  EXPECT_EQ(
      encoded("hpf(shape=[8,9,10,11,12], elem=4, dist=(*,BLOCK,BLOCK(5),CYCLIC,CYCLIC(3)), grid=[1,2,2,3,4], order=F)"),
      bytes({0xA1, 0x11, 5, 4, 8, 9, 10, 11, 12, 1, 2, 2, 3, 4, 0, 1, 2, 5, 3, 4, 3}));
  EXPECT_EQ(encoded("tiles(shape=[8,9], elem=4, tile=[2,3], over=5)"), bytes({0xA1, 0x02, 2, 4, 8, 9, 2, 3, 5}));
  EXPECT_EQ(encoded("falls(disp=1, period=64, {(0,7,16,2,{(0,1,-,1)}),(40,41,-,1)} | {})"),
            bytes({0xA1, 0x63, 1, 64, 2, 2, 0, 7, 3, 16, 1, 0, 1, 0, 40, 1, 0, 0}));
  EXPECT_EQ(encode(FallsSet{{3, 5, 6, 5, {}}}), bytes({0xA1, 0x04, 1, 3, 2, 8, 6}));
  EXPECT_EQ(encode(FallsSet{}), bytes({0xA1, 0x04, 0}));
}

TEST(BinaryTest, IsShort) {
  EXPECT_LT(encoded("stripe(unit=64K, over=4)").size(), 8u);
  EXPECT_LT(encoded("stripe(unit=128M, over=100)").size(), 8u);
  EXPECT_LE(encoded("hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4])").size(), 12u);
}

void expect_round_trip(const Partition& partition) {
  SCOPED_TRACE(print(partition));
  const ByteVector form = encode(partition);
  const auto again = decode_partition(form);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->description(), partition.description());
  EXPECT_EQ(again->disp(), partition.disp());
  EXPECT_EQ(again->period(), partition.period());
  EXPECT_EQ(encode(*again), form);
}

Description random_explicit(Random& random) {
  Explicit out;
  const Offset count = random.between(1, 4);
  for (Offset i = 0; i < count; ++i) {
    out.elements.push_back(random.chance(15) ? FallsSet{} : oracle::random_set(random, {.max_depth = 4}));
  }
  return out;
}

Partition random_partition_of_any_kind(Random& random) {
  for (;;) {
    const bool is_explicit = random.chance(50);
    const Partition::Options options{.disp = random.chance(50) ? 0 : random.between(0, 5000),
                                     .period = is_explicit && random.chance(30) ? random.between(1, 4000) : 0};
    auto partition =
        Partition::create(is_explicit ? random_explicit(random) : oracle::random_description(random), options);
    if (partition.is_ok()) return std::move(partition).value();
  }
}

TEST(BinaryPropertyTest, DecodingUndoesEncoding) {
  for_cases(20000, [](Random& random) { expect_round_trip(random_partition_of_any_kind(random)); });
}

TEST(BinaryPropertyTest, DecodingUndoesEncodingOfSets) {
  for_cases(10000, [](Random& random) {
    const FallsSet set = oracle::random_set(random, {.max_depth = 5});
    EXPECT_THAT(decode_falls(encode(set)), IsOkAndHolds(set));
  });
}

TEST(BinaryTest, HoldsTheLargestNumbers) {
  for (const std::string_view text :
       {"stripe(unit=4194304T, over=1)", "stripe(disp=2097152T, unit=1048576T, over=2)", "falls(period=4194304T, {})",
        "falls({(0,0,1,4611686018427387904)})", "falls({(4611686018427387903,4611686018427387903,-,1)})",
        "falls({(0,4611686018427387903,-,1,{(0,0,2,2305843009213693952)})})",
        "hpf(shape=[9], elem=1, dist=(BLOCK(4611686018427387904)), grid=[2147483648])"}) {
    const auto partition = parse(text);
    ASSERT_THAT(partition, IsOk()) << text;
    expect_round_trip(*partition);
  }
}

// Hostile bytes.

/// Damaged bytes either do not decode, or are the one encoding of something else.
void expect_refused_or_canonical(const ByteVector& form) {
  if (const auto partition = decode_partition(form); partition.is_ok()) {
    EXPECT_EQ(encode(*partition), form);
  } else {
    EXPECT_THAT(partition, StatusIs(ErrorCode::kCorrupt));
  }
  if (const auto set = decode_falls(form); set.is_ok()) {
    EXPECT_EQ(encode(*set), form);
  } else {
    EXPECT_THAT(set, StatusIs(ErrorCode::kCorrupt));
  }
}

TEST(BinaryPropertyTest, EveryTruncationIsRefused) {
  for_cases(1000, [](Random& random) {
    const Partition partition = random_partition_of_any_kind(random);
    SCOPED_TRACE(print(partition));
    ByteVector form = encode(partition);
    while (!form.empty()) {
      form.pop_back();
      EXPECT_THAT(decode_partition(form), StatusIs(ErrorCode::kCorrupt)) << form.size();
    }
  });
}

TEST(BinaryPropertyTest, EveryDamagedByteIsRefusedOrCanonical) {
  for_cases(60, [](Random& random) {
    const Partition partition = random_partition_of_any_kind(random);
    SCOPED_TRACE(print(partition));
    ByteVector form = random.chance(80) ? encode(partition) : encode(oracle::random_set(random));
    for (std::byte& damaged : form) {
      const std::byte good = damaged;
      for (unsigned value = 0; value < 256; ++value) {
        damaged = static_cast<std::byte>(value);
        expect_refused_or_canonical(form);
      }
      damaged = good;
    }
  });
}

TEST(BinaryTest, RefusesWhatIsNotItsOwn) {
  struct Case {
    ByteVector form;
    std::string_view fragment;
  };
  const Case cases[] = {
      {bytes({}), "end too early"},
      {bytes({0xB1, 0x00, 1, 1}), "not an encoded layout"},
      {bytes({0xA2, 0x00, 1, 1}), "version 2"},
      {bytes({0xA1, 0x05, 1, 1}), "kind 5"},
      {bytes({0xA1, 0x04, 1, 1}), "kind 4"},
      {bytes({0xA1, 0x80, 1, 1}), "kind 128"},
      {bytes({0xA1, 0x10, 1, 1}), "kind 16"},
      {bytes({0xA1, 0x40, 2, 1, 1}), "kind 64"},
      {bytes({0xA1, 0x00, 1, 1, 0}), "do not belong"},
      {bytes({0xA1, 0x00, 0x81, 0x00, 1}), "longer than it has to be"},
      {bytes({0xA1, 0x20, 0, 1, 1}), "must not be"},
      {bytes({0xA1, 0x43, 2, 1, 1, 0, 1, 0}), "default"},
      {bytes({0xA1, 0x00, 0, 1}), "unit must be at least 1"},
      {bytes({0xA1, 0x00, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 1}), "larger than 2^62"},
      {bytes({0xA1, 0x00, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 1}), "more than 64 bits"},
      {bytes({0xA1, 0x00, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x81, 0, 1}), "more than 64 bits"},
      {bytes({0xA1, 0x03, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0}), "do not fit"},
      {bytes({0xA1, 0x01, 1, 1, 9, 1, 5}), "distribution 5"},
      {bytes({0xA1, 0x03, 1, 1, 0, 7, 1, 0}), "inner set is empty"},
      {bytes({0xA1, 0x03, 1, 1, 0, 3, 2, 1}), "shorter than the block"},
  };
  for (const Case& one : cases) {
    EXPECT_THAT(decode_partition(one.form), StatusIs(ErrorCode::kCorrupt, HasSubstr(std::string(one.fragment))));
  }
  EXPECT_THAT(decode_falls(encoded("stripe(unit=1, over=1)")), StatusIs(ErrorCode::kCorrupt, HasSubstr("byte 1 is 0")));
}

TEST(BinaryTest, LimitsTheDepthOfNesting) {
  for (const int depth : {kMaxDepth, kMaxDepth + 1, 1000, 100000}) {
    ByteVector form = bytes({0xA1, 0x04});
    for (int i = 0; i < depth; ++i) {
      for (const unsigned value : {1u, 0u, 0u, i + 1 < depth ? 1u : 0u}) form.push_back(static_cast<std::byte>(value));
    }
    const auto set = decode_falls(form);
    if (depth <= kMaxDepth) {
      ASSERT_THAT(set, IsOk());
      EXPECT_EQ(encode(*set), form);
    } else {
      EXPECT_THAT(set, StatusIs(ErrorCode::kCorrupt, HasSubstr("64 deep")));
    }
  }
}

}  // namespace
}  // namespace weir::layout
