// Random views, accesses and memory on ranks that are threads, compared byte by byte with what the file must hold.

#include <algorithm>
#include <random>

#include <weir/pario/internal/testing.h>

namespace weir::pario::internal {
namespace {

using weir::testing::IsOk;

struct Setting {
  int ranks;
  const char* method;
  bool is_direct;
};

class RandomAccessTest : public ::testing::TestWithParam<Setting> {
 protected:
  Embedded servers_ = embedded({.servers = 3, .direct = GetParam().is_direct}).value();
};

// What all ranks do in one round; each computes the same from the same seed.
struct Round {
  Offset disp = 0;
  Offset piece = 1;
  Offset bytes = 1;  // of each rank
  Offset at = 0;     // of each view
  Mode mode = Mode::kBlocking;
  bool is_explicit = false;
  bool has_gaps = false;  // the memory

  static Round random(std::mt19937_64& random) {
    const auto between = [&](Offset low, Offset high) {
      return std::uniform_int_distribution<Offset>(low, high)(random);
    };
    Round round;
    round.disp = between(0, 300);
    round.piece = between(1, 60);
    round.bytes = between(0, 3) == 0 ? between(1, 5) : between(1, 6000);
    round.at = between(0, 500);
    round.mode = static_cast<Mode>(between(0, 2));
    round.is_explicit = between(0, 1) == 0;
    round.has_gaps = between(0, 1) == 0;
    return round;
  }
};

// Memory with 3 bytes of every 5, or all in one piece.
class TestMemory {
 public:
  TestMemory(bool has_gaps, Offset bytes) : bytes_(static_cast<std::size_t>(has_gaps ? bytes * 2 + 5 : bytes)) {
    memory_.data = bytes_.data();
    if (has_gaps) memory_.pieces = layout::Element::create({{1, 3, 0, 1, {}}}, {.disp = 0, .period = 5}).value();
  }
  [[nodiscard]] const Memory& get() const { return memory_; }
  std::byte& operator[](std::size_t k) {
    return bytes_[memory_.pieces ? static_cast<std::size_t>(*memory_.pieces->unmap(static_cast<Offset>(k))) : k];
  }

 private:
  Bytes bytes_;
  Memory memory_;
};

// By the mode of the round.  \returns bytes
Offset make(File& file, const Round& round, bool is_write, const TestMemory& memory) {
  const AccessRequest access{.is_write = is_write,
                             .pointer = round.is_explicit ? Pointer::kExplicit : Pointer::kIndividual,
                             .is_collective = true,
                             .offset = round.at};
  if (!round.is_explicit) {
    EXPECT_THAT(file.seek(round.at, SeekFrom::kStart), IsOk());
  }
  AccessResult result;
  switch (round.mode) {
    case Mode::kBlocking: EXPECT_THAT(file.access(access, memory.get(), round.bytes, result), IsOk()); break;
    case Mode::kSplit:
      EXPECT_THAT(file.begin(access, memory.get(), round.bytes), IsOk());
      EXPECT_THAT(file.end(access, memory.get().data, result), IsOk());
      break;
    case Mode::kStarted: {
      Result<Pending> pending = file.start(access, memory.get(), round.bytes);
      EXPECT_THAT(pending, IsOk());
      if (!pending.is_ok()) return 0;
      EXPECT_THAT(pending->wait(), IsOk());
      result = pending->result();
      break;
    }
  }
  if (!round.is_explicit) {
    EXPECT_EQ(file.position(), round.at + round.bytes);
  }
  return result.bytes;
}

TEST_P(RandomAccessTest, FilesHoldWhatRanksWrote) {
  const Setting& setting = GetParam();
  Hints hints;
  hints.set("weir_collective", setting.method);
  hints.set("cb_buffer_size", "1000");
  hints.set("weir_layout", "stripe(unit=512, over=3)");
  constexpr int kRounds = 40;
  const std::uint64_t seed = weir::testing::choose_seed();
  SCOPED_TRACE(seed);
  run_on_file(servers_, setting.ranks, "/random", hints, [&](File& file) {
    std::mt19937_64 random(seed);
    Bytes model;
    for (int i = 0; i < kRounds; ++i) {
      const Round round = Round::random(random);
      const auto view_of = [&](int rank) { return cyclic(round.disp, round.piece, rank, setting.ranks); };
      ASSERT_THAT(file.set_view({.element = view_of(file.rank())}), IsOk());
      TestMemory memory(round.has_gaps, round.bytes);
      for (std::size_t k = 0; k < static_cast<std::size_t>(round.bytes); ++k) {
        memory[k] = byte_of(static_cast<std::uint64_t>(i), file.rank(), k);
      }
      ASSERT_EQ(make(file, round, true, memory), round.bytes) << "round " << i;
      for (int rank = 0; rank < setting.ranks; ++rank) {
        const layout::Element view = view_of(rank);
        for (Offset k = 0; k < round.bytes; ++k) {
          const auto x = static_cast<std::size_t>(*view.unmap(round.at + k));
          if (x >= model.size()) model.resize(x + 1);
          model[x] = byte_of(static_cast<std::uint64_t>(i), rank, static_cast<std::size_t>(k));
        }
      }
      ASSERT_THAT(file.sync(), IsOk());  // all have written
      // Through another view, which may end with the file.
      Round other = Round::random(random);
      other.has_gaps = round.has_gaps;
      const layout::Element seen = cyclic(other.disp, other.piece, file.rank(), setting.ranks);
      ASSERT_THAT(file.set_view({.element = seen}), IsOk());
      TestMemory read(other.has_gaps, other.bytes);
      const Offset bytes = make(file, other, false, read);
      const Offset there = seen.count_below(static_cast<Offset>(model.size())) - other.at;
      ASSERT_EQ(bytes, std::clamp<Offset>(there, 0, other.bytes)) << "round " << i;
      for (Offset k = 0; k < bytes; ++k) {
        ASSERT_EQ(read[static_cast<std::size_t>(k)], model[static_cast<std::size_t>(*seen.unmap(other.at + k))])
            << "round " << i << " byte " << k;
      }
      ASSERT_THAT(file.sync(), IsOk());  // all have read
    }
    ASSERT_THAT(file.size(), weir::testing::IsOkAndHolds(static_cast<Offset>(model.size())));
  });
}

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const int ranks : {1, 2, 3, 7}) {
    for (const char* const method : {"alone", "two-phase", "auto"}) {
      for (const bool is_direct : {true, false}) settings.push_back({ranks, method, is_direct});
    }
  }
  return settings;
}

INSTANTIATE_TEST_SUITE_P(All, RandomAccessTest, ::testing::ValuesIn(all_settings()), [](const auto& tested) {
  std::string name = tested.param.method;
  std::erase(name, '-');
  return concat(name, tested.param.ranks, tested.param.is_direct ? "Direct" : "ByMessage");
});

}  // namespace
}  // namespace weir::pario::internal
