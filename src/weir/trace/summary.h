#pragma once

// What a job did with each of its files, from the traces of all ranks.

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <weir/trace/reader.h>
#include <weir/trace/view_groups.h>

namespace weir::trace {

/// Both ways: [0] reads, [1] writes.
template <typename T>
using BothWays = std::array<T, 2>;

/// Bytes by file offset (rows) and time (columns).
struct HeatMap {
  static constexpr int kColumns = 100;
  static constexpr int kRows = 60;
  double seconds = 0;                     ///< From the first access to the end of the last.
  Offset file_end = 0;                    ///< One past the last byte that was touched.
  BothWays<std::vector<double>> bytes{};  ///< kRows * kColumns each.
};

struct CallSum {
  bool is_write = false;
  std::int64_t count = 0;
  Offset bytes = 0;
  double seconds = 0;
};

/// Class k: at least 2^k and less than 2^(k+1) bytes; class 0 also holds empty accesses.
inline constexpr int kSizeClasses = 63;

/// Calls of one function on one file that returned an error to the program.
struct FailureSum {
  std::string path;
  std::string call;
  std::int64_t count = 0;
  std::map<int, std::int64_t> by_rank;
  std::string message;  ///< One of them, without call and file.
};

struct FileSummary {
  std::string path;
  std::string layout;
  std::string why;
  std::map<std::string, std::string> hints;
  std::vector<ChoiceLine> choices;  ///< Each once.
  int ranks = 0;
  std::int64_t openings = 0;   ///< Collective ones.
  double opening_seconds = 0;  ///< Summed over ranks, as all times.
  BothWays<Offset> bytes{};
  BothWays<std::int64_t> accesses{};
  std::int64_t failed_calls = 0;
  BothWays<double> seconds{};  ///< Summed over ranks.
  BothWays<std::array<std::int64_t, kSizeClasses>> sizes{};
  std::array<double, kPhases + 1> phases{};  ///< Seconds, summed over ranks; the last is the rest.
  std::map<std::string, CallSum> calls;
  std::int64_t messages = 0;
  std::int64_t index_bytes = 0;
  std::int64_t moved_bytes = 0;
  std::int64_t direct_bytes = 0;
  std::int64_t gathered_bytes = 0;
  std::optional<double> degree;  ///< Of matching; mean over the bytes of all accesses.
  std::vector<ViewGroup> views;
  std::vector<RankView> main_views;  ///< Of each rank the one with most bytes.
  std::int64_t unknown_views = 0;    ///< Too long to be in the trace.
  HeatMap heat;
};

struct IoSummary {
  int ranks = 0;  ///< That wrote a trace.
  int world = 0;  ///< That there were.
  std::vector<std::string> hosts;
  std::int64_t cut_off = 0;        ///< Ranks whose trace has no end.
  std::int64_t summed = 0;         ///< Ranks that summed accesses up.
  std::int64_t unread = 0;         ///< Lines that were not understood.
  double io_seconds = 0;           ///< In I/O calls: of each program the mean over its ranks, which work side by side.
  std::string mpi;                 ///< "openmpi"; "mpich, openmpi" if there were both; empty if it is not told.
  std::vector<FileSummary> files;  ///< Those with most bytes first.
  std::int64_t failed_calls = 0;
  std::vector<FailureSum> failures;  ///< The most frequent ones first.
};

IoSummary summarize(const std::vector<Trace>& traces);

}  // namespace weir::trace
