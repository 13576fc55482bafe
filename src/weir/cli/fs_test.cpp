// The commands on files, as a user types them: servers are started as processes of their own, in a directory of the
// test's.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <set>

#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/fs_testing.h>
#include <weir/cli/internal/interruption.h>
#include <weir/cli/internal/parallel_copy.h>
#include <weir/cli/internal/printable.h>
#include <weir/cli/internal/progress.h>

namespace weir::cli {
namespace {

using testing::file_contents;
using testing::FileCommandsTest;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::weir;

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

TEST_P(FileCommandsTest, ChangesModesAndOwners) {
  expect_ok({"mkdir", "-p", "/x/y"});
  expect_ok({"put", make_local("f", 10), "/x/y"});
  const auto of = [&](const char* path, const char* what) {
    return nlohmann::json::parse(run({"stat", path, "--json"}).out)[what].get<unsigned>();
  };
  expect_ok({"chmod", "600", "/x/y/f"});
  EXPECT_EQ(of("/x/y/f", "mode"), 0600U);
  expect_ok({"chmod", "-R", "g+rX,o=", "/x"});
  EXPECT_EQ(of("/x/y/f", "mode"), 0640U);
  EXPECT_EQ(of("/x/y", "mode"), 0750U);
  EXPECT_EQ(of("/x", "mode"), 0750U);
  EXPECT_THAT(run({"chmod", "rw", "/x"}).err, HasSubstr("is not a mode"));
  EXPECT_THAT(run({"chmod", "600", "/none"}).err, HasSubstr("/none"));
  const std::string group = std::to_string(of("/x", "gid"));
  expect_ok({"chown", "-R", ":" + group, "/x"});
  EXPECT_THAT(run({"chown", "no such user", "/x"}).err, HasSubstr("no user 'no such user'"));
  EXPECT_THAT(run({"chown", ":", "/x"}).err, HasSubstr("names nobody"));
  if (::geteuid() != 0) return;  // others cannot give files away
  expect_ok({"chown", "-R", "71001:71002", "/x"});
  EXPECT_EQ(of("/x/y/f", "uid"), 71001U);
  EXPECT_EQ(of("/x/y", "gid"), 71002U);
  expect_ok({"chown", "root", "/x"});
  EXPECT_EQ(of("/x", "uid"), 0U);
  EXPECT_EQ(of("/x", "gid"), 71002U);
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
  EXPECT_EQ(file_contents(local("copy")), file_contents(source));
  const Outcome fsck = run({"fsck", "--data"});
  EXPECT_EQ(fsck.code, kExitOk) << fsck.out << fsck.err;
}

TEST_P(FileCommandsTest, TellsHowItIs) {
  const auto servers = nlohmann::json::parse(run({"status", "--json"}).out);
  ASSERT_EQ(servers.size(), 2);
  EXPECT_TRUE(servers[1]["alive"]);
  const Outcome second = weir({"up", "--connection", fs_});
  EXPECT_EQ(second.code, kExitBad);
  EXPECT_THAT(second.err, HasSubstr("up already"));
}

TEST_P(FileCommandsTest, ListsFilesDirectoriesAndTrees) {
  expect_ok({"mkdir", "-p", "/x/y"});
  expect_ok({"put", make_local("f", 100), "/x/y/f", "--quiet"});
  expect_ok({"put", make_local("g", 10), "/g", "--quiet"});
  EXPECT_EQ(run({"ls", "/g"}).out, "/g\n");
  EXPECT_THAT(run({"ls", "-l", "/x/y/f"}).out, HasSubstr(" 100 "));
  EXPECT_EQ(run({"ls", "/g", "/x"}).out, "/g\n\n/x:\ny/\n");
  EXPECT_EQ(run({"ls", "-R"}).out, "/:\ng\nx/\n\n/x:\ny/\n\n/x/y:\nf\n");
  const auto all = nlohmann::json::parse(run({"ls", "-R", "-l", "--json"}).out);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[3]["path"], "/x/y/f");
  EXPECT_EQ(all[3]["size"], 100);
  const Outcome nothing = run({"ls", "/nothing"});
  EXPECT_EQ(nothing.code, kExitBad);
  EXPECT_THAT(nothing.err, HasSubstr("/nothing"));
}

TEST_P(FileCommandsTest, AddsUpSizes) {
  expect_ok({"mkdir", "-p", "/x/y"});
  expect_ok({"put", make_local("f", 1'000'000), "/x/y/f", "--quiet"});
  expect_ok({"put", make_local("g", 10), "/x/g", "--quiet"});
  const auto uses = nlohmann::json::parse(run({"du", "/x", "--json"}).out);
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(uses[0]["path"], "/x/y");
  EXPECT_EQ(uses[1]["path"], "/x");
  EXPECT_EQ(uses[1]["size"], 1'000'010);
  EXPECT_EQ(uses[1]["files"], 2);
  EXPECT_GE(uses[1]["stored_bytes"], 1'000'010);
  EXPECT_EQ(nlohmann::json::parse(run({"du", "-a", "/x", "--json"}).out).size(), 4U);
  EXPECT_EQ(nlohmann::json::parse(run({"du", "-s", "/x", "/x/g", "--json"}).out).size(), 2U);
  EXPECT_THAT(run({"du", "-s", "-b", "/x"}).out, HasSubstr(" 1000010 "));
  EXPECT_THAT(run({"du"}).out, HasSubstr("/x/y\n"));
}

// What others have on the same disk is not counted as used, and the disk counts once, however many servers are on it.
TEST_P(FileCommandsTest, ShowsEachDiskOnce) {
  const bool is_disk = GetParam() == "disk";
  expect_ok({"put", make_local("f", 3'000'000), "/f", "--quiet"});
  const auto disks = nlohmann::json::parse(run({"df", "--json"}).out);
  ASSERT_EQ(disks.size(), is_disk ? 1U : 2U);
  EXPECT_EQ(disks[0]["targets"].size(), is_disk ? 2U : 1U);
  Offset used = 0;
  for (const auto& disk : disks) {
    used += disk["used_bytes"].get<Offset>();
    EXPECT_GT(disk["free_bytes"], 0);
    EXPECT_GE(disk["capacity_bytes"], disk["free_bytes"]);
  }
  EXPECT_GE(used, 3'000'000);
  EXPECT_LT(used, 100'000'000);
  expect_ok({"rm", "/f"});
  Offset after = 0;
  for (const auto& disk : nlohmann::json::parse(run({"df", "--json"}).out)) after += disk["used_bytes"].get<Offset>();
  EXPECT_LE(after, used - 3'000'000);
  EXPECT_THAT(run({"df"}).out, HasSubstr(is_disk ? "0-1 " : "1 "));
}

TEST_P(FileCommandsTest, NamesCannotSpoilTheScreen) {
  const std::string name = "/a b\n\x1b[2Jc";
  expect_ok({"mkdir", name});
  EXPECT_EQ(run({"ls"}).out, "$'a b\\n\\x1b[2Jc'/\n");
  EXPECT_EQ(nlohmann::json::parse(run({"ls", "--json"}).out)[0]["name"], name.substr(1));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"ls", "-R"}, {"stat", name}, {"du"}, {"rm", name}, {"get", name}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ((outcome.out + outcome.err).find('\x1b'), std::string::npos) << words[0];
  }
}

TEST_P(FileCommandsTest, DownAndUpKeepsWhatADiskHolds) {
  if (GetParam() != "disk") GTEST_SKIP() << "memory does not last";
  const std::string source = make_local("source", 3'000'000);
  expect_ok({"put", source, "/kept"});
  EXPECT_EQ(weir({"down", "--connection", fs_}).code, kExitOk);
  EXPECT_EQ(run({"ls"}).code, kExitBad);
  up();
  expect_ok({"get", "/kept", local("copy")});
  EXPECT_EQ(file_contents(local("copy")), file_contents(source));
}

INSTANTIATE_TEST_SUITE_P(Stores, FileCommandsTest, ::testing::Values("memory", "disk"),
                         [](const auto& test) { return test.param; });

TEST(WeirPathTest, TakesSchemesAndRelativeNames) {
  EXPECT_EQ(internal::weir_path("weir:/a/b"), "/a/b");
  EXPECT_EQ(internal::weir_path("a"), "/a");
  EXPECT_EQ(internal::weir_path("/a/"), "/a");
  EXPECT_EQ(internal::weir_path(""), "/");
}

TEST(PrintableTest, ShowsNamesAsShellsReadThem) {
  using internal::printable;
  EXPECT_EQ(printable("a b'c\\d"), "a b'c\\d");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(printable("a\nb'c\\"), "$'a\\nb\\'c\\\\'");
  EXPECT_EQ(printable("\x1b]0;x\x07"), "$'\\x1b]0;x\\x07'");
  EXPECT_EQ(printable("\xff\x7f"), "$'\\xff\\x7f'");
  EXPECT_EQ(printable("\xc2\x9bJ"), "$'\\xc2\\x9bJ'");  // U+009B: the start of an escape sequence in one character
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(internal::printable_message("a\nb\x1b[c"), "a\nb\\x1b[c");
}

TEST(ProgressTest, FitsTheTerminal) {
  EXPECT_EQ(internal::bytes_text(1536), "1.5 KiB");
  EXPECT_LE(internal::progress_line("name", 512, 1024, 1.0, 80).size(), 80U);
  EXPECT_THAT(internal::progress_line("name", 512, 1024, 1.0, 80), HasSubstr("50 %"));
  EXPECT_EQ(internal::progress_line("name", 2048, -1, 2.0, 80), "name 2.0 KiB  1.0 KiB/s");
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
    if (at == 100) std::raise(SIGTERM);
    return Status::ok();
  });
  EXPECT_EQ(status.message(), internal::kInterrupted);
}

}  // namespace
}  // namespace weir::cli
