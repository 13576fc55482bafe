#include <weir/model/model.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>
#include <weir/model/calibrate.h>
#include <weir/model/internal/cost.h>
#include <weir/model/internal/measure.h>
#include <weir/model/validate.h>
#include <weir/transfer/packing.h>

namespace weir::model {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

Regime regime(double working_set, double slowness) {
  return {working_set, {2e-9 * slowness, 1.1, 0.05e-9 * slowness}, 1e-9 * slowness, 5e-9 * slowness, {}};
}

// A machine with round numbers.
Machine machine() {
  Machine machine;
  machine.description = "test machine";
  machine.caches = {{32 << 10, 8}, {512 << 10, 8}, {32 << 20, 16}};
  machine.pack.regimes = {regime(16e3, 1), regime(4e6, 3), regime(1e8, 10)};
  machine.unpack.regimes = {regime(16e3, 1.5), regime(4e6, 4), regime(1e8, 12)};
  machine.pack.turn_seconds = 3e-9;
  machine.unpack.turn_seconds = 4e-9;
  machine.network = Network{2e-6, 1e10};
  return machine;
}

layout::Partition partition(const std::string& text) {
  const auto parsed = layout::parse(text);
  EXPECT_THAT(parsed, IsOk());
  return *parsed;
}

layout::Mapping mapping(const std::string& from, Offset i, const std::string& to, Offset j) {
  const layout::Partition a = partition(from);
  layout::Window window;
  window.file = {0, a.period()};
  return *layout::intersect(*a.element(i), *partition(to).element(j), window);
}

std::string vector_of(Offset elements, const std::string& dist, int ranks) {
  return concat("hpf(shape=[", elements, "], elem=8, dist=(", dist, "), grid=[", ranks, "])");
}

// ---- the file ------------------------------------------------------------------------------------------------------

Machine with_corrections() {
  Machine result = machine();
  result.pack.regimes[1].rows = {{8, {{12, 0.25}, {16, -0.1}}, {{1024, 0.5}, {4096, 0.75}}}, {100, {{200, 1.0 / 3}}}};
  result.copy.regimes = {regime(16e3, 2), regime(4e6, 6)};
  result.copy.regimes[0].rows = {{24, {{48, 0.2}}}};
  return result;
}

TEST(MachineFileTest, RoundTripIsExact) {
  const auto parsed = parse(print(with_corrections()));
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(*parsed, with_corrections());
  Machine without = with_corrections();
  without.network.reset();
  without.description = "a \"quoted\" name\\with\tall of it";
  EXPECT_EQ(*parse(print(without)), without);
}

TEST(MachineFileTest, SavesAndLoads) {
  const std::string path = ::testing::TempDir() + std::to_string(::getpid()) + "_weir_model_test.toml";
  ASSERT_THAT(save(with_corrections(), path), IsOk());
  const auto loaded = load(path);
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(*loaded, with_corrections());
  std::remove(path.c_str());
  EXPECT_THAT(load(path), StatusIs(ErrorCode::kIoError, HasSubstr("weir model calibrate")));
  EXPECT_THAT(save(machine(), "/nonexistent/folder/model.toml"),
              StatusIs(ErrorCode::kIoError, HasSubstr("/nonexistent/folder")));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(MachineFileTest, BadFilesAreNamed) {
  const std::string good = print(with_corrections());
  const auto expect_bad = [](const std::string& text, const std::string& message) {
    EXPECT_THAT(parse(text), StatusIs(ErrorCode::kCorrupt, HasSubstr(message)));
  };
  expect_bad("", "no machine model");
  expect_bad("{\"json\": 1}", "'{\"json\": 1}'");
  expect_bad(replaced(good, "weir-model", "other"), "no machine model");
  expect_bad(replaced(good, "version = 1", "version = 2"), "version 2 is not known");
  expect_bad(replaced(good, "line_bytes = 64", "line_bytes = 64x"), "'line_bytes = 64x'");
  expect_bad(replaced(good, "line_bytes = 64", "line_bytes = 0"), "must be positive");
  expect_bad(replaced(good, "line_bytes = 64", "line_bytes = 1.5"), "not a whole number");
  expect_bad(replaced(good, "line_bytes = 64\n", ""), "has no numbers 'line_bytes'");
  expect_bad(replaced(good, "line_bytes = 64\n", "line_bytes = 64\nline_bytes = 64\n"), "'line_bytes = 64'");
  expect_bad(replaced(good, "line_bytes = 64", "line_bytes = \"64\""), "'line_bytes' of table 'machine' is no number");
  expect_bad(replaced(good, "line_bytes = 64", "line_bytes = []"), "'line_bytes' of table 'machine' is not one number");
  expect_bad(replaced(good, "latency_seconds = ", "latency_seconds = -"), "is negative");
  expect_bad(replaced(good, "latency_seconds = ", "latency_seconds = nan #"), "is no number");
  expect_bad(replaced(good, "latency_seconds = ", "latency_seconds = inf #"), "is no number");
  expect_bad(replaced(good, "latency_seconds = ", "latency_seconds = 1e999 #"), "latency_seconds");
  expect_bad(replaced(good, "latency_seconds = ", "latency_seconds = 99999999999999999999 #"), "latency_seconds");
  expect_bad(replaced(good, "[network]", "[net]"), "there is no table 'net'");
  expect_bad(replaced(good, "[network]", "[network"), "'[network'");
  expect_bad(replaced(good, "[network]", "[[network]]"), "there is no table 'network'");
  expect_bad(replaced(replaced(good, "[[copy]]", "[copy]"), "[[copy]]", "[x]"), "'copy' is not a list of tables");
  expect_bad(replaced(good, "correction_8 = [12", "correction_8 = [20"), "do not ascend");
  expect_bad(replaced(good, "correction_8 = [12, ", "correction_8 = ["), "not a list of stride and correction");
  expect_bad(replaced(good, "aligned_8 = [1024", "aligned_8 = [8192"), "do not ascend");
  expect_bad(replaced(good, "aligned_8 = [1024, 0.5", "aligned_8 = [1024, 50"), "absurd correction");
  expect_bad(replaced(good, "aligned_8", "aligned_"), "'' is no number");
  expect_bad(replaced(good, "aligned_8", "aligned_eight"), "'eight' is no number");
  for (const char* length : {"0", "-8", "1.5", "1e300"}) {
    expect_bad(replaced(good, "correction_24", concat("\"correction_", length, '"')), "not of a length in bytes");
  }
  expect_bad(replaced(good, "working_set = 4000000", "working_set = 1"), "order of their working sets");
  const std::string copies = good.substr(good.find("[[copy]]"));
  expect_bad(good + copies, "tables 'copy' are not in the order of their working sets");
  expect_bad(good.substr(0, good.find("[[unpack]]")), "'pack' and 'unpack' are missing");
}

TEST(MachineFileTest, EveryTruncationFailsOrIsWhole) {
  const std::string good = print(with_corrections());
  for (std::size_t length = 0; length < good.size(); ++length) {
    const auto parsed = parse(good.substr(0, length));
    if (!parsed.is_ok()) {
      EXPECT_EQ(parsed.status().code(), ErrorCode::kCorrupt) << length;
    }
  }
}

TEST(MachineFileTest, ErrorsNameTheLine) {
  EXPECT_EQ(parse("format = \"weir-model\"\n\nversion = one\n").status().location(), 3);
  EXPECT_EQ(parse("format = \"weir-model\"\n\nversion = 3\n").status().location(), 3);
}

TEST(MachineFileTest, UnknownNamesAreNamed) {
  const std::string good = print(with_corrections());
  const auto expect_bad = [&](const std::string& from, const std::string& message) {
    EXPECT_THAT(parse(replaced(good, from, concat(from, "later = [[1, 2], [\"x\"]]\n"))),
                StatusIs(ErrorCode::kCorrupt, HasSubstr(message)));
  };
  expect_bad("version = 1\n", "line 4: 'later' is not known");
  expect_bad("[machine]\n", "'later' of table 'machine' is not known");
  expect_bad("[network]\n", "'later' of table 'network' is not known");
  expect_bad("[memory]\n", "'later' of table 'memory' is not known");
  expect_bad("[[pack]]\n", "'later' of table 'pack' is not known");
}

TEST(MachineFileTest, DeepNestingIsRefused) {
  const std::string head = "format = \"weir-model\"\nversion = 1\n";
  const auto repeated = [](std::string_view text) {
    std::string all;
    for (int i = 0; i < 200'000; ++i) all += text;
    return all;
  };
  for (const std::string& tail :
       {concat("x = ", repeated("[")), concat("x = ", repeated("{a=")), concat("[x", repeated(".a"), "]\n"),
        concat("x", repeated(". 1"), " = 1\n"), concat("x", repeated(" .1.1"), " = 1\n"),
        concat("[[x", repeated(".\"=\".1"), "]]\n"), concat("x = {1", repeated(".1e1"), " = 1}\n")}) {
    EXPECT_THAT(parse(head + tail), StatusIs(ErrorCode::kCorrupt)) << tail.substr(0, 20);
  }
}

TEST(MachineFileTest, DefaultPathFollowsTheEnvironment) {
  ::setenv("WEIR_MODEL", "/x/y.toml", 1);
  EXPECT_EQ(*default_path(), "/x/y.toml");
  ::unsetenv("WEIR_MODEL");
  ::setenv("XDG_CONFIG_HOME", "/config", 1);
  EXPECT_EQ(*default_path(), "/config/weir/model.toml");
  ::unsetenv("XDG_CONFIG_HOME");
  ::setenv("HOME", "/home/x", 1);
  EXPECT_EQ(*default_path(), "/home/x/.config/weir/model.toml");
  ::unsetenv("HOME");
  EXPECT_THAT(default_path(), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("WEIR_MODEL")));
}

TEST(NetworkTest, TextAndProbe) {
  EXPECT_EQ(*parse_network("latency_us=1.5,bandwidth_gbs=10"), (Network{1.5e-6, 1e10}));
  for (const char* bad : {"", "latency_us=1", "latency_us=0,bandwidth_gbs=1", "latency_us=1,bandwidth_gbs=-1",
                          "latency_us=1,bandwidth_gbs=1x", "latency_us=inf,bandwidth_gbs=1"}) {
    EXPECT_THAT(parse_network(bad), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("latency_us="))) << bad;
  }
  EXPECT_EQ(*probe_network("echo starting; echo 2e-6 5e9"), (Network{2e-6, 5e9}));
  EXPECT_THAT(probe_network("echo fast"), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("printed 'fast'")));
  EXPECT_THAT(probe_network("echo 1 2; exit 3"), StatusIs(ErrorCode::kIoError, HasSubstr("exit 3")));
}

TEST(MachineTest, DescribesThisOne) {
  const Machine here = describe_machine();
  EXPECT_FALSE(here.description.empty());
  EXPECT_THAT(here.description, Not(HasSubstr("\"")));
  ASSERT_FALSE(here.caches.empty());
  for (std::size_t i = 1; i < here.caches.size(); ++i) EXPECT_GE(here.caches[i].bytes, here.caches[i - 1].bytes);
  EXPECT_GT(here.line_bytes, 0);
  EXPECT_GT(here.page_bytes, 0);
}

// ---- cost of a piece -----------------------------------------------------------------------------------------------

TEST(CostTest, LinesPerPiece) {
  EXPECT_DOUBLE_EQ(internal::units_per_piece(8, 16, 64), 0.25);  // four pieces share a line
  EXPECT_DOUBLE_EQ(internal::units_per_piece(8, 128, 64), 1);    // one each, aligned
  EXPECT_DOUBLE_EQ(internal::units_per_piece(64, 64, 64), 1);    // contiguous
  EXPECT_DOUBLE_EQ(internal::units_per_piece(100, 256, 64), 2);  // aligned: 100 bytes lie on two lines
  EXPECT_DOUBLE_EQ(internal::units_per_piece(64, 64 * 3, 64), 1);
  // Unaligned: brute force over all positions.
  for (const Offset stride : {200, 201, 212, 224, 1000}) {
    double lines = 0;
    for (Offset i = 0; i < 64; ++i) lines += static_cast<double>((i * stride % 64 + 39) / 64 + 1);
    EXPECT_DOUBLE_EQ(internal::units_per_piece(40, static_cast<double>(stride), 64), lines / 64) << stride;
  }
}

TEST(CostTest, InterpolatesBetweenWorkingSetsAndClampsBeyond) {
  const Machine m = machine();
  const internal::PieceShape shape{8, 16};
  const auto at = [&](double set) { return internal::piece_cost(m.pack, shape, set, m).seconds(); };
  EXPECT_DOUBLE_EQ(at(1), at(16e3));
  EXPECT_NEAR(at(1e12), at(1e8), 1e-12 * at(1e8));
  double last = 0;
  for (double set = 1e3; set < 1e9; set *= 1.3) {
    EXPECT_GE(at(set), last * (1 - 1e-12));
    last = at(set);
  }
}

TEST(CostTest, CorrectionsHoldAtTheirKnotsAndBlendBetween) {
  Machine m = machine();
  m.pack.regimes.resize(1);
  m.pack.regimes[0].rows = {{8, {{16, 0.5}, {64, 1.5}}}, {12, {{24, -1}}}, {32, {{64, 0.7}}}};
  const auto factor = [&](double n, double s) { return internal::piece_cost(m.pack, {n, s}, 1e3, m).factor; };
  EXPECT_NEAR(factor(8, 16), std::exp(0.5), 1e-12);
  EXPECT_NEAR(factor(8, 32), std::exp(1.0), 1e-12);
  EXPECT_NEAR(factor(8, 4096), std::exp(1.5), 1e-12);
  EXPECT_NEAR(factor(8, 9), std::exp(0.5), 1e-12);
  EXPECT_NEAR(factor(16, 32), std::exp(0.6), 1e-12);  // half way between 8 and 32, at twice its length
  EXPECT_NEAR(factor(10, 20), std::exp(-1), 1e-12);   // another kernel: not a blend of 8 and 16
  EXPECT_NEAR(factor(5000, 9000), 1, 1e-12);          // none is known
}

TEST(CostTest, PowersOfTwoHaveCorrectionsOfTheirOwn) {
  Machine m = machine();
  m.pack.regimes.resize(1);
  m.pack.regimes[0].rows = {{8, {{16, 0.5}}, {{1024, 2}, {4096, 3}}}};
  const auto factor = [&](double stride) { return internal::piece_cost(m.pack, {8, stride}, 1e3, m).factor; };
  EXPECT_NEAR(factor(1024), std::exp(2), 1e-12);
  EXPECT_NEAR(factor(3 * 1024), std::exp(2), 1e-12);  // as many sets as 1024 leads to
  EXPECT_NEAR(factor(2048), std::exp(2.5), 1e-12);
  EXPECT_NEAR(factor(65536), std::exp(3), 1e-12);
  EXPECT_NEAR(factor(1024 + 64), std::exp(0.5), 1e-12);  // an odd number of lines
  EXPECT_NEAR(factor(1024 + 0.5), std::exp(0.5), 1e-12);
  EXPECT_NEAR(factor(256), std::exp(1.25), 1e-12);  // half way between a line and the first knot
}

// ---- fit -----------------------------------------------------------------------------------------------------------

TEST(FitTest, RecoversKnownParametersFromNoisySamples) {
  const Regime truth{1e6, {3e-9, 1.2, 0.08e-9}, 1.5e-9, 6e-9, {}};
  const Machine m = machine();
  std::mt19937 random(7);  // NOLINT: the same samples every time
  std::normal_distribution<double> noise(0, 0.03);
  std::vector<Sample> samples;
  for (const Offset length : {1, 2, 4, 8, 16, 32, 64, 128, 512, 1024, 4096}) {
    for (const Offset ratio : {2, 4, 16, 64, 512}) {
      const Offset stride = length * ratio;
      const auto cost = internal::formula_cost(truth, {static_cast<double>(length), static_cast<double>(stride)}, m);
      samples.push_back({length, stride, cost.formula() * std::exp(noise(random))});
    }
  }
  samples[7].piece_seconds *= 5;  // disturbed
  samples[31].piece_seconds *= 8;
  const Regime fit = fit_regime(samples, 1e6, m.line_bytes, m.page_bytes);
  const auto near = [](double value) { return DoubleNear(value, 0.15 * value); };
  EXPECT_THAT(fit.phi.a, near(truth.phi.a));
  EXPECT_THAT(fit.phi.b, near(truth.phi.b));
  EXPECT_THAT(fit.phi.c, near(truth.phi.c));
  EXPECT_THAT(fit.line_seconds, near(truth.line_seconds));
  EXPECT_THAT(fit.page_seconds, near(truth.page_seconds));
  EXPECT_DOUBLE_EQ(fit.working_set, 1e6);
  // With its corrections, the model says what was measured.
  Machine fitted = m;
  fitted.pack.regimes = {fit};
  for (const Sample& sample : samples) {
    const auto cost = internal::piece_cost(
        fitted.pack, {static_cast<double>(sample.length), static_cast<double>(sample.stride)}, 1e6, fitted);
    EXPECT_NEAR(cost.seconds(), sample.piece_seconds, 1e-9 * sample.piece_seconds);
  }
}

TEST(FitTest, AlignedSamplesOnlyAddCorrections) {
  const Machine m = machine();
  const Regime truth{1e6, {3e-9, 1.2, 0.08e-9}, 1.5e-9, 6e-9, {}};
  std::vector<Sample> samples;
  for (const Offset length : {1, 4, 16, 64, 256}) {
    for (const Offset ratio : {2, 9, 65}) {
      const auto cost =
          internal::formula_cost(truth, {static_cast<double>(length), static_cast<double>(length * ratio)}, m);
      samples.push_back({length, length * ratio, cost.formula()});
    }
  }
  const Regime plain = fit_regime(samples, 1e6, m.line_bytes, m.page_bytes);
  samples.push_back({16, 4096, 1e-6, true});
  samples.push_back({16, 1024, 5e-7, true});
  const Regime fit = fit_regime(samples, 1e6, m.line_bytes, m.page_bytes);
  EXPECT_EQ(fit.phi, plain.phi);
  EXPECT_EQ(fit.line_seconds, plain.line_seconds);
  EXPECT_EQ(fit.page_seconds, plain.page_seconds);
  ASSERT_EQ(fit.rows.size(), plain.rows.size());
  EXPECT_EQ(fit.rows[2].knots, plain.rows[2].knots);
  ASSERT_EQ(fit.rows[2].aligned.size(), 2U);
  EXPECT_EQ(fit.rows[2].aligned[0].stride, 1024);
  Machine fitted = m;
  fitted.pack.regimes = {fit};
  EXPECT_NEAR(internal::piece_cost(fitted.pack, {16, 4096}, 1e6, fitted).seconds(), 1e-6, 1e-15);
}

// ---- measuring -----------------------------------------------------------------------------------------------------

TEST(RoundsTest, EveryJobHasItsTurnInEveryRound) {
  internal::Rounds rounds;
  std::vector<int> order;
  const auto job = [&order](int number) {
    return [&order, number] {
      if (order.empty() || order.back() != number) order.push_back(number);
    };
  };
  EXPECT_EQ(rounds.add(job(0)), 0U);
  EXPECT_EQ(rounds.add(job(1)), 1U);
  std::vector<std::string> steps;
  ASSERT_THAT(rounds.run({1e6, 3}, [&](const std::string& step) { steps.push_back(step); }), IsOk());
  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_EQ(rounds.rounds(), 3U);
  EXPECT_EQ(steps.size(), 3U);
  EXPECT_GT(rounds.seconds(0), 0);
  EXPECT_TRUE(rounds.noise(1).has_value());
}

TEST(RoundsTest, OneRoundSaysNothingAboutNoise) {
  internal::Rounds rounds;
  rounds.add([] {});
  ASSERT_THAT(rounds.run({1e6, 1}, {}), IsOk());
  EXPECT_EQ(rounds.noise(0), std::nullopt);
}

TEST(RoundsTest, TheLimitEndsRoundsButNotTheFirst) {
  internal::Rounds rounds;
  rounds.add([] {});
  EXPECT_THAT(rounds.run({0, 9}, {}), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("only 0 of 1 points")));
  EXPECT_EQ(rounds.rounds(), 0U);
  internal::Rounds endless;
  endless.add([] {});
  ASSERT_THAT(endless.run({0.2, 1 << 30}, {}), IsOk());
  EXPECT_LT(endless.rounds(), std::size_t{1} << 30);
}

TEST(CalibrateTest, ALimitTooShortIsAnError) {
  EXPECT_THAT(calibrate({.quick = true, .limit_seconds = 0, .progress = {}}),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("calibrate: only 0 of ")));
  EXPECT_THAT(validate(machine(), {.quick = true, .limit_seconds = 0, .progress = {}}),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("validate: only 0 of ")));
}

TEST(CalibrateTest, QuickCalibrationIsUsable) {
  std::vector<std::string> steps;
  const auto here = calibrate({.quick = true, .progress = [&](const std::string& step) { steps.push_back(step); }});
  ASSERT_THAT(here, IsOk());
  EXPECT_FALSE(steps.empty());
  EXPECT_FALSE(here->network.has_value());
  EXPECT_EQ(*parse(print(*here)), *here);
  const auto far = internal::piece_cost(here->pack, {8, 4096 + 64}, 1e9, *here).seconds();
  const auto near = internal::piece_cost(here->pack, {8, 16}, 1e3, *here).seconds();
  EXPECT_GT(near, 0);
  EXPECT_GT(far, near);
}

// ---- features ------------------------------------------------------------------------------------------------------

TEST(FeaturesTest, BlockToCyclicPacksSingleElements) {
  const std::string block = vector_of(4096, "BLOCK", 4);
  const std::string cyclic = vector_of(4096, "CYCLIC", 4);
  const CopyFeatures pack = features_of(mapping(block, 0, cyclic, 1), Path::kPack, machine());
  EXPECT_EQ(pack.bytes, 2048);
  EXPECT_EQ(pack.pieces, 256);
  EXPECT_EQ(pack.min_length, 8);
  EXPECT_EQ(pack.mean_length, 8);
  ASSERT_EQ(pack.families.size(), 1U);
  EXPECT_EQ(pack.families[0].source_stride, 32);
  EXPECT_EQ(pack.families[0].target_stride, 8);
  EXPECT_EQ(pack.working_set, 8192 + 2048);  // every line of the block, and the message
  const CopyFeatures unpack = features_of(mapping(cyclic, 1, block, 0), Path::kUnpack, machine());
  EXPECT_EQ(unpack.families[0].source_stride, 8);
  EXPECT_EQ(unpack.families[0].target_stride, 32);
}

TEST(FeaturesTest, PiecesAgreeWithCompiledPlans) {
  const std::vector<std::string> layouts{vector_of(5040, "BLOCK", 4),
                                         vector_of(5040, "CYCLIC", 4),
                                         vector_of(5040, "CYCLIC(3)", 4),
                                         vector_of(5040, "CYCLIC(12)", 4),
                                         "hpf(shape=[84,60], elem=8, dist=(BLOCK,*), grid=[4,1])",
                                         "hpf(shape=[84,60], elem=8, dist=(*,BLOCK), grid=[1,4])",
                                         "hpf(shape=[84,60], elem=8, dist=(CYCLIC(2),CYCLIC(3)), grid=[2,2])",
                                         "tiles(shape=[84,60], elem=8, tile=[7,10], over=4)"};
  for (const std::string& from : layouts) {
    for (const std::string& to : layouts) {
      for (Offset i = 0; i < 4; ++i) {
        const layout::Mapping common = mapping(from, i, to, (i + 1) % 4);
        if (common.is_empty()) continue;
        SCOPED_TRACE(concat(from, " -> ", to));
        const CopyFeatures pack = features_of(common, Path::kPack, machine());
        EXPECT_EQ(pack.bytes, static_cast<double>(common.bytes()));
        const auto packing = transfer::Packing::create(common, transfer::End::kA);
        // Plans join a few neighbours more.
        const auto pieces = static_cast<double>(packing.plan.pieces());
        EXPECT_GE(pack.pieces, pieces);
        EXPECT_LE(pack.pieces, 2 * pieces + 4);
      }
    }
  }
}

TEST(FeaturesTest, CostDependsOnStructureNotOnBytes) {
  const std::string block = vector_of(Offset{1} << 50, "BLOCK", 4);
  const std::string cyclic = vector_of(Offset{1} << 50, "CYCLIC(3)", 4);
  const CopyFeatures features = features_of(mapping(block, 0, cyclic, 0), Path::kPack, machine());
  EXPECT_LE(features.families.size(), 8U);
  EXPECT_GT(features.pieces, 1e13);
}

// ---- predictions ---------------------------------------------------------------------------------------------------

TEST(PredictCopyTest, MorePiecesAreNeverCheaper) {
  const Machine m = machine();
  for (const Path path : {Path::kPack, Path::kUnpack, Path::kCopy}) {
    for (const double stride_per_length : {1.5, 4.0, 100.0, 1000.0}) {
      double last = 0;
      for (double pieces = 1; pieces < 1e8; pieces *= 3) {  // more of the same
        CopyFeatures features{path,
                              pieces * 8,
                              pieces,
                              8,
                              8,
                              pieces * 80,
                              {{pieces, 1, 8, 8 * stride_per_length, 8 * stride_per_length}}};
        const double seconds = predict_copy(m, features).seconds;
        EXPECT_GT(seconds, last);
        last = seconds;
      }
      last = 0;
      for (Offset length = 4096; length >= 1; length /= 2) {  // the same bytes in more pieces
        const double pieces = (1 << 20) / static_cast<double>(length);
        const double stride = stride_per_length * static_cast<double>(length);
        CopyFeatures features{
            path, 1 << 20, pieces, length, static_cast<double>(length), 2 << 20, {{pieces, 1, length, stride, stride}}};
        const double seconds = predict_copy(m, features).seconds;
        EXPECT_GE(seconds, last) << length;
        last = seconds;
      }
    }
  }
}

TEST(PredictCopyTest, TermsAddUpToTheFormula) {
  const CopyFeatures features = features_of(
      mapping(vector_of(40960, "BLOCK", 4), 0, vector_of(40960, "CYCLIC(2)", 4), 1), Path::kPack, machine());
  const CopyPrediction predicted = predict_copy(machine(), features);
  EXPECT_NEAR(predicted.copy_seconds + predicted.line_seconds + predicted.page_seconds + predicted.turn_seconds,
              predicted.formula_seconds, 1e-12);
}

TEST(PredictTest, SameLayoutMovesNothing) {
  const layout::Partition block = partition(vector_of(4096, "BLOCK", 4));
  const auto prediction = predict_redistribution(machine(), block, block);
  ASSERT_THAT(prediction, IsOk());
  ASSERT_EQ(prediction->phases.size(), 1U);
  for (const RankPrediction& rank : prediction->phases[0].ranks) {
    EXPECT_EQ(rank.sends, 0);
    EXPECT_EQ(rank.bytes_local, 8192);
    EXPECT_EQ(rank.message_seconds, 0);
    EXPECT_GT(rank.local_seconds, 0);
  }
}

TEST(PredictTest, BlockToCyclicPacksAndReceivesInPlace) {
  const auto prediction = predict_redistribution(machine(), partition(vector_of(4096, "BLOCK", 4)),
                                                 partition(vector_of(4096, "CYCLIC", 4)));
  ASSERT_THAT(prediction, IsOk());
  EXPECT_THAT(prediction->why, HasSubstr("no block-cyclic layout between"));
  EXPECT_TRUE(prediction->alternative.empty());
  double slowest = 0;
  for (const RankPrediction& rank : prediction->phases[0].ranks) {
    EXPECT_EQ(rank.sends, 3);
    EXPECT_EQ(rank.receives, 3);
    EXPECT_EQ(rank.sends_in_place, 0);
    EXPECT_EQ(rank.receives_in_place, 3);
    EXPECT_EQ(rank.bytes_sent, 6144);
    EXPECT_EQ(rank.bytes_local, 2048);
    EXPECT_EQ(rank.pieces_packed, 768);
    EXPECT_GT(rank.pack_seconds, 0);
    EXPECT_EQ(rank.unpack_seconds, 0);
    EXPECT_NEAR(*rank.message_seconds, 3 * 2e-6 + 6144 / 1e10, 1e-15);
    EXPECT_NEAR(rank.seconds(), rank.pack_seconds + *rank.message_seconds + rank.local_seconds, 1e-15);
    slowest = std::max(slowest, rank.seconds());
  }
  EXPECT_EQ(prediction->seconds, slowest);
}

// Ranks that predict together, each its own part, get what one alone gets for all of them.
TEST(PredictTest, OneRankIsPredictedAsAmongAll) {
  const std::pair<std::string, std::string> cases[] = {
      {vector_of(4096, "BLOCK", 4), vector_of(4096, "CYCLIC", 4)},
      {vector_of(5000, "CYCLIC(3)", 5), vector_of(5000, "CYCLIC(7)", 3)},
      {"hpf(shape=[60,90], elem=8, dist=(CYCLIC(4),CYCLIC(6)), grid=[2,3])",
       "hpf(shape=[60,90], elem=8, dist=(BLOCK,CYCLIC(5)), grid=[3,2])"}};
  for (const auto& [from, to] : cases) {
    for (const Offset ranks : {2, 4, 7}) {  // fewer than elements and more
      Options options;
      options.ranks = ranks;
      options.phases = Phases::kOne;
      const auto all = predict_redistribution(machine(), partition(from), partition(to), options);
      ASSERT_THAT(all, IsOk());
      for (Offset rank = 0; rank < ranks; ++rank) {
        const auto one = predict_rank(machine(), partition(from), partition(to), rank, options);
        ASSERT_THAT(one, IsOk());
        const RankPrediction& expected = all->phases[0].ranks[static_cast<std::size_t>(rank)];
        EXPECT_EQ(one->rank, rank);
        EXPECT_DOUBLE_EQ(one->seconds(), expected.seconds()) << from << " -> " << to << " rank " << rank;
        EXPECT_DOUBLE_EQ(one->pack_seconds, expected.pack_seconds);
        EXPECT_DOUBLE_EQ(one->unpack_seconds, expected.unpack_seconds);
        EXPECT_EQ(one->bytes_sent, expected.bytes_sent);
        EXPECT_EQ(one->receives_in_place, expected.receives_in_place);
      }
    }
  }
}

TEST(PredictCopyTest, ACopyModelReplacesPackingAndUnpacking) {
  Machine m = machine();
  const layout::Mapping local = mapping(vector_of(6000, "CYCLIC(3)", 4), 0, vector_of(6000, "CYCLIC(5)", 4), 0);
  const CopyFeatures features = features_of(local, Path::kCopy, m);
  const double made_up = predict_copy(m, features).seconds;
  m.copy.regimes = {regime(16e3, 1000)};
  EXPECT_GT(predict_copy(m, features).seconds, 10 * made_up);
  const CopyFeatures packing = features_of(local, Path::kPack, m);
  EXPECT_DOUBLE_EQ(predict_copy(m, packing).seconds, predict_copy(machine(), packing).seconds);
}

TEST(PredictTest, WithoutNetworkMessagesAreUnknown) {
  Machine m = machine();
  m.network.reset();
  const auto prediction =
      predict_redistribution(m, partition(vector_of(4096, "BLOCK", 4)), partition(vector_of(4096, "CYCLIC", 4)));
  EXPECT_FALSE(prediction->knows_messages);
  EXPECT_FALSE(prediction->phases[0].ranks[0].message_seconds.has_value());
}

TEST(PredictTest, TwoPhasesGoThroughTheLeastCommonMultiple) {
  const layout::Partition x = partition(vector_of(1 << 20, "CYCLIC(3)", 4));
  const layout::Partition y = partition(vector_of(1 << 20, "CYCLIC(5)", 4));
  const auto between = layout_between(x, y);
  ASSERT_TRUE(between.has_value());
  EXPECT_EQ(layout::print(*between), layout::print(partition(vector_of(1 << 20, "CYCLIC(15)", 4))));
  const auto chosen = predict_redistribution(machine(), x, y);
  ASSERT_THAT(chosen, IsOk());
  EXPECT_LE(chosen->seconds, chosen->alternative_seconds);
  EXPECT_EQ(chosen->phases.size() + chosen->alternative.size(), 3U);
  const auto one = predict_redistribution(machine(), x, y, {.phases = Phases::kOne});
  const auto two = predict_redistribution(machine(), x, y, {.phases = Phases::kTwo});
  EXPECT_EQ(one->phases.size(), 1U);
  EXPECT_EQ(two->phases.size(), 2U);
  EXPECT_EQ(std::min(one->seconds, two->seconds), chosen->seconds);
  EXPECT_EQ(one->alternative_seconds, two->seconds);
}

// Nearly free messages and single elements that are dear to copy: two phases with longer pieces win.
TEST(PredictTest, TwoPhasesWinWherePiecesGetMuchLonger) {
  Machine m = machine();
  m.network = Network{1e-12, 1e15};
  for (CopyModel* model : {&m.pack, &m.unpack}) {
    for (Regime& r : model->regimes) r = {r.working_set, {1e-6, 3, 1e-12}, 0, 0, {}};
    model->turn_seconds = 0;
  }
  const auto chosen = predict_redistribution(m, partition(vector_of(1 << 18, "CYCLIC(8)", 4)),
                                             partition(vector_of(1 << 18, "CYCLIC(9)", 4)));
  EXPECT_EQ(chosen->phases.size(), 2U);
}

TEST(PredictTest, NoLayoutBetweenWhereBlocksDivideOrShapesDiffer) {
  const auto between = [](const std::string& a, const std::string& b) {
    return layout_between(partition(a), partition(b));
  };
  EXPECT_FALSE(between(vector_of(4096, "CYCLIC(2)", 4), vector_of(4096, "CYCLIC(6)", 4)));
  EXPECT_FALSE(between(vector_of(4096, "CYCLIC(3)", 4), vector_of(4096, "CYCLIC(5)", 2)));
  EXPECT_FALSE(between(vector_of(4096, "CYCLIC(1001)", 4), vector_of(4096, "CYCLIC(1003)", 4)));
  EXPECT_FALSE(between(vector_of(4096, "CYCLIC(3)", 4), "stripe(unit=64, over=4)"));
  EXPECT_THAT(predict_redistribution(machine(), partition(vector_of(64, "BLOCK", 4)),
                                     partition(vector_of(64, "CYCLIC", 4)), {.phases = Phases::kTwo}),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("--phases 2")));
}

TEST(PredictTest, LocalPathCanBeChosen) {
  const layout::Partition x = partition(vector_of(1 << 16, "CYCLIC(3)", 2));
  const layout::Partition y = partition(vector_of(1 << 16, "CYCLIC(4)", 2));
  const auto run = [&](Local local) {
    return predict_redistribution(machine(), x, y, {.phases = Phases::kOne, .local = local})->phases[0].ranks[0];
  };
  EXPECT_EQ(run(Local::kDirect).local_seconds, run(Local::kDirect).direct_seconds);
  EXPECT_EQ(run(Local::kPacked).local_seconds, run(Local::kPacked).packed_seconds);
  EXPECT_EQ(run(Local::kAuto).local_seconds,
            std::min(run(Local::kAuto).direct_seconds, run(Local::kAuto).packed_seconds));
}

TEST(PredictTest, RanksMayBeMoreOrFewerThanElements) {
  const layout::Partition x = partition(vector_of(4096, "BLOCK", 4));
  const layout::Partition y = partition(vector_of(4096, "CYCLIC", 2));
  EXPECT_EQ(predict_redistribution(machine(), x, y)->phases[0].ranks.size(), 4U);
  const auto one = predict_redistribution(machine(), x, y, {.ranks = 1});
  EXPECT_EQ(one->phases[0].ranks[0].sends, 0);
  EXPECT_EQ(one->phases[0].ranks[0].bytes_local, 4096 * 8);
  EXPECT_EQ(predict_redistribution(machine(), x, y, {.ranks = 6})->phases[0].ranks[5].bytes_local, 0);
}

TEST(PredictTest, RefusesWhatItCannotAnswer) {
  const layout::Partition stripe = partition("stripe(unit=64, over=4)");
  EXPECT_THAT(predict_redistribution(machine(), stripe, partition("stripe(unit=64, over=4, disp=8)")),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("disp=0 and disp=8")));
  EXPECT_THAT(predict_redistribution(Machine{}, stripe, stripe),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("not calibrated")));
  const layout::Partition wide = partition("stripe(unit=64, over=1000)");
  EXPECT_THAT(predict_redistribution(machine(), wide, wide), StatusIs(ErrorCode::kTooComplex));
  EXPECT_THAT(with_elem(stripe, 4), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("only hpf and tiles")));
  EXPECT_EQ(with_elem(partition(vector_of(64, "BLOCK", 4)), 4)->period(), 256);
}

// Lines that the message before has left in a cache come from there.
TEST(PredictCopyTest, SurroundingsCostWhereLinesAreFresh) {
  const Machine m = machine();
  const CopyFeatures features{Path::kPack, 8e3, 1e3, 8, 8, 72e3, {{1e3, 1, 8, 512, 8}}};
  const double alone = predict_copy(m, features).seconds;
  const double among = predict_copy(m, features, {1e8, 1}).seconds;
  const double sparse = predict_copy(m, features, {1e8, 8}).seconds;
  EXPECT_LT(alone, among);   // an eighth of the lines is new
  EXPECT_LT(among, sparse);  // all of them are
  EXPECT_EQ(predict_copy(m, features, {1, 1}).seconds, alone);
}

// ---- validation ----------------------------------------------------------------------------------------------------

Point point(double measured, double predicted) {
  return {"g", "a < b", Path::kPack, 1, 8, measured, predicted, measured};
}

TEST(AccuracyTest, KnownValues) {
  const std::vector<Point> points{point(1, 1), point(2, 2), point(3, 3.3), point(4, 3)};
  const Accuracy accuracy = accuracy_of(points);
  EXPECT_EQ(accuracy.points, 4U);
  EXPECT_NEAR(accuracy.r_squared, 1 - (0.09 + 1) / 5, 1e-12);
  EXPECT_NEAR(accuracy.max_error, 0.25, 1e-12);
  EXPECT_NEAR(accuracy.p90_error, 0.25, 1e-12);
  EXPECT_NEAR(accuracy_of(points, true).max_error, 0, 1e-12);
  EXPECT_NEAR(accuracy_of(points, true).r_squared, 1, 1e-12);
  std::vector<Point> ten(10, point(1, 1.1));
  ten.push_back(point(1, 2));
  EXPECT_NEAR(accuracy_of(ten).p90_error, 0.1, 1e-12);
  EXPECT_EQ(accuracy_of({}).points, 0U);
}

TEST(ValidateTest, QuickRunCoversEveryGroup) {
  const auto points = validate(machine(), {.quick = true, .progress = {}});
  ASSERT_THAT(points, IsOk());
  for (const char* group : {"strided pack", "strided unpack", "BCY pack", "CBL unpack", "KYY pack", "XKX unpack",
                            "GEN pack", "GEN unpack", "2-D pack", "2-D unpack", "local copy"}) {
    EXPECT_THAT(*points, ::testing::Contains(::testing::Field(&Point::group, group)));
  }
  for (const Point& p : *points) {
    EXPECT_GT(p.measured_seconds, 0) << p.name;
    EXPECT_GT(p.predicted_seconds, 0) << p.name;
    EXPECT_TRUE(std::isfinite(p.predicted_seconds)) << p.name;
  }
  EXPECT_THAT(validate(Machine{}), StatusIs(ErrorCode::kInvalidArgument));
}

TEST(PlotTest, EscapesAndHoldsEveryPoint) {
  const std::string svg = draw_svg(std::vector<Point>{point(1e-9, 1.1e-9), point(5e-9, 4e-9)}, "a & b");
  EXPECT_THAT(svg, HasSubstr("<title>a &amp; b</title>"));
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("\"nan")));
  EXPECT_THAT(draw_svg({}, "none"), Not(HasSubstr("\"inf")));
}

}  // namespace
}  // namespace weir::model
