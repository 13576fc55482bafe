#include <weir/capi/clf.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include <weir/base/text.h>
#include <weir/capi/internal/errors.h>
#include <weir/client/file_system.h>
#include <weir/layout/language.h>

using weir::concat;
using weir::ErrorCode;
using weir::Offset;
using weir::Result;
using weir::Status;
using weir::capi::internal::guarded;
using weir::capi::internal::guarded_status;
using weir::client::File;
using weir::client::FileSystem;
using weir::client::View;

struct CLF_Datatype_s {
  bool is_byte = false;
  weir::layout::FallsSet falls;
};

namespace {

CLF_Datatype_s byte_type{true, {}};

// Descriptors start far from those of the kernel, so that a mix-up is an error and not another file.
constexpr int kFirstDescriptor = 1 << 20;

struct Descriptor {
  Descriptor(std::string name, int open_flags, File opened, View all)
      : path(std::move(name)), flags(open_flags), file(std::move(opened)), view(std::move(all)) {}

  [[nodiscard]] bool may_read() const { return (flags & O_ACCMODE) != O_WRONLY; }
  [[nodiscard]] bool may_write() const { return (flags & O_ACCMODE) != O_RDONLY; }

  std::mutex mutex;  // position, view, file
  const std::string path;
  const int flags;
  File file;
  View view;
  Offset position = 0;
};

class Table {
 public:
  static Table& get() {
    static Table table;
    return table;
  }

  Result<FileSystem> file_system() {
    const std::lock_guard lock(mutex_);
    if (!file_system_) {
      WEIR_TRY(FileSystem connected, FileSystem::connect());
      file_system_ = std::make_unique<FileSystem>(std::move(connected));
    }
    return *file_system_;
  }

  int add(std::shared_ptr<Descriptor> descriptor) {
    const std::lock_guard lock(mutex_);
    int fd = kFirstDescriptor;
    for (const auto& [taken, unused] : open_) {
      if (taken != fd) break;
      ++fd;
    }
    open_.emplace(fd, std::move(descriptor));
    return fd;
  }

  Result<std::shared_ptr<Descriptor>> find(int fd) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(fd);
    if (found == open_.end()) return bad_descriptor(fd);
    return found->second;
  }

  Status remove(int fd) {
    const std::lock_guard lock(mutex_);
    return open_.erase(fd) == 1 ? Status::ok() : bad_descriptor(fd);
  }

 private:
  static Status bad_descriptor(int fd) {
    return weir::invalid_argument(concat("descriptor ", fd, " is not open: use what CLF_open returned"));
  }

  std::mutex mutex_;
  std::unique_ptr<FileSystem> file_system_;
  std::map<int, std::shared_ptr<Descriptor>> open_;
};

Result<weir::layout::Partition> default_layout(const FileSystem& fs) {
  return weir::layout::parse(concat("stripe(unit=64K, over=", fs.target_count(), ")"));
}

Result<File> open_file(const FileSystem& fs, const std::string& path, int flags, mode_t mode) {
  const int way = flags & O_ACCMODE;
  using weir::client::Access;
  const Access access = way == O_RDONLY ? Access::kRead : way == O_WRONLY ? Access::kWrite : Access::kReadWrite;
  if ((flags & O_CREAT) == 0) return fs.open(path, access);
  WEIR_TRY(const auto layout, default_layout(fs));
  return fs.create(path, layout, {.mode = mode, .exclusive = (flags & O_EXCL) != 0, .access = access});
}

Result<int> open_descriptor(const char* path, int flags, mode_t mode) {
  if (path == nullptr) return weir::invalid_argument("CLF_open: no path");
  WEIR_TRY(const FileSystem fs, Table::get().file_system());
  WEIR_TRY(File file, open_file(fs, path, flags, mode));
  WEIR_TRY(View view, file.linear());
  auto descriptor = std::make_shared<Descriptor>(path, flags, std::move(file), std::move(view));
  if ((flags & O_TRUNC) != 0 && descriptor->may_write()) WEIR_RETURN_IF_ERROR(descriptor->file.truncate(0));
  return Table::get().add(std::move(descriptor));
}

// Bytes that the view has of the file as it is now.
Result<Offset> view_end(const Descriptor& descriptor) {
  WEIR_TRY(const Offset size, descriptor.file.size());
  return descriptor.view.element().count_below(size);
}

Status check_access(const Descriptor& descriptor, bool is_write) {
  if (is_write ? descriptor.may_write() : descriptor.may_read()) return Status::ok();
  return {ErrorCode::kPermission,
          concat(descriptor.path, " was opened for ", is_write ? "reading" : "writing", " only")};
}

struct MemoryPart {
  std::byte* data;
  std::size_t bytes;
};

Offset total(std::span<const MemoryPart> parts) {
  Offset bytes = 0;
  for (const MemoryPart& part : parts) bytes += static_cast<Offset>(part.bytes);
  return bytes;
}

Result<ssize_t> read_at(const Descriptor& descriptor, std::span<const MemoryPart> parts, Offset offset) {
  WEIR_RETURN_IF_ERROR(check_access(descriptor, false));
  WEIR_TRY(const Offset end, view_end(descriptor));
  Offset left = std::max<Offset>(std::min(total(parts), end - offset), 0);
  std::vector<weir::client::ReadPart> ranges;
  ssize_t bytes = 0;
  for (const MemoryPart& part : parts) {
    const auto length = static_cast<std::size_t>(std::min<Offset>(left, static_cast<Offset>(part.bytes)));
    if (length > 0) ranges.push_back({offset + bytes, {part.data, length}});
    bytes += static_cast<ssize_t>(length);
    left -= static_cast<Offset>(length);
  }
  if (!ranges.empty()) WEIR_RETURN_IF_ERROR(descriptor.view.read(ranges));
  return bytes;
}

Result<ssize_t> write_at(const Descriptor& descriptor, std::span<const MemoryPart> parts, Offset offset) {
  WEIR_RETURN_IF_ERROR(check_access(descriptor, true));
  std::vector<weir::client::WritePart> ranges;
  ssize_t bytes = 0;
  for (const MemoryPart& part : parts) {
    if (part.bytes > 0) ranges.push_back({offset + bytes, {part.data, part.bytes}});
    bytes += static_cast<ssize_t>(part.bytes);
  }
  if (!ranges.empty()) WEIR_RETURN_IF_ERROR(descriptor.view.write(ranges));
  return bytes;
}

using Access = Result<ssize_t> (*)(const Descriptor&, std::span<const MemoryPart>, Offset);

ssize_t access_at(int fd, std::span<const MemoryPart> parts, Offset offset, Access access) {
  return guarded<ssize_t>(-1, [&]() -> Result<ssize_t> {
    WEIR_TRY(const auto descriptor, Table::get().find(fd));
    if (offset < 0) return weir::invalid_argument(concat("offset ", offset, " is negative"));
    const std::lock_guard lock(descriptor->mutex);
    return access(*descriptor, parts, offset);
  });
}

ssize_t access_here(int fd, std::span<const MemoryPart> parts, Access access) {
  return guarded<ssize_t>(-1, [&]() -> Result<ssize_t> {
    WEIR_TRY(const auto descriptor, Table::get().find(fd));
    const std::lock_guard lock(descriptor->mutex);
    if (access == write_at && (descriptor->flags & O_APPEND) != 0) {
      WEIR_TRY(descriptor->position, view_end(*descriptor));
    }
    WEIR_TRY(const ssize_t bytes, access(*descriptor, parts, descriptor->position));
    descriptor->position += bytes;
    return bytes;
  });
}

MemoryPart part_of(const void* buffer, std::size_t bytes) {
  return {static_cast<std::byte*>(const_cast<void*>(buffer)), bytes};
}

ssize_t access_vector(int fd, const iovec* parts, int count, Access access) {
  if (count < 0 || (parts == nullptr && count > 0)) {
    weir::capi::internal::note_error(weir::invalid_argument(concat("a list of ", count, " parts")));
    return -1;
  }
  std::vector<MemoryPart> list;
  for (int i = 0; i < count; ++i) list.push_back(part_of(parts[i].iov_base, parts[i].iov_len));
  return access_here(fd, list, access);
}

Result<weir::layout::Element> element_of(CLF_Datatype view, Offset displ, Offset period) {
  if (view == nullptr) return weir::invalid_argument("CLF_setview: no type");
  weir::layout::FallsSet falls = view->falls;
  if (view->is_byte) falls = {weir::layout::Falls{0, 0, 1, 1, {}}};
  return weir::layout::Element::create(std::move(falls), {displ, period});
}

Result<CLF_Datatype> make_vector(Offset left, Offset right, Offset stride, Offset count, CLF_Datatype oldtype) {
  if (oldtype == nullptr) return weir::invalid_argument("CLF_Type_vector: no old type");
  weir::layout::Falls falls{left, right, stride, count, {}};
  if (!oldtype->is_byte) falls.inner = oldtype->falls;
  auto type = std::make_unique<CLF_Datatype_s>();
  type->falls.push_back(std::move(falls));
  // What is wrong with it shows here, not when a view is set.
  WEIR_RETURN_IF_ERROR(weir::layout::Element::create(type->falls, {}).status());
  return type.release();
}

Result<CLF_Datatype> make_struct(int count, const CLF_Datatype* types) {
  if (count < 1 || types == nullptr)
    return weir::invalid_argument(concat("CLF_Type_struct: a list of ", count, " types"));
  auto type = std::make_unique<CLF_Datatype_s>();
  for (int i = 0; i < count; ++i) {
    if (types[i] == nullptr) return weir::invalid_argument(concat("CLF_Type_struct: type ", i, " is NULL"));
    if (types[i]->is_byte) {
      type->falls.push_back(weir::layout::Falls{0, 0, 1, 1, {}});
    } else {
      type->falls.insert(type->falls.end(), types[i]->falls.begin(), types[i]->falls.end());
    }
  }
  WEIR_RETURN_IF_ERROR(weir::layout::Element::create(type->falls, {}).status());
  return type.release();
}

void fill(struct stat& status, const weir::client::Stat& found) {
  status = {};
  status.st_ino = found.file;
  status.st_mode = found.mode | static_cast<mode_t>(found.is_directory ? S_IFDIR : S_IFREG);
  status.st_nlink = 1;
  status.st_uid = found.uid;
  status.st_gid = found.gid;
  status.st_size = found.size;
  status.st_blksize = 4096;
  Offset stored = 0;
  for (const auto& subfile : found.subfiles) stored += subfile.stored_bytes;
  status.st_blocks = (stored + 511) / 512;
  status.st_mtim = {found.changed_ns / 1'000'000'000, found.changed_ns % 1'000'000'000};
  status.st_ctim = status.st_mtim;
  status.st_atim = status.st_mtim;
}

}  // namespace

extern "C" {

CLF_Datatype const CLF_BYTE = &byte_type;

CLF_Datatype CLF_Type_vector(int64_t left, int64_t right, int64_t stride, int64_t count, CLF_Datatype oldtype) {
  return guarded<CLF_Datatype>(nullptr, [&] { return make_vector(left, right, stride, count, oldtype); });
}

CLF_Datatype CLF_Type_struct(int count, const CLF_Datatype* array_of_types) {
  return guarded<CLF_Datatype>(nullptr, [&] { return make_struct(count, array_of_types); });
}

int CLF_Type_free(CLF_Datatype* type) {
  if (type == nullptr) {
    weir::capi::internal::note_error(weir::invalid_argument("CLF_Type_free: no type"));
    return -1;
  }
  if (*type != CLF_BYTE) delete *type;
  *type = nullptr;
  return 0;
}

int CLF_open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = static_cast<mode_t>(va_arg(arguments, unsigned));
    va_end(arguments);
  }
  return guarded<int>(-1, [&] { return open_descriptor(path, flags, mode); });
}

int CLF_close(int fd) {
  return guarded_status([&]() -> Status {
    WEIR_TRY(const auto descriptor, Table::get().find(fd));
    WEIR_RETURN_IF_ERROR(Table::get().remove(fd));
    return descriptor->file.close();  // it is closed whatever that says
  });
}

int CLF_unlink(const char* path) {
  return guarded_status([&]() -> Status {
    if (path == nullptr) return weir::invalid_argument("CLF_unlink: no path");
    WEIR_TRY(const FileSystem fs, Table::get().file_system());
    return fs.remove(path);
  });
}

int CLF_setlayout(int fd, const char* layout) {
  return guarded_status([&]() -> Status {
    if (layout == nullptr) return weir::invalid_argument("CLF_setlayout: no layout");
    WEIR_TRY(const auto descriptor, Table::get().find(fd));
    WEIR_TRY(const auto partition, weir::layout::parse(layout));
    WEIR_TRY(const FileSystem fs, Table::get().file_system());
    const std::lock_guard lock(descriptor->mutex);
    WEIR_RETURN_IF_ERROR(check_access(*descriptor, true));
    WEIR_RETURN_IF_ERROR(fs.set_layout(descriptor->path, partition));
    const weir::layout::Element element = descriptor->view.element();
    WEIR_TRY(descriptor->file, fs.open(descriptor->path));
    WEIR_TRY(descriptor->view, descriptor->file.view(element));
    return Status::ok();
  });
}

int CLF_setview(int fd, CLF_Datatype view, int64_t displ, int64_t period) {
  return guarded_status([&]() -> Status {
    WEIR_TRY(const auto descriptor, Table::get().find(fd));
    WEIR_TRY(const auto element, element_of(view, displ, period));
    const std::lock_guard lock(descriptor->mutex);
    WEIR_TRY(descriptor->view, descriptor->file.view(element));
    descriptor->position = 0;
    return Status::ok();
  });
}

ssize_t CLF_read(int fd, void* buffer, size_t bytes) {
  const std::array parts{part_of(buffer, bytes)};
  return access_here(fd, parts, read_at);
}

ssize_t CLF_write(int fd, const void* buffer, size_t bytes) {
  const std::array parts{part_of(buffer, bytes)};
  return access_here(fd, parts, write_at);
}

ssize_t CLF_pread(int fd, void* buffer, size_t bytes, int64_t offset) {
  const std::array parts{part_of(buffer, bytes)};
  return access_at(fd, parts, offset, read_at);
}

ssize_t CLF_pwrite(int fd, const void* buffer, size_t bytes, int64_t offset) {
  const std::array parts{part_of(buffer, bytes)};
  return access_at(fd, parts, offset, write_at);
}

ssize_t CLF_readv(int fd, const struct iovec* parts, int count) { return access_vector(fd, parts, count, read_at); }

ssize_t CLF_writev(int fd, const struct iovec* parts, int count) { return access_vector(fd, parts, count, write_at); }

int64_t CLF_lseek(int fd, int64_t offset, int whence) {
  return guarded<int64_t>(-1, [&]() -> Result<int64_t> {
    WEIR_TRY(const auto descriptor, Table::get().find(fd));
    const std::lock_guard lock(descriptor->mutex);
    Offset base = 0;
    if (whence == SEEK_CUR) {
      base = descriptor->position;
    } else if (whence == SEEK_END) {
      WEIR_TRY(base, view_end(*descriptor));
    } else if (whence != SEEK_SET) {
      return weir::invalid_argument(concat("CLF_lseek: whence ", whence, " is none of SEEK_SET, SEEK_CUR, SEEK_END"));
    }
    if (offset < -base || offset > weir::kMaxBytes - base) {
      return weir::invalid_argument(concat("CLF_lseek: ", offset, " from ", base, " leaves the range of offsets"));
    }
    descriptor->position = base + offset;
    return descriptor->position;
  });
}

int CLF_ftruncate(int fd, int64_t size) {
  return guarded_status([&]() -> Status {
    WEIR_TRY(const auto descriptor, Table::get().find(fd));
    const std::lock_guard lock(descriptor->mutex);
    WEIR_RETURN_IF_ERROR(check_access(*descriptor, true));
    return descriptor->file.truncate(size);
  });
}

int CLF_fsync(int fd) {
  return guarded_status([&]() -> Status {
    WEIR_TRY(const auto descriptor, Table::get().find(fd));
    const std::lock_guard lock(descriptor->mutex);
    return descriptor->file.sync();
  });
}

int CLF_fstat(int fd, struct stat* status) {
  return guarded_status([&]() -> Status {
    if (status == nullptr) return weir::invalid_argument("CLF_fstat: no place for the answer");
    WEIR_TRY(const auto descriptor, Table::get().find(fd));
    WEIR_TRY(const FileSystem fs, Table::get().file_system());
    WEIR_TRY(const auto found, fs.stat(descriptor->path));
    fill(*status, found);
    return Status::ok();
  });
}

}  // extern "C"
