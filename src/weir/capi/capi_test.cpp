// The C interfaces against servers in this process, reached as any program reaches them: by WEIR_FS.

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/capi/clf.h>
#include <weir/capi/internal/errors.h>
#include <weir/capi/weir.h>
#include <weir/client/connection_file.h>
#include <weir/server/server.h>

namespace weir::capi {
namespace {

using ::testing::HasSubstr;

// Two servers for all tests of this process: CLF_ functions connect once.
class Servers {
 public:
  static void start() {
    static Servers servers;
    ASSERT_TRUE(servers.is_up_);
  }

 private:
  Servers() {
    client::ConnectionFile connection;
    connection.key = net::Key::random();
    for (std::uint32_t i = 0; i < 2; ++i) {
      server::Options options;
      options.index = i;
      options.key = connection.key;
      options.capacity_bytes = Offset{64} << 20;
      auto server = server::Server::start(options);
      if (!server.is_ok()) return;
      connection.servers.push_back((*server)->address());
      servers_.push_back(*std::move(server));
    }
    for (auto& server : servers_) {
      if (!server->set_members(connection.servers).is_ok()) return;
    }
    path_ = std::filesystem::temp_directory_path() / ("weir-capi-" + std::to_string(::getpid()) + ".toml");
    is_up_ = connection.write(path_.string()).is_ok() && ::setenv("WEIR_FS", path_.c_str(), 1) == 0;
  }
  ~Servers() { std::filesystem::remove(path_); }

  std::vector<std::unique_ptr<server::Server>> servers_;
  std::filesystem::path path_;
  bool is_up_ = false;
};

class ClfTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Servers::start();
    fd_ = CLF_open("/file", O_RDWR | O_CREAT | O_TRUNC, 0640);
    ASSERT_GE(fd_, 0) << weir_last_error();
  }
  void TearDown() override {
    EXPECT_EQ(CLF_close(fd_), 0);
    EXPECT_EQ(CLF_unlink("/file"), 0) << weir_last_error();
  }
  std::string read_all() {
    EXPECT_EQ(CLF_setview(fd_, CLF_BYTE, 0, 1), 0) << weir_last_error();
    std::string text(1000, '?');
    const ssize_t bytes = CLF_read(fd_, text.data(), text.size());
    EXPECT_GE(bytes, 0) << weir_last_error();
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    return text;
  }
  int fd_ = -1;
};

TEST_F(ClfTest, ReadsWhatWasWritten) {
  EXPECT_EQ(CLF_write(fd_, "hello", 5), 5);
  EXPECT_EQ(CLF_write(fd_, " world", 6), 6);
  EXPECT_EQ(CLF_lseek(fd_, 0, SEEK_CUR), 11);
  EXPECT_EQ(CLF_lseek(fd_, -5, SEEK_END), 6);
  char text[10] = {};
  EXPECT_EQ(CLF_read(fd_, text, 10), 5);
  EXPECT_STREQ(text, "world");
  EXPECT_EQ(CLF_read(fd_, text, 10), 0);
  EXPECT_EQ(CLF_pread(fd_, text, 4, 1), 4);
  EXPECT_EQ(std::string(text, 4), "ello");
}

TEST_F(ClfTest, WritesThroughAView) {
  CLF_Datatype pairs = CLF_Type_vector(2, 3, 6, 2, CLF_BYTE);
  ASSERT_NE(pairs, nullptr) << weir_last_error();
  ASSERT_EQ(CLF_setview(fd_, pairs, 1, 12), 0) << weir_last_error();
  EXPECT_EQ(CLF_Type_free(&pairs), 0);
  EXPECT_EQ(pairs, nullptr);
  EXPECT_EQ(CLF_write(fd_, "abcdef", 6), 6);
  std::string expected(17, '\0');
  expected.replace(3, 2, "ab").replace(9, 2, "cd").replace(15, 2, "ef");
  EXPECT_EQ(read_all(), expected);
}

TEST_F(ClfTest, NestsAndJoinsTypes) {
  CLF_Datatype inner = CLF_Type_vector(0, 0, 2, 2, CLF_BYTE);   // bytes 0, 2
  CLF_Datatype outer = CLF_Type_vector(0, 3, 8, 2, inner);      // bytes 0, 2, 8, 10
  CLF_Datatype single = CLF_Type_vector(5, 6, 0, 1, CLF_BYTE);  // bytes 5, 6
  const CLF_Datatype parts[] = {outer, single};
  CLF_Datatype both = CLF_Type_struct(2, parts);
  ASSERT_NE(both, nullptr) << weir_last_error();
  ASSERT_EQ(CLF_setview(fd_, both, 0, 16), 0) << weir_last_error();
  EXPECT_EQ(CLF_write(fd_, "abcdef", 6), 6);
  std::string expected(11, '\0');
  expected[0] = 'a', expected[2] = 'b', expected[8] = 'c', expected[10] = 'd', expected[5] = 'e', expected[6] = 'f';
  EXPECT_EQ(read_all(), expected);
  for (CLF_Datatype* type : {&inner, &outer, &single, &both}) CLF_Type_free(type);
}

TEST_F(ClfTest, TakesVectors) {
  char one[] = "abc";
  char two[] = "defgh";
  const iovec parts[] = {{one, 3}, {two, 5}};
  EXPECT_EQ(CLF_writev(fd_, parts, 2), 8);
  EXPECT_EQ(read_all(), "abcdefgh");
  char first[3] = {};
  char second[9] = {};
  const iovec places[] = {{first, 2}, {second, 8}};
  CLF_lseek(fd_, 1, SEEK_SET);
  EXPECT_EQ(CLF_readv(fd_, places, 2), 7);
  EXPECT_STREQ(first, "bc");
  EXPECT_STREQ(second, "defgh");
}

TEST_F(ClfTest, SetsTheLayoutOfAnEmptyFileOnly) {
  EXPECT_EQ(CLF_setlayout(fd_, "stripe(unit=3, over=2)"), 0) << weir_last_error();
  EXPECT_EQ(CLF_setlayout(fd_, "stripe(unit=3"), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(CLF_write(fd_, "hello", 5), 5) << weir_last_error();
  EXPECT_EQ(CLF_setlayout(fd_, "stripe(unit=5, over=2)"), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_THAT(weir_last_error(), HasSubstr("relayout"));
  EXPECT_EQ(read_all(), "hello");
}

TEST_F(ClfTest, TellsSizeAndMode) {
  EXPECT_EQ(CLF_write(fd_, "hello", 5), 5);
  EXPECT_EQ(CLF_ftruncate(fd_, 3), 0);
  EXPECT_EQ(CLF_fsync(fd_), 0);
  struct stat status {};
  ASSERT_EQ(CLF_fstat(fd_, &status), 0) << weir_last_error();
  EXPECT_EQ(status.st_size, 3);
  EXPECT_EQ(status.st_mode, 0640U | S_IFREG);
}

TEST_F(ClfTest, AppendsAndKeepsToItsAccessMode) {
  EXPECT_EQ(CLF_write(fd_, "hello", 5), 5);
  const int appending = CLF_open("/file", O_WRONLY | O_APPEND);
  ASSERT_GE(appending, 0);
  EXPECT_EQ(CLF_write(appending, "!", 1), 1);
  char c = 0;
  EXPECT_EQ(CLF_read(appending, &c, 1), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(CLF_close(appending), 0);
  EXPECT_EQ(read_all(), "hello!");
  EXPECT_EQ(CLF_open("/file", O_RDWR | O_CREAT | O_EXCL, 0644), -1);
  EXPECT_EQ(errno, EEXIST);
}

TEST_F(ClfTest, RefusesNonsense) {
  EXPECT_EQ(CLF_open("/nowhere/file", O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(CLF_read(3, nullptr, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(CLF_Type_vector(5, 3, 1, 1, CLF_BYTE), nullptr);
  EXPECT_EQ(CLF_Type_vector(0, 3, 2, 2, CLF_BYTE), nullptr);  // blocks overlap
  EXPECT_EQ(CLF_Type_struct(0, nullptr), nullptr);
  EXPECT_EQ(CLF_setview(fd_, nullptr, 0, 1), -1);
  EXPECT_EQ(CLF_lseek(fd_, -1, SEEK_SET), -1);
  EXPECT_EQ(CLF_lseek(fd_, 0, 77), -1);
  EXPECT_EQ(CLF_pread(fd_, nullptr, 1, -1), -1);
}

TEST(WeirTest, WorksOnAnEmbeddedFileSystem) {
  weir_fs* fs = weir_embedded(2, "memory");
  ASSERT_NE(fs, nullptr) << weir_last_error();
  EXPECT_EQ(weir_mkdir(fs, "/d", 0755), 0);
  weir_file* file = weir_create(fs, "/d/f", "stripe(unit=4, over=2)", 0644);
  ASSERT_NE(file, nullptr) << weir_last_error();
  weir_view* view = weir_set_view(file, "hpf(shape=[8,8], dist=(*,BLOCK), grid=[1,2])", 1);
  ASSERT_NE(view, nullptr) << weir_last_error();
  std::string text(32, 'x');
  std::iota(text.begin(), text.end(), 'a');
  weir_request* request = weir_start_write(view, 0, text.data(), text.size());
  EXPECT_EQ(weir_wait(request), 0) << weir_last_error();
  EXPECT_EQ(weir_size(file), 64);
  std::string back(32, '?');
  EXPECT_EQ(weir_read(view, 0, back.data(), back.size()), 0);
  EXPECT_EQ(back, text);
  // Every other byte of memory.
  std::string spread(64, '.');
  EXPECT_EQ(weir_read_strided(view, 0, 32, spread.data(), "falls(period=64, {(0,0,2,32)})", 0), 0) << weir_last_error();
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(spread[2 * i], text[i]);
  EXPECT_EQ(weir_relayout(fs, "/d/f", "stripe(unit=7, over=3)"), 0) << weir_last_error();
  char* layout = weir_layout(file);
  char* reason = weir_explain(view);
  EXPECT_NE(reason, nullptr);
  std::free(layout);
  std::free(reason);
  EXPECT_EQ(weir_read(view, 0, back.data(), back.size()), 0) << weir_last_error();
  EXPECT_EQ(back, text);
  struct weir_info info {};
  EXPECT_EQ(weir_stat(fs, "/d/f", &info), 0);
  EXPECT_EQ(info.size, 64);
  int entries = 0;
  const auto visit = [](const char* name, int, void* count) {
    EXPECT_STREQ(name, "f");
    ++*static_cast<int*>(count);
    return 0;
  };
  EXPECT_EQ(weir_list(fs, "/d", visit, &entries), 0);
  EXPECT_EQ(entries, 1);
  EXPECT_EQ(weir_truncate(file, 10), 0);
  EXPECT_EQ(weir_sync(file), 0);
  EXPECT_EQ(weir_rename(fs, "/d/f", "/g"), 0);
  EXPECT_EQ(weir_remove(fs, "/g"), 0);
  EXPECT_EQ(weir_rmdir(fs, "/d"), 0);
  EXPECT_EQ(weir_open(fs, "/g"), nullptr);
  EXPECT_EQ(errno, ENOENT);
  weir_free_view(view);
  weir_close(file);
  weir_disconnect(fs);
}

TEST(WeirTest, RefusesNullAndNonsense) {
  EXPECT_EQ(weir_mkdir(nullptr, "/", 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(weir_embedded(0, "memory"), nullptr);
  EXPECT_EQ(weir_embedded(1, "tape"), nullptr);
  EXPECT_THAT(weir_last_error(), HasSubstr("tape"));
  EXPECT_EQ(weir_connect("/nowhere/fs.toml"), nullptr);
  EXPECT_EQ(errno, ENOENT);
}

TEST(ErrorsTest, EveryCodeHasAnErrno) {
  for (int i = 1; i <= static_cast<int>(ErrorCode::kTimedOut); ++i) {
    EXPECT_GT(internal::to_errno(static_cast<ErrorCode>(i)), 0) << i;
  }
}

}  // namespace
}  // namespace weir::capi
