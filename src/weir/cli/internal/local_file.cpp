#include <weir/cli/internal/local_file.h>

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>
#include <weir/cli/internal/interruption.h>

namespace weir::cli::internal {

Result<LocalFile> LocalFile::open(const std::string& path, int flags, mode_t mode) {
  // Non-blocking, so that a pipe without a writer is waited for in read_next(), which Ctrl-C ends.
  Descriptor descriptor(uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, mode); }));
  if (!descriptor.is_open()) return os_error(concat("cannot open ", path));
  return LocalFile(path, std::move(descriptor));
}

Result<struct stat> LocalFile::status() const {
  struct stat found {};
  if (::fstat(descriptor_.get(), &found) != 0) return os_error(concat("cannot look at ", path_));
  return found;
}

Status LocalFile::read(Offset at, std::span<std::byte> buffer) const {
  while (!buffer.empty()) {
    const ssize_t count = uninterrupted([&] { return ::pread(descriptor_.get(), buffer.data(), buffer.size(), at); });
    if (count < 0) return os_error(concat("cannot read ", path_));
    if (count == 0) return {ErrorCode::kIoError, concat(path_, " became shorter while it was copied")};
    buffer = buffer.subspan(static_cast<std::size_t>(count));
    at += count;
  }
  return Status::ok();
}

Result<std::size_t> LocalFile::read_next(std::span<std::byte> buffer) const {
  std::size_t done = 0;
  while (done < buffer.size()) {
    if (!InterruptionGuard::wait_readable(descriptor_.get())) return Status(ErrorCode::kIoError, kInterrupted);
    const ssize_t count = ::read(descriptor_.get(), buffer.data() + done, buffer.size() - done);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return os_error(concat("cannot read ", path_));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

Status LocalFile::write(Offset at, std::span<const std::byte> buffer) const {
  while (!buffer.empty()) {
    const ssize_t count = uninterrupted([&] { return ::pwrite(descriptor_.get(), buffer.data(), buffer.size(), at); });
    if (count < 0) return os_error(concat("cannot write ", path_));
    buffer = buffer.subspan(static_cast<std::size_t>(count));
    at += count;
  }
  return Status::ok();
}

Status LocalFile::finish(Offset size) const {
  if (uninterrupted([&] { return ::ftruncate(descriptor_.get(), size); }) != 0) {
    return os_error(concat("cannot set the size of ", path_));
  }
  if (uninterrupted([&] { return ::fsync(descriptor_.get()); }) != 0) {
    return os_error(concat("cannot sync ", path_));
  }
  return Status::ok();
}

}  // namespace weir::cli::internal
