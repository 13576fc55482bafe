// Routes between two memories, against one byte at a time: by plan, by list, with memory in pieces, and the messages of
// parts of a range.

#include <cstring>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/testing/generate.h>
#include <weir/transfer/route.h>

namespace weir::transfer {
namespace {

using layout::Element;
using layout::oracle::Pattern;
using layout::oracle::Random;
using weir::testing::IsOk;
using weir::testing::StatusIs;

using Memory = std::vector<std::byte>;
using ByteMap = std::map<Offset, Offset>;  // byte of b of each byte of a that it has

constexpr layout::Budget kNothing{.runs = 1, .steps = 1};

Memory copy_numbered(Offset size, unsigned salt) {
  Memory bytes(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + salt) >> 9);
  return bytes;
}

std::byte& byte_at(Memory& memory, Offset offset) { return memory[static_cast<std::size_t>(offset)]; }

ByteMap shared_bytes(const Element& a, const Element& b, Range range) {
  ByteMap bytes;
  for (Offset x = range.from; x < range.to; ++x) {
    if (const auto y = layout::map_between(a, x, b)) bytes.emplace(x, *y);
  }
  return bytes;
}

Range hull_in_b(const ByteMap& bytes) {
  Range hull{bytes.empty() ? 0 : kMaxBytes, 0};
  for (const auto& byte : bytes) hull = {std::min(hull.from, byte.second), std::max(hull.to, byte.second + 1)};
  return hull;
}

struct Pair {
  Element a;
  Element b;
};

// Two elements that share bytes or not; nothing if the patterns make none.
std::optional<Pair> random_pair(Random& random) {
  const Pattern x = layout::oracle::random_pattern(random);
  const Pattern y = layout::oracle::random_pattern(random);
  auto a = Element::create(x.set, x.placement());
  auto b = Element::create(y.set, y.placement());
  if (!a.is_ok() || !b.is_ok() || a->is_empty() || b->is_empty()) return std::nullopt;
  return Pair{std::move(a).value(), std::move(b).value()};
}

// In two parts, as writers that begin in the middle do.
void expect_copies(const Route& route, const ByteMap& expected, Range range, Offset middle) {
  const Range hull = hull_in_b(expected);
  ASSERT_EQ(route.bytes(range), static_cast<Offset>(expected.size()));
  ASSERT_EQ(route.extent_b(range).from, hull.from);
  ASSERT_EQ(route.extent_b(range).to, hull.to);
  const Route::Step step = route.step(range);
  ASSERT_EQ(step.range.to, range.to);
  ASSERT_EQ(step.bytes, static_cast<Offset>(expected.size()));
  ASSERT_EQ(step.extent_b.from, hull.from);
  ASSERT_EQ(step.extent_b.to, hull.to);

  Memory a = copy_numbered(range.to, 3);
  Memory b = copy_numbered(hull.to, 4);
  Memory wanted_b = b;
  for (const auto& [x, y] : expected) byte_at(wanted_b, y) = byte_at(a, x);
  if (step.list) {
    route.copy_to_b(step, {a.data() + range.from, range.from}, {b.data() + hull.from, hull.from});
  } else {
    for (const Range keys : {Range{middle, range.to}, Range{range.from, middle}}) {
      route.copy_to_b(route.cut(step, keys), {a.data() + range.from, range.from}, {b.data() + hull.from, hull.from});
    }
  }
  ASSERT_EQ(b, wanted_b);

  Memory back = copy_numbered(range.to, 5);
  Memory cleared = back;
  Memory wanted_a = back;
  Memory zeros = back;
  for (const auto& [x, y] : expected) {
    byte_at(wanted_a, x) = byte_at(b, y);
    byte_at(zeros, x) = std::byte{0};
  }
  route.copy_to_a(step, {b.data() + hull.from, hull.from}, {back.data() + range.from, range.from});
  ASSERT_EQ(back, wanted_a);
  route.clear_a(step, {cleared.data() + range.from, range.from});
  ASSERT_EQ(cleared, zeros);
}

TEST(RouteCopyTest, CopiesAnyRangeOfRandomPairs) {
  int listed = 0;
  layout::oracle::for_cases(2000, [&](Random& random) {
    const std::optional<Pair> pair = random_pair(random);
    if (!pair) return;
    const bool is_forced = random.chance(30);
    const auto route = is_forced ? Route::between(pair->a, pair->b, kNothing) : Route::between(pair->a, pair->b);
    ASSERT_THAT(route, IsOk());
    ASSERT_TRUE(is_forced || !route->is_listed());
    listed += route->is_listed() ? 1 : 0;
    for (int i = 0; i < 4; ++i) {
      const Range range = layout::oracle::random_range(random, 400);
      if (range.from >= range.to) continue;
      SCOPED_TRACE(concat("range ", range.from, "..", range.to));
      expect_copies(*route, shared_bytes(pair->a, pair->b, range), range, random.between(range.from, range.to));
    }
  });
  EXPECT_GT(listed, 100);
}

TEST(RouteCopyTest, ListsSayWhyAndPackLikeBands) {
  layout::oracle::for_cases(1000, [](Random& random) {
    const std::optional<Pair> pair = random_pair(random);
    if (!pair) return;
    const auto route = Route::between(pair->a, pair->b, kNothing);
    ASSERT_THAT(route, IsOk());
    if (!route->is_listed()) return;
    EXPECT_THAT(route->why_listed(), StatusIs(ErrorCode::kTooComplex));
    EXPECT_TRUE(route->bands().empty());
    const Range range = layout::oracle::random_range(random, 300);
    const ByteMap expected = shared_bytes(pair->a, pair->b, range);
    Memory a = copy_numbered(range.to, 1);
    Memory message(expected.size());
    route->pack_a({a.data(), 0}, range, message.data());
    std::size_t i = 0;
    for (const auto& byte : expected) ASSERT_EQ(message[i++], byte_at(a, byte.first));
    Memory back = copy_numbered(range.to, 2);
    Memory wanted = back;
    for (const auto& byte : expected) byte_at(wanted, byte.first) = byte_at(a, byte.first);
    route->unpack_a(message.data(), range, {back.data(), 0});
    ASSERT_EQ(back, wanted);
    // Pieces are the same bytes, in the same order.
    auto next = expected.begin();
    for (auto cursor = route->pieces(range); const auto piece = cursor.next();) {
      for (Offset k = 0; k < piece->length; ++k, ++next) {
        ASSERT_EQ(piece->a + k, next->first);
        ASSERT_EQ(piece->b + k, next->second);
      }
    }
    ASSERT_EQ(next, expected.end());
  });
}

TEST(RouteCopyTest, BandsAreNotListed) {
  const auto a = Element::create({{0, 3, 0, 1, {}}}, {.disp = 0, .period = 8});
  const auto b = Element::create({{0, 7, 0, 1, {}}}, {.disp = 0, .period = 16});
  const auto c = Element::create({{4, 7, 0, 1, {}}}, {.disp = 0, .period = 8});
  const auto route = Route::between(*a, *b);
  ASSERT_THAT(route, IsOk());
  EXPECT_FALSE(route->is_listed());
  EXPECT_THAT(route->why_listed(), IsOk());
  EXPECT_FALSE(route->is_empty());
  EXPECT_TRUE(Route::between(*a, *c)->is_empty());
  EXPECT_TRUE(Route::between(*a, Element())->is_empty());
  EXPECT_TRUE(Route().is_empty());
  EXPECT_EQ(Route().bytes({0, 100}), 0);
}

// Memory in pieces: the second use of the same memory finds a plan, or the first if the access is long.
TEST(RouteCopyTest, MemoryInPiecesIsComposedIn) {
  int composed = 0;
  layout::oracle::for_cases(2000, [&](Random& random) {
    const std::optional<Pair> pair = random_pair(random);
    const Pattern z = layout::oracle::random_pattern(random);
    const auto memory = Element::create(z.set, z.placement());
    if (!pair || !memory.is_ok() || memory->is_empty()) return;
    const auto route = Route::between(pair->a, pair->b);
    ASSERT_THAT(route, IsOk());
    const Range range = layout::oracle::random_range(random, 200);
    if (range.from >= range.to) return;
    const ByteMap expected = shared_bytes(pair->a, pair->b, range);
    const Range hull = hull_in_b(expected);
    for (const auto direction : {Route::Direction::kToB, Route::Direction::kToA}) {
      EXPECT_FALSE(route->step(range, *memory, direction, Route::Compose::kWhenUsedAgain));
      const auto step = route->step(range, *memory, direction, Route::Compose::kWhenUsedAgain);
      if (!step) continue;
      ++composed;
      ASSERT_EQ(step->bytes, static_cast<Offset>(expected.size()));
      ASSERT_EQ(step->extent_b.to, hull.to);
      const auto place = [&](Offset x) { return *memory->unmap(x - range.from); };
      Offset end = 0;
      for (Offset x = range.from; x < range.to; ++x) end = std::max(end, place(x) + 1);
      Memory a = copy_numbered(end, 6);
      Memory b = copy_numbered(hull.to, 7);
      const bool to_b = direction == Route::Direction::kToB;
      Memory wanted = to_b ? b : a;
      for (const auto& [x, y] : expected)
        to_b ? byte_at(wanted, y) = byte_at(a, place(x)) : byte_at(wanted, place(x)) = byte_at(b, y);
      const Offset middle = random.between(step->keys.from, step->keys.to);
      for (const Range keys : {Range{middle, step->keys.to}, Range{step->keys.from, middle}}) {
        const Route::Step part = route->cut(*step, keys);
        to_b ? route->copy_to_b(part, {a.data(), range.from}, {b.data(), 0})
             : route->copy_to_a(part, {b.data(), 0}, {a.data(), range.from});
      }
      ASSERT_EQ(to_b ? b : a, wanted);
    }
  });
  EXPECT_GT(composed, 300);
}

TEST(RouteCopyTest, MemoryInPiecesIsComposedAtOnceOrWhenUsedAgain) {
  const auto every = Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1});
  const auto memory = Element::create({{0, 7, 0, 1, {}}}, {.disp = 0, .period = 16});
  const auto backwards = Element::create({{8, 15, 0, 1, {}}, {0, 7, 0, 1, {}}}, {.disp = 0, .period = 16});
  const auto route = Route::between(*every, *every);
  ASSERT_THAT(route, IsOk());
  EXPECT_TRUE(route->step({0, 1 << 20}, *memory, Route::Direction::kToB, Route::Compose::kAtOnce));
  EXPECT_FALSE(route->step({0, 1 << 10}, *memory, Route::Direction::kToB, Route::Compose::kWhenUsedAgain));
  EXPECT_TRUE(route->step({0, 1 << 10}, *memory, Route::Direction::kToB, Route::Compose::kWhenUsedAgain));
  EXPECT_FALSE(route->step({0, 1 << 20}, *backwards, Route::Direction::kToB, Route::Compose::kAtOnce))
      << "keys must ascend";
}

TEST(RouteCopyTest, RoutesOfAnElementGatherAndScatterItsBytesInOrder) {
  layout::oracle::for_cases(1000, [](Random& random) {
    const Pattern pattern = layout::oracle::random_pattern(random);
    const auto element = Element::create(pattern.set, pattern.placement());
    if (!element.is_ok() || element->is_empty()) return;
    SCOPED_TRACE(describe(pattern));
    const Route route = Route::of(*element);
    const Range range = layout::oracle::random_range(random, 300);
    if (range.from >= range.to) return;
    ASSERT_EQ(route.bytes(range), range.to - range.from);
    Offset end = 0;
    for (Offset y = range.from; y < range.to; ++y) end = std::max(end, *element->unmap(y) + 1);
    Memory strided = copy_numbered(end, 1);
    Memory packed(static_cast<std::size_t>(range.to - range.from));
    route.pack_b({strided.data(), 0}, range, packed.data());
    Memory back = copy_numbered(end, 2);
    Memory wanted = back;
    for (Offset y = range.from; y < range.to; ++y) {
      ASSERT_EQ(byte_at(packed, y - range.from), byte_at(strided, *element->unmap(y)));
      byte_at(wanted, *element->unmap(y)) = byte_at(strided, *element->unmap(y));
    }
    route.unpack_b(packed.data(), range, {back.data(), 0});
    ASSERT_EQ(back, wanted);
  });
}

// A part of a range finds its bytes in the message of the whole, and pieces say where those are.
TEST(RouteCopyTest, PartsOfARangeAreFoundInItsMessage) {
  layout::oracle::for_cases(1500, [](Random& random) {
    const std::optional<Pair> pair = random_pair(random);
    if (!pair) return;
    const auto route = Route::between(pair->a, pair->b);
    ASSERT_THAT(route, IsOk());
    const Range whole = layout::oracle::random_range(random, 300);
    if (whole.from >= whole.to) return;
    const Offset from = random.between(whole.from, whole.to);
    const Range part{from, random.between(from, whole.to)};
    const Range hull = route->extent_b(whole);
    Memory b = copy_numbered(hull.to, 1);
    Memory message(static_cast<std::size_t>(route->bytes(whole)));
    route->pack_b({b.data(), 0}, whole, message.data());

    Memory some(message.size());
    route->pack_b({b.data(), 0}, part, some.data(), whole);
    Memory wanted_some(message.size());
    Memory scattered = copy_numbered(hull.to, 2);
    Memory wanted_b = scattered;
    Offset bytes = 0;
    Route::MessageCursor cursor(*route, part, whole);
    while (const auto piece = cursor.next()) {
      bytes += piece->length;
      std::memcpy(&byte_at(wanted_some, piece->message), &byte_at(message, piece->message),
                  static_cast<std::size_t>(piece->length));
      std::memcpy(&byte_at(wanted_b, piece->b), &byte_at(message, piece->message),
                  static_cast<std::size_t>(piece->length));
      ASSERT_EQ(std::memcmp(&byte_at(b, piece->b), &byte_at(message, piece->message),
                            static_cast<std::size_t>(piece->length)),
                0);
    }
    ASSERT_EQ(bytes, route->bytes(part));
    ASSERT_EQ(some, wanted_some);
    route->unpack_b(message.data(), part, {scattered.data(), 0}, whole);
    ASSERT_EQ(scattered, wanted_b);
  });
}

}  // namespace
}  // namespace weir::transfer
