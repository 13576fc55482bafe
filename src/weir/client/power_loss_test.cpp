// The power fails at every step of a day's work, for names and bytes together: what was reported durable is there, what
// was removed is gone, and no file shows bytes of another.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/client/file_system.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>
#include <weir/storage/volatile_store.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using storage::Power;
using storage::Survival;
using weir::testing::IsOk;

constexpr std::size_t kFileBytes = 5000;
constexpr int kPowerServers = 2;

/// Disks and tables of a file system that servers come and go on.
class PowerSite {
 public:
  PowerSite() {
    for (int i = 0; i < kPowerServers; ++i) disks_.push_back(std::make_shared<storage::VolatileDisk>());
    table_ = std::make_shared<storage::VolatileTable>();
  }
  [[nodiscard]] std::unique_ptr<Cluster> start(const std::shared_ptr<Power>& power) const {
    ClusterOptions options;
    options.servers = kPowerServers;
    options.direct = false;
    return std::make_unique<Cluster>(options, [&](int server) {
      Cluster::Stores stores;
      stores.store = std::make_unique<storage::VolatileStore>(power, disks_[static_cast<std::size_t>(server)]);
      if (server == 0) stores.metadata = std::make_unique<storage::VolatileKeyValue>(power, table_);
      return stores;
    });
  }
  void survive(Survival names, Survival bytes, std::mt19937_64& random) {
    table_->survive(names, random);
    for (const auto& disk : disks_) disk->survive(bytes, random);
  }

 private:
  std::vector<std::shared_ptr<storage::VolatileDisk>> disks_;
  std::shared_ptr<storage::VolatileTable> table_;
};

/// What a path may be after a loss of power.
struct Allowed {
  bool may_be_absent = true;
  std::set<char> whole;  ///< Whole files of these bytes.
  std::set<char> torn;   ///< Files of some of these, and zeros.
};

/// Does things, and knows after each what must be there.
class Workday {
 public:
  explicit Workday(const FileSystem& fs) : fs_(fs) {}

  void run() {
    if (!make_directory("/d")) return;
    if (!put("/d/a", 'a', true)) return;
    if (!put("/b", 'b', false)) return;
    if (!put("/c", 'c', true) || !move("/c", "/d/c")) return;
    if (!put("/e", 'e', true) || !move("/e", "/d/a")) return;
    if (!relayout("/d/c")) return;
    if (!put("/f", 'f', true) || !remove("/f")) return;
    if (!put("/g", 'g', false) || !put("/h", 'h', false) || !sync_all({"/b", "/g", "/h"})) return;
    if (!remove("/b")) return;
    if (!make_directory("/empty") || !remove_directory("/empty")) return;
    put("/last", 'l', false);
  }

  [[nodiscard]] const std::map<std::string, Allowed>& files() const { return files_; }
  [[nodiscard]] const std::map<std::string, std::optional<bool>>& directories() const { return directories_; }

 private:
  static layout::Partition stripes() { return *layout::parse("stripe(unit=700, over=2)"); }

  bool make_directory(const std::string& path) {
    directories_[path] = std::nullopt;
    if (!fs_.make_directory(path).is_ok()) return false;
    directories_[path] = true;
    return true;
  }
  bool remove_directory(const std::string& path) {
    directories_[path] = std::nullopt;
    if (!fs_.remove_directory(path).is_ok()) return false;
    directories_[path] = false;
    return true;
  }
  bool put(const std::string& path, char byte, bool sync) {
    files_[path] = {true, {}, {byte}};
    const Result<File> file = fs_.create(path, stripes());
    if (!file.is_ok()) return false;
    const std::vector<std::byte> bytes(kFileBytes, static_cast<std::byte>(byte));
    const Result<View> view = file->linear();
    if (!view.is_ok() || !view->write(0, bytes).is_ok()) return false;
    if (!sync) return true;
    if (!file->sync().is_ok()) return false;
    files_[path] = {false, {byte}, {}};
    return true;
  }
  bool sync_all(const std::vector<std::string>& paths) {
    if (!fs_.sync().is_ok()) return false;
    for (const std::string& path : paths) files_[path] = {false, files_[path].torn, {}};
    return true;
  }
  // Of files that were synced.
  bool move(const std::string& from, const std::string& to) {
    const Allowed moved = files_[from];
    const Allowed replaced = files_[to];
    files_[from].may_be_absent = true;
    files_[to].whole.insert(moved.whole.begin(), moved.whole.end());
    if (!fs_.rename(from, to).is_ok()) return false;
    files_[from] = {};
    files_[to] = moved;
    return true;
  }
  bool remove(const std::string& path) {
    files_[path].may_be_absent = true;
    if (!fs_.remove(path).is_ok()) return false;
    files_[path] = {};
    return true;
  }
  bool relayout(const std::string& path) {
    return fs_.relayout(path, *layout::parse("stripe(unit=64, over=3)")).is_ok();
  }

  const FileSystem& fs_;
  std::map<std::string, Allowed> files_;
  std::map<std::string, std::optional<bool>> directories_;  // nothing: either
};

Result<std::vector<std::byte>> contents_of(const FileSystem& fs, const std::string& path) {
  WEIR_TRY(const File file, fs.open(path));
  WEIR_TRY(const Offset size, file.size());
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  WEIR_TRY(const View view, file.linear());
  WEIR_RETURN_IF_ERROR(view.read(0, bytes));
  return bytes;
}

void expect_allowed(const FileSystem& fs, const std::string& path, const Allowed& allowed) {
  SCOPED_TRACE(path);
  const Result<std::vector<std::byte>> bytes = contents_of(fs, path);
  if (bytes.status().code() == ErrorCode::kNotFound) {
    EXPECT_TRUE(allowed.may_be_absent) << "the file is gone";
    return;
  }
  ASSERT_THAT(bytes, IsOk());
  const std::set<std::byte> seen(bytes->begin(), bytes->end());
  for (const char byte : allowed.whole) {
    if (bytes->size() == kFileBytes && seen == std::set{static_cast<std::byte>(byte)}) return;
  }
  ASSERT_FALSE(allowed.torn.empty()) << "not whole, or it should not be there: " << bytes->size() << " bytes";
  for (const std::byte byte : seen) {
    EXPECT_TRUE(byte == std::byte{0} || allowed.torn.contains(static_cast<char>(byte)))
        << "a byte of another file: " << static_cast<char>(byte);
  }
}

// Numbers of files that were lost must not come again.
void expect_new_files_are_empty(const FileSystem& fs) {
  for (int i = 0; i < 4; ++i) {
    const Result<File> file = fs.create(concat("/new", i), *layout::parse("stripe(unit=700, over=2)"));
    ASSERT_THAT(file, IsOk());
    const std::vector<std::byte> one(1, std::byte{'n'});
    std::vector<std::byte> before(kFileBytes, std::byte{1});
    ASSERT_THAT(file->linear()->write(kFileBytes, one), IsOk());
    ASSERT_THAT(file->linear()->read(0, before), IsOk());
    EXPECT_TRUE(std::all_of(before.begin(), before.end(), [](std::byte byte) { return byte == std::byte{0}; }))
        << "bytes of another file, first " << static_cast<char>(before[0]);
  }
}

// Before every change, or every `step`-th, where another test looks at every one.
void cut_everywhere(Survival names, Survival bytes, int step = 1) {
  std::mt19937_64 random{std::random_device{}()};
  const auto first = std::make_shared<Power>();
  const PowerSite unused;
  const auto idle = unused.start(first);
  for (int cut_at = first->count() + static_cast<int>(random() % static_cast<unsigned>(step));; cut_at += step) {
    SCOPED_TRACE(concat("power cut before change ", cut_at));
    ASSERT_LT(cut_at, 500);
    PowerSite site;
    const auto power = std::make_shared<Power>(cut_at);
    std::map<std::string, Allowed> files;
    std::map<std::string, std::optional<bool>> directories;
    {
      const auto cluster = site.start(power);
      const FileSystem fs = cluster->connect();
      Workday day(fs);
      day.run();
      files = day.files();
      directories = day.directories();
    }
    // The servers stopped without power, or everything was synced as they did.
    site.survive(names, bytes, random);
    const auto cluster = site.start(std::make_shared<Power>());
    const FileSystem fs = cluster->connect();
    for (const auto& [path, allowed] : files) expect_allowed(fs, path, allowed);
    for (const auto& [path, is_there] : directories) {
      if (!is_there) continue;
      EXPECT_EQ(fs.stat(path).is_ok(), *is_there) << path;
    }
    expect_new_files_are_empty(fs);
    if (!power->was_cut() || ::testing::Test::HasFailure()) break;
  }
}

TEST(PowerLossTest, NothingUnsyncedSurvives) { cut_everywhere(Survival::kNothing, Survival::kNothing, 4); }
TEST(PowerLossTest, OnlyBytesSurvive) { cut_everywhere(Survival::kNothing, Survival::kEverything); }
TEST(PowerLossTest, OnlyNamesSurvive) { cut_everywhere(Survival::kEverything, Survival::kNothing, 4); }
TEST(PowerLossTest, SomeOfEachSurvives) { cut_everywhere(Survival::kRandom, Survival::kRandom, 4); }

}  // namespace
}  // namespace weir::client
