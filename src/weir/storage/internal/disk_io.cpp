#include <weir/storage/internal/disk_io.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weir/base/aligned_memory.h>
#include <weir/base/system_call.h>
#include <weir/log/log.h>
#include <weir/storage/internal/disk_files.h>

namespace weir::storage::internal {
namespace {

// One system call moves no more than this: enough for any disk, and large requests keep several in flight.
constexpr Offset kMostBytes = Offset{2} << 20;
constexpr Offset kBounceBytes = Offset{1} << 20;
constexpr std::size_t kBounces = 16;

bool is_aligned(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % static_cast<std::uintptr_t>(kDirectAlignment) == 0;
}

bool is_sync(IoRequest::Kind kind) { return kind == IoRequest::Kind::kSync || kind == IoRequest::Kind::kSyncData; }

// Does what is left of a request through the page cache.  Returns errno.
int do_buffered(IoRequest request) {
  if (request.kind == IoRequest::Kind::kSync) return ::fsync(request.buffered) == 0 ? 0 : errno;
  if (request.kind == IoRequest::Kind::kSyncData) return ::fdatasync(request.buffered) == 0 ? 0 : errno;
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
    switch (request.kind) {
      case IoRequest::Kind::kRead: io_uring_prep_read(entry, file, operation.memory(), size, offset); break;
      case IoRequest::Kind::kWrite: io_uring_prep_write(entry, file, operation.memory(), size, offset); break;
      case IoRequest::Kind::kSyncData: io_uring_prep_fsync(entry, file, IORING_FSYNC_DATASYNC); break;
      case IoRequest::Kind::kSync: io_uring_prep_fsync(entry, file, 0); break;
    }
    io_uring_sqe_set_data(entry, &operation);
    return true;
  }

  // Reports, as an entry without an operation, that the descriptor can be read.
  void watch(int descriptor) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {
      submit();
      entry = io_uring_get_sqe(&ring_);
    }
    io_uring_prep_poll_add(entry, descriptor, POLLIN);
    io_uring_sqe_set_data(entry, nullptr);
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
  // Null: nothing more has ended.
  io_uring_cqe* peek() {
    io_uring_cqe* entry = nullptr;
    return io_uring_peek_cqe(&ring_, &entry) == 0 ? entry : nullptr;
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

DiskIo::DiskIo(const DiskIoOptions& options)
    : options_(options), wake_(::eventfd(0, EFD_CLOEXEC)), bounces_(std::make_unique<Bounces>()) {
  if (options.use_uring) ring_ = Ring::create(std::max(1U, options.queue_depth) + 1);
  if (ring_) ring_->watch(wake_.get());
}

DiskIo::~DiskIo() = default;

Task<Status> DiskIo::sync_file(int descriptor, const std::string& path) {
  std::vector<IoRequest> requests(1);
  requests[0].kind = IoRequest::Kind::kSyncData;
  requests[0].buffered = descriptor;
  Requests sync(*this, std::move(requests));
  const int error = co_await sync;
  if (error != 0) co_return os_error("fdatasync", path, error);
  co_return Status::ok();
}

Task<Status> DiskIo::sync_directory(const std::string& path) {
  WEIR_CO_TRY(const Descriptor directory, open_file(path, O_RDONLY | O_DIRECTORY));
  std::vector<IoRequest> requests(1);
  requests[0].kind = IoRequest::Kind::kSync;
  requests[0].buffered = directory.get();
  Requests sync(*this, std::move(requests));
  const int error = co_await sync;
  if (error != 0) co_return os_error("fsync", path, error);
  co_return Status::ok();
}

void DiskIo::wake() {
  const std::uint64_t one = 1;
  (void)uninterrupted([&] { return ::write(wake_.get(), &one, sizeof one); });
}

void DiskIo::wait() {
  std::uint64_t count = 0;
  if (!ring_) {
    (void)uninterrupted([&] { return ::read(wake_.get(), &count, sizeof count); });
    return;
  }
  for (io_uring_cqe* entry = ring_->wait(); entry != nullptr; entry = ring_->peek()) {
    auto* operation = static_cast<Operation*>(io_uring_cqe_get_data(entry));
    const Offset result = entry->res;
    ring_->seen(entry);
    if (operation == nullptr) {
      (void)uninterrupted([&] { return ::read(wake_.get(), &count, sizeof count); });
      ring_->watch(wake_.get());
      continue;
    }
    --in_flight_;
    start_waiting();
    finish(*operation, result);
    start_waiting();  // it may have given back aligned memory
  }
}

void DiskIo::start_waiting() {
  bool has_started = false;
  while (!waiting_.empty()) {
    Operation* const next = waiting_.front();
    waiting_.pop_front();
    if (!start(*next)) {
      waiting_.push_front(next);
      break;
    }
    has_started = true;
  }
  if (has_started) ring_->submit();
}

// False if the queue is full or aligned memory is short: wait for another one first.
bool DiskIo::start(Operation& operation) {
  if (in_flight_ >= std::max(1U, options_.queue_depth)) return false;
  const IoRequest& request = operation.request;
  if (operation.is_direct() && !is_aligned(request.memory)) {
    if (operation.bounce == nullptr) operation.bounce = bounces_->take();
    if (operation.bounce == nullptr) return false;
    if (request.kind == IoRequest::Kind::kWrite) std::memcpy(operation.bounce, request.memory, request.size);
  }
  if (!ring_->prepare(operation)) {
    ring_->submit();
    if (!ring_->prepare(operation)) {
      if (in_flight_ > 0) return false;
      if (operation.bounce != nullptr) bounces_->give_back(std::exchange(operation.bounce, nullptr));
      operation.requests->end(operation, do_buffered(request));  // the kernel takes none: in place then
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
  // What a sync reports it reports once.
  if (is_sync(rest.kind)) return operation.requests->end(operation, static_cast<int>(-std::min<Offset>(result, 0)));
  rest.memory += done;
  rest.offset += static_cast<Offset>(done);
  rest.size -= done;
  if (rest.size == 0) return operation.requests->end(operation, 0);
  // An error of the device is not tried again: it takes long, and trying again through the page cache could hide it.
  operation.requests->end(operation, result == -EIO ? EIO : do_buffered(rest));
}

void DiskIo::run_in_place(Operation& operation) {
  const IoRequest& request = operation.request;
  if (!operation.is_direct()) return operation.requests->end(operation, do_buffered(request));
  if (!is_aligned(request.memory)) {
    operation.bounce = bounces_->take();  // there is one: nothing else is in flight without a ring
    if (request.kind == IoRequest::Kind::kWrite) std::memcpy(operation.bounce, request.memory, request.size);
  }
  const ssize_t done = request.kind == IoRequest::Kind::kRead
                           ? ::pread(request.direct, operation.memory(), request.size, request.offset)
                           : ::pwrite(request.direct, operation.memory(), request.size, request.offset);
  finish(operation, done < 0 ? -errno : done);
}

DiskIo::Requests::Requests(DiskIo& io, std::vector<IoRequest> requests, std::function<void(std::size_t)> ended)
    : io_(io), requests_(std::move(requests)), ended_(std::move(ended)), left_of_(requests_.size(), 0) {}

void DiskIo::Requests::start() {
  if (is_started_) return;
  is_started_ = true;
  for (std::size_t i = 0; i < requests_.size(); ++i) split(requests_[i], i);
  left_ = operations_.size();
  // Those for the ring first, so that the disk works while the rest is copied.
  const auto in_place = std::stable_partition(operations_.begin(), operations_.end(), [this](const Operation& one) {
    return io_.ring_ != nullptr && (one.is_direct() || one.request.kind != IoRequest::Kind::kWrite);
  });
  for (auto one = operations_.begin(); one != in_place; ++one) io_.waiting_.push_back(&*one);
  io_.start_waiting();
  for (auto one = in_place; one != operations_.end(); ++one) io_.run_in_place(*one);
}

// Buffered up to the first aligned byte and from the last one on, direct in between; or all buffered.
void DiskIo::Requests::split(const IoRequest& request, std::size_t number) {
  const Offset end = request.offset + static_cast<Offset>(request.size);
  const Offset first = ceil_div(request.offset, kDirectAlignment) * kDirectAlignment;
  const Offset last = floor_div(end, kDirectAlignment) * kDirectAlignment;
  if (is_sync(request.kind)) {
    operations_.push_back({this, number, request});
    ++left_of_[number];
    return;
  }
  if (request.direct < 0 || last - first < io_.options_.direct_from_bytes)
    return add(request, number, request.offset, end, false);
  add(request, number, request.offset, first, false);
  add(request, number, first, last, true);
  add(request, number, last, end, false);
}

void DiskIo::Requests::add(const IoRequest& request, std::size_t number, Offset from, Offset to, bool is_direct) {
  std::byte* const memory = request.memory + (from - request.offset);
  const Offset most = is_direct && !is_aligned(memory) ? kBounceBytes : kMostBytes;
  for (Offset at = from; at < to; at += most) {
    Operation operation{this, number, request};
    if (!is_direct) operation.request.direct = -1;
    operation.request.offset = at;
    operation.request.memory = memory + (at - from);
    operation.request.size = static_cast<std::size_t>(std::min(most, to - at));
    operations_.push_back(operation);
    ++left_of_[number];
  }
}

// The last one resumes who waits, and that may be the end of this object.
void DiskIo::Requests::end(const Operation& operation, int error) {
  if (error_ == 0) error_ = error;
  if (--left_of_[operation.number] == 0 && ended_) ended_(operation.number);
  if (--left_ == 0 && waiting_) waiting_.resume();
}

}  // namespace weir::storage::internal
