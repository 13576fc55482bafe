// Metadata made again from what stores know.

#include <weir/server/rebuild.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/server/internal/assembly.h>
#include <weir/server/internal/testing.h>
#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>
#include <weir/wire/found_files.h>

namespace weir::server {
namespace {

using internal::layout_bytes;
using internal::Metadata;
using internal::TemporaryDirectory;
using internal::user;
using storage::SubfileId;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::SizeIs;
using testing::StatusIs;
using Kind = RebuildFinding::Kind;
namespace fs = std::filesystem;

constexpr std::uint64_t kId = 99;

class RebuildTest : public ::testing::Test {
 protected:
  void SetUp() override { make_stores(2); }

  void make_stores(std::uint32_t servers) {
    for (std::uint32_t i = 0; i < servers; ++i) {
      ASSERT_THAT(storage::open_disk_store(internal::store_path(path(), i), {.label = {kId, i, servers, true}}),
                  IsOk());
    }
  }

  std::string path() { return directory_.path(); }
  std::unique_ptr<storage::Store> store(std::uint32_t server) {
    return std::move(*storage::open_disk_store(internal::store_path(path(), server)));
  }

  static wire::AboutT about(const std::string& path, std::uint64_t data, std::uint32_t element,
                            const std::string& layout = "stripe(unit=4, over=2)") {
    wire::AboutT it;
    it.path = path;
    it.element = element;
    it.attributes = std::make_unique<wire::AttributesT>();
    it.attributes->file = it.attributes->data = data;
    it.attributes->epoch = 1;
    it.attributes->mode = 0640;
    it.attributes->uid = 1234;
    it.attributes->gid = 56;
    it.attributes->changed_ns = 100;
    it.attributes->layout = layout_bytes(layout);
    it.attributes->targets = {0, 1};
    return it;
  }

  void keep(std::uint32_t server, const wire::AboutT& it) {
    const std::vector<std::uint8_t> bytes = wire::encode_about(it);
    ASSERT_THAT(storage::Blocking(*store(server))
                    .keep_about({it.attributes->data, it.element}, std::as_bytes(std::span(bytes))),
                IsOk());
  }
  void write(std::uint32_t server, SubfileId id, const std::string& text, Offset file_end) {
    const storage::WritePiece piece{0, std::as_bytes(std::span(text))};
    ASSERT_THAT(storage::Blocking(*store(server)).write(id, {&piece, 1}, file_end), IsOk());
  }
  // A file of two subfiles, with bytes.
  void make_file(const wire::AboutT& first) {
    keep(0, first);
    wire::AboutT second = about(first.path, first.attributes->data, 1);
    *second.attributes = *first.attributes;
    second.pending = first.pending;
    keep(1, second);
    write(0, {first.attributes->data, 0}, "0000", 8);
    write(1, {first.attributes->data, 1}, "1111", 8);
  }

  RebuildReport run() {
    Result<RebuildReport> report = rebuild({.store = "disk:" + path(), .progress = {}});
    EXPECT_THAT(report, IsOk());
    return report.is_ok() ? *std::move(report) : RebuildReport{};
  }
  Status try_run() { return rebuild({.store = "disk:" + path(), .progress = {}}).status(); }

  // Every file and directory by its path.
  std::map<std::string, wire::AttributesT> names() {
    const auto key_value = storage::open_rocks_key_value(internal::metadata_path(path()));
    EXPECT_THAT(key_value, IsOk());
    internal::expect_consistent(**key_value);
    const auto metadata = Metadata::open(**key_value, {});
    EXPECT_THAT(metadata, IsOk());
    std::map<std::string, wire::AttributesT> all;
    const auto listing = (*metadata)->all_files({});
    EXPECT_THAT(listing, IsOk());
    for (const auto& entry : listing->entries) all[entry->name] = *entry->attributes;
    all.erase("/");
    return all;
  }
  static std::vector<Kind> kinds(const RebuildReport& report) {
    std::vector<Kind> all;
    for (const RebuildFinding& finding : report.findings) all.push_back(finding.kind);
    return all;
  }

  TemporaryDirectory directory_;
};

TEST_F(RebuildTest, NamesLayoutsOwnersAndModesAreBack) {
  make_file(about("/a/b/file", 2000, 0));
  keep(0, about("/never-written", 2001, 0, "stripe(unit=1, over=1)"));
  Offset told = 0;
  const auto report = rebuild({.store = "disk:" + path(), .progress = [&](Offset done, Offset all) {
                                 EXPECT_LE(done, all);
                                 told = done;
                               }});
  ASSERT_THAT(report, IsOk());
  EXPECT_THAT(report->findings, IsEmpty());
  EXPECT_TRUE(report->has_made_metadata);
  EXPECT_EQ(report->files, 2);
  EXPECT_EQ(report->directories, 2);
  EXPECT_EQ(report->subfiles, 3);
  EXPECT_EQ(told, 3);
  auto all = names();
  ASSERT_THAT(all, SizeIs(4));
  const wire::AttributesT& file = all["/a/b/file"];
  EXPECT_EQ(file.file, 2000U);
  EXPECT_EQ(file.data, 2000U);
  EXPECT_EQ(file.mode, 0640U);
  EXPECT_EQ(file.uid, 1234U);
  EXPECT_EQ(file.gid, 56U);
  EXPECT_EQ(file.layout, layout_bytes("stripe(unit=4, over=2)"));
  EXPECT_THAT(file.targets, ElementsAre(0, 1));
  EXPECT_THAT(file.stores, ElementsAre(store(0)->id(), store(1)->id()));
  EXPECT_TRUE(all["/a/b"].is_directory);
  EXPECT_EQ(all["/a"].mode, 0750U) << "for those who may read what is in it";
  EXPECT_EQ(all["/a"].uid, 1234U);
  EXPECT_TRUE(all.contains("/never-written"));
}

TEST_F(RebuildTest, NumbersGoOnBehindAllThatWereUsed) {
  make_file(about("/x", 70'000, 0));
  run();
  const auto key_value = storage::open_rocks_key_value(internal::metadata_path(path()));
  ASSERT_THAT(key_value, IsOk());
  const auto metadata = Metadata::open(**key_value, {});
  const auto made = (*metadata)->create(internal::create_request("/new"), user(0));
  ASSERT_THAT(made, IsOk());
  EXPECT_GT(made->file, 70'000U);
}

// Directories are made first, and must not take the numbers of files.
TEST_F(RebuildTest, FilesKeepTheirNumbers) {
  make_file(about("/d/x", 2, 0));
  EXPECT_THAT(run().findings, IsEmpty());
  EXPECT_EQ(names()["/d/x"].file, 2U);
}

TEST_F(RebuildTest, TheLabelIsThatOfTheStores) {
  make_file(about("/x", 2000, 0));
  run();
  const auto key_value = storage::open_rocks_key_value(internal::metadata_path(path()));
  ASSERT_THAT(key_value, IsOk());
  const auto text = (*key_value)->get(internal::kLabelKey);
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(storage::decode_label(**text).value(), (storage::Label{kId, 0, 2, true}));
}

TEST_F(RebuildTest, SubfilesAreWhereTheyAreFound) {
  wire::AboutT zero = about("/x", 2000, 0);
  wire::AboutT one = about("/x", 2000, 1);
  zero.attributes->targets = one.attributes->targets = {0, 0};  // copied to another server since
  keep(0, zero);
  keep(1, one);
  run();
  EXPECT_THAT(names()["/x"].targets, ElementsAre(0, 1));
}

// A name that was told before the file was renamed, and a file that has it now.
TEST_F(RebuildTest, OfTwoThatClaimANameTheNewerHasIt) {
  wire::AboutT old = about("/x", 2000, 0);
  wire::AboutT young = about("/x", 2001, 0);
  young.attributes->changed_ns = 200;
  make_file(old);
  make_file(young);
  const RebuildReport report = run();
  auto all = names();
  EXPECT_EQ(all["/x"].data, 2001U);
  EXPECT_EQ(all["/x.weir-2000"].data, 2000U);
  ASSERT_THAT(kinds(report), ElementsAre(Kind::kCollision));
  EXPECT_THAT(report.findings[0].what, AllOf(HasSubstr("/x.weir-2000"), HasSubstr("the name /x")));
}

TEST_F(RebuildTest, AFileDoesNotTakeTheNameOfADirectory) {
  make_file(about("/x", 2000, 0));
  make_file(about("/x/y", 2001, 0));
  EXPECT_THAT(kinds(run()), ElementsAre(Kind::kCollision));
  auto all = names();
  EXPECT_TRUE(all["/x"].is_directory);
  EXPECT_EQ(all["/x/y"].data, 2001U);
  EXPECT_EQ(all["/x.weir-2000"].data, 2000U);
}

TEST_F(RebuildTest, LongNamesKeepTheirSuffix) {
  const std::string name = "/" + std::string(255, 'n');
  make_file(about(name, 2000, 0));
  make_file(about(name, 2001, 0));
  EXPECT_THAT(kinds(run()), ElementsAre(Kind::kCollision));
  EXPECT_THAT(names(), SizeIs(2));
}

// What a relayout that did not end was making does not take the place of the file.
TEST_F(RebuildTest, TheFileIsThatBeforeARelayoutThatDidNotEnd) {
  make_file(about("/x", 2000, 0));
  wire::AboutT copy = about("/x", 2001, 0);
  copy.attributes->file = 2000;
  copy.attributes->epoch = 2;
  copy.attributes->changed_ns = 150;
  copy.pending = true;
  make_file(copy);
  run();
  EXPECT_EQ(names()["/x"].data, 2000U);
  EXPECT_EQ(names()["/x.weir-2001"].data, 2001U) << "and nothing is thrown away";
  fs::remove_all(internal::metadata_path(path()));
  copy.pending = false;  // it has ended; only the old subfiles are not removed yet
  make_file(copy);
  run();
  EXPECT_EQ(names()["/x"].data, 2001U);
}

TEST_F(RebuildTest, WhatIsNotKnownGoesToLostAndFound) {
  write(0, {2000, 0}, "abc", 100);
  write(1, {2000, 2}, "defgh", 100);
  const RebuildReport report = run();
  auto all = names();
  ASSERT_TRUE(all.contains("/lost+found/2000"));
  EXPECT_EQ(all["/lost+found"].mode, 0700U);
  const wire::AttributesT& file = all["/lost+found/2000"];
  EXPECT_EQ(file.layout, layout_bytes("falls({(0,2,-,1)} | {} | {(3,7,-,1)})"));
  EXPECT_EQ(file.targets[0], 0U);
  EXPECT_EQ(file.targets[2], 1U);
  EXPECT_EQ(storage::Blocking(*store(0)).info({2000, 0})->file_end, 8) << "the file ends where its subfiles do";
  EXPECT_EQ(storage::Blocking(*store(1)).info({2000, 2})->file_end, 8);
  ASSERT_THAT(kinds(report), ElementsAre(Kind::kLost));
  EXPECT_THAT(report.findings[0].what, AllOf(HasSubstr("/lost+found/2000"), HasSubstr("8 bytes")));
}

TEST_F(RebuildTest, ADamagedSidecarIsReportedAndTheOtherSpeaksForIt) {
  make_file(about("/x", 2000, 0));
  for (const auto& entry : fs::recursive_directory_iterator(internal::store_path(path(), 0))) {
    if (entry.path().extension() == ".about") std::ofstream(entry.path(), std::ios::app) << "more";
  }
  const RebuildReport report = run();
  ASSERT_THAT(kinds(report), ElementsAre(Kind::kSidecar));
  EXPECT_THAT(report.findings[0].what, AllOf(HasSubstr("server 0"), HasSubstr("data 2000"), HasSubstr(".about")));
  EXPECT_THAT(names()["/x"].targets, ElementsAre(0, 1));
}

TEST_F(RebuildTest, SidecarsThatMakeNoSenseAreReported) {
  const auto bad = [&](std::uint64_t data, auto change) {
    wire::AboutT it = about("/bad", data, 0);
    change(it);
    const std::vector<std::uint8_t> bytes = wire::encode_about(it);
    ASSERT_THAT(storage::Blocking(*store(0)).keep_about({data, 0}, std::as_bytes(std::span(bytes))), IsOk());
  };
  bad(1, [](wire::AboutT& it) { it.attributes->data = 7; });
  bad(2, [](wire::AboutT& it) { it.element = 1; });
  bad(3, [](wire::AboutT& it) { it.path = "relative"; });
  bad(4, [](wire::AboutT& it) { it.path = "/a/../b"; });
  bad(5, [](wire::AboutT& it) { it.path = "/"; });
  bad(6, [](wire::AboutT& it) { it.attributes->layout = {1, 2, 3}; });
  bad(7, [](wire::AboutT& it) { it.attributes->layout = layout_bytes("falls(period=8, {(0,1,-,1)})"); });
  bad(8, [](wire::AboutT& it) { it.attributes->is_directory = true; });
  bad(9, [](wire::AboutT& it) { it.attributes->file = 0; });
  ASSERT_THAT(storage::Blocking(*store(0)).keep_about({10, 0}, std::as_bytes(std::span("no table"))), IsOk());
  const RebuildReport report = run();
  EXPECT_THAT(kinds(report), SizeIs(10));
  for (const RebuildFinding& finding : report.findings) EXPECT_EQ(finding.kind, Kind::kSidecar) << finding.what;
  EXPECT_THAT(names(), IsEmpty()) << "there is no byte of any of them";
}

TEST_F(RebuildTest, DamagedBytesKeepTheirName) {
  make_file(about("/x", 2000, 0));
  for (const auto& entry : fs::recursive_directory_iterator(internal::store_path(path(), 1))) {
    if (entry.path().extension() == ".sums") fs::remove(entry.path());
  }
  EXPECT_THAT(kinds(run()), ElementsAre(Kind::kUnreadable));
  EXPECT_TRUE(names().contains("/x"));
}

TEST_F(RebuildTest, DamagedBytesOfWhichNothingIsKnownAreLeftAlone) {
  write(0, {2000, 0}, "abc", 100);
  write(1, {2000, 1}, "def", 100);
  for (const auto& entry : fs::recursive_directory_iterator(internal::store_path(path(), 1))) {
    if (entry.path().extension() == ".sums") fs::remove(entry.path());
  }
  EXPECT_THAT(kinds(run()), ElementsAre(Kind::kUnreadable));
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(storage::Blocking(*store(0)).info({2000, 0})->file_end, 100) << "nothing was changed";
}

TEST_F(RebuildTest, DirectoriesAreForThoseWhoMayReadAllThatIsInThem) {
  wire::AboutT open = about("/d/open", 2000, 0);
  open.attributes->mode = 0644;
  wire::AboutT closed = about("/d/closed", 2001, 0);
  closed.attributes->mode = 0600;
  closed.attributes->uid = 4321;
  make_file(open);
  make_file(closed);
  run();
  auto all = names();
  EXPECT_EQ(all["/d"].mode, 0700U);
  EXPECT_EQ(all["/d"].uid, net::Identity::of_this_process().uid) << "of no single user";
  EXPECT_EQ(all["/d"].gid, 56U);
}

TEST_F(RebuildTest, AMissingStoreIsReplacedAndItsFilesAreNamed) {
  wire::AboutT it = about("/x", 2000, 0);
  it.attributes->stores = {5, 6};
  make_file(it);
  fs::remove_all(path() + "/server-1");
  const RebuildReport report = run();
  EXPECT_THAT(kinds(report), ElementsAre(Kind::kStore, Kind::kIncomplete));
  EXPECT_THAT(report.findings[1].what, AllOf(HasSubstr("/x"), HasSubstr("subfile 1"), HasSubstr("server 1")));
  EXPECT_EQ(storage::read_disk_label(internal::store_path(path(), 1)).value(), (storage::Label{kId, 1, 2, true}));
  EXPECT_THAT(names()["/x"].stores, ElementsAre(store(0)->id(), 6)) << "the store that had its bytes is lost";
}

TEST_F(RebuildTest, OneSubfileOfWhichNothingIsLeftIsReported) {
  keep(0, about("/x", 2000, 0));
  const RebuildReport report = run();
  ASSERT_THAT(kinds(report), ElementsAre(Kind::kIncomplete));
  EXPECT_THAT(report.findings[0].what, HasSubstr("nothing is left of subfile 1"));
}

TEST_F(RebuildTest, MetadataThatIsThereIsLeftAsItIs) {
  make_file(about("/x", 2000, 0));
  run();
  make_file(about("/y", 2001, 0));
  const RebuildReport report = run();
  EXPECT_FALSE(report.has_made_metadata);
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_FALSE(names().contains("/y"));
  fs::remove(internal::metadata_path(path()) + "/CURRENT");
  EXPECT_THAT(try_run(), StatusIs(ErrorCode::kCorrupt, HasSubstr("move it away")));
  EXPECT_FALSE(fs::is_empty(internal::metadata_path(path())));
}

TEST_F(RebuildTest, ADraftThatACrashLeftIsNoHindrance) {
  make_file(about("/x", 2000, 0));
  const std::string draft = internal::metadata_path(path()) + ".rebuilding";
  fs::create_directories(draft);
  std::ofstream(draft + "/CURRENT") << "half";
  fs::create_directories(internal::metadata_path(path()));  // and an empty folder in the place
  EXPECT_THAT(run().findings, IsEmpty());
  EXPECT_FALSE(fs::exists(draft));
  EXPECT_TRUE(names().contains("/x"));
}

TEST_F(RebuildTest, DoneAgainItGivesTheSame) {
  make_file(about("/a/x", 2000, 0));
  write(0, {2001, 0}, "lost", 100);
  run();
  const auto first = names();
  fs::remove_all(internal::metadata_path(path()));
  run();
  const auto second = names();
  ASSERT_EQ(first.size(), second.size());
  for (const auto& [name, attributes] : first) EXPECT_EQ(second.at(name).data, attributes.data) << name;
  EXPECT_EQ(second.at("/lost+found/2001").layout, first.at("/lost+found/2001").layout);
}

TEST_F(RebuildTest, RefusesWhatItCannotDo) {
  EXPECT_THAT(rebuild({.store = "memory", .progress = {}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(rebuild({.store = "disk:" + path() + "/nothing", .progress = {}}), StatusIs(ErrorCode::kNotFound));
  const auto in_use = store(1);
  EXPECT_THAT(try_run(), StatusIs(ErrorCode::kUnavailable, HasSubstr("in use")));
}

TEST_F(RebuildTest, OneThatWasNeverCompleteHasNothingToRebuild) {
  const TemporaryDirectory other;
  ASSERT_THAT(storage::open_disk_store(internal::store_path(other.path(), 0), {.label = {3, 0, 0, false}}), IsOk());
  EXPECT_THAT(rebuild({.store = "disk:" + other.path(), .progress = {}}),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("never complete")));
}

TEST(FoundFilesTest, LayoutAndNameMayComeFromDifferentSubfiles) {
  std::vector<wire::FoundSubfile> subfiles(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    auto about = std::make_shared<wire::AboutT>();
    about->path = i == 2 ? "/new" : "/old";
    about->element = i;
    about->attributes = std::make_unique<wire::AttributesT>();
    about->attributes->file = about->attributes->data = 5;
    about->attributes->changed_ns = i;
    if (i == 0) about->attributes->layout = layout_bytes("stripe(unit=4, over=3)");
    subfiles[i] = {i % 2, {5, i}, {}, about, false};
  }
  const auto file = wire::put_file_together(5, subfiles, 2);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->path, "/new");
  EXPECT_EQ(file->attributes.layout, layout_bytes("stripe(unit=4, over=3)"));
  EXPECT_THAT(file->attributes.targets, ElementsAre(0, 1, 0));
}

TEST(FoundFilesTest, ASubfileOnTwoServersIsTakenWhereItBelongs) {
  auto about = std::make_shared<wire::AboutT>();
  about->path = "/x";
  about->attributes = std::make_unique<wire::AttributesT>();
  about->attributes->file = about->attributes->data = 5;
  about->attributes->layout = layout_bytes("stripe(unit=4, over=1)");
  about->attributes->targets = {1};
  for (const bool first_is_right : {true, false}) {
    const std::uint32_t a = first_is_right ? 1 : 0;
    const auto file = wire::put_file_together(5, {{a, {5, 0}, {}, about, false}, {1 - a, {5, 0}, {}, about, false}}, 2);
    ASSERT_TRUE(file);
    EXPECT_THAT(file->attributes.targets, ElementsAre(1));
    ASSERT_THAT(file->notes, SizeIs(1));
    EXPECT_THAT(file->notes[0], HasSubstr("server 0 is left out"));
  }
}

}  // namespace
}  // namespace weir::server
