#include <weir/client/connection_file.h>

#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>

namespace weir::client::internal {
namespace {

using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

class ConnectionFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ =
        (std::filesystem::temp_directory_path() / concat("weir-connection-", ::getpid(), "-", test->name())).string();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void put(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }

  std::string path_;
};

TEST_F(ConnectionFileTest, ReadsWhatWasWritten) {
  const ConnectionFile file{net::Key::random(), {{"tcp:127.0.0.1:7001"}, {"tcp:[::1]:7002"}}};
  ASSERT_THAT(file.write(path_), IsOk());
  struct ::stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  const auto read = ConnectionFile::read(path_);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->key.bytes, file.key.for_clients().bytes);
  EXPECT_EQ(read->servers, file.servers);
  ASSERT_THAT(file.write(path_), IsOk());  // replaces
}

TEST_F(ConnectionFileTest, RefusesOneThatOthersCanRead) {
  const ConnectionFile file{net::Key::random(), {{"tcp:127.0.0.1:7001"}}};
  ASSERT_THAT(file.write(path_), IsOk());
  ASSERT_EQ(::chmod(path_.c_str(), 0640), 0);
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kPermission, HasSubstr(path_)));
}

TEST_F(ConnectionFileTest, NamesWhatIsWrong) {
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kNotFound, HasSubstr(path_)));
  put("version = ");
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("line 1")));
  put("version = 2\n");
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("version")));
  put("version = 1\nservers = [\"tcp:h:1\"]\n");
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("key")));
  put("version = 1\nkey = \"12\"\nservers = [\"tcp:h:1\"]\n");
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("64 hex")));
  put(concat("version = 1\nkey = \"", std::string(64, 'g'), "\"\nservers = [\"tcp:h:1\"]\n"));
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("64 hex")));
  put(concat("version = 1\nkey = \"", std::string(64, 'a'), "\"\nservers = []\n"));
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("servers")));
  put(concat("version = 1\nkey = \"", std::string(64, 'a'), "\"\nservers = [1]\n"));
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("servers")));
}

// A wrong name in WEIR_FS must not read a disk, or wait for ever.
TEST_F(ConnectionFileTest, RefusesWhatCannotBeOneAtOnce) {
  put("version = 1\n");
  std::filesystem::resize_file(path_, std::uintmax_t{1} << 42);
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("more than 1048576 bytes")));
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("not an ordinary file")));
  EXPECT_THAT(ConnectionFile::read("/dev/zero"), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("/dev/zero")));
  EXPECT_THAT(ConnectionFile::read("/"), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("not an ordinary file")));
}

TEST_F(ConnectionFileTest, HostileTextEndsSoon) {
  const std::size_t most = std::size_t{1} << 20;
  for (const std::string& text : {std::string(most, '['), "x = " + std::string(most - 4, '['), std::string(most, '\0'),
                                  "x = \"" + std::string(most - 5, 'a'), "a." + std::string(most - 2, '.')}) {
    put(text);
    EXPECT_THAT(ConnectionFile::read(path_), StatusIs(ErrorCode::kInvalidArgument)) << text.substr(0, 8);
  }
}

TEST_F(ConnectionFileTest, TakesTheKeyFromAFileBesideIt) {
  const net::Key key = net::Key::random();
  const std::string key_file = path_ + ".key";
  std::filesystem::remove(key_file);
  ASSERT_THAT(key.save(key_file), IsOk());
  put(concat("version = 1\nkey_file = \"", std::filesystem::path(key_file).filename().string(),
             "\"\nservers = [\"tcp:h:1\"]\n"));
  const auto read = ConnectionFile::read(path_);
  std::filesystem::remove(key_file);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->key.bytes, key.bytes);
}

}  // namespace
}  // namespace weir::client::internal
