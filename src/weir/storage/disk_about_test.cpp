// What a disk store keeps beside a subfile: when it is there, when it is durable, and what damage to it does.

#include <weir/storage/disk_store.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/storage/blocking.h>
#include <weir/storage/internal/disk_about.h>
#include <weir/storage/internal/disk_files.h>
#include <weir/storage/internal/disk_testing.h>
#include <weir/storage/internal/interposed_calls.h>

namespace weir::storage {
namespace {

using internal::Bytes;
using internal::FileKind;
using internal::load_file;
using internal::save_file;
using internal::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::weir::testing::IsOk;
using ::weir::testing::IsOkAndHolds;
using ::weir::testing::StatusIs;
using Kind = DiskFinding::Kind;

constexpr SubfileId kAboutId{42, 3};

Bytes text(std::string_view words) {
  const auto* begin = reinterpret_cast<const std::byte*>(words.data());
  return {begin, begin + words.size()};
}

class DiskAboutTest : public ::testing::Test {
 protected:
  void open() {
    store_.reset();
    auto opened = open_disk_store(directory_.path(), {.use_uring = false});
    ASSERT_THAT(opened, IsOk());
    store_ = std::move(*opened);
  }
  void SetUp() override {
    open();
    calls_.clear();
  }

  // Syncs of directories; those of files are by fdatasync.
  [[nodiscard]] std::vector<std::string> folder_syncs() const {
    std::vector<std::string> calls = calls_.done();
    std::erase_if(calls, [](const std::string& call) { return !call.starts_with("fsync "); });
    return calls;
  }
  // Whether the last thing that happened to the contents of files of this kind was a sync.
  [[nodiscard]] bool is_durable(const std::string& extension) const {
    const std::vector<std::string> calls = calls_.done();
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      if (!call->ends_with(extension) || call->starts_with("rename")) continue;
      return call->starts_with("fsync") || call->starts_with("fdatasync");
    }
    return false;
  }

  std::string path(FileKind kind) { return path_of(directory_.path(), {kAboutId, 0}, kind); }
  bool has(FileKind kind) { return std::filesystem::exists(path(kind)); }
  void write() { ASSERT_THAT(internal::write(*store_, kAboutId, 0, text("bytes")), IsOk()); }
  void keep(std::string_view words) { ASSERT_THAT(Blocking(*store_).keep_about(kAboutId, text(words)), IsOk()); }

  std::vector<Kind> check() {
    store_.reset();
    const Result<DiskCheck> report = check_disk_store(directory_.path());
    EXPECT_THAT(report.status(), IsOk());
    std::vector<Kind> kinds;
    for (const DiskFinding& finding : report->findings) kinds.push_back(finding.kind);
    return kinds;
  }

  TemporaryDirectory directory_;
  internal::InterposedCalls calls_{directory_.path()};
  std::unique_ptr<Store> store_;
};

TEST_F(DiskAboutTest, IsKeptOfSubfilesWrittenOrNot) {
  EXPECT_TRUE(store_->capabilities().keeps_about);
  EXPECT_THAT(Blocking(*store_).kept_about(kAboutId), IsOkAndHolds(std::optional<Bytes>{}));
  keep("first");
  EXPECT_THAT(Blocking(*store_).kept_about(kAboutId), IsOkAndHolds(Optional(text("first"))));
  EXPECT_THAT(Blocking(*store_).list(), IsOkAndHolds(IsEmpty())) << "it takes no room";
  EXPECT_THAT(Blocking(*store_).list_abouts(), IsOkAndHolds(ElementsAre(kAboutId)));
  EXPECT_THAT(internal::read(*store_, kAboutId, 0, 3), IsOkAndHolds(Bytes(3)));
  write();
  EXPECT_THAT(Blocking(*store_).kept_about(kAboutId), IsOkAndHolds(Optional(text("first"))));
  keep("second, longer");
  keep("3rd");
  open();
  EXPECT_THAT(Blocking(*store_).kept_about(kAboutId), IsOkAndHolds(Optional(text("3rd"))));
  EXPECT_THAT(Blocking(*store_).list_abouts(), IsOkAndHolds(ElementsAre(kAboutId)));
  EXPECT_THAT(check(), IsEmpty());
}

TEST_F(DiskAboutTest, ItsNameTellsWhetherTheSubfileWasWritten) {
  keep("x");
  EXPECT_TRUE(has(FileKind::kEmpty) && !has(FileKind::kAbout));
  write();
  EXPECT_TRUE(!has(FileKind::kEmpty) && has(FileKind::kAbout));
  keep("y");
  EXPECT_TRUE(!has(FileKind::kEmpty) && has(FileKind::kAbout) && !has(FileKind::kDraft));
}

TEST_F(DiskAboutTest, IsDurableWithTheNextSync) {
  keep("never written");
  EXPECT_FALSE(is_durable(".empty"));
  ASSERT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
  EXPECT_TRUE(is_durable(".empty"));
  write();
  keep("written");
  calls_.clear();
  ASSERT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
  EXPECT_TRUE(is_durable(".about"));
  calls_.clear();
  ASSERT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
  EXPECT_THAT(calls_.done(), IsEmpty()) << "nothing is left to do";
}

TEST_F(DiskAboutTest, ItsNameAndItsFolderAreDurableWithTheNextSync) {
  const std::string folder = "fsync " + internal::folder_of(kAboutId);
  keep("never written");
  EXPECT_EQ(calls_.count("fsync"), 0);
  ASSERT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
  EXPECT_THAT(folder_syncs(), ElementsAre(folder, "fsync ."));
  calls_.clear();
  keep("of a subfile that is not dirty");
  ASSERT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
  EXPECT_THAT(folder_syncs(), ElementsAre(folder));
  calls_.clear();
  write();
  ASSERT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
  EXPECT_THAT(folder_syncs(), ElementsAre(folder)) << "once for the sidecar and the subfile";
  calls_.clear();
  write();
  keep("of one that is");
  ASSERT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
  EXPECT_THAT(folder_syncs(), ElementsAre(folder));
}

// A torn new one would take the old one's place.
TEST_F(DiskAboutTest, OneThatReplacesAnotherIsDurableBeforeItHasItsName) {
  keep("old");
  EXPECT_FALSE(is_durable(".draft")) << "nothing to lose yet";
  keep("new");
  EXPECT_TRUE(is_durable(".draft"));
}

TEST_F(DiskAboutTest, TheSameAgainIsNotWrittenAgain) {
  keep("same");
  calls_.clear();
  keep("same");
  EXPECT_THAT(calls_.done(), IsEmpty());
}

TEST_F(DiskAboutTest, ClosingMakesManyDurableInOneGo) {
  for (std::uint32_t i = 0; i < 20; ++i) ASSERT_THAT(Blocking(*store_).keep_about({7, i}, text("x")), IsOk());
  open();
  EXPECT_THAT(Blocking(*store_).kept_about({7, 19}), IsOkAndHolds(Optional(text("x"))));
  EXPECT_FALSE(is_durable(".empty")) << "one sync of the file system, instead of each";
  EXPECT_THAT(calls_.count("syncfs"), ::testing::AllOf(::testing::Ge(1), ::testing::Le(2)));
}

TEST_F(DiskAboutTest, GoesWithTheSubfile) {
  keep("x");
  write();
  ASSERT_THAT(Blocking(*store_).remove(kAboutId), IsOk());
  EXPECT_THAT(Blocking(*store_).kept_about(kAboutId), IsOkAndHolds(std::optional<Bytes>{}));
  EXPECT_THAT(Blocking(*store_).list_abouts(), IsOkAndHolds(IsEmpty()));
  keep("never written");
  ASSERT_THAT(Blocking(*store_).remove(kAboutId), IsOk());
  EXPECT_THAT(Blocking(*store_).list_abouts(), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
}

// Removal begins with it: what a crash then leaves has no name that a removed file could come back by.
TEST_F(DiskAboutTest, GoesFirst) {
  keep("x");
  write();
  std::filesystem::remove(path(FileKind::kData));
  std::filesystem::create_directories(path(FileKind::kData) + "/in the way");  // the removal stops here
  EXPECT_FALSE(Blocking(*store_).remove(kAboutId).is_ok());
  EXPECT_FALSE(has(FileKind::kAbout));
  EXPECT_TRUE(has(FileKind::kGone));
}

TEST_F(DiskAboutTest, EveryDamagedByteIsFoundAndTheBytesStayReadable) {
  keep("what is known");
  write();
  ASSERT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
  const Bytes good = load_file(path(FileKind::kAbout));
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bad = good;
    bad[at] ^= std::byte{1};
    save_file(path(FileKind::kAbout), bad);
    EXPECT_THAT(Blocking(*store_).kept_about(kAboutId),
                StatusIs(ErrorCode::kCorrupt, HasSubstr(path(FileKind::kAbout))))
        << at;
  }
  save_file(path(FileKind::kAbout), Bytes(good.begin(), good.end() - 1));
  EXPECT_THAT(Blocking(*store_).kept_about(kAboutId), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(internal::read(*store_, kAboutId, 0, 5), IsOkAndHolds(text("bytes")));
  EXPECT_THAT(check(), ElementsAre(Kind::kDamagedAbout));
  open();
  keep("told again");
  EXPECT_THAT(Blocking(*store_).kept_about(kAboutId), IsOkAndHolds(Optional(text("told again"))));
  EXPECT_THAT(check(), IsEmpty());
}

TEST_F(DiskAboutTest, ThatOfAnotherSubfileIsDamage) {
  keep("x");
  save_file(path(FileKind::kEmpty), internal::encode_about({42, 4}, text("x")));
  EXPECT_THAT(Blocking(*store_).kept_about(kAboutId), StatusIs(ErrorCode::kCorrupt, HasSubstr("another subfile")));
}

TEST_F(DiskAboutTest, DataAndChecksumsThatAreBothGoneAreFound) {
  keep("x");
  write();
  ASSERT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
  store_.reset();
  std::filesystem::remove(path(FileKind::kData));
  std::filesystem::remove(path(FileKind::kSums));
  EXPECT_THAT(check(), ElementsAre(Kind::kMissingData));
  open();
  EXPECT_THAT(Blocking(*store_).info(kAboutId), StatusIs(ErrorCode::kCorrupt, HasSubstr("both gone")));
  EXPECT_THAT(internal::read(*store_, kAboutId, 0, 5), StatusIs(ErrorCode::kCorrupt)) << "zeros would hide the loss";
  EXPECT_THAT(internal::write(*store_, kAboutId, 0, text("new")), StatusIs(ErrorCode::kCorrupt));
  keep("its new name");
  EXPECT_THAT(Blocking(*store_).kept_about(kAboutId), IsOkAndHolds(Optional(text("its new name"))));
  EXPECT_THAT(Blocking(*store_).info(kAboutId), StatusIs(ErrorCode::kCorrupt, HasSubstr("both gone"))) << "still";
  EXPECT_THAT(Blocking(*store_).remove(kAboutId), IsOk());
  EXPECT_THAT(internal::write(*store_, kAboutId, 0, text("new")), IsOk());
}

// A crash between the steps of Create: the first use afterwards does the last one.
TEST_F(DiskAboutTest, ACrashWhileTheSubfileIsMadeIsMendedByTheNextUse) {
  keep("x");
  write();
  store_.reset();
  std::filesystem::rename(path(FileKind::kAbout), path(FileKind::kEmpty));
  open();
  EXPECT_THAT(internal::read(*store_, kAboutId, 0, 5), IsOkAndHolds(text("bytes")));
  EXPECT_TRUE(has(FileKind::kAbout) && !has(FileKind::kEmpty));
  store_.reset();
  std::filesystem::rename(path(FileKind::kAbout), path(FileKind::kEmpty));
  open();
  keep("newer");  // before the subfile is used
  EXPECT_THAT(internal::read(*store_, kAboutId, 0, 5), IsOkAndHolds(text("bytes")));
  EXPECT_THAT(Blocking(*store_).kept_about(kAboutId), IsOkAndHolds(Optional(text("newer"))))
      << "the old one must not come back";
}

TEST_F(DiskAboutTest, ADraftThatACrashLeftIsNoFinding) {
  write();
  store_.reset();
  save_file(path(FileKind::kDraft), text("half"));
  EXPECT_THAT(check(), IsEmpty());
  open();
  keep("whole");
  EXPECT_FALSE(has(FileKind::kDraft));
}

TEST_F(DiskAboutTest, ASubfileWithoutItsChecksumsIsListed) {
  write();
  ASSERT_THAT(Blocking(*store_).sync(kAboutId), IsOk());
  store_.reset();
  std::filesystem::remove(path(FileKind::kSums));
  open();
  EXPECT_THAT(Blocking(*store_).list(), IsOkAndHolds(ElementsAre(kAboutId)))
      << "its data is there, and somebody may want it";
}

}  // namespace
}  // namespace weir::storage
