#pragma once

// Reads what ranks wrote about their I/O (WEIR_TRACE; docs/formats.md has the format).
//
// Traces may come from ranks that were killed, so the last line may be a part of one.  Lines that are not understood
// are counted and left out: a newer library may say more than this program knows.

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include <weir/base/result.h>
#include <weir/trace/lines.h>

namespace weir::trace {

/// A file, from its opening to its closing by one rank.
struct TracedFile : OpenLine {
  std::vector<ChoiceLine> choices;
  std::vector<ViewLine> views;
  std::vector<AccessLine> accesses;
};

/// Of one rank.
struct Trace : HeadLine {
  bool is_whole = false;    ///< It says that the rank ended as it should.
  bool is_summed = false;   ///< Many accesses are summed up.
  std::int64_t unread = 0;  ///< Lines that were not understood.
  std::int64_t io_ns = 0;   ///< Spent in I/O calls, as far as it is told.
  std::vector<TracedFile> files;
  std::vector<FailLine> failures;  ///< One for each file and function.
};

/// \error kInvalidArgument if it does not begin as a trace does
Result<Trace> read_trace(std::istream& in);

/// All DIR/*.trace that begin at `since` (ns since 1970) or later, in the order of ranks, and of programs that ran one
/// after the other.  No such file is no error.  \error kNotFound, kIoError: names the directory or the file
Result<std::vector<Trace>> read_traces(const std::string& directory, std::int64_t since = 0);

}  // namespace weir::trace
