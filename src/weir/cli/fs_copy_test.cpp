// weir put, get, cp, cat, as a user types them.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <streambuf>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <weir/base/testing/matchers.h>
#include <weir/cli/internal/copy_ends.h>
#include <weir/cli/internal/copy_tree.h>
#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/fs_testing.h>
#include <weir/cli/internal/interruption.h>
#include <weir/layout/language.h>

namespace weir::cli {
namespace {

using testing::file_contents;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Outcome;
using testing::weir;
using weir::testing::IsOk;

constexpr Offset kHuge = Offset{1} << 43;  // more than any disk that tests run on

/// Text that goes somewhere, and something that happens when the first of it comes.
class WatchedText : public std::stringbuf {
 public:
  explicit WatchedText(std::function<void()> on_first) : on_first_(std::move(on_first)) {}

 protected:
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    if (on_first_) std::exchange(on_first_, nullptr)();
    return std::stringbuf::xsputn(text, count);
  }

 private:
  std::function<void()> on_first_;
};

class CopyCommandsTest : public testing::FileCommandsTest {
 protected:
  std::string make_pipe(const std::string& name) {
    EXPECT_EQ(::mkfifo(local(name).c_str(), 0600), 0);
    return local(name);
  }

  // Interrupted when it first tells how far it is.  (By SIGTERM: where tests run in the background, shells have them
  // ignore SIGINT.)
  Outcome run_interrupted(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--fs", fs_});
    std::vector<const char*> argv{"weir"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    std::istringstream in;
    std::ostringstream out;
    WatchedText text([] { ::kill(::getpid(), SIGTERM); });
    std::ostream err(&text);
    const Terminal terminal{.is_terminal = false, .columns = 80, .is_error_terminal = true};
    const int code = cli::run(static_cast<int>(argv.size()), argv.data(), in, out, err, terminal);
    return {code, out.str(), text.str()};
  }

  client::FileSystem connect() {
    internal::FileSystemOptions options;
    options.file_system = fs_;
    return *internal::connect(options);
  }
};

TEST_P(CopyCommandsTest, PutsAndGetsTheSameBytes) {
  const std::string source = make_local("source", 9'000'001);
  expect_ok({"put", source, "/a", "--verify"});
  expect_ok({"get", "/a", local("copy"), "--verify"});
  EXPECT_EQ(file_contents(source), file_contents(local("copy")));
  EXPECT_EQ(run({"cat", "/a", "--from", "5", "--bytes", "1000"}).out, file_contents(source).substr(5, 1000));
  EXPECT_EQ(run({"cat", "/a", "--from", "9000000", "--bytes", "4T"}).out, file_contents(source).substr(9'000'000));
  EXPECT_THAT(local_parts(), IsEmpty());
}

TEST_P(CopyCommandsTest, PutsByLayoutAndGetsAView) {
  const std::string source = make_local("source", 64 * 64);
  const std::string columns = "hpf(shape=[64,64], dist=(*,BLOCK), grid=[1,4])";
  expect_ok({"put", source, "/m", "--layout", columns});
  expect_ok({"get", "/m", local("column"), "--view", columns, "--element", "1"});
  const std::string all = file_contents(source);
  std::string expected;
  for (std::size_t row = 0; row < 64; ++row) expected += all.substr(row * 64 + 16, 16);
  EXPECT_EQ(file_contents(local("column")), expected);

  // Through a view, the rest of a file stays, also when the bytes come from a stream.
  const Outcome stream = run({"put", "-", "/m", "--view", columns, "--element", "1"}, std::string(1024, 'x'));
  EXPECT_EQ(stream.code, kExitOk) << stream.err;
  std::string changed = all;
  for (std::size_t row = 0; row < 64; ++row) changed.replace(row * 64 + 16, 16, std::string(16, 'x'));
  EXPECT_EQ(run({"cat", "/m"}).out, changed);
}

TEST_P(CopyCommandsTest, AViewNeedsAnElement) {
  expect_ok({"put", make_local("source", 100), "/a"});
  for (std::vector<std::string> words : {std::vector<std::string>{"get", "/a"}, {"cat", "/a"}, {"put", "x", "/a"}}) {
    words.insert(words.end(), {"--view", "stripe(unit=1, over=2)"});
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, kExitBad) << words[0];
    EXPECT_THAT(outcome.err, HasSubstr("--element")) << words[0];
  }
  const Outcome beyond = run({"get", "/a", local("x"), "--view", "stripe(unit=1, over=2)", "--element", "2"});
  EXPECT_EQ(beyond.code, kExitBad);
  EXPECT_FALSE(std::filesystem::exists(local("x")));
}

TEST_P(CopyCommandsTest, PutsWhatHasNoSize) {
  expect_ok({"put", "/proc/version", "/version"});
  EXPECT_EQ(run({"cat", "/version"}).out, file_contents("/proc/version"));
  EXPECT_FALSE(file_contents("/proc/version").empty());

  const std::string pipe = make_pipe("pipe");
  const std::string text = testing::random_text(5'000'001, 3);
  std::jthread writer([&] { std::ofstream(pipe, std::ios::binary) << text; });
  expect_ok({"put", pipe, "/pipe"});
  writer.join();
  EXPECT_TRUE(run({"cat", "/pipe"}).out == text);

  EXPECT_EQ(run({"put", "-", "/stream"}, "from standard input").code, kExitOk);
  EXPECT_EQ(run({"cat", "/stream"}).out, "from standard input");
  EXPECT_EQ(run({"put", "-", "/"}, "x").code, kExitBad);  // without a name
  EXPECT_EQ(run({"ls"}).out, "pipe\nstream\nversion\n");
}

TEST_P(CopyCommandsTest, GetsToStandardOutputAndIntoPipes) {
  const std::string source = make_local("source", 5'000'001);
  expect_ok({"put", source, "/a"});
  const Outcome outcome = run({"get", "/a", "-"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_TRUE(outcome.out == file_contents(source));
  EXPECT_EQ(run({"get", "/a", "-", "--json"}).code, kExitBad);
  EXPECT_EQ(run({"get", "/a", "-", "--verify"}).code, kExitBad);

  // What is there and is not a file is written to, not replaced: /dev/null stays a device.
  const std::string pipe = make_pipe("pipe");
  std::string read;
  std::jthread reader([&] { read = file_contents(pipe); });
  expect_ok({"get", "/a", pipe});
  reader.join();
  EXPECT_TRUE(read == file_contents(source));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));

  std::filesystem::create_symlink("target", local("link"));
  std::ofstream(local("target")) << "old";
  std::filesystem::permissions(local("target"),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  expect_ok({"get", "/a", local("link")});
  EXPECT_TRUE(std::filesystem::is_symlink(local("link")));
  EXPECT_TRUE(file_contents(local("target")) == file_contents(source));
  EXPECT_EQ(std::filesystem::status(local("target")).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_P(CopyCommandsTest, InterruptedCopiesLeaveNothing) {
  // A pipe whose writer has more to say, some day.
  const std::string pipe = make_pipe("pipe");
  make_pipe("released");
  std::jthread writer([&] {
    const Descriptor end(::open(pipe.c_str(), O_WRONLY));
    ASSERT_EQ(::write(end.get(), "some", 4), 4);
    ::kill(::getpid(), SIGTERM);
    char none = 0;
    const Descriptor never(::open(local("released").c_str(), O_RDONLY));
    static_cast<void>(!::read(never.get(), &none, 1));
  });
  const Outcome stream = run({"put", pipe, "/pipe"});
  { const Descriptor release(::open(local("released").c_str(), O_WRONLY)); }
  writer.join();
  EXPECT_EQ(stream.code, internal::kExitInterrupted) << stream.err;
  EXPECT_THAT(stream.err, HasSubstr("interrupted"));

  const std::string source = make_local("source", 24'000'000);
  const Outcome put = run_interrupted({"put", source, "/put", "--jobs", "1"});
  EXPECT_EQ(put.code, internal::kExitInterrupted) << put.err;
  EXPECT_EQ(run({"ls"}).out, "");

  expect_ok({"put", source, "/a", "--quiet"});
  const Outcome get = run_interrupted({"get", "/a", local("get"), "--jobs", "1"});
  EXPECT_EQ(get.code, internal::kExitInterrupted) << get.err;
  EXPECT_FALSE(std::filesystem::exists(local("get")));
  EXPECT_THAT(local_parts(), IsEmpty());
  EXPECT_EQ(run_interrupted({"cp", "/a", "/b", "--jobs", "1"}).code, internal::kExitInterrupted);
  EXPECT_EQ(run({"ls"}).out, "a\n");
}

TEST_P(CopyCommandsTest, GoesOnWithAnInterruptedCopyIfAsked) {
  const std::string source = make_local("source", 24'000'000);
  const client::FileSystem fs = connect();
  // A part that a copy by one job left after 20 MiB.  What it has is told apart from the source, to see that it is
  // used.
  constexpr Offset kGood = Offset{12} << 20;  // the last window is copied again
  const std::vector<std::byte> part(std::size_t{20} << 20, std::byte{'x'});
  {
    const auto local_end = internal::open_local_source(source);
    ASSERT_THAT(local_end, IsOk());
    internal::WeirSinkOptions how{*layout::parse("stripe(unit=1M, over=2)"), std::nullopt, 0644, true,
                                  (*local_end)->identity()};
    const auto sink = internal::make_weir_sink(fs, "/a", how);
    ASSERT_THAT(sink, IsOk());
    ASSERT_THAT((*sink)->write(0, part), IsOk());
  }
  EXPECT_THAT(run({"ls"}).out, HasSubstr(".weir-part-"));
  const Outcome outcome = run({"put", source, "/a", "--jobs", "1", "--resume"});
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_THAT(outcome.err, HasSubstr(concat("going on at byte ", kGood, " of 24000000")));
  const std::string expected = std::string(kGood, 'x') + file_contents(source).substr(kGood);
  EXPECT_TRUE(run({"cat", "/a"}).out == expected);
  EXPECT_EQ(run({"ls"}).out, "a\n");

  // Out of the file system.
  {
    const auto weir_end = internal::open_weir_source(fs, "/a", std::nullopt);
    ASSERT_THAT(weir_end, IsOk());
    const auto sink = internal::make_local_sink(local("copy"), {true, (*weir_end)->identity()});
    ASSERT_THAT(sink, IsOk());
    ASSERT_THAT((*sink)->write(0, std::vector<std::byte>(part.size(), std::byte{'y'})), IsOk());
  }
  // Without --resume it is a copy like any other, beside what was left.
  expect_ok({"get", "/a", local("other"), "--jobs", "1"});
  EXPECT_TRUE(file_contents(local("other")) == expected);
  EXPECT_THAT(run({"get", "/a", local("copy"), "--jobs", "1", "--resume"}).err, HasSubstr("going on at byte"));
  EXPECT_TRUE(file_contents(local("copy")) == std::string(kGood, 'y') + expected.substr(kGood));
  EXPECT_THAT(local_parts(), IsEmpty());
}

TEST_P(CopyCommandsTest, ChecksRoomBeforeCopying) {
  const std::string source = make_local("source", 1);
  std::filesystem::resize_file(source, static_cast<std::uintmax_t>(kHuge));
  const Outcome put = run({"put", source, "/big"});
  EXPECT_EQ(put.code, kExitBad);
  EXPECT_THAT(put.err, HasSubstr("no space for /big: "));
  EXPECT_THAT(put.err, HasSubstr(".0 TiB are needed, "));
  std::filesystem::create_directory(local("tree"));
  std::filesystem::rename(source, local("tree/big"));
  EXPECT_THAT(run({"put", "-r", local("tree"), "/tree"}).err, HasSubstr("no space for /tree: "));
  EXPECT_EQ(run({"ls"}).out, "");

  {
    const client::FileSystem fs = connect();
    const auto file = fs.create("/big", *layout::parse("stripe(unit=1M, over=2)"));
    ASSERT_THAT(file, IsOk());
    ASSERT_THAT(file->truncate(kHuge), IsOk());
  }
  EXPECT_THAT(run({"get", "/big", local("big")}).err, HasSubstr("are free on its disk"));
  EXPECT_THAT(run({"cp", "/big", "/copy"}).err, HasSubstr("no space for /copy"));
  EXPECT_THAT(local_parts(), IsEmpty());
  EXPECT_EQ(run({"ls"}).out, "big\n");
}

TEST_P(CopyCommandsTest, FailedCopiesLeaveNothing) {
  expect_ok({"put", make_local("source", 100), "/a"});
  EXPECT_EQ(run({"get", "/a", local("missing/copy")}).code, kExitBad);
  EXPECT_EQ(run({"get", "/missing", local("copy")}).code, kExitBad);
  EXPECT_EQ(run({"put", local("missing"), "/b"}).code, kExitBad);
  EXPECT_EQ(run({"put", local("source"), "/missing/b"}).code, kExitBad);
  EXPECT_THAT(run({"put", local("source"), "/missing/"}).err, HasSubstr("mkdir"));
  EXPECT_THAT(run({"put", folder_.string(), "/b"}).err, HasSubstr("add -r"));
  EXPECT_THAT(run({"get", "/"}).err, HasSubstr("add -r"));
  // A directory has the name of the copy already.
  std::filesystem::create_directories(local("folder/a"));
  EXPECT_THAT(run({"get", "/a", local("folder")}).err, HasSubstr("Is a directory"));
  expect_ok({"mkdir", "-p", "/folder/source/x"});
  EXPECT_EQ(run({"put", "-", "/folder/source"}, "x").code, kExitBad);
  EXPECT_THAT(local_parts(), IsEmpty());
  EXPECT_EQ(run({"ls", "-R"}).out, "/:\na\nfolder/\n\n/folder:\nsource/\n\n/folder/source:\nx/\n\n/folder/source/x:\n");
}

TEST_P(CopyCommandsTest, CopiesTrees) {
  std::filesystem::create_directories(local("tree/a/b"));
  std::filesystem::create_directories(local("tree/empty"));
  make_local("tree/one", 1000);
  make_local("tree/a/b/two", 5'000'000);
  std::ofstream(local("tree/a/with\nline")) << "text";
  std::filesystem::create_symlink("one", local("tree/link"));
  EXPECT_THAT(run({"put", "-r", local("tree"), "/tree"}).err, HasSubstr("weir put: 4 files, 4.8 MiB in "));
  EXPECT_EQ(run({"ls", "-R", "/tree"}).out,
            "/tree:\na/\nempty/\nlink\none\n\n/tree/a:\nb/\n$'with\\nline'\n\n/tree/a/b:\ntwo\n\n/tree/empty:\n");
  const auto sum = nlohmann::json::parse(run({"cp", "-r", "/tree", "/copy", "--json"}).out);
  EXPECT_EQ(sum["files"], 4);
  EXPECT_EQ(sum["bytes"], 5'002'004);
  expect_ok({"get", "-r", "/copy", local("back")});
  EXPECT_EQ(file_contents(local("back/one")), file_contents(local("tree/one")));
  EXPECT_EQ(file_contents(local("back/link")), file_contents(local("tree/one")));
  EXPECT_TRUE(file_contents(local("back/a/b/two")) == file_contents(local("tree/a/b/two")));
  EXPECT_EQ(file_contents(local("back/a/with\nline")), "text");
  EXPECT_TRUE(std::filesystem::is_directory(local("back/empty")));
  // Into a directory that is there, under its own name.
  expect_ok({"put", "-r", local("tree/a/"), "/copy/empty"});
  EXPECT_EQ(run({"ls", "/copy/empty"}).out, "a/\n");
  expect_ok({"get", "-r", "/copy/a", local("back/empty")});
  EXPECT_TRUE(std::filesystem::exists(local("back/empty/a/b/two")));
  EXPECT_THAT(local_parts(), IsEmpty());
}

TEST_P(CopyCommandsTest, TellsWhatATreeLeftOut) {
  std::filesystem::create_directories(local("tree/folder"));
  make_local("tree/one", 10);
  make_pipe("tree/pipe");
  std::filesystem::create_symlink("..", local("tree/folder/loop"));
  std::filesystem::create_symlink("nothing", local("tree/dangling"));
  const Outcome outcome = run({"put", "-r", local("tree"), "/tree"});
  EXPECT_EQ(outcome.code, kExitNo);
  EXPECT_THAT(outcome.err, HasSubstr("tree/pipe: neither a file nor a folder"));
  EXPECT_THAT(outcome.err, HasSubstr("tree/folder/loop: a link to a folder"));
  EXPECT_THAT(outcome.err, HasSubstr("tree/dangling: a link to nothing"));
  EXPECT_EQ(run({"ls", "-R", "/tree"}).out, "/tree:\nfolder/\none\n\n/tree/folder:\n");

  // One that fails does not end the others.
  make_local("tree/two", 10);
  std::filesystem::remove(local("tree/pipe"));
  expect_ok({"rm", "/tree/one"});
  expect_ok({"mkdir", "/tree/one"});
  expect_ok({"put", local("tree/two"), "/tree/one/inside", "--quiet"});
  const Outcome again = run({"put", "-r", local("tree"), "/"});
  EXPECT_EQ(again.code, kExitBad);
  EXPECT_THAT(again.err, HasSubstr("/tree/one"));
  EXPECT_EQ(run({"ls", "/tree"}).out, "folder/\none/\ntwo\n");
}

TEST_P(CopyCommandsTest, CopiesWithinKeepLayoutAndMode) {
  const std::string source = make_local("source", 100'000);
  expect_ok({"put", source, "/a", "--layout", "stripe(unit=7, over=3)"});
  ASSERT_THAT(connect().set_mode("/a", 0600), IsOk());
  expect_ok({"cp", "/a", "/b", "--verify"});
  const auto copy = nlohmann::json::parse(run({"stat", "/b", "--json"}).out);
  EXPECT_EQ(copy["layout"], "stripe(unit=7, over=3)");
  EXPECT_EQ(copy["mode"], 0600);
  EXPECT_EQ(run({"cat", "/b"}).out, file_contents(source));
  expect_ok({"cp", "/a", "/b", "--layout", "stripe(unit=1K, over=2)"});
  EXPECT_EQ(nlohmann::json::parse(run({"stat", "/b", "--json"}).out)["layout"], "stripe(unit=1K, over=2)");
  expect_ok({"mkdir", "/x"});
  expect_ok({"cp", "/a", "/x"});
  EXPECT_EQ(run({"cat", "/x/a"}).out, file_contents(source));
  EXPECT_THAT(run({"cp", "/a", "/a"}).err, HasSubstr("to itself"));
  EXPECT_THAT(run({"cp", "/x", "/y"}).err, HasSubstr("add -r"));
  EXPECT_THAT(run({"cp", "-r", "/x", "/x/y"}).err, HasSubstr("into itself"));
  EXPECT_THAT(run({"cp", "-r", "/", "/y"}).err, HasSubstr("into itself"));
  EXPECT_EQ(run({"ls", "-R"}).out, "/:\na\nb\nx/\n\n/x:\na\n");
}

TEST_P(CopyCommandsTest, TellsWhatWasCopied) {
  const std::string source = make_local("source", 5'000'000);
  EXPECT_THAT(run({"put", source, "/a"}).err, HasSubstr("weir put: 1 file, 4.8 MiB in "));
  EXPECT_EQ(run({"put", source, "/a", "--quiet"}).err, "");
  const auto sum = nlohmann::json::parse(run({"get", "/a", local("b"), "--json"}).out);
  EXPECT_EQ(sum["bytes"], 5'000'000);
  EXPECT_GT(sum["seconds"], 0);
  // Progress goes to a terminal only; --quiet keeps it away from there too.
  const Terminal terminal{.is_terminal = false, .columns = 80, .is_error_terminal = true};
  EXPECT_THAT(run({"put", source, "/a"}).err, Not(HasSubstr("\r")));
  EXPECT_THAT(weir({"put", source, "/a", "--fs", fs_}, "", terminal).err, HasSubstr("100 %"));
  EXPECT_EQ(weir({"put", source, "/a", "--fs", fs_, "-q"}, "", terminal).err, "");
}

// As long as names may be: nothing that is appended to them fits.
TEST_P(CopyCommandsTest, CopiesFilesWithTheLongestNames) {
  const std::string name(255, 'n');
  const std::string source = make_local(name, 100);
  expect_ok({"put", source, "/"});
  std::filesystem::create_directory(local("out"));
  expect_ok({"get", "/" + name, local("out")});
  EXPECT_EQ(file_contents(local("out/" + name)), file_contents(source));
}

INSTANTIATE_TEST_SUITE_P(Stores, CopyCommandsTest, ::testing::Values("memory", "disk"),
                         [](const auto& test) { return test.param; });

TEST(CopyTreeTest, RefusesNamesThatLeadElsewhere) {
  for (const char* name : {"", ".", "..", "../x", "a/b", "/"}) EXPECT_FALSE(internal::is_entry_name(name)) << name;
  EXPECT_FALSE(internal::is_entry_name(std::string("a\0b", 3)));
  for (const char* name : {"a", "...", "a b", "-", "\n"}) EXPECT_TRUE(internal::is_entry_name(name)) << name;
}

TEST(InterruptionTest, NotesTheFirstSignalAndLeavesIgnoredOnesAlone) {
  {
    const internal::InterruptionGuard outer;
    EXPECT_FALSE(internal::InterruptionGuard::is_interrupted());
    {
      const internal::InterruptionGuard inner;
      std::raise(SIGTERM);
    }
    EXPECT_TRUE(internal::InterruptionGuard::is_interrupted());
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    EXPECT_FALSE(internal::InterruptionGuard::wait_readable(ends[0]));  // although nothing will ever come
    ::close(ends[0]);
    ::close(ends[1]);
  }
  EXPECT_FALSE(internal::InterruptionGuard::is_interrupted());
  const auto old = std::signal(SIGHUP, SIG_IGN);
  {
    const internal::InterruptionGuard guard;
    std::raise(SIGHUP);
    EXPECT_FALSE(internal::InterruptionGuard::is_interrupted());
  }
  EXPECT_EQ(std::signal(SIGHUP, old), SIG_IGN);
  EXPECT_EXIT(
      {
        const internal::InterruptionGuard guard;
        std::raise(SIGTERM);
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace weir::cli
