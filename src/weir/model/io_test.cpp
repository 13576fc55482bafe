#include <weir/model/io.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/model/machine.h>

namespace weir::model {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr Offset kKiB = 1024;
constexpr Offset kMiB = kKiB * 1024;

// Any costs, far from the built-in ones.
Io any_io() {
  Io io;
  each_parameter(io, [](std::string_view, std::string_view, auto& value, std::string_view) {
    using Value = std::remove_reference_t<decltype(value)>;
    value = static_cast<Value>(static_cast<double>(value) * *rc::gen::inRange(1, 10'000) / 100);
    if (value == Value{0}) value = Value{1};
  });
  return io;
}

Offset any_size() { return *rc::gen::inRange<Offset>(0, Offset{1} << *rc::gen::inRange(1, 45)); }

AccessWork any_work() {
  AccessWork work;
  work.is_write = *rc::gen::arbitrary<bool>();
  work.is_on_disk = *rc::gen::arbitrary<bool>();
  work.place = *rc::gen::element(Place::kThisHost, Place::kOtherHost);
  work.bytes = any_size();
  work.messages = *rc::gen::inRange<Offset>(1, 1000);
  work.pieces = *rc::gen::inRange<Offset>(1, 1'000'000);
  work.touched_bytes = work.bytes + any_size();
  return work;
}

RC_GTEST_PROP(IoPropertyTest, PredictionsAreMonotoneInBytesAndPieces, ()) {
  const Io io = any_io();
  const Offset bytes = any_size();
  const Offset pieces = *rc::gen::inRange<Offset>(1, 1'000'000);
  const Offset more_bytes = bytes + any_size();
  const Offset more_pieces = pieces + any_size();
  for (const Place place : {Place::kThisHost, Place::kOtherHost}) {
    RC_ASSERT(io.by_message(bytes, pieces, place) <= io.by_message(more_bytes, pieces, place));
    RC_ASSERT(io.by_message(bytes, pieces, place) <= io.by_message(bytes, more_pieces, place));
  }
  RC_ASSERT(io.mapped(bytes, pieces) <= io.mapped(more_bytes, pieces));
  RC_ASSERT(io.mapped(bytes, pieces) <= io.mapped(bytes, more_pieces));
}

RC_GTEST_PROP(IoPropertyTest, CollectivePredictionsAreMonotone, ()) {
  const Io io = any_io();
  const AccessWork work = any_work();
  const Offset added = any_size();
  AccessWork more = work;
  more.bytes += added;
  more.touched_bytes += added;
  RC_ASSERT(io.alone(work) <= io.alone(more));
  more = work;
  more.pieces += added;
  RC_ASSERT(io.alone(work) <= io.alone(more));
  more = work;
  more.messages += added;
  RC_ASSERT(io.alone(work) <= io.alone(more));

  const TwoPhaseWork together{.is_write = work.is_write,
                              .is_on_disk = work.is_on_disk,
                              .place = work.place,
                              .span_bytes = work.touched_bytes,
                              .bytes = work.bytes,
                              .pieces = work.pieces,
                              .ranks = *rc::gen::inRange<Offset>(1, 1000),
                              .owners = *rc::gen::inRange<Offset>(1, 1000),
                              .rounds = *rc::gen::inRange<Offset>(1, 1000),
                              .targets = *rc::gen::inRange<Offset>(1, 100)};
  for (Offset TwoPhaseWork::*const member :
       {&TwoPhaseWork::span_bytes, &TwoPhaseWork::bytes, &TwoPhaseWork::pieces, &TwoPhaseWork::ranks,
        &TwoPhaseWork::owners, &TwoPhaseWork::rounds, &TwoPhaseWork::targets}) {
    TwoPhaseWork larger = together;
    larger.*member += added;
    RC_ASSERT(io.two_phase(together) <= io.two_phase(larger));
  }
}

RC_GTEST_PROP(IoPropertyTest, ChoicesChangeOnceAsAccessesGrow, ()) {
  const Io io = any_io();
  const Offset bytes = any_size();
  const Offset more = bytes + any_size();
  RC_ASSERT(!io.is_worth_entering(bytes) || io.is_worth_entering(more));
  RC_ASSERT(!io.is_worth_composing(bytes) || io.is_worth_composing(more));
  RC_ASSERT(io.is_worth_merging(bytes) || !io.is_worth_merging(more));
  RC_ASSERT(!io.is_sparse(bytes, 1) || io.is_sparse(more, 1));
  if (io.memory.warm_byte_seconds < io.server.byte_seconds) {
    RC_ASSERT(!io.is_worth_mapping(bytes) || io.is_worth_mapping(more));
  }
  const Offset pieces = *rc::gen::inRange<Offset>(1, 1'000'000);
  const Offset touched = io.touched_on_disk(bytes, pieces, more);
  RC_ASSERT(touched >= bytes);
  RC_ASSERT(touched <= more);
  const Offset window = io.message_window(4 * kMiB);
  RC_ASSERT(window >= 1 && window <= 4 * kMiB);
  RC_ASSERT(io.least_part() <= io.message_window(kMaxBytes));
  RC_ASSERT(io.uses_before_mapping() >= 0 && io.uses_before_mapping() <= 1000);
}

RC_GTEST_PROP(IoPropertyTest, FilesKeepEveryCost, ()) {
  Machine machine;
  machine.pack.regimes = machine.unpack.regimes = {{1e5, {2e-9, 1, 1e-10}, 1e-9, 1e-9, {}}};
  machine.io = any_io();
  const auto parsed = parse(print(machine));
  RC_ASSERT(parsed.is_ok());
  RC_ASSERT(*parsed == machine);
}

// What the code decided by constants before there was a model.
TEST(IoTest, BuiltInCostsDecideAsEver) {
  const Io io;
  for (const Offset bytes : {Offset{0}, Offset{1}, 64 * kKiB - 1, 64 * kKiB, 128 * kKiB - 1, 128 * kKiB, kMiB - 1, kMiB,
                             64 * kMiB, Offset{1} << 40}) {
    EXPECT_EQ(io.is_worth_mapping(bytes), bytes >= 64 * kKiB) << bytes;
    EXPECT_EQ(io.is_worth_entering(bytes), bytes >= 128 * kKiB) << bytes;
    EXPECT_EQ(io.is_worth_composing(bytes), bytes >= kMiB) << bytes;
    EXPECT_EQ(io.is_worth_merging(bytes), bytes < 64 * kKiB) << bytes;
    for (const Offset gap : {-1, 0, 1}) {
      const Offset hull = 4 * kMiB + 16 * bytes + gap;
      EXPECT_EQ(io.is_sparse(hull, bytes), gap > 0) << bytes << ' ' << gap;
    }
  }
  EXPECT_EQ(io.uses_before_mapping(), 4);
  EXPECT_EQ(io.memory.window_bytes, 256 * kKiB);
  EXPECT_EQ(io.message_window(4 * kMiB), 4 * kMiB);
  EXPECT_EQ(io.message_window(kMaxBytes), 4 * kMiB);
  EXPECT_EQ(io.least_part(), kMiB);
  EXPECT_EQ(io.touched_on_disk(8192, 2, 100'000), 8192);
  EXPECT_EQ(io.touched_on_disk(8191, 2, 100'000), 8191 + 8192);
  EXPECT_EQ(io.touched_on_disk(8191, 2, 9000), 9000);
  EXPECT_EQ(io.touched_on_disk(100, kMaxBytes, kMaxBytes), kMaxBytes);
  EXPECT_EQ(io.remote, io.server);
}

TEST(IoTest, BuiltInCostsOfCollectiveAccesses) {
  const Io io;
  EXPECT_DOUBLE_EQ(io.alone({.bytes = 1000, .messages = 2, .pieces = 3, .touched_bytes = 5000}),
                   1000 * 0.5e-9 + 2 * 14e-6 + 3 * 2.5e-9);
  EXPECT_DOUBLE_EQ(
      io.alone(
          {.is_write = true, .is_on_disk = true, .bytes = 1000, .messages = 2, .pieces = 3, .touched_bytes = 5000}),
      1000 * 0.5e-9 + 2 * 14e-6 + 3 * 2.5e-9 + 5000 * 2.4e-9);
  EXPECT_DOUBLE_EQ(io.disk_access(true, 1000, 1000, 7), 1000 * 0.45e-9);
  EXPECT_DOUBLE_EQ(io.disk_access(false, 1000, 5000, 7), 5000 * 0.95e-9);
  EXPECT_NEAR(
      io.two_phase(
          {.span_bytes = 4000, .bytes = 4000, .pieces = 10, .ranks = 4, .owners = 2, .rounds = 3, .targets = 5}),
      4000 * 0.5e-9 + 30 * 14e-6 + 4 * (40e-6 + 3 * 25e-6) + 4000 * 0.75 * 1.15e-9 + 10 * 2.5e-9, 1e-15);
}

TEST(IoTest, CostsOfOtherMachinesDecideOtherwise) {
  Io io;
  io.server.request_seconds = 100e-6;
  io.memory.map_seconds = 100e-6;
  EXPECT_TRUE(io.is_worth_mapping(1));
  EXPECT_EQ(io.uses_before_mapping(), 1);
  io.memory.map_seconds = 1;
  EXPECT_FALSE(io.is_worth_mapping(kMiB));
  EXPECT_EQ(io.uses_before_mapping(), 1000);
  io.remote.request_seconds = 1;
  EXPECT_GT(io.by_message(1, 1, Place::kOtherHost), 1);
  EXPECT_LT(io.by_message(1, 1, Place::kThisHost), 1e-3);
  io.disk.position_seconds = 1e-2;
  EXPECT_GT(io.disk_access(false, 1, 1, 1), 1e-2);
}

TEST(IoTest, ZeroCostsAreNoTrap) {
  Io io;
  each_parameter(io, [](std::string_view, std::string_view, auto& value, std::string_view) {
    if constexpr (std::is_same_v<decltype(value), double&>) value = 0;
  });
  EXPECT_EQ(io.by_message(kMiB), 0);
  EXPECT_EQ(io.uses_before_mapping(), 1000);
  EXPECT_GE(io.least_part(), 1);
  EXPECT_GE(io.message_window(kMiB), 1);
  EXPECT_THAT(io.why_by_message(), HasSubstr("mapping"));
}

TEST(IoTest, ReasonsHaveNumbers) {
  EXPECT_EQ(Io{}.why_by_message(),
            "a mapping costs 42.5 us, a message 14 us: by message until 65536 bytes at once, or 5 accesses");
  EXPECT_EQ(time_text(0), "0 s");
  EXPECT_EQ(time_text(2.5e-9), "2.5 ns");
  EXPECT_EQ(time_text(0.0123456), "12.3 ms");
  EXPECT_EQ(time_text(100), "100 s");
}

TEST(IoTest, RanksFollowTheNetwork) {
  const Ranks fitted = ranks_over({1.5625e-6, 1e10});
  EXPECT_DOUBLE_EQ(fitted.meet_seconds, Ranks{}.meet_seconds);
  EXPECT_DOUBLE_EQ(fitted.exchange_byte_seconds, Ranks{}.exchange_byte_seconds);
  const Ranks slow = ranks_over({50e-6, 1e8});
  EXPECT_GT(slow.round_seconds, 30 * fitted.round_seconds);
  EXPECT_GT(slow.exchange_byte_seconds, 10e-9);
}

// ---- the file

class CalibratedIoTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("WEIR_MODEL", path_.c_str(), 1); }
  void TearDown() override {
    ::unsetenv("WEIR_MODEL");
    std::remove(path_.c_str());
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  static std::string text() {
    Machine machine;
    machine.pack.regimes = machine.unpack.regimes = {{1e5, {2e-9, 1, 1e-10}, 1e-9, 1e-9, {}}};
    machine.io.disk.sync_seconds = 0.125;
    return print(machine);
  }
  static std::string with(std::string_view from, std::string_view to) {
    std::string all = text();
    return all.replace(all.find(from), from.size(), to);
  }

  std::string path_ = ::testing::TempDir() + std::to_string(::getpid()) + "_weir_io_test.toml";
};

TEST_F(CalibratedIoTest, WithoutAFileCostsAreBuiltIn) { EXPECT_EQ(calibrated_io().value(), Io{}); }

TEST_F(CalibratedIoTest, TheFileCounts) {
  write(text());
  EXPECT_EQ(calibrated_io()->disk.sync_seconds, 0.125);
}

TEST_F(CalibratedIoTest, WhatIsMissingIsBuiltIn) {
  std::string all = text();
  const std::size_t disk = all.find("[disk]");
  all.replace(disk, all.find("[ranks]") - disk, "[disk]\nsync_seconds = 0.5\n\n");
  write(all);
  Io expected;
  expected.disk.sync_seconds = 0.5;
  EXPECT_EQ(calibrated_io().value(), expected);
}

TEST_F(CalibratedIoTest, ErrorsNameFileAndLine) {
  const auto expect_bad = [&](const std::string& file, const std::string& what) {
    write(file);
    EXPECT_THAT(calibrated_io(), StatusIs(ErrorCode::kCorrupt, HasSubstr(path_)));
    EXPECT_THAT(calibrated_io(), StatusIs(ErrorCode::kCorrupt, HasSubstr(what)));
    const Offset line =
        1 + std::count(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(file.find("BAD")), '\n');
    EXPECT_THAT(calibrated_io(), StatusIs(ErrorCode::kCorrupt, HasSubstr(concat("line ", line, ": "))));
  };
  expect_bad(with("sync_seconds = 0.125", "sink_seconds = 0.125 #BAD"), "'sink_seconds' of table 'disk' is not known");
  expect_bad(with("sync_seconds = 0.125", "sync_seconds = -1 #BAD"), "is negative");
  expect_bad(with("sync_seconds = 0.125", "sync_seconds = 3601 #BAD"), "more than an hour");
  expect_bad(with("sync_seconds = 0.125", "sync_seconds = \"BAD\""), "is no number");
  expect_bad(with("sync_seconds = 0.125", "sync_seconds = [1, 2] #BAD"), "is not one number");
  expect_bad(with("block_bytes = 4096", "block_bytes = 0.5 #BAD"), "not a whole number");
  expect_bad(with("block_bytes = 4096", "block_bytes = 2e9 #BAD"), "more than 1 GiB");
  expect_bad(with("[disk]", "[disc] #BAD"), "there is no table 'disc'");
  expect_bad(with("[disk]", "[disk #BAD"), "'[disk #BAD'");
  expect_bad(with("[server]", "[[server]] #BAD"), "there is no table 'server'");
}

}  // namespace
}  // namespace weir::model
