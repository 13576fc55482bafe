// What a file system must do, whatever its stores, its transport, and the way that bytes take: random views on random
// layouts against a plain file in memory, and what hurts.

#include <cstring>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/testing/signal_storm.h>
#include <weir/client/file_system.h>
#include <weir/client/testing/cluster.h>
#include <weir/embedded/embedded.h>
#include <weir/layout/language.h>
#include <weir/layout/testing/generate.h>
#include <weir/storage/faulty_store.h>
#include <weir/storage/memory_store.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using layout::Element;
using layout::Partition;
using layout::oracle::Random;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::IsOkAndHolds;
using weir::testing::StatusIs;

using Bytes = std::vector<std::byte>;

Partition layout_of(const std::string& text) {
  auto partition = layout::parse(text);
  EXPECT_THAT(partition, IsOk());
  return *partition;
}

Bytes random_bytes(Random& random, Offset size) {
  Bytes bytes(static_cast<std::size_t>(size));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.between(1, 255));
  return bytes;
}

Bytes numbered(std::size_t size, unsigned salt) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + salt) >> 11);
  return bytes;
}

/// The judge: a file that is a vector.
class PlainFile {
 public:
  void write(const Element& view, Offset from, const Bytes& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) at(*view.unmap(from + static_cast<Offset>(i))) = bytes[i];
  }
  [[nodiscard]] Bytes read(const Element& view, Offset from, Offset bytes) const {
    Bytes out(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto x = static_cast<std::size_t>(*view.unmap(from + static_cast<Offset>(i)));
      out[i] = x < bytes_.size() ? bytes_[x] : std::byte{0};
    }
    return out;
  }
  void resize(Offset size) { bytes_.resize(static_cast<std::size_t>(size)); }
  [[nodiscard]] Offset size() const { return static_cast<Offset>(bytes_.size()); }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  std::byte& at(Offset x) {
    if (x >= size()) resize(x + 1);
    return bytes_[static_cast<std::size_t>(x)];
  }
  Bytes bytes_;
};

Partition random_layout(Random& random) {
  if (random.chance(60)) return *Partition::create(layout::oracle::random_description(random));
  const Offset period = random.between(1, 40);
  return *Partition::create(layout::Explicit{layout::oracle::random_partition(random, period, random.between(1, 5))},
                            {.disp = 0, .period = period});
}

Element random_view(Random& random) {
  for (;;) {
    Result<Element> view = Element();
    if (random.chance(50)) {
      const layout::oracle::Pattern pattern = layout::oracle::random_pattern(random);
      view = Element::create(pattern.set, pattern.placement());
    } else {
      const auto views = Partition::create(layout::oracle::random_description(random));
      view = views->element(random.between(0, views->element_count() - 1));
    }
    if (view.is_ok() && !view->is_empty()) return *view;
  }
}

// ---------------------------------------------------------------- over every store, transport and way

struct Case {
  const char* name;
  const char* transport;
  const char* store;
  bool direct;
};

std::ostream& operator<<(std::ostream& out, const Case& value) { return out << value.name; }

class ConformanceTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!internal::kCanUseUcx && std::string(GetParam().transport) == "tcp") GTEST_SKIP() << internal::kWhyNoUcx;
  }
  [[nodiscard]] static ClusterOptions options() {
    ClusterOptions options;
    options.transport = GetParam().transport;
    options.store = GetParam().store;
    options.direct = GetParam().direct;
    return options;
  }
};

// One random access or change, done to both.
class Walker {
 public:
  Walker(const File& file, PlainFile& plain, Random& random) : file_(file), plain_(plain), random_(random) {}

  void step() {
    const Element element = random_view(random_);
    const auto view = file_.view(element);
    ASSERT_THAT(view, IsOk());
    for (int i = 0; i < 6; ++i) {
      const layout::Range range = layout::oracle::random_range(random_, std::min<Offset>(element.limit(), 300));
      access(*view, element, range.from, range.to - range.from);
      if (::testing::Test::HasFatalFailure()) return;
    }
    if (random_.chance(30)) resize();
    ASSERT_THAT(file_.size(), IsOkAndHolds(plain_.size()));
  }

 private:
  void access(const View& view, const Element& element, Offset from, Offset bytes) {
    SCOPED_TRACE(concat("bytes ", from, " +", bytes, " of ", describe(layout::oracle::pattern_of(element))));
    switch (random_.between(0, 8)) {
      case 0:
      case 1: write(view, element, from, bytes); break;
      case 2: write_strided(view, element, from, bytes); break;
      case 3: write_parts(view, element, from, bytes); break;
      case 4: read_strided(view, element, from, bytes); break;
      case 5: read_parts(view, element, from, bytes); break;
      case 6: overlap(view, element, from, bytes); break;
      case 7: overlap_strided(view, element, from, bytes); break;
      default: break;
    }
    Bytes memory = numbered(static_cast<std::size_t>(bytes), 5);
    ASSERT_THAT(view.read(from, memory), IsOk());
    ASSERT_EQ(memory, plain_.read(element, from, bytes));
  }

  void write(const View& view, const Element& element, Offset from, Offset bytes) {
    const Bytes memory = random_bytes(random_, bytes);
    ASSERT_THAT(view.write(from, memory), IsOk());
    plain_.write(element, from, memory);
  }

  // Memory with gaps: byte k at layout.unmap(k).
  [[nodiscard]] Element strided_memory() {
    const Offset block = random_.between(1, 9);
    const Offset stride = block + random_.between(1, 5);
    return *Element::create({{0, block - 1, 0, 1, {}}}, {.disp = random_.between(0, 3), .period = stride});
  }

  void write_strided(const View& view, const Element& element, Offset from, Offset bytes) {
    const Element layout = strided_memory();
    const Bytes memory = random_bytes(random_, 5000);
    Bytes packed(static_cast<std::size_t>(bytes));
    for (Offset k = 0; k < bytes; ++k)
      packed[static_cast<std::size_t>(k)] = memory[static_cast<std::size_t>(*layout.unmap(k))];
    // Used again, memory and subfiles are composed to one plan.
    for (int i = 0; i < 2; ++i) ASSERT_THAT(view.write(from, bytes, ConstMemory{memory.data(), layout}), IsOk());
    plain_.write(element, from, packed);
  }

  void read_strided(const View& view, const Element& element, Offset from, Offset bytes) {
    const Element layout = strided_memory();
    Bytes memory = numbered(5000, 3);
    Bytes expected = memory;
    const Bytes packed = plain_.read(element, from, bytes);
    for (Offset k = 0; k < bytes; ++k)
      expected[static_cast<std::size_t>(*layout.unmap(k))] = packed[static_cast<std::size_t>(k)];
    for (int i = 0; i < 2; ++i) {
      memory = numbered(5000, 3);
      ASSERT_THAT(view.read(from, bytes, Memory{memory.data(), layout}), IsOk());
      ASSERT_EQ(memory, expected) << i;
    }
  }

  [[nodiscard]] std::vector<Offset> cuts(Offset from, Offset bytes) {
    std::vector<Offset> at{from, from + bytes};
    for (int i = 0; i < 3; ++i) at.push_back(random_.between(from, from + bytes));
    std::sort(at.begin(), at.end());
    return at;
  }

  void write_parts(const View& view, const Element& element, Offset from, Offset bytes) {
    const Bytes memory = random_bytes(random_, bytes);
    std::vector<WritePart> parts;
    const std::vector<Offset> at = cuts(from, bytes);
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      parts.push_back({at[i], std::span(memory).subspan(static_cast<std::size_t>(at[i] - from),
                                                        static_cast<std::size_t>(at[i + 1] - at[i]))});
    }
    random_.shuffle(parts);
    ASSERT_THAT(view.write(parts), IsOk());
    plain_.write(element, from, memory);
  }

  void read_parts(const View& view, const Element& element, Offset from, Offset bytes) {
    Bytes memory = numbered(static_cast<std::size_t>(bytes), 8);
    std::vector<ReadPart> parts;
    const std::vector<Offset> at = cuts(from, bytes);
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      parts.push_back({at[i], std::span(memory).subspan(static_cast<std::size_t>(at[i] - from),
                                                        static_cast<std::size_t>(at[i + 1] - at[i]))});
    }
    ASSERT_THAT(view.read(parts), IsOk());
    ASSERT_EQ(memory, plain_.read(element, from, bytes));
  }

  // Two writes under way at once, to different halves; then two reads of the whole.
  void overlap(const View& view, const Element& element, Offset from, Offset bytes) {
    const Bytes memory = random_bytes(random_, bytes);
    const auto half = static_cast<std::size_t>(bytes / 2);
    Pending first = view.start_write(from, std::span(memory).first(half));
    Pending second = view.start_write(from + bytes / 2, std::span(memory).subspan(half));
    ASSERT_THAT(second.wait(), IsOk());
    while (!first.test()) {
    }
    ASSERT_THAT(first.wait(), IsOk());
    plain_.write(element, from, memory);
    Bytes one(static_cast<std::size_t>(bytes));
    Bytes two(static_cast<std::size_t>(bytes));
    Pending read_one = view.start_read(from, one);
    Pending read_two = view.start_read(from, two);
    ASSERT_THAT(read_one.wait(), IsOk());
    ASSERT_THAT(read_two.wait(), IsOk());
    ASSERT_EQ(one, memory);
    ASSERT_EQ(two, memory);
  }

  // The same with memory in pieces: two halves of one memory, then the whole twice.
  void overlap_strided(const View& view, const Element& element, Offset from, Offset bytes) {
    const Element layout = strided_memory();
    const Bytes memory = random_bytes(random_, 5000);
    const Offset half = bytes / 2;
    const auto gathered = [&](Offset first, Offset count) {
      Bytes packed(static_cast<std::size_t>(count));
      for (Offset k = 0; k < count; ++k)
        packed[static_cast<std::size_t>(k)] = memory[static_cast<std::size_t>(*layout.unmap(first + k))];
      return packed;
    };
    Pending first = view.start_write(from, half, ConstMemory{memory.data(), layout});
    Pending second = view.start_write(from + half, bytes - half, ConstMemory{memory.data(), layout});
    ASSERT_THAT(second.wait(), IsOk());
    while (!first.test()) {
    }
    ASSERT_THAT(first.wait(), IsOk());
    plain_.write(element, from, gathered(0, half));
    plain_.write(element, from + half, gathered(0, bytes - half));
    Bytes one = numbered(5000, 6);
    Bytes expected = one;
    const Bytes packed = plain_.read(element, from, bytes);
    for (Offset k = 0; k < bytes; ++k)
      expected[static_cast<std::size_t>(*layout.unmap(k))] = packed[static_cast<std::size_t>(k)];
    Bytes two = one;
    Pending read_one = view.start_read(from, bytes, Memory{one.data(), layout});
    Pending read_two = view.start_read(from, bytes, Memory{two.data(), layout});
    ASSERT_THAT(read_one.wait(), IsOk());
    while (!read_two.test()) {
    }
    ASSERT_THAT(read_two.wait(), IsOk());
    ASSERT_EQ(one, expected);
    ASSERT_EQ(two, expected);
  }

  void resize() {
    const Offset size = random_.between(0, 500);
    if (random_.chance(30)) {
      ASSERT_THAT(file_.preallocate(size), IsOk());
      if (size > plain_.size()) plain_.resize(size);
      return;
    }
    ASSERT_THAT(file_.truncate(size), IsOk());
    plain_.resize(size);
  }

  const File& file_;
  PlainFile& plain_;
  Random& random_;
};

void expect_same_bytes(const File& file, const PlainFile& plain) {
  const auto view = file.linear();
  ASSERT_THAT(view, IsOk());
  Bytes memory = numbered(plain.bytes().size() + 100, 4);
  ASSERT_THAT(view->read(0, memory), IsOk());
  Bytes expected = plain.bytes();
  expected.resize(memory.size());
  ASSERT_EQ(memory, expected);
  ASSERT_THAT(file.size(), IsOkAndHolds(plain.size()));
}

TEST_P(ConformanceTest, RandomViewsAndLayoutsAgreeWithAPlainFile) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  int number = 0;
  layout::oracle::for_cases(25, [&](Random& random) {
    const Partition layout = random_layout(random);
    SCOPED_TRACE(layout::print(layout));
    const std::string path = concat("/file", number++);
    const auto file = fs.create(path, layout);
    ASSERT_THAT(file, IsOk());
    PlainFile plain;
    Walker walker(*file, plain, random);
    for (int i = 0; i < 6 && !::testing::Test::HasFatalFailure(); ++i) walker.step();
    ASSERT_THAT(file->sync(), IsOk());
    expect_same_bytes(*file, plain);
    expect_same_bytes(*cluster.connect().open(path), plain);
    ASSERT_THAT(fs.remove(path), IsOk());
    ASSERT_THAT(fs.open(path), StatusIs(ErrorCode::kNotFound));
  });
}

TEST_P(ConformanceTest, RelayoutKeepsTheBytesAndOpenViewsFollow) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  layout::oracle::for_cases(15, [&](Random& random) {
    const Partition before = random_layout(random);
    const Partition after = random_layout(random);
    SCOPED_TRACE(layout::print(before) + " to " + layout::print(after));
    const auto file = fs.create("/file", before);
    ASSERT_THAT(file, IsOk());
    PlainFile plain;
    Walker walker(*file, plain, random);
    for (int i = 0; i < 3 && !::testing::Test::HasFatalFailure(); ++i) walker.step();
    const auto view = file->linear();
    ASSERT_THAT(view, IsOk());
    Bytes memory(static_cast<std::size_t>(plain.size()));
    ASSERT_THAT(view->read(0, memory), IsOk());
    Offset told = 0;
    ASSERT_THAT(fs.relayout("/file", after, {.targets = {}, .progress = [&](Offset done, Offset) { told = done; }}),
                IsOk());
    ASSERT_EQ(told > 0, plain.size() > 0);
    // The view was bound to the old layout.
    memory.assign(memory.size(), std::byte{0xEE});
    ASSERT_THAT(view->read(0, memory), IsOk());
    ASSERT_EQ(memory, plain.bytes());
    const auto opened = fs.open("/file");
    ASSERT_THAT(opened, IsOk());
    ASSERT_EQ(layout::print(opened->layout()), layout::print(after));
    expect_same_bytes(*opened, plain);
    walker.step();
    ASSERT_THAT(fs.remove("/file"), IsOk());
  });
  const auto usage = fs.usage();
  ASSERT_THAT(usage, IsOk());
  for (const TargetUsage& target : *usage) EXPECT_EQ(target.subfiles, 0) << "target " << target.target;
}

// Timers and profilers of a program interrupt system calls: that must neither fail nor take another way.
TEST_P(ConformanceTest, SignalsOfTheProgramAreNoHindrance) {
  const Cluster cluster(options());
  const testing::SignalStorm storm;
  const bool is_shared = GetParam().direct && std::string(GetParam().store) == "memory";
  for (unsigned round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    const FileSystem fs = cluster.connect();
    const auto file = fs.create("/file", layout_of("stripe(unit=64K, over=3)"));
    ASSERT_THAT(file, IsOk());
    const auto view = file->linear();
    ASSERT_THAT(view, IsOk());
    const Bytes bytes = numbered(3 << 20, round);
    ASSERT_THAT(view->write(0, bytes), IsOk());
    EXPECT_EQ(view->report().direct_bytes, is_shared ? std::ssize(bytes) : 0);
    Bytes back(bytes.size());
    ASSERT_THAT(view->read(0, back), IsOk());
    ASSERT_TRUE(back == bytes);
    ASSERT_THAT(file->sync(), IsOk());
    ASSERT_THAT(fs.remove("/file"), IsOk());
  }
  EXPECT_GT(storm.come(), 0);
}

TEST_P(ConformanceTest, LargeTransfersInManySlices) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto rows = layout_of("hpf(shape=[1500,1600], elem=8, dist=(BLOCK,*), grid=[3,1])");
  for (const char* text : {"hpf(shape=[1500,1600], elem=8, dist=(*,BLOCK), grid=[1,3])", "stripe(unit=64K, over=3)",
                           "tiles(shape=[1500,1600], elem=8, tile=[128,128], over=4)"}) {
    SCOPED_TRACE(text);
    const auto file = fs.create("/matrix", layout_of(text));
    ASSERT_THAT(file, IsOk());
    const Bytes whole = numbered(1500 * 1600 * 8, 7);
    for (Offset i = 0; i < 3; ++i) {
      const auto view = file->view(*rows.element(i));
      ASSERT_THAT(view, IsOk());
      const std::size_t share = whole.size() / 3;
      ASSERT_THAT(view->write(0, std::span(whole).subspan(static_cast<std::size_t>(i) * share, share)), IsOk());
      const AccessReport report = view->report();
      EXPECT_EQ(report.calls, 1);
      EXPECT_EQ(report.moved_bytes, static_cast<Offset>(share));
      EXPECT_EQ(report.extra_bytes, 0);
      const bool is_shared = GetParam().direct && std::string(GetParam().store) == "memory";
      EXPECT_EQ(report.direct_bytes, is_shared ? static_cast<Offset>(share) : 0);
      EXPECT_LT(report.index_bytes, report.moved_bytes / 100);
    }
    const auto linear = file->linear();
    ASSERT_THAT(linear, IsOk());
    Bytes back(whole.size());
    ASSERT_THAT(linear->read(0, back), IsOk());
    ASSERT_TRUE(back == whole);
    ASSERT_THAT(file->size(), IsOkAndHolds(static_cast<Offset>(whole.size())));
    ASSERT_THAT(fs.remove("/matrix"), IsOk());
  }
}

// More than a window of the buffer that such memory goes through, by message the first time and mapped, where that is
// possible, the second.
TEST_P(ConformanceTest, LargeMemoryInPieces) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", layout_of("hpf(shape=[512,512], elem=8, dist=(*,BLOCK), grid=[1,3])"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  const Offset bytes = 512 * 512 * 8 - 100;
  const auto every_other = Element::create({{0, 7, 0, 1, {}}}, {.disp = 3, .period = 16});
  ASSERT_THAT(every_other, IsOk());
  for (unsigned round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    const Bytes source = numbered(static_cast<std::size_t>(2 * bytes + 32), round);
    ASSERT_THAT(view->write(50, bytes, ConstMemory{source.data(), *every_other}), IsOk());
    Bytes back(source.size());
    ASSERT_THAT(view->read(50, bytes, Memory{back.data(), *every_other}), IsOk());
    Bytes straight(static_cast<std::size_t>(bytes));
    ASSERT_THAT(view->read(50, straight), IsOk());
    for (Offset i = 0; i < bytes; ++i) {
      const auto at = static_cast<std::size_t>(*every_other->unmap(i));
      ASSERT_EQ(back[at], source[at]) << i;
      ASSERT_EQ(straight[static_cast<std::size_t>(i)], source[at]) << i;
    }
  }
}

// Blocks of 8 bytes, 8 bytes apart, from byte 3 on.
bool same_blocks(const Bytes& a, const Bytes& b, std::size_t blocks) {
  for (std::size_t i = 0; i < blocks; ++i) {
    if (std::memcmp(&a[3 + 16 * i], &b[3 + 16 * i], 8) != 0) return false;
  }
  return true;
}

// More windows than are under way at once.  By message, nothing is done within the call but to send what fits into the
// buffers.
TEST_P(ConformanceTest, LargeMemoryInPiecesUnderWay) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", layout_of("stripe(unit=64K, over=3)"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  constexpr std::size_t kBlocks = std::size_t{11} << 18;
  constexpr auto kBytes = static_cast<Offset>(8 * kBlocks);  // 22 MiB
  const auto every_other = Element::create({{0, 7, 0, 1, {}}}, {.disp = 3, .period = 16});
  ASSERT_THAT(every_other, IsOk());
  const Bytes source = numbered(16 * kBlocks + 32, 7);
  Pending write = view->start_write(50, kBytes, ConstMemory{source.data(), *every_other});
  EXPECT_TRUE(GetParam().direct || view->report().moved_bytes == 0) << "written within the call";
  while (!write.test()) {
  }
  ASSERT_THAT(write.wait(), IsOk());
  EXPECT_THAT(file->size(), IsOkAndHolds(50 + kBytes));

  const Bytes untouched = numbered(source.size(), 8);
  Bytes back = untouched;
  Pending read = view->start_read(50, kBytes, Memory{back.data(), *every_other});
  EXPECT_TRUE(GetParam().direct || back == untouched) << "read within the call";
  ASSERT_THAT(read.wait(), IsOk());
  EXPECT_TRUE(same_blocks(back, source, kBlocks));
  for (std::size_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(std::memcmp(&back[11 + 16 * i], &untouched[11 + 16 * i], 8), 0) << "gap after block " << i;
  }
  const AccessReport report = view->report();
  EXPECT_EQ(report.calls, 2);
  EXPECT_GE(report.gathered_bytes, GetParam().direct ? kBytes : 2 * kBytes);
  EXPECT_EQ(report.moved_bytes, 2 * kBytes);
}

// From the second access on, when subfiles are mapped.  Views start anywhere, in their period and in the layout's.
TEST_P(ConformanceTest, MemoryInPiecesIsCopiedOnceWhereSubfilesAreMapped) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", layout_of("stripe(unit=4K, over=3)"));
  ASSERT_THAT(file, IsOk());
  const auto ghosts = Element::create({{0, 799, 0, 1, {}}}, {.disp = 16, .period = 832});  // rows with ghost cells
  const auto tiles = Element::create({{0, 999, 5000, 4, {}}}, {.disp = 1000, .period = 20'000});
  ASSERT_THAT(ghosts, IsOk());
  ASSERT_THAT(tiles, IsOk());
  const auto view = file->view(*tiles);
  ASSERT_THAT(view, IsOk());
  constexpr Offset kTile = 4000;
  constexpr Offset kBytes = 500 * kTile;
  ASSERT_THAT(view->write(0, Bytes(4 * kBytes)), IsOk());  // maps them
  const auto in_pieces = [](const Bytes& bytes) {
    Bytes memory(static_cast<std::size_t>(16 + (bytes.size() / 800 + 1) * 832));
    for (std::size_t k = 0; k < bytes.size(); ++k) memory[16 + k / 800 * 832 + k % 800] = bytes[k];
    return memory;
  };
  using Accessed = std::pair<Offset, Offset>;  // from, bytes
  for (const auto& [from, bytes] :
       {Accessed{0, kBytes}, Accessed{kBytes, kBytes}, Accessed{7 * kTile, kBytes}, Accessed{1600, 2400}}) {
    SCOPED_TRACE(from);
    const Bytes packed = numbered(static_cast<std::size_t>(bytes), static_cast<unsigned>(from));
    const Bytes source = in_pieces(packed);
    for (int i = 0; i < 2; ++i) ASSERT_THAT(view->write(from, bytes, ConstMemory{source.data(), *ghosts}), IsOk());
    Bytes straight(packed.size());
    ASSERT_THAT(view->read(from, straight), IsOk());
    EXPECT_EQ(straight, packed);
    for (int i = 0; i < 2; ++i) {
      Bytes back(source.size());
      ASSERT_THAT(view->read(from, bytes, Memory{back.data(), *ghosts}), IsOk());
      EXPECT_EQ(back, source) << i;
    }
  }
  // The short ones, each once before they are composed.
  if (view->report().direct_bytes > 0) {
    EXPECT_EQ(view->report().gathered_bytes, 2 * 2400);
  }
}

// Nobody waits for the write, but another client sees its bytes, and does not time out on the subfiles that they go to.
TEST_P(ConformanceTest, AccessesUnderWayGoOnWhileTheProgramComputes) {
  ClusterOptions how = options();
  how.timeout = std::chrono::milliseconds(3000);
  const Cluster cluster(how);
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", layout_of("stripe(unit=64K, over=3)"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  const Bytes bytes = numbered(std::size_t{6} << 20, 2);
  Pending write = view->start_write(0, bytes);

  const auto other = cluster.connect().open("/file");
  ASSERT_THAT(other, IsOk());
  const auto seen = other->linear();
  ASSERT_THAT(seen, IsOk());
  Bytes back(bytes.size());
  do {
    ASSERT_THAT(seen->read(0, back), IsOk());
  } while (back != bytes);
  EXPECT_THAT(write.wait(), IsOk());
}

// Dropped before it is done: it is done all the same.
TEST_P(ConformanceTest, MemoryInPiecesUnderWayIsWrittenWhenDropped) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", layout_of("stripe(unit=64K, over=3)"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  constexpr std::size_t kBlocks = std::size_t{9} << 18;
  const auto every_other = Element::create({{0, 7, 0, 1, {}}}, {.disp = 3, .period = 16});
  const Bytes source = numbered(16 * kBlocks + 32, 9);
  static_cast<void>(view->start_write(0, 8 * kBlocks, ConstMemory{source.data(), *every_other}));
  Bytes back(source.size());
  ASSERT_THAT(view->read(0, 8 * kBlocks, Memory{back.data(), *every_other}), IsOk());
  EXPECT_TRUE(same_blocks(back, source, kBlocks));
}

TEST_P(ConformanceTest, MemoryInPiecesUnderWayTellsErrors) {
  Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", layout_of("stripe(unit=64K, over=3)"), {.targets = {0, 1, 2}});
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  const auto short_memory = Element::create({{0, 1, 4, 10, {}}}, {.disp = 0, .period = kMaxBytes});
  ASSERT_THAT(short_memory, IsOk());
  Bytes memory(1 << 20);
  EXPECT_THAT(view->start_write(0, 21, ConstMemory{memory.data(), *short_memory}).wait(),
              StatusIs(ErrorCode::kOutOfRange, HasSubstr("write to /file: 21 bytes from memory of 20")));
  EXPECT_THAT(view->start_read(-1, 20, Memory{memory.data(), *short_memory}).wait(),
              StatusIs(ErrorCode::kOutOfRange, HasSubstr("read of /file: 20 bytes at -1")));
  EXPECT_THAT(view->start_read(0, 0, Memory{memory.data(), *short_memory}).wait(), IsOk());
  const auto every_other = Element::create({{0, 7, 0, 1, {}}}, {.disp = 0, .period = 16});
  ASSERT_THAT(every_other, IsOk());
  cluster.stop(1);
  EXPECT_THAT(view->start_write(0, 300000, ConstMemory{memory.data(), *every_other}).wait(),
              StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1 at ")));
}

TEST_P(ConformanceTest, ConcurrentClientsWriteDisjointViews) {
  const Cluster cluster(options());
  const FileSystem shared = cluster.connect();
  const auto file = shared.create("/shared", layout_of("stripe(unit=3000, over=4)"));
  ASSERT_THAT(file, IsOk());
  const auto views = layout_of("hpf(shape=[60,70], elem=40, dist=(CYCLIC(7),BLOCK), grid=[2,3])");
  constexpr int kThreads = 6;
  std::vector<Status> ends(kThreads);
  const auto work = [&](int index) -> Status {
    // Half of them with a connection of their own.
    const FileSystem fs = index % 2 == 0 ? shared : cluster.connect();
    WEIR_TRY(const File mine, fs.open("/shared"));
    WEIR_TRY(const Element element, views.element(index));
    WEIR_TRY(const View view, mine.view(element));
    for (unsigned round = 0; round < 20; ++round) {
      const Bytes bytes = numbered(static_cast<std::size_t>(element.size()), round * 31 + static_cast<unsigned>(index));
      WEIR_RETURN_IF_ERROR(view.write(0, bytes));
      Bytes back(bytes.size());
      WEIR_RETURN_IF_ERROR(view.read(0, back));
      if (back != bytes) return corrupt(concat("thread ", index, " round ", round, " reads other bytes"));
    }
    return Status::ok();
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { ends[static_cast<std::size_t>(i)] = work(i); });
    }
  }
  PlainFile plain;
  for (int i = 0; i < kThreads; ++i) {
    ASSERT_THAT(ends[static_cast<std::size_t>(i)], IsOk());
    const Element element = *views.element(i);
    plain.write(element, 0, numbered(static_cast<std::size_t>(element.size()), 19 * 31 + static_cast<unsigned>(i)));
  }
  expect_same_bytes(*file, plain);
}

TEST_P(ConformanceTest, OneViewUsedByManyThreads) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/shared", layout_of("stripe(unit=100, over=5)"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  constexpr std::size_t kShare = 5000;
  const Bytes bytes = numbered(4 * kShare, 1);
  std::vector<Status> ends(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < ends.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t at = 0; at < kShare && ends[t].is_ok(); at += 250) {
          const std::size_t from = t * kShare + at;
          ends[t] = view->write(static_cast<Offset>(from), std::span(bytes).subspan(from, 250));
        }
      });
    }
  }
  for (const Status& end : ends) ASSERT_THAT(end, IsOk());
  Bytes back(bytes.size());
  ASSERT_THAT(view->read(0, back), IsOk());
  ASSERT_EQ(back, bytes);
}

TEST_P(ConformanceTest, FilesWithoutBytes) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/empty", layout_of("stripe(unit=4, over=3)"));
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->size(), IsOkAndHolds(0));
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  EXPECT_THAT(view->read(0, std::span<std::byte>()), IsOk());
  EXPECT_THAT(view->write(77, std::span<const std::byte>()), IsOk());
  EXPECT_THAT(file->size(), IsOkAndHolds(0));
  Bytes some(10, std::byte{9});
  EXPECT_THAT(view->read(1000, some), IsOk());
  EXPECT_EQ(some, Bytes(10));
  EXPECT_THAT(file->sync(), IsOk());
  EXPECT_THAT(file->truncate(0), IsOk());
  EXPECT_THAT(fs.relayout("/empty", layout_of("stripe(unit=9, over=2)")), IsOk());
  const auto stat = fs.stat("/empty");
  ASSERT_THAT(stat, IsOk());
  EXPECT_EQ(stat->size, 0);
  EXPECT_EQ(stat->subfiles.size(), 2U);
  EXPECT_THAT(fs.set_layout("/empty", layout_of("stripe(unit=5, over=4)")), IsOk());
  const auto again = fs.open("/empty");
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->layout().element_count(), 4);
  ASSERT_THAT(again->linear()->write(0, some), IsOk());
  EXPECT_THAT(fs.set_layout("/empty", layout_of("stripe(unit=5, over=3)")),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("relayout")));
}

TEST_P(ConformanceTest, SubfilesGoToTheTargetsTold) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto made = fs.create("/file", layout_of("stripe(unit=4, over=3)"), {.targets = {2, 2, 0}});
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(made->targets(), ElementsAre(2, 2, 0));
  ASSERT_THAT(fs.set_layout("/file", layout_of("stripe(unit=6, over=4)"), {1, 0, 1, 1}), IsOk());
  const auto file = fs.open("/file");
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->targets(), ElementsAre(1, 0, 1, 1));
  const Bytes bytes = numbered(24, 1);
  ASSERT_THAT(file->linear()->write(0, bytes), IsOk());
  const auto stat = fs.stat("/file");
  ASSERT_THAT(stat, IsOk());
  const std::vector<std::uint32_t> told{1, 0, 1, 1};
  ASSERT_EQ(stat->subfiles.size(), told.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(stat->subfiles[i].target, told[i]);
    EXPECT_EQ(stat->subfiles[i].address, cluster.addresses()[told[i]].text);
    EXPECT_EQ(stat->subfiles[i].length, 6);
  }
  // They are where they are said to be: the target that was not told has none.
  const auto usage = fs.usage();
  ASSERT_THAT(usage, IsOk());
  EXPECT_EQ((*usage)[0].subfiles, 1);
  EXPECT_EQ((*usage)[1].subfiles, 3);
  EXPECT_EQ((*usage)[2].subfiles, 0);
}

TEST_P(ConformanceTest, TargetsThatAreNoneAreRefusedAndNothingChanges) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const Partition before = layout_of("stripe(unit=4, over=2)");
  ASSERT_THAT(fs.create("/file", before, {.targets = {2, 1}}), IsOk());
  const auto changed_ns = fs.stat("/file")->changed_ns;
  EXPECT_THAT(
      fs.set_layout("/file", layout_of("stripe(unit=5, over=3)"), {0, 3, 1}),
      StatusIs(ErrorCode::kInvalidArgument,
               HasSubstr("set layout of \"/file\": there is no target 3: those of this file system are 0 to 2")));
  EXPECT_THAT(fs.set_layout("/file", layout_of("stripe(unit=5, over=3)"), {0, 1}),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("set layout of \"/file\": 2 targets for 3 subfiles")));
  const auto file = fs.open("/file");
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(layout::print(file->layout()), layout::print(before));
  EXPECT_THAT(file->targets(), ElementsAre(2, 1));
  EXPECT_EQ(fs.stat("/file")->changed_ns, changed_ns);
  EXPECT_THAT(fs.create("/other", before, {.targets = {0, 7}}),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("create \"/other\": there is no target 7")));
  EXPECT_THAT(fs.open("/other"), StatusIs(ErrorCode::kNotFound));
}

TEST_P(ConformanceTest, TellsOnWhichHostTargetsAre) {
  Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  EXPECT_THAT(fs.target_hosts(), Each(FileSystem::this_host()));
  EXPECT_EQ(fs.target_hosts().size(), 3U);
  cluster.stop(1);
  const FileSystem later = cluster.connect();
  EXPECT_THAT(later.target_hosts(), ElementsAre(FileSystem::this_host(), "", FileSystem::this_host()));
}

TEST_P(ConformanceTest, SparseFilesOfTwoToTheFifty) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/sparse", layout_of("stripe(unit=64K, over=3)"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  const Offset far = Offset{1} << 50;
  const Bytes bytes = numbered(200000, 3);
  ASSERT_THAT(view->write(far - 100000, bytes), IsOk());
  ASSERT_THAT(view->write(12345, std::span(bytes).first(100)), IsOk());
  EXPECT_THAT(file->size(), IsOkAndHolds(far + 100000));
  Bytes back(bytes.size() + 200, std::byte{1});
  ASSERT_THAT(view->read(far - 100100, back), IsOk());
  EXPECT_EQ(Bytes(back.begin(), back.begin() + 100), Bytes(100));
  EXPECT_EQ(Bytes(back.begin() + 100, back.end() - 100), bytes);
  EXPECT_EQ(Bytes(back.end() - 100, back.end()), Bytes(100));
  const auto stat = fs.stat("/sparse");
  ASSERT_THAT(stat, IsOk());
  Offset stored = 0;
  for (const Stat::Subfile& subfile : stat->subfiles) stored += subfile.stored_bytes;
  EXPECT_LT(stored, Offset{16} << 20);
  ASSERT_THAT(file->truncate(far), IsOk());
  EXPECT_THAT(file->size(), IsOkAndHolds(far));
  ASSERT_THAT(view->read(far - 100100, back), IsOk());
  EXPECT_EQ(Bytes(back.begin() + 100, back.begin() + 100100), Bytes(bytes.begin(), bytes.begin() + 100000));
  EXPECT_EQ(Bytes(back.begin() + 100100, back.end()), Bytes(100100));
}

TEST_P(ConformanceTest, ManySubfilesAreBoundWhenTouched) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/many", layout_of("stripe(unit=512, over=300)"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  PlainFile plain;
  const Element element = view->element();
  const Bytes few = numbered(3000, 4);
  ASSERT_THAT(view->write(512 * 310 + 5, few), IsOk());
  plain.write(element, 512 * 310 + 5, few);
  const auto columns = layout_of("hpf(shape=[1000,400], elem=1, dist=(*,BLOCK), grid=[1,4])");
  const auto strided = file->view(*columns.element(2));
  ASSERT_THAT(strided, IsOk());
  const Bytes column = numbered(100000, 5);
  ASSERT_THAT(strided->write(0, column), IsOk());
  plain.write(*columns.element(2), 0, column);
  expect_same_bytes(*file, plain);
}

TEST_P(ConformanceTest, PatternsTooComplexToKeepAreMovedPieceByPiece) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  // Irregular on both sides, with periods that have nothing in common: millions of families in a common period.
  Random random(42);
  const auto irregular = [&](Offset period) {
    layout::FallsSet even;
    layout::FallsSet odd;
    for (Offset at = 0; at < period;) {
      const Offset length = std::min(random.between(1, 40), period - at);
      (even.size() <= odd.size() ? even : odd).push_back({at, at + length - 1, 0, 1, {}});
      at += length;
    }
    return std::vector<layout::FallsSet>{even, odd};
  };
  const auto layout = Partition::create(layout::Explicit{irregular(20011)}, {.disp = 0, .period = 20011});
  ASSERT_THAT(layout, IsOk());
  const auto element = Element::create(irregular(20021)[0], {.disp = 3, .period = 20021});
  ASSERT_THAT(element, IsOk());
  const auto file = fs.create("/complex", *layout);
  ASSERT_THAT(file, IsOk());
  const auto view = file->view(*element);
  ASSERT_THAT(view, IsOk());
  EXPECT_THAT(view->explain(), AllOf(HasSubstr("too complex"), HasSubstr("more than 2048 families")));
  PlainFile plain;
  const Bytes bytes = numbered(60000, 3);
  ASSERT_THAT(view->write(777, bytes), IsOk());
  plain.write(*element, 777, bytes);
  Bytes back(bytes.size());
  ASSERT_THAT(view->read(777, back), IsOk());
  EXPECT_EQ(back, bytes);
  expect_same_bytes(*file, plain);
}

TEST_P(ConformanceTest, BytesBeforeTheLayoutAreZeroForEver) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/late", layout_of("falls(disp=10, {(0,1,6,1)} | {(2,5,6,1)})"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  const Bytes bytes = numbered(20, 3);
  EXPECT_THAT(view->write(5, bytes), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("starts at byte 10")));
  ASSERT_THAT(view->write(10, bytes), IsOk());
  Bytes back(30, std::byte{7});
  ASSERT_THAT(view->read(0, back), IsOk());
  EXPECT_EQ(Bytes(back.begin(), back.begin() + 10), Bytes(10));
  EXPECT_EQ(Bytes(back.begin() + 10, back.end()), bytes);
}

TEST_P(ConformanceTest, ViewsHaveLimits) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", layout_of("stripe(unit=4, over=3)"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  Bytes bytes(10);
  EXPECT_THAT(view->read(-1, bytes), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(view->write(kMaxBytes - 9, bytes), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(file->view(Element())->write(0, bytes), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(file->truncate(-1), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(fs.create("/bad", *Partition::create(layout::Explicit{{{{0, 1, 0, 1, {}}}, {{3, 4, 0, 1, {}}}}})),
              StatusIs(ErrorCode::kInvalidArgument));
}

TEST_P(ConformanceTest, NamesOfAnyBytes) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto layout = layout_of("stripe(unit=4, over=2)");
  const std::vector<std::string> names{"plain",    " ",   "line\nfeed",         "\xff\xfe\x01",
                                       "\xc3\xa4", "*?[", std::string(200, 'x')};
  ASSERT_THAT(fs.make_directory("/d"), IsOk());
  for (const std::string& name : names) {
    const auto file = fs.create("/d/" + name, layout, {.exclusive = true, .targets = {}});
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT(file->linear()->write(0, numbered(9, static_cast<unsigned>(name.size()))), IsOk());
    EXPECT_THAT(fs.create("/d/" + name, layout, {.exclusive = true, .targets = {}}), StatusIs(ErrorCode::kExists));
  }
  const auto listed = fs.list("/d");
  ASSERT_THAT(listed, IsOk());
  std::vector<std::string> got;
  for (const Entry& entry : *listed) got.push_back(entry.name);
  EXPECT_THAT(got, ::testing::UnorderedElementsAreArray(names));
  EXPECT_THAT(fs.remove_directory("/d"), StatusIs(ErrorCode::kNotEmpty));
  ASSERT_THAT(fs.rename("/d/\xff\xfe\x01", "/d/plain"), IsOk());  // replaces
  Bytes back(9);
  ASSERT_THAT(fs.open("/d/plain")->linear()->read(0, back), IsOk());
  EXPECT_EQ(back, numbered(9, 3));
  const auto left = fs.list("/d");
  ASSERT_THAT(left, IsOk());
  for (const Entry& entry : *left) EXPECT_THAT(fs.remove("/d/" + entry.name), IsOk());
  EXPECT_THAT(fs.remove_directory("/d"), IsOk());
  EXPECT_THAT(fs.open("/d"), StatusIs(ErrorCode::kNotFound));
  EXPECT_THAT(fs.open("/"), StatusIs(ErrorCode::kIsDirectory));
  const auto usage = fs.usage();
  ASSERT_THAT(usage, IsOk());
  for (const TargetUsage& target : *usage) EXPECT_EQ(target.subfiles, 0) << "target " << target.target;
}

TEST_P(ConformanceTest, ADeadServerIsNamedAndComesBack) {
  ClusterOptions quick = options();
  quick.timeout = std::chrono::milliseconds(2000);
  Cluster cluster(quick);
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", layout_of("stripe(unit=100, over=3)"), {.targets = {0, 1, 2}});
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  const Bytes bytes = numbered(1000, 1);
  for (int i = 0; i < 8; ++i) ASSERT_THAT(view->write(0, bytes), IsOk());
  cluster.stop(1);
  EXPECT_THAT(file->sync(), StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1")));
  EXPECT_THAT(view->write(0, bytes), StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1")));
  Bytes back(50);
  EXPECT_THAT(view->read(0, back), IsOk());  // all of it on server 0
  cluster.start(1);
  if (quick.store == "memory") {
    EXPECT_THAT(view->write(0, bytes), StatusIs(ErrorCode::kIoError, HasSubstr("server 1")));
    return;
  }
  EXPECT_THAT(view->write(0, bytes), IsOk());
  Bytes whole(bytes.size());
  EXPECT_THAT(view->read(0, whole), IsOk());
  EXPECT_EQ(whole, bytes);
}

TEST_P(ConformanceTest, TheWrongKeyIsRefused) {
  const Cluster cluster(options());
  EXPECT_THAT(cluster.try_connect(net::Key::random()), StatusIs(ErrorCode::kPermission));
}

TEST_P(ConformanceTest, LocksExclude) {
  ClusterOptions quick = options();
  quick.timeout = std::chrono::milliseconds(300);
  const Cluster cluster(quick);
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", layout_of("stripe(unit=100, over=3)"));
  ASSERT_THAT(file, IsOk());
  auto first = file->lock(0, 100, false);
  ASSERT_THAT(first.status(), IsOk());
  EXPECT_THAT(file->lock(50, 60, false).status(), IsOk());
  EXPECT_THAT(file->lock(99, 200, true).status(), StatusIs(ErrorCode::kTimedOut));
  EXPECT_THAT(file->lock(100, 200, true).status(), IsOk());
  ASSERT_THAT(first->release(), IsOk());
  EXPECT_THAT(file->lock(0, 200, true).status(), IsOk());
}

INSTANTIATE_TEST_SUITE_P(Local, ConformanceTest,
                         ::testing::Values(Case{"MemoryDirect", "local", "memory", true},
                                           Case{"MemoryMessages", "local", "memory", false},
                                           Case{"Disk", "local", "disk", true}),
                         [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(Rings, ConformanceTest,
                         ::testing::Values(Case{"MemoryDirect", "tcp", "memory", true},
                                           Case{"MemoryMessages", "tcp", "memory", false},
                                           Case{"Disk", "tcp", "disk", true}),
                         [](const auto& test) { return std::string(test.param.name); });

// ---------------------------------------------------------------- relayout interrupted at every step

// Stores and metadata of all servers behind one counter of operations.
class FaultyCluster {
 public:
  FaultyCluster() {
    for (int i = 0; i < kServers; ++i) {
      auto store = storage::make_memory_store({.capacity_bytes = Offset{1} << 28, .pool_regions = 0});
      EXPECT_THAT(store.status(), IsOk());
      stores_.push_back(std::move(store).value());
    }
    metadata_ = storage::make_memory_key_value();
  }

  /// The same stores in new servers, with other faults.
  [[nodiscard]] std::unique_ptr<Cluster> start(const std::shared_ptr<storage::Faults>& faults) const {
    ClusterOptions options;
    options.servers = kServers;
    options.direct = false;  // so that every byte is an operation of a store
    return std::make_unique<Cluster>(options, [&](int server) {
      Cluster::Stores stores;
      stores.store = std::make_unique<storage::FaultyStore>(stores_[static_cast<std::size_t>(server)], faults);
      if (server == 0) stores.metadata = std::make_unique<storage::FaultyKeyValue>(metadata_, faults);
      return stores;
    });
  }

 private:
  static constexpr int kServers = 2;
  std::vector<std::shared_ptr<storage::Store>> stores_;
  std::shared_ptr<storage::KeyValue> metadata_;
};

void fail_relayout_everywhere(storage::FaultOptions::When when) {
  const Partition before = layout_of("stripe(unit=7, over=3)");
  const Partition after = layout_of("tiles(shape=[9,9], elem=1, tile=[4,4], over=2)");
  PlainFile plain;
  plain.write(*Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1}), 0, numbered(100, 2));
  int failures = 0;
  // Servers that cannot even start are not the point.
  const auto counted = std::make_shared<storage::Faults>(storage::FaultOptions{});
  const FaultyCluster unused;
  const auto idle = unused.start(counted);
  for (int fail_at = counted->count();; ++fail_at) {
    SCOPED_TRACE(concat("operation ", fail_at, " fails"));
    ASSERT_LT(fail_at, 1000);
    const FaultyCluster stores;
    {
      const auto sound = std::make_shared<storage::Faults>(storage::FaultOptions{});
      const auto cluster = stores.start(sound);
      const auto file = cluster->connect().create("/file", before);
      ASSERT_THAT(file, IsOk());
      ASSERT_THAT(file->linear()->write(0, plain.bytes()), IsOk());
    }
    Status status;
    const auto faults = std::make_shared<storage::Faults>(storage::FaultOptions{.fail_at = fail_at, .when = when});
    {
      const auto cluster = stores.start(faults);
      const auto fs = cluster->try_connect(cluster->key());
      status = fs.is_ok() ? fs->relayout("/file", after) : fs.status();
    }
    const auto cluster = stores.start(std::make_shared<storage::Faults>(storage::FaultOptions{}));
    const auto file = cluster->connect().open("/file");
    ASSERT_THAT(file, IsOk());
    expect_same_bytes(*file, plain);
    const std::string layout = layout::print(file->layout());
    if (status.is_ok()) {
      ASSERT_EQ(layout, layout::print(after));
    } else {
      ++failures;
      ASSERT_THAT(layout, ::testing::AnyOf(layout::print(before), layout::print(after)));
      if (status.message().find("the old layout still serves") != std::string::npos) {
        ASSERT_EQ(layout, layout::print(before));
      }
    }
    // Server 0 removes what is not the file's, in this life or the next.
    const auto fs = cluster->connect();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (fs.check()->pending_removals > 0) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    const auto report = fs.check();
    ASSERT_THAT(report, IsOk());
    for (const Finding& finding : report->findings) {
      ASSERT_EQ(finding.kind, Finding::Kind::kRelayout) << finding.what;
    }
    if (!faults->fired()) break;
  }
  EXPECT_GT(failures, 10);
}

TEST(RelayoutFaultTest, EveryFailureLeavesOneLayoutServing) {
  fail_relayout_everywhere(storage::FaultOptions::When::kBefore);
}

TEST(RelayoutFaultTest, EveryLostAnswerLeavesOneLayoutServing) {
  fail_relayout_everywhere(storage::FaultOptions::When::kAfter);
}

// ---------------------------------------------------------------- cut where bytes are out of order

/// One past the last byte of the subfile that a file of `size` bytes has.
Offset length_below(const Element& element, Offset size) {
  Offset length = 0;
  for (Offset y = 0; y < size + 2 * element.size(); ++y) {
    const std::optional<Offset> x = element.unmap(y);
    if (x && *x < size) length = y + 1;
  }
  return length;
}

TEST(TruncateTest, KeepsJustTheBytesBelowTheCut) {
  const Cluster cluster(ClusterOptions{});
  const FileSystem fs = cluster.connect();
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Partition layout =
        seed % 4 == 0 ? layout_of("tiles(shape=[8,8], elem=2, tile=[3,3], over=2)") : random_layout(random);
    const auto file = fs.create(concat("/", seed), layout);
    ASSERT_THAT(file, IsOk());
    const auto view = file->linear();
    const Offset from = layout.disp();
    const Bytes bytes = random_bytes(random, random.between(1, 300));
    const Offset end = from + std::ssize(bytes);
    ASSERT_THAT(view->write(from, bytes), IsOk());
    const Offset cut = random.between(from, end);
    ASSERT_THAT(file->truncate(cut), IsOk());
    const auto stat = fs.stat(concat("/", seed));
    ASSERT_THAT(stat, IsOk());
    EXPECT_EQ(stat->size, cut);
    for (std::uint32_t i = 0; i < stat->subfiles.size(); ++i) {
      EXPECT_EQ(stat->subfiles[i].length, length_below(*layout.element(i), cut)) << "subfile " << i;
    }
    ASSERT_THAT(file->truncate(end), IsOk());
    Bytes expected = bytes;
    std::fill(expected.begin() + (cut - from), expected.end(), std::byte{0});
    Bytes back(bytes.size());
    ASSERT_THAT(view->read(from, back), IsOk());
    EXPECT_TRUE(back == expected) << "bytes behind the cut came back";
  }
}

// One period of this layout has 2^46 bytes: what is cleared is bounded by the bytes that there are.
TEST(TruncateTest, CostsNoMoreThanTheFileHas) {
  const Cluster cluster(ClusterOptions{});
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/large", layout_of("tiles(shape=[8388608,8388608], elem=1, tile=[4096,4096], over=3)"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view->write(0, numbered(100'000, 1)), IsOk());
  ASSERT_THAT(file->truncate(10), IsOk());
  EXPECT_THAT(file->size(), IsOkAndHolds(10));
  ASSERT_THAT(file->truncate(100'000), IsOk());
  Bytes back(100'000);
  Bytes expected = numbered(100'000, 1);
  std::fill(expected.begin() + 10, expected.end(), std::byte{0});
  ASSERT_THAT(view->read(0, back), IsOk());
  EXPECT_TRUE(back == expected);
}

// ---------------------------------------------------------------- locks of many

TEST(LockTest, ManyClientsTakeTurnsAndNoneIsLeftOut) {
  constexpr int kClients = 6;
  constexpr int kTimes = 20;
  const Cluster cluster(ClusterOptions{});
  const FileSystem fs = cluster.connect();
  ASSERT_THAT(fs.create("/count", layout_of("stripe(unit=8, over=1)")), IsOk());
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      const FileSystem mine = cluster.connect();
      const auto file = mine.open("/count");
      ASSERT_THAT(file, IsOk());
      const auto view = file->linear();
      for (int k = 0; k < kTimes; ++k) {
        const auto lock = file->lock(0, 8, true);
        ASSERT_THAT(lock.status(), IsOk());
        std::int64_t count = 0;
        ASSERT_THAT(view->read(0, std::as_writable_bytes(std::span(&count, 1))), IsOk());
        ++count;
        ASSERT_THAT(view->write(0, std::as_bytes(std::span(&count, 1))), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::int64_t count = 0;
  ASSERT_THAT(fs.open("/count")->linear()->read(0, std::as_writable_bytes(std::span(&count, 1))), IsOk());
  EXPECT_EQ(count, kClients * kTimes);
}

// ---------------------------------------------------------------- what an access costs

TEST(AccessReportTest, CountsWhatItTakesToMapMemory) {
  ClusterOptions options;
  options.servers = 1;
  const Cluster cluster(options);
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/direct", layout_of("stripe(unit=1M, over=1)"));
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  const Bytes bytes = numbered(std::size_t{1} << 20, 1);
  ASSERT_THAT(view->write(0, bytes), IsOk());
  AccessReport report = view->report();
  EXPECT_EQ(report.direct_bytes, std::ssize(bytes));
  EXPECT_EQ(report.messages, 2) << "Share and Reserve";
  EXPECT_GT(report.index_bytes, 0);
  EXPECT_EQ(report.extra_bytes, 0);
  ASSERT_THAT(view->write(0, bytes), IsOk());
  EXPECT_EQ(view->report().messages, 2) << "once is enough";

  // The layout turns out to be stale: bytes moved until then are moved again.
  ASSERT_THAT(fs.relayout("/direct", layout_of("stripe(unit=512K, over=1)")), IsOk());
  ASSERT_THAT(view->write(0, bytes), IsOk());
  report = view->report();
  EXPECT_EQ(report.moved_bytes - report.extra_bytes, 3 * std::ssize(bytes));
}

TEST(AccessReportTest, CountsMessagesAndIndexBytesOfTheViewPaper) {
  ClusterOptions options;
  options.direct = false;
  options.servers = 4;
  const Cluster cluster(options);
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/matrix", layout_of("hpf(shape=[256,256], elem=8, dist=(*,BLOCK), grid=[1,4])"));
  ASSERT_THAT(file, IsOk());
  const Bytes share = numbered(256 * 256 * 2, 1);

  // The view is one of the subfiles: one message, nothing gathered.
  const auto columns = file->view(*file->layout().element(2));
  ASSERT_THAT(columns, IsOk());
  ASSERT_THAT(columns->write(0, share), IsOk());
  EXPECT_EQ(columns->report().messages, 2);  // the view, and the bytes
  EXPECT_EQ(columns->report().gathered_bytes, 0);
  const std::int64_t first_index = columns->report().index_bytes;
  ASSERT_THAT(columns->write(0, share), IsOk());
  EXPECT_EQ(columns->report().messages, 3);
  EXPECT_LT(columns->report().index_bytes - first_index, 200);

  // Rows cross all of them: one message each, gathered.
  const auto rows_layout = layout_of("hpf(shape=[256,256], elem=8, dist=(BLOCK,*), grid=[4,1])");
  const auto rows = file->view(*rows_layout.element(1));
  ASSERT_THAT(rows, IsOk());
  ASSERT_THAT(rows->write(0, share), IsOk());
  const AccessReport report = rows->report();
  EXPECT_EQ(report.calls, 1);
  EXPECT_EQ(report.messages, 8);
  EXPECT_EQ(report.moved_bytes, static_cast<Offset>(share.size()));
  EXPECT_EQ(report.gathered_bytes, static_cast<Offset>(share.size()));
  EXPECT_EQ(report.direct_bytes, 0);
  EXPECT_THAT(rows->explain(), HasSubstr("gathered from the view, contiguous in the subfile"));
}

TEST(EmbeddedTest, IsAFileSystemInsideTheProcess) {
  const auto system = embedded({.servers = 2, .capacity_bytes = Offset{1} << 28});
  ASSERT_THAT(system.status(), IsOk());
  const FileSystem& fs = system->file_system();
  const auto file = fs.create("/out", layout_of("stripe(unit=64K, over=2)"));
  ASSERT_THAT(file, IsOk());
  const Bytes bytes = numbered(1000000, 1);
  ASSERT_THAT(file->linear()->write(0, bytes), IsOk());
  Bytes back(bytes.size());
  ASSERT_THAT(file->linear()->read(0, back), IsOk());
  EXPECT_TRUE(back == bytes);
  EXPECT_THAT(embedded({.servers = 0}).status(), StatusIs(ErrorCode::kInvalidArgument));
}

}  // namespace
}  // namespace weir::client
