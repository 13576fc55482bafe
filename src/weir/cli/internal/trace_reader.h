#pragma once

// Reads what ranks wrote about their I/O (WEIR_TRACE; docs/formats.md has the format).
//
// Traces may come from ranks that were killed, so the last line may be a part of one.  Lines that are not understood
// are counted and left out: a newer library may say more than this program knows.

#include <array>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>

namespace weir::cli::internal {

enum TracePhase { kMeet, kLock, kPack, kMove, kTracePhases };

/// A read or write; or many of them, summed up.
struct TraceAccess {
  std::int64_t view = 0;
  std::string call;
  bool is_write = false;
  std::int64_t count = 1;
  std::int64_t at = 0;    ///< ns since 1970
  std::int64_t took = 0;  ///< ns
  std::array<std::int64_t, kTracePhases> phases{};
  Offset bytes = 0;
  Offset first = 0;
  Offset last = 0;
  std::int64_t messages = 0;
  std::int64_t index_bytes = 0;
  std::int64_t moved_bytes = 0;
  std::int64_t direct_bytes = 0;
  std::int64_t gathered_bytes = 0;
};

struct TraceView {
  std::int64_t number = 0;
  std::string element;  ///< As layout::from_text reads it; empty if it was too long.
  Offset size = 0;
  Offset period = 0;
  Offset disp = 0;
  double degree = 0;  ///< Against the layout at that time; 0 if it is not known.
};

/// What was chosen by itself, besides the layout.
struct TraceChoice {
  std::string what;
  std::string chosen;
  std::string why;
  friend bool operator==(const TraceChoice&, const TraceChoice&) = default;
};

/// A file, from its opening to its closing by one rank.
struct TraceFile {
  std::int64_t number = 0;
  std::string path;
  std::string layout;
  std::string why;  ///< Only one rank knows.
  int rank = 0;     ///< Among those that opened it.
  int ranks = 1;
  bool can_write = false;
  std::int64_t at = 0;
  std::int64_t took = 0;
  std::map<std::string, std::string> hints;
  std::vector<TraceChoice> choices;
  std::vector<TraceView> views;
  std::vector<TraceAccess> accesses;
};

/// Calls that returned an error to the program; of one function and file.
struct TraceFailure {
  std::string path;
  std::string call;
  std::int64_t count = 1;
  std::string message;  ///< Of the last one.
};

/// Of one rank.
struct Trace {
  std::string host;
  std::string mpi;  ///< "openmpi", "mpich"
  int rank = 0;
  int ranks = 1;
  std::int64_t start = 0;
  bool is_whole = false;    ///< It says that the rank ended as it should.
  bool is_summed = false;   ///< Many accesses are summed up.
  std::int64_t unread = 0;  ///< Lines that were not understood.
  std::int64_t io_ns = 0;   ///< Spent in I/O calls, as far as it is told.
  std::vector<TraceFile> files;
  std::vector<TraceFailure> failures;
};

/// A line that says that a file was opened or closed.
struct TraceEvent {
  bool is_opening = false;
  std::int64_t file = 0;  ///< The number that the rank gave to the opening.
  std::string path;       ///< Of openings.
  bool can_write = false;
};

/// Nothing if the line, without its end, says something else.
std::optional<TraceEvent> read_trace_event(std::string_view line);

/// \error kInvalidArgument if it does not begin as a trace does
Result<Trace> read_trace(std::istream& in);

/// All DIR/*.trace that begin at `since` (ns since 1970) or later, in the order of ranks, and of programs that ran one
/// after the other.  No such file is no error.  \error kNotFound, kIoError: names the directory or the file
Result<std::vector<Trace>> read_traces(const std::string& directory, std::int64_t since = 0);

}  // namespace weir::cli::internal
