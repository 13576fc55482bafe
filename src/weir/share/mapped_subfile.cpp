#include <weir/share/mapped_subfile.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/base/aligned_memory.h>
#include <weir/base/huge_pages.h>
#include <weir/base/madvise.h>
#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>

namespace weir::share {

namespace {

constexpr auto kHugePage = static_cast<Offset>(kHugePageBytes);
constexpr Offset kChunksPerHugePage = kHugePage / kChunkBytes;
constexpr Offset kLeastRoom = Offset{16} << 20;
// Descriptors that mappings of this process keep.
constexpr int kMostKeptFiles = 256;
std::atomic<int> kept_files{0};
// Linux enters as many pages that are there around one that is read.
constexpr std::uintptr_t kEnteredAround = 65536;

Status system_error(const char* call) { return os_error(ErrorCode::kIoError, concat("memory of a subfile: ", call)); }

// Bit by bit, so that numbers that follow each other are far apart.
std::uint32_t reversed(std::uint32_t number) {
  std::uint32_t out = 0;
  for (int bit = 0; bit < 32; ++bit) out |= ((number >> bit) & 1) << (31 - bit);
  return out;
}

std::size_t length_of(Offset room) { return static_cast<std::size_t>(kDataStart + room); }

}  // namespace

MappedSubfile::MappedSubfile(std::byte* base, Offset room, bool is_writable, std::shared_ptr<Lifeline> lifeline,
                             std::uint64_t generation, std::uint64_t boot, bool is_verified)
    : base_(base),
      room_(room),
      is_writable_(is_writable),
      lifeline_(std::move(lifeline)),
      generation_(generation),
      boot_(boot),
      is_verified_(is_verified) {}

MappedSubfile::~MappedSubfile() {
  ::munmap(base_, length_of(room_));
  if (file_.is_open()) --kept_files;
}

void MappedSubfile::keep(int descriptor) {
  if (!is_writable_ || descriptor < 0) return;
  if (++kept_files <= kMostKeptFiles) file_ = Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!file_.is_open()) --kept_files;
}

Result<std::shared_ptr<MappedSubfile>> MappedSubfile::map(int descriptor, std::shared_ptr<Lifeline> lifeline,
                                                          std::uint64_t generation, std::uint64_t boot,
                                                          bool is_verified) {
  struct ::stat info {};
  if (::fstat(descriptor, &info) != 0) return system_error("fstat");
  if (info.st_size < kControlBytes) return corrupt("memory of a subfile: too short");
  const Offset bytes = std::min<Offset>(info.st_size - kDataStart, kMappableBytes);  // a server may say any length
  const Offset room = std::min(std::max(2 * bytes, kLeastRoom), kMappableBytes);
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0) return system_error("fcntl");
  const bool is_writable = (flags & O_ACCMODE) == O_RDWR;
  const int protection = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* base = ::mmap(nullptr, length_of(room), protection, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (base == MAP_FAILED) return system_error("mmap");
  std::shared_ptr<MappedSubfile> mapped(new MappedSubfile(static_cast<std::byte*>(base), room, is_writable,
                                                          std::move(lifeline), generation, boot, is_verified));
  mapped->keep(descriptor);
  if (mapped->control().huge.load(std::memory_order_relaxed) == Control::kSlowHugePages) {
    HugePages::here().assume_slow();
  }
  if (is_writable) mapped->place_ = reversed(mapped->control().mappings.fetch_add(1, std::memory_order_relaxed));
  return mapped;
}

Offset MappedSubfile::begin_of(Offset from, Offset to) const {
  constexpr Offset kAlign = 4096;
  const Offset pages = (to - from) / kAlign;
  return from + ((pages * (place_ >> 16)) >> 16) * kAlign;
}

Result<std::shared_ptr<MappedSubfile>> MappedSubfile::longer(Offset bytes) const {
  // Whole chunks: those are prepared as a whole.
  const Offset room = std::min(std::max(ceil_div(bytes, kChunkBytes) * kChunkBytes, 2 * room_), kMappableBytes);
  // An old length of 0 leaves the old mapping as it is, for those who are using it.
  void* base = ::mremap(base_, 0, length_of(room), MREMAP_MAYMOVE);
  if (base == MAP_FAILED) return system_error("mremap");
  std::shared_ptr<MappedSubfile> mapped(new MappedSubfile(static_cast<std::byte*>(base), room, is_writable_, lifeline_,
                                                          generation_, boot_, is_verified_));
  mapped->place_ = place_;
  mapped->keep(file_.get());
  return mapped;
}

bool MappedSubfile::is_full(Offset from, Offset to) const {
  if (!is_writable_ || to > room_ || to > control().mapped_bytes.load(std::memory_order_acquire)) return false;
  for (Offset chunk = from / kChunkBytes; chunk * kChunkBytes < to; ++chunk) {
    if (!test_bit(control().full, chunk)) return false;
  }
  return true;
}

MappedSubfile::Touched MappedSubfile::touched(Offset from, Offset to) const {
  bool any = false;
  bool all = to <= control().mapped_bytes.load(std::memory_order_acquire);
  for (Offset chunk = from / kChunkBytes; chunk * kChunkBytes < to; ++chunk) {
    const bool is_touched = test_bit(control().touched, chunk);
    any = any || is_touched;
    all = all && is_touched;
  }
  return all ? Touched::kAll : any ? Touched::kSome : Touched::kNone;
}

void MappedSubfile::publish(Offset to, Offset file_end) {
  raise(control().length, to);
  raise(control().file_end, file_end);
  take_turn(control());
}

void MappedSubfile::seal(Offset from, Offset to) {
  const BlockSums all = sums();
  const Offset first = from / kBlockBytes;
  const Offset end = ceil_div(std::min({to, room_, kSummedBytes}), kBlockBytes);
  if (first >= end) return;
  const Offset middle = begin_of(first * kBlockBytes, end * kBlockBytes) / kBlockBytes;
  for (Offset i = first; i < end; ++i) {
    const Offset block = i + (middle - first) < end ? i + (middle - first) : i + (middle - end);
    if (!all.is_due(block)) continue;
    // Where room was taken for some pages only, the server seals.
    if (is_full(block * kBlockBytes, (block + 1) * kBlockBytes)) all.seal(block);
  }
}

bool MappedSubfile::make_pages(Offset from, Offset to) {
  // Two clients that make the same pages contend for long.  What another client is making is entered later, at little
  // cost.
  for (Offset chunk = from / kChunkBytes; chunk * kChunkBytes < to; ++chunk) {
    if (is_made(control(), chunk) || !test_bit(control().full, chunk)) continue;
    const Offset written = std::min(to, (chunk + 1) * kChunkBytes) - std::max(from, chunk * kChunkBytes);
    // The first chunk may be all that the subfile ever has of it: its pages come one by one.
    if (chunk == 0 && written < kChunkBytes / 2) continue;
    if (!claim(control(), chunk)) continue;
    const Offset pair = chunk / kChunksPerHugePage * kHugePage;
    const bool is_long = pair >= kHugePage || (from <= pair && pair + kHugePage <= to);
    if (!make(chunk, is_long)) return false;
  }
  return true;
}

bool MappedSubfile::enter_pages(Offset from, Offset to) {
  const std::lock_guard lock(mutex_);
  const Offset end = ceil_div(to, kChunkBytes);
  if (static_cast<Offset>(entered_.size()) < end) entered_.resize(static_cast<std::size_t>(end));
  for (Offset chunk = from / kChunkBytes; chunk < end; ++chunk) {
    if (entered_[static_cast<std::size_t>(chunk)] || !test_bit(control().full, chunk)) continue;
    if (is_made(control(), chunk)) {
      touch(chunk);
    } else if (!enter(chunk)) {
      return false;
    }
  }
  return true;
}

bool MappedSubfile::has_huge_pages() const {
  return file_.is_open() && control().huge.load(std::memory_order_relaxed) != Control::kNoHugePages;
}

bool MappedSubfile::prefers_calls() const {
  return file_.is_open() && (!has_huge_pages() || HugePages::here().are_slow());
}

bool MappedSubfile::write_new(Offset from, std::span<const std::byte> bytes) {
  const Offset chunk = from / kChunkBytes;
  const bool is_chunk = from % kChunkBytes == 0 && static_cast<Offset>(bytes.size()) == kChunkBytes;
  if (!is_chunk || !file_.is_open() || is_made(control(), chunk)) return false;
  if (has_huge_pages() && HugePages::here().is_worth_asking()) return false;
  (void)claim(control(), chunk);  // or another one makes its pages: no harm
  while (!bytes.empty()) {
    const ssize_t written =
        uninterrupted([&] { return ::pwrite(file_.get(), bytes.data(), bytes.size(), kDataStart + from); });
    if (written <= 0) return false;  // the copy to the same place makes up for it, or tells
    from += written;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  note_made(control(), chunk);
  return true;
}

// A chunk that was claimed; false if there is no memory for it.
bool MappedSubfile::make(Offset chunk, bool may_be_huge) {
  const Offset other = chunk ^ 1;
  static_assert(kChunksPerHugePage == 2);
  if (has_huge_pages() && may_be_huge && test_bit(control().full, other) && HugePages::here().is_worth_asking() &&
      claim(control(), other)) {
    const bool is_huge = HugePages::here().make(file_.get(), kDataStart + chunk / kChunksPerHugePage * kHugePage);
    if (is_huge) {
      note_made(control(), chunk);
      note_made(control(), other);
      return true;
    }
  }
  std::byte* const from = data() + chunk * kChunkBytes;
  if (::madvise(from, static_cast<std::size_t>(kChunkBytes), MADV_POPULATE_WRITE) != 0 && errno != EINVAL) return false;
  note_made(control(), chunk);
  return true;
}

// False if there is no memory for it.
bool MappedSubfile::enter(Offset chunk) {
  // For reading, whatever comes next: pages that exist are then entered many at a time, and can be written as well.
  // Kernels without it answer EINVAL, and pages are entered when they are first touched.
  std::byte* const from = data() + chunk * kChunkBytes;
  if (::madvise(from, static_cast<std::size_t>(kChunkBytes), MADV_POPULATE_READ) != 0 && errno != EINVAL) return false;
  entered_[static_cast<std::size_t>(chunk)] = true;
  return true;
}

// The same of a chunk whose pages are all there: half the time, since nobody looks at each page.
void MappedSubfile::touch(Offset chunk) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data() + chunk * kChunkBytes);
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(kChunkBytes);
  for (std::uintptr_t at = begin; at < end; at = (at / kEnteredAround + 1) * kEnteredAround) {
    (void)*reinterpret_cast<const volatile std::byte*>(at);
  }
  entered_[static_cast<std::size_t>(chunk)] = true;
}

}  // namespace weir::share
