#include <weir/client/internal/shared_subfile.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/server/handover.h>

// Newer than the headers of some systems; older kernels answer EINVAL.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace weir::client::internal {

namespace {

using storage::kChunkBytes;
using storage::kDataStart;

constexpr Offset kLeastRoom = Offset{16} << 20;
constexpr Offset kMostRoom = storage::kMostChunks * kChunkBytes;
// Mapping a subfile, or filling a chunk of it, is worth it for one access of so many bytes, or for some smaller ones.
constexpr Offset kWorthIt = Offset{64} << 10;
constexpr int kFewUses = 4;
// From so many bytes on, pages are entered all at once before the copy.
constexpr Offset kWorthPreparing = Offset{128} << 10;
// Linux enters as many pages that are there around one that is read.
constexpr std::uintptr_t kEnteredAround = 65536;

Status system_error(const char* call) {
  return {ErrorCode::kIoError, concat("memory of a subfile: ", call, ": ", std::strerror(errno))};
}

std::size_t length_of(Offset room) { return static_cast<std::size_t>(kDataStart + room); }

}  // namespace

MappedSubfile::MappedSubfile(std::byte* base, Offset room, bool is_writable, std::shared_ptr<server::Lifeline> lifeline,
                             std::uint64_t generation, std::uint64_t boot)
    : base_(base),
      room_(room),
      is_writable_(is_writable),
      lifeline_(std::move(lifeline)),
      generation_(generation),
      boot_(boot) {}

MappedSubfile::~MappedSubfile() { ::munmap(base_, length_of(room_)); }

Result<std::shared_ptr<MappedSubfile>> MappedSubfile::map(int descriptor, std::shared_ptr<server::Lifeline> lifeline,
                                                          std::uint64_t generation, std::uint64_t boot) {
  struct ::stat info {};
  if (::fstat(descriptor, &info) != 0) return system_error("fstat");
  if (info.st_size < storage::kControlBytes) return corrupt("memory of a subfile: too short");
  const Offset room = std::min(std::max(2 * (info.st_size - kDataStart), kLeastRoom), kMostRoom);
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0) return system_error("fcntl");
  const bool is_writable = (flags & O_ACCMODE) == O_RDWR;
  const int protection = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* base = ::mmap(nullptr, length_of(room), protection, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (base == MAP_FAILED) return system_error("mmap");
  return std::shared_ptr<MappedSubfile>(
      new MappedSubfile(static_cast<std::byte*>(base), room, is_writable, std::move(lifeline), generation, boot));
}

Result<std::shared_ptr<MappedSubfile>> MappedSubfile::longer(Offset bytes) const {
  // Whole chunks: those are prepared as a whole.
  const Offset room = std::min(std::max(ceil_div(bytes, kChunkBytes) * kChunkBytes, 2 * room_), kMostRoom);
  // An old length of 0 leaves the old mapping as it is, for those who are using it.
  void* base = ::mremap(base_, 0, length_of(room), MREMAP_MAYMOVE);
  if (base == MAP_FAILED) return system_error("mremap");
  return std::shared_ptr<MappedSubfile>(
      new MappedSubfile(static_cast<std::byte*>(base), room, is_writable_, lifeline_, generation_, boot_));
}

bool MappedSubfile::is_full(Offset from, Offset to) const {
  if (!is_writable_ || to > room_ || to > control().mapped_bytes.load(std::memory_order_acquire)) return false;
  for (Offset chunk = from / kChunkBytes; chunk * kChunkBytes < to; ++chunk) {
    if (!storage::test_bit(control().full, chunk)) return false;
  }
  return true;
}

MappedSubfile::Touched MappedSubfile::touched(Offset from, Offset to) const {
  bool any = false;
  bool all = to <= control().mapped_bytes.load(std::memory_order_acquire);
  for (Offset chunk = from / kChunkBytes; chunk * kChunkBytes < to; ++chunk) {
    const bool is_touched = storage::test_bit(control().touched, chunk);
    any = any || is_touched;
    all = all && is_touched;
  }
  return all ? Touched::kAll : any ? Touched::kSome : Touched::kNone;
}

bool MappedSubfile::prepare(Offset from, Offset to) {
  if (to - from < kWorthPreparing) return true;
  const std::lock_guard lock(mutex_);
  const Offset end = ceil_div(to, kChunkBytes);
  if (static_cast<Offset>(prepared_.size()) < end) prepared_.resize(static_cast<std::size_t>(end));
  const auto is_due = [&](Offset chunk) {
    return !prepared_[static_cast<std::size_t>(chunk)] && storage::test_bit(control().full, chunk);
  };
  const Offset begin = from / kChunkBytes;
  const auto touch_made = [&] {
    for (Offset chunk = begin; chunk < end; ++chunk) {
      if (is_due(chunk) && storage::is_made(control(), chunk)) touch(chunk);
    }
  };
  touch_made();
  // Two that make the same pages get in each other's way for long: what another one is making comes later, and then costs little.
  for (Offset chunk = begin; is_writable_ && chunk < end; ++chunk) {
    if (!is_due(chunk) || !storage::claim(control(), chunk)) continue;
    if (!enter(chunk, chunk + 1)) return false;
    storage::note_made(control(), chunk);
  }
  touch_made();
  for (Offset chunk = begin; chunk < end; ++chunk) {
    const Offset first = chunk;
    while (chunk < end && is_due(chunk)) ++chunk;
    if (chunk > first && !enter(first, chunk)) return false;
  }
  return true;
}

// Chunks [first, end); false if there is no memory for them.
bool MappedSubfile::enter(Offset first, Offset end) {
  const auto bytes = static_cast<std::size_t>((end - first) * kChunkBytes);
  // For reading, whatever comes next: pages that exist are then entered many at a time, and can be written as well.  Kernels without it
  // answer EINVAL, and pages are entered when they are first touched.
  if (::madvise(data() + first * kChunkBytes, bytes, MADV_POPULATE_READ) != 0 && errno != EINVAL) return false;
  std::fill(prepared_.begin() + first, prepared_.begin() + end, true);
  return true;
}

// The same of a chunk whose pages are all there: half the time, since nobody looks at each page.
void MappedSubfile::touch(Offset chunk) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data() + chunk * kChunkBytes);
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(kChunkBytes);
  for (std::uintptr_t at = begin; at < end; at = (at / kEnteredAround + 1) * kEnteredAround) {
    (void)*reinterpret_cast<const volatile std::byte*>(at);
  }
  prepared_[static_cast<std::size_t>(chunk)] = true;
}

Result<std::shared_ptr<MappedSubfile>> SubfileSlot::fetch(Session& session, const Target& target, Offset expected,
                                                          Fetched& cost) {
  const std::uint32_t server = target.server;
  wire::ShareT share;
  share.subfile = std::make_unique<wire::Subfile>(target.subfile.file, target.subfile.element);
  share.for_writing = true;
  share.expected_bytes = expected;
  Outgoing call{server, wire::encode_request(std::move(share), session.timeout_ms(), target.store), {}, {}, {}};
  cost.messages = 1;
  cost.index_bytes = static_cast<std::int64_t>(call.head.size());
  session.run({&call, 1}, Repeat::kSafe);
  WEIR_TRY(const wire::HandoverT handover, session.answer<wire::HandoverT>(call));
  if (!handover.possible) return std::shared_ptr<MappedSubfile>();
  const std::uint64_t generation = session.generation(server);
  WEIR_TRY(const server::Handed handed, server::fetch_memory(handover.socket, handover.token));
  const auto map = [&]() -> Result<std::shared_ptr<MappedSubfile>> {
    WEIR_TRY(auto lifeline, session.lifeline(server, handed.lifeline));
    return MappedSubfile::map(handed.memory, std::move(lifeline), generation, handover.boot);
  };
  auto mapped = map();
  ::close(handed.memory);
  ::close(handed.lifeline);
  return mapped;
}

std::shared_ptr<MappedSubfile> SubfileSlot::mapped() {
  const std::lock_guard lock(mutex_);
  return mapped_;
}

SubfileSlot::Fetched SubfileSlot::memory(Session& session, const Target& target, Offset end, Offset bytes,
                                         Offset expected) {
  Fetched out;
  if (is_impossible() || end > kMostRoom) return out;
  const std::lock_guard lock(mutex_);
  // A server that was started anew has other memory, and this one is nobody's.
  if (mapped_ && (mapped_->generation() != session.generation(target.server) || !mapped_->is_alive())) mapped_.reset();
  if (!mapped_) {
    if (bytes < kWorthIt && small_uses_.fetch_add(1, std::memory_order_relaxed) < kFewUses) return out;
    auto fetched = fetch(session, target, expected, out);
    if (!fetched.is_ok()) {
      // Not an error of the access: messages still work, or say better what is wrong.
      WEIR_LOG_DEBUG("direct path to subfile {}.{}: {}", target.subfile.file, target.subfile.element,
                     fetched.status().message());
      return out;
    }
    if (!*fetched) {
      is_impossible_ = true;
      return out;
    }
    mapped_ = std::move(fetched).value();
  }
  if (end > mapped_->room()) {
    auto longer = mapped_->longer(end);
    if (!longer.is_ok()) return out;
    mapped_ = std::move(longer).value();
  }
  out.memory = mapped_;
  return out;
}

bool SubfileSlot::is_worth_reserving(Offset bytes) {
  return bytes >= kWorthIt || small_writes_.fetch_add(1, std::memory_order_relaxed) >= kFewUses;
}

}  // namespace weir::client::internal
