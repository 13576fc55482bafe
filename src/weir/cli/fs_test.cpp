// The commands on files, as a user types them: servers are started as processes of their own, in a directory of the test's.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/parallel_copy.h>
#include <weir/cli/internal/progress.h>
#include <weir/cli/internal/run_testing.h>

namespace weir::cli {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::weir;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string random_text(std::size_t bytes, unsigned seed) {
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
    EXPECT_THAT(outcome.out, HasSubstr("export WEIR_FS=" + fs_));
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

  std::string make_local(const std::string& name, std::size_t bytes) {
    std::ofstream(local(name), std::ios::binary) << random_text(bytes, 7);
    return local(name);
  }

  std::filesystem::path folder_;
  std::string fs_;
  static inline int next_ = 0;
};

TEST_P(FileCommandsTest, PutsAndGetsTheSameBytes) {
  const std::string source = make_local("source", 9'000'001);
  expect_ok({"put", source, "/a", "--verify"});
  expect_ok({"get", "/a", local("copy"), "--verify"});
  EXPECT_EQ(contents(source), contents(local("copy")));
  EXPECT_EQ(run({"cat", "/a", "--from", "5", "--bytes", "1000"}).out, contents(source).substr(5, 1000));
}

TEST_P(FileCommandsTest, PutsByLayoutAndGetsAView) {
  const std::string source = make_local("source", 64 * 64);
  const std::string columns = "hpf(shape=[64,64], dist=(*,BLOCK), grid=[1,4])";
  expect_ok({"put", source, "/m", "--layout", columns});
  expect_ok({"get", "/m", local("column"), "--view", columns, "--element", "1"});
  const std::string all = contents(source);
  std::string expected;
  for (std::size_t row = 0; row < 64; ++row) expected += all.substr(row * 64 + 16, 16);
  EXPECT_EQ(contents(local("column")), expected);
}

TEST_P(FileCommandsTest, GoesOnWithAnInterruptedPut) {
  const std::string source = make_local("source", 150'000'000);
  const std::vector<std::string> put{"put", source, "/big", "--jobs", "1"};
  const auto old = std::signal(SIGINT, SIG_IGN);  // for signals that come before or after the copy
  Outcome outcome;
  for (int wait_ms = 40; wait_ms > 0 && outcome.code != internal::kExitInterrupted; wait_ms /= 2) {
    run({"rm", "-f", "/big"});
    std::jthread interrupt([wait_ms] {
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      ::kill(::getpid(), SIGINT);
    });
    outcome = run(put);
  }
  std::signal(SIGINT, old);
  if (outcome.code != internal::kExitInterrupted) GTEST_SKIP() << "the copy was too fast to be interrupted";
  EXPECT_THAT(outcome.err, HasSubstr("the same command again"));
  EXPECT_EQ(run({"stat", "/big"}).code, kExitBad);
  expect_ok(put);
  expect_ok({"get", "/big", local("copy")});
  EXPECT_TRUE(contents(local("copy")) == contents(source));
  EXPECT_EQ(run({"ls"}).out, "big\n");
}

TEST_P(FileCommandsTest, ManagesNames) {
  expect_ok({"mkdir", "-p", "/x/y"});
  expect_ok({"put", make_local("f", 100), "/x/y"});
  EXPECT_EQ(run({"ls", "/x"}).out, "y/\n");
  EXPECT_EQ(run({"ls", "/x/y"}).out, "f\n");
  EXPECT_THAT(run({"ls", "-l", "/x/y"}).out, HasSubstr(" 100 "));
  expect_ok({"sync"});
  EXPECT_EQ(run({"sync", "/x", "--json"}).out, "{\"path\":\"/x\",\"all\":false,\"files\":1}\n");
  EXPECT_EQ(run({"sync", "/x/y/f", "--json"}).out, "{\"path\":\"/x/y/f\",\"all\":false,\"files\":1}\n");
  EXPECT_THAT(run({"sync", "/x/none"}).err, HasSubstr("/x/none"));
  expect_ok({"mv", "/x/y/f", "/x/g"});
  EXPECT_EQ(run({"ls", "/x"}).out, "g\ny/\n");
  const Outcome refused = run({"rm", "/x"});
  EXPECT_EQ(refused.code, kExitBad);
  EXPECT_THAT(refused.err, HasSubstr("add -r"));
  expect_ok({"rm", "-r", "/x"});
  EXPECT_EQ(run({"ls"}).out, "");
  EXPECT_THAT(run({"stat", "/x"}).err, HasSubstr("/x"));
  expect_ok({"rm", "-f", "/x"});
}

TEST_P(FileCommandsTest, ShowsAndChangesTheLayout) {
  const std::string source = make_local("source", 100'000);
  expect_ok({"put", source, "/a", "--layout", "stripe(unit=1K, over=2)"});
  const auto before = nlohmann::json::parse(run({"stat", "/a", "--json"}).out);
  EXPECT_EQ(before["layout"], "stripe(unit=1K, over=2)");
  EXPECT_EQ(before["size"], 100'000);
  ASSERT_EQ(before["subfiles"].size(), 2);
  const auto servers = nlohmann::json::parse(run({"status", "--json"}).out);
  for (const auto& subfile : before["subfiles"]) {
    const std::string address = servers[subfile["target"].get<std::size_t>()]["address"];
    EXPECT_EQ(subfile["address"], address);
    EXPECT_THAT(run({"stat", "/a"}).out, HasSubstr(address));
  }
  expect_ok({"relayout", "/a", "stripe(unit=7, over=3)"});
  const auto after = nlohmann::json::parse(run({"stat", "/a", "--json"}).out);
  EXPECT_EQ(after["layout"], "stripe(unit=7, over=3)");
  expect_ok({"get", "/a", local("copy")});
  EXPECT_EQ(contents(local("copy")), contents(source));
  const Outcome fsck = run({"fsck", "--data"});
  EXPECT_EQ(fsck.code, kExitOk) << fsck.out << fsck.err;
}

TEST_P(FileCommandsTest, TellsHowItIs) {
  EXPECT_EQ(nlohmann::json::parse(run({"df", "--json"}).out).size(), 2);
  const auto servers = nlohmann::json::parse(run({"status", "--json"}).out);
  ASSERT_EQ(servers.size(), 2);
  EXPECT_TRUE(servers[1]["alive"]);
  const Outcome second = weir({"up", "--connection", fs_});
  EXPECT_EQ(second.code, kExitBad);
  EXPECT_THAT(second.err, HasSubstr("up already"));
}

TEST_P(FileCommandsTest, DownAndUpKeepsWhatADiskHolds) {
  if (GetParam() != "disk") GTEST_SKIP() << "memory does not last";
  const std::string source = make_local("source", 3'000'000);
  expect_ok({"put", source, "/kept"});
  EXPECT_EQ(weir({"down", "--connection", fs_}).code, kExitOk);
  EXPECT_EQ(run({"ls"}).code, kExitBad);
  up();
  expect_ok({"get", "/kept", local("copy")});
  EXPECT_EQ(contents(local("copy")), contents(source));
}

INSTANTIATE_TEST_SUITE_P(Stores, FileCommandsTest, ::testing::Values("memory", "disk"),
                         [](const auto& test) { return test.param; });

TEST(WeirPathTest, TakesSchemesAndRelativeNames) {
  EXPECT_EQ(internal::weir_path("weir:/a/b"), "/a/b");
  EXPECT_EQ(internal::weir_path("a"), "/a");
  EXPECT_EQ(internal::weir_path("/a/"), "/a");
  EXPECT_EQ(internal::weir_path(""), "/");
}

TEST(ProgressTest, FitsTheTerminal) {
  EXPECT_EQ(internal::bytes_text(1536), "1.5 KiB");
  EXPECT_LE(internal::progress_line("name", 512, 1024, 1.0, 80).size(), 80U);
  EXPECT_THAT(internal::progress_line("name", 512, 1024, 1.0, 80), HasSubstr("50 %"));
}

TEST(ParallelCopyTest, CopiesEveryChunkOnce) {
  std::vector<std::atomic<int>> seen(1000);
  internal::CopyOptions options;
  options.chunk_bytes = 7;
  options.jobs = 3;
  const Status status = internal::copy_in_parallel(14, 1000, options, [&](Offset at, std::span<std::byte> buffer) {
    for (std::size_t i = 0; i < buffer.size(); ++i) ++seen[static_cast<std::size_t>(at) + i];
    return Status::ok();
  });
  EXPECT_TRUE(status.is_ok());
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i < 14 ? 0 : 1) << i;
}

TEST(ParallelCopyTest, StaysWithinTheWindow) {
  std::mutex mutex;
  std::set<Offset> done;
  internal::CopyOptions options;
  options.chunk_bytes = 1;
  options.jobs = 4;
  const Status status = internal::copy_in_parallel(0, 500, options, [&](Offset at, std::span<std::byte>) {
    const std::lock_guard lock(mutex);
    for (Offset i = 0; i <= at - options.window_bytes(); ++i) EXPECT_TRUE(done.contains(i)) << i << " before " << at;
    done.insert(at);
    return Status::ok();
  });
  EXPECT_TRUE(status.is_ok());
}

TEST(ParallelCopyTest, StopsAtTheFirstError) {
  std::atomic<int> calls = 0;
  internal::CopyOptions options;
  options.chunk_bytes = 1;
  const Status status = internal::copy_in_parallel(0, 100'000, options, [&](Offset at, std::span<std::byte>) {
    ++calls;
    return at == 10 ? Status(ErrorCode::kIoError, "broken") : Status::ok();
  });
  EXPECT_EQ(status.message(), "broken");
  EXPECT_LT(calls, 100'000);
}

TEST(ParallelCopyTest, StopsAtCtrlC) {
  internal::CopyOptions options;
  options.chunk_bytes = 1;
  const Status status = internal::copy_in_parallel(0, 100'000'000, options, [&](Offset at, std::span<std::byte>) {
    if (at == 100) std::raise(SIGINT);
    return Status::ok();
  });
  EXPECT_EQ(status.message(), internal::kInterrupted);
}

}  // namespace
}  // namespace weir::cli
