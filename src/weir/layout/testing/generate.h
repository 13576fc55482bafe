#pragma once

// Random patterns for property tests: small enough to list every byte, odd enough to hurt.  For tests only, not
// installed.
//
// Every case has a number that is its seed; a failing test prints it.  WEIR_TEST_SEED shifts all of them: the same
// value gives the same cases again.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <weir/layout/partition.h>
#include <weir/layout/testing/oracle.h>

namespace weir::layout::oracle {

inline std::uint64_t base_seed() {
  static const std::uint64_t seed = [] {
    const char* text = std::getenv("WEIR_TEST_SEED");
    return text == nullptr ? std::uint64_t{0} : std::strtoull(text, nullptr, 10);
  }();
  return seed;
}

/// FALLS of one byte, nested `depth` deep.
inline FallsSet chain(int depth) {
  FallsSet set = {{0, 0, 0, 1, {}}};
  for (int i = 1; i < depth; ++i) {
    Falls outer{0, 0, 0, 1, {}};
    outer.inner.swap(set);
    set.push_back(std::move(outer));
  }
  return set;
}

/// An element that is known to be valid.
inline Element make(FallsSet set, Element::Placement placement) {
  auto element = Element::create(std::move(set), placement);
  EXPECT_TRUE(element.is_ok()) << element.status().message();
  return element.is_ok() ? *element : Element{};
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {}

  /// splitmix64: cheap to seed, so that every case can have a generator of its own.
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// In [low, high].
  Offset between(Offset low, Offset high) {
    return low + static_cast<Offset>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(0, 99) < percent; }

  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(between(0, static_cast<Offset>(i) - 1))]);
    }
  }

 private:
  std::uint64_t state_;
};

/// Runs `body(random)` for `count` cases, each with a seed of its own; stops at the first that fails.
template <typename Body>
void for_cases(std::uint64_t count, Body body) {
  for (std::uint64_t i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(::testing::Message() << "case " << i << " of WEIR_TEST_SEED=" << base_seed());
    Random random(base_seed() * 1000003 + i);
    body(random);
  }
}

struct SetOptions {
  int max_depth = 3;
  Offset max_members = 3;
  Offset max_bytes = 64;
  Offset max_extent = 200;
};

/// One past the last byte of any block, whether the inner set uses it or not.
inline Offset block_end(const FallsSet& set) {
  Offset end = 0;
  for (const Falls& falls : set) end = std::max(end, falls.right + 1 + (falls.count - 1) * falls.stride);
  return end;
}

inline FallsSet any_set(Random& random, int depth, Offset max_members);

inline Falls any_falls(Random& random, int depth) {
  Falls falls;
  falls.left = random.between(0, 6);
  falls.count = random.chance(30) ? 1 : random.between(2, 4);
  Offset length = random.between(1, 5);
  if (depth > 1 && random.chance(60)) {
    falls.inner = any_set(random, depth - 1, 2);
    length = block_end(falls.inner) + (random.chance(30) ? random.between(0, 3) : 0);
  }
  falls.right = falls.left + length - 1;
  const bool interleaves = !falls.inner.empty() && random.chance(50);
  if (falls.count > 1) {
    falls.stride = interleaves ? random.between(1, length) : length + (random.chance(30) ? 0 : random.between(0, 8));
  }
  return falls;
}

inline FallsSet any_set(Random& random, int depth, Offset max_members) {
  FallsSet set;
  const Offset members = random.between(1, max_members);
  Offset at = 0;
  for (Offset i = 0; i < members; ++i) {
    Falls falls = any_falls(random, depth);
    if (random.chance(60)) {  // else it may lie anywhere, also among its neighbours
      falls.left += at;
      falls.right += at;
    }
    at = std::max(at, block_end({falls}));
    set.push_back(std::move(falls));
  }
  if (random.chance(25)) random.shuffle(set);
  return set;
}

/// A set that check() accepts.  Bytes may occur twice.
inline FallsSet random_set(Random& random, const SetOptions& options = {}) {
  for (;;) {
    FallsSet set = any_set(random, static_cast<int>(random.between(1, options.max_depth)), options.max_members);
    const Bytes bytes = expand(set);
    if (static_cast<Offset>(bytes.size()) <= options.max_bytes && block_end(set) <= options.max_extent) return set;
  }
}

/// A small array walked with its loops in any order: strides are mostly shorter than blocks.
inline FallsSet interchanged_set(Random& random) {
  const auto rank = static_cast<std::size_t>(random.between(2, 3));
  std::vector<Offset> extents(rank);
  for (Offset& extent : extents) extent = random.between(1, 4);
  std::vector<Offset> steps(rank);
  Offset step = random.between(1, 3);
  const Offset elem = random.between(1, step);
  for (std::size_t d = rank; d-- > 0;) {
    steps[d] = step;
    step *= extents[d] + (random.chance(20) ? 1 : 0);  // sometimes a part of a wider array
  }
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  random.shuffle(order);
  FallsSet set = {{0, elem - 1, 0, 1, {}}};
  for (const std::size_t d : order) {
    const Offset length = block_end(set);
    if (set.front().count == 1 && set.front().is_leaf() && steps[d] >= length && random.chance(50)) {
      set = {{0, length - 1, extents[d] > 1 ? steps[d] : 0, extents[d], {}}};
    } else {
      set = {{0, length - 1, extents[d] > 1 ? steps[d] : 0, extents[d], std::move(set)}};
    }
  }
  return set;
}

/// Turns a list of bytes into FALLS that mean just that sequence, grouped by chance.
inline FallsSet group(Random& random, const Bytes& bytes) {
  std::vector<Segment> segments;
  for (const Offset byte : bytes) {
    if (!segments.empty() && segments.back().end() == byte && !random.chance(10)) {
      ++segments.back().length;
    } else {
      segments.push_back({byte, 1});
    }
  }
  FallsSet set;
  for (std::size_t i = 0; i < segments.size();) {
    Falls falls{segments[i].offset, segments[i].end() - 1, 0, 1, {}};
    for (++i; i < segments.size() && segments[i].length == falls.block_length() && random.chance(85); ++i) {
      const Offset stride = segments[i].offset - (falls.left + (falls.count - 1) * falls.stride);
      if (stride < falls.block_length() || (falls.count > 1 && stride != falls.stride)) break;
      falls.stride = stride;
      ++falls.count;
    }
    set.push_back(std::move(falls));
  }
  if (set.size() > 1 && random.chance(30)) {  // wrap some neighbours into one block
    const auto first = static_cast<std::size_t>(random.between(0, static_cast<Offset>(set.size()) - 2));
    const auto last =
        static_cast<std::size_t>(random.between(static_cast<Offset>(first), static_cast<Offset>(set.size()) - 1));
    Falls outer;
    outer.inner.assign(set.begin() + static_cast<std::ptrdiff_t>(first),
                       set.begin() + static_cast<std::ptrdiff_t>(last) + 1);
    outer.left = outer.inner.front().left;
    for (const Falls& falls : outer.inner) outer.left = std::min(outer.left, falls.left);
    for (Falls& falls : outer.inner) {
      falls.left -= outer.left;
      falls.right -= outer.left;
    }
    outer.right = outer.left + block_end(outer.inner) - 1;
    set.erase(set.begin() + static_cast<std::ptrdiff_t>(first), set.begin() + static_cast<std::ptrdiff_t>(last) + 1);
    set.insert(set.begin() + static_cast<std::ptrdiff_t>(first), std::move(outer));
  }
  return set;
}

/// Any sequence of distinct bytes below `period`: some of the bytes, ascending or with pieces out of order.
inline FallsSet scattered_set(Random& random, Offset period) {
  Bytes bytes;
  const int keep = static_cast<int>(random.between(20, 100));
  for (Offset x = 0; x < period; ++x) {
    if (random.chance(keep)) bytes.push_back(x);
  }
  if (random.chance(40)) {
    for (std::size_t at = 0; at + 1 < bytes.size();) {  // rotate neighbourhoods
      const std::size_t size = std::min<std::size_t>(bytes.size() - at, static_cast<std::size_t>(random.between(1, 6)));
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
      std::rotate(begin, begin + static_cast<std::ptrdiff_t>(size / 2), begin + static_cast<std::ptrdiff_t>(size));
      at += size;
    }
  }
  return group(random, bytes);
}

struct PatternOptions {
  Offset max_period = 48;
  Offset max_disp = 20;
};

/// An element without doubled bytes: nested, interleaved, loop-interchanged, scattered or empty.
inline Pattern random_pattern(Random& random, const PatternOptions& options = {}) {
  Pattern pattern;
  for (;;) {
    const Offset kind = random.between(0, 99);
    if (kind < 45) {
      pattern.set = random_set(random, {.max_extent = options.max_period});
    } else if (kind < 70) {
      pattern.set = interchanged_set(random);
    } else if (kind < 97) {
      pattern.set = scattered_set(random, random.between(1, options.max_period));
    } else {
      pattern.set = {};
    }
    const Bytes bytes = expand(pattern.set);
    const Offset extent = end_of(bytes);
    if (has_duplicates(bytes) || extent > options.max_period) continue;
    pattern.period = std::max<Offset>(1, extent);
    if (random.chance(50)) pattern.period = random.between(pattern.period, options.max_period);
    pattern.disp = random.chance(40) ? 0 : random.between(0, options.max_disp);
    return pattern;
  }
}

/// Sets that are disjoint and cover [0, period): a random owner for every byte, by runs, by rule or one by one.
inline std::vector<FallsSet> random_partition(Random& random, Offset period, Offset elements) {
  std::vector<Bytes> bytes(static_cast<std::size_t>(elements));
  const Offset kind = random.between(0, 2);
  const Offset unit = random.between(1, 4);
  std::size_t owner = 0;
  for (Offset x = 0; x < period; ++x) {
    if (kind == 0 || (kind == 1 && random.chance(30)))
      owner = static_cast<std::size_t>(random.between(0, elements - 1));
    if (kind == 2) owner = static_cast<std::size_t>(x / unit % elements);
    bytes[owner].push_back(x);
  }
  std::vector<FallsSet> sets;
  for (Bytes& list : bytes) {
    if (random.chance(30) && list.size() > 1) {
      std::rotate(list.begin(), list.begin() + random.between(0, static_cast<Offset>(list.size()) - 1), list.end());
    }
    sets.push_back(group(random, list));
  }
  return sets;
}

/// A regular partition whose elements are monotone: stripe or hpf.
inline Description random_monotone_description(Random& random) {
  if (random.chance(40)) return Stripe{.unit = random.between(1, 7), .over = random.between(1, 4)};
  Hpf hpf;
  hpf.elem = random.between(1, 3);
  hpf.order = random.chance(30) ? ArrayOrder::kFortran : ArrayOrder::kC;
  const Offset rank = random.between(1, 3);
  for (Offset d = 0; d < rank; ++d) {
    const Offset extent = random.between(1, rank == 3 ? 4 : 7);
    const Offset processes = random.between(1, 3);
    const Offset kind = random.between(0, 4);
    hpf.shape.push_back(extent);
    if (kind == 0) {
      hpf.dist.push_back({Dist::Kind::kWhole, 0});
      hpf.grid.push_back(1);
      continue;
    }
    hpf.grid.push_back(processes);
    if (kind <= 2) {
      const Offset least = ceil_div(extent, processes);
      hpf.dist.push_back({Dist::Kind::kBlock, kind == 1 ? 0 : random.between(least, least + 2)});
    } else {
      hpf.dist.push_back({Dist::Kind::kCyclic, kind == 3 ? 0 : random.between(1, 3)});
    }
  }
  return hpf;
}

/// Stripe, hpf or tiles.
inline Description random_description(Random& random) {
  if (random.chance(70)) return random_monotone_description(random);
  Tiles tiles;
  tiles.elem = random.between(1, 2);
  tiles.over = random.between(1, 3);
  tiles.order = random.chance(30) ? ArrayOrder::kFortran : ArrayOrder::kC;
  const Offset rank = random.between(1, 2);
  for (Offset d = 0; d < rank; ++d) {
    tiles.shape.push_back(random.between(1, 6));
    tiles.tile.push_back(random.between(1, 4));
  }
  return tiles;
}

/// Inside [0, end]; sometimes all of it, often from and to the middle of something.
inline Range random_range(Random& random, Offset end) {
  Range range{random.between(0, end), random.between(0, end)};
  if (range.from > range.to) std::swap(range.from, range.to);
  if (random.chance(20)) range.from = 0;
  return range;
}

}  // namespace weir::layout::oracle
