// What happens to a file while a client copies bytes straight to its memory.  The buffer of the client is not readable until the test
// lets it be, so that the change comes in the middle of the copy.

#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/base/testing.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/cluster.h>
#include <weir/layout/language.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using weir::testing::IsOk;

constexpr std::size_t kBytes = std::size_t{1} << 20;

/// The first that reads from it waits until release().
class TrapBuffer {
 public:
  TrapBuffer() {
    memory_ =
        static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::fill_n(memory_, kBytes, std::byte{2});
    ::mprotect(memory_, kBytes, PROT_NONE);
    is_reached_ = false;
    is_released_ = false;
    struct sigaction action {};
    action.sa_handler = [](int) {
      // A deadline of its own: a test that went wrong must not hang.
      is_reached_ = true;
      for (int i = 0; !is_released_ && i < 20'000; ++i) ::usleep(1000);
      ::mprotect(memory_, kBytes, PROT_READ | PROT_WRITE);
    };
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ~TrapBuffer() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(memory_, kBytes);
  }
  TrapBuffer(const TrapBuffer&) = delete;
  TrapBuffer& operator=(const TrapBuffer&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_, kBytes}; }
  static void await_reader() {
    while (!is_reached_) std::this_thread::yield();
  }
  static void release() { is_released_ = true; }

 private:
  static inline std::byte* memory_ = nullptr;
  static inline std::atomic<bool> is_reached_ = false;
  static inline std::atomic<bool> is_released_ = false;
  struct sigaction before_ {};
};

class LateChangeTest : public ::testing::Test {
 protected:
  LateChangeTest() : cluster({.timeout = std::chrono::milliseconds(5000)}) {}

  /// Writes the buffer to the file, which has other bytes, while `change` happens.
  Status write_during(const std::function<void()>& change) {
    const std::vector<std::byte> old(kBytes, std::byte{1});
    const View view = *fs.create("/file", *layout::parse("stripe(unit=1M, over=1)"), {.targets = {1}})->linear();
    EXPECT_THAT(view.write(0, old), IsOk());
    EXPECT_GT(view.report().direct_bytes, 0) << "not the way that is to be tested";
    const TrapBuffer buffer;
    std::thread changing([&] {
      TrapBuffer::await_reader();
      change();
      TrapBuffer::release();
    });
    Status status = view.write(0, buffer.bytes());
    changing.join();
    return status;
  }

  Cluster cluster;
  const FileSystem fs = cluster.connect();
  const FileSystem other = cluster.connect();
};

TEST_F(LateChangeTest, BytesThatAreTooLateForACopyAreWrittenToTheNewLayout) {
  const Status status = write_during([&] {
    // All bytes have been copied when the writer goes on.
    RelayoutOptions options;
    options.progress = [](Offset done, Offset all) {
      if (done == all) TrapBuffer::release();
    };
    EXPECT_THAT(other.relayout("/file", *layout::parse("stripe(unit=4K, over=2)"), options), IsOk());
  });
  EXPECT_THAT(status, IsOk());
  std::vector<std::byte> back(kBytes);
  ASSERT_THAT(other.open("/file")->linear()->read(0, back), IsOk());
  EXPECT_TRUE(back == std::vector<std::byte>(kBytes, std::byte{2}));
}

TEST_F(LateChangeTest, BytesForAServerThatIsGoneAreNotWritten) {
  EXPECT_FALSE(write_during([&] { cluster.stop(1); }).is_ok());
}

TEST_F(LateChangeTest, BytesForAFileThatWasRemovedAreNotWritten) {
  EXPECT_THAT(write_during([&] { EXPECT_THAT(other.remove("/file"), IsOk()); }),
              weir::testing::StatusIs(ErrorCode::kStale));
}

}  // namespace
}  // namespace weir::client
