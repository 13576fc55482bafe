// Servers are killed while a client is at work.  What was synced is there again when they are started again, and
// nothing that was written to memory of a dead server is said to be written.
//
// A server here is this program again, in a process of its own (UCX does not outlive a fork): the environment variable
// kRole makes it one.

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/session.h>
#include <weir/client/testing/cluster.h>
#include <weir/client/testing/trap_buffer.h>
#include <weir/layout/language.h>
#include <weir/server/server.h>

namespace weir::client {
namespace {

using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

using Bytes = std::vector<std::byte>;

// ---------------------------------------------------------------- servers in other processes

constexpr const char* kRole = "WEIR_CLIENT_TEST_SERVER";  // the number of the server
constexpr const char* kStore = "WEIR_CLIENT_TEST_STORE";
constexpr const char* kOthers = "WEIR_CLIENT_TEST_OTHERS";  // addresses of the servers from 1 on, each with a blank
constexpr int kTellFd = 3;                                  // where it tells its address, or what is wrong

net::Key test_key() { return {net::Bytes(32, std::byte{42}), net::Key::Holder::kServers}; }

void tell(const std::string& line) { static_cast<void>(!::write(kTellFd, line.data(), line.size())); }

void serve_until_killed() {
  server::Options options;
  options.index = static_cast<std::uint32_t>(std::strtoul(std::getenv(kRole), nullptr, 10));
  options.key = test_key();
  options.store = std::getenv(kStore);
  options.capacity_bytes = Offset{1} << 30;
  const auto server = server::Server::start(options);
  if (!server.is_ok()) return tell(concat(server.status().message(), "\n"));
  std::vector<net::Address> members{(*server)->address()};
  const std::string others = std::getenv(kOthers);
  for (std::size_t at = 0, end = 0; (end = others.find(' ', at)) != std::string::npos; at = end + 1) {
    members.push_back({others.substr(at, end - at)});
  }
  // Servers from 1 on are not told of others; then they are not complete, and need not be.
  if (options.index == 0) {
    if (const Status status = (*server)->set_members(members); !status.is_ok()) {
      return tell(concat(status.message(), "\n"));
    }
  }
  tell(concat((*server)->address().text, "\n"));
  for (;;) ::pause();
}

/// Before any test: is a server instead, if asked to.
class ServerEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv(kRole) == nullptr) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve_until_killed();
    std::_Exit(1);
  }
};

const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new ServerEnvironment);

class ServerProcess {
 public:
  ServerProcess(int index, const std::string& store, const std::string& others) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setenv(kRole, std::to_string(index).c_str(), 1);
      ::setenv(kStore, store.c_str(), 1);
      ::setenv(kOthers, others.c_str(), 1);
      ::dup2(ends[1], kTellFd);
      ::execl("/proc/self/exe", "client_test", "--gtest_brief=1", nullptr);
      std::_Exit(127);
    }
    ::close(ends[1]);
    std::FILE* told = ::fdopen(ends[0], "r");
    char line[1000] = "";
    if (std::fgets(line, sizeof line, told) == nullptr) std::strcpy(line, "(ended)");
    address_ = {std::string(line, std::strcspn(line, "\n"))};
    std::fclose(told);
    EXPECT_THAT(address_.text, ::testing::StartsWith("tcp:"));
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() { kill(); }

  [[nodiscard]] const net::Address& address() const { return address_; }
  /// When it returns, the process is no more.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  net::Address address_;
};

/// Server 0 is told of the others when it starts, so it is the last to start.
class Servers {
 public:
  Servers(int count, const std::string& store) {
    std::string others;
    for (int i = 1; i < count; ++i) {
      servers_.push_back(std::make_unique<ServerProcess>(i, store, ""));
      others += servers_.back()->address().text + " ";
    }
    servers_.insert(servers_.begin(), std::make_unique<ServerProcess>(0, store, others));
  }
  [[nodiscard]] Result<FileSystem> connect() const {
    ConnectOptions options;
    options.timeout = std::chrono::seconds(60);  // far more than noticing takes, even on a busy machine
    WEIR_TRY(auto session, internal::Session::connect({servers_.front()->address()}, test_key(), options));
    return FileSystem(std::move(session));
  }
  void kill(std::size_t server) { servers_[server]->kill(); }
  void kill_all() {
    for (const auto& server : servers_) server->kill();
  }

 private:
  std::vector<std::unique_ptr<ServerProcess>> servers_;
};

layout::Partition kill_layout_of(const std::string& text) {
  auto partition = layout::parse(text);
  EXPECT_THAT(partition, IsOk());
  return *partition;
}

// ---------------------------------------------------------------- memory of a dead server

struct DirectTest : ::testing::Test {
  // A file on both servers, whose memory is mapped and full: no access needs a message.
  void SetUp() override {
    if (!internal::kCanUseUcx) GTEST_SKIP() << internal::kWhyNoUcx;
    servers = std::make_unique<Servers>(2, "memory");
    auto connected = servers->connect();
    ASSERT_THAT(connected, IsOk());
    fs.emplace(std::move(connected).value());
    auto created = fs->create("/file", kill_layout_of("stripe(unit=64K, over=2)"));
    ASSERT_THAT(created, IsOk());
    file.emplace(std::move(created).value());
    auto made = file->linear();
    ASSERT_THAT(made, IsOk());
    view.emplace(std::move(made).value());
    ASSERT_THAT(view->write(0, bytes), IsOk());
    ASSERT_EQ(view->report().direct_bytes, static_cast<Offset>(bytes.size()));
  }

  const Bytes bytes = Bytes(std::size_t{1} << 20, std::byte{7});
  std::unique_ptr<Servers> servers;
  std::optional<FileSystem> fs;
  std::optional<File> file;
  std::optional<View> view;
};

TEST_F(DirectTest, NothingIsWrittenToADeadServer) {
  servers->kill(1);
  const auto is_named = StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1 at tcp:"));
  EXPECT_THAT(view->write(0, bytes), is_named);
  Bytes back(bytes.size());
  EXPECT_THAT(view->read(0, back), is_named);
  EXPECT_THAT(file->sync(), is_named);
  EXPECT_THAT(file->size(), is_named);
  // What is not on that server is there still.
  EXPECT_THAT(view->write(0, std::span(bytes).first(1 << 16)), IsOk());
  EXPECT_THAT(view->read(0, std::span(back).first(1 << 16)), IsOk());
}

// Each of these is the first to notice.
TEST_F(DirectTest, SyncNotices) {
  servers->kill(1);
  EXPECT_THAT(file->sync(), StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1 at tcp:")));
}

TEST_F(DirectTest, SizeNotices) {
  servers->kill(1);
  EXPECT_THAT(file->size(), StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1 at tcp:")));
}

TEST_F(DirectTest, WritersThatNeverPauseNotice) {
  std::atomic<int> rounds{0};
  std::atomic<bool> is_killed{false};
  std::atomic<bool> was_fooled{false};
  std::vector<Status> ends(3);
  {
    std::vector<std::jthread> writers;
    for (Status& end : ends) {
      writers.emplace_back([&] {
        while (end.is_ok()) {
          const bool is_late = is_killed.load();
          end = view->write(0, std::span(bytes).first(1 << 17));
          if (is_late && end.is_ok()) was_fooled = true;
          if (was_fooled) return;
          ++rounds;
        }
      });
    }
    while (rounds < 100) std::this_thread::yield();
    servers->kill(1);
    is_killed = true;
  }
  EXPECT_FALSE(was_fooled) << "a write that began after the server's death succeeded";
  for (const Status& end : ends) EXPECT_THAT(end, StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1 at tcp:")));
}

// The server is alive when the copy begins, and dead when it ends: only a look at it after the copy tells.
struct KillDuringCopyTest : DirectTest {
  /// `move` accesses the buffer, whose server is killed at the first byte.
  Status move_during_kill(const std::function<Status(const View&, const internal::TrapBuffer&)>& move) {
    const auto made = fs->create("/one", kill_layout_of("stripe(unit=1M, over=1)"), {.targets = {1}});
    EXPECT_THAT(made, IsOk());
    const View one = *made->linear();
    EXPECT_THAT(one.write(0, bytes), IsOk());
    const Offset direct_bytes = one.report().direct_bytes;
    const internal::TrapBuffer buffer;
    std::jthread killer([&] {
      EXPECT_TRUE(internal::TrapBuffer::await_access());
      servers->kill(1);
      internal::TrapBuffer::release();
    });
    Status status = move(one, buffer);
    EXPECT_GT(one.report().direct_bytes, direct_bytes) << "not the way that is to be tested";
    return status;
  }
};

TEST_F(KillDuringCopyTest, BytesThatNobodyHasAreNotSaidToBeWritten) {
  const auto write = [](const View& file_view, const internal::TrapBuffer& to) {
    return file_view.write(0, to.bytes());
  };
  EXPECT_THAT(move_during_kill(write), StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1 at tcp:")));
}

TEST_F(KillDuringCopyTest, BytesThatNobodyHasAreNotSaidToBeRead) {
  const auto read = [](const View& file_view, const internal::TrapBuffer& from) {
    return file_view.read(0, from.bytes());
  };
  EXPECT_THAT(move_during_kill(read), StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1 at tcp:")));
}

// ---------------------------------------------------------------- servers on disk

std::uint64_t choose_seed() {
  if (const char* given = std::getenv("WEIR_TEST_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

// A file consists of units; each time a unit is written it gets the next version, which tells every byte of it.
constexpr Offset kUnitBytes = 10007;  // units lie across stripes and blocks
constexpr int kUnits = 60;
constexpr int kFiles = 3;

std::byte byte_of(int unit, std::uint32_t version, Offset at) {
  if (version == 0) return std::byte{0};
  std::uint64_t mixed =
      (static_cast<std::uint64_t>(unit) << 40) + (std::uint64_t{version} << 16) + static_cast<std::uint64_t>(at);
  mixed *= 0x9E3779B97F4A7C15U;
  return static_cast<std::byte>(mixed >> 56);
}

/// What a client did, and what of it must still be there.
class Load {
 public:
  explicit Load(std::uint64_t seed) : random_(seed) {}

  /// Works until something fails.  \returns how
  Status run(const FileSystem& fs) {
    for (auto& written : is_written_) written.fill(false);
    WEIR_RETURN_IF_ERROR(open(fs));
    for (;;) {
      switch (below(8)) {
        case 0: WEIR_RETURN_IF_ERROR(sync(below(kFiles))); break;
        case 1: WEIR_RETURN_IF_ERROR(make_name(fs)); break;
        case 2: WEIR_RETURN_IF_ERROR(rename(fs)); break;
        case 3: WEIR_RETURN_IF_ERROR(remove(fs)); break;
        default: WEIR_RETURN_IF_ERROR(write(below(kFiles))); break;
      }
      ++steps_;
    }
  }

  void expect_all(const FileSystem& fs) {
    for (int file = 0; file < kFiles && !::testing::Test::HasFatalFailure(); ++file) expect_bytes(fs, file);
    expect_names(fs);
  }
  [[nodiscard]] int syncs() const { return syncs_; }
  [[nodiscard]] int steps() const { return steps_; }

 private:
  int below(int most) { return static_cast<int>(random_() % static_cast<std::uint64_t>(most)); }
  static std::string path_of(int file) { return concat("/file", file); }

  Status open(const FileSystem& fs) {
    files_.clear();
    views_.clear();
    constexpr std::array kLayouts{"stripe(unit=4000, over=3)", "stripe(unit=64K, over=5)",
                                  "hpf(shape=[100,50], elem=8, dist=(CYCLIC(3),BLOCK), grid=[2,2])"};
    for (int file = 0; file < kFiles; ++file) {
      WEIR_TRY(File opened, fs.create(path_of(file), kill_layout_of(kLayouts[static_cast<std::size_t>(file)])));
      WEIR_TRY(View view, opened.linear());
      files_.push_back(std::move(opened));
      views_.push_back(std::move(view));
    }
    return Status::ok();
  }

  Status write(int file) {
    const auto f = static_cast<std::size_t>(file);
    const int from = below(kUnits);
    const int to = std::min(kUnits, from + 1 + below(20));
    Bytes bytes;
    for (int unit = from; unit < to; ++unit) {
      const auto u = static_cast<std::size_t>(unit);
      ++begun_[f][u];
      is_written_[f][u] = true;
      for (Offset i = 0; i < kUnitBytes; ++i) bytes.push_back(byte_of(unit, begun_[f][u], i));
    }
    return views_[f].write(from * kUnitBytes, bytes);
  }

  Status sync(int file) {
    const auto f = static_cast<std::size_t>(file);
    WEIR_RETURN_IF_ERROR(files_[f].sync());
    ++syncs_;
    // Units that only earlier runs wrote may be a mixture that a crash left: they keep their choice of versions.
    for (std::size_t unit = 0; unit < kUnits; ++unit) {
      if (is_written_[f][unit]) synced_[f][unit] = begun_[f][unit];
    }
    return Status::ok();
  }

  // Names: what is under way when the servers die may have happened or not; all before has.
  Status make_name(const FileSystem& fs) {
    const std::string path = concat("/name", ++names_made_);
    unsure_ = {path};
    const Status status = fs.create(path, kill_layout_of("stripe(unit=8, over=1)"), {.exclusive = true}).status();
    if (status.is_ok()) names_.insert(path), unsure_.clear();
    return status;
  }

  Status rename(const FileSystem& fs) {
    if (names_.empty()) return Status::ok();
    const std::string from = *names_.begin();
    const std::string to = concat("/name", ++names_made_);
    names_.erase(from);
    unsure_ = {from, to};
    const Status status = fs.rename(from, to);
    if (status.is_ok()) names_.insert(to), unsure_.clear();
    return status;
  }

  Status remove(const FileSystem& fs) {
    if (names_.size() < 5) return Status::ok();
    const std::string path = *names_.begin();
    names_.erase(path);
    unsure_ = {path};
    const Status status = fs.remove(path);
    if (status.is_ok()) unsure_.clear();
    return status;
  }

  void expect_bytes(const FileSystem& fs, int file) {
    SCOPED_TRACE(path_of(file));
    const auto f = static_cast<std::size_t>(file);
    const auto opened = fs.open(path_of(file));
    ASSERT_THAT(opened, IsOk());
    const auto size = opened->size();
    ASSERT_THAT(size, IsOk());
    const auto view = opened->linear();
    ASSERT_THAT(view, IsOk());
    for (int unit = 0; unit < kUnits; ++unit) {
      SCOPED_TRACE(concat("unit ", unit));
      const std::uint32_t first = synced_[f][static_cast<std::size_t>(unit)];
      const std::uint32_t last = begun_[f][static_cast<std::size_t>(unit)];
      if (first > 0) {
        ASSERT_GE(*size, (unit + 1) * kUnitBytes);
      }
      Bytes bytes(static_cast<std::size_t>(kUnitBytes));
      ASSERT_THAT(view->read(unit * kUnitBytes, bytes), IsOk());
      for (Offset i = 0; i < kUnitBytes; ++i) {
        bool is_known = false;
        for (std::uint32_t version = first; version <= last && !is_known; ++version) {
          is_known = bytes[static_cast<std::size_t>(i)] == byte_of(unit, version, i);
        }
        ASSERT_TRUE(is_known) << "byte " << i << " is of no version from " << first << " to " << last;
      }
    }
  }

  void expect_names(const FileSystem& fs) {
    const auto entries = fs.list("/");
    ASSERT_THAT(entries, IsOk());
    std::set<std::string> found;
    for (const Entry& entry : *entries) {
      if (entry.name.starts_with("name")) found.insert("/" + entry.name);
    }
    // A rename that was under way left one of both names.
    const auto unsure_found =
        std::count_if(unsure_.begin(), unsure_.end(), [&](const auto& x) { return found.count(x); });
    EXPECT_LE(unsure_found, 1);
    if (unsure_.size() == 2) {
      EXPECT_EQ(unsure_found, 1);
    }
    for (const std::string& path : unsure_) {
      if (found.count(path) != 0) names_.insert(path);
    }
    unsure_.clear();
    EXPECT_EQ(found, names_);
  }

  std::mt19937_64 random_;
  std::array<std::array<std::uint32_t, kUnits>, kFiles> begun_{};   // versions that may be there
  std::array<std::array<std::uint32_t, kUnits>, kFiles> synced_{};  // versions that must be, if no later one is
  std::array<std::array<bool, kUnits>, kFiles> is_written_{};       // since the servers were started
  std::set<std::string> names_;
  std::vector<std::string> unsure_;
  int names_made_ = 0;
  int syncs_ = 0;
  std::atomic<int> steps_ = 0;
  std::vector<File> files_;
  std::vector<View> views_;
};

TEST(CrashTest, KilledServersLoseNothingSynced) {
  if (!internal::kCanUseUcx) GTEST_SKIP() << internal::kWhyNoUcx;
  const std::uint64_t seed = choose_seed();
  SCOPED_TRACE(concat("WEIR_TEST_SEED=", seed));
  std::mt19937_64 random{seed};
  const auto directory = std::filesystem::temp_directory_path() / concat("weir-crash-test-", ::getpid());
  const std::string store = concat("disk:", directory.string());
  Load load(seed);
  for (int round = 0; round < 5 && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(concat("round ", round));
    Servers servers(3, store);
    const auto fs = servers.connect();
    ASSERT_THAT(fs, IsOk());
    if (round > 0) load.expect_all(*fs);
    // Killed after some steps, so that there is something to lose however slow the machine is; then at any moment.
    std::atomic<bool> is_over{false};
    std::jthread killer([&, enough = load.steps() + 20, pause = std::chrono::microseconds(random() % 100000)] {
      while (load.steps() < enough && !is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(pause);
      servers.kill_all();
    });
    EXPECT_THAT(load.run(*fs), StatusIs(ErrorCode::kUnavailable, HasSubstr("server ")));
    is_over = true;
  }
  const Servers servers(3, store);
  const auto fs = servers.connect();
  ASSERT_THAT(fs, IsOk());
  load.expect_all(*fs);
  EXPECT_GT(load.syncs(), 0);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace weir::client
