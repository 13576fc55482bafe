#include <weir/storage/internal/disk_io.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <liburing.h>
#include <unistd.h>

#include <weir/base/aligned_memory.h>
#include <weir/log/log.h>

namespace weir::storage::internal {
namespace {

// One system call moves no more than this: enough for any disk, and large requests keep several in flight.
constexpr Offset kMostBytes = Offset{2} << 20;
constexpr Offset kBounceBytes = Offset{1} << 20;
constexpr std::size_t kBounces = 16;

bool is_aligned(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % static_cast<std::uintptr_t>(kDirectAlignment) == 0;
}

// Does what is left of a request through the page cache.  Returns errno.
int do_buffered(IoRequest request) {
  while (request.size > 0) {
    const ssize_t done = request.kind == IoRequest::Kind::kRead
                             ? ::pread(request.buffered, request.memory, request.size, request.offset)
                             : ::pwrite(request.buffered, request.memory, request.size, request.offset);
    if (done < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (done < 0) return errno;
    if (done == 0 && request.kind == IoRequest::Kind::kWrite) return ENOSPC;
    if (done == 0) {
      std::memset(request.memory, 0, request.size);  // behind the end of the file
      return 0;
    }
    request.memory += done;
    request.offset += done;
    request.size -= static_cast<std::size_t>(done);
  }
  return 0;
}

}  // namespace

class DiskIo::Ring {
 public:
  static std::unique_ptr<Ring> create(unsigned depth) {
    auto ring = std::make_unique<Ring>();
    const int error = io_uring_queue_init(depth, &ring->ring_, 0);
    if (error == 0) {
      ring->is_open_ = true;
      return ring;
    }
    static const bool logged = [error] {
      WEIR_LOG_WARN("disk store: io_uring is not to be had ({}); requests go one after the other",
                    std::strerror(-error));
      return true;
    }();
    (void)logged;
    return nullptr;
  }
  ~Ring() {
    if (is_open_) io_uring_queue_exit(&ring_);
  }

  bool prepare(Operation& operation) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return false;
    const IoRequest& request = operation.request;
    const int file = operation.is_direct() ? request.direct : request.buffered;
    const auto size = static_cast<unsigned>(request.size);
    const auto offset = static_cast<std::uint64_t>(request.offset);
    if (request.kind == IoRequest::Kind::kRead) {
      io_uring_prep_read(entry, file, operation.memory(), size, offset);
    } else {
      io_uring_prep_write(entry, file, operation.memory(), size, offset);
    }
    io_uring_sqe_set_data(entry, &operation);
    return true;
  }

  // Hands over what was prepared.  Nothing is lost if the kernel takes only a part: the next call offers the rest.
  void submit() { (void)io_uring_submit(&ring_); }

  io_uring_cqe* wait() {
    for (;;) {
      (void)io_uring_submit(&ring_);
      io_uring_cqe* entry = nullptr;
      if (io_uring_wait_cqe(&ring_, &entry) == 0) return entry;
    }
  }
  void seen(io_uring_cqe* entry) { io_uring_cqe_seen(&ring_, entry); }

 private:
  io_uring ring_{};
  bool is_open_ = false;
};

class DiskIo::Bounces {
 public:
  // Null if all are taken.
  std::byte* take() {
    if (memory_ == nullptr) allocate();
    if (free_.empty()) return nullptr;
    std::byte* bounce = free_.back();
    free_.pop_back();
    return bounce;
  }
  void give_back(std::byte* bounce) { free_.push_back(bounce); }

 private:
  void allocate() {
    memory_ = make_aligned_memory(kBounces * kBounceBytes);
    for (std::size_t i = 0; i < kBounces; ++i) free_.push_back(memory_.get() + i * kBounceBytes);
  }

  AlignedMemory memory_;
  std::vector<std::byte*> free_;
};

DiskIo::DiskIo(const DiskIoOptions& options) : options_(options), bounces_(std::make_unique<Bounces>()) {
  if (options.use_uring) ring_ = Ring::create(std::max(1U, options.queue_depth));
}

DiskIo::~DiskIo() = default;

int DiskIo::run(std::span<const IoRequest> requests, const std::function<void()>& meanwhile,
                const std::function<void(std::size_t)>& ended) {
  operations_.clear();
  left_.assign(requests.size(), 0);
  ended_ = &ended;
  error_ = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) split(requests[i], i);

  // Those for the ring first, so that the disk works while the rest is copied.
  const auto in_place =
      std::stable_partition(operations_.begin(), operations_.end(), [this](const Operation& operation) {
        return ring_ != nullptr && (operation.is_direct() || operation.request.kind == IoRequest::Kind::kRead);
      });
  auto next = operations_.begin();
  while (next != in_place && start(*next)) ++next;
  if (ring_) ring_->submit();
  for (auto operation = in_place; operation != operations_.end(); ++operation) run_in_place(*operation);
  if (meanwhile) meanwhile();
  while (next != in_place || in_flight_ > 0) {
    while (next != in_place && start(*next)) ++next;
    wait_for_one();
  }
  return error_;
}

// Buffered up to the first aligned byte and from the last one on, direct in between; or all buffered.
void DiskIo::split(const IoRequest& request, std::size_t number) {
  const Offset end = request.offset + static_cast<Offset>(request.size);
  const Offset first = ceil_div(request.offset, kDirectAlignment) * kDirectAlignment;
  const Offset last = floor_div(end, kDirectAlignment) * kDirectAlignment;
  if (request.direct < 0 || last - first < options_.direct_from_bytes)
    return add(request, number, request.offset, end, false);
  add(request, number, request.offset, first, false);
  add(request, number, first, last, true);
  add(request, number, last, end, false);
}

void DiskIo::add(const IoRequest& request, std::size_t number, Offset from, Offset to, bool is_direct) {
  std::byte* const memory = request.memory + (from - request.offset);
  const Offset most = is_direct && !is_aligned(memory) ? kBounceBytes : kMostBytes;
  for (Offset at = from; at < to; at += most) {
    Operation operation{request, number};
    if (!is_direct) operation.request.direct = -1;
    operation.request.offset = at;
    operation.request.memory = memory + (at - from);
    operation.request.size = static_cast<std::size_t>(std::min(most, to - at));
    operations_.push_back(operation);
    ++left_[number];
  }
}

// False if the queue is full or aligned memory is short: wait for another one first.
bool DiskIo::start(Operation& operation) {
  if (in_flight_ >= std::max(1U, options_.queue_depth)) return false;
  const IoRequest& request = operation.request;
  if (operation.is_direct() && !is_aligned(request.memory)) {
    operation.bounce = bounces_->take();
    if (operation.bounce == nullptr) return false;
    if (request.kind == IoRequest::Kind::kWrite) std::memcpy(operation.bounce, request.memory, request.size);
  }
  if (!ring_->prepare(operation)) {
    ring_->submit();
    if (!ring_->prepare(operation)) {
      finish(operation, 0);  // the kernel takes no more: in place then
      return true;
    }
  }
  ++in_flight_;
  return true;
}

// `result`: bytes moved, or -errno.  What is missing is done through the page cache, which also answers what really is
// the matter: direct I/O may be refused at odd lengths, or end at the end of the file.
void DiskIo::finish(Operation& operation, Offset result) {
  IoRequest rest = operation.request;
  const std::size_t done = result > 0 ? static_cast<std::size_t>(result) : 0;
  if (operation.bounce != nullptr) {
    if (rest.kind == IoRequest::Kind::kRead) std::memcpy(rest.memory, operation.bounce, done);
    bounces_->give_back(operation.bounce);
    operation.bounce = nullptr;
  }
  rest.memory += done;
  rest.offset += static_cast<Offset>(done);
  rest.size -= done;
  if (rest.size == 0) return end(operation, 0);
  // An error of the device is not tried again: it takes long, and trying again through the page cache could hide it.
  end(operation, result == -EIO ? EIO : do_buffered(rest));
}

void DiskIo::run_in_place(Operation& operation) {
  const IoRequest& request = operation.request;
  if (!operation.is_direct()) return end(operation, do_buffered(request));
  if (!is_aligned(request.memory)) {
    operation.bounce = bounces_->take();  // there is one: nothing else is under way without a ring
    if (request.kind == IoRequest::Kind::kWrite) std::memcpy(operation.bounce, request.memory, request.size);
  }
  const ssize_t done = request.kind == IoRequest::Kind::kRead
                           ? ::pread(request.direct, operation.memory(), request.size, request.offset)
                           : ::pwrite(request.direct, operation.memory(), request.size, request.offset);
  finish(operation, done < 0 ? -errno : done);
}

void DiskIo::wait_for_one() {
  if (in_flight_ == 0) return;
  io_uring_cqe* entry = ring_->wait();
  auto* operation = static_cast<Operation*>(io_uring_cqe_get_data(entry));
  const Offset result = entry->res;
  ring_->seen(entry);
  --in_flight_;
  finish(*operation, result);
}

void DiskIo::end(const Operation& operation, int error) {
  if (error_ == 0) error_ = error;
  if (--left_[operation.number] == 0 && *ended_) (*ended_)(operation.number);
}

}  // namespace weir::storage::internal
