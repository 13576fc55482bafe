#include <weir/cli/internal/bench_command.h>

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/cli/run.h>

namespace weir::cli {
namespace {

using internal::bench_command;
using internal::BenchOptions;
using internal::Start;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BenchCommandTest, StartsAProgramDirectlyOrUnderALauncher) {
  BenchOptions options;
  options.rest = {"--quick"};
  EXPECT_THAT(bench_command("transfer_bench", Start::kAlone, options), ElementsAre("transfer_bench", "--quick"));
  options.mpi = "mpich";
  options.ranks = 4;
  EXPECT_THAT(bench_command("redist_bench_mpich", Start::kRanks, options),
              ElementsAre("mpiexec.mpich", "-n", "4", "redist_bench_mpich", "--quick"));
  options.mpi = "openmpi";
  const auto words = bench_command("redist_bench_openmpi", Start::kRanks, options);
  EXPECT_EQ(words.front(), "mpirun.openmpi");
  EXPECT_THAT(words, Contains("redist_bench_openmpi"));
  EXPECT_EQ(words.back(), "--quick");
}

// From its second word on: the first is this program.
std::vector<std::string> words_in_weir_run(const BenchOptions& options) {
  auto words = bench_command("mpiio_bench_mpich", Start::kWeirRun, options);
  words.erase(words.begin());
  return words;
}

TEST(BenchCommandTest, GivesAProgramAFileSystem) {
  BenchOptions options;
  options.mpi = "mpich";
  options.ranks = 4;
  options.rest = {"--json"};
  EXPECT_THAT(words_in_weir_run(options),
              ElementsAre("run", "--servers", "1", "--store", "memory", "--", "mpiexec.mpich", "-n", "4",
                          "mpiio_bench_mpich", "--servers", "1", "--store", "memory", "--json"));
  options.tables = true;
  EXPECT_THAT(words_in_weir_run(options),
              ElementsAre("run", "--servers", "4", "--store", "memory", "--", "mpiexec.mpich", "-n", "4",
                          "mpiio_bench_mpich", "--servers", "4", "--store", "memory", "--tables", "--json"));
  options.servers = 2;
  options.store = "disk:/scratch";
  EXPECT_THAT(words_in_weir_run(options), ElementsAre("run", "--servers", "2", "--store", "disk:/scratch/ranks-4", "--",
                                                      "mpiexec.mpich", "-n", "4", "mpiio_bench_mpich", "--servers", "2",
                                                      "--store", "disk:/scratch/ranks-4", "--tables", "--json"));
}

TEST(BenchCommandTest, GivesAProgramServersOnAnotherHost) {
  BenchOptions options;
  options.mpi = "mpich";
  options.servers = 4;
  options.transport = "tcp";
  options.rate = "1gbit";
  options.rest = {"--json"};
  auto words = bench_command("/bin/mpiio_bench_mpich", Start::kWeirRun, options);
  ASSERT_GT(words.size(), 4U);
  words.erase(words.begin() + 4);  // this program
  EXPECT_THAT(words, ElementsAre("/bin/bench_network.sh", "--rate", "1gbit", "mpiio", "4", "memory",
                                 "/bin/mpiio_bench_mpich", "mpiexec.mpich", "-n", "2", "/bin/mpiio_bench_mpich",
                                 "--servers", "4", "--store", "memory", "--json"));
}

int run_words(const std::vector<const char*>& words, std::string& err) {
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream error;
  const int code = run(static_cast<int>(words.size()), words.data(), in, out, error);
  err = error.str();
  return code;
}

TEST(BenchCommandTest, KnowsEveryBench) {
  std::string err;
  for (const char* name : {"copy", "pack", "paths", "redist", "mpiio", "view", "matrix", "scale", "scalapack"}) {
    EXPECT_EQ(run_words({"weir", "bench", name, "--help"}, err), kExitOk) << name << ": " << err;
  }
}

TEST(BenchCommandTest, RefusesWhatItDoesNotKnow) {
  std::string err;
  EXPECT_EQ(run_words({"weir", "bench", "nothing"}, err), kExitBad);
  EXPECT_THAT(err, HasSubstr("nothing"));
  EXPECT_EQ(run_words({"weir", "bench", "redist", "--mpi", "other"}, err), kExitBad);
  EXPECT_THAT(err, HasSubstr("other"));
  EXPECT_EQ(run_words({"weir", "bench", "redist", "--ranks", "2,0"}, err), kExitBad);
  EXPECT_THAT(err, HasSubstr("--ranks"));
  EXPECT_EQ(run_words({"weir", "bench", "mpiio", "--rate", "1gbit"}, err), kExitBad);
  EXPECT_THAT(err, HasSubstr("--transport"));
}

}  // namespace
}  // namespace weir::cli
