// Stores and metadata that belong together start together; nothing else does.

#include <weir/server/internal/assembly.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/server/internal/testing.h>
#include <weir/server/server.h>
#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>

namespace weir::server {
namespace {

using internal::TemporaryDirectory;
using storage::Label;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::IsOkAndHolds;
using testing::StatusIs;
namespace fs = std::filesystem;

class AssemblyTest : public ::testing::Test {
 protected:
  static Result<std::unique_ptr<Server>> start(const std::string& directory, std::uint32_t index) {
    static int number = 0;
    Options options;
    options.index = index;
    options.address = {concat("local:assembly-", ::getpid(), "-", ++number)};
    options.key = net::Key::random();
    options.store = concat("disk:", directory);
    options.share_memory = false;
    return Server::start(options);
  }

  // All servers come up, are told of each other, and stop.
  static Status run(const std::string& directory, std::uint32_t servers) {
    std::vector<std::unique_ptr<Server>> up;
    std::vector<net::Address> addresses;
    for (std::uint32_t i = 0; i < servers; ++i) {
      WEIR_TRY(auto server, start(directory, i));
      addresses.push_back(server->address());
      up.push_back(std::move(server));
    }
    for (const auto& server : up) WEIR_RETURN_IF_ERROR(server->set_members(addresses));
    return Status::ok();
  }

  std::string store(std::uint32_t index) { return internal::store_path(path(), index); }
  std::string metadata() { return internal::metadata_path(path()); }
  std::string path() { return directory_.path() + "/fs"; }
  Label label(std::uint32_t index) { return storage::read_disk_label(store(index)).value().value_or(Label{}); }

  void make_store(const Label& label) {
    ASSERT_THAT(storage::open_disk_store(store(label.server), {.label = label}), IsOk());
  }
  void make_metadata(const std::string& key, const std::string& value) {
    const auto opened = storage::open_rocks_key_value(metadata());
    ASSERT_THAT(opened, IsOk());
    storage::Batch batch;
    batch.put(key, value);
    ASSERT_THAT((*opened)->apply(batch, true), IsOk());
  }

  TemporaryDirectory directory_;
};

TEST_F(AssemblyTest, ANewFileSystemHasOneLabel) {
  EXPECT_THAT(servers_of("disk:" + path()), IsOkAndHolds(std::optional<std::uint32_t>{}));
  ASSERT_THAT(run(path(), 2), IsOk());
  EXPECT_NE(label(0).file_system, 0U);
  EXPECT_EQ(label(0), (Label{label(0).file_system, 0, 2, true}));
  EXPECT_EQ(label(1), (Label{label(0).file_system, 1, 2, true}));
  EXPECT_THAT(servers_of("disk:" + path()), IsOkAndHolds(std::optional<std::uint32_t>{2}));
  EXPECT_THAT(run(path(), 2), IsOk()) << "again";
  EXPECT_THAT(servers_of("memory"), IsOkAndHolds(std::optional<std::uint32_t>{}));
}

TEST_F(AssemblyTest, LostMetadataIsNotReplacedByAnEmptyFileSystem) {
  ASSERT_THAT(run(path(), 1), IsOk());
  fs::remove_all(metadata());
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT(start(path(), 0), StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr(metadata()), HasSubstr(store(0)),
                                                                      HasSubstr("weir fsck --rebuild"))));
    EXPECT_FALSE(fs::exists(metadata())) << "a refusal leaves nothing behind";
  }
  fs::create_directories(metadata());
  EXPECT_THAT(start(path(), 0), StatusIs(ErrorCode::kCorrupt, HasSubstr("is missing")));
}

// RocksDB would make a new database there, and remove the files of the old one.
TEST_F(AssemblyTest, MetadataWithoutItsFirstFileIsRefusedAndLeftAlone) {
  ASSERT_THAT(run(path(), 1), IsOk());
  fs::remove(metadata() + "/CURRENT");
  std::set<std::string> before;
  for (const auto& entry : fs::directory_iterator(metadata())) before.insert(entry.path());
  EXPECT_THAT(start(path(), 0), StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr("CURRENT"), HasSubstr("move it away"))));
  std::set<std::string> after;
  for (const auto& entry : fs::directory_iterator(metadata())) after.insert(entry.path());
  EXPECT_EQ(after, before);
}

TEST_F(AssemblyTest, ALostStoreIsNotReplacedByAnEmptyOne) {
  ASSERT_THAT(run(path(), 2), IsOk());
  fs::remove_all(store(1));
  EXPECT_THAT(start(path(), 1),
              StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr(store(1)), HasSubstr(store(0)), HasSubstr("is missing"))));
  EXPECT_FALSE(fs::exists(store(1)));
  fs::remove_all(store(0));
  EXPECT_THAT(start(path(), 0), StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr(store(0)), HasSubstr(metadata()))));
  EXPECT_FALSE(fs::exists(store(0)));
}

TEST_F(AssemblyTest, ANewOneIsMadeOnlyWhereAllFoldersAreEmpty) {
  ASSERT_THAT(run(path(), 2), IsOk());
  fs::remove_all(path() + "/server-0");
  EXPECT_THAT(start(path(), 0), StatusIs(ErrorCode::kCorrupt, HasSubstr(store(1))));
}

TEST_F(AssemblyTest, SwappedFoldersAreRefused) {
  ASSERT_THAT(run(path(), 2), IsOk());
  fs::rename(store(0), path() + "/kept");
  fs::rename(store(1), store(0));
  fs::rename(path() + "/kept", store(1));
  for (const std::uint32_t index : {0U, 1U}) {
    EXPECT_THAT(start(path(), index), StatusIs(ErrorCode::kCorrupt, HasSubstr("swapped")));
  }
  EXPECT_THAT(servers_of("disk:" + path()), StatusIs(ErrorCode::kCorrupt, HasSubstr("swapped")));
}

TEST_F(AssemblyTest, AStoreOfAnotherFileSystemIsRefused) {
  ASSERT_THAT(run(path(), 2), IsOk());
  const std::string other = directory_.path() + "/other";
  ASSERT_THAT(run(other, 2), IsOk());
  const Label foreign = storage::read_disk_label(internal::store_path(other, 1)).value().value();
  fs::remove_all(store(1));
  fs::rename(internal::store_path(other, 1), store(1));
  for (const std::uint32_t index : {0U, 1U}) {
    EXPECT_THAT(start(path(), index),
                StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr("different file systems"), HasSubstr(describe(label(0))),
                                                    HasSubstr(describe(foreign)))));
  }
}

TEST_F(AssemblyTest, MetadataOfAnotherFileSystemIsRefused) {
  ASSERT_THAT(run(path(), 1), IsOk());
  const std::string other = directory_.path() + "/other";
  ASSERT_THAT(run(other, 1), IsOk());
  fs::remove_all(metadata());
  fs::rename(internal::metadata_path(other), metadata());
  EXPECT_THAT(start(path(), 0), StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr("do not belong together"),
                                                                    HasSubstr(metadata()), HasSubstr(store(0)))));
}

TEST_F(AssemblyTest, AnotherNumberOfServersIsRefused) {
  ASSERT_THAT(run(path(), 2), IsOk());
  EXPECT_THAT(run(path(), 1),
              StatusIs(ErrorCode::kInvalidArgument, AllOf(HasSubstr("2 servers"), HasSubstr("start 2"))));
  // The store by itself refuses, too.
  auto one = start(path(), 1);
  ASSERT_THAT(one, IsOk());
  EXPECT_THAT((*one)->set_members({(*one)->address()}), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("2 servers")));
  EXPECT_EQ(label(1).servers, 2U);
}

TEST_F(AssemblyTest, AServerIsOneOfThoseItIsTold) {
  auto one = start(path(), 1);
  ASSERT_THAT(one, IsOk());
  EXPECT_THAT((*one)->set_members({(*one)->address()}), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("server 1")));
  EXPECT_FALSE(label(1).is_formed);
}

// Each is what a crash leaves after one more step of making a file system of two servers.
TEST_F(AssemblyTest, ACrashWhileItIsMadeLeavesWhatCanBeStarted) {
  constexpr std::uint64_t kId = 77;
  const std::vector<std::function<void()>> steps{
      [&] {
        make_store({kId, 0, 0, false});
      },
      [&] {
        fs::create_directories(metadata());
        std::ofstream(metadata() + "/IDENTITY") << "made by RocksDB before CURRENT";
      },
      [&] {
        make_metadata(std::string(internal::kLabelKey), storage::encode_label({kId, 0, 0, false}));
      },
      [&] {
        make_store({kId, 1, 0, false});
      },
      [&] {
        make_metadata(std::string(internal::kLabelKey), storage::encode_label({kId, 0, 2, true}));
      },
      [&] {
        const auto opened = storage::open_disk_store(store(1));
        ASSERT_THAT(opened, IsOk());
        ASSERT_THAT(storage::Blocking(**opened).set_label({kId, 1, 2, true}), IsOk());
      },
  };
  for (std::size_t done = 1; done <= steps.size(); ++done) {
    SCOPED_TRACE(done);
    fs::remove_all(path());
    for (std::size_t i = 0; i < done; ++i) steps[i]();
    ASSERT_THAT(run(path(), 2), IsOk());
    EXPECT_EQ(label(0), (Label{kId, 0, 2, true}));
    EXPECT_EQ(label(1), (Label{kId, 1, 2, true}));
    EXPECT_THAT(run(path(), 2), IsOk());
  }
}

TEST_F(AssemblyTest, MetadataWithoutALabelIsRefused) {
  make_store({5, 0, 1, true});
  make_metadata("n", std::string(8, '\1'));
  EXPECT_THAT(start(path(), 0), StatusIs(ErrorCode::kCorrupt, HasSubstr("has no label")));
}

TEST_F(AssemblyTest, ADamagedLabelIsRefused) {
  make_store({5, 0, 1, true});
  std::string text = storage::encode_label({5, 0, 1, true});
  text[30] ^= 1;
  make_metadata(std::string(internal::kLabelKey), text);
  EXPECT_THAT(start(path(), 0), StatusIs(ErrorCode::kCorrupt, HasSubstr("label is damaged")));
}

TEST_F(AssemblyTest, LabelsThatContradictEachOtherAreRefused) {
  make_store({5, 0, 2, true});
  make_store({5, 1, 3, true});
  EXPECT_THAT(start(path(), 1), StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr("contradict"), HasSubstr(store(0)))));
}

TEST_F(AssemblyTest, FoldersThatAreNotServersAreNoMatter) {
  ASSERT_THAT(run(path(), 1), IsOk());
  for (const char* name : {"server-", "server-x", "server-01", "server-5000", "old-server-0"}) {
    ASSERT_THAT(storage::open_disk_store(concat(path(), "/", name, "/store"), {.label = {9, 0, 1, true}}), IsOk());
  }
  EXPECT_THAT(run(path(), 1), IsOk());
}

}  // namespace
}  // namespace weir::server
