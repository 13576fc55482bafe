#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <weir/cli/internal/calibrate_servers.h>
#include <weir/cli/internal/fs_testing.h>
#include <weir/cli/internal/run_testing.h>
#include <weir/model/machine.h>

namespace weir::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using ::testing::StartsWith;
using testing::weir;

const std::string kBlock = "hpf(shape=[4096], elem=8, dist=(BLOCK), grid=[4])";
const std::string kCyclic = "hpf(shape=[4096], elem=8, dist=(CYCLIC), grid=[4])";
const std::string kThree = "hpf(shape=[4096], elem=8, dist=(CYCLIC(3)), grid=[4])";
const std::string kFive = "hpf(shape=[4096], elem=8, dist=(CYCLIC(5)), grid=[4])";

// A model file with round numbers, removed at the end.
class ModelCommandTest : public ::testing::Test {
 protected:
  void SetUp() override { write(true); }
  void TearDown() override { std::remove(path_.c_str()); }

  void write(bool with_network) {
    model::Machine machine;
    machine.description = "test machine";
    machine.caches = {{32 << 10, 8}, {512 << 10, 8}};
    machine.pack.regimes = {{1e5, {2e-9, 1, 1e-10}, 1e-9, 1e-9, {}}};
    machine.unpack.regimes = {{1e5, {3e-9, 1, 1e-10}, 1e-9, 1e-9, {}}};
    if (with_network) machine.network = model::Network{1e-6, 1e9};
    ASSERT_TRUE(model::save(machine, path_).is_ok());
  }

  [[nodiscard]] Outcome model_of(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "model");
    arguments.insert(arguments.end(), {"--file", path_});
    return weir(arguments);
  }

  std::string path_ = ::testing::TempDir() + std::to_string(::getpid()) + "_weir_cli_model_test.toml";
};

TEST_F(ModelCommandTest, HelpNamesTheFile) {
  EXPECT_THAT(weir({"model", "--help"}).out, HasSubstr("WEIR_MODEL"));
  for (const char* command : {"calibrate", "show", "predict", "validate"}) {
    const Outcome outcome = weir({"model", command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("Example")) << command;
    EXPECT_THAT(outcome.out, HasSubstr("--json")) << command;
  }
}

TEST_F(ModelCommandTest, PredictShowsEveryRank) {
  const Outcome outcome = model_of({"predict", kBlock, kCyclic});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("critical"));
  EXPECT_THAT(outcome.out, HasSubstr("9.144 us"));  // 3 messages, 6144 bytes
  EXPECT_THAT(outcome.out, HasSubstr("total: "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("missing")));
}

TEST_F(ModelCommandTest, PredictSaysWhatIsMissing) {
  write(false);
  const Outcome outcome = model_of({"predict", kBlock, kCyclic});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("total without messages"));
  EXPECT_THAT(outcome.out, HasSubstr("--mpi-probe"));
  const json answer = json::parse(model_of({"predict", kBlock, kCyclic, "--json"}).out);
  EXPECT_EQ(answer["knows_messages"], false);
  EXPECT_TRUE(answer["phases"][0]["ranks"][0]["message_seconds"].is_null());
}

TEST_F(ModelCommandTest, PredictInJson) {
  const json answer = json::parse(model_of({"predict", kBlock, kCyclic, "--json"}).out);
  ASSERT_EQ(answer["phases"].size(), 1U);
  const json& rank = answer["phases"][0]["ranks"][2];
  EXPECT_EQ(rank["sends"], 3);
  EXPECT_EQ(rank["bytes_sent"], 6144);
  EXPECT_EQ(rank["receives_in_place"], 3);
  EXPECT_NEAR(rank["message_seconds"].get<double>(), 9.144e-6, 1e-12);
  EXPECT_GT(answer["seconds"].get<double>(), 0);
}

TEST_F(ModelCommandTest, ExplainShowsChoicesAndWhatOverridesThem) {
  const Outcome outcome = model_of({"predict", kThree, kFive, "--explain"});
  EXPECT_THAT(outcome.out, HasSubstr("CYCLIC(15)"));
  EXPECT_THAT(outcome.out, HasSubstr("--phases 2"));
  EXPECT_THAT(outcome.out, HasSubstr("--path packed"));
  EXPECT_THAT(outcome.out, HasSubstr("not chosen"));
  const json two = json::parse(model_of({"predict", kThree, kFive, "--phases", "2", "--json"}).out);
  EXPECT_EQ(two["phases"].size(), 2U);
  EXPECT_EQ(two["alternative"].size(), 1U);
  const json packed =
      json::parse(model_of({"predict", kThree, kFive, "--phases", "1", "--path", "packed", "--json"}).out);
  EXPECT_EQ(packed["phases"][0]["local"], "packed");
}

TEST_F(ModelCommandTest, ElementSizeCanBeReplaced) {
  const json answer = json::parse(model_of({"predict", kBlock, kCyclic, "--bytes-per-elem", "16", "--json"}).out);
  EXPECT_EQ(answer["phases"][0]["ranks"][0]["bytes_sent"], 12288);
  const json one = json::parse(model_of({"predict", kBlock, kCyclic, "--ranks", "1", "--json"}).out);
  EXPECT_EQ(one["phases"][0]["ranks"][0]["bytes_local"], 32768);
}

TEST_F(ModelCommandTest, ErrorsAreNamed) {
  const auto expect_error = [](const Outcome& outcome, const std::string& message) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  expect_error(weir({"model"}), "A subcommand is required");
  expect_error(model_of({"predict", kBlock}), "TO is required");
  expect_error(model_of({"predict", kBlock, "strip(unit=1)"}), "column 1");
  expect_error(model_of({"predict", kBlock, kCyclic, "--phases", "3"}), "--phases");
  expect_error(model_of({"predict", kBlock, kCyclic, "--phases", "2"}), "leave out --phases 2");
  expect_error(model_of({"predict", "stripe(unit=4, over=2)", kBlock, "--bytes-per-elem", "4"}), "only hpf and tiles");
  expect_error(weir({"model", "predict", kBlock, kCyclic, "--file", "/nonexistent"}), "run 'weir model calibrate'");
  expect_error(weir({"model", "calibrate", "--output", path_, "--mpi", "fast"}), "latency_us=");
  expect_error(weir({"model", "calibrate", "--output", path_, "--mpi", "x", "--mpi-probe", "y"}), "excludes");
  expect_error(weir({"model", "calibrate", "--output", path_, "--disk", "/nonexistent/disk"}), "/nonexistent/disk");
  expect_error(weir({"model", "calibrate", "--output", path_, "--fs", "/nonexistent/fs"}), "/nonexistent/fs");
  std::ofstream(path_) << "format = \"weir-model\"\nversion = 9\n";
  expect_error(model_of({"predict", kBlock, kCyclic}), "version 9 is not known");
}

TEST_F(ModelCommandTest, CalibrateMeasuresIoAndKeepsWhatIsKnownOfMessages) {
  const Outcome outcome = weir({"model", "calibrate", "--quick", "--output", path_});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("theta"));
  EXPECT_THAT(outcome.out, HasSubstr("written to " + path_));
  const auto machine = model::load(path_);
  ASSERT_TRUE(machine.is_ok()) << machine.status().message();
  EXPECT_EQ(machine->network, (model::Network{1e-6, 1e9}));
  const model::Io& io = machine->io;
  const model::Io built_in;
  EXPECT_NE(io.server, built_in.server);
  EXPECT_EQ(io.remote, built_in.remote);
  EXPECT_NE(io.disk.read_byte_seconds, built_in.disk.read_byte_seconds);
  EXPECT_NE(io.memory.map_seconds, built_in.memory.map_seconds);
  EXPECT_NE(io.memory.warm_byte_seconds, built_in.memory.warm_byte_seconds);
  EXPECT_NE(io.memory.piece_seconds, built_in.memory.piece_seconds);
  EXPECT_EQ(io.ranks, model::ranks_over(*machine->network));
  EXPECT_THAT(weir({"model", "calibrate", "--quick", "-o", path_, "--mpi-probe", "echo 3e-6 2e9", "--json"}).out,
              StartsWith("{"));
  EXPECT_EQ(model::load(path_)->network, (model::Network{3e-6, 2e9}));
}

TEST_F(ModelCommandTest, ShowPrintsCostsWithUnits) {
  const Outcome outcome = model_of({"show"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("test machine"));
  EXPECT_THAT(outcome.out, HasSubstr("messages: 1.000 us + bytes / 1.000 GB/s"));
  EXPECT_THAT(outcome.out,
              HasSubstr("request_seconds                  14 us  a request to a server on this host (built"));
  EXPECT_THAT(outcome.out, HasSubstr("block_bytes                    4.0 KiB"));
  EXPECT_THAT(outcome.out, HasSubstr("from " + path_));
  auto machine = *model::load(path_);
  machine.io.disk.sync_seconds = 0.004;
  ASSERT_TRUE(model::save(machine, path_).is_ok());
  EXPECT_THAT(model_of({"show"}).out, HasSubstr("4 ms  a sync\n"));
  const json answer = json::parse(model_of({"show", "--json"}).out);
  EXPECT_EQ(answer["file"], path_);
  EXPECT_EQ(answer["costs"]["disk"]["sync_seconds"], 0.004);
  EXPECT_EQ(answer["costs"]["disk"]["block_bytes"], 4096);
  EXPECT_EQ(answer["costs"]["server"]["request_seconds"], 14e-6);
}

TEST_F(ModelCommandTest, ShowWithoutAFileHasBuiltInCosts) {
  std::remove(path_.c_str());
  ::setenv("WEIR_MODEL", path_.c_str(), 1);
  EXPECT_THAT(weir({"model", "show"}).out, HasSubstr("nothing calibrated: there is no " + path_));
  EXPECT_EQ(json::parse(weir({"model", "show", "--json"}).out)["file"], "");
  ::unsetenv("WEIR_MODEL");
  EXPECT_EQ(model_of({"show"}).code, 2);  // a file that was asked for
}

class RemoteModelTest : public testing::FileCommandsTest {};
INSTANTIATE_TEST_SUITE_P(Stores, RemoteModelTest, ::testing::Values("memory"));

TEST_P(RemoteModelTest, CalibrateMeasuresTheNetwork) {
  const auto requests = internal::calibrate_remote(fs_, {std::chrono::steady_clock::now(), 1});
  ASSERT_TRUE(requests.is_ok()) << requests.status().message();
  EXPECT_NE(*requests, model::Requests{});
  EXPECT_GT(requests->request_seconds, 0);
  EXPECT_GT(requests->byte_seconds, 0);
  EXPECT_EQ(run({"ls", "/"}).out, "");  // nothing is left
}

// Words of a command line; single quotes hold what is between them together.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  bool is_quoted = false;
  for (const char character : line) {
    if (character == '\'') {
      is_quoted = !is_quoted;
    } else if (character == ' ' && !is_quoted) {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += character;
    }
  }
  return words;
}

TEST_F(ModelCommandTest, ExamplesOfTheGuideRun) {
  ::setenv("WEIR_MODEL", path_.c_str(), 1);
  std::ifstream guide(WEIR_GUIDE "/model.md");
  ASSERT_TRUE(guide);
  std::vector<std::string> ran;
  bool is_example = false;
  for (std::string line; std::getline(guide, line);) {
    if (line.starts_with("```")) {
      is_example = line == "```sh";
      continue;
    }
    if (!is_example) continue;
    std::vector<std::string> words = words_of(line);
    ASSERT_EQ(words.front(), "weir") << line;
    words.erase(words.begin());
    if (words[1] == "calibrate" || words[1] == "validate") words.emplace_back("--quick");
    for (std::string& word : words) {
      if (word.ends_with(".svg")) word = path_ + ".svg";
    }
    const Outcome outcome = weir(words);
    EXPECT_EQ(outcome.code, 0) << line << ": " << outcome.err;
    EXPECT_NE(outcome.out, "") << line;
    ran.push_back(words[1]);
  }
  std::remove((path_ + ".svg").c_str());
  ::unsetenv("WEIR_MODEL");
  EXPECT_THAT(ran, ElementsAre("calibrate", "show", "show", "predict", "validate"));
}

TEST_F(ModelCommandTest, TimeIsLimited) {
  const Outcome none = weir({"model", "calibrate", "--output", path_, "--limit", "0"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--limit"));
  const Outcome too_short = weir({"model", "calibrate", "--output", path_, "--limit", "0.1"});
  EXPECT_EQ(too_short.code, 2);
  EXPECT_THAT(too_short.err, HasSubstr("allow more time"));
  EXPECT_EQ(model::load(path_)->description, "test machine");  // still there
}

TEST_F(ModelCommandTest, ValidatePrintsTheTableAndDraws) {
  const std::string svg = ::testing::TempDir() + std::to_string(::getpid()) + "_weir_cli_model_test.svg";
  const Outcome outcome = model_of({"validate", "--quick", "--svg", svg});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("all packing"));
  EXPECT_THAT(outcome.out, HasSubstr("90th %"));
  std::ifstream file(svg);
  const std::string drawn(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(drawn, StartsWith("<svg"));
  std::remove(svg.c_str());
  const json answer = json::parse(model_of({"validate", "--quick", "--json"}).out);
  EXPECT_FALSE(answer["points"].empty());
  EXPECT_EQ(answer["groups"].back()["name"], "all unpacking");
}

}  // namespace
}  // namespace weir::cli
