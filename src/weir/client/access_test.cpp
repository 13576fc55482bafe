// Files of two users, end to end: what owner, group and mode say holds for bytes, by message and in mapped memory.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/as_user.h>
#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>
#include <weir/runtime/testing/set_clock.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using ::testing::HasSubstr;
using weir::testing::AsUser;
using weir::testing::IsOk;
using weir::testing::StatusIs;

constexpr unsigned kMia = 71001;
constexpr unsigned kTom = 71002;
constexpr std::size_t kAccessBytes = std::size_t{1} << 20;

using Bytes = std::vector<std::byte>;

layout::Partition thirds() { return *layout::parse("stripe(unit=64K, over=3)"); }

/// A user of a cluster, by a session of its own.
class UserOfCluster {
 public:
  UserOfCluster(unsigned id, const Cluster& cluster) : id_(id) {
    const AsUser user(id_);
    fs_ = cluster.connect();
  }
  ~UserOfCluster() {
    const AsUser user(id_);
    fs_.reset();
  }
  UserOfCluster(const UserOfCluster&) = delete;
  UserOfCluster& operator=(const UserOfCluster&) = delete;

  /// What `work(fs)` returns.
  template <typename Work>
  auto operator()(Work work) const {
    const AsUser user(id_);
    return work(*fs_);
  }
  Result<File> open(const std::string& path, Access access = Access::kAllowed) const {
    return (*this)([&](const FileSystem& fs) { return fs.open(path, access); });
  }
  Status set_mode(const std::string& path, std::uint32_t mode) const {
    return (*this)([&](const FileSystem& fs) { return fs.set_mode(path, mode); });
  }
  Status read(const File& file, Bytes& bytes) const {
    return (*this)([&](const FileSystem&) -> Status {
      WEIR_TRY(const View view, file.linear());
      return view.read(0, bytes);
    });
  }
  Status write(const File& file, const Bytes& bytes) const {
    return (*this)([&](const FileSystem&) -> Status {
      WEIR_TRY(const View view, file.linear());
      return view.write(0, bytes);
    });
  }

 private:
  unsigned id_;
  std::optional<FileSystem> fs_;
};

class AccessOfUsersTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!testing::can_act_as_others()) GTEST_SKIP() << "only root can act as other users";
    start("memory");
  }
  void TearDown() override {
    mia.reset();
    tom.reset();
  }
  void start(const char* store) {
    TearDown();
    ClusterOptions options;
    options.store = store;
    options.direct = GetParam();
    options.runtime.clock = &clock;
    cluster = std::make_unique<Cluster>(options);
    ASSERT_THAT(cluster->connect().set_mode("/", 0777), IsOk());
    mia = std::make_unique<UserOfCluster>(kMia, *cluster);
    tom = std::make_unique<UserOfCluster>(kTom, *cluster);
  }
  File make(const std::string& path, std::uint32_t mode) {
    const Result<File> made = (*mia)([&](const FileSystem& fs) {
      return fs.create(path, thirds(), {.mode = mode, .targets = {0, 1, 2}});
    });
    EXPECT_THAT(made, IsOk());
    EXPECT_THAT(mia->write(*made, old_bytes), IsOk());
    return *made;
  }

  const Bytes old_bytes = Bytes(kAccessBytes, std::byte{1});
  const Bytes new_bytes = Bytes(kAccessBytes, std::byte{2});
  Bytes seen = Bytes(kAccessBytes);
  testing::SetClock clock;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<UserOfCluster> mia;
  std::unique_ptr<UserOfCluster> tom;
};

TEST_P(AccessOfUsersTest, AFileOfItsOwnerAlone) {
  const File own = make("/x", 0600);
  EXPECT_THAT(tom->open("/x", Access::kRead), StatusIs(ErrorCode::kPermission, HasSubstr("/x")));
  const Result<File> found = tom->open("/x");
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(tom->read(*found, seen), StatusIs(ErrorCode::kPermission, HasSubstr("/x")));
  EXPECT_THAT(tom->write(*found, new_bytes), StatusIs(ErrorCode::kPermission, HasSubstr("/x")));
  EXPECT_EQ((*tom)([&](const FileSystem& fs) { return fs.stat("/x"); })->size, std::ssize(old_bytes));
  EXPECT_THAT((*tom)([&](const FileSystem&) { return found->truncate(0); }), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT((*tom)([&](const FileSystem&) { return found->preallocate(9); }), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(
      (*tom)([&](const FileSystem& fs) { return fs.relayout("/x", *layout::parse("stripe(unit=1K, over=1)")); }),
      StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(mia->read(own, seen), IsOk());
  EXPECT_EQ(seen, old_bytes);
}

TEST_P(AccessOfUsersTest, AFileThatOthersMayRead) {
  (void)make("/x", 0644);
  EXPECT_THAT(tom->open("/x", Access::kReadWrite), StatusIs(ErrorCode::kPermission));
  const Result<File> found = tom->open("/x", Access::kRead);
  ASSERT_THAT(found, IsOk());
  const View view = *(*tom)([&](const FileSystem&) { return found->linear(); });
  EXPECT_THAT((*tom)([&](const FileSystem&) { return view.read(0, seen); }), IsOk());
  EXPECT_EQ(seen, old_bytes);
  EXPECT_EQ(view.report().direct_bytes, GetParam() ? std::ssize(old_bytes) : 0) << "readers map memory, too";
  EXPECT_THAT((*tom)([&](const FileSystem&) { return view.write(0, new_bytes); }), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT((*tom)([&](const FileSystem&) { return found->truncate(0); }), StatusIs(ErrorCode::kPermission));
}

TEST_P(AccessOfUsersTest, AFileThatOthersMayOnlyWrite) {
  const File own = make("/x", 0602);
  const Result<File> found = tom->open("/x", Access::kWrite);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(tom->write(*found, new_bytes), IsOk());
  EXPECT_THAT(tom->read(*found, seen), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT((*tom)([&](const FileSystem&) { return found->sync(); }), IsOk());
  EXPECT_THAT(mia->read(own, seen), IsOk());
  EXPECT_EQ(seen, new_bytes);
}

TEST_P(AccessOfUsersTest, WhoMakesAFileMayUseItWhateverItsModeIs) {
  const File own = make("/x", 0);
  EXPECT_THAT(mia->read(own, seen), IsOk());
  EXPECT_EQ(seen, old_bytes);
  EXPECT_THAT(mia->open("/x", Access::kRead), StatusIs(ErrorCode::kPermission));
}

TEST_P(AccessOfUsersTest, AFileThatIsOpenStaysUsableWhenItsModeChanges) {
  const File own = make("/x", 0666);
  const Result<File> found = tom->open("/x", Access::kReadWrite);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(tom->read(*found, seen), IsOk());
  ASSERT_THAT(mia->set_mode("/x", 0600), IsOk());
  EXPECT_THAT(tom->open("/x", Access::kRead), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(tom->write(*found, new_bytes), IsOk());
  EXPECT_THAT((*tom)([&](const FileSystem&) { return found->sync(); }), IsOk());
  EXPECT_THAT(mia->read(own, seen), IsOk());
  EXPECT_EQ(seen, new_bytes);

  const auto lock = [&](const FileSystem&) { return found->lock(0, 10, true).status(); };
  EXPECT_THAT((*tom)(lock), IsOk());

  // Another layout, and a day later: the same rights.
  ASSERT_THAT(
      (*mia)([&](const FileSystem& fs) { return fs.relayout("/x", *layout::parse("stripe(unit=1K, over=2)")); }),
      IsOk());
  EXPECT_THAT(tom->write(*found, old_bytes), IsOk());
  clock.advance(std::chrono::hours(25));
  EXPECT_THAT(tom->read(*found, seen), IsOk());
  EXPECT_EQ(seen, old_bytes);
  EXPECT_EQ(*(*tom)([&](const FileSystem&) { return found->size(); }), std::ssize(old_bytes));
}

TEST_P(AccessOfUsersTest, EveryCallGetsANewCapabilityWhenItsOwnHasExpired) {
  (void)make("/x", 0666);
  const Result<File> found = tom->open("/x", Access::kReadWrite);
  ASSERT_THAT(found, IsOk());
  const View view = *(*tom)([&](const FileSystem&) { return found->linear(); });
  Bytes few(8);
  const std::vector<std::function<Status()>> calls{
      [&] { return view.read(0, seen); },
      [&] { return view.write(0, new_bytes); },
      [&] { return view.start_read(0, seen).wait(); },
      [&] { return view.start_write(0, new_bytes).wait(); },
      [&] {
        const std::vector<WritePart> parts{{0, few}, {100'000, few}};
        return view.write(parts);
      },
      [&] { return found->size().status(); },
      [&] { return found->sync(); },
      [&] { return found->preallocate(std::ssize(new_bytes)); },
      [&] { return found->truncate(5); },
      [&] { return found->refresh(); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    clock.advance(std::chrono::hours(25));
    EXPECT_THAT((*tom)([&](const FileSystem&) { return calls[i](); }), IsOk()) << "call " << i;
    EXPECT_THAT((*tom)([&](const FileSystem&) { return calls[i](); }), IsOk()) << "call " << i;
  }
}

TEST_P(AccessOfUsersTest, AServerThatIsStartedAgainIsShownTheCapabilityAgain) {
  start("disk");
  const File own = make("/x", 0604);
  const Result<File> found = tom->open("/x", Access::kRead);
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(tom->read(*found, seen), IsOk());
  ASSERT_THAT((*mia)([&](const FileSystem&) { return own.sync(); }), IsOk());
  ASSERT_THAT(mia->set_mode("/x", 0600), IsOk());
  for (int server = 0; server < 3; ++server) {
    cluster->stop(server);
    cluster->start(server);
  }
  seen.assign(seen.size(), std::byte{});
  EXPECT_THAT(tom->read(*found, seen), IsOk());
  EXPECT_EQ(seen, old_bytes);
  EXPECT_THAT(mia->write(own, new_bytes), IsOk());
}

TEST_P(AccessOfUsersTest, DescriptionsAreForProcessesOfOneUser) {
  (void)make("/x", 0606);
  const Result<File> found = tom->open("/x", Access::kReadWrite);
  ASSERT_THAT(found, IsOk());
  ASSERT_THAT(mia->set_mode("/x", 0600), IsOk());
  const std::vector<std::byte> description = found->describe();
  const UserOfCluster same(kTom, *cluster);
  const Result<File> opened = same([&](const FileSystem& fs) { return fs.open_described("/x", description); });
  ASSERT_THAT(opened, IsOk());
  EXPECT_THAT(same.read(*opened, seen), IsOk());
  const UserOfCluster other(71003, *cluster);
  const Result<File> taken = other([&](const FileSystem& fs) { return fs.open_described("/x", description); });
  ASSERT_THAT(taken, IsOk()) << "it asks nobody";
  EXPECT_THAT(other.read(*taken, seen), StatusIs(ErrorCode::kPermission));
}

TEST_P(AccessOfUsersTest, WritersMayGiveAFileAnotherLayout) {
  start("disk");
  const File own = make("/x", 0606);
  ASSERT_THAT(
      (*tom)([&](const FileSystem& fs) { return fs.relayout("/x", *layout::parse("stripe(unit=1K, over=2)")); }),
      IsOk());
  EXPECT_THAT(mia->read(own, seen), IsOk());
  EXPECT_EQ(seen, old_bytes);
  const Result<CheckReport> report = cluster->connect().check({.read_data = true, .progress = {}});
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->findings.empty());
  EXPECT_THAT((*tom)([&](const FileSystem& fs) { return fs.check(); }), StatusIs(ErrorCode::kPermission));
  for (const ServerStatus& one : (*tom)([&](const FileSystem& fs) { return fs.server_status(); })) {
    EXPECT_THAT(one.error, IsOk());
    EXPECT_EQ(one.requests, 0) << "for others";
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, AccessOfUsersTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "direct" : "by_message"; });

}  // namespace
}  // namespace weir::client
