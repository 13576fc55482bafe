// Parallel files on ranks that are threads: what is collective, what goes wrong and who is told.

#include <weir/pario/file.h>

#include <barrier>
#include <latch>
#include <mutex>
#include <set>

#include <weir/base/text.h>
#include <weir/pario/errors.h>
#include <weir/pario/internal/testing.h>

namespace weir::pario::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using weir::testing::IsOk;
using weir::testing::IsOkAndHolds;
using weir::testing::StatusIs;

class ParallelFileTest : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] int ranks() const { return GetParam(); }
  [[nodiscard]] const client::FileSystem& fs() const { return servers_.file_system(); }
  void run(const Work& work, const Hints& hints = {}) const { run_on_file(servers_, ranks(), "/file", hints, work); }

  Embedded servers_ = embedded({.servers = 3}).value();
};
INSTANTIATE_TEST_SUITE_P(Ranks, ParallelFileTest, ::testing::Values(1, 2, 3, 7));

TEST_P(ParallelFileTest, EachRankWritesItsOwnPart) {
  run([&](File& file) {
    ASSERT_THAT(file.set_view({.element = cyclic(0, 8, file.rank(), ranks()), .etype_bytes = 8}), IsOk());
    Bytes mine = bytes_of(1, file.rank(), 800);
    AccessResult result;
    ASSERT_THAT(file.access(kCollectiveWrite, memory_of(mine), 800, result), IsOk());
    EXPECT_EQ(result.bytes, 800);
    EXPECT_EQ(file.position(), 100);
    ASSERT_THAT(file.sync(), IsOk());
    EXPECT_THAT(file.size(), IsOkAndHolds(800 * ranks()));
    EXPECT_EQ(read_at(file, 0, 800), mine);
    EXPECT_THAT(file.byte_offset(1), IsOkAndHolds(8 * (ranks() + file.rank())));
  });
}

TEST_P(ParallelFileTest, AnErrorOfTheCallerIsToldToAllRanks) {
  group::testing::run_ranks(ranks(), [&](std::unique_ptr<group::Group> group) {
    const bool is_last = group->rank() == ranks() - 1;
    const Status mine = is_last ? invalid_argument("no").with_detail(kFirstOfCaller + 7) : Status::ok();
    const Status status = File::open(std::move(group), fs(), "/file", created(), mine).status();
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(status.detail(), kFirstOfCaller + 7);
    EXPECT_THAT(status.message(), is_last ? "no" : concat("on rank ", ranks() - 1, ": no"));
  });
  EXPECT_THAT(fs().stat("/file"), StatusIs(ErrorCode::kNotFound));
}

TEST_P(ParallelFileTest, ARankWithoutAFileSystemFailsAll) {
  group::testing::run_ranks(ranks(), [&](std::unique_ptr<group::Group> group) {
    const bool is_last = group->rank() == ranks() - 1;
    const Result<client::FileSystem> mine =
        is_last ? Result<client::FileSystem>(Status(ErrorCode::kUnavailable, "no servers")) : fs();
    EXPECT_THAT(File::open(std::move(group), mine, "/file", created()),
                StatusIs(ErrorCode::kUnavailable, HasSubstr("no servers")));
  });
}

TEST_P(ParallelFileTest, MissingFilesAreMissingOnAllRanks) {
  group::testing::run_ranks(ranks(), [&](std::unique_ptr<group::Group> group) {
    EXPECT_THAT(File::open(std::move(group), fs(), "/none", {}), StatusIs(ErrorCode::kNotFound, HasSubstr("/none")));
  });
}

TEST_P(ParallelFileTest, RanksThatPassOtherArgumentsAreNamed) {
  if (ranks() == 1) return;
  group::testing::run_ranks(ranks(), [&](std::unique_ptr<group::Group> group) {
    OpenOptions options = created();
    options.is_exclusive = group->rank() == 1;
    const Status status = File::open(std::move(group), fs(), "/file", std::move(options)).status();
    EXPECT_EQ(status.detail(), kRanksDiffer);
    EXPECT_THAT(status.message(),
                AllOf(StartsWith("open /file: ranks pass different arguments: mode: rank "),
                      HasSubstr(": read, write, create"), HasSubstr("rank 1: read, write, create, exclusive")));
  });
}

TEST_P(ParallelFileTest, RanksThatMakeOtherCallsAreNamedOnce) {
  if (ranks() == 1) return;
  run([&](File& file) {
    const Status status = file.rank() == 0 ? file.sync() : file.set_hints({});
    EXPECT_EQ(status.detail(), kRanksDiffer);
    EXPECT_THAT(status.message(), AllOf(StartsWith("ranks make different collective calls: "),
                                        HasSubstr("rank 0: sync (call "), HasSubstr(": set hints (call ")));
    EXPECT_THAT(file.sync(), IsOk());
  });
}

// Accesses that need no other rank are compared by the next call that does.
TEST_P(ParallelFileTest, ACallTooManyIsFoundBySync) {
  if (ranks() == 1) return;
  Hints hints;
  hints.set("weir_collective", "alone");
  run(
      [&](File& file) {
        Bytes bytes(10);
        AccessResult result;
        if (file.rank() == 1) {
          EXPECT_THAT(file.access(kCollectiveWrite, memory_of(bytes), 10, result), IsOk());
        }
        EXPECT_THAT(file.sync(), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("rank 1: collective write (call ")));
        EXPECT_THAT(file.sync(), IsOk());
      },
      hints);
}

TEST_P(ParallelFileTest, AMissingRankIsNamedInTime) {
  if (ranks() == 1) return;
  constexpr group::Limit kLimit{std::chrono::milliseconds(500), "TEST_LIMIT"};
  std::latch are_open(ranks());
  group::testing::run_ranks(
      ranks(),
      [&](std::unique_ptr<group::Group> group) {
        const auto file = File::open(std::move(group), fs(), "/file", created());
        ASSERT_THAT(file, IsOk());
        are_open.arrive_and_wait();
        if ((*file)->rank() == 1) return;
        EXPECT_THAT((*file)->sync(), StatusIs(ErrorCode::kTimedOut, HasSubstr("sync /file: rank 1 did not come")));
        EXPECT_THAT((*file)->sync(), StatusIs(ErrorCode::kTimedOut, HasSubstr("an earlier call failed for good")));
      },
      kLimit);
}

TEST_P(ParallelFileTest, ModesAreChecked) {
  run([](File& file) {
    ASSERT_THAT(write_at(file, 0, Bytes(10)), IsOk());
    EXPECT_THAT(write_at(file, -1, Bytes(10)), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("the offset is -1")));
  });
  group::testing::run_ranks(ranks(), [&](std::unique_ptr<group::Group> group) {
    OpenOptions options;
    options.can_write = false;
    const auto file = File::open(std::move(group), fs(), "/file", std::move(options));
    ASSERT_THAT(file, IsOk());
    const Status status = write_at(**file, 0, Bytes(10));
    EXPECT_EQ(status.code(), ErrorCode::kPermission);
    EXPECT_EQ(status.detail(), kReadOnly);
    EXPECT_EQ((*file)->set_size(5).detail(), kReadOnly);
    EXPECT_THAT((*file)->set_view({.element = cyclic(0, 4, 0, 1), .etype_bytes = 4}), IsOk());
    Bytes bytes(10);
    AccessResult result;
    EXPECT_EQ((*file)->access({}, memory_of(bytes), 10, result).detail(), kMisuse);  // 2.5 etypes
    EXPECT_EQ(result.view, nullptr);
    EXPECT_THAT((*file)->close(), IsOk());
  });
}

TEST_P(ParallelFileTest, SplitAccessesAreEndedWithTheSameBuffer) {
  run([&](File& file) {
    Bytes bytes = bytes_of(2, file.rank(), 100);
    AccessResult result;
    const AccessRequest write{.is_write = true, .is_collective = true, .offset = 100 * file.rank()};
    EXPECT_EQ(file.end(write, bytes.data(), result).detail(), kMisuse);
    ASSERT_THAT(file.begin(write, memory_of(bytes), 100), IsOk());
    EXPECT_EQ(file.begin(write, memory_of(bytes), 100).detail(), kMisuse);
    EXPECT_EQ(file.sync().detail(), kMisuse);
    EXPECT_EQ(file.end(write, bytes.data() + 1, result).detail(), kOtherBuffer);
    EXPECT_EQ(file.end({.is_collective = true}, bytes.data(), result).detail(), kMisuse);
    ASSERT_THAT(file.end(write, bytes.data(), result), IsOk());
    EXPECT_EQ(result.bytes, 100);
    EXPECT_EQ(read_at(file, 100 * file.rank(), 100), bytes);
  });
}

TEST_P(ParallelFileTest, PointersFollowTheAccesses) {
  std::mutex mutex;
  std::set<std::byte> seen;
  run([&](File& file) {
    const AccessRequest shared{.is_write = true, .pointer = Pointer::kShared};
    AccessResult result;
    Bytes bytes(10, static_cast<std::byte>(1 + file.rank()));
    ASSERT_THAT(file.access(shared, memory_of(bytes), 10, result), IsOk());
    ASSERT_THAT(file.sync(), IsOk());
    EXPECT_THAT(file.shared_position(), IsOkAndHolds(10 * ranks()));
    const Bytes part = read_at(file, 10 * file.rank(), 10);
    EXPECT_EQ(part, Bytes(10, part.front()));
    {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(seen.insert(part.front()).second);
    }
    // In the order of ranks, each another number of bytes.
    ASSERT_THAT(file.seek_shared(0, SeekFrom::kEnd), IsOk());
    const Offset count = 5 * file.rank() + 1;
    const Offset from = 10 * ranks() + 5 * file.rank() * (file.rank() - 1) / 2 + file.rank();
    Bytes ordered = bytes_of(3, file.rank(), count);
    ASSERT_THAT(file.access({.is_write = true, .pointer = Pointer::kOrdered, .is_collective = true}, memory_of(ordered),
                            count, result),
                IsOk());
    EXPECT_EQ(read_at(file, from, count), ordered);
    EXPECT_THAT(file.seek(-100000, SeekFrom::kCurrent), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("position")));
  });
}

TEST_P(ParallelFileTest, ChoicesTellTheirReason) {
  Hints hints;
  hints.set("weir_collective", "two-phase");
  run(
      [&](File& file) {
        ASSERT_THAT(file.set_view({.element = cyclic(0, 100, file.rank(), ranks())}), IsOk());
        Bytes bytes = bytes_of(4, file.rank(), 5000);
        AccessResult result;
        ASSERT_THAT(file.access(kCollectiveWrite, memory_of(bytes), 5000, result), IsOk());
        EXPECT_EQ(file.hints().get("weir_collective"), "two-phase");
        if (ranks() > 1) {
          EXPECT_THAT(file.hints().get("weir_collective_last").value_or(""), StartsWith("two-phase: predicted "));
        }
        ASSERT_THAT(file.sync(), IsOk());
        EXPECT_EQ(read_at(file, 0, 5000), bytes);
      },
      hints);
}

TEST_P(ParallelFileTest, FilesCanBeStoredAsTheirRanksSeeThem) {
  Hints hints;
  hints.set("weir_layout", "view");
  run(
      [&](File& file) {
        ASSERT_THAT(file.set_view({.element = cyclic(0, 100, file.rank(), ranks())}), IsOk());
        EXPECT_EQ(file.layout().element_count(), ranks());
        Bytes bytes = bytes_of(5, file.rank(), 5000);
        AccessResult result;
        ASSERT_THAT(file.access(kCollectiveWrite, memory_of(bytes), 5000, result), IsOk());
        EXPECT_EQ(read_at(file, 0, 5000), bytes);
      },
      hints);
  EXPECT_EQ(fs().stat("/file")->layout->element_count(), ranks());
}

// Pieces 0-5, 2-7 of items that are 4 apart, read to memory in one piece and in several.
TEST_P(ParallelFileTest, BytesMayBeShownTwiceToReaders) {
  run([](File& file) {
    if (file.rank() == 0) {
      ASSERT_THAT(write_at(file, 0, bytes_of(6, 0, 100)), IsOk());
    }
  });
  group::testing::run_ranks(ranks(), [&](std::unique_ptr<group::Group> group) {
    OpenOptions options;
    options.can_write = false;
    const auto file = File::open(std::move(group), fs(), "/file", std::move(options));
    ASSERT_THAT(file, IsOk());
    const auto overlap = OverlappingView::create(0, {{0, 5, 0, 1, {}}, {2, 7, 0, 1, {}}}, 4);
    ASSERT_THAT(overlap, IsOk());
    const layout::Element first = layout::Element::create({{0, 5, 0, 1, {}}}, {.disp = 0, .period = kMaxBytes}).value();
    ASSERT_THAT((*file)->set_view({.element = first, .overlap = std::make_shared<const OverlappingView>(*overlap)}),
                IsOk());
    const Bytes all = bytes_of(6, 0, 100);
    for (const bool has_gaps : {false, true}) {
      Bytes memory(100);
      Memory given = memory_of(memory);
      if (has_gaps) given.pieces = layout::Element::create({{1, 1, 0, 1, {}}}, {.disp = 0, .period = 2}).value();
      AccessResult result;
      ASSERT_THAT((*file)->access({.offset = 4}, given, 20, result), IsOk());
      ASSERT_EQ(result.bytes, 20);
      for (std::size_t k = 0; k < 20; ++k) {
        const std::size_t y = k + 4;
        const std::size_t x = y / 12 * 4 + (y % 12 < 6 ? y % 12 : y % 12 - 4);
        EXPECT_EQ(memory[has_gaps ? 2 * k + 1 : k], all[x]) << k;
      }
    }
    EXPECT_THAT((*file)->close(), IsOk());
  });
}

// Two ranges of several servers each: without locks a reader could see parts of two writes.
TEST_P(ParallelFileTest, AtomicAccessesDoNotMix) {
  Hints hints;
  hints.set("weir_layout", "stripe(unit=16, over=3)");
  run(
      [&](File& file) {
        ASSERT_THAT(file.set_atomicity(true), IsOk());
        for (int round = 0; round < 20; ++round) {
          ASSERT_THAT(write_at(file, 0, Bytes(300, static_cast<std::byte>(1 + file.rank()))), IsOk());
          const Bytes seen = read_at(file, 0, 300);
          ASSERT_EQ(seen, Bytes(300, seen.front()));
        }
      },
      hints);
}

TEST_P(ParallelFileTest, RemovedOnClose) {
  group::testing::run_ranks(ranks(), [&](std::unique_ptr<group::Group> group) {
    OpenOptions options = created();
    options.is_removed_on_close = true;
    const auto file = File::open(std::move(group), fs(), "/file", std::move(options));
    ASSERT_THAT(file, IsOk());
    EXPECT_THAT((*file)->close(), IsOk());
  });
  EXPECT_THAT(fs().stat("/file"), StatusIs(ErrorCode::kNotFound));
}

TEST_P(ParallelFileTest, RemovedByOneRankForAll) {
  run([](File& /*file*/) {});
  group::testing::run_ranks(ranks(), [&](const std::unique_ptr<group::Group>& group) {
    EXPECT_THAT(File::remove(*group, fs(), "/file"), IsOk());
    const Status again = File::remove(*group, fs(), "/file");
    EXPECT_EQ(again.code(), ErrorCode::kNotFound);
    EXPECT_THAT(again.message(), StartsWith(group->rank() == 0 ? "remove " : "on rank 0: remove "));
  });
}

TEST_P(ParallelFileTest, AppendsAtTheEnd) {
  run([](File& file) {
    if (file.rank() == 0) {
      ASSERT_THAT(write_at(file, 0, Bytes(100)), IsOk());
    }
  });
  group::testing::run_ranks(ranks(), [&](std::unique_ptr<group::Group> group) {
    OpenOptions options;
    options.is_appended_to = true;
    const auto file = File::open(std::move(group), fs(), "/file", std::move(options));
    ASSERT_THAT(file, IsOk());
    EXPECT_EQ((*file)->position(), 100);
    EXPECT_THAT((*file)->shared_position(), IsOkAndHolds(100));
    EXPECT_THAT((*file)->close(), IsOk());
  });
}

// However many ranks there are.
TEST_P(ParallelFileTest, OneRankAsksServer0ForAll) {
  run([](File& /*file*/) {});  // makes it
  std::barrier together(ranks());
  group::testing::run_ranks(ranks(), [&](std::unique_ptr<group::Group> group) {
    std::int64_t last = 0;
    // Requests that server 0 got since it was last asked, but for the one that asks; on rank 0.
    const auto since_last = [&, is_first = group->rank() == 0] {
      together.arrive_and_wait();
      const std::int64_t all = is_first ? fs().server_status().front().requests : 0;
      together.arrive_and_wait();
      return all - std::exchange(last, all) - 1;
    };
    static_cast<void>(since_last());
    const auto file = File::open(std::move(group), fs(), "/file", {});
    ASSERT_THAT(file, IsOk());
    const std::int64_t to_open = since_last();
    ASSERT_THAT((*file)->set_view({.element = cyclic(0, 8, (*file)->rank(), ranks())}), IsOk());
    const std::int64_t to_view = since_last();
    EXPECT_THAT((*file)->close(), IsOk());
    if ((*file)->rank() != 0) return;
    EXPECT_EQ(to_open, 2) << "the name, and the shared file pointer";
    EXPECT_EQ(to_view, 0);
  });
}

class RecordingObserver final : public Observer {
 public:
  explicit RecordingObserver(std::string& text) : text_(text) {}
  void viewed(const View& view, const layout::Partition& /*layout*/) override {
    text_ += concat("view of ", view.element().size(), "; ");
  }
  void stored(const std::string& layout, const std::string& /*why*/) override { text_ += concat(layout, "; "); }
  void chosen(const std::string& what, const std::string& choice, const std::string& /*why*/) override {
    text_ += concat(what, " ", choice, "; ");
  }

 private:
  std::string& text_;
};

TEST_P(ParallelFileTest, ObserversAreToldWhatAFileDoes) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks()));
  group::testing::run_ranks(ranks(), [&](std::unique_ptr<group::Group> group) {
    std::string& text = texts[static_cast<std::size_t>(group->rank())];
    Hints hints;
    hints.set("weir_collective", "two-phase");
    OpenOptions options = created(hints);
    options.observer = std::make_unique<RecordingObserver>(text);
    const auto file = File::open(std::move(group), fs(), "/file", std::move(options));
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT((*file)->set_view({.element = cyclic(0, 100, (*file)->rank(), ranks())}), IsOk());
    Bytes bytes(1000);
    AccessResult result;
    ASSERT_THAT((*file)->access(kCollectiveWrite, memory_of(bytes), 1000, result), IsOk());
    EXPECT_EQ(result.first, 100 * (*file)->rank());
    EXPECT_EQ(result.last, 1000 * ranks() - 100 * (ranks() - 1 - (*file)->rank()) - 1);
    EXPECT_GT(result.moved.count(), 0);
    EXPECT_THAT((*file)->close(), IsOk());
  });
  EXPECT_EQ(texts[0], ranks() > 1 ? "view of 100; collective writes two-phase; " : "view of 100; ");
  EXPECT_EQ(texts.back(), ranks() > 1 ? "view of 100; " : texts[0]);
}

}  // namespace
}  // namespace weir::pario::internal
