#pragma once

// Reads and writes of files, many in flight together.
//
// Large aligned requests go around the page cache and through io_uring, and so do reads that may have to wait for the
// disk.  Buffered writes only copy into the page cache: done in place, while the others are under way.  (io_uring would
// hand them to another thread on most file systems, one after the other.)

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <weir/base/checked.h>

namespace weir::storage::internal {

inline constexpr Offset kDirectAlignment = 4096;

struct IoRequest {
  enum class Kind : std::uint8_t { kRead, kWrite };
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

class DiskIo {
 public:
  explicit DiskIo(const DiskIoOptions& options);
  DiskIo(const DiskIo&) = delete;
  DiskIo& operator=(const DiskIo&) = delete;
  ~DiskIo();

  /// Does all requests.  Reads give zeros behind the end of the file.  Calls `meanwhile` once, when as many as possible
  /// are under way, and `ended` with the number of each request when it has ended, well or not, while others are under
  /// way.  Returns 0 or the errno of one that failed; all have ended then.
  int run(std::span<const IoRequest> requests, const std::function<void()>& meanwhile = {},
          const std::function<void(std::size_t)>& ended = {});

 private:
  class Ring;
  class Bounces;

  // A part of a request that is done by one system call.
  struct Operation {
    IoRequest request;
    std::size_t number = 0;       // of the whole request
    std::byte* bounce = nullptr;  // aligned memory that stands in for that of the request
    [[nodiscard]] bool is_direct() const { return request.direct >= 0; }
    [[nodiscard]] std::byte* memory() const { return bounce != nullptr ? bounce : request.memory; }
  };

  void split(const IoRequest& request, std::size_t number);
  void add(const IoRequest& request, std::size_t number, Offset from, Offset to, bool is_direct);
  bool start(Operation& operation);
  void finish(Operation& operation, Offset result);
  void run_in_place(Operation& operation);
  void wait_for_one();
  void end(const Operation& operation, int error);

  DiskIoOptions options_;
  std::unique_ptr<Ring> ring_;  // none: not allowed here
  std::unique_ptr<Bounces> bounces_;
  std::vector<Operation> operations_;  // of the current run()
  std::vector<std::size_t> left_;      // operations of each request that have not ended
  const std::function<void(std::size_t)>* ended_ = nullptr;
  unsigned in_flight_ = 0;
  int error_ = 0;
};

}  // namespace weir::storage::internal
