#include <weir/storage/internal/interposed_calls.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/temporary_directory.h>
#include <weir/base/text.h>

namespace weir::storage::internal {
namespace {

// Guards the pointer and what it points to while calls are told; the calls themselves and `after` run without it.
std::atomic<InterposedCalls*> watcher{nullptr};
// What a test does while it is told of a call is not seen.
thread_local bool is_inside = false;

std::string path_of_descriptor(int descriptor) {
  char path[4096];
  const ssize_t size = ::readlink(concat("/proc/self/fd/", descriptor).c_str(), path, sizeof path);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : std::string();
}

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// Makes the call unless it is to fail.
template <typename Make>
auto interpose(FileCall call, Make make) -> decltype(make()) {
  InterposedCalls* watching = is_inside ? nullptr : InterposedCalls::watching(call.path);
  if (watching == nullptr) return make();
  if (const int error = watching->begin(call); error != 0) {
    errno = error;
    return -1;
  }
  const auto result = make();
  const int error = errno;
  if (result >= 0) watching->end(call);
  errno = error;
  return result;
}

}  // namespace

InterposedCalls::InterposedCalls(std::string directory, Before before, After after)
    : directory_(std::move(directory)), before_(std::move(before)), after_(std::move(after)) {
  watcher = this;
}
InterposedCalls::~InterposedCalls() { watcher = nullptr; }

InterposedCalls* InterposedCalls::watching(const std::string& path) {
  InterposedCalls* const current = watcher;
  return current != nullptr && path.starts_with(current->directory_) ? current : nullptr;
}

std::string InterposedCalls::below(const std::string& path) const {
  return path.starts_with(directory_ + "/") ? path.substr(directory_.size() + 1) : std::string(".");
}

int InterposedCalls::begin(const FileCall& call) {
  if (!before_) return 0;
  is_inside = true;
  const int error = before_(call);
  is_inside = false;
  return error;
}

void InterposedCalls::end(const FileCall& call) {
  {
    const std::lock_guard lock(mutex_);
    done_.push_back(concat(call.name, " ", below(call.path), call.to.empty() ? "" : " ",
                           call.to.empty() ? std::string() : below(call.to)));
  }
  if (!after_) return;
  is_inside = true;
  after_(call);
  is_inside = false;
}

std::vector<std::string> InterposedCalls::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void InterposedCalls::clear() {
  const std::lock_guard lock(mutex_);
  done_.clear();
}

int InterposedCalls::count(std::string_view beginning) const {
  const std::lock_guard lock(mutex_);
  int count = 0;
  for (const std::string& call : done_) count += call.starts_with(beginning) ? 1 : 0;
  return count;
}

}  // namespace weir::storage::internal

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
using weir::storage::internal::FileCall;
using weir::storage::internal::interpose;
using weir::storage::internal::path_of_descriptor;
using weir::storage::internal::real;

extern "C" {

int fsync(int descriptor) {
  static const auto next = real<int (*)(int)>("fsync");
  return interpose({"fsync", path_of_descriptor(descriptor), {}}, [&] { return next(descriptor); });
}

int fdatasync(int descriptor) {
  static const auto next = real<int (*)(int)>("fdatasync");
  return interpose({"fdatasync", path_of_descriptor(descriptor), {}}, [&] { return next(descriptor); });
}

int syncfs(int descriptor) noexcept {
  static const auto next = real<int (*)(int)>("syncfs");
  return interpose({"syncfs", path_of_descriptor(descriptor), {}}, [&] { return next(descriptor); });
}

int ftruncate(int descriptor, off_t length) noexcept {
  static const auto next = real<int (*)(int, off_t)>("ftruncate");
  return interpose({"ftruncate", path_of_descriptor(descriptor), {}}, [&] { return next(descriptor, length); });
}

int fallocate(int descriptor, int mode, off_t offset, off_t length) {
  static const auto next = real<int (*)(int, int, off_t, off_t)>("fallocate");
  return interpose({"fallocate", path_of_descriptor(descriptor), {}},
                   [&] { return next(descriptor, mode, offset, length); });
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  if (weir::storage::internal::watcher == nullptr) return next(descriptor, bytes, size, offset);
  return interpose({"pwrite", path_of_descriptor(descriptor), {}},
                   [&] { return next(descriptor, bytes, size, offset); });
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t)>("write");
  if (weir::storage::internal::watcher == nullptr) return next(descriptor, bytes, size);
  return interpose({"write", path_of_descriptor(descriptor), {}}, [&] { return next(descriptor, bytes, size); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto next = real<int (*)(const char*, mode_t)>("mkdir");
  return interpose({"mkdir", path, {}}, [&] { return next(path, mode); });
}

int unlink(const char* path) noexcept {
  static const auto next = real<int (*)(const char*)>("unlink");
  return interpose({"unlink", path, {}}, [&] { return next(path); });
}

int rename(const char* from, const char* to) noexcept {
  static const auto next = real<int (*)(const char*, const char*)>("rename");
  return interpose({"rename", from, to}, [&] { return next(from, to); });
}

// Only those that make a file are of interest.
int open(const char* path, int flags, ...) {
  static const auto next = real<int (*)(const char*, int, mode_t)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
  va_end(arguments);
  struct stat status {};
  if ((flags & O_CREAT) == 0 || ::stat(path, &status) == 0) return next(path, flags, mode);
  return interpose({"open", path, {}}, [&] { return next(path, flags, mode); });
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

namespace weir::storage::internal {
namespace {

using ::testing::ElementsAre;

TEST(InterposedCallsTest, CallsAreSeenAndFailOnDemand) {
  const weir::testing::TemporaryDirectory directory;
  bool fails = false;
  InterposedCalls calls(directory.path(),
                        [&](const FileCall& call) { return fails && call.name == "fsync" ? EIO : 0; });
  const std::string path = directory.path() + "/file";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  EXPECT_EQ(::pwrite(file, "x", 1, 0), 1);
  EXPECT_EQ(::fsync(file), 0);
  fails = true;
  EXPECT_EQ(::fsync(file), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(::fdatasync(file), 0);
  EXPECT_EQ(::rename(path.c_str(), (path + "2").c_str()), 0);
  ::close(file);
  EXPECT_THAT(calls.done(),
              ElementsAre("open file", "pwrite file", "fsync file", "fdatasync file", "rename file file2"));
  EXPECT_EQ(calls.count("fsync"), 1);
}

}  // namespace
}  // namespace weir::storage::internal
