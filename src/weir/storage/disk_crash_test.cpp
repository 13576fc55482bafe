// The rules at the beginning of disk_store.cpp, tried out: processes killed under load, and losses of power emulated at
// every step.

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/internal/disk_sums.h>
#include <weir/storage/internal/disk_testing.h>
#include <weir/storage/internal/interposed_calls.h>

namespace weir::storage {
namespace {

using internal::below;
using internal::Bytes;
using internal::FileCall;
using internal::InterposedCalls;
using internal::kBlockBytes;
using internal::load_file;
using internal::random_bytes;
using internal::save_file;
using internal::TemporaryDirectory;
using ::weir::testing::IsOk;

// ---- a process is killed

// The subfiles consist of units; each time a unit is written it gets the next version, which tells every byte of it.
constexpr Offset kUnitBytes = 10007;  // units lie across blocks
constexpr int kUnits = 200;
constexpr std::uint32_t kSubfiles = 3;

Bytes unit_bytes(int unit, std::uint32_t version) {
  Bytes bytes(kUnitBytes);
  if (version == 0) return bytes;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t mixed = (static_cast<std::uint64_t>(unit) << 40) + (std::uint64_t{version} << 16) + at;
    mixed = (mixed ^ (mixed >> 31)) * 0x9E3779B97F4A7C15U;
    mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9U;
    std::memcpy(&bytes[at], &mixed, std::min(sizeof(mixed), bytes.size() - at));
  }
  return bytes;
}

// In memory that both processes see, so that it outlives the child.
struct Progress {
  std::uint32_t begun[kSubfiles][kUnits];   // versions that may be on disk
  std::uint32_t synced[kSubfiles][kUnits];  // versions that must be there, if no later one was begun
  std::uint32_t syncs;
  std::uint32_t failures;
};

class SharedProgress {
 public:
  SharedProgress()
      : memory_(::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) std::abort();
  }
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  ~SharedProgress() { ::munmap(memory_, sizeof(Progress)); }
  volatile Progress& operator*() const { return *static_cast<volatile Progress*>(memory_); }

 private:
  void* memory_;
};

// Never returns.
[[noreturn]] void write_until_killed(const std::string& directory, std::uint64_t seed, volatile Progress& progress) {
  Result<std::unique_ptr<Store>> store = open_disk_store(directory, {.direct_from_bytes = 128 << 10});
  std::mt19937_64 random{seed};
  bool is_written[kSubfiles][kUnits] = {};  // by this process: others may be a mixture that an earlier crash left
  while (store.is_ok()) {
    const auto subfile = static_cast<std::uint32_t>(below(random, kSubfiles));
    const auto from = static_cast<int>(below(random, kUnits));
    const auto to = std::min<int>(kUnits, from + 1 + static_cast<int>(below(random, 30)));
    Bytes bytes;
    for (int unit = from; unit < to; ++unit) {
      const std::uint32_t version = progress.begun[subfile][unit] + 1;
      progress.begun[subfile][unit] = version;
      is_written[subfile][unit] = true;
      const Bytes more = unit_bytes(unit, version);
      bytes.insert(bytes.end(), more.begin(), more.end());
    }
    if (!internal::write(**store, {1, subfile}, from * kUnitBytes, bytes).is_ok()) break;
    if (below(random, 4) != 0) continue;
    if (!Blocking(**store).sync({1, subfile}).is_ok()) break;
    for (int unit = 0; unit < kUnits; ++unit) {
      if (is_written[subfile][unit]) progress.synced[subfile][unit] = progress.begun[subfile][unit];
    }
    progress.syncs = progress.syncs + 1;
  }
  progress.failures = progress.failures + 1;
  ::_exit(1);
}

// Or for the child's end.
void wait_for_sync(volatile Progress& progress, pid_t child) {
  const std::uint32_t before = progress.syncs;
  siginfo_t info{};
  while (progress.syncs == before) {
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT), 0);
    if (info.si_pid == child) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Every byte is of one of the versions; nearly always, all of the same.
void expect_mixture(const Bytes& bytes, int unit, std::uint32_t first, std::uint32_t last) {
  std::vector<Bytes> versions;
  for (std::uint32_t version = first; version <= last; ++version) {
    versions.push_back(unit_bytes(unit, version));
    if (std::memcmp(bytes.data(), versions.back().data(), bytes.size()) == 0) return;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool is_known = std::ranges::any_of(versions, [&](const Bytes& version) { return version[i] == bytes[i]; });
    ASSERT_TRUE(is_known) << "byte " << i << " is of no version from " << first << " to " << last;
  }
}

void expect_synced(const std::string& directory, volatile Progress& progress) {
  Result<std::unique_ptr<Store>> store = open_disk_store(directory);
  ASSERT_THAT(store.status(), IsOk());
  for (std::uint32_t subfile = 0; subfile < kSubfiles; ++subfile) {
    for (int unit = 0; unit < kUnits; ++unit) {
      SCOPED_TRACE(::testing::Message() << "subfile " << subfile << ", unit " << unit);
      const Result<Bytes> bytes = internal::read(**store, {1, subfile}, unit * kUnitBytes, kUnitBytes);
      ASSERT_THAT(bytes.status(), IsOk());
      expect_mixture(*bytes, unit, progress.synced[subfile][unit], progress.begun[subfile][unit]);
    }
  }
}

TEST(DiskCrashTest, AKilledProcessLosesNothingSynced) {
  const std::uint64_t seed = testing::choose_seed();
  SCOPED_TRACE(::testing::Message() << "WEIR_TEST_SEED=" << seed);
  std::mt19937_64 random{seed};
  const TemporaryDirectory directory;
  const SharedProgress shared;
  volatile Progress& progress = *shared;
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    const pid_t child = ::fork();
    if (child == 0) write_until_killed(directory.path(), seed + static_cast<std::uint64_t>(round), progress);
    // At once or some time after a sync: on a slow machine, time alone could kill every child before its first.
    if (round % 2 == 0) wait_for_sync(progress, child);
    std::this_thread::sleep_for(std::chrono::microseconds(below(random, 60000)));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    ASSERT_EQ(progress.failures, 0U);
    ASSERT_NO_FATAL_FAILURE(expect_synced(directory.path(), progress));
  }
  EXPECT_GT(progress.syncs, 0U);
}

// ---- the power fails

// Follows the store's system calls, and makes directories as a loss of power could leave them.
//
//   contents   of each file, every sector is as last synced (fsync, fdatasync, syncfs) or as it is now, and so is the
//              length
//   names      files come, go and are renamed in order, as journals of file systems keep them; those up to the last
//              fsync of a directory that changed it are durable, and of the others any number survives, the first
//              ones first
class PowerFailure {
 public:
  PowerFailure(std::string directory, std::mt19937_64& random) : directory_(std::move(directory)), random_(random) {}

  void before(const FileCall& call) {
    // What is about to lose its name can come back.
    if (call.name == "unlink") keep_contents(call.path);
    if (call.name == "rename") keep_contents(call.to);
  }

  void after(const FileCall& call) {
    if (call.name == "open") {
      journal_.push_back({call.path, {}, ++last_file_});
      names_[call.path] = last_file_;
    } else if (call.name == "mkdir") {
      journal_.push_back({call.path, {}, 0});
    } else if (call.name == "unlink") {
      journal_.push_back({{}, call.path, 0});
      names_.erase(call.path);
    } else if (call.name == "rename") {
      journal_.push_back({call.to, call.path, names_[call.path]});
      names_[call.to] = names_[call.path];
      names_.erase(call.path);
    } else if (call.name == "syncfs") {
      for (const auto& [path, file] : names_) durable_[file] = load_file(path);
      durable_names_ = journal_.size();
    } else if (call.name == "fsync" || call.name == "fdatasync") {
      if (const auto found = names_.find(call.path); found != names_.end()) {
        durable_[found->second] = load_file(call.path);
      } else {
        note_synced_directory(call.path);
      }
    }
  }

  void crash_into(const std::string& target) {
    const std::size_t unsure = journal_.size() - durable_names_;
    const std::uint64_t style = random_() % 3;
    const std::size_t surviving = durable_names_ + (style == 0 ? 0 : style == 1 ? unsure : random_() % (unsure + 1));
    std::map<std::string, int> names;
    for (std::size_t i = 0; i < surviving; ++i) {
      const NameChange& change = journal_[i];
      if (!change.gone.empty()) names.erase(change.gone);
      if (!change.made.empty()) names[change.made] = change.file;
    }
    namespace fs = std::filesystem;
    for (const auto& [path, file] : names) {
      const fs::path to = target / fs::relative(path, directory_);
      if (file == 0) {
        fs::create_directories(to);
      } else {
        save_file(to, mixture(durable_[file], contents_of(file)));
      }
    }
  }

 private:
  static constexpr std::size_t kSector = 512;

  /// A file (or, with file 0, a folder) that came, or a name that went.
  struct NameChange {
    std::string made;
    std::string gone;
    int file;
  };

  void keep_contents(const std::string& path) {
    if (const auto found = names_.find(path); found != names_.end()) last_contents_[found->second] = load_file(path);
  }

  Bytes contents_of(int file) {
    for (const auto& [path, number] : names_) {
      if (number == file) return load_file(path);
    }
    return last_contents_[file];
  }

  void note_synced_directory(const std::string& path) {
    const auto is_in = [&](const std::string& name) {
      return !name.empty() && std::filesystem::path(name).parent_path() == path;
    };
    for (std::size_t i = journal_.size(); i > durable_names_; --i) {
      if (!is_in(journal_[i - 1].made) && !is_in(journal_[i - 1].gone)) continue;
      durable_names_ = i;
      return;
    }
  }

  Bytes mixture(const Bytes& old, const Bytes& now) {
    const std::uint64_t style = random_() % 4;  // all old, all new, or sector by sector
    const auto is_new = [&] { return style == 0 ? false : style == 1 || random_() % 2 == 0; };
    Bytes result(is_new() ? now.size() : old.size());
    for (std::size_t at = 0; at < result.size(); at += kSector) {
      const Bytes& from = is_new() ? now : old;
      const std::size_t end = std::min({at + kSector, result.size(), from.size()});
      if (at < end) std::copy(&from[at], &from[at] + (end - at), &result[at]);
    }
    return result;
  }

  std::string directory_;
  std::mt19937_64& random_;
  int last_file_ = 0;
  std::map<std::string, int> names_;  // of files, as they are
  std::map<int, Bytes> durable_;      // contents
  std::map<int, Bytes> last_contents_;
  std::vector<NameChange> journal_;
  std::size_t durable_names_ = 0;  // of the journal
};

constexpr SubfileId kCrashId{7, 1};

// One subfile under random writes, cuts and syncs, and what of it must survive.
class PowerFailureRun {
 public:
  PowerFailureRun(std::uint64_t seed, Offset base, Offset part_bytes = Offset{1} << 40)
      : random_(seed),
        base_(base),
        failure_(store_directory(), random_),
        calls_(
            store_directory(),
            [this](const FileCall& call) {
              failure_.before(call);
              return 0;
            },
            [this](const FileCall& call) { observe(call); }) {
    // Without io_uring, whose writes are not seen.
    Result<std::unique_ptr<Store>> opened = open_disk_store(
        store_directory(), {.direct_from_bytes = kBlockBytes, .use_uring = false, .part_bytes = part_bytes});
    EXPECT_THAT(opened.status(), IsOk());
    store_ = std::move(*opened);
  }
  ~PowerFailureRun() { is_over_ = true; }

  void step() {
    switch (below(random_, 16)) {
      case 0:
      case 1:
      case 2:
      case 3: return sync();
      case 4:
      case 5: return truncate(base_ + below(random_, kSpan));
      case 6: return remove();
      default:
        return write(base_ + below(random_, kSpan),
                     below(random_, 3) == 0 ? kBlockBytes * 2 : 1 + below(random_, 3 * kBlockBytes));
    }
  }

  [[nodiscard]] int crashes() const { return crashes_; }

 private:
  static constexpr Offset kSpan = 6 * kBlockBytes;

  void write(Offset offset, Offset size) {
    if (below(random_, 2) == 0) offset = offset / kBlockBytes * kBlockBytes;
    const Bytes bytes = random_bytes(random_, size);
    touch(offset, offset + size);
    if (now_.size() < static_cast<std::size_t>(offset + size)) now_.resize(static_cast<std::size_t>(offset + size));
    std::copy(bytes.begin(), bytes.end(), now_.begin() + offset);
    is_removed_ = false;
    EXPECT_THAT(internal::write(*store_, kCrashId, offset, bytes), IsOk());
  }

  void truncate(Offset length) {
    touch(std::min(length, static_cast<Offset>(now_.size())), std::max(length, static_cast<Offset>(now_.size())));
    was_cut_ = was_cut_ || length < static_cast<Offset>(now_.size());
    now_.resize(static_cast<std::size_t>(length));
    is_removed_ = false;
    EXPECT_THAT(Blocking(*store_).truncate(kCrashId, length, length), IsOk());
  }

  // Until the next sync, it may come back as it was last synced.
  void remove() {
    touch(0, static_cast<Offset>(std::max(now_.size(), synced_.size())));
    was_cut_ = true;
    is_removed_ = true;
    now_.clear();
    EXPECT_THAT(Blocking(*store_).remove(kCrashId), IsOk());
  }

  void sync() {
    EXPECT_THAT(Blocking(*store_).sync(kCrashId), IsOk());
    if (is_removed_) return;  // there is nothing to sync: what is removed twice does no harm
    synced_ = now_;
    touched_.clear();
    was_cut_ = false;
  }

  void touch(Offset from, Offset to) {
    for (Offset block = from / kBlockBytes; block * kBlockBytes < to; ++block) touched_.insert(block);
  }

  [[nodiscard]] std::string store_directory() const { return directory_.path(); }

  void observe(const FileCall& call) {
    if (is_over_) return;
    failure_.after(call);
    if (store_ == nullptr || below(random_, 16) != 0 || ::testing::Test::HasFailure()) return;
    ++crashes_;
    SCOPED_TRACE(::testing::Message() << "crash " << crashes_ << " after " << call.name << " of " << call.path);
    const TemporaryDirectory after;
    failure_.crash_into(after.path());
    expect_sound(after.path());
  }

  void expect_sound(const std::string& directory) {
    Result<std::unique_ptr<Store>> store = open_disk_store(directory);
    ASSERT_THAT(store.status(), IsOk());
    expect_synced(**store);
    // Life goes on: grown, written and synced, it is still right, and no old sum comes back.
    const Bytes more = random_bytes(random_, 1000);
    ASSERT_THAT(Blocking(**store).truncate(kCrashId, base_ + 3 * kSpan, 0), IsOk());
    ASSERT_THAT(internal::write(**store, kCrashId, base_ + 3 * kSpan, more), IsOk());
    expect_synced(**store);
    store->reset();
    store = open_disk_store(directory);
    ASSERT_THAT(store.status(), IsOk());
    expect_synced(**store);
  }

  void expect_synced(Store& store) {
    const Result<SubfileInfo> info = Blocking(store).info(kCrashId);
    ASSERT_THAT(info.status(), IsOk());
    if (!was_cut_) {
      EXPECT_GE(info->length, static_cast<Offset>(synced_.size()));
    }
    for (Offset block = base_ / kBlockBytes; block < (base_ + 3 * kSpan) / kBlockBytes; ++block) {
      SCOPED_TRACE(::testing::Message() << "block " << block);
      const Result<Bytes> bytes = internal::read(store, kCrashId, block * kBlockBytes, kBlockBytes);
      ASSERT_THAT(bytes.status(), IsOk());
      if (touched_.count(block) == 0) {
        ASSERT_EQ(*bytes, synced_block(block));
      }
    }
  }

  [[nodiscard]] Bytes synced_block(Offset block) const {
    Bytes bytes(static_cast<std::size_t>(kBlockBytes));
    const auto from = static_cast<std::size_t>(block * kBlockBytes);
    const std::size_t to = std::min(synced_.size(), from + bytes.size());
    if (from < to) std::copy(&synced_[from], &synced_[from] + (to - from), bytes.begin());
    return bytes;
  }

  std::mt19937_64 random_;
  Offset base_;
  TemporaryDirectory directory_;
  PowerFailure failure_;
  InterposedCalls calls_;
  Bytes now_;
  Bytes synced_;
  std::set<Offset> touched_;  // blocks changed since the last sync
  bool was_cut_ = false;
  bool is_removed_ = false;  // and not written since
  bool is_over_ = false;
  int crashes_ = 0;
  std::unique_ptr<Store> store_;
};

TEST(DiskCrashTest, ALossOfPowerAtAnyStepLosesNothingSynced) {
  const std::uint64_t seed = testing::choose_seed();
  SCOPED_TRACE(::testing::Message() << "WEIR_TEST_SEED=" << seed);
  int crashes = 0;
  for (std::uint64_t run = 0; run < 6 && !HasFailure(); ++run) {
    PowerFailureRun power(seed + run, 0);
    for (int step = 0; step < 25 && !HasFailure(); ++step) power.step();
    crashes += power.crashes();
  }
  EXPECT_GT(crashes, 10);
}

// Where the file with the sums gets another page.
TEST(DiskCrashTest, ALossOfPowerWhileTheChecksumsGrowLosesNothingSynced) {
  const std::uint64_t seed = testing::choose_seed();
  SCOPED_TRACE(::testing::Message() << "WEIR_TEST_SEED=" << seed);
  PowerFailureRun power(seed, (internal::kSumsPerPage - 3) * kBlockBytes);
  // Not every step fails: go on until some have.
  for (int step = 0; (step < 12 || power.crashes() < 2) && step < 1000 && !HasFailure(); ++step) power.step();
  EXPECT_GE(power.crashes(), 2);
}

// Parts come and go, and part 0 speaks for all.
TEST(DiskCrashTest, ALossOfPowerAmongPartsLosesNothingSynced) {
  const std::uint64_t seed = testing::choose_seed();
  SCOPED_TRACE(::testing::Message() << "WEIR_TEST_SEED=" << seed);
  int crashes = 0;
  for (std::uint64_t run = 0; run < 4 && !HasFailure(); ++run) {
    PowerFailureRun power(seed + run, 0, 2 * kBlockBytes);
    for (int step = 0; step < 25 && !HasFailure(); ++step) power.step();
    crashes += power.crashes();
  }
  EXPECT_GT(crashes, 8);
}

}  // namespace
}  // namespace weir::storage
