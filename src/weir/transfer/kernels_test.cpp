#include <weir/transfer/internal/kernels.h>

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <weir/layout/testing/generate.h>
#include <weir/transfer/internal/kernels_internal.h>

namespace weir::transfer::internal {
namespace {

using layout::oracle::Random;

using Bytes = std::vector<std::byte>;

std::size_t to_index(Offset offset) { return static_cast<std::size_t>(offset); }

Bytes kernel_noise(Random& random, Offset size) {
  Bytes bytes(to_index(size));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits() & 0xff);
  return bytes;
}

// Every instruction set that this machine has.
struct Set {
  const char* name;
  Kernel (*kernel)(Offset) noexcept;
  TileKernel (*tile)(Offset) noexcept;
  TileKernel (*row)(Offset) noexcept;
  Kernel (*bypass)(Offset, const Step&) noexcept;
  PieceKernel piece;
  ListKernel list;
  IndexKernels (*to_index)(Offset) noexcept;
};

std::vector<Set> sets() {
  std::vector<Set> all{
      {"chosen", choose_kernel, choose_tile_kernel, choose_row_kernel, choose_bypass_kernel, choose_piece_kernel(),
       choose_list_kernel(), choose_index_kernels},
      {"baseline", baseline::kernel_for, baseline::tile_kernel_for, baseline::row_kernel_for,
       baseline::bypass_kernel_for, baseline::copy_piece, baseline::copy_list, baseline::index_kernels_for}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    all.push_back({"avx2", avx2::kernel_for, avx2::tile_kernel_for, avx2::row_kernel_for, avx2::bypass_kernel_for,
                   avx2::copy_piece, avx2::copy_list, avx2::index_kernels_for});
#endif
  return all;
}

std::vector<Offset> lengths() {
  std::vector<Offset> all;
  for (Offset length = 1; length <= 420; ++length) all.push_back(length);  // every tail of every loop
  for (const Offset length : {1000, 1024, 1025, 4096, 5000, 32767, 32768, 32769}) all.push_back(length);
  return all;
}

Offset span_of(const Step& step, Offset length, Offset side) {
  return step.count == 0 ? 0 : (step.count - 1) * side + length;
}

// Memory on both sides of two nested loops: the source ends where the last block ends, so that an address sanitizer
// sees a read behind it; the target has guard bytes around it, and gaps whose bytes must survive.
class Field {
 public:
  Field(Random& random, Offset length, const Step& outer, const Step& inner)
      : length_(length),
        outer_(outer),
        inner_(inner),
        skew_(random.between(0, 63)),
        guard_(64 + random.between(0, 63)) {
    const bool is_empty = outer.count == 0 || inner.count == 0;
    const Offset read = is_empty ? 0 : span_of(outer, span_of(inner, length, inner.source), outer.source);
    const Offset written = is_empty ? 0 : span_of(outer, span_of(inner, length, inner.target), outer.target);
    source_ = kernel_noise(random, skew_ + read);
    target_ = kernel_noise(random, guard_ + written + 64);
    expected_ = target_;
    for (Offset i = 0; i < outer.count; ++i) {
      for (Offset j = 0; j < inner.count; ++j) {
        std::memcpy(expected_.data() + guard_ + i * outer.target + j * inner.target,
                    source_.data() + skew_ + i * outer.source + j * inner.source, to_index(length));
      }
    }
  }

  [[nodiscard]] const std::byte* source() const { return source_.data() + skew_; }
  [[nodiscard]] std::byte* target() { return target_.data() + guard_; }

  void expect_right(const char* name) const {
    ASSERT_TRUE(target_ == expected_) << name << ": length " << length_ << ", " << outer_.count << " x " << inner_.count
                                      << " blocks, source steps " << outer_.source << ", " << inner_.source
                                      << ", target steps " << outer_.target << ", " << inner_.target
                                      << ", source skewed by " << skew_ << ", target by " << guard_;
  }

 private:
  Offset length_;
  Step outer_;
  Step inner_;
  Offset skew_;
  Offset guard_;
  Bytes source_;
  Bytes target_;
  Bytes expected_;
};

constexpr Step kOnce{1, 0, 0};

Step random_step(Random& random, Offset count, Offset length) {
  const auto stride = [&] {
    const Offset kind = random.between(0, 4);
    return kind == 0 ? length : kind <= 2 ? kind * 2 * length : length + random.between(0, 70);
  };
  return {count, stride(), stride()};
}

TEST(KernelTest, EveryLengthAndCountMovesJustItsBlocks) {
  Random random(layout::oracle::base_seed() + 1);
  for (const Offset length : lengths()) {
    for (Offset count = 0; count <= 20; ++count) {
      if (length > 200 && count > 5) break;
      const Step step = random_step(random, count, length);
      for (const Set& set : sets()) {
        Field field(random, length, kOnce, step);
        set.kernel(length)(field.source(), field.target(), length, step);
        ASSERT_NO_FATAL_FAILURE(field.expect_right(set.name));
      }
    }
  }
}

TEST(KernelTest, BlocksFarApart) {
  Random random(layout::oracle::base_seed() + 6);
  for (const Offset length : {1, 2, 4, 8, 16}) {
    for (Offset count = 0; count <= 20; ++count) {
      for (const Step& step : {Step{count, 4096, length}, Step{count, length, 513}, Step{count, 700, 4096}}) {
        for (const Set& set : sets()) {
          Field field(random, length, kOnce, step);
          set.kernel(length)(field.source(), field.target(), length, step);
          ASSERT_NO_FATAL_FAILURE(field.expect_right(set.name));
        }
      }
    }
  }
}

TEST(KernelTest, RowsInsideTwoLoops) {
  Random random(layout::oracle::base_seed() + 7);
  for (const Offset length : lengths()) {
    for (const Set& set : sets()) {
      const TileKernel kernel = set.row(length);
      ASSERT_EQ(kernel != nullptr, length > 64 && length <= 32768) << length;
      if (kernel == nullptr) continue;
      const Step inner = random_step(random, random.between(0, 4), length);
      const Step outer{random.between(0, 3), inner.count * inner.source + random.between(0, 99),
                       inner.count * inner.target + random.between(0, 99)};
      Field field(random, length, outer, inner);
      kernel(field.source(), field.target(), length, outer, inner);
      ASSERT_NO_FATAL_FAILURE(field.expect_right(set.name));
    }
  }
}

TEST(KernelTest, PiecesOfEveryLength) {
  Random random(layout::oracle::base_seed() + 8);
  for (const Offset length : lengths()) {
    for (const Set& set : sets()) {
      Field field(random, length, kOnce, kOnce);
      set.piece(field.source(), field.target(), length);
      ASSERT_NO_FATAL_FAILURE(field.expect_right(set.name));
    }
  }
}

// Pieces of all lengths in shuffled order on both sides, before and after the first, for several turns.
TEST(ListKernelTest, MovesJustItsPieces) {
  Random random(layout::oracle::base_seed() + 9);
  for (int round = 0; round < 300; ++round) {
    std::vector<ListPiece> pieces(to_index(random.between(1, 30)));
    for (ListPiece& piece : pieces) {
      piece.length = static_cast<std::uint32_t>(random.chance(80) ? random.between(1, 300) : random.between(1, 3000));
    }
    const auto place = [&](std::int32_t ListPiece::*side) {
      random.shuffle(pieces);
      std::int32_t at = 0;
      for (ListPiece& piece : pieces) {
        at += static_cast<std::int32_t>(random.between(0, 20));
        piece.*side = at;
        at += static_cast<std::int32_t>(piece.length);
      }
      return Offset{at};
    };
    const Offset source_extent = place(&ListPiece::source);
    const Offset target_extent = place(&ListPiece::target);
    const Step step{random.between(0, 3), source_extent + random.between(0, 9), target_extent + random.between(0, 9)};
    const ListPiece origin = pieces[0];
    for (ListPiece& piece : pieces) {
      piece.source -= origin.source;
      piece.target -= origin.target;
    }
    for (const Set& set : sets()) {
      const Bytes source = kernel_noise(random, span_of(step, source_extent, step.source));
      Bytes target = kernel_noise(random, 64 + span_of(step, target_extent, step.target) + 64);
      Bytes expected = target;
      const std::byte* from = source.data() + origin.source;
      for (Offset i = 0; i < step.count; ++i) {
        for (const ListPiece& piece : pieces) {
          std::memcpy(expected.data() + 64 + origin.target + i * step.target + piece.target,
                      from + i * step.source + piece.source, piece.length);
        }
      }
      set.list(from, target.data() + 64 + origin.target, pieces.data(), pieces.size(), step);
      ASSERT_TRUE(target == expected) << set.name << ", round " << round;
    }
  }
}

TEST(IndexKernelTest, GatherAndScatterEveryCount) {
  Random random(layout::oracle::base_seed() + 10);
  for (const Offset length : {1, 2, 4, 8, 16, 32, 64}) {
    for (Offset count = 0; count <= 40; ++count) {
      std::vector<std::int32_t> places;
      Offset at = 0;
      for (Offset i = 0; i < count; ++i, at += length) {
        at += random.between(0, 9);
        places.push_back(static_cast<std::int32_t>(at));
      }
      random.shuffle(places);
      for (const Set& set : sets()) {
        const IndexKernels kernels = set.to_index(length);
        ASSERT_NE(kernels.gather, nullptr);
        for (const bool is_gather : {true, false}) {
          const Offset skew = random.between(0, 63);
          const Bytes source = kernel_noise(random, skew + (is_gather ? at : count * length));
          Bytes target = kernel_noise(random, 64 + (is_gather ? count * length : at) + 64);
          Bytes expected = target;
          for (Offset i = 0; i < count; ++i) {
            const Offset there = places[to_index(i)];
            const Offset here = i * length;
            std::memcpy(expected.data() + 64 + (is_gather ? here : there),
                        source.data() + skew + (is_gather ? there : here), to_index(length));
          }
          (is_gather ? kernels.gather : kernels.scatter)(source.data() + skew, target.data() + 64, places.data(),
                                                         places.size());
          ASSERT_TRUE(target == expected)
              << set.name << (is_gather ? ", gather " : ", scatter ") << count << " blocks of " << length;
        }
      }
    }
  }
  EXPECT_EQ(choose_index_kernels(3).gather, nullptr);
}

// Packing and unpacking at the strides that kernels know by heart, and counts beyond any unrolling.
TEST(KernelTest, KnownStridesInBothDirections) {
  Random random(layout::oracle::base_seed() + 2);
  for (const Offset length : {1, 2, 4, 8, 16, 32, 64}) {
    for (const Offset ratio : {1, 2, 3, 4, 5, 8, 16}) {
      for (Offset count = 0; count <= 70; ++count) {
        for (const Step& step : {Step{count, ratio * length, length}, Step{count, length, ratio * length}}) {
          for (const Set& set : sets()) {
            Field field(random, length, kOnce, step);
            set.kernel(length)(field.source(), field.target(), length, step);
            ASSERT_NO_FATAL_FAILURE(field.expect_right(set.name));
          }
        }
      }
    }
  }
}

TEST(KernelTest, EveryAlignmentOfBothSides) {
  Random random(layout::oracle::base_seed() + 3);
  for (const Offset length : {1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 64, 100}) {
    const Step step{19, length * 2, length};
    for (Offset from = 0; from < 64; ++from) {
      for (const Offset to : {from, random.between(0, 63)}) {
        const Bytes source = kernel_noise(random, from + span_of(step, length, step.source));
        Bytes target = kernel_noise(random, to + span_of(step, length, step.target) + 1);
        Bytes expected = target;
        for (Offset i = 0; i < step.count; ++i) {
          std::memcpy(expected.data() + to + i * step.target, source.data() + from + i * step.source, to_index(length));
        }
        choose_kernel(length)(source.data() + from, target.data() + to, length, step);
        ASSERT_TRUE(target == expected) << "length " << length << ", source at " << from << ", target at " << to;
      }
    }
  }
}

TEST(KernelTest, BypassKernelsMoveLikeTheOthers) {
  Random random(layout::oracle::base_seed() + 4);
  int found = 0;
  std::vector<Offset> all = lengths();
  for (const Offset length : {1088, 2000, 2048}) all.push_back(length);
  for (const Offset length : all) {
    for (Offset count = 0; count <= (length > 8 ? 5 : 150); count += count < 40 ? 1 : 11) {
      for (const Offset gap : {Offset{0}, Offset{64}, random.between(0, 70)}) {
        const Step step{count, length + random.between(0, 3) * random.between(0, 40), length + gap};
        for (const Set& set : sets()) {
          const Kernel kernel = set.bypass(length, step);
          if (kernel == nullptr) continue;
          ++found;
          Field field(random, length, kOnce, step);
          kernel(field.source(), field.target(), length, step);
          fence();
          ASSERT_NO_FATAL_FAILURE(field.expect_right(set.name));
        }
      }
    }
  }
#if defined(__SSE2__)
  EXPECT_GT(found, 500);
#endif
}

TEST(KernelTest, BypassKernelsRefuseLinesWithGaps) {
  for (const Offset length : {1, 2, 4, 8, 16, 32, 64}) {
    EXPECT_EQ(choose_bypass_kernel(length, {100, length, length + 1}), nullptr) << length;
  }
}

// `outer` walks the source along its grain, `inner` the target; dense or with gaps, all edges.
TEST(TileKernelTest, TransposesOfAllShapes) {
  Random random(layout::oracle::base_seed() + 5);
  for (const Offset length : {1, 2, 4, 8, 16, 32}) {
    for (int round = 0; round < 120; ++round) {
      const Offset rows = random.between(0, length == 1 ? 140 : 40);
      const Offset columns = random.between(0, length == 1 ? 140 : 40);
      const Offset source_grain = length + (round % 3 == 1 ? random.between(1, 9) : 0);
      const Offset target_grain = length + (round % 3 == 2 ? random.between(1, 9) : 0);
      const Step outer{columns, source_grain, rows * target_grain + random.between(0, 20)};
      const Step inner{rows, columns * source_grain + random.between(0, 20), target_grain};
      for (const Set& set : sets()) {
        Field field(random, length, outer, inner);
        ASSERT_NE(set.tile(length), nullptr) << set.name << ": length " << length;
        set.tile(length)(field.source(), field.target(), length, outer, inner);
        ASSERT_NO_FATAL_FAILURE(field.expect_right(set.name));
      }
    }
  }
}

TEST(TileKernelTest, LongAndOddBlocksHaveNone) {
  for (const Offset length : {3, 5, 24, 64, 65, 4096}) EXPECT_EQ(choose_tile_kernel(length), nullptr) << length;
}

}  // namespace
}  // namespace weir::transfer::internal
