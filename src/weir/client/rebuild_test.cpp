// A file system on disk that loses something: what fsck says, and that every byte and name comes back.

#include <weir/server/rebuild.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/base/text.h>
#include <weir/client/testing/cluster.h>
#include <weir/embedded/embedded.h>
#include <weir/layout/language.h>
#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/faulty_store.h>
#include <weir/storage/memory_store.h>
#include <weir/wire/wire.h>

namespace weir::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::SizeIs;
using testing::StatusIs;
using testing::TemporaryDirectory;
namespace fs = std::filesystem;

using Bytes = std::vector<std::byte>;

class LossTest : public ::testing::Test {
 protected:
  void up() {
    auto started = try_up();
    ASSERT_THAT(started, IsOk());
    up_.emplace(std::move(*started));
  }
  Result<Embedded> try_up(int servers = 2) { return embedded({.servers = servers, .store = "disk:" + path()}); }
  void down() { up_.reset(); }
  void SetUp() override { up(); }

  [[nodiscard]] const FileSystem& fs() const { return up_->file_system(); }
  std::string path() { return directory_.path() + "/fs"; }
  std::string metadata() { return path() + "/server-0/metadata"; }
  std::string store(int server) { return concat(path(), "/server-", server, "/store"); }

  static Bytes contents(std::size_t size, unsigned seed) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed * 7 + i / 256) & 0xff);
    return bytes;
  }
  File make(const std::string& path, std::size_t size, unsigned seed,
            const std::string& layout = "stripe(unit=1000, over=3)", std::uint32_t mode = 0644) {
    const auto file = fs().create(path, *layout::parse(layout), {.mode = mode});
    EXPECT_THAT(file, IsOk());
    if (size > 0) {
      EXPECT_THAT(file->linear()->write(0, contents(size, seed)), IsOk());
    }
    return *file;
  }
  Bytes read(const std::string& path) {
    const auto file = fs().open(path);
    EXPECT_THAT(file, IsOk()) << path;
    if (!file.is_ok()) return {};
    Bytes bytes(static_cast<std::size_t>(*file->size()));
    EXPECT_THAT(file->linear()->read(0, bytes), IsOk()) << path;
    return bytes;
  }
  CheckReport check(bool repair = false) {
    const auto report = fs().check({.repair = repair, .read_data = false, .progress = {}});
    EXPECT_THAT(report, IsOk());
    return report.is_ok() ? *report : CheckReport{};
  }
  static std::vector<Finding::Kind> kinds(const CheckReport& report) {
    std::vector<Finding::Kind> all;
    for (const Finding& finding : report.findings) all.push_back(finding.kind);
    return all;
  }
  std::vector<std::string> files_in(const std::string& folder, const std::string& extension) {
    std::vector<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == extension) all.push_back(entry.path());
    }
    return all;
  }

  TemporaryDirectory directory_;
  std::optional<Embedded> up_;
};

TEST_F(LossTest, WithoutItsMetadataEveryByteAndEveryNameComesBack) {
  ASSERT_THAT(fs().make_directory("/results"), IsOk());
  ASSERT_THAT(fs().make_directory("/results/2026"), IsOk());
  const File synced = make("/results/2026/synced", 50'000, 1);
  ASSERT_THAT(synced.sync(), IsOk());
  make("/results/closed-only", 7'000, 2, "stripe(unit=64, over=2)", 0600);
  make("/before", 9'000, 3, "hpf(shape=[30,300], dist=(*,BLOCK), grid=[1,3])");
  ASSERT_THAT(fs().rename("/before", "/results/after"), IsOk());
  make("/relaid", 20'000, 4);
  ASSERT_THAT(fs().relayout("/relaid", *layout::parse("stripe(unit=7, over=5)")), IsOk());
  make("/empty", 0, 0);
  make("/replaced", 100, 5);
  make("/draft", 200, 6);
  ASSERT_THAT(fs().rename("/draft", "/replaced"), IsOk());
  make("/removed", 100, 7);
  ASSERT_THAT(fs().remove("/removed"), IsOk());
  ASSERT_THAT(fs().set_mode("/relaid", 0640), IsOk());
  down();

  fs::remove_all(metadata());
  EXPECT_THAT(try_up(), StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr(metadata()), HasSubstr("--rebuild"))));
  const auto report = server::rebuild({.store = "disk:" + path(), .progress = {}});
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->findings.empty()) << report->findings[0].what;
  up();
  EXPECT_EQ(read("/results/2026/synced"), contents(50'000, 1));
  EXPECT_EQ(read("/results/closed-only"), contents(7'000, 2));
  EXPECT_EQ(read("/results/after"), contents(9'000, 3));
  EXPECT_EQ(read("/relaid"), contents(20'000, 4));
  EXPECT_EQ(read("/empty"), Bytes());
  EXPECT_EQ(read("/replaced"), contents(200, 6));
  EXPECT_EQ(report->files, 6);
  EXPECT_EQ(report->directories, 2);
  EXPECT_EQ(layout::print(*fs().stat("/relaid")->layout), "stripe(unit=7, over=5)");
  EXPECT_EQ(fs().stat("/relaid")->mode, 0640U);
  EXPECT_EQ(fs().stat("/results/closed-only")->mode, 0600U);
  EXPECT_THAT(check().findings, IsEmpty());
  EXPECT_EQ(check().stale_sidecars, 0);
  // Life goes on, with numbers that no file had.
  make("/new", 3'000, 8);
  EXPECT_EQ(read("/new"), contents(3'000, 8));
  EXPECT_EQ(read("/relaid"), contents(20'000, 4));
}

TEST_F(LossTest, AnotherNumberOfServersIsRefused) {
  make("/x", 5'000, 1);
  down();
  EXPECT_THAT(try_up(1), StatusIs(ErrorCode::kInvalidArgument, AllOf(HasSubstr("2 servers"), HasSubstr("start 2"))));
  EXPECT_THAT(try_up(3), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("2 servers")));
  up();
  EXPECT_EQ(read("/x"), contents(5'000, 1));
}

TEST_F(LossTest, OrphansGetANameWithAllThatIsKnown) {
  down();
  fs::copy(metadata(), directory_.path() + "/old-copy", fs::copy_options::recursive);
  up();
  ASSERT_THAT(fs().make_directory("/d"), IsOk());
  make("/d/kept", 10'000, 1, "stripe(unit=100, over=2)", 0640);
  down();
  fs::remove_all(metadata());
  fs::rename(directory_.path() + "/old-copy", metadata());  // metadata from before the file was made
  up();
  const CheckReport found = check();
  EXPECT_THAT(kinds(found), ElementsAre(Finding::Kind::kOrphan)) << "one for the file, not for each subfile";
  EXPECT_THAT(found.findings[0].what, AllOf(HasSubstr("/d/kept"), HasSubstr("10000 bytes")));
  EXPECT_THAT(fs().list("/"), testing::IsOkAndHolds(IsEmpty())) << "only looked";

  const CheckReport repaired = check(true);
  ASSERT_THAT(kinds(repaired), ElementsAre(Finding::Kind::kOrphan));
  EXPECT_TRUE(repaired.findings[0].is_repaired);
  const auto lost = fs().list("/lost+found");
  ASSERT_THAT(lost, IsOk());
  ASSERT_THAT(*lost, SizeIs(1));
  EXPECT_THAT((*lost)[0].name, HasSubstr(".kept"));
  const std::string path = "/lost+found/" + (*lost)[0].name;
  EXPECT_THAT(repaired.findings[0].what, HasSubstr(path));
  EXPECT_EQ(read(path), contents(10'000, 1));
  EXPECT_EQ(fs().stat(path)->mode, 0640U);
  EXPECT_EQ(layout::print(*fs().stat(path)->layout), "stripe(unit=100, over=2)");
  EXPECT_THAT(check().findings, IsEmpty());
  // It is an ordinary file from now on: moved back, and known by that name.
  ASSERT_THAT(fs().rename(path, "/kept"), IsOk());
  EXPECT_EQ(check().stale_sidecars, 0);
  ASSERT_THAT(fs().remove("/kept"), IsOk());
  EXPECT_THAT(files_in(directory_.path(), ".data"), IsEmpty());
}

TEST_F(LossTest, OrphansOfWhichNothingIsKnownKeepEveryByte) {
  down();
  fs::copy(metadata(), directory_.path() + "/old-copy", fs::copy_options::recursive);
  up();
  make("/x", 2'500, 1, "stripe(unit=1000, over=2)");
  down();
  fs::remove_all(metadata());
  fs::rename(directory_.path() + "/old-copy", metadata());
  for (const int server : {0, 1}) {
    for (const std::string& file : files_in(store(server), ".about")) fs::remove(file);
  }
  up();
  EXPECT_TRUE(check(true).findings.at(0).is_repaired);
  const auto lost = fs().list("/lost+found");
  ASSERT_THAT(*lost, SizeIs(1));
  // The subfiles one after the other: bytes 0 to 999 and 2000 to 2499, then 1000 to 1999.
  const Bytes all = contents(2'500, 1);
  Bytes expected(all.begin(), all.begin() + 1000);
  expected.insert(expected.end(), all.begin() + 2000, all.end());
  expected.insert(expected.end(), all.begin() + 1000, all.begin() + 2000);
  EXPECT_EQ(read("/lost+found/" + (*lost)[0].name), expected);
  EXPECT_THAT(check().findings, IsEmpty());
}

TEST_F(LossTest, OrphansEndWhereTheirBytesDo) {
  down();
  fs::copy(metadata(), directory_.path() + "/old-copy", fs::copy_options::recursive);
  up();
  make("/x", 2'500, 1, "stripe(unit=1000, over=2)");
  const std::uint32_t second = fs().open("/x")->targets()[1];
  down();
  fs::remove_all(metadata());
  fs::rename(directory_.path() + "/old-copy", metadata());
  for (const char* extension : {".about", ".data", ".sums"}) {
    for (const std::string& file : files_in(store(static_cast<int>(second)), extension)) fs::remove(file);
  }
  for (const std::string& file : files_in(path(), ".about")) fs::remove(file);
  up();
  EXPECT_TRUE(check(true).findings.at(0).is_repaired);
  const auto lost = fs().list("/lost+found");
  ASSERT_THAT(*lost, SizeIs(1));
  EXPECT_EQ(read("/lost+found/" + (*lost)[0].name).size(), 1'500U) << "not where the file did";
}

TEST_F(LossTest, ASubfileThatIsNotWhereItsFileHasItIsLeftAlone) {
  make("/x", 100, 1, "stripe(unit=1000, over=1)");
  const std::uint32_t target = fs().open("/x")->targets()[0];
  down();
  for (const char* extension : {".data", ".sums"}) {
    for (const std::string& file : files_in(store(static_cast<int>(target)), extension)) {
      const fs::path copy = store(static_cast<int>(1 - target)) / fs::relative(file, store(static_cast<int>(target)));
      fs::create_directories(copy.parent_path());
      fs::copy(file, copy);
    }
  }
  up();
  const CheckReport report = check(true);
  ASSERT_THAT(kinds(report), ElementsAre(Finding::Kind::kOrphan));
  EXPECT_THAT(report.findings[0].what, HasSubstr("left alone"));
  EXPECT_FALSE(report.findings[0].is_repaired);
  EXPECT_THAT(files_in(path(), ".data"), SizeIs(2));
  EXPECT_THAT(fs().list("/lost+found"), StatusIs(ErrorCode::kNotFound)) << "two files would have the same data";
}

TEST_F(LossTest, ARelayoutThatHasEndedIsTold) {
  make("/x", 5'000, 1);
  ASSERT_THAT(fs().relayout("/x", *layout::parse("stripe(unit=7, over=5)")), IsOk());
  EXPECT_EQ(check().stale_sidecars, 0);
}

TEST_F(LossTest, DataAndChecksumsThatAreBothGoneAreFound) {
  make("/x", 5'000, 1);
  down();
  for (const std::string extension : {".data", ".sums"}) {
    for (const std::string& file : files_in(store(1), extension)) fs::remove(file);
  }
  up();
  const CheckReport report = check();
  ASSERT_FALSE(report.findings.empty());
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.kind, Finding::Kind::kUnreadable);
    EXPECT_THAT(finding.what, AllOf(HasSubstr("/x: subfile"), HasSubstr("on server 1"), HasSubstr("both gone")));
  }
}

TEST_F(LossTest, AStoreThatWasReplacedIsFound) {
  make("/x", 5'000, 1);
  down();
  fs::remove_all(path() + "/server-1");
  EXPECT_THAT(try_up(), StatusIs(ErrorCode::kCorrupt, HasSubstr(store(1))));
  const auto rebuilt = server::rebuild({.store = "disk:" + path(), .progress = {}});
  ASSERT_THAT(rebuilt, IsOk());
  EXPECT_FALSE(rebuilt->has_made_metadata);
  ASSERT_THAT(rebuilt->findings, SizeIs(1));
  EXPECT_THAT(rebuilt->findings[0].what, HasSubstr(store(1)));
  up();
  const CheckReport report = check();
  ASSERT_FALSE(report.findings.empty());
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.kind, Finding::Kind::kMissing);
    EXPECT_THAT(finding.what, AllOf(HasSubstr("/x"), HasSubstr("server 1"), HasSubstr("lost")));
  }
  make("/y", 5'000, 2);
  EXPECT_EQ(read("/y"), contents(5'000, 2)) << "new files are fine";
}

TEST_F(LossTest, SidecarsOutOfDateAreRefreshedAndDamagedOnesReported) {
  ASSERT_THAT(fs().make_directory("/a"), IsOk());
  make("/a/x", 5'000, 1);
  ASSERT_THAT(fs().rename("/a", "/b"), IsOk());  // of the file nothing is told
  EXPECT_EQ(check().stale_sidecars, 3);
  EXPECT_THAT(check().findings, IsEmpty()) << "no fault";
  EXPECT_EQ(check(true).refreshed_sidecars, 3);
  EXPECT_EQ(check().stale_sidecars, 0);
  const std::vector<std::string> sidecars = files_in(store(0), ".about");
  ASSERT_FALSE(sidecars.empty());
  std::ofstream(sidecars[0], std::ios::app) << "x";
  EXPECT_THAT(kinds(check()), ElementsAre(Finding::Kind::kSidecar));
  const CheckReport repaired = check(true);
  ASSERT_THAT(kinds(repaired), ElementsAre(Finding::Kind::kSidecar));
  EXPECT_THAT(repaired.findings[0].what, AllOf(HasSubstr("/b/x"), HasSubstr(sidecars[0])));
  EXPECT_TRUE(repaired.findings[0].is_repaired);
  EXPECT_THAT(check().findings, IsEmpty());
}

TEST_F(LossTest, SyncTellsTheNameThatTheFileHasNow) {
  ASSERT_THAT(fs().make_directory("/a"), IsOk());
  make("/a/x", 5'000, 1);
  ASSERT_THAT(fs().rename("/a", "/b"), IsOk());
  const auto file = fs().open("/b/x");
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT(file->sync(), IsOk());
  EXPECT_EQ(check().stale_sidecars, 0);
}

TEST_F(LossTest, ASyncThroughAnOldNameDoesNotUndoARename) {
  make("/old", 5'000, 1);
  const auto file = fs().open("/old");
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT(fs().rename("/old", "/new"), IsOk());
  ASSERT_THAT(file->sync(), IsOk());
  EXPECT_EQ(check().stale_sidecars, 0);
}

TEST_F(LossTest, FilesWithManySubfilesAreDescribedBySync) {
  const File file = make("/many", 3'000, 1, "stripe(unit=10, over=400)");
  ASSERT_THAT(file.sync(), IsOk());
  EXPECT_EQ(check().stale_sidecars, 0);
  down();
  fs::remove_all(metadata());
  const auto report = server::rebuild({.store = "disk:" + path(), .progress = {}});
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->findings.empty()) << report->findings[0].what;
  up();
  EXPECT_EQ(read("/many"), contents(3'000, 1));
}

// ---------------------------------------------------------------- with stores of the test's own

using internal::Cluster;
using storage::FaultOptions;
using storage::Faults;

std::unique_ptr<storage::KeyValue> share(const std::shared_ptr<storage::KeyValue>& map,
                                         const std::shared_ptr<Faults>& faults) {
  return std::make_unique<storage::FaultyKeyValue>(map, faults);
}

// Only stores on disk can tell how many servers made them; fsck looks all the same.
TEST(MissingTargetTest, ServersAndStoresThatAFileHasBytesOnAndThatAreNotThereAreFound) {
  const std::shared_ptr<storage::KeyValue> names = storage::make_memory_key_value();
  const auto never = std::make_shared<Faults>(FaultOptions{});
  const auto make = [&](int server) {
    return Cluster::Stores{*storage::make_memory_store({}), server == 0 ? share(names, never) : nullptr};
  };
  {
    const Cluster two({.servers = 2}, make);
    ASSERT_THAT(two.connect().create("/x", *layout::parse("stripe(unit=4, over=2)"), {.targets = {0, 1}}), IsOk());
  }
  const Cluster one({.servers = 1}, make);
  const auto report = one.connect().check();
  ASSERT_THAT(report, IsOk());
  ASSERT_THAT(report->findings, SizeIs(2));
  for (const Finding& finding : report->findings) EXPECT_EQ(finding.kind, Finding::Kind::kMissing);
  EXPECT_THAT(report->findings[0].what, AllOf(HasSubstr("/x: subfile 0"), HasSubstr("that is lost")));
  EXPECT_THAT(report->findings[1].what, AllOf(HasSubstr("/x: subfile 1"), HasSubstr("only 1 targets")));
}

TEST(UnfinishedRelayoutTest, ItsCopiesGoAndTheFileStays) {
  const Cluster cluster({.store = "disk", .servers = 1});
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/x", *layout::parse("stripe(unit=4, over=1)"));
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT(file->linear()->write(0, Bytes(100, std::byte{1})), IsOk());
  const auto session = *internal::Session::connect(cluster.addresses(), cluster.key(), {});
  wire::BeginRelayoutT begin;
  begin.path = "/x";
  begin.layout = wire::to_bytes(*layout::parse("stripe(unit=8, over=1)"));
  const auto after = session->call<wire::AttributesT>(0, std::move(begin));
  ASSERT_THAT(after, IsOk());
  wire::WritePiecesT copy;
  copy.subfile = std::make_unique<wire::Subfile>(after->data, 0);
  copy.pieces.emplace_back(0, 50);
  const Bytes half(50, std::byte{1});
  internal::Outgoing call{0, wire::encode_request(std::move(copy), 10'000), half, {}, {}};
  ASSERT_THAT(session->run_all({&call, 1}), IsOk());

  const auto report = fs.check({.repair = true, .read_data = false, .progress = {}});
  ASSERT_THAT(report, IsOk());
  ASSERT_THAT(report->findings, SizeIs(1));
  EXPECT_TRUE(report->findings[0].kind == Finding::Kind::kRelayout && report->findings[0].is_repaired);
  wire::InspectT inspect;
  inspect.subfile = std::make_unique<wire::Subfile>(after->data, 0);
  EXPECT_THAT(session->call<wire::SubfileInfoT>(0, std::move(inspect)), StatusIs(ErrorCode::kStale))
      << "server 0 has removed the copy";
  EXPECT_THAT(fs.list("/lost+found"), StatusIs(ErrorCode::kNotFound)) << "a copy is not worth a name";
  EXPECT_EQ(*fs.open("/x")->size(), 100);
  EXPECT_THAT(fs.check()->findings, IsEmpty());
}

// Every operation of the store and of the metadata fails once while fsck repairs: no byte is lost, and it can be done
// again.
TEST(RepairFaultTest, AFailureAtAnyStepLosesNothing) {
  const std::string known = "bytes of which the name is known";
  const std::string unknown = "bytes of which nothing is known";
  int start = -1;  // operations before the repair
  for (int step = 0;; ++step) {
    SCOPED_TRACE(step);
    const TemporaryDirectory directory;
    const std::shared_ptr<storage::Store> store = *storage::open_disk_store(directory.path());
    const std::shared_ptr<storage::KeyValue> names = storage::make_memory_key_value();
    wire::AboutT about;
    about.path = "/was/here";
    about.attributes = std::make_unique<wire::AttributesT>();
    about.attributes->file = about.attributes->data = 500;
    about.attributes->layout = wire::to_bytes(*layout::parse("stripe(unit=4, over=1)"));
    about.attributes->targets = {0};
    const std::vector<std::uint8_t> sidecar = wire::encode_about(about);
    ASSERT_THAT(storage::Blocking(*store).keep_about({500, 0}, std::as_bytes(std::span(sidecar))), IsOk());
    for (const auto& [data, text] : std::map<std::uint64_t, std::string>{{500, known}, {501, unknown}}) {
      const storage::WritePiece piece{0, std::as_bytes(std::span(text))};
      ASSERT_THAT(storage::Blocking(*store).write({data, 0}, {&piece, 1}, static_cast<Offset>(text.size())), IsOk());
    }
    const auto faults =
        std::make_shared<Faults>(FaultOptions{.fail_at = start < 0 ? FaultOptions::kNever : start + step});
    {
      const Cluster cluster({.servers = 1}, [&](int) {
        return Cluster::Stores{std::make_unique<storage::FaultyStore>(store, faults), share(names, faults)};
      });
      const FileSystem fs = cluster.connect();
      if (start < 0) {
        start = faults->count();
        step = -1;
        continue;
      }
      (void)fs.check({.repair = true, .read_data = false, .progress = {}});
    }
    const auto never = std::make_shared<Faults>(FaultOptions{});
    const Cluster cluster({.servers = 1}, [&](int) {
      return Cluster::Stores{std::make_unique<storage::FaultyStore>(store, never), share(names, never)};
    });
    const FileSystem fs = cluster.connect();
    ASSERT_THAT(fs.check({.repair = true, .read_data = false, .progress = {}}), IsOk());
    for (const auto& [path, text] :
         std::map<std::string, std::string>{{"/lost+found/500.here", known}, {"/lost+found/501", unknown}}) {
      const auto file = fs.open(path);
      ASSERT_THAT(file, IsOk()) << path;
      Bytes bytes(static_cast<std::size_t>(*file->size()));
      ASSERT_THAT(file->linear()->read(0, bytes), IsOk());
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), text) << path;
    }
    EXPECT_EQ(fs.list("/lost+found")->size(), 2U);
    EXPECT_THAT(fs.check()->findings, IsEmpty());
    if (!faults->fired()) {
      EXPECT_GT(step, 10);
      break;
    }
  }
}

}  // namespace
}  // namespace weir::client
