#pragma once

// What this rank did, for `weir run --report` and `weir report`: written to WEIR_TRACE/<host>.<pid>.trace if WEIR_TRACE names a directory.
//
// Memory is bounded: accesses are kept as records of fixed size and written in blocks, and beyond WEIR_TRACE_LIMIT of them (200,000) only sums for each
// file and function are kept.  docs/formats.md describes the lines.

#include <cstdint>
#include <string>

#include <weir/client/file_system.h>
#include <weir/mpiio/internal/hints.h>

namespace weir::mpiio::internal {

struct FileView;

namespace trace {

/// Whether anything is to be written; all that follows costs no more than looking at this if not.
extern const bool is_on;

/// Since 1970, in ns; 0 if nothing is traced.
std::int64_t now();

/// The phases that an access consists of.  What is left of its time was spent on looking at arguments, types and sizes.
enum Phase { kMeet, kLock, kPack, kMove, kPhases };

/// One read or write, from its call to the end of the last byte.
struct Access {
  const void* file = nullptr;
  const FileView* view = nullptr;
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

/// What a view's accesses cost from one report to a later one, as far as it is traced.
client::AccessReport cost_between(const client::AccessReport& before, const client::AccessReport& after);

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

/// How long this thread has met other ranks, in all.
std::int64_t& time_met();

/// `file` stands for the file from here until closed().
struct Opening {
  std::string path;
  std::string layout;
  std::string why;  ///< That layout; only one rank knows.
  Hints hints;
  int rank = 0;
  int ranks = 1;
  std::int64_t start = 0;
};
void opened(const void* file, const Opening& opening);
/// The layout was changed.
void stored(const void* file, const std::string& layout, const std::string& why);
/// What else was chosen, for which reason: "collective writes", "two-phase", ...
void chosen(const void* file, const std::string& what, const std::string& choice, const std::string& why);
/// From now on.
void viewed(const void* file, const FileView& view, const layout::Partition& layout);
void done(const Access& access);
void closed(const void* file);

}  // namespace trace
}  // namespace weir::mpiio::internal
