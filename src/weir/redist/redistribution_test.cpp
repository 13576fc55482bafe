#include <weir/redist/redistribution.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/array_order.h>
#include <weir/layout/language.h>
#include <weir/layout/testing/generate.h>
#include <weir/model/model.h>
#include <weir/mpi/wait.h>

namespace weir::redist {
namespace {

using layout::Partition;
using layout::oracle::Random;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

constexpr std::size_t kGuard = 32;
constexpr std::byte kUntouched{0xA5};

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

int world_rank() { return rank_in(MPI_COMM_WORLD); }
int world_size() { return size_of(MPI_COMM_WORLD); }

// True on all ranks or on none, so that a case that gives up gives up everywhere.
bool holds_everywhere(bool mine, MPI_Comm comm = MPI_COMM_WORLD) {
  int value = mine ? 1 : 0;
  int all = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Iallreduce(&value, &all, 1, MPI_INT, MPI_MIN, comm, &request);
  EXPECT_THAT(mpi::await("MPI_Iallreduce", code, request), IsOk());
  return all == 1;
}

Partition parsed(const std::string& text) {
  auto partition = layout::parse(text);
  EXPECT_THAT(partition, IsOk()) << text;
  return std::move(partition).value();
}

// Up to `most` cases; fewer, but not less than 20, if they take long, as they do where ranks outnumber cores.  The same
// on all ranks.
class CaseBudget {
 public:
  CaseBudget(std::uint64_t most, MPI_Comm comm) : most_(most), comm_(comm) {}

  bool allows(std::uint64_t index) const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return index < most_ && holds_everywhere(index < 20 || spent.count() < 10, comm_);
  }

 private:
  std::uint64_t most_;
  MPI_Comm comm_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A variable of this process for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (old_) {
      ::setenv(name_, old_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// What the machine was calibrated to must not decide what is tested.
class NoModel : public ::testing::Environment {
 public:
  void SetUp() override {
    ::setenv("WEIR_MODEL", "/nonexistent/model.toml", 1);
    ::unsetenv("WEIR_REDIST_PHASES");
  }
};
[[maybe_unused]] const auto* const kNoModel = ::testing::AddGlobalTestEnvironment(new NoModel);

// The byte at file offset x of the array with this number.
std::byte content(Offset x, std::size_t array) {
  return static_cast<std::byte>((static_cast<std::uint64_t>(x) * 0x9E3779B97F4A7C15u + array * 0x1234567u) >> 40);
}

// File offsets of an element in its order, by listing them; nothing for ranks without an element.
layout::oracle::Bytes listed(const Partition& partition, std::optional<Offset> element) {
  if (!element) return {};
  layout::oracle::Bytes bytes = layout::oracle::expand(partition.element(*element)->falls());
  for (Offset& byte : bytes) byte += partition.disp();
  return bytes;
}

std::optional<Offset> own_element(const Partition& partition, MPI_Comm comm) {
  const Offset rank = rank_in(comm);
  return rank < partition.element_count() ? std::optional(rank) : std::nullopt;
}

// The memory of one array on this rank: source filled in, target untouched between guards.
struct Memory {
  Memory(const layout::oracle::Bytes& from, const layout::oracle::Bytes& to, std::size_t array)
      : source(from.size()), target(to.size() + 2 * kGuard, kUntouched) {
    for (std::size_t i = 0; i < from.size(); ++i) source[i] = content(from[i], array);
  }
  [[nodiscard]] Arrays arrays() { return {source.data(), target.data() + kGuard}; }

  std::vector<std::byte> source;
  std::vector<std::byte> target;
};

void expect_right(const Memory& memory, const layout::oracle::Bytes& to, std::size_t array) {
  std::vector<std::byte> expected(to.size() + 2 * kGuard, kUntouched);
  for (std::size_t i = 0; i < to.size(); ++i) expected[kGuard + i] = content(to[i], array);
  EXPECT_EQ(memory.target, expected);
}

// Gathers all targets on rank 0 and puts the array together again.
void expect_right_gathered(const Memory& memory, const Partition& to, std::optional<Offset> element, std::size_t array,
                           MPI_Comm comm) {
  const layout::oracle::Bytes places = listed(to, element);
  const int count = static_cast<int>(places.size());
  std::vector<int> counts(static_cast<std::size_t>(size_of(comm)));
  MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, comm);
  std::vector<int> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), 0);
  const auto total = static_cast<std::size_t>(starts.back() + counts.back());
  std::vector<std::byte> bytes(total);
  std::vector<Offset> offsets(total);
  MPI_Gatherv(memory.target.data() + kGuard, count, MPI_BYTE, bytes.data(), counts.data(), starts.data(), MPI_BYTE, 0,
              comm);
  MPI_Gatherv(places.data(), count, MPI_INT64_T, offsets.data(), counts.data(), starts.data(), MPI_INT64_T, 0, comm);
  if (rank_in(comm) != 0) return;
  std::vector<std::byte> image(static_cast<std::size_t>(to.period()));
  std::vector<std::byte> expected(image.size());
  for (std::size_t i = 0; i < total; ++i) image[static_cast<std::size_t>(offsets[i] - to.disp())] = bytes[i];
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = content(static_cast<Offset>(i) + to.disp(), array);
  EXPECT_EQ(image, expected);
}

enum class How { kExecute, kStartWait, kStartTest };

Status run(Redistribution& redistribution, std::span<const Arrays> arrays, How how) {
  if (how == How::kExecute) return redistribution.execute(arrays);
  WEIR_TRY(Request request, redistribution.start(arrays));
  if (how == How::kStartWait) return request.wait();
  for (;;) {
    WEIR_TRY(const bool is_done, request.test());
    if (is_done) return Status::ok();
  }
}

struct Trial {
  Options options = {};
  std::size_t arrays = 1;
  How how = How::kExecute;
  int repeats = 1;
};

// \returns false, on all ranks, if something is wrong.
bool try_out(MPI_Comm comm, const Partition& from, const Partition& to, const Trial& trial) {
  auto redistribution = Redistribution::create(comm, from, to, trial.options);
  EXPECT_THAT(redistribution, IsOk());
  if (!holds_everywhere(redistribution.is_ok(), comm)) return false;
  const auto source = listed(from, own_element(from, comm));
  const auto target = listed(to, redistribution->target_element());
  for (int repeat = 0; repeat < trial.repeats; ++repeat) {
    std::vector<Memory> memories;
    std::vector<Arrays> arrays;
    for (std::size_t i = 0; i < trial.arrays; ++i) memories.emplace_back(source, target, i);
    for (Memory& memory : memories) arrays.push_back(memory.arrays());
    const Status status = run(*redistribution, arrays, trial.how);
    EXPECT_THAT(status, IsOk());
    if (!holds_everywhere(status.is_ok(), comm)) return false;
    for (std::size_t i = 0; i < trial.arrays; ++i) {
      expect_right(memories[i], target, i);
      expect_right_gathered(memories[i], to, redistribution->target_element(), i, comm);
    }
  }
  if (trial.options.max_buffer_bytes > 0) {
    const Report& report = redistribution->report();
    EXPECT_LE(report.buffer_bytes + report.between_bytes, trial.options.max_buffer_bytes);
  }
  return holds_everywhere(!::testing::Test::HasFailure(), comm);
}

bool try_out(const std::string& from, const std::string& to, const Trial& trial = {}) {
  SCOPED_TRACE(from + " to " + to);
  return try_out(MPI_COMM_WORLD, parsed(from), parsed(to), trial);
}

// Processes of a grid of this rank, all of them at most `ranks`.
std::vector<Offset> random_grid(Random& random, std::size_t rank, Offset ranks) {
  std::vector<Offset> grid(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    grid[i] = random.between(1, ranks);
    ranks /= grid[i];
  }
  random.shuffle(grid);
  return grid;
}

layout::Hpf random_hpf(Random& random, const std::vector<Offset>& shape, Offset elem, Offset ranks) {
  layout::Hpf hpf{shape, elem, {}, random_grid(random, shape.size(), ranks), layout::ArrayOrder::kC};
  if (random.chance(30)) hpf.order = layout::ArrayOrder::kFortran;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Offset least = ceil_div(shape[d], hpf.grid[d]);
    switch (random.between(hpf.grid[d] == 1 ? 0 : 1, 4)) {
      case 0: hpf.dist.push_back({layout::Dist::Kind::kWhole, 0}); break;
      case 1: hpf.dist.push_back({layout::Dist::Kind::kBlock, 0}); break;
      case 2: hpf.dist.push_back({layout::Dist::Kind::kBlock, random.between(least, least + 2)}); break;
      case 3: hpf.dist.push_back({layout::Dist::Kind::kCyclic, 0}); break;
      default: hpf.dist.push_back({layout::Dist::Kind::kCyclic, random.between(1, 4)}); break;
    }
  }
  return hpf;
}

// Any layout of an array of this shape.
layout::Description random_layout(Random& random, const std::vector<Offset>& shape, Offset elem, Offset ranks) {
  Offset bytes = elem;
  for (const Offset extent : shape) bytes *= extent;
  const Offset kind = random.between(0, 99);
  if (kind < 55) return random_hpf(random, shape, elem, ranks);
  if (kind < 80) {
    layout::Tiles tiles{shape, elem, {}, random.between(1, ranks), layout::ArrayOrder::kC};
    if (random.chance(30)) tiles.order = layout::ArrayOrder::kFortran;
    for (const Offset extent : shape) tiles.tile.push_back(random.between(1, extent));
    return tiles;
  }
  return layout::Explicit{layout::oracle::random_partition(random, bytes, random.between(1, ranks))};
}

struct Pair {
  Partition from;
  Partition to;
};

Pair random_pair(Random& random, Offset ranks) {
  const auto rank = static_cast<std::size_t>(random.between(1, 3));
  std::vector<Offset> shape(rank);
  for (Offset& extent : shape) extent = random.between(1, rank == 1 ? 60 : rank == 2 ? 14 : 6);
  const Offset elem = random.between(1, 9);
  const Offset disp = random.chance(70) ? 0 : random.between(1, 50);
  // Explicit elements may be refused as too complex: rare, take others then.
  for (;;) {
    auto from = Partition::create(random_layout(random, shape, elem, ranks), {.disp = disp, .period = 0});
    auto to = Partition::create(random_layout(random, shape, elem, ranks), {.disp = disp, .period = 0});
    if (from.is_ok() && to.is_ok() && from->period() == to->period()) return {*std::move(from), *std::move(to)};
  }
}

Trial random_trial(Random& random) {
  Trial trial;
  trial.arrays = random.chance(60) ? 1 : static_cast<std::size_t>(random.between(0, 5));
  trial.how = static_cast<How>(random.between(0, 2));
  trial.repeats = random.chance(80) ? 1 : 2;
  trial.options.relabel = random.chance(20);
  trial.options.check_arguments = random.chance(80);
  trial.options.survey_ranks = random.chance(80) ? 256 : 0;
  if (random.chance(40)) trial.options.max_buffer_bytes = random.between(16, 2000);
  return trial;
}

TEST(RedistributionTest, GoesFromCToFortranOrder) {
  const Offset ranks = size_of(MPI_COMM_WORLD);
  const std::string shape = concat("shape=[", 3 * ranks + 1, ",17], elem=4, ");
  const Partition rows = parsed(concat("hpf(", shape, "dist=(BLOCK,*), grid=[", ranks, ",1])"));
  for (const char* dist : {"(CYCLIC(2),*)", "(BLOCK,*)"}) {
    const Partition columns = parsed(concat("hpf(", shape, "dist=", dist, ", grid=[", ranks, ",1], order=F)"));
    const auto turned = layout::in_c_order(columns);
    ASSERT_THAT(turned, IsOk());
    if (!try_out(MPI_COMM_WORLD, rows, *turned, {})) return;
    if (!try_out(MPI_COMM_WORLD, *turned, rows, {})) return;
  }
}

TEST(RedistributionTest, RandomLayouts) {
  const CaseBudget budget(400, MPI_COMM_WORLD);
  for (std::uint64_t i = 0; budget.allows(i); ++i) {
    Random random(layout::oracle::base_seed() * 7919 + i);  // the same on all ranks
    const Pair pair = random_pair(random, world_size());
    const Trial trial = random_trial(random);
    SCOPED_TRACE(::testing::Message() << "case " << i << " of WEIR_TEST_SEED=" << layout::oracle::base_seed() << ": "
                                      << print(pair.from) << " to " << print(pair.to));
    if (!try_out(MPI_COMM_WORLD, pair.from, pair.to, trial)) return;
  }
}

// Block-cyclic in every dimension, with a layout between that is neither of the two.
std::optional<Pair> random_pair_with_layout_between(Random& random, Offset ranks) {
  const auto rank = static_cast<std::size_t>(random.between(1, 3));
  layout::Hpf from{{}, random.between(1, 9), {}, random_grid(random, rank, ranks), layout::ArrayOrder::kC};
  if (random.chance(30)) from.order = layout::ArrayOrder::kFortran;
  layout::Hpf to = from;
  for (std::size_t d = 0; d < rank; ++d) {
    from.shape.push_back(random.between(1, rank == 1 ? 200 : rank == 2 ? 30 : 12));
    for (layout::Hpf* side : {&from, &to}) {
      side->dist.push_back({layout::Dist::Kind::kCyclic, random.between(1, 6)});
    }
  }
  to.shape = from.shape;
  Pair pair{Partition::create(from).value(), Partition::create(to).value()};
  if (!model::layout_between(pair.from, pair.to)) return std::nullopt;
  return pair;
}

TEST(RedistributionTest, RandomLayoutsInTwoPhases) {
  if (world_size() == 1) GTEST_SKIP() << "one process needs no layout between";
  const CaseBudget budget(200, MPI_COMM_WORLD);
  Random random(layout::oracle::base_seed() * 104729);  // the same on all ranks
  for (std::uint64_t i = 0; budget.allows(i); ++i) {
    std::optional<Pair> pair;
    while (!pair) pair = random_pair_with_layout_between(random, world_size());
    Trial trial = random_trial(random);
    trial.options.phases = Phases::kTwo;
    // The memory between phases has to fit, whole: at most 12^3 entries of 9 bytes.
    if (trial.options.max_buffer_bytes > 0) trial.options.max_buffer_bytes += 20000;
    SCOPED_TRACE(::testing::Message() << "case " << i << " of WEIR_TEST_SEED=" << layout::oracle::base_seed() << ": "
                                      << print(pair->from) << " to " << print(pair->to));
    if (!try_out(MPI_COMM_WORLD, pair->from, pair->to, trial)) return;
  }
}

TEST(RedistributionTest, RandomLayoutsOnPartsOfTheWorld) {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world_rank() % 2, -world_rank(), &half);  // backwards, too
  const CaseBudget budget(100, half);
  for (std::uint64_t i = 0; budget.allows(i); ++i) {
    Random random(static_cast<std::uint64_t>(world_rank() % 2 + 1) * 1000 + i);
    const Pair pair = random_pair(random, size_of(half));
    SCOPED_TRACE(::testing::Message() << "case " << i << ": " << print(pair.from) << " to " << print(pair.to));
    if (!try_out(half, pair.from, pair.to, random_trial(random))) break;
  }
  MPI_Comm_free(&half);
}

std::string one_dimension(const std::string& dist, int processes, Offset elements) {
  return concat("hpf(shape=[", elements, "], elem=8, dist=(", dist, "), grid=[", processes, "])");
}

// The cases that redistribution is known for.  One phase, and two wherever there is a layout between, must give the
// same bytes: those that the oracle lists.  5003 is a prime: last blocks are short.
class ClassicCaseTest : public ::testing::Test {
 protected:
  enum class Between { kExists, kNone };

  static void check(const std::string& from_dist, const std::string& to_dist, Between between) {
    constexpr Offset kElements = 5003;
    const std::string from = one_dimension(from_dist, world_size(), kElements);
    const std::string to = one_dimension(to_dist, world_size(), kElements);
    for (const How how : {How::kExecute, How::kStartTest}) {
      if (!try_out(from, to, {.options = {.phases = Phases::kOne}, .how = how})) return;
      if (!try_out(from, to,
                   {.options = {.max_buffer_bytes = 3000, .phases = Phases::kOne}, .arrays = 3, .how = how})) {
        return;
      }
    }
    const bool has_between = model::layout_between(parsed(from), parsed(to)).has_value();
    EXPECT_EQ(has_between, between == Between::kExists && world_size() > 1);
    if (!has_between) return;
    for (const How how : {How::kExecute, How::kStartWait, How::kStartTest}) {
      if (!try_out(from, to, {.options = {.phases = Phases::kTwo}, .how = how, .repeats = 2})) return;
      if (!try_out(from, to, {.options = {.phases = Phases::kTwo}, .arrays = 4, .how = how})) return;
      if (!try_out(from, to,
                   {.options = {.max_buffer_bytes = 60000, .phases = Phases::kTwo}, .arrays = 4, .how = how})) {
        return;
      }
    }
  }
};

TEST_F(ClassicCaseTest, BlockToCyclic) { check("BLOCK", "CYCLIC", Between::kNone); }
TEST_F(ClassicCaseTest, CyclicToBlock) { check("CYCLIC", "BLOCK", Between::kNone); }
TEST_F(ClassicCaseTest, CyclicOfMultipleToCyclic) { check("CYCLIC(12)", "CYCLIC(3)", Between::kNone); }
TEST_F(ClassicCaseTest, CyclicToCyclicOfMultiple) { check("CYCLIC(3)", "CYCLIC(12)", Between::kNone); }
TEST_F(ClassicCaseTest, CyclicToCyclic) { check("CYCLIC(5)", "CYCLIC(7)", Between::kExists); }
TEST_F(ClassicCaseTest, CyclicToCyclicWithCommonDivisor) { check("CYCLIC(12)", "CYCLIC(18)", Between::kExists); }
TEST_F(ClassicCaseTest, BlockToBlock) { check("BLOCK", "BLOCK", Between::kNone); }

TEST(RedistributionTest, OtherNumbersOfProcessesOnEachSide) {
  for (int from = 1; from <= world_size(); ++from) {
    for (int to = 1; to <= world_size(); ++to) {
      if (!try_out(one_dimension("BLOCK", from, 211), one_dimension("CYCLIC(3)", to, 211))) return;
    }
  }
}

// Column-major memory of row-major file order is an element whose blocks interleave.
TEST(RedistributionTest, RowsToTransposedColumns) {
  const int p = world_size();
  const Offset rows = 6 * p;
  const Offset columns = 4 * p;
  std::string to = "falls(";
  for (int i = 0; i < p; ++i) {
    const Offset left = i * 4 * 8;
    const Offset down = columns * 8;
    to += concat(i == 0 ? "" : " | ", "{(", left, ',', left + (rows - 1) * down + 7, ",8,4,{(0,7,", down, ',', rows,
                 ")})}");
  }
  to += ")";
  const std::string from = concat("hpf(shape=[", rows, ',', columns, "], elem=8, dist=(BLOCK,*), grid=[", p, ",1])");
  EXPECT_TRUE(try_out(from, to));
  EXPECT_TRUE(try_out(to, from));
  EXPECT_TRUE(try_out(to, from, {.options = {.max_buffer_bytes = 700}, .arrays = 3}));
}

TEST(RedistributionTest, SeveralRoundsPackedAndDirect) {
  const int p = world_size();
  const Offset n = 100000;
  const Options options{.max_buffer_bytes = 200000};
  const struct {
    std::string from;
    std::string to;
    std::size_t arrays;
    How how;
  } cases[] = {{"BLOCK", "CYCLIC", 2, How::kStartTest},
               {"CYCLIC", "BLOCK", 2, How::kExecute},
               {"CYCLIC(7)", "CYCLIC(64)", 1, How::kStartWait},
               {"CYCLIC(7)", "CYCLIC(64)", 3, How::kExecute}};
  for (const auto& item : cases) {
    const Trial trial{.options = options, .arrays = item.arrays, .how = item.how};
    if (!try_out(one_dimension(item.from, p, n), one_dimension(item.to, p, n), trial)) return;
  }
  EXPECT_TRUE(try_out(one_dimension("BLOCK", 1, n), one_dimension("BLOCK", p, n)));  // direct at both ends
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, parsed(one_dimension("CYCLIC(7)", p, n)),
                                               parsed(one_dimension("CYCLIC(64)", p, n)), {.max_buffer_bytes = 9000});
  ASSERT_THAT(redistribution, IsOk());
  EXPECT_TRUE(p == 1 || redistribution->report().rounds > 3);
}

TEST(RedistributionTest, ManySmallArraysTravelInFewMessages) {
  EXPECT_TRUE(try_out(one_dimension("BLOCK", world_size(), 50), one_dimension("CYCLIC(2)", world_size(), 50),
                      {.arrays = 500, .how = How::kStartTest, .repeats = 2}));
  EXPECT_TRUE(try_out(one_dimension("BLOCK", world_size(), 5000), one_dimension("CYCLIC(2)", world_size(), 5000),
                      {.options = {.max_buffer_bytes = 9000}, .arrays = 50}));
}

TEST(RedistributionTest, TargetsMayOverlapAndLeaveGaps) {
  const Partition from = parsed(one_dimension("CYCLIC", world_size(), 16));
  std::string text = "falls(period=128";
  for (int i = 0; i < world_size(); ++i) text += concat(i == 0 ? ", " : " | ", "{(64,127,-,1),(8,15,-,1)}");
  const Partition to = parsed(text + ")");
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, from, to);
  EXPECT_THAT(redistribution, IsOk());
  if (!holds_everywhere(redistribution.is_ok())) return;
  const auto target = listed(to, world_rank());
  Memory memory(listed(from, world_rank()), target, 0);
  EXPECT_THAT(redistribution->execute(memory.source.data(), memory.target.data() + kGuard), IsOk());
  expect_right(memory, target, 0);
}

TEST(RedistributionTest, SeveralRedistributionsUnderWayDoNotMix) {
  const Partition block = parsed(one_dimension("BLOCK", world_size(), 30011));
  const Partition cyclic = parsed(one_dimension("CYCLIC(3)", world_size(), 30011));
  auto there = Redistribution::create(MPI_COMM_WORLD, block, cyclic);
  auto back = Redistribution::create(MPI_COMM_WORLD, cyclic, block);
  if (!holds_everywhere(there.is_ok() && back.is_ok())) FAIL();
  const auto in_blocks = listed(block, world_rank());
  const auto dealt = listed(cyclic, world_rank());
  Memory first(in_blocks, dealt, 0);
  Memory second(dealt, in_blocks, 1);
  auto one = there->start(std::vector{first.arrays()});
  auto two = back->start(std::vector{second.arrays()});
  if (!holds_everywhere(one.is_ok() && two.is_ok())) FAIL();
  // Ranks wait in different orders: each request makes progress on its own.
  Request& early = world_rank() % 2 == 0 ? *one : *two;
  Request& late = world_rank() % 2 == 0 ? *two : *one;
  for (bool is_early = false, is_late = false; !is_early || !is_late;) {
    is_early = *early.test();
    is_late = *late.test();
  }
  expect_right(first, dealt, 0);
  expect_right(second, in_blocks, 1);
}

TEST(RedistributionTest, DroppedRequestIsFinished) {
  const Partition block = parsed(one_dimension("BLOCK", world_size(), 30011));
  const Partition cyclic = parsed(one_dimension("CYCLIC(3)", world_size(), 30011));
  const auto dealt = listed(cyclic, world_rank());
  Memory memory(listed(block, world_rank()), dealt, 0);
  {
    auto redistribution = Redistribution::create(MPI_COMM_WORLD, block, cyclic);
    if (!holds_everywhere(redistribution.is_ok())) FAIL();
    auto request = redistribution->start(memory.source.data(), memory.target.data() + kGuard);
    EXPECT_THAT(request, IsOk());
    Redistribution moved = std::move(*redistribution);
  }
  expect_right(memory, dealt, 0);
}

TEST(RedistributionTest, RelabellingKeepsBytesAtHome) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  const int p = world_size();
  // The target's elements are the source's, one rank further.
  std::string to = "falls(";
  for (int i = 0; i < p; ++i) {
    const Offset left = (i + 1) % p * 64;
    to += concat(i == 0 ? "" : " | ", "{(", left, ',', left + 63, ",-,1)}");
  }
  const Partition from = parsed(one_dimension("BLOCK", p, 8 * p));
  const Partition shifted = parsed(to + ")");
  auto plain = Redistribution::create(MPI_COMM_WORLD, from, shifted);
  auto relabelled = Redistribution::create(MPI_COMM_WORLD, from, shifted, {.relabel = true});
  if (!holds_everywhere(plain.is_ok() && relabelled.is_ok())) FAIL();
  EXPECT_EQ(plain->report().relabelling_saves, Offset{64 * p});
  EXPECT_EQ(plain->report().local_bytes, 0);
  EXPECT_EQ(plain->target_element(), Offset{world_rank()});
  EXPECT_EQ(relabelled->report().local_bytes, 64);
  EXPECT_TRUE(relabelled->report().sends.empty() && relabelled->report().receives.empty());
  EXPECT_EQ(relabelled->target_element(), Offset{(world_rank() + p - 1) % p});
  EXPECT_THAT(plain->explain(), HasSubstr(concat("relabelling of target elements would save ", 64 * p, " bytes")));
  EXPECT_TRUE(try_out(MPI_COMM_WORLD, from, shifted, {.options = {.relabel = true}}));
}

TEST(RedistributionTest, RanksWithNothingToSayAreSilent) {
  const Partition from = parsed(one_dimension("BLOCK", world_size(), 64));
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, from, from);
  if (!holds_everywhere(redistribution.is_ok())) FAIL();
  EXPECT_TRUE(redistribution->report().sends.empty());
  EXPECT_TRUE(redistribution->report().receives.empty());
  EXPECT_EQ(redistribution->report().buffer_bytes, 0);
  EXPECT_EQ(redistribution->report().rounds, 0);
}

TEST(RedistributionTest, ReportSaysWhoSendsWhatToWhom) {
  const int p = world_size();
  const Partition from = parsed(one_dimension("BLOCK", p, 4 * p * p));
  const Partition to = parsed(one_dimension("CYCLIC", p, 4 * p * p));
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, from, to);
  if (!holds_everywhere(redistribution.is_ok())) FAIL();
  const Report& report = redistribution->report();
  ASSERT_EQ(report.sends.size(), static_cast<std::size_t>(p - 1));
  for (int i = 1; i < p; ++i) {
    const Transfer& send = report.sends[static_cast<std::size_t>(i - 1)];
    EXPECT_EQ(send.peer, (world_rank() + i) % p);
    EXPECT_EQ(send.bytes, 32);
    EXPECT_EQ(send.pieces, 4);
    EXPECT_EQ(send.messages, 1);
    EXPECT_FALSE(send.is_direct);
    const Transfer& receive = report.receives[static_cast<std::size_t>(i - 1)];
    EXPECT_EQ(receive.peer, (world_rank() - i + p) % p);
    EXPECT_TRUE(receive.is_direct);
  }
  EXPECT_EQ(report.local_bytes, 32);
  ASSERT_TRUE(report.flows);
  ASSERT_EQ(report.flows->size(), static_cast<std::size_t>(p * p));
  EXPECT_EQ(report.flows->back(), (Flow{p - 1, p - 1, 32}));
  EXPECT_THAT(redistribution->explain(), HasSubstr(concat("rank ", world_rank(), " of ", p)));
}

TEST(PhasesTest, ReportTellsOfBothPhases) {
  const int p = world_size();
  if (p == 1) GTEST_SKIP() << "one process needs no layout between";
  const Partition from = parsed(one_dimension("CYCLIC(2)", p, 60 * p));
  const Partition to = parsed(one_dimension("CYCLIC(3)", p, 60 * p));
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, from, to, {.phases = Phases::kTwo});
  if (!holds_everywhere(redistribution.is_ok())) FAIL() << redistribution.status().message();
  const Report& report = redistribution->report();
  EXPECT_EQ(report.between, print(parsed(one_dimension("CYCLIC(6)", p, 60 * p))));
  EXPECT_EQ(report.between_bytes, 60 * 8 / 64 * 64 + 64);
  for (const int phase : {1, 2}) {
    Offset bytes = 0;
    for (const Flow& flow : *report.flows) bytes += flow.phase == phase ? flow.bytes : 0;
    EXPECT_EQ(bytes, 60 * p * 8) << phase;
    Offset received = 0;
    for (const Transfer& receive : report.receives) received += receive.phase == phase ? receive.bytes : 0;
    Offset expected = 0;
    for (const Flow& flow : *report.flows) {
      if (flow.phase == phase && flow.to == world_rank() && flow.from != flow.to) expected += flow.bytes;
    }
    EXPECT_EQ(received, expected) << phase;
  }
  EXPECT_THAT(report.prediction.why, HasSubstr("two phases, as Options::phases says"));
  EXPECT_FALSE(report.last);
  Memory memory(listed(from, world_rank()), listed(to, world_rank()), 0);
  EXPECT_THAT(redistribution->execute(std::vector{memory.arrays()}), IsOk());
  ASSERT_TRUE(report.last);
  EXPECT_EQ(report.last->arrays, 1);
  EXPECT_EQ(report.last->phase_seconds.size(), 2u);
  const std::string text = redistribution->explain();
  EXPECT_THAT(text, HasSubstr("all ranks in phase 2: "));
  EXPECT_THAT(text, HasSubstr("measured on this rank"));
  EXPECT_THAT(text, HasSubstr("WEIR_REDIST_PHASES=auto|one|two"));
}

TEST(PhasesTest, WithoutCalibrationOnePhaseAndTheReasonIsTold) {
  const Partition from = parsed(one_dimension("CYCLIC(2)", world_size(), 600));
  const Partition to = parsed(one_dimension("CYCLIC(3)", world_size(), 600));
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, from, to);
  if (!holds_everywhere(redistribution.is_ok())) FAIL();
  EXPECT_TRUE(redistribution->report().between.empty());
  EXPECT_TRUE(redistribution->report().prediction.phases.empty());
  if (world_size() == 1) return;
  EXPECT_THAT(redistribution->explain(), HasSubstr("one phase: no calibration: run weir model calibrate"));
}

// Messages so slow that their number alone counts.
model::Machine machine_with_slow_messages() {
  model::Machine machine;
  machine.description = "made up";
  machine.caches = {{32 << 10, 8}, {512 << 10, 8}, {8 << 20, 16}};
  machine.pack.regimes = {{1e6, {1e-9, 1, 1e-10}, 0, 0, {}}};
  machine.unpack = machine.pack;
  machine.network = model::Network{1, 1e9};
  return machine;
}

// A model that only rank 0 can read; the other ranks have none.
class ModelOfRank0 {
 public:
  explicit ModelOfRank0(const model::Machine& machine)
      : path_(concat(::testing::TempDir(), "weir_phases_", ::getpid())) {
    if (world_rank() != 0) return;
    EXPECT_THAT(model::save(machine, path_), IsOk());
    variable_.emplace("WEIR_MODEL", path_);
  }
  ~ModelOfRank0() {
    if (world_rank() == 0) std::remove(path_.c_str());
  }

 private:
  std::string path_;
  std::optional<Variable> variable_;
};

// On a grid of p by p, blocks of (2,4) to (4,2): rows and columns change at once, or in one phase each.
std::string square_layout(const char* dist) {
  const int edge = world_size() >= 4 ? 2 : 1;
  return concat("hpf(shape=[", 16 * edge, ',', 16 * edge, "], elem=8, dist=", dist, ", grid=[", edge, ',', edge, "])");
}

TEST(PhasesTest, TheModelOfRank0DecidesForAll) {
  if (world_size() < 4) GTEST_SKIP() << "needs a grid of 2 by 2";
  const std::string from = square_layout("(CYCLIC(2),CYCLIC(4))");
  const std::string to = square_layout("(CYCLIC(4),CYCLIC(2))");
  const ModelOfRank0 model(machine_with_slow_messages());
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, parsed(from), parsed(to));
  if (!holds_everywhere(redistribution.is_ok())) FAIL() << redistribution.status().message();
  // Three messages of a second each, or one and one.
  const Prediction& prediction = redistribution->report().prediction;
  EXPECT_FALSE(redistribution->report().between.empty());
  ASSERT_EQ(prediction.phases.size(), 2u);
  ASSERT_EQ(prediction.alternative.size(), 1u);
  EXPECT_NEAR(prediction.phases[0].messages + prediction.phases[1].messages, 2, 0.01);
  EXPECT_NEAR(prediction.alternative[0].messages, 3, 0.01);
  EXPECT_THAT(redistribution->explain(), HasSubstr("two phases, predicted to be faster"));
  EXPECT_TRUE(try_out(from, to));
  EXPECT_TRUE(try_out(from, to, {.arrays = 3, .how = How::kStartTest}));

  const auto phases_with = [&](const Options& options) {
    auto other = Redistribution::create(MPI_COMM_WORLD, parsed(from), parsed(to), options);
    return !holds_everywhere(other.is_ok()) ? 0 : other->report().between.empty() ? 1 : 2;
  };
  EXPECT_EQ(phases_with({.phases = Phases::kOne}), 1);
  // 16 * 16 * 8 bytes between the phases: not if that takes more than half of what is allowed, unless asked for.
  EXPECT_EQ(phases_with({.max_buffer_bytes = 3000}), 1);
  EXPECT_EQ(phases_with({.max_buffer_bytes = 5000}), 2);
  EXPECT_EQ(phases_with({.max_buffer_bytes = 3000, .phases = Phases::kTwo}), 2);
  EXPECT_EQ(phases_with({.max_buffer_bytes = 2000, .phases = Phases::kTwo}), 0);
}

TEST(PhasesTest, WithoutKnowledgeOfMessagesOnePhase) {
  if (world_size() < 4) GTEST_SKIP() << "needs a grid of 2 by 2";
  model::Machine machine = machine_with_slow_messages();
  machine.network.reset();
  const ModelOfRank0 model(machine);
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, parsed(square_layout("(CYCLIC(2),CYCLIC(4))")),
                                               parsed(square_layout("(CYCLIC(4),CYCLIC(2))")));
  if (!holds_everywhere(redistribution.is_ok())) FAIL();
  EXPECT_TRUE(redistribution->report().between.empty());
  EXPECT_GT(redistribution->report().prediction.phases.front().pack, 0);
  EXPECT_THAT(redistribution->explain(), HasSubstr("--mpi-probe"));
}

TEST(PhasesTest, TheVariableOfRank0Overrides) {
  const Partition from = parsed(one_dimension("CYCLIC(2)", world_size(), 600));
  const Partition to = parsed(one_dimension("CYCLIC(3)", world_size(), 600));
  {
    const Variable variable("WEIR_REDIST_PHASES", world_rank() == 0 ? "two" : "nonsense");
    auto forced = Redistribution::create(MPI_COMM_WORLD, from, to, {.phases = Phases::kOne});
    if (!holds_everywhere(forced.is_ok())) FAIL();
    EXPECT_EQ(forced->report().between.empty(), world_size() == 1);
    // For all redistributions of a program, also those that have nothing between.
    auto simple = Redistribution::create(MPI_COMM_WORLD, from, from);
    EXPECT_THAT(simple, IsOk());
  }
  const Variable variable("WEIR_REDIST_PHASES", world_rank() == 0 ? "2" : "two");
  EXPECT_THAT(
      Redistribution::create(MPI_COMM_WORLD, from, to).status(),
      StatusIs(ErrorCode::kInvalidArgument, HasSubstr("WEIR_REDIST_PHASES is '2': set it to auto, one or two")));
}

TEST(PhasesTest, TwoPhasesThatCannotBeAreAnError) {
  const Partition block = parsed(one_dimension("BLOCK", world_size(), 600));
  const Partition cyclic = parsed(one_dimension("CYCLIC", world_size(), 600));
  EXPECT_THAT(Redistribution::create(MPI_COMM_WORLD, block, cyclic, {.phases = Phases::kTwo}).status(),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("no block-cyclic layout between")));
}

TEST(PhasesTest, RelabellingGoesWithTwoPhases) {
  if (world_size() == 1) GTEST_SKIP() << "one process needs no layout between";
  EXPECT_TRUE(try_out(one_dimension("CYCLIC(4)", world_size(), 1003), one_dimension("CYCLIC(6)", world_size(), 1003),
                      {.options = {.relabel = true, .phases = Phases::kTwo}, .arrays = 2}));
}

TEST(RedistributionErrorTest, OneRankWithAnotherLayoutIsNamedEverywhere) {
  const int odd = world_size() - 1;
  const Partition from = parsed(one_dimension("BLOCK", world_size(), 64));
  const Partition to = parsed(one_dimension(world_rank() == odd ? "CYCLIC(3)" : "CYCLIC(2)", world_size(), 64));
  const auto result = Redistribution::create(MPI_COMM_WORLD, from, to);
  if (world_size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  EXPECT_THAT(result.status(), StatusIs(ErrorCode::kInvalidArgument, HasSubstr(concat("rank ", odd, ": hpf"))));
  EXPECT_THAT(result.status().message(), HasSubstr("to: "));
  EXPECT_THAT(result.status().message(), HasSubstr("CYCLIC(3)"));
}

TEST(RedistributionErrorTest, LongLayoutsAndOptionsAreCompared) {
  if (world_size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  std::string text = "falls(";
  for (int i = 0; i < 300; ++i) text += concat(i == 0 ? "{" : ",", "(", i * 2, ',', i * 2, ",-,1)");
  const Partition one = parsed(text + ",(601,601,-,1)}|{(599,599,-,1)})");
  const Partition other = parsed(text + ",(600,600,-,1)}|{(599,599,-,1)})");
  EXPECT_THAT(Redistribution::create(MPI_COMM_WORLD, one, world_rank() == 1 ? one : other).status(),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("to: rank")));
  const Options options{.max_buffer_bytes = world_rank() == 0 ? 1000 : 0};
  const Partition good = parsed(one_dimension("BLOCK", 1, 8));
  EXPECT_THAT(Redistribution::create(MPI_COMM_WORLD, good, good, options).status(),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("options: rank")));
}

TEST(RedistributionErrorTest, OneRankWithAnotherNumberOfArraysIsNamedEverywhere) {
  const Partition from = parsed(one_dimension("BLOCK", world_size(), 64));
  const Partition to = parsed(one_dimension("CYCLIC", world_size(), 64));
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, from, to);
  if (!holds_everywhere(redistribution.is_ok())) FAIL();
  const auto target = listed(to, world_rank());
  Memory memory(listed(from, world_rank()), target, 0);
  Memory more = memory;
  const std::vector<Arrays> arrays{memory.arrays(), more.arrays()};
  const std::size_t count = world_rank() == 0 ? 1 : 2;
  const Status status = redistribution->execute(std::span(arrays).first(count));
  if (world_size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  EXPECT_THAT(status, StatusIs(ErrorCode::kInvalidArgument, HasSubstr("rank 0: 1 array")));
  // Nothing was begun: the next execution is none the worse for it.
  EXPECT_THAT(redistribution->execute(arrays), IsOk());
  expect_right(memory, target, 0);
}

TEST(RedistributionErrorTest, MissingMemoryOnOneRankIsAnErrorEverywhere) {
  const Partition from = parsed(one_dimension("BLOCK", world_size(), 64));
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, from, from);
  if (!holds_everywhere(redistribution.is_ok())) FAIL();
  const auto bytes = listed(from, world_rank());
  Memory memory(bytes, bytes, 0);
  const bool is_odd = world_rank() == world_size() - 1;
  EXPECT_THAT(redistribution->execute(memory.source.data(), is_odd ? nullptr : memory.target.data() + kGuard),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr(concat("on rank ", world_size() - 1, ": "))));
  EXPECT_THAT(redistribution->execute(memory.source.data(), memory.target.data() + kGuard), IsOk());
  expect_right(memory, bytes, 0);
}

TEST(RedistributionErrorTest, SecondStartBeforeTheFirstIsDone) {
  const Partition from = parsed(one_dimension("BLOCK", world_size(), 64));
  const Partition to = parsed(one_dimension("CYCLIC", world_size(), 64));
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, from, to);
  if (!holds_everywhere(redistribution.is_ok())) FAIL();
  Memory memory(listed(from, world_rank()), listed(to, world_rank()), 0);
  auto request = redistribution->start(memory.source.data(), memory.target.data() + kGuard);
  EXPECT_THAT(redistribution->execute(memory.source.data(), memory.target.data() + kGuard),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("still under way")));
  EXPECT_THAT(request, IsOk());
  EXPECT_THAT(request->wait(), IsOk());
  expect_right(memory, listed(to, world_rank()), 0);
}

TEST(RedistributionErrorTest, PartitionsThatDoNotFit) {
  const auto error = [](const std::string& from, const std::string& to, const Options& options = {}) {
    return Redistribution::create(MPI_COMM_WORLD, parsed(from), parsed(to), options).status();
  };
  const std::string good = one_dimension("BLOCK", 1, 8);
  EXPECT_THAT(error(good, one_dimension("BLOCK", 1, 9)),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("period 64 and 72")));
  EXPECT_THAT(error(good, "stripe(unit=64, over=1, disp=3)"),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("displacement 0 and 3")));
  EXPECT_THAT(error(good, one_dimension("CYCLIC", world_size() + 1, 8)),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr(concat("`to` has ", world_size() + 1, " elements"))));
  EXPECT_THAT(error("falls(period=64, {(0,15,-,1)})", good), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(error(good, good, {.max_buffer_bytes = -1}), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("-1")));
  EXPECT_THAT(Redistribution::create(MPI_COMM_NULL, parsed(good), parsed(good)).status(),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("MPI_COMM_NULL")));
  if (world_size() < 3) return;
  EXPECT_THAT(error(one_dimension("BLOCK", world_size(), 64), one_dimension("CYCLIC", world_size(), 64),
                    {.max_buffer_bytes = 1}),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("too few")));
}

// Destroyed after MPI_Finalize: must neither crash nor call MPI.
std::optional<Redistribution> survivor;

TEST(RedistributionTest, OutlivesMpi) {
  const Partition from = parsed(one_dimension("BLOCK", world_size(), 64));
  auto redistribution = Redistribution::create(MPI_COMM_WORLD, from, from);
  if (!holds_everywhere(redistribution.is_ok())) FAIL();
  survivor.emplace(*std::move(redistribution));
}

}  // namespace
}  // namespace weir::redist
