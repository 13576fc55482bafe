// Which MPI a command uses, and what is preloaded where.

#include <weir/launch/mpi.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace weir::launch {
namespace {

namespace fs = std::filesystem;
using ::testing::_;
using ::testing::ElementsAre;

TEST(PreloadTest, ComesLastAndOnce) {
  EXPECT_EQ(with_library("", "/w.so"), "/w.so");
  EXPECT_EQ(with_library("/a.so /b.so", "/w.so"), "/a.so:/b.so:/w.so");
  EXPECT_EQ(with_library("/w.so:/a.so", "/w.so"), "/a.so:/w.so");
  EXPECT_EQ(with_library("/x/libweir_mpiio_mpich.so:/a.so /libweir_preload.so", "/w.so"), "/a.so:/w.so");
  EXPECT_EQ(without_library("/a.so:/w.so", "/w.so"), "/a.so");
}

/// Launchers that do nothing, on a PATH of the test's.
class LauncherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("weir-launcher-test-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    for (const char* const name : {"orterun", "mpiexec.hydra"}) {
      std::ofstream(folder_ / name) << "#!/bin/sh\n";
      fs::permissions(folder_ / name, fs::perms::owner_all);
    }
    fs::create_symlink("orterun", folder_ / "mpirun");
    old_path_ = std::getenv("PATH");
    ::setenv("PATH", (folder_.string() + ":" + old_path_).c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", old_path_.c_str(), 1);
    fs::remove_all(folder_);
  }

  fs::path folder_;
  std::string old_path_;
};

TEST_F(LauncherTest, KnowsTheMpiByItsLauncher) {
  const auto open = choose_mpi({"mpirun", "-n", "2", "python3", "x.py"});
  EXPECT_EQ(open.mpi, Mpi::kOpenMpi) << open.why;
  EXPECT_TRUE(open.is_certain);
  EXPECT_EQ(choose_mpi({"nice", "mpiexec.hydra", "-n", "2", "x"}).mpi, Mpi::kMpich);
  const auto guessed = choose_mpi({"sh", "job.sh"});
  EXPECT_EQ(guessed.mpi, Mpi::kOpenMpi);
  EXPECT_FALSE(guessed.is_certain);
}

TEST_F(LauncherTest, OtherCommandsHaveItInTheirEnvironment) {
  const auto launch = prepare({"./program"}, "/w.so", {{"A", "1"}});
  EXPECT_THAT(launch.words, ElementsAre("./program"));
  ASSERT_EQ(launch.environment.size(), 2);
  EXPECT_EQ(launch.environment[1].name, "LD_PRELOAD");
  // One program of several has settings of its own.
  const auto several = prepare({"mpirun", "-n", "1", "x", ":", "-n", "2", "y"}, "/w.so", {});
  EXPECT_THAT(several.words, ElementsAre("mpirun", "-x", "LD_PRELOAD=/w.so", "-n", "1", "x", ":", "-x",
                                         "LD_PRELOAD=/w.so", "-n", "2", "y"));
  // Open MPI refuses -x beside its own way to say the same.
  const auto listed = prepare({"mpirun", "--mca", "mca_base_env_list", "A=1", "x"}, "/w.so", {});
  EXPECT_EQ(listed.words.size(), 5);
  EXPECT_EQ(listed.environment.size(), 1);
}

TEST_F(LauncherTest, SrunIsToldToHandItOn) {
  const auto words = [](const std::vector<std::string>& command) {
    const auto launch = prepare(command, "/w.so", {{"A", "1"}});
    EXPECT_EQ(launch.environment.size(), 1);
    return launch.words;
  };
  EXPECT_THAT(words({"srun", "-n", "2", "x"}), ElementsAre("srun", "--export=ALL,A,LD_PRELOAD=/w.so", "-n", "2", "x"));
  EXPECT_THAT(words({"srun", "--export=B=2", "x"}), ElementsAre("srun", "--export=B=2,A,LD_PRELOAD=/w.so", "x"));
  EXPECT_THAT(words({"srun", "--export", "NONE", "x"}), ElementsAre("srun", "--export", "A,LD_PRELOAD=/w.so", "x"));
  // What comes after the program is not srun's; what comes after a short option may be its value.
  EXPECT_THAT(words({"srun", "sh", "--export=B"}), ElementsAre("srun", _, "sh", "--export=B"));
  EXPECT_THAT(words({"srun", "-p", "sh", "--export=B", "x"}),
              ElementsAre("srun", "-p", "sh", "--export=B,A,LD_PRELOAD=/w.so", "x"));
  ::setenv("SLURM_EXPORT_ENV", "NONE", 1);
  EXPECT_THAT(words({"srun", "x"}), ElementsAre("srun", "--export=A,LD_PRELOAD=/w.so", "x"));
  ::unsetenv("SLURM_EXPORT_ENV");
}

}  // namespace
}  // namespace weir::launch
