#pragma once

// A file system of two servers, as a user starts it, in a folder of the test's.  For tests only.

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/cli/internal/run_testing.h>

namespace weir::cli::testing {

inline std::string file_contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string random_text(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class FileCommandsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("weir-fs-" + std::to_string(::getpid()) + "-" + std::to_string(next_++));
    std::filesystem::create_directories(folder_);
    fs_ = (folder_ / "fs.toml").string();
    up();
  }

  void TearDown() override {
    weir({"down", "--connection", fs_});
    std::filesystem::remove_all(folder_);
  }

  void up() {
    const std::string store = GetParam() == "disk" ? "disk:" + (folder_ / "store").string() : GetParam();
    const Outcome outcome =
        weir({"up", "--servers", "2", "--store", store, "--capacity", "256M", "--ahead", "40M", "--connection", fs_});
    ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
    EXPECT_THAT(outcome.out, ::testing::HasSubstr("export WEIR_FS=" + fs_));
  }

  Outcome run(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.end(), {"--fs", fs_});
    return weir(arguments, input);
  }

  void expect_ok(std::vector<std::string> arguments) {
    const Outcome outcome = run(std::move(arguments));
    EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  }

  std::string local(const std::string& name) { return (folder_ / name).string(); }

  /// Names in the folder that copies under way have: none should be left.
  std::vector<std::string> local_parts() {
    std::vector<std::string> parts;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (name.find("part-") != std::string::npos) parts.push_back(name);
    }
    return parts;
  }

  std::string make_local(const std::string& name, std::size_t bytes) {
    std::ofstream(local(name), std::ios::binary) << random_text(bytes, 7);
    return local(name);
  }

  std::filesystem::path folder_;
  std::string fs_;
  static inline int next_ = 0;
};

}  // namespace weir::cli::testing
