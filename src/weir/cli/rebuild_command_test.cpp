// weir up over a store that is not whole, and weir fsck --rebuild, as a user types them.

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <weir/cli/internal/run_testing.h>

namespace weir::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::weir;

class RebuildCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("weir-rebuild-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    ASSERT_EQ(up({"--servers", "2"}).code, kExitOk);
  }
  void TearDown() override {
    down();
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] std::string local(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string store() const { return "disk:" + local("store"); }
  Outcome up(std::vector<std::string> more = {}) {
    std::vector<std::string> words{"up", "--store", store(), "--connection", local("fs.toml")};
    words.insert(words.end(), more.begin(), more.end());
    return weir(words);
  }
  void down() { weir({"down", "--connection", local("fs.toml")}); }
  Outcome run(std::vector<std::string> words) {
    words.insert(words.end(), {"--fs", local("fs.toml")});
    return weir(words);
  }
  static std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_;
};

TEST_F(RebuildCommandTest, TheNumberOfServersIsThatOfTheDirectory) {
  down();
  const Outcome refused = up({"--servers", "1"});
  EXPECT_EQ(refused.code, kExitBad);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("has 2 servers"), HasSubstr("--servers 2")));
  const Outcome right = up();
  EXPECT_EQ(right.code, kExitOk) << right.err;
  EXPECT_THAT(right.out, HasSubstr("2 servers up"));
}

TEST_F(RebuildCommandTest, LostMetadataIsMadeAgain) {
  std::ofstream(local("source"), std::ios::binary) << std::string(2'500'000, 'x') << "end";
  ASSERT_EQ(run({"mkdir", "/d"}).code, kExitOk);
  ASSERT_EQ(run({"put", local("source"), "/d/file"}).code, kExitOk);
  down();
  std::filesystem::remove_all(local("store/server-0/metadata"));
  const Outcome refused = up();
  EXPECT_EQ(refused.code, kExitBad);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("server-0/metadata"), HasSubstr("weir fsck --rebuild --store " + store())));
  const Outcome rebuilt = weir({"fsck", "--rebuild", "--store", store()});
  EXPECT_EQ(rebuilt.code, kExitOk) << rebuilt.out << rebuilt.err;
  EXPECT_THAT(rebuilt.out, AllOf(HasSubstr("1 files, 1 directories"), HasSubstr("weir up")));
  ASSERT_EQ(up().code, kExitOk);
  ASSERT_EQ(run({"get", "/d/file", local("copy")}).code, kExitOk);
  EXPECT_TRUE(bytes_of(local("copy")) == bytes_of(local("source")));
  const Outcome checked = run({"fsck"});
  EXPECT_EQ(checked.code, kExitOk) << checked.out;
}

TEST_F(RebuildCommandTest, TellsWhatIsToBeLookedAt) {
  EXPECT_EQ(weir({"fsck", "--rebuild", "--store", store()}).code, kExitBad) << "its servers run";
  down();
  std::filesystem::remove_all(local("store/server-1"));
  const Outcome outcome = weir({"fsck", "--rebuild", "--store", store(), "--json"});
  EXPECT_EQ(outcome.code, kExitNo) << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_FALSE(report["metadata_rebuilt"]);
  EXPECT_EQ(report["findings"][0]["kind"], "store");
  EXPECT_THAT(report["findings"][0]["what"].get<std::string>(), HasSubstr("server-1/store"));
  EXPECT_EQ(up().code, kExitOk);
}

TEST_F(RebuildCommandTest, OptionsThatMakeNoSenseTogetherAreRefused) {
  EXPECT_THAT(weir({"fsck", "--rebuild"}).err, HasSubstr("--store disk:DIR"));
  EXPECT_THAT(weir({"fsck", "--rebuild", "--repair", "--store", store()}).err, HasSubstr("no --repair"));
  EXPECT_THAT(weir({"fsck", "--rebuild", "--store", "memory"}).err, HasSubstr("disk:DIR"));
  EXPECT_THAT(run({"fsck", "--store", store()}).err, HasSubstr("--store is for --rebuild"));
}

}  // namespace
}  // namespace weir::cli
