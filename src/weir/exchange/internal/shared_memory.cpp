#include <weir/exchange/internal/shared_memory.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/os_error.h>
#include <weir/base/text.h>

namespace weir::exchange::internal {

namespace {

Status failed(const char* what, const std::string& name, int error) {
  return os_error(ErrorCode::kIoError, concat("shared memory ", name, ": ", what), error);
}

Result<std::byte*> map(const Descriptor& file, const std::string& name, Offset bytes) {
  void* data = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return failed("mmap", name, errno);
  return static_cast<std::byte*>(data);
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const std::string& name, Offset bytes) {
  const Descriptor file(::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (!file.is_open()) return failed("shm_open", name, errno);
  SharedMemory memory;
  memory.name_ = name;  // from here on the destructor removes it
  // Without this, a file system that is full would show as a bus error in the middle of an exchange.
  if (const int error = ::posix_fallocate(file.get(), 0, bytes); error != 0) {
    return failed("posix_fallocate", name, error);
  }
  WEIR_TRY(memory.data_, map(file, name, bytes));
  memory.bytes_ = bytes;
  return memory;
}

Result<SharedMemory> SharedMemory::open(const std::string& name) {
  const Descriptor file(::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (!file.is_open()) return failed("shm_open", name, errno);
  struct stat attributes {};
  if (::fstat(file.get(), &attributes) != 0) return failed("fstat", name, errno);
  SharedMemory memory;
  WEIR_TRY(memory.data_, map(file, name, attributes.st_size));
  memory.bytes_ = attributes.st_size;
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : name_(std::exchange(other.name_, {})),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  remove_name();
  if (data_ != nullptr) ::munmap(data_, static_cast<std::size_t>(bytes_));
}

void SharedMemory::remove_name() noexcept {
  if (!name_.empty()) ::shm_unlink(name_.c_str());
  name_.clear();
}

}  // namespace weir::exchange::internal
