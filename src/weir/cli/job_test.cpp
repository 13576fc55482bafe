// `weir run` and its parts.  Each job runs in a process of its own, which can be sent signals and be killed.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <weir/base/testing/listening_sockets.h>
#include <weir/cli/internal/job_stage.h>
#include <weir/cli/internal/run_command.h>
#include <weir/cli/internal/run_testing.h>
#include <weir/launch/keeper.h>

namespace weir::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kLongest = std::chrono::seconds(60);  // for what must happen, on a machine as slow as may be

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool comes_true(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// A process that is `weir` with these arguments.
class Weir {
 public:
  Weir(std::vector<std::string> arguments, const fs::path& output)
      : out_(output.string() + ".out"), err_(output.string() + ".err") {
    std::fflush(nullptr);  // or the child writes it, too
    process_ = ::fork();
    if (process_ == 0) become(std::move(arguments));
    ::setpgid(process_, process_);
  }

  void send(int signal) const { ::kill(process_, signal); }
  void send_to_group(int signal) const { ::kill(-process_, signal); }

  [[nodiscard]] pid_t process() const { return process_; }

  /// Its exit code; 1000 + the signal that ended it.
  int wait() {
    int status = 0;
    if (!comes_true([&] { return ::waitpid(process_, &status, WNOHANG) != 0; })) {
      ADD_FAILURE() << "weir did not end; it said: " << err();
      send_to_group(SIGKILL);
      ::waitpid(process_, &status, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  [[nodiscard]] bool is_stopped() const {
    int status = 0;
    return ::waitpid(process_, &status, WNOHANG | WUNTRACED) == process_ && WIFSTOPPED(status);
  }
  [[nodiscard]] std::string out() const { return contents(out_); }
  [[nodiscard]] std::string err() const { return contents(err_); }

 private:
  [[noreturn]] void become(std::vector<std::string> arguments) const {
    ::setpgid(0, 0);
    // Where tests run in the background, shells have them ignore some; and what is ignored, a script cannot trap.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGQUIT}) ::signal(signal, SIG_DFL);
    const auto redirect = [](const fs::path& path, int descriptor) {
      ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), descriptor);
    };
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    redirect(out_, STDOUT_FILENO);
    redirect(err_, STDERR_FILENO);
    std::vector<const char*> argv{"weir"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    const int code = run(static_cast<int>(argv.size()), argv.data(), std::cin, std::cout, std::cerr);
    std::cout.flush();
    std::cerr.flush();
    ::_exit(code);
  }

  pid_t process_ = -1;
  fs::path out_;
  fs::path err_;
};

class JobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("weir-job-test-" + std::to_string(::getpid()));
    fs::create_directories(folder_ / "jobs");
    ::setenv("WEIR_JOB_DIR", (folder_ / "jobs").c_str(), 1);
    ::unsetenv("SLURM_JOB_ID");
  }
  void TearDown() override {
    EXPECT_TRUE(fs::is_empty(folder_ / "jobs")) << "a job left its folder behind";
    ::unsetenv("WEIR_JOB_DIR");
    ::unsetenv("WEIR_LIBRARY_DIR");
    fs::remove_all(folder_);
  }

  [[nodiscard]] std::string local(const std::string& name) const { return (folder_ / name).string(); }

  std::string make(const std::string& name, std::size_t bytes) {
    std::mt19937 random(static_cast<unsigned>(bytes));
    std::string text(bytes, '\0');
    for (char& c : text) c = static_cast<char>(random());
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(local(name), std::ios::binary) << text;
    return local(name);
  }

  std::string make_script(const std::string& name, const std::string& text) {
    std::ofstream(local(name)) << "#!/bin/sh\n" << text << '\n';
    fs::permissions(local(name), fs::perms::owner_all);
    return local(name);
  }

  /// weir run OPTIONS --mpi none -- COMMAND
  Weir start(std::vector<std::string> options, const std::vector<std::string>& command,
             const std::string& name = "job") {
    std::vector<std::string> words{"run", "--capacity", "64M", "--mpi", "none"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return {words, folder_ / name};
  }
  Weir start_shell(const std::string& script, std::vector<std::string> options = {}) {
    return start(std::move(options), {"sh", "-c", script});
  }
  /// A job that waits until it is ended; `server`: its first one.
  Weir start_waiting(launch::Process& server) {
    Weir job =
        start_shell("cp $WEIR_FS.servers " + local("servers") + "; touch " + local("ready") + "; exec sleep 1000");
    EXPECT_TRUE(comes_true([&] { return fs::exists(local("ready")); }));
    std::ifstream(local("servers")) >> server.number >> server.started;
    return job;
  }
  int code_of(const std::string& script) { return start_shell(script).wait(); }
  /// A job that leaves the name of its connection file and ends when `go` is there.
  Weir start_open(std::vector<std::string> options, const std::string& before = ":") {
    Weir job = start_shell(before + "\necho $WEIR_FS > " + local("part") + "; mv " + local("part") + " " + local("fs") +
                               "; while ! test -e " + local("go") + "; do sleep 0.02; done",
                           std::move(options));
    EXPECT_TRUE(comes_true([&] { return fs::exists(local("fs")); })) << job.err();
    std::ifstream(local("fs")) >> connection_;
    return job;
  }
  /// What it said on standard error.
  static std::string run_to_end(Weir job) {
    EXPECT_EQ(job.wait(), 0) << job.err();
    return job.err();
  }
  void let_go() const { std::ofstream(local("go")) << "go"; }
  void put(const std::string& file, const std::string& name) const {
    const testing::Outcome outcome = testing::weir({"put", file, name, "--fs", connection_});
    EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  }

  fs::path folder_;
  std::string connection_;
};

// What a rank of a program would write: in a shell, to the traces of the job.
constexpr char kTraceHead[] =
    "printf 'weir-trace\\tversion=1\\thost=h\\trank=%s\\tranks=2\\tmpi=mpich\\tat=%s\\n' $R $(date +%s%N) > "
    "$WEIR_TRACE/h.$R.trace; ";
std::string trace_line(const std::string& line) { return "printf '" + line + "\\n' >> $WEIR_TRACE/h.$R.trace; "; }

// ---- commands ------------------------------------------------------------------------------------------------------

TEST_F(JobTest, HasTheExitCodeOfTheCommand) {
  EXPECT_EQ(code_of("exit 0"), 0);
  EXPECT_EQ(code_of("exit 7"), 7);
  EXPECT_EQ(code_of("kill -9 $$"), 128 + 9);
}

TEST_F(JobTest, TakesTheCommandAsItIs) {
  Weir job = start({}, {"printf", "%s\n", "--servers", "up", "[1,2]", "", "--", "-x"});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.out(), "--servers\nup\n[1,2]\n\n--\n-x\n");
  Weir without({"run", "true"}, folder_ / "job");
  EXPECT_EQ(without.wait(), kExitBad);
}

TEST_F(JobTest, SetsTheEnvironment) {
  Weir job = start_shell("echo $WEIR_LAYOUT; echo $LD_PRELOAD; stat -c %a $(dirname $WEIR_FS); test -r $WEIR_FS",
                         {"--layout", "stripe( unit=4K, over=2 )", "--servers", "2"});
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_EQ(job.out(), "stripe(unit=4K, over=2)\n\n700\n");
}

TEST_F(JobTest, SaysThatThereIsNoSuchCommand) {
  Weir job = start({}, {"no-such-command-here"});
  EXPECT_EQ(job.wait(), 127);
  EXPECT_THAT(job.err(), HasSubstr("no-such-command-here: command not found"));
  EXPECT_EQ(start({}, {make("no-program", 10)}).wait(), 126);
  EXPECT_EQ(start({}, {make_script("no-interpreter", "") + "/x"}).wait(), 127);
}

TEST_F(JobTest, ReportsAlsoWhatFailedAndDidNoMpiIo) {
  Weir job = start_shell("test -d $WEIR_TRACE && exit 5", {"--report", local("report.html")});
  EXPECT_EQ(job.wait(), 5) << job.err();
  const std::string page = contents(local("report.html"));
  EXPECT_THAT(page, HasSubstr("No file of Weir was opened by MPI-IO"));
  EXPECT_THAT(page, HasSubstr("<b>5</b><span>exit code</span>"));
  EXPECT_THAT(page, HasSubstr("test -d $WEIR_TRACE &amp;&amp; exit 5"));
}

TEST_F(JobTest, RefusesBadArgumentsBeforeAnythingRuns) {
  const std::string file = make("file", 10);
  const std::vector<std::vector<std::string>> bad{{"--servers", "0"},
                                                  {"--store", "tape"},
                                                  {"--layout", "stripe(unit"},
                                                  {"--timeout", "soon"},
                                                  {"--timeout", "-1"},
                                                  {"--stage-in", local("missing")},
                                                  {"--stage-in", file + ":"},
                                                  {"--stage-out", "/a:" + local("no/folder/a")},
                                                  {"--mpi", "lam"},
                                                  {"--report", local("no/folder/report.html")},
                                                  {"--no-such-option"}};
  for (const auto& options : bad) {
    Weir job = start(options, {"touch", local("ran")});
    EXPECT_EQ(job.wait(), kExitBad) << options.front();
    EXPECT_THAT(job.err(), HasSubstr("weir run: ")) << options.front();
  }
  EXPECT_FALSE(fs::exists(local("ran")));
  EXPECT_EQ(Weir({"run", "--servers", "1"}, folder_ / "job").wait(), kExitBad);
}

TEST_F(JobTest, EndsWhatTheCommandLeftRunning) {
  Weir job = start_shell("setsid sleep 1000 & echo $!");
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_FALSE(launch::Process::find(std::stoll(job.out())).started != 0);
}

// ---- staging -------------------------------------------------------------------------------------------------------

TEST_F(JobTest, StagesTheSameBytes) {
  const std::string file = make("file", 9'000'001);
  make("tree/a", 100);
  make("tree/deep/b", 5'000'000);
  fs::create_directory(folder_ / "out");
  Weir job = start({"--servers", "2", "--layout", "stripe(unit=64K, over=2)", "--stage-in", file, "--stage-in",
                    local("tree") + ":weir:/in/tree", "--stage-out", "weir:/file:" + local("copy"), "--stage-out",
                    "/in/tree/a:" + local("out"), "--stage-out", "/in/tree:" + local("copies")},
                   {"true"});
  ASSERT_EQ(job.wait(), 0) << job.err();
  EXPECT_TRUE(contents(file) == contents(local("copy")));
  EXPECT_EQ(contents(local("tree/a")), contents(local("out/a")));
  EXPECT_EQ(contents(local("tree/a")), contents(local("copies/a")));
  EXPECT_TRUE(contents(local("tree/deep/b")) == contents(local("copies/deep/b")));
}

TEST_F(JobTest, StagesOutAfterAFailureToo) {
  const std::string file = make("file", 1000);
  Weir job = start_shell("exit 3", {"--stage-in", file, "--stage-out", "/never-made:" + local("x"), "--stage-out",
                                    "/file:" + local("copy")});
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(contents(local("copy")), contents(file));
  EXPECT_THAT(job.err(), HasSubstr("not staged out: --stage-out /"));
}

TEST_F(JobTest, AMissingResultIsAnError) {
  Weir job = start_shell("true", {"--stage-out", "/never-made:" + local("x")});
  EXPECT_EQ(job.wait(), kExitBad);
  EXPECT_THAT(job.err(), HasSubstr("/never-made"));
}

TEST_F(JobTest, TellsWhatIsGoneWithTheMemory) {
  const std::string input = make("input", 1000);
  const std::string file = make("file", std::size_t{3} << 20);
  Weir job = start_open({"--stage-in", input, "--stage-out", "/kept:" + local("kept")});
  put(file, "/kept");
  put(file, "/a");
  put(input, "/b");
  let_go();
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("2 files, 3.00 MiB, existed in memory only and are gone; --stage-out keeps them"));
}

TEST_F(JobTest, InputsAndWhatIsKeptAreNotGone) {
  const std::string input = make("input", 1000);
  EXPECT_THAT(run_to_end(start({"--stage-in", input}, {"true"})), Not(HasSubstr("gone")));
  EXPECT_THAT(run_to_end(start({"--stage-in", input, "--stage-out", "all:" + local("all")}, {"true"})),
              Not(HasSubstr("gone")));
  EXPECT_FALSE(fs::exists(local("all/input"))) << "an input that did not change needs no copy";
  EXPECT_THAT(run_to_end(start({"--stage-in", input, "--store", "disk:" + local("disk")}, {"true"})),
              Not(HasSubstr("gone")));
}

TEST_F(JobTest, AnInputThatWasOpenedForWritingIsGoneToo) {
  const std::string script =
      "R=0; " + std::string(kTraceHead) + trace_line("open\\tfile=0\\tpath=/input\\twrite=1\\tranks=1");
  EXPECT_THAT(run_to_end(start_shell(script, {"--stage-in", make("input", 1000)})),
              HasSubstr("1 file, 1000 B, existed"));
}

TEST_F(JobTest, StagesOutByPatternAndAll) {
  const std::string file = make("file", 100'000);
  Weir job = start_open({"--stage-out", "/run/*/x.dat:" + local("some/"), "--stage-out", "all:" + local("all")});
  const auto make_directory = [&](const std::string& name) {
    EXPECT_EQ(testing::weir({"mkdir", name, "--fs", connection_}).code, kExitOk);
  };
  for (const char* const folder : {"/run", "/run/1", "/run/2", "/empty"}) make_directory(folder);
  for (const char* const name : {"/run/1/x.dat", "/run/2/x.dat", "/run/2/y.dat", "/z"}) put(file, name);
  let_go();
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_TRUE(contents(local("some/1/x.dat")) == contents(file));
  EXPECT_TRUE(fs::exists(local("some/2/x.dat")));
  EXPECT_FALSE(fs::exists(local("some/2/y.dat")));
  EXPECT_FALSE(fs::exists(local("some/z")));
  EXPECT_TRUE(contents(local("all/run/2/y.dat")) == contents(file));
  EXPECT_TRUE(fs::exists(local("all/z")));
  EXPECT_TRUE(fs::is_directory(local("all/empty")));
}

TEST_F(JobTest, OneFileThatCannotBeStagedOutIsNoReasonToLoseTheOthers) {
  const std::string file = make("file", 1000);
  make("all/d", 1);  // where a folder should be
  Weir job = start_open({"--stage-out", "all:" + local("all")});
  EXPECT_EQ(testing::weir({"mkdir", "/d", "--fs", connection_}).code, kExitOk);
  put(file, "/d/a");
  put(file, "/z");
  let_go();
  EXPECT_EQ(job.wait(), kExitBad);
  EXPECT_THAT(job.err(), HasSubstr("--stage-out all: /d"));
  EXPECT_THAT(job.err(), HasSubstr("not staged out: /d/a: cannot make"));
  EXPECT_TRUE(contents(local("all/z")) == contents(file));
}

TEST_F(JobTest, APatternThatMatchesNothingIsAnErrorAndAllIsNot) {
  Weir job = start_shell("true", {"--stage-out", "/x*:" + local("x")});
  EXPECT_EQ(job.wait(), kExitBad);
  EXPECT_THAT(job.err(), HasSubstr("no file matches /x*"));
  EXPECT_EQ(start_shell("true", {"--stage-out", "all:" + local("x")}).wait(), 0);
}

// ---- draining

TEST_F(JobTest, DrainCopiesWhatIsClosedAndAgainWhenItChanges) {
  const std::string first = make("first", 5'000'000);
  const std::string second = make("second", 5'000'001);
  const std::string opened = trace_line("open\\tfile=0\\tpath=/out\\twrite=1\\tranks=2");
  // Two ranks; the file is closed when both have closed it.
  const std::string before = "R=1; " + std::string(kTraceHead) + opened + "R=0; " + kTraceHead + opened;
  Weir job = start_open({"--stage-out", "/out:" + local("copy"), "--drain"}, before);
  put(first, "/out");
  const auto trace = [&](int rank, const std::string& line) {
    std::ofstream(fs::path(connection_).parent_path() / "trace" / ("h." + std::to_string(rank) + ".trace"),
                  std::ios::app)
        << line << '\n';
  };
  trace(1, "close\tfile=0");
  EXPECT_FALSE(fs::exists(local("copy")));
  trace(0, "close\tfile=0");
  EXPECT_TRUE(comes_true([&] { return fs::exists(local("copy")); })) << "it is copied while the command runs";
  EXPECT_TRUE(contents(local("copy")) == contents(first));

  trace(0, "open\tfile=1\tpath=/out\twrite=1\tranks=1");
  put(second, "/out");
  trace(0, "close\tfile=1");
  EXPECT_TRUE(comes_true([&] { return fs::file_size(local("copy")) == 5'000'001; })) << "and again";
  EXPECT_TRUE(contents(local("copy")) == contents(second));
  // A copy gets its name by renaming it, so a third one would be another file.
  struct stat drained {};
  ::stat(local("copy").c_str(), &drained);
  let_go();
  EXPECT_EQ(job.wait(), 0) << job.err();
  struct stat last {};
  ::stat(local("copy").c_str(), &last);
  EXPECT_EQ(drained.st_ino, last.st_ino) << "what is there already is not copied in the end";
}

TEST_F(JobTest, WhatIsNotDrainedIsCopiedInTheEnd) {
  const std::string file = make("file", 100'000);
  const std::string opened = trace_line("open\\tfile=0\\tpath=/open\\twrite=1\\tranks=1");
  Weir job = start_open({"--stage-out", "all:" + local("out"), "--drain"}, "R=0; " + std::string(kTraceHead) + opened);
  put(file, "/open");     // by a rank that is killed before it closes the file
  put(file, "/unknown");  // not by MPI-IO
  let_go();
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_TRUE(contents(local("out/open")) == contents(file));
  EXPECT_TRUE(contents(local("out/unknown")) == contents(file));
}

TEST_F(JobTest, DrainNeedsSomethingToCopy) {
  Weir job = start_shell("true", {"--drain"});
  EXPECT_EQ(job.wait(), kExitBad);
  EXPECT_THAT(job.err(), HasSubstr("--stage-out"));
}

// ---- how the I/O went

TEST_F(JobTest, TellsHowTheIoWent) {
  std::string script;
  for (const char* const rank : {"R=0; ", "R=1; "}) {
    script += rank + std::string(kTraceHead) + trace_line("open\\tfile=0\\tpath=/out\\twrite=1\\tranks=2") +
              trace_line("access\\tfile=0\\tcall=writes\\twrite=1\\tcount=4\\tbytes=1048576") +
              trace_line("end\\tio=1000");
  }
  Weir job = start_shell(script);
  EXPECT_EQ(job.wait(), 0) << job.err();
  EXPECT_THAT(job.err(), HasSubstr("weir run: wrote 2 MiB and read 0 B of 1 file at "));  // 2 MiB in 1 us: 2.1 TB/s
  EXPECT_THAT(job.err(), HasSubstr("; no failed calls\n"));
  EXPECT_THAT(run_to_end(start_shell(script, {"--quiet"})), "");
  EXPECT_THAT(run_to_end(start_shell("true")), HasSubstr("no file of Weir (weir:/...) was opened by MPI-IO"));
}

TEST_F(JobTest, FailedCallsAreNeverSilent) {
  std::string script;
  for (const char* const rank : {"R=0; ", "R=1; "}) {
    script +=
        rank + std::string(kTraceHead) +
        trace_line("fail\\tpath=/out\\tcall=MPI_File_close\\tcount=2\\tmessage=MPI_File_close /out: bytes are lost");
  }
  Weir job = start_shell(script, {"--quiet", "--report", local("report.html")});
  EXPECT_EQ(job.wait(), 0) << "what the command made of it counts";
  EXPECT_EQ(job.err(),
            "weir run: 4 I/O calls failed.\nweir run:   /out: MPI_File_close, 4 times on ranks 0,1: bytes are lost\n");
  const std::string page = contents(local("report.html"));
  EXPECT_THAT(page, HasSubstr("4 I/O calls failed."));
  EXPECT_THAT(page, HasSubstr("bytes are lost"));
  EXPECT_THAT(page, HasSubstr("<b>mpich</b><span>MPI</span>"));

  EXPECT_EQ(start_shell(script, {"--fail-on-io-error"}).wait(), kExitBad);
  EXPECT_EQ(start_shell(script + "exit 7", {"--fail-on-io-error"}).wait(), 7);
  EXPECT_EQ(start_shell("true", {"--fail-on-io-error"}).wait(), 0);
}

TEST_F(JobTest, LeavesTracesThatTheUserWants) {
  fs::create_directory(local("traces"));
  ::setenv("WEIR_TRACE", local("traces").c_str(), 1);
  std::ofstream(local("traces/old.trace")) << "weir-trace\tversion=1\tat=1\nfail\tpath=/x\tcall=c\n";
  Weir job = start_shell("R=0; " + std::string(kTraceHead) + "echo \"limit=$WEIR_TRACE_LIMIT\"");
  ::unsetenv("WEIR_TRACE");
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.out(), "limit=\n");
  EXPECT_TRUE(fs::exists(local("traces/h.0.trace")));
  EXPECT_THAT(job.err(), HasSubstr("no failed calls")) << "those of other jobs do not count";
}

TEST_F(JobTest, KeepsADiskStore) {
  const std::string file = make("file", 100'000);
  const std::string store = "disk:" + local("store");
  EXPECT_EQ(start({"--store", store, "--stage-in", file}, {"true"}).wait(), 0);
  EXPECT_EQ(start({"--store", store, "--stage-out", "/file:" + local("copy")}, {"true"}).wait(), 0);
  EXPECT_EQ(contents(local("copy")), contents(file));
}

TEST(StageTest, ReadsBothForms) {
  const auto in = internal::parse_stage_in("some/mesh.dat");
  ASSERT_TRUE(in.is_ok());
  EXPECT_EQ(in->target, "/mesh.dat");
  EXPECT_EQ(internal::parse_stage_in("a:weir:/b")->target, "/b");
  const auto out = internal::parse_stage_out("weir:/x/out.dat:here");
  ASSERT_TRUE(out.is_ok());
  EXPECT_EQ(out->source, "/x/out.dat");
  EXPECT_EQ(out->target, "here");
  EXPECT_EQ(internal::parse_stage_out("x/out.dat")->target, "out.dat");
  EXPECT_FALSE(internal::parse_stage_out("weir:").is_ok());
  EXPECT_EQ(internal::parse_stage_out("all")->target, ".");
  EXPECT_EQ(internal::parse_stage_out("/all")->target, "all");  // a file of that name
  EXPECT_FALSE(internal::parse_stage_in(":x").is_ok());
}

TEST(StageTest, KnowsWhereFilesGo) {
  const auto target = [](const std::string& stage, const std::string& path) {
    return internal::parse_stage_out(stage)->target_of(path).value_or("nowhere");
  };
  EXPECT_EQ(target("/out:x", "/out"), "x");
  EXPECT_EQ(target("/out:x", "/out/a/b"), "x/a/b");
  EXPECT_EQ(target("/out:x", "/output"), "nowhere");
  EXPECT_EQ(target("/:x", "/a/b"), "x/a/b");
  EXPECT_EQ(target("all:x", "/a/b"), "x/a/b");
  EXPECT_EQ(target("all", "/a"), "./a");
  EXPECT_EQ(target("weir:/*.h5:x", "/a.h5"), "x/a.h5");
  EXPECT_EQ(target("/*.h5:x", "/d/a.h5"), "nowhere");  // * is within one part of a name
  EXPECT_EQ(target("/d*:x", "/d1/a/b"), "x/d1/a/b");   // a folder, with all that is in it
  EXPECT_EQ(target("/a/b/s?[0-9]:x", "/a/b/st1"), "x/st1");
  EXPECT_EQ(target("/a/b/s?[0-9]:x", "/a/b/st"), "nowhere");
}

// ---- signals, time, sudden ends --------------------------------------------------------------------------------------

TEST_F(JobTest, ForwardsSignals) {
  const auto before = ::signal(SIGINT, SIG_IGN);  // as where tests run in the background
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGQUIT}) {
    const std::string ready = local("ready-" + std::to_string(signal));
    Weir job = start_shell("trap 'exit 5' INT TERM HUP USR1 QUIT; touch " + ready + "; while :; do sleep 0.02; done");
    ASSERT_TRUE(comes_true([&] { return fs::exists(ready); })) << job.err();
    job.send_to_group(signal);  // as Ctrl-C does
    EXPECT_EQ(job.wait(), 5) << signal;
  }
  ::signal(SIGINT, before);
}

TEST_F(JobTest, StagesOutAfterCtrlC) {
  const std::string file = make("file", 1000);
  Weir job = start_shell("touch " + local("ready") + "; exec sleep 1000",
                         {"--stage-in", file, "--stage-out", "/file:" + local("copy")});
  ASSERT_TRUE(comes_true([&] { return fs::exists(local("ready")); }));
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT);
  EXPECT_EQ(contents(local("copy")), contents(file));
}

TEST_F(JobTest, DrainedJobsEndWithCtrlCAndWithKill) {
  const std::string file = make("file", 1000);
  for (const int signal : {SIGINT, SIGKILL}) {
    const std::string ready = local("ready-" + std::to_string(signal));
    Weir job = start_shell("touch " + ready + "; exec sleep 1000",
                           {"--stage-in", file, "--stage-out", "/file:" + local("copy"), "--drain"});
    ASSERT_TRUE(comes_true([&] { return fs::exists(ready); })) << job.err();
    job.send(signal);
    EXPECT_EQ(job.wait(), signal == SIGINT ? 128 + SIGINT : 1000 + SIGKILL);
    EXPECT_EQ(contents(local("copy")), contents(file));
  }
  EXPECT_TRUE(comes_true([&] { return fs::is_empty(folder_ / "jobs"); }));
}

TEST_F(JobTest, StopsAndContinuesWithItsCommand) {
  // Without starting anything: a child that is stopped before it has become another program keeps a shell that uses
  // vfork() from stopping.
  Weir job = start_shell("touch " + local("ready") + "; while ! test -e " + local("go") + "; do :; done");
  ASSERT_TRUE(comes_true([&] { return fs::exists(local("ready")); }));
  job.send(SIGTSTP);
  ASSERT_TRUE(comes_true([&] { return job.is_stopped(); }));
  std::ofstream(local("go")) << "go";
  job.send(SIGCONT);
  EXPECT_EQ(job.wait(), 0);
}

TEST_F(JobTest, StopsACommandThatTakesTooLong) {
  Weir job = start({"--timeout", "0.2"}, {"sleep", "1000"});
  EXPECT_EQ(job.wait(), internal::kExitLate);
  EXPECT_THAT(job.err(), HasSubstr("--timeout"));
}

TEST_F(JobTest, KilledItLeavesNothing) {
  Weir job =
      start_shell("trap '' TERM; setsid sleep 1000 & cp $WEIR_FS.servers " + local("servers") + "; echo $WEIR_JOB > " +
                      local("part") + "; mv " + local("part") + " " + local("ready") + "; while :; do sleep 0.1; done",
                  {"--servers", "2"});
  ASSERT_TRUE(comes_true([&] { return fs::exists(local("ready")); })) << job.err();
  std::string folder = contents(local("ready"));
  folder.pop_back();
  ASSERT_EQ(launch::find_marked(launch::kJobVariable, folder).empty(), false);
  std::vector<launch::Process> servers;
  std::ifstream list(local("servers"));
  for (launch::Process one; list >> one.number >> one.started;) servers.push_back(one);
  ASSERT_EQ(servers.size(), 2);
  EXPECT_TRUE(servers[0].is_running());

  job.send(SIGKILL);
  EXPECT_EQ(job.wait(), 1000 + SIGKILL);
  EXPECT_TRUE(comes_true([&] { return !fs::exists(folder); }));
  EXPECT_THAT(launch::find_marked(launch::kJobVariable, folder), IsEmpty());
  for (const launch::Process& server : servers) EXPECT_FALSE(server.is_running());
}

// Of its session, so that ranks that yield give way to them; not of its process group, so that Ctrl-C is for the
// program only.
TEST_F(JobTest, ServersAreInTheSessionOfTheProgram) {
  launch::Process server;
  Weir job = start_waiting(server);
  ASSERT_TRUE(server.is_running()) << job.err();
  EXPECT_EQ(::getsid(static_cast<pid_t>(server.number)), ::getsid(0));
  EXPECT_EQ(::getpgid(static_cast<pid_t>(server.number)), server.number);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

TEST_F(JobTest, ServersEndWithTheirKeeper) {
  launch::Process server;
  Weir job = start_waiting(server);
  ASSERT_TRUE(server.is_running()) << job.err();
  // The keeper is the parent of the servers.
  std::ifstream file("/proc/" + std::to_string(server.number) + "/stat");
  std::string skip;
  pid_t keeper = 0;
  file >> skip >> skip >> skip >> keeper;
  ASSERT_GT(keeper, 1);
  ::kill(keeper, SIGKILL);
  EXPECT_TRUE(comes_true([&] { return !server.is_running(); }));
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_THAT(job.err(), HasSubstr("the keeper of the job was killed"));
}

TEST_F(JobTest, NoPortIsOpen) {
  const std::string file = make("file", 1000);
  Weir job = start_open({"--servers", "2"});
  put(file, "/file");
  std::vector<std::int64_t> processes{job.process()};
  std::ifstream list(connection_ + ".servers");
  for (launch::Process server; list >> server.number >> server.started;) processes.push_back(server.number);
  EXPECT_EQ(processes.size(), 3u);
  const std::string folder = fs::path(connection_).parent_path().string();
  for (const launch::Process& one : launch::find_marked(launch::kJobVariable, folder)) {
    processes.push_back(one.number);
  }
  EXPECT_GT(processes.size(), 3u) << "not even the program";
  for (const std::int64_t process : processes) {
    EXPECT_THAT(weir::testing::listening_sockets(process), IsEmpty()) << process;
  }
  let_go();
  EXPECT_EQ(job.wait(), 0) << job.err();
}

TEST_F(JobTest, TwoAtOnceDoNotMeet) {
  const std::string first = make("first", 1001);
  const std::string second = make("second", 1002);
  const std::string script = "while ! test -e " + local("go") + "; do sleep 0.02; done";
  Weir a = start({"--stage-in", first + ":/x", "--stage-out", "/x:" + local("a")}, {"sh", "-c", script}, "a");
  Weir b = start({"--stage-in", second + ":/x", "--stage-out", "/x:" + local("b")}, {"sh", "-c", script}, "b");
  std::ofstream(local("go")) << "go";
  EXPECT_EQ(a.wait(), 0) << a.err();
  EXPECT_EQ(b.wait(), 0) << b.err();
  EXPECT_EQ(contents(local("a")), contents(first));
  EXPECT_EQ(contents(local("b")), contents(second));
}

TEST_F(JobTest, KeepsTheFileSystemIfAsked) {
  const std::string file = make("file", 1000);
  Weir job = start({"--keep", "--stage-in", file}, {"true"});
  ASSERT_EQ(job.wait(), 0) << job.err();
  const std::string out = job.out();
  const std::string before = "weir down --connection ";
  ASSERT_THAT(out, HasSubstr(before));
  const std::size_t at = out.find(before) + before.size();
  const std::string connection = out.substr(at, out.find('\n', at) - at);
  EXPECT_EQ(testing::weir({"cat", "/file", "--fs", connection}).out, contents(file));
  const testing::Outcome down = testing::weir({"down", "--connection", connection});
  EXPECT_EQ(down.code, kExitOk) << down.err;
}

TEST_F(JobTest, ServersShareTheMemory) {
  const std::string connection = local("fs.toml");
  ASSERT_EQ(testing::weir({"up", "--servers", "3", "--connection", connection}).code, kExitOk);
  const auto targets = nlohmann::json::parse(testing::weir({"df", "--json", "--fs", connection}).out);
  EXPECT_EQ(testing::weir({"down", "--connection", connection}).code, kExitOk);
  std::int64_t capacity = 0;
  for (const auto& target : targets) capacity += target["capacity_bytes"].get<std::int64_t>();
  EXPECT_GT(capacity, 0);
  EXPECT_LE(capacity, std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE) / 2);
}

TEST(ParseSecondsTest, TakesUnits) {
  EXPECT_EQ(*internal::parse_seconds("90"), 90);
  EXPECT_EQ(*internal::parse_seconds("1.5m"), 90);
  EXPECT_EQ(*internal::parse_seconds("2h"), 7200);
  for (const char* bad : {"", "m", "-1", "0", "5x", "1e30", "nan"})
    EXPECT_FALSE(internal::parse_seconds(bad).is_ok()) << bad;
}

// ---- which MPI, and what is preloaded where ----------------------------------------------------------------------------

/// Launchers that say what they were started with, on a PATH of the test's.
class LauncherTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    old_path_ = std::getenv("PATH");
    const std::string tell = "echo \"preloaded=$LD_PRELOAD\"; printf '%s\\n' \"$@\"";
    fs::create_directories(folder_ / "bin");
    make_script("bin/orterun", tell);
    make_script("bin/mpiexec.hydra", tell);
    fs::create_symlink("orterun", folder_ / "bin/mpirun");
    fs::create_directories(folder_ / "lib");
    // Empty files: the dynamic linker complains about them, and goes on.
    std::ofstream(local("lib/libweir_mpiio_openmpi.so"));
    std::ofstream(local("lib/libweir_mpiio_mpich.so"));
    std::ofstream(local("lib/libweir_preload.so"));
    ::setenv("PATH", (local("bin") + ":" + old_path_).c_str(), 1);
    ::setenv("WEIR_LIBRARY_DIR", local("lib").c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", old_path_.c_str(), 1);
    JobTest::TearDown();
  }

  std::string old_path_;
};

TEST_F(LauncherTest, TellsLaunchersToPreloadButDoesNotPreloadThem) {
  const auto output = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "--capacity", "64M"});
    Weir job(words, folder_ / "job");
    EXPECT_EQ(job.wait(), 0) << job.err();
    return job.out();
  };
  const std::string preload = local("lib/libweir_preload.so");
  EXPECT_EQ(output({"--", "mpirun", "-n", "2", "x"}),
            "preloaded=\n-x\nLD_PRELOAD=" + preload +
                "\n-x\nWEIR_FS\n-x\nWEIR_JOB\n-x\nWEIR_TRACE\n-x\nWEIR_TRACE_LIMIT\n-n\n2\nx\n");
  EXPECT_EQ(output({"--", "mpiexec.hydra", "-n", "2", "x"}),
            "preloaded=\n-genv\nLD_PRELOAD\n" + preload + "\n-n\n2\nx\n");
  // Only if the user says so, it is the library of one MPI.
  EXPECT_EQ(output({"--mpi", "openmpi", "--", "mpiexec.hydra", "x"}),
            "preloaded=\n-genv\nLD_PRELOAD\n" + local("lib/libweir_mpiio_openmpi.so") + "\nx\n");
}

TEST_F(LauncherTest, SaysWhichLibraryIsMissing) {
  fs::remove(local("lib/libweir_mpiio_mpich.so"));
  Weir job({"run", "--", "mpiexec.hydra", "x"}, folder_ / "job");
  EXPECT_EQ(job.wait(), kExitBad);
  EXPECT_THAT(job.err(), HasSubstr("libweir_mpiio_mpich.so is not there"));
  EXPECT_THAT(job.err(), HasSubstr("WEIR_LIBRARY_DIR"));
}

TEST_F(LauncherTest, EnvPrintsWhatShellsTake) {
  const std::string fs_file = local("fs.toml");
  EXPECT_EQ(testing::weir({"env", "--fs", fs_file}).code, kExitBad);
  const testing::Outcome sh = testing::weir({"env", "--fs", "tcp:127.0.0.1:1"});
  EXPECT_EQ(sh.out,
            "export WEIR_FS='tcp:127.0.0.1:1';\nexport LD_PRELOAD='" + local("lib/libweir_preload.so") + "';\n");
  const testing::Outcome csh = testing::weir({"env", "--fs", "tcp:127.0.0.1:1", "--shell", "csh", "--mpi", "mpich"});
  EXPECT_EQ(csh.out,
            "setenv WEIR_FS 'tcp:127.0.0.1:1';\nsetenv LD_PRELOAD '" + local("lib/libweir_mpiio_mpich.so") + "';\n");
  EXPECT_EQ(testing::weir({"env", "--unset"}).out, "unset WEIR_FS;\nunset LD_PRELOAD;\n");
  EXPECT_EQ(testing::weir({"env", "--unset", "--shell", "fish"}).out, "set -e WEIR_FS;\nset -e LD_PRELOAD;\n");
  EXPECT_THAT(testing::weir({"env", "--list"}).out,
              HasSubstr("WEIR_MPIIO_TIMEOUT      Seconds that a collective call waits for a rank. [60]\n"));
  EXPECT_EQ(testing::weir({"env", "--list", "--unset"}).code, kExitBad);
}

}  // namespace
}  // namespace weir::cli
