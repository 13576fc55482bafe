#include <weir/transfer/route.h>

#include <cstring>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/binary.h>
#include <weir/layout/language.h>
#include <weir/layout/testing/generate.h>

namespace weir::transfer {
namespace {

using layout::Element;
using layout::Mapping;
using layout::oracle::Pattern;
using layout::oracle::Random;
using weir::testing::IsOk;
using weir::testing::StatusIs;

using Bytes = std::vector<std::byte>;

Bytes range_numbered(Offset size, unsigned salt) {
  Bytes bytes(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + salt) >> 7);
  return bytes;
}

// As a server gets it.
Route over_the_wire(const Route& packing) {
  const auto sent = [](const Element& element) {
    const auto set = layout::decode_falls(layout::encode(element.falls()));
    EXPECT_THAT(set, IsOk());
    const auto copy = Element::create(*set, {.disp = element.disp(), .period = element.period()});
    EXPECT_THAT(copy, IsOk());
    return *copy;
  };
  std::vector<Route::Band> bands;
  for (const Route::Band& band : packing.bands()) bands.push_back({sent(band.a), sent(band.b)});
  const auto received = Route::create(std::move(bands));
  EXPECT_THAT(received, IsOk());
  return *received;
}

// Which byte of b byte x of a is, for all of a range that b has.
std::map<Offset, Offset> listed(const Element& a, const Element& b, Range range) {
  std::map<Offset, Offset> bytes;
  for (Offset x = range.from; x < range.to; ++x) {
    if (const auto y = layout::map_between(a, x, b)) bytes.emplace(x, *y);
  }
  return bytes;
}

void expect_direct(const std::optional<Offset>& direct, const Bytes& message, const Bytes& memory) {
  if (!direct) return;
  ASSERT_EQ(std::memcmp(message.data(), memory.data() + *direct, message.size()), 0);
}

void expect_carries(const Route& client, const Route& server, const std::map<Offset, Offset>& expected, Range range) {
  Offset b_from = kMaxBytes;
  Offset b_end = 0;
  for (const auto& byte : expected) {
    b_from = std::min(b_from, byte.second);
    b_end = std::max(b_end, byte.second + 1);
  }
  const auto count = static_cast<Offset>(expected.size());
  ASSERT_EQ(client.bytes(range), count);
  ASSERT_EQ(server.bytes(range), count);
  if (count == 0) {
    ASSERT_EQ(server.extent_b(range).from, server.extent_b(range).to);
    return;
  }
  ASSERT_EQ(server.extent_b(range).from, b_from);
  ASSERT_EQ(server.extent_b(range).to, b_end);

  const Bytes a = range_numbered(range.to, 1);
  Bytes b = range_numbered(b_end, 77);
  Bytes wanted = b;
  for (const auto& byte : expected)
    wanted[static_cast<std::size_t>(byte.second)] = a[static_cast<std::size_t>(byte.first)];
  Bytes message(expected.size());
  client.pack_a({a.data() + range.from, range.from}, range, message.data());
  server.unpack_b(message.data(), range, {b.data() + b_from, b_from});
  ASSERT_EQ(b, wanted);
  expect_direct(client.direct_a(range), message, a);
  expect_direct(server.direct_b(range), message, b);

  Bytes back(expected.size());
  server.pack_b({b.data(), 0}, range, back.data());
  ASSERT_EQ(back, message);
  Bytes a_again = range_numbered(range.to, 9);
  Bytes a_wanted = a_again;
  for (const auto& byte : expected)
    a_wanted[static_cast<std::size_t>(byte.first)] = a[static_cast<std::size_t>(byte.first)];
  client.unpack_a(back.data(), range, {a_again.data(), 0});
  ASSERT_EQ(a_again, a_wanted);
}

// A range whose message is contiguous on a side must be found to be so when there is just one band in it.
void expect_finds_direct(const Route& packing, const std::map<Offset, Offset>& expected, Range range) {
  if (packing.bands().size() != 1 || expected.empty()) return;
  bool a_goes_on = true;
  bool b_goes_on = true;
  for (auto next = std::next(expected.begin()); next != expected.end(); ++next) {
    a_goes_on = a_goes_on && next->first == std::prev(next)->first + 1;
    b_goes_on = b_goes_on && next->second == std::prev(next)->second + 1;
  }
  ASSERT_EQ(packing.direct_a(range).has_value(), a_goes_on);
  ASSERT_EQ(packing.direct_b(range).has_value(), b_goes_on);
}

void expect_carries_any_range(const Element& a, const Element& b, const Mapping& mapping, Offset end, Random& random) {
  const auto client = Route::create(mapping);
  ASSERT_THAT(client, IsOk());
  const Route server = over_the_wire(*client);
  for (int i = 0; i < 6; ++i) {
    const Range range = layout::oracle::random_range(random, end);
    SCOPED_TRACE(concat("range ", range.from, "..", range.to));
    const auto expected = listed(a, b, range);
    expect_carries(*client, server, expected, range);
    expect_finds_direct(*client, expected, range);
  }
}

TEST(RouteTest, CarriesAnyRangeOfRandomPairs) {
  layout::oracle::for_cases(3000, [](Random& random) {
    const Pattern x = layout::oracle::random_pattern(random);
    const Pattern y = layout::oracle::random_pattern(random);
    const auto a = Element::create(x.set, x.placement());
    const auto b = Element::create(y.set, y.placement());
    if (!a.is_ok() || !b.is_ok() || a->is_empty()) return;
    SCOPED_TRACE(describe(x) + " to " + describe(y));
    const auto mapping = layout::intersect(*a, *b);
    ASSERT_THAT(mapping, IsOk());
    expect_carries_any_range(*a, *b, *mapping, 300, random);
  });
}

TEST(RouteTest, CarriesAnyRangeOfViewsOfLayouts) {
  layout::oracle::for_cases(1500, [](Random& random) {
    const auto views = layout::Partition::create(layout::oracle::random_description(random));
    const auto layout = layout::Partition::create(layout::oracle::random_description(random));
    ASSERT_THAT(views, IsOk());
    ASSERT_THAT(layout, IsOk());
    const auto a = views->element(random.between(0, views->element_count() - 1));
    const auto b = layout->element(random.between(0, layout->element_count() - 1));
    ASSERT_THAT(a, IsOk());
    ASSERT_THAT(b, IsOk());
    if (a->is_empty()) return;
    SCOPED_TRACE(layout::print(*views) + " on " + layout::print(*layout));
    const auto mapping = layout::intersect(*a, *b);
    ASSERT_THAT(mapping, IsOk());
    expect_carries_any_range(*a, *b, *mapping, 500, random);
  });
}

TEST(RouteTest, StopsWhereAFiniteMappingEnds) {
  layout::oracle::for_cases(500, [](Random& random) {
    const Pattern x = layout::oracle::random_pattern(random);
    const Pattern y = layout::oracle::random_pattern(random);
    const auto a = Element::create(x.set, x.placement());
    const auto b = Element::create(y.set, y.placement());
    if (!a.is_ok() || !b.is_ok() || a->is_empty()) return;
    SCOPED_TRACE(describe(x) + " to " + describe(y));
    const Range window = layout::oracle::random_range(random, 200);
    const auto mapping = layout::intersect(*a, *b, layout::Window{.file = {}, .a = window, .b = {}});
    ASSERT_THAT(mapping, IsOk());
    const auto packing = Route::create(*mapping);
    ASSERT_THAT(packing, IsOk());
    const auto expected = listed(*a, *b, window);
    expect_carries(*packing, over_the_wire(*packing), expected, {window.from, window.to});
    ASSERT_EQ(packing->bytes({0, kMaxBytes}), static_cast<Offset>(expected.size()));
  });
}

TEST(RouteTest, NeedsAFewBandsHoweverLargeTheArray) {
  const auto rows = layout::parse("hpf(shape=[1M,1M], elem=8, dist=(BLOCK,*), grid=[4,1])");
  const auto columns = layout::parse("hpf(shape=[1M,1M], elem=8, dist=(*,BLOCK), grid=[1,4])");
  ASSERT_THAT(rows, IsOk());
  ASSERT_THAT(columns, IsOk());
  const auto mapping = layout::intersect(*rows->element(1), *columns->element(2));
  ASSERT_THAT(mapping, IsOk());
  const auto packing = Route::create(*mapping);
  ASSERT_THAT(packing, IsOk());
  EXPECT_LE(packing->bands().size(), 2U);
  const Offset row = Offset{8} << 20;
  EXPECT_EQ(packing->bytes({0, row}), row / 4);
  EXPECT_EQ(packing->direct_a({0, row}), row / 2);                            // a row: the third quarter of it
  EXPECT_EQ(packing->direct_b({0, row}), (Offset{1} << 18) * (row / 4));      // after the rows of the process before
  EXPECT_FALSE(packing->direct_a({0, 2 * row}));                              // two rows: gathered at the client
  EXPECT_EQ(packing->direct_b({0, 2 * row}), (Offset{1} << 18) * (row / 4));  // and in one piece at the target
}

// As a hostile or merely different client may send them: bands with short periods, in any order on the subfile's side.
// The extent is the memory that a server makes ready: it holds every byte, and at most the rest of the first and last
// period more.
TEST(RouteTest, ExtentsHoldAllBytesAcrossPeriodEnds) {
  int across = 0;
  layout::oracle::for_cases(1500, [&](Random& random) {
    const Pattern pattern = layout::oracle::random_pattern(random);
    const auto b = Element::create(pattern.set, pattern.placement());
    if (!b.is_ok() || b->is_empty()) return;
    // Fewer bytes below 2^62 than b: the longer period sees to that.
    const Offset spacing = 2 * b->period() + b->disp();
    const auto a = Element::create({{0, b->size() - 1, 0, 1, {}}}, {.disp = 0, .period = spacing});
    ASSERT_THAT(a, IsOk());
    SCOPED_TRACE(describe(pattern));
    const auto packing = Route::create({{*a, *b}});
    ASSERT_THAT(packing, IsOk());
    for (int i = 0; i < 6; ++i) {
      const Range range = layout::oracle::random_range(random, 4 * spacing);
      const Range items{a->count_below(range.from), a->count_below(range.to)};
      if (items.from >= items.to) continue;
      SCOPED_TRACE(concat("range ", range.from, "..", range.to));
      Range exact{kMaxBytes, 0};
      for (Offset k = items.from; k < items.to; ++k) {
        exact = {std::min(exact.from, *b->unmap(k)), std::max(exact.to, *b->unmap(k) + 1)};
      }
      const Range extent = packing->extent_b(range);
      const Offset first = items.from / b->size();
      const Offset last = (items.to - 1) / b->size();
      across += first != last ? 1 : 0;
      if (first == last || b->is_monotone()) {
        ASSERT_EQ(extent.from, exact.from);
        ASSERT_EQ(extent.to, exact.to);
      }
      ASSERT_LE(extent.from, exact.from);
      ASSERT_GE(extent.to, exact.to);
      ASSERT_EQ((extent.from - b->disp()) / b->period(), first);
      ASSERT_EQ((extent.to - 1 - b->disp()) / b->period(), last);
    }
  });
  EXPECT_GT(across, 1000);
}

TEST(RouteTest, RangesAreClippedToTheFile) {
  const auto a = Element::create({{0, 3, 0, 1, {}}}, {.disp = 0, .period = 8});
  const auto b = Element::create({{4, 7, 0, 1, {}}}, {.disp = 0, .period = 8});
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  const auto packing = Route::create({{*a, *b}});
  ASSERT_THAT(packing, IsOk());
  const Offset furthest = std::numeric_limits<Offset>::max();
  EXPECT_EQ(packing->bytes({std::numeric_limits<Offset>::min(), furthest}), kMaxBytes / 2);
  EXPECT_EQ(packing->bytes({kMaxBytes - 6, furthest}), 2);
  EXPECT_EQ(packing->bytes({kMaxBytes, furthest}), 0);
  EXPECT_EQ(packing->bytes({5, 3}), 0);
  EXPECT_EQ(packing->extent_b({-100, 2}).from, 4);
  EXPECT_EQ(packing->extent_b({-100, 2}).to, 6);
  EXPECT_EQ(packing->extent_b({kMaxBytes - 6, furthest}).to, kMaxBytes);
  EXPECT_EQ(packing->extent_b({4, 8}).to, 0);  // a gap of the view
  EXPECT_EQ(packing->extent_b({4, 8}).from, 0);
  EXPECT_EQ(packing->direct_a({4, 8}), std::nullopt);
}

// Elements whose order is their own reach beyond 2^62 in the last period of the file; their bands must not.
TEST(RouteTest, BandsEndWithTheFile) {
  int checked = 0;
  layout::oracle::for_cases(1500, [&](Random& random) {
    const Pattern x = layout::oracle::random_pattern(random);
    const Pattern y = layout::oracle::random_pattern(random);
    const auto a = Element::create(x.set, x.placement());
    // Against the file itself offsets go furthest.
    const auto b = random.chance(50) ? Element::create({{0, 0, 0, 1, {}}}, {.disp = random.between(0, 20), .period = 1})
                                     : Element::create(y.set, y.placement());
    if (!a.is_ok() || !b.is_ok() || a->is_empty()) return;
    SCOPED_TRACE(describe(x) + " to " + describe(y));
    const auto mapping = layout::intersect(*a, *b);
    ASSERT_THAT(mapping, IsOk());
    const auto packing = Route::create(*mapping);
    ASSERT_THAT(packing, IsOk());
    for (const Route::Band& band : packing->bands()) {
      ASSERT_LE(layout::extent(band.a.falls()), kMaxBytes);
      ASSERT_LE(layout::extent(band.b.falls()), kMaxBytes);
      ++checked;
    }
    over_the_wire(*packing);  // a server takes them
  });
  EXPECT_GT(checked, 1000);
}

// Rows of 3 x 4 bytes that lie by columns in the file: of the last one, which the end of the file cuts, only the first
// byte has an offset below 2^62.
TEST(RouteTest, InnerLoopsCountAtTheEndOfTheFile) {
  const auto a = Element::create({{0, 9, 1, 3, {{0, 0, 3, 4, {}}}}}, {.disp = 0, .period = 12});
  const auto b = Element::create({{0, 0, 0, 1, {}}}, {.disp = 4, .period = 1});
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  const auto mapping = layout::intersect(*a, *b);
  ASSERT_THAT(mapping, IsOk());
  EXPECT_THAT(Route::create(*mapping), IsOk());
}

TEST(RouteTest, DirectMeansOnePieceOverAllBands) {
  const auto element = [](Offset from, Offset to, Offset period) {
    return *Element::create({{from, to, 0, 1, {}}}, {.disp = 0, .period = period});
  };
  // Two bands that follow each other in the view, but not in the subfile, and the other way round.
  const auto gap_b = Route::create({{element(0, 3, 64), element(0, 3, 64)}, {element(4, 7, 64), element(8, 11, 64)}});
  ASSERT_THAT(gap_b, IsOk());
  EXPECT_EQ(gap_b->direct_a({0, 8}), 0);
  EXPECT_EQ(gap_b->direct_b({0, 8}), std::nullopt);
  EXPECT_EQ(gap_b->direct_b({4, 8}), 8);
  const auto gap_a = Route::create({{element(0, 3, 64), element(0, 3, 64)}, {element(8, 11, 64), element(4, 7, 64)}});
  ASSERT_THAT(gap_a, IsOk());
  EXPECT_EQ(gap_a->direct_a({0, 12}), std::nullopt);
  EXPECT_EQ(gap_a->direct_b({0, 12}), 0);
}

TEST(RouteTest, RefusesMoreBandsThanServersKeep) {
  const auto element = *Element::create({{0, 3, 0, 1, {}}}, {.disp = 0, .period = 64});
  EXPECT_THAT(Route::create(std::vector<Route::Band>(1024, {element, element})), IsOk());
  EXPECT_THAT(Route::create(std::vector<Route::Band>(1025, {element, element})),
              StatusIs(ErrorCode::kInvalidArgument, ::testing::HasSubstr("1025")));
}

TEST(RouteTest, RefusesBandsThatDoNotFit) {
  const auto element = [](layout::FallsSet set) { return *Element::create(std::move(set), {.disp = 0, .period = 64}); };
  const Element four = element({{0, 3, 0, 1, {}}});
  const Element eight = element({{0, 7, 0, 1, {}}});
  const Element backwards = element({{4, 5, 0, 1, {}}, {0, 1, 0, 1, {}}});
  EXPECT_THAT(Route::create({{four, eight}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Route::create({{backwards, four}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Route::create({{four, backwards}}), IsOk());
  const auto sparse = Element::create({{0, 3, 0, 1, {}}}, {.disp = 0, .period = kMaxBytes});
  EXPECT_THAT(Route::create({{four, *sparse}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Route::create({{Element(), Element()}}), StatusIs(ErrorCode::kInvalidArgument));
}

}  // namespace
}  // namespace weir::transfer
