#include <weir/storage/disk_store.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/storage/blocking.h>
#include <weir/storage/internal/disk_files.h>
#include <weir/storage/internal/disk_sums.h>
#include <weir/storage/internal/disk_testing.h>
#include <weir/storage/internal/interposed_calls.h>
#include <weir/storage/internal/store_conformance.h>

namespace weir::storage {
namespace {

using internal::below;
using internal::Bytes;
using internal::FileKind;
using internal::kBlockBytes;
using internal::load_file;
using internal::random_bytes;
using internal::save_file;
using internal::StoreCase;
using internal::StoreCaseName;
using internal::StoreConformance;
using internal::StoreHome;
using internal::TemporaryDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::weir::testing::IsOk;
using ::weir::testing::IsOkAndHolds;
using ::weir::testing::StatusIs;
using Kind = DiskFinding::Kind;

class DiskHome final : public StoreHome {
 public:
  explicit DiskHome(DiskStoreOptions options) : options_(std::move(options)) {}
  Result<std::unique_ptr<Store>> open(Offset) override { return open_disk_store(directory_.path(), options_); }

 private:
  TemporaryDirectory directory_;
  DiskStoreOptions options_;
};

StoreCase disk_case(std::string name, DiskStoreOptions options) {
  return {.name = std::move(name),
          .make_home = [options] { return std::make_unique<DiskHome>(options); },
          .is_durable = true,
          .has_capacity = false,
          .many_subfiles = 80};
}

INSTANTIATE_TEST_SUITE_P(Disk, StoreConformance,
                         ::testing::Values(disk_case("plain", {}),
                                           disk_case("direct_almost_always",
                                                     {.direct_from_bytes = 4096, .queue_depth = 3}),
                                           disk_case("without_uring", {.direct_from_bytes = 4096, .use_uring = false}),
                                           disk_case("few_resources", {.max_open = 2, .max_checksum_bytes = 20000}),
                                           disk_case("small_parts", {.part_bytes = 1 << 20})),
                         StoreCaseName{});

constexpr SubfileId kDiskId{42, 3};

class DiskStoreTest : public ::testing::Test {
 protected:
  void open(const DiskStoreOptions& options = {}) {
    store_.reset();
    Result<std::unique_ptr<Store>> opened = open_disk_store(directory_.path(), options);
    ASSERT_THAT(opened.status(), IsOk());
    store_ = std::move(*opened);
  }

  // A subfile of four blocks and a bit, synced, and the store closed.
  void make_subfile() {
    open();
    bytes_ = random_bytes(random_, 4 * kBlockBytes + 100);
    ASSERT_THAT(internal::write(*store_, kDiskId, 0, bytes_), IsOk());
    ASSERT_THAT(Blocking(*store_).sync(kDiskId), IsOk());
    store_.reset();
  }

  [[nodiscard]] std::string path(FileKind kind) const { return path_of(directory_.path(), {kDiskId, 0}, kind); }
  [[nodiscard]] Bytes slice(Offset from, Offset to) const { return {bytes_.begin() + from, bytes_.begin() + to}; }
  Result<Bytes> read(Offset from, Offset to) { return internal::read(*store_, kDiskId, from, to - from); }
  Result<Bytes> read_all() { return read(0, static_cast<Offset>(bytes_.size())); }

  void flip(FileKind kind, std::size_t at) {
    Bytes file = load_file(path(kind));
    ASSERT_LT(at, file.size());
    file[at] ^= std::byte{1};
    save_file(path(kind), file);
  }

  std::vector<Kind> check() {
    const Result<DiskCheck> report = check_disk_store(directory_.path());
    EXPECT_THAT(report.status(), IsOk());
    std::vector<Kind> kinds;
    if (report.is_ok()) {
      for (const DiskFinding& finding : report->findings) kinds.push_back(finding.kind);
    }
    return kinds;
  }

  std::mt19937_64 random_{1};
  TemporaryDirectory directory_;
  std::unique_ptr<Store> store_;
  Bytes bytes_;
};

// ---- every alignment of file and memory

TEST_F(DiskStoreTest, EveryAlignmentAndTail) {
  constexpr Offset kLength = 5 << 20;
  open({.direct_from_bytes = 256 << 10, .queue_depth = 4});
  Bytes expected(kLength);
  // Near a border of sectors, pages, blocks or requests, or anywhere.
  const auto near = [this](Offset limit) {
    constexpr Offset kBorders[] = {512, 4096, kBlockBytes, 1 << 20, 1};
    const Offset border = kBorders[below(random_, 5)];
    return std::clamp<Offset>(below(random_, limit / border + 1) * border + below(random_, 3) - 1, 0, limit);
  };
  const Bytes source = random_bytes(random_, kLength + 8192);
  for (int round = 0; round < 150; ++round) {
    const Offset from = near(kLength);
    const Offset to = near(kLength);
    if (from >= to) continue;
    SCOPED_TRACE(::testing::Message() << "round " << round << ": " << from << " to " << to);
    const auto begin = source.begin() + below(random_, 8192);
    const std::span<const std::byte> memory(&*begin, static_cast<std::size_t>(to - from));
    ASSERT_THAT(internal::write(*store_, kDiskId, from, memory), IsOk());
    std::copy(memory.begin(), memory.end(), expected.begin() + from);
    if (round % 7 == 0) {
      ASSERT_THAT(Blocking(*store_).sync(kDiskId), IsOk());
    }
    Bytes target(static_cast<std::size_t>(kLength) + 8192);
    const Offset start = near(kLength);
    const std::span<std::byte> part(&target[static_cast<std::size_t>(below(random_, 8192))],
                                    static_cast<std::size_t>(kLength - start));
    const std::array pieces{ReadPiece{start, part}};
    ASSERT_THAT(Blocking(*store_).read(kDiskId, pieces), IsOk());
    ASSERT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + start));
  }
  store_.reset();
  EXPECT_THAT(check(), IsEmpty());
}

// ---- damage

TEST_F(DiskStoreTest, AFlippedByteIsFound) {
  make_subfile();
  flip(FileKind::kData, kBlockBytes + 77);
  EXPECT_THAT(check(), ::testing::ElementsAre(Kind::kDamagedBlock));
  open();
  const auto is_damage = StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr("file 42, subfile 3"), HasSubstr("block 1 ")));
  EXPECT_THAT(read_all(), is_damage);
  EXPECT_THAT(read(kBlockBytes, 2 * kBlockBytes), is_damage);
  EXPECT_THAT(read(kBlockBytes + 5000, kBlockBytes + 5001), is_damage);
  EXPECT_EQ(read(kBlockBytes, kBlockBytes + 1).status().location(), kBlockBytes);
  // The others can be read, and writing the block again heals it.
  EXPECT_THAT(read(0, kBlockBytes), IsOkAndHolds(slice(0, kBlockBytes)));
  EXPECT_THAT(read(2 * kBlockBytes, 4 * kBlockBytes + 100),
              IsOkAndHolds(slice(2 * kBlockBytes, 4 * kBlockBytes + 100)));
  ASSERT_THAT(internal::write(*store_, kDiskId, kBlockBytes, slice(kBlockBytes, 2 * kBlockBytes)), IsOk());
  EXPECT_THAT(read_all(), IsOkAndHolds(bytes_));
}

TEST_F(DiskStoreTest, AFlippedByteInEveryBlockIsFound) {
  make_subfile();
  for (std::size_t at = 10; at < bytes_.size(); at += kBlockBytes / 2) {
    SCOPED_TRACE(at);
    flip(FileKind::kData, at);
    open();
    EXPECT_THAT(read_all(), StatusIs(ErrorCode::kCorrupt));
    store_.reset();
    flip(FileKind::kData, at);
  }
  open();
  EXPECT_THAT(read_all(), IsOkAndHolds(bytes_));
}

TEST_F(DiskStoreTest, DataCutOffIsFound) {
  make_subfile();
  std::filesystem::resize_file(path(FileKind::kData), 3 * kBlockBytes);
  EXPECT_THAT(check(), ::testing::ElementsAre(Kind::kDamagedBlock, Kind::kDamagedBlock));
  open();
  EXPECT_THAT(read_all(), StatusIs(ErrorCode::kCorrupt, HasSubstr("block 3 ")));
}

TEST_F(DiskStoreTest, ChecksumsCutOffAreFound) {
  make_subfile();
  const Bytes sums = load_file(path(FileKind::kSums));
  for (const std::size_t size :
       {sums.size() - 1, sums.size() - 4096, std::size_t{8191}, std::size_t{4096}, std::size_t{80}}) {
    SCOPED_TRACE(size);
    save_file(path(FileKind::kSums), Bytes(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(size)));
    EXPECT_THAT(check(), ::testing::ElementsAre(Kind::kDamagedChecksums));
    open();
    EXPECT_THAT(read_all(), StatusIs(ErrorCode::kCorrupt, HasSubstr(path(FileKind::kSums))));
    EXPECT_THAT(internal::write(*store_, kDiskId, 0, bytes_), StatusIs(ErrorCode::kCorrupt));
    EXPECT_THAT(Blocking(*store_).info(kDiskId), StatusIs(ErrorCode::kCorrupt));
    // Another subfile does not suffer.
    EXPECT_THAT(internal::write(*store_, {1, 1}, 0, bytes_), IsOk());
    store_.reset();
  }
  // Empty: as if never synced.
  save_file(path(FileKind::kSums), {});
  EXPECT_THAT(check(), ::testing::ElementsAre(Kind::kUnverifiedBlocks));
  open();
  EXPECT_THAT(read_all(), IsOkAndHolds(bytes_));
}

TEST_F(DiskStoreTest, ADamagedHeaderIsFoundAndATornOneReplaced) {
  make_subfile();
  open();
  ASSERT_THAT(internal::write(*store_, kDiskId, 1000, slice(1000, 1001)), IsOk());
  ASSERT_THAT(Blocking(*store_).sync(kDiskId), IsOk());  // now both slots hold a header
  store_.reset();
  flip(FileKind::kSums, 4096 + 40);
  open();
  EXPECT_THAT(read_all(), IsOkAndHolds(bytes_));
  ASSERT_THAT(internal::write(*store_, kDiskId, 0, slice(0, 10)), IsOk());
  store_.reset();
  EXPECT_THAT(check(), IsEmpty());
  flip(FileKind::kSums, 40);
  flip(FileKind::kSums, 4096 + 40);
  EXPECT_THAT(check(), ::testing::ElementsAre(Kind::kDamagedChecksums));
  open();
  EXPECT_THAT(read_all(), StatusIs(ErrorCode::kCorrupt, HasSubstr("header")));
  EXPECT_THAT(Blocking(*store_).remove(kDiskId), IsOk());
  EXPECT_THAT(Blocking(*store_).list(), IsOkAndHolds(IsEmpty()));
}

TEST_F(DiskStoreTest, MissingFilesAreFound) {
  make_subfile();
  std::filesystem::rename(path(FileKind::kSums), directory_.path() + "/kept");
  EXPECT_THAT(check(), ::testing::ElementsAre(Kind::kDamagedChecksums));
  open();
  EXPECT_THAT(read_all(), StatusIs(ErrorCode::kCorrupt, HasSubstr("missing")));
  store_.reset();
  std::filesystem::rename(directory_.path() + "/kept", path(FileKind::kSums));
  std::filesystem::remove(path(FileKind::kData));
  EXPECT_THAT(check(), ::testing::ElementsAre(Kind::kMissingData));
  open();
  EXPECT_THAT(read_all(), StatusIs(ErrorCode::kCorrupt, HasSubstr("missing")));
  EXPECT_THAT(Blocking(*store_).remove(kDiskId), IsOk());
  EXPECT_THAT(read_all(), IsOkAndHolds(Bytes(bytes_.size())));
}

TEST_F(DiskStoreTest, AnInterruptedRemoveIsFinished) {
  make_subfile();
  std::filesystem::rename(path(FileKind::kSums), path(FileKind::kGone));
  EXPECT_THAT(check(), ::testing::ElementsAre(Kind::kUnfinishedRemove));
  open();
  EXPECT_THAT(read_all(), IsOkAndHolds(Bytes(bytes_.size())));
  EXPECT_FALSE(std::filesystem::exists(path(FileKind::kData)));
  EXPECT_FALSE(std::filesystem::exists(path(FileKind::kGone)));
}

TEST_F(DiskStoreTest, CheckNamesForeignFilesAndCounts) {
  make_subfile();
  const std::string folder = std::filesystem::path(path(FileKind::kData)).parent_path();
  save_file(folder + "/02A.3.0.data", {});
  const Result<DiskCheck> report = check_disk_store(directory_.path());
  ASSERT_THAT(report.status(), IsOk());
  EXPECT_EQ(report->subfiles, 1);
  EXPECT_EQ(report->verified_blocks, 5);
  ASSERT_THAT(report->findings, SizeIs(1));
  EXPECT_EQ(report->findings[0].kind, Kind::kForeignFile);
  EXPECT_THAT(report->findings[0].message, HasSubstr("02A.3.0.data"));
}

// ---- the directory

TEST_F(DiskStoreTest, IsOpenOnlyOnce) {
  open();
  const auto is_in_use = StatusIs(ErrorCode::kUnavailable, AllOf(HasSubstr(directory_.path()), HasSubstr("in use")));
  EXPECT_THAT(open_disk_store(directory_.path()).status(), is_in_use);
  EXPECT_THAT(check_disk_store(directory_.path()).status(), is_in_use);
  store_.reset();
  open();
}

TEST_F(DiskStoreTest, SettingsAreKeptAndChecked) {
  open({.part_bytes = 1 << 20});
  bytes_ = random_bytes(random_, 3 << 20);
  ASSERT_THAT(internal::write(*store_, kDiskId, 0, bytes_), IsOk());
  open();  // other parts are wished for, but those that are there count
  EXPECT_THAT(read_all(), IsOkAndHolds(bytes_));
  store_.reset();
  const std::string settings = directory_.path() + "/settings";
  const Bytes text = load_file(settings);
  save_file(settings, {std::byte{'x'}});
  EXPECT_THAT(open_disk_store(directory_.path()).status(), StatusIs(ErrorCode::kCorrupt, HasSubstr(settings)));
  std::filesystem::remove(settings);
  EXPECT_THAT(open_disk_store(directory_.path()).status(), StatusIs(ErrorCode::kCorrupt, HasSubstr("missing")));
  save_file(settings, text);
  open();
}

TEST_F(DiskStoreTest, RefusesBadPartsAndNoStore) {
  EXPECT_THAT(open_disk_store(directory_.path(), {.part_bytes = 1000}).status(), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(check_disk_store(directory_.path() + "/nothing").status(), StatusIs(ErrorCode::kNotFound));
}

TEST_F(DiskStoreTest, AReadOnlyDirectoryIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const TemporaryDirectory parent;
  std::filesystem::permissions(parent.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  EXPECT_THAT(open_disk_store(parent.path()).status(), StatusIs(ErrorCode::kPermission, HasSubstr(parent.path())));
  EXPECT_THAT(open_disk_store(parent.path() + "/new").status(), StatusIs(ErrorCode::kPermission));
  std::filesystem::permissions(parent.path(), std::filesystem::perms::owner_all);
}

TEST_F(DiskStoreTest, KeepsFewDescriptorsOpen) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  open({.max_open = 4});
  const auto before = count();
  bytes_ = random_bytes(random_, 100);
  for (std::uint32_t i = 0; i < 200; ++i) {
    ASSERT_THAT(internal::write(*store_, {i, 0}, 0, bytes_), IsOk());
    ASSERT_LE(count(), before + 3 * 5);
  }
  for (std::uint32_t i = 0; i < 200; ++i) {
    ASSERT_THAT(internal::read(*store_, {i, 0}, 0, 100), IsOkAndHolds(bytes_));
    ASSERT_LE(count(), before + 3 * 5);
  }
}

// ---- growing

TEST_F(DiskStoreTest, FilesHaveTheirLengthBeforeDirectWritesBegin) {
  std::vector<Offset> lengths;
  const internal::InterposedCalls calls(directory_.path(), {}, [&](const internal::FileCall& call) {
    if (call.name == "open" || call.path != path(FileKind::kData)) return;
    lengths.push_back(static_cast<Offset>(std::filesystem::file_size(call.path)));
    bytes_ = load_file(call.path);
  });
  open({.direct_from_bytes = kBlockBytes, .use_uring = false});
  const Bytes bytes = random_bytes(random_, 4 * kBlockBytes);
  ASSERT_THAT(internal::write(*store_, kDiskId, 8 * kBlockBytes, bytes), IsOk());
  ASSERT_GE(lengths.size(), 2U);
  EXPECT_EQ(lengths.front(), 12 * kBlockBytes) << "first its length";
  EXPECT_EQ(lengths.back(), 12 * kBlockBytes);
  EXPECT_EQ(slice(8 * kBlockBytes, 12 * kBlockBytes), bytes);
  const Result<SubfileInfo> info = Blocking(*store_).info(kDiskId);
  ASSERT_THAT(info.status(), IsOk());
  EXPECT_EQ(info->length, 12 * kBlockBytes);
  EXPECT_LT(info->stored_bytes, 8 * kBlockBytes) << "what nobody wrote takes no room";
  store_.reset();  // it is still watched
}

// ---- no room

TEST_F(DiskStoreTest, ALimitOfFileSizeIsNoSpace) {
  open();
  bytes_ = random_bytes(random_, 8 * kBlockBytes);
  ASSERT_THAT(internal::write(*store_, kDiskId, 0, slice(0, kBlockBytes)), IsOk());
  ASSERT_THAT(Blocking(*store_).sync(kDiskId), IsOk());
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  rlimit low = limit;
  low.rlim_cur = 3 * kBlockBytes;
  ::setrlimit(RLIMIT_FSIZE, &low);
  const Status status = internal::write(*store_, kDiskId, kBlockBytes, slice(kBlockBytes, 8 * kBlockBytes));
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, previous);
  EXPECT_THAT(status, StatusIs(ErrorCode::kNoSpace, HasSubstr(path(FileKind::kData))));
  EXPECT_THAT(read(0, kBlockBytes), IsOkAndHolds(slice(0, kBlockBytes)));
  EXPECT_THAT(read_all(), IsOk());
  EXPECT_THAT(internal::write(*store_, kDiskId, 0, bytes_), IsOk());
  EXPECT_THAT(Blocking(*store_).sync(kDiskId), IsOk());
  store_.reset();
  EXPECT_THAT(check(), IsEmpty());
}

TEST_F(DiskStoreTest, ReserveOfMoreThanThereIsTakesNothing) {
  open();
  const Result<Usage> before = Blocking(*store_).usage();
  ASSERT_THAT(before.status(), IsOk());
  EXPECT_THAT(Blocking(*store_).reserve(kDiskId, 0, before->capacity_bytes + 1),
              StatusIs(ErrorCode::kNoSpace, HasSubstr("file 42")));
}

TEST_F(DiskStoreTest, TellsItsOwnBytesFromThoseOfTheDisk) {
  open();
  const Result<Offset> empty = Blocking(*store_).stored_bytes();
  ASSERT_THAT(empty, IsOk());
  EXPECT_THAT(internal::write(*store_, kDiskId, 0, bytes_), IsOk());
  EXPECT_THAT(Blocking(*store_).sync(kDiskId), IsOk());
  const Result<Offset> full = Blocking(*store_).stored_bytes();
  ASSERT_THAT(full, IsOk());
  EXPECT_GE(*full, *empty + static_cast<Offset>(bytes_.size()));
  EXPECT_LE(*full, *empty + 2 * static_cast<Offset>(bytes_.size()) + (Offset{1} << 20));
  EXPECT_NE(Blocking(*store_).usage()->disk, 0U);
  EXPECT_THAT(Blocking(*store_).remove(kDiskId), IsOk());
  EXPECT_THAT(Blocking(*store_).stored_bytes(), IsOkAndHolds(*empty));
}

// Fills a small file system to the last byte.  Returns what went wrong, or nothing.
std::string fill_disk(const std::string& directory, const DiskStoreOptions& options) {
  Result<std::unique_ptr<Store>> store = open_disk_store(directory, options);
  if (!store.is_ok()) return store.status().message();
  std::mt19937_64 random{2};
  const Bytes bytes = random_bytes(random, 3 * kBlockBytes);
  Offset length = 0;
  Status status;
  while ((status = internal::write(**store, kDiskId, length, bytes)).is_ok()) length += 3 * kBlockBytes;
  if (status.code() != ErrorCode::kNoSpace) return "full, but: " + status.message();
  const Result<Bytes> first = internal::read(**store, kDiskId, 0, 3 * kBlockBytes);
  if (!first.is_ok() || *first != bytes) return "a full disk spoils what was written before";
  const Result<SubfileInfo> info = Blocking(**store).info(kDiskId);
  if (!info.is_ok()) return info.status().message();
  const Result<Bytes> rest = internal::read(**store, kDiskId, length, info->length - length);
  if (!rest.is_ok() || !std::equal(rest->begin(), rest->end(), bytes.begin())) return "longer than what was written";
  status = Blocking(**store).truncate(kDiskId, 3 * kBlockBytes, 0);
  if (status.is_ok()) status = internal::write(**store, {1, 1}, 0, bytes);
  if (status.is_ok()) status = Blocking(**store).sync({1, 1});
  if (status.is_ok()) status = Blocking(**store).sync(kDiskId);
  if (status.is_ok()) status = Blocking(**store).remove(kDiskId);
  return status.message();
}

TEST_F(DiskStoreTest, AFullDiskSaysSoAndStaysUsable) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer takes a thread of a forked process for one of its parent that has ended";
#endif
  constexpr int kCannotMount = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    // A name space of its own: the mount goes with the process.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", directory_.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
      ::_exit(kCannotMount);
    }
    std::string wrong = fill_disk(directory_.path() + "/store", {});
    if (wrong.empty()) wrong = fill_disk(directory_.path() + "/direct", {.direct_from_bytes = kBlockBytes});
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    ::_exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "may not mount a small file system";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace weir::storage
