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
  const auto run = bench_command("mpiio_bench_openmpi", Start::kWeirRun, options);
  EXPECT_THAT(std::vector(run.begin() + 1, run.begin() + 4), ElementsAre("run", "--", "mpirun.openmpi"));
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
}

}  // namespace
}  // namespace weir::cli
