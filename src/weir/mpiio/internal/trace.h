#pragma once

// What this rank did, for `weir run` and `weir report`: written to WEIR_TRACE/<host>.<pid>.trace if WEIR_TRACE names a directory.
//
// Memory is bounded: accesses are kept as records of fixed size and written in blocks, and beyond WEIR_TRACE_LIMIT of
// them (200,000) only sums for each file and function are kept.  With a limit of 0 accesses are only counted: that is
// cheap enough for every job (two atomic additions for each access, and a look at the clock for few of them), and what
// `weir run` asks for without --report.  The component trace has the format of the lines.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <weir/client/file_system.h>
#include <weir/pario/file.h>
#include <weir/trace/lines.h>

namespace weir::mpiio::internal::trace {

/// Whether every access is recorded; what follows on single accesses costs no more than looking at this if not.
extern const bool is_on;
/// Whether anything is written at all: openings, failures, and sums for each file.
extern const bool is_counting;

/// Since 1970, in ns; 0 if accesses are not recorded.
std::int64_t now();

using enum weir::trace::Phase;

/// One read or write, from its call to the end of the last byte.
struct TracedAccess {
  const void* file = nullptr;
  const pario::View* view = nullptr;
  const char* call = "";
  bool is_write = false;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t phases[kPhases] = {};
  Offset bytes = 0;
  client::AccessReport for_all;  ///< What this rank moved for all ranks, not through its own view.
  Offset first = 0;              ///< Of the file.
  Offset last = 0;
};

/// Adds the time of its scope to a phase.
class Stopwatch {
 public:
  explicit Stopwatch(std::int64_t& sum) : sum_(sum), start_(now()) {}
  ~Stopwatch() {
    if (is_on) sum_ += now() - start_;
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::int64_t& sum_;
  std::int64_t start_;
};

/// Adds the time of its scope to what this process spent in I/O calls.  Of many calls it measures every 16th, spread
/// evenly, and counts it 16 times.
class CallTimer {
 public:
  CallTimer() {
    if (is_counting) begin();
  }
  ~CallTimer() {
    if (weight_ != 0) end();
  }
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

 private:
  void begin();
  void end() const;
  std::int64_t weight_ = 0;
  std::int64_t start_ = 0;
};

/// Reads [0] and writes [1] of one open file.  \threadsafety Safe from any thread.
struct Counts {
  std::atomic<std::int64_t> accesses[2] = {};
  std::atomic<std::int64_t> bytes[2] = {};
  void add(bool is_write, Offset moved) {
    if (!is_counting) return;
    accesses[is_write].fetch_add(1, std::memory_order_relaxed);
    bytes[is_write].fetch_add(moved, std::memory_order_relaxed);
  }
};

/// `file` stands for the file from here until closed().
struct Opening {
  std::string path;
  std::string layout;
  std::string why;  ///< That layout; only one rank knows.
  pario::Hints hints;
  int rank = 0;
  int ranks = 1;
  bool can_write = false;
  std::int64_t start = 0;
  std::shared_ptr<const Counts> counts;
};
void opened(const void* file, const Opening& opening);
/// Writes down what the file does by itself; null if accesses are not recorded.
std::unique_ptr<pario::Observer> observer_of(const void* file);
/// From now on.
void viewed(const void* file, const pario::View& view, const layout::Partition& layout);
void done(const TracedAccess& access);
void closed(const void* file);
/// A call returned an error to the program, or ends it.
void failed(const std::string& path, std::string_view call, const std::string& message);
/// Writes all that is not written yet; for a process that ends without exit().
void finish();

}  // namespace weir::mpiio::internal::trace
