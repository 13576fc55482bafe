// weir report

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <weir/cli/internal/run_testing.h>
#include <weir/trace/testing/sample_traces.h>

namespace weir::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using trace::testing::columns_of;

class ReportCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("weir-report-test-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void add(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  fs::path folder_;
};

TEST_F(ReportCommandTest, WritesAPage) {
  add("a.1.trace", columns_of(1, 2));
  add("a.0.trace", columns_of(0, 2));
  add("a.2.trace", "");  // killed at once
  add("notes.txt", "something else");
  const auto outcome = testing::weir({"report", folder_.string(), "--output", (folder_ / "x.html").string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::ifstream in(folder_ / "x.html");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(page, HasSubstr("/out"));
  EXPECT_THAT(page, HasSubstr("</html>"));
}

TEST_F(ReportCommandTest, WritesJson) {
  add("a.0.trace", columns_of(0, 1));
  const auto outcome = testing::weir({"report", folder_.string(), "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(answer["files"][0]["path"], "/out");
  EXPECT_EQ(answer["files"][0]["write"]["bytes"], 65536);
  EXPECT_EQ(answer["files"][0]["write"]["sizes"]["65536"], 1);
  EXPECT_EQ(answer["files"][0]["phases"]["meet"], 0.25);
}

TEST_F(ReportCommandTest, SaysWhatIsWrong) {
  auto outcome = testing::weir({"report", folder_.string()});
  EXPECT_EQ(outcome.code, kExitBad);
  EXPECT_THAT(outcome.err, HasSubstr("no traces in"));
  EXPECT_THAT(outcome.err, HasSubstr("WEIR_TRACE"));
  outcome = testing::weir({"report", (folder_ / "none").string()});
  EXPECT_THAT(outcome.err, HasSubstr("none"));
  add("bad.trace", "hello\n");
  outcome = testing::weir({"report", folder_.string()});
  EXPECT_EQ(outcome.code, kExitBad);
  EXPECT_THAT(outcome.err, HasSubstr("bad.trace: this is no trace of Weir"));
}

}  // namespace
}  // namespace weir::cli
