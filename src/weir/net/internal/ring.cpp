#include <weir/net/internal/ring.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>

namespace weir::net::internal {

namespace {

constexpr std::size_t kRecordPrefixBytes = 8;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kControlBytes = 4096;
constexpr std::size_t kFileBytes = kControlBytes + 2 * kRingBytes;
constexpr std::size_t kMappedBytes = kControlBytes + 4 * kRingBytes;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(2 * sizeof(RingControl) <= kControlBytes);

constexpr std::size_t padded(std::size_t bytes) {
  return (kRecordPrefixBytes + bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Status io_error(const char* step) {
  return os_error(ErrorCode::kIoError, concat("shared memory for messages: ", step));
}

}  // namespace

// ---------------------------------------------------------------- writing

bool RingWriter::has_room(std::size_t bytes) {
  if (written_ - read_ + padded(bytes) <= kRingBytes) return true;
  read_ = control_->read.load();
  // A position that cannot be makes the difference huge: no room, for ever; the end of the connection then is the
  // deadline's business.
  return written_ - read_ <= kRingBytes && written_ - read_ + padded(bytes) <= kRingBytes;
}

std::byte* RingWriter::reserve(std::size_t bytes) {
  assert(bytes <= kMostRecordBytes);
  return has_room(bytes) ? bytes_ + written_ % kRingBytes + kRecordPrefixBytes : nullptr;
}

void RingWriter::publish(std::size_t bytes, bool is_last) {
  const std::uint32_t prefix[] = {static_cast<std::uint32_t>(bytes), is_last ? 0u : 1u};
  static_assert(sizeof prefix == kRecordPrefixBytes);
  std::memcpy(bytes_ + written_ % kRingBytes, prefix, sizeof prefix);
  written_ += padded(bytes);
  // Sequentially consistent, as all that wakes and sleeps: either the reader sees this, or the writer sees that the
  // reader sleeps.
  control_->written.store(written_);
}

bool RingWriter::wait_for_room() {
  control_->writer_waits.store(1);
  return !has_room(kMostRecordBytes);
}

// ---------------------------------------------------------------- reading

Result<std::optional<RingReader::Record>> RingReader::next() {
  if (written_ == read_) {
    written_ = control_->written.load(std::memory_order_acquire);
    if (written_ == read_) return std::optional<Record>();
  }
  const std::uint64_t here = written_ - read_;
  std::uint32_t prefix[2];
  if (here > kRingBytes || here < kRecordPrefixBytes)
    return corrupt(concat("shared memory for messages: position ", written_, " after ", read_));
  std::memcpy(prefix, bytes_ + read_ % kRingBytes, sizeof prefix);
  if (prefix[0] > kMostRecordBytes || padded(prefix[0]) > here || prefix[1] > 1)
    return corrupt(concat("shared memory for messages: a record of ", prefix[0], " bytes where ", here, " are"));
  record_bytes_ = padded(prefix[0]);
  return std::optional<Record>(
      Record{{bytes_ + read_ % kRingBytes + kRecordPrefixBytes, std::size_t{prefix[0]}}, prefix[1] == 0});
}

void RingReader::release() {
  read_ += record_bytes_;
  control_->read.store(read_);
}

bool RingReader::sleep() {
  control_->reader_sleeps.store(1);
  return control_->written.load() == read_;
}

// ---------------------------------------------------------------- memory

void RingMemory::Unmap::operator()(std::byte* memory) const { ::munmap(memory, kMappedBytes); }

Result<RingMemory> RingMemory::create() {
  Descriptor descriptor(::memfd_create("weir-messages", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.is_open()) return io_error("memfd_create");
  // All of it now: later, there would be nobody to tell that there is none.
  if (uninterrupted([&] { return ::fallocate(descriptor.get(), 0, 0, kFileBytes); }) != 0) return io_error("fallocate");
  if (::fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0) return io_error("seal");
  WEIR_TRY(RingMemory memory, map(std::move(descriptor)));
  for (const std::size_t ring : {std::size_t{0}, std::size_t{1}}) new (&memory.control(ring)) RingControl;
  return memory;
}

Result<RingMemory> RingMemory::adopt(Descriptor descriptor) {
  struct stat status {};
  // A process that could shrink it could kill us.
  if (::fcntl(descriptor.get(), F_GET_SEALS) != kSeals || ::fstat(descriptor.get(), &status) != 0 ||
      status.st_size != static_cast<off_t>(kFileBytes))
    return corrupt("shared memory for messages: not what a caller of this version makes");
  return map(std::move(descriptor));
}

Result<RingMemory> RingMemory::map(Descriptor descriptor) {
  void* reserved = ::mmap(nullptr, kMappedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return io_error("mmap");
  RingMemory memory;
  memory.memory_.reset(static_cast<std::byte*>(reserved));
  memory.descriptor_ = std::move(descriptor);
  const auto place = [&](std::size_t at, std::size_t from, std::size_t bytes) {
    return ::mmap(memory.memory_.get() + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                  memory.descriptor_.get(), static_cast<off_t>(from)) != MAP_FAILED;
  };
  if (!place(0, 0, kControlBytes)) return io_error("mmap");
  for (const std::size_t ring : {std::size_t{0}, std::size_t{1}}) {
    const std::size_t from = kControlBytes + ring * kRingBytes;
    const std::size_t at = kControlBytes + ring * 2 * kRingBytes;
    if (!place(at, from, kRingBytes) || !place(at + kRingBytes, from, kRingBytes)) return io_error("mmap");
  }
  return memory;
}

RingControl& RingMemory::control(std::size_t ring) const {
  return *(reinterpret_cast<RingControl*>(memory_.get()) + ring);
}

std::byte* RingMemory::bytes(std::size_t ring) const { return memory_.get() + kControlBytes + ring * 2 * kRingBytes; }

}  // namespace weir::net::internal
