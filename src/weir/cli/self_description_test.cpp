// What the command tells shells and man about itself.

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/cli/internal/run_testing.h>

namespace weir::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::weir;

class SelfDescriptionTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  std::string write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }

  // What a shell command writes to both of its outputs.
  static std::string output_of(const std::string& command) {
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return "cannot start " + command;
    std::string text;
    std::array<char, 4096> part;
    while (const std::size_t count = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), count);
    ::pclose(pipe);
    return text;
  }

  // What bash offers when the last of `words` is completed.
  std::string completions(const std::vector<std::string>& words) {
    std::string line = "source " + write(weir({"completion"}).out) + "; COMP_WORDS=(";
    for (const std::string& word : words) line += "\"" + word + "\" ";
    line += "); COMP_CWORD=" + std::to_string(words.size() - 1) + "; _weir; echo \" ${COMPREPLY[*]} \"";
    return output_of("bash --norc -c '" + line + "'");
  }

  std::string path_ = ::testing::TempDir() + "weir-self-" + std::to_string(::getpid());
};

TEST_F(SelfDescriptionTest, BashCompletesCommandsAndOptions) {
  EXPECT_EQ(completions({"weir", "pu"}), " put \n");
  EXPECT_EQ(completions({"weir", "layout", "inter"}), " intersect \n");
  EXPECT_EQ(completions({"weir", "put", "--lay"}), " --layout \n");
  EXPECT_EQ(completions({"weir", "put", "a", "/a", "-j", "2", "--ver"}), " --verify \n");
  EXPECT_EQ(completions({"weir", "run", "--mpi", "m"}), " mpich \n");
  EXPECT_EQ(completions({"weir", "help", "stat"}), " status stat \n");
  EXPECT_THAT(completions({"weir", ""}), AllOf(HasSubstr(" up "), HasSubstr(" layout "), Not(HasSubstr("--"))));
  EXPECT_THAT(completions({"weir", ""}), AllOf(Not(HasSubstr(" serve-job ")), Not(HasSubstr(" manual "))));
}

TEST_F(SelfDescriptionTest, BashIsLeftToCompleteFilesAndForeignCommands) {
  EXPECT_EQ(completions({"weir", "put", "in"}), "  \n");
  EXPECT_EQ(completions({"weir", "put", "--layout", "st"}), "  \n");
  EXPECT_EQ(completions({"weir", "run", "--servers", "2", "--", "mpirun", "--ser"}), "  \n");
}

TEST_F(SelfDescriptionTest, EveryCommandAndOptionIsInTheManual) {
  const std::string page = weir({"manual"}).out;
  for (const char* section :
       {"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES"}) {
    EXPECT_THAT(page, HasSubstr(std::string("\n.SH ") + section + "\n"));
  }
  for (const char* command : {"weir run", "weir put", "weir cp", "weir du", "weir layout show", "weir fsck"}) {
    EXPECT_THAT(page, HasSubstr(std::string("\n.SS ") + command + "\n"));
  }
  EXPECT_THAT(page, HasSubstr("\\-\\-verify"));
  EXPECT_THAT(page, Not(HasSubstr("serve\\-job")));
  EXPECT_THAT(page, HasSubstr("\n.B WEIR_REDIST_PHASES\n"));
}

TEST_F(SelfDescriptionTest, TheManualIsCleanRoff) {
  const std::string file = write(weir({"manual"}).out);
  if (output_of("groff --version").find("GNU groff") == std::string::npos) GTEST_SKIP() << "groff is not here";
  EXPECT_EQ(output_of("(groff -man -wall -Tutf8 " + file + " 2>&1 >/dev/null)"), "");
  const std::string text = output_of("groff -man -Tascii -P-cbou " + file);
  EXPECT_THAT(text, HasSubstr("weir put [OPTION...] SOURCE TARGET"));
  EXPECT_THAT(text, HasSubstr("hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4])"));
}

}  // namespace
}  // namespace weir::cli
