#include <weir/client/internal/shared_subfile.h>

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
#include <weir/log/log.h>
#include <weir/wire/handover.h>

namespace weir::client::internal {

namespace {

using storage::kChunkBytes;
using storage::kDataStart;

constexpr auto kHugePage = static_cast<Offset>(kHugePageBytes);
constexpr Offset kChunksPerHugePage = kHugePage / kChunkBytes;
constexpr Offset kLeastRoom = Offset{16} << 20;
constexpr Offset kMostRoom = storage::kMostChunks * kChunkBytes;
// Mapping a subfile, or filling a chunk of it, is worth it for one access of so many bytes, or for some smaller ones.
constexpr Offset kWorthIt = Offset{64} << 10;
constexpr int kFewUses = 4;
// From so many bytes on, pages are entered all at once before the copy.
constexpr Offset kWorthPreparing = Offset{128} << 10;
// Descriptors that mappings of this process keep.
constexpr int kMostKeptFiles = 256;
std::atomic<int> kept_files{0};
// Linux enters as many pages that are there around one that is read.
constexpr std::uintptr_t kEnteredAround = 65536;

Status system_error(const char* call) { return os_error(ErrorCode::kIoError, concat("memory of a subfile: ", call)); }

wire::Shown shown(const std::unique_ptr<wire::Descriptor>& descriptor) {
  if (!descriptor) return {};
  return {descriptor->number(), descriptor->device(), descriptor->file()};
}

// Bit by bit, so that numbers that follow each other are far apart.
std::uint32_t reversed(std::uint32_t number) {
  std::uint32_t out = 0;
  for (int bit = 0; bit < 32; ++bit) out |= ((number >> bit) & 1) << (31 - bit);
  return out;
}

std::size_t length_of(Offset room) { return static_cast<std::size_t>(kDataStart + room); }

}  // namespace

MappedSubfile::MappedSubfile(std::byte* base, Offset room, bool is_writable, std::shared_ptr<wire::Lifeline> lifeline,
                             std::uint64_t generation, std::uint64_t boot)
    : base_(base),
      room_(room),
      is_writable_(is_writable),
      lifeline_(std::move(lifeline)),
      generation_(generation),
      boot_(boot) {}

MappedSubfile::~MappedSubfile() {
  ::munmap(base_, length_of(room_));
  if (file_.is_open()) --kept_files;
}

void MappedSubfile::keep(int descriptor) {
  if (!is_writable_ || descriptor < 0) return;
  if (++kept_files <= kMostKeptFiles) file_ = Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!file_.is_open()) --kept_files;
}

Result<std::shared_ptr<MappedSubfile>> MappedSubfile::map(int descriptor, std::shared_ptr<wire::Lifeline> lifeline,
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
  std::shared_ptr<MappedSubfile> mapped(
      new MappedSubfile(static_cast<std::byte*>(base), room, is_writable, std::move(lifeline), generation, boot));
  mapped->keep(descriptor);
  if (mapped->control().huge.load(std::memory_order_relaxed) == storage::Control::kSlowHugePages) {
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
  const Offset room = std::min(std::max(ceil_div(bytes, kChunkBytes) * kChunkBytes, 2 * room_), kMostRoom);
  // An old length of 0 leaves the old mapping as it is, for those who are using it.
  void* base = ::mremap(base_, 0, length_of(room), MREMAP_MAYMOVE);
  if (base == MAP_FAILED) return system_error("mremap");
  std::shared_ptr<MappedSubfile> mapped(
      new MappedSubfile(static_cast<std::byte*>(base), room, is_writable_, lifeline_, generation_, boot_));
  mapped->place_ = place_;
  mapped->keep(file_.get());
  return mapped;
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
  for (Offset chunk = from / kChunkBytes; chunk < end; ++chunk) {
    if (prepared_[static_cast<std::size_t>(chunk)] || !storage::test_bit(control().full, chunk)) continue;
    if (storage::is_made(control(), chunk)) {
      touch(chunk);
    } else if (!enter(chunk)) {
      return false;
    }
  }
  return true;
}

bool MappedSubfile::prepare_to_write(Offset from, Offset to) {
  // Two that make the same pages get in each other's way for long: what another one is making comes later, and then
  // costs little.
  for (Offset chunk = from / kChunkBytes; chunk * kChunkBytes < to; ++chunk) {
    if (storage::is_made(control(), chunk) || !storage::test_bit(control().full, chunk)) continue;
    const Offset written = std::min(to, (chunk + 1) * kChunkBytes) - std::max(from, chunk * kChunkBytes);
    // The first chunk may be all that the subfile ever has of it: its pages come one by one.
    if (chunk == 0 && written < kChunkBytes / 2) continue;
    if (!storage::claim(control(), chunk)) continue;
    const Offset pair = chunk / kChunksPerHugePage * kHugePage;
    const bool is_long = pair >= kHugePage || (from <= pair && pair + kHugePage <= to);
    if (!make(chunk, is_long)) return false;
  }
  return prepare(from, to);
}

bool MappedSubfile::has_huge_pages() const {
  return file_.is_open() && control().huge.load(std::memory_order_relaxed) != storage::Control::kNoHugePages;
}

bool MappedSubfile::prefers_calls() const {
  return file_.is_open() && (!has_huge_pages() || HugePages::here().are_slow());
}

bool MappedSubfile::write_new(Offset from, std::span<const std::byte> bytes) {
  const Offset chunk = from / kChunkBytes;
  const bool is_chunk = from % kChunkBytes == 0 && static_cast<Offset>(bytes.size()) == kChunkBytes;
  if (!is_chunk || !file_.is_open() || storage::is_made(control(), chunk)) return false;
  if (has_huge_pages() && HugePages::here().is_worth_asking()) return false;
  (void)storage::claim(control(), chunk);  // or another one makes its pages: no harm
  while (!bytes.empty()) {
    const ssize_t written =
        uninterrupted([&] { return ::pwrite(file_.get(), bytes.data(), bytes.size(), kDataStart + from); });
    if (written <= 0) return false;  // the copy to the same place makes up for it, or tells
    from += written;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  storage::note_made(control(), chunk);
  return true;
}

// A chunk that was claimed; false if there is no memory for it.
bool MappedSubfile::make(Offset chunk, bool may_be_huge) {
  const Offset other = chunk ^ 1;
  static_assert(kChunksPerHugePage == 2);
  if (has_huge_pages() && may_be_huge && storage::test_bit(control().full, other) &&
      HugePages::here().is_worth_asking() && storage::claim(control(), other)) {
    const bool is_huge = HugePages::here().make(file_.get(), kDataStart + chunk / kChunksPerHugePage * kHugePage);
    if (is_huge) {
      storage::note_made(control(), chunk);
      storage::note_made(control(), other);
      return true;
    }
  }
  std::byte* const from = data() + chunk * kChunkBytes;
  if (::madvise(from, static_cast<std::size_t>(kChunkBytes), MADV_POPULATE_WRITE) != 0 && errno != EINVAL) return false;
  storage::note_made(control(), chunk);
  return true;
}

// False if there is no memory for it.
bool MappedSubfile::enter(Offset chunk) {
  // For reading, whatever comes next: pages that exist are then entered many at a time, and can be written as well.
  // Kernels without it answer EINVAL, and pages are entered when they are first touched.
  std::byte* const from = data() + chunk * kChunkBytes;
  if (::madvise(from, static_cast<std::size_t>(kChunkBytes), MADV_POPULATE_READ) != 0 && errno != EINVAL) return false;
  prepared_[static_cast<std::size_t>(chunk)] = true;
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

namespace {

Outgoing request_for(const Session& session, const SubfileSlot::Wanted& wanted, bool opens,
                     SubfileSlot::Fetched& cost) {
  const Target& target = wanted.target;
  wire::ShareT share;
  share.subfile = std::make_unique<wire::Subfile>(target.subfile.file, target.subfile.element);
  share.for_writing = true;
  share.expected_bytes = wanted.expected;
  share.opens = opens;
  Outgoing call{target.server, wire::encode_request(std::move(share), session.timeout_ms(), target.store), {}, {}, {}};
  ++cost.messages;
  cost.index_bytes += static_cast<std::int64_t>(call.head.size());
  return call;
}

// Null if there is no memory to share.
Result<std::shared_ptr<MappedSubfile>> map_answer(Session& session, const SubfileSlot::Wanted& wanted,
                                                  const Outgoing& call, SubfileSlot::Fetched& cost) {
  const std::uint32_t server = wanted.target.server;
  WEIR_TRY(wire::HandoverT handover, session.answer<wire::HandoverT>(call));
  if (!handover.possible) return std::shared_ptr<MappedSubfile>();
  const std::uint64_t generation = session.generation(server);
  wire::Handed handed;
  if (handover.process != 0) {
    const auto opened = wire::open_memory(handover.process, shown(handover.memory), shown(handover.lifeline));
    if (opened.is_ok()) {
      handed = *opened;
    } else {
      WEIR_LOG_DEBUG("{}; by way of its socket from now on", opened.status().message());
      session.stop_opening_memory();
      Outgoing again = request_for(session, wanted, false, cost);
      session.run({&again, 1}, Repeat::kSafe);
      WEIR_TRY(handover, session.answer<wire::HandoverT>(again));
    }
  }
  if (handed.memory < 0) {
    WEIR_TRY(handed, wire::fetch_memory(handover.socket, handover.token));
  }
  const auto map = [&]() -> Result<std::shared_ptr<MappedSubfile>> {
    WEIR_TRY(auto lifeline, session.lifeline(server, handed.lifeline));
    return MappedSubfile::map(handed.memory, std::move(lifeline), generation, handover.boot);
  };
  auto mapped = map();
  ::close(handed.memory);
  ::close(handed.lifeline);
  return mapped;
}

}  // namespace

bool SubfileSlot::is_worth_fetching(Offset bytes) { return bytes >= kWorthIt; }

void SubfileSlot::take(Session& session, const Wanted& wanted, const Outgoing& call, Fetched& cost) {
  auto mapped = map_answer(session, wanted, call, cost);
  if (!mapped.is_ok()) {
    // Not an error of the access: messages still work, or say better what is wrong.
    WEIR_LOG_DEBUG("direct path to subfile {}.{}: {}", wanted.target.subfile.file, wanted.target.subfile.element,
                   mapped.status().message());
  } else if (*mapped) {
    mapped_ = std::move(mapped).value();
  } else {
    is_impossible_ = true;
  }
}

SubfileSlot::Fetched SubfileSlot::fetch(Session& session, std::span<const Wanted> wanted) {
  Fetched cost;
  std::vector<Outgoing> calls;
  for (const Wanted& one : wanted) calls.push_back(request_for(session, one, session.opens_memory(), cost));
  session.run(calls, Repeat::kSafe);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::lock_guard lock(wanted[i].slot->mutex_);
    if (!wanted[i].slot->mapped_) wanted[i].slot->take(session, wanted[i], calls[i], cost);
  }
  return cost;
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
    if (!is_worth_fetching(bytes) && small_uses_.fetch_add(1, std::memory_order_relaxed) < kFewUses) return out;
    const Wanted wanted{this, target, expected};
    Outgoing call = request_for(session, wanted, session.opens_memory(), out);
    session.run({&call, 1}, Repeat::kSafe);
    take(session, wanted, call, out);
    if (!mapped_) return out;
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
