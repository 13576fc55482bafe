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

#include <weir/cli/internal/job_child.h>
#include <weir/cli/internal/job_elf.h>
#include <weir/cli/internal/job_keeper.h>
#include <weir/cli/internal/job_mpi.h>
#include <weir/cli/internal/job_stage.h>
#include <weir/cli/internal/run_command.h>
#include <weir/cli/internal/run_testing.h>

namespace weir::cli {
namespace {

namespace fs = std::filesystem;
using internal::Mpi;
using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
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

  /// Its exit code; 1000 + the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
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
  Weir start_waiting(internal::Process& server) {
    Weir job =
        start_shell("cp $WEIR_FS.servers " + local("servers") + "; touch " + local("ready") + "; exec sleep 1000");
    EXPECT_TRUE(comes_true([&] { return fs::exists(local("ready")); }));
    std::ifstream(local("servers")) >> server.number >> server.started;
    return job;
  }
  int code_of(const std::string& script) { return start_shell(script).wait(); }

  fs::path folder_;
};

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
  EXPECT_FALSE(internal::Process::find(std::stoll(job.out())).started != 0);
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
  EXPECT_FALSE(internal::parse_stage_in(":x").is_ok());
}

// ---- signals, time, sudden ends --------------------------------------------------------------------------------------

TEST_F(JobTest, ForwardsSignals) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGQUIT}) {
    const std::string ready = local("ready-" + std::to_string(signal));
    Weir job = start_shell("trap 'exit 5' INT TERM HUP USR1 QUIT; touch " + ready + "; while :; do sleep 0.02; done");
    ASSERT_TRUE(comes_true([&] { return fs::exists(ready); })) << job.err();
    job.send_to_group(signal);  // as Ctrl-C does
    EXPECT_EQ(job.wait(), 5) << signal;
  }
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

TEST_F(JobTest, StopsAndContinuesWithItsCommand) {
  // Without starting anything: a child that is stopped before it has become another program keeps a shell that uses vfork() from stopping.
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
  ASSERT_EQ(internal::find_marked(internal::kJobVariable, folder).empty(), false);
  std::vector<internal::Process> servers;
  std::ifstream list(local("servers"));
  for (internal::Process one; list >> one.number >> one.started;) servers.push_back(one);
  ASSERT_EQ(servers.size(), 2);
  EXPECT_TRUE(servers[0].is_running());

  job.send(SIGKILL);
  EXPECT_EQ(job.wait(), 1000 + SIGKILL);
  EXPECT_TRUE(comes_true([&] { return !fs::exists(folder); }));
  EXPECT_THAT(internal::find_marked(internal::kJobVariable, folder), IsEmpty());
  for (const internal::Process& server : servers) EXPECT_FALSE(server.is_running());
}

// Of its session, so that ranks that yield give way to them; not of its process group, so that Ctrl-C is for the program only.
TEST_F(JobTest, ServersAreInTheSessionOfTheProgram) {
  internal::Process server;
  Weir job = start_waiting(server);
  ASSERT_TRUE(server.is_running()) << job.err();
  EXPECT_EQ(::getsid(static_cast<pid_t>(server.number)), ::getsid(0));
  EXPECT_EQ(::getpgid(static_cast<pid_t>(server.number)), server.number);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

TEST_F(JobTest, ServersEndWithTheirKeeper) {
  internal::Process server;
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

TEST(RunChildTest, KillsWhatDoesNotListen) {
  internal::ChildOptions options;
  options.deadline = std::chrono::steady_clock::now();
  options.grace = std::chrono::milliseconds(50);
  const auto end = internal::run_child(options, [] {
    ::signal(SIGTERM, SIG_IGN);
    for (;;) ::pause();
    return 0;
  });
  ASSERT_TRUE(end.is_ok());
  EXPECT_TRUE(end->is_late);
  EXPECT_THAT(end->code, ::testing::AnyOf(128 + SIGKILL, 128 + SIGTERM));  // the first may come before it is ignored
}

TEST(ParseSecondsTest, TakesUnits) {
  EXPECT_EQ(*internal::parse_seconds("90"), 90);
  EXPECT_EQ(*internal::parse_seconds("1.5m"), 90);
  EXPECT_EQ(*internal::parse_seconds("2h"), 7200);
  for (const char* bad : {"", "m", "-1", "0", "5x", "1e30", "nan"})
    EXPECT_FALSE(internal::parse_seconds(bad).is_ok()) << bad;
}

// ---- which MPI, and what is preloaded where ----------------------------------------------------------------------------

TEST(PreloadTest, ComesLastAndOnce) {
  EXPECT_EQ(internal::with_library("", "/w.so"), "/w.so");
  EXPECT_EQ(internal::with_library("/a.so /b.so", "/w.so"), "/a.so:/b.so:/w.so");
  EXPECT_EQ(internal::with_library("/w.so:/a.so", "/w.so"), "/a.so:/w.so");
  EXPECT_EQ(internal::without_library("/a.so:/w.so", "/w.so"), "/a.so");
}

TEST(NeededLibrariesTest, ReadsProgramsAndNothingElse) {
  EXPECT_THAT(internal::needed_libraries("/proc/self/exe"), Contains("libc.so.6"));
  EXPECT_THAT(internal::needed_libraries("/etc/passwd"), IsEmpty());
  EXPECT_THAT(internal::needed_libraries("/no/such/file"), IsEmpty());
}

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
    ::setenv("PATH", (local("bin") + ":" + old_path_).c_str(), 1);
    ::setenv("WEIR_LIBRARY_DIR", local("lib").c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", old_path_.c_str(), 1);
    JobTest::TearDown();
  }

  std::string old_path_;
};

TEST_F(LauncherTest, KnowsTheMpiByItsLauncher) {
  const auto open = internal::choose_mpi({"mpirun", "-n", "2", "python3", "x.py"});
  EXPECT_EQ(open.mpi, Mpi::kOpenMpi) << open.why;
  EXPECT_TRUE(open.is_certain);
  EXPECT_EQ(internal::choose_mpi({"nice", "mpiexec.hydra", "-n", "2", "x"}).mpi, Mpi::kMpich);
  const auto guessed = internal::choose_mpi({"sh", "job.sh"});
  EXPECT_EQ(guessed.mpi, Mpi::kOpenMpi);
  EXPECT_FALSE(guessed.is_certain);
}

TEST_F(LauncherTest, TellsLaunchersToPreloadButDoesNotPreloadThem) {
  Weir open({"run", "--capacity", "64M", "--", "mpirun", "-n", "2", "x"}, folder_ / "job");
  EXPECT_EQ(open.wait(), 0) << open.err();
  EXPECT_EQ(open.out(), "preloaded=\n-x\nLD_PRELOAD=" + local("lib/libweir_mpiio_openmpi.so") +
                            "\n-x\nWEIR_FS\n-x\nWEIR_JOB\n-n\n2\nx\n");
  Weir mpich({"run", "--capacity", "64M", "--", "mpiexec.hydra", "-n", "2", "x"}, folder_ / "job");
  EXPECT_EQ(mpich.wait(), 0) << mpich.err();
  EXPECT_EQ(mpich.out(), "preloaded=\n-genv\nLD_PRELOAD\n" + local("lib/libweir_mpiio_mpich.so") + "\n-n\n2\nx\n");
}

TEST_F(LauncherTest, OtherCommandsHaveItInTheirEnvironment) {
  const auto launch = internal::prepare({"./program"}, "/w.so", {{"A", "1"}});
  EXPECT_THAT(launch.words, ElementsAre("./program"));
  ASSERT_EQ(launch.environment.size(), 2);
  EXPECT_EQ(launch.environment[1].name, "LD_PRELOAD");
  // One program of several has settings of its own.
  const auto several = internal::prepare({"mpirun", "-n", "1", "x", ":", "-n", "2", "y"}, "/w.so", {});
  EXPECT_THAT(several.words, ElementsAre("mpirun", "-x", "LD_PRELOAD=/w.so", "-n", "1", "x", ":", "-x",
                                         "LD_PRELOAD=/w.so", "-n", "2", "y"));
  // Open MPI refuses -x beside its own way to say the same.
  const auto listed = internal::prepare({"mpirun", "--mca", "mca_base_env_list", "A=1", "x"}, "/w.so", {});
  EXPECT_EQ(listed.words.size(), 5);
  EXPECT_EQ(listed.environment.size(), 1);
}

TEST_F(LauncherTest, SrunIsToldToHandItOn) {
  const auto words = [](const std::vector<std::string>& command) {
    const auto launch = internal::prepare(command, "/w.so", {{"A", "1"}});
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
            "export WEIR_FS='tcp:127.0.0.1:1';\nexport LD_PRELOAD='" + local("lib/libweir_mpiio_openmpi.so") + "';\n");
  const testing::Outcome csh = testing::weir({"env", "--fs", "tcp:127.0.0.1:1", "--shell", "csh", "--mpi", "mpich"});
  EXPECT_EQ(csh.out,
            "setenv WEIR_FS 'tcp:127.0.0.1:1';\nsetenv LD_PRELOAD '" + local("lib/libweir_mpiio_mpich.so") + "';\n");
  EXPECT_EQ(testing::weir({"env", "--unset"}).out, "unset WEIR_FS;\nunset LD_PRELOAD;\n");
  EXPECT_EQ(testing::weir({"env", "--unset", "--shell", "fish"}).out, "set -e WEIR_FS;\nset -e LD_PRELOAD;\n");
}

}  // namespace
}  // namespace weir::cli
