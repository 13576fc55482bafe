#pragma once

// Reads, writes and syncs of files by one thread, many in flight together.
//
// Large aligned requests go around the page cache and through io_uring, and so do syncs and reads that may have to wait
// for the disk.  Buffered writes only copy into the page cache: done in place, while the others are in flight.
// (io_uring would hand them to another thread on most file systems, one after the other.)  Without io_uring everything
// is done in place, one request after the other.

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/descriptor.h>
#include <weir/base/task.h>

namespace weir::storage::internal {

inline constexpr Offset kDirectAlignment = 4096;

struct IoRequest {
  enum class Kind : std::uint8_t { kRead, kWrite, kSyncData, kSync };
  Kind kind = Kind::kRead;
  int buffered = -1;  ///< Descriptor.
  int direct = -1;    ///< The same file with O_DIRECT; -1: not to be used.
  Offset offset = 0;
  std::byte* memory = nullptr;  ///< Of a write: only read.
  std::size_t size = 0;
};

struct DiskIoOptions {
  unsigned queue_depth = 64;
  bool use_uring = true;
  Offset direct_from_bytes = Offset{256} << 10;
};

/// \threadsafety One thread, but for wake().
class DiskIo {
 public:
  class Requests;

  explicit DiskIo(const DiskIoOptions& options);
  DiskIo(const DiskIo&) = delete;
  DiskIo& operator=(const DiskIo&) = delete;
  ~DiskIo();

  /// Makes the contents of a file durable.
  Task<Status> sync_file(int descriptor, const std::string& path);
  /// Makes the entries of a directory durable.
  Task<Status> sync_directory(const std::string& path);

  /// Sleeps until something has ended or wake() was called, and resumes the coroutines that waited for it.
  void wait();
  /// Ends a wait().  \threadsafety Safe from any thread.
  void wake();

 private:
  class Ring;
  class Bounces;

  // A part of a request that is done by one system call.
  struct Operation {
    Requests* requests = nullptr;
    std::size_t number = 0;  // of the whole request
    IoRequest request;
    std::byte* bounce = nullptr;  // aligned memory that stands in for that of the request
    [[nodiscard]] bool is_direct() const { return request.direct >= 0; }
    [[nodiscard]] std::byte* memory() const { return bounce != nullptr ? bounce : request.memory; }
  };

  void start_waiting();
  bool start(Operation& operation);
  void finish(Operation& operation, Offset result);
  void run_in_place(Operation& operation);

  DiskIoOptions options_;
  Descriptor wake_;             // an eventfd
  std::unique_ptr<Ring> ring_;  // none: not allowed here
  std::unique_ptr<Bounces> bounces_;
  std::deque<Operation*> waiting_;  // for a place in the ring
  unsigned in_flight_ = 0;
};

/// Requests that are in flight together.  `co_await` waits for all of them: 0, or the errno of one that failed.  Reads
/// give zeros behind the end of the file.
class DiskIo::Requests {
 public:
  /// Calls `ended` with the number of each request when it has ended, well or not, while others are in flight.
  Requests(DiskIo& io, std::vector<IoRequest> requests, std::function<void(std::size_t)> ended = {});
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// Puts as many as possible in flight, for callers that have something to do meanwhile.
  void start();

  bool await_ready() {
    start();
    return left_ == 0;
  }
  void await_suspend(std::coroutine_handle<> waiting) noexcept { waiting_ = waiting; }
  [[nodiscard]] int await_resume() const noexcept { return error_; }

 private:
  friend class DiskIo;
  void split(const IoRequest& request, std::size_t number);
  void add(const IoRequest& request, std::size_t number, Offset from, Offset to, bool is_direct);
  void end(const Operation& operation, int error);

  DiskIo& io_;
  std::vector<IoRequest> requests_;
  std::function<void(std::size_t)> ended_;
  std::vector<Operation> operations_;
  std::vector<std::size_t> left_of_;  // operations of each request that have not ended
  std::size_t left_ = 0;              // of all
  bool is_started_ = false;
  int error_ = 0;
  std::coroutine_handle<> waiting_;
};

}  // namespace weir::storage::internal
