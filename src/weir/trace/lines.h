#pragma once

// The lines of a trace (format: docs/formats.md), one record each.  Writing and reading share one list of keys.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include <weir/base/checked.h>

namespace weir::trace {

inline constexpr int kVersion = 1;

/// The phases that an access consists of.  The rest of its time was spent on looking at arguments, types and sizes.
enum Phase { kMeet, kLock, kPack, kMove, kPhases };

// Times are in ns, moments since 1970.  `file` and `view` are numbers that the rank gave them.

/// The first line.
struct HeadLine {
  static constexpr std::string_view kWord = "weir-trace";
  int version = 0;  ///< kVersion; a trace of another version cannot be read.
  std::string host{};
  std::int64_t pid = 0;
  int rank = 0;  ///< Of MPI_COMM_WORLD.
  int ranks = 1;
  std::string mpi{};  ///< "openmpi", "mpich"
  std::int64_t at = 0;
};

struct OpenLine {
  static constexpr std::string_view kWord = "open";
  std::int64_t file = 0;
  std::string path{};
  std::string layout{};
  std::string why{};  ///< Only one rank knows.
  int rank = 0;       ///< Among those that opened it.
  int ranks = 1;
  bool can_write = false;
  std::int64_t at = 0;
  std::int64_t took = 0;
  std::map<std::string, std::string> hints{};
};

/// The layout was changed.
struct LayoutLine {
  static constexpr std::string_view kWord = "layout";
  std::int64_t file = 0;
  std::string layout{};
  std::string why{};
};

/// What was chosen by itself, besides the layout.
struct ChoiceLine {
  static constexpr std::string_view kWord = "choice";
  std::int64_t file = 0;
  std::string what{};
  std::string chosen{};
  std::string why{};
  /// Two openings may make the same choice.
  friend bool operator==(const ChoiceLine& x, const ChoiceLine& y) {
    return std::tie(x.what, x.chosen, x.why) == std::tie(y.what, y.chosen, y.why);
  }
};

struct ViewLine {
  static constexpr std::string_view kWord = "view";
  std::int64_t file = 0;
  std::int64_t view = 0;
  std::string element{};  ///< As layout::from_text reads it; empty if it was too long.
  Offset etype = 0;       ///< Bytes.
  Offset size = 0;
  Offset period = 0;
  Offset disp = 0;
  double degree = 0;  ///< This and what follows as of layout::Match, against the layout at that time; 0 if not known.
  Offset targets = 0;
  Offset breaks = 0;
  Offset matched = 0;
};

/// A read or write; or many of them, summed up.
struct AccessLine {
  static constexpr std::string_view kWord = "access";
  std::int64_t file = 0;
  std::int64_t view = 0;
  std::string call{};
  bool is_write = false;
  std::int64_t count = 1;
  std::int64_t at = 0;
  std::int64_t took = 0;
  Offset bytes = 0;
  Offset first = 0;
  Offset last = 0;
  std::array<std::int64_t, kPhases> phases{};
  std::int64_t messages = 0;
  std::int64_t index_bytes = 0;
  std::int64_t moved_bytes = 0;
  std::int64_t direct_bytes = 0;
  std::int64_t gathered_bytes = 0;
};

/// From here on there are only sums of accesses, or no further views.
struct LimitLine {
  static constexpr std::string_view kWord = "limit";
  std::string what{};  ///< "accesses", "views"
  std::int64_t at = 0;
};

/// Calls that returned an error to the program; of one function and file.
struct FailLine {
  static constexpr std::string_view kWord = "fail";
  std::string path{};
  std::string call{};
  std::int64_t count = 1;
  std::string message{};  ///< Of the last one.
};

struct CloseLine {
  static constexpr std::string_view kWord = "close";
  std::int64_t file = 0;
  std::int64_t at = 0;
  std::int64_t io = 0;  ///< Time spent in I/O calls so far.
};

/// The rank ended as it should.
struct EndLine {
  static constexpr std::string_view kWord = "end";
  std::int64_t at = 0;
  std::int64_t io = 0;
};

/// Any of the records above, with its line end.  Values that are 0 or empty, and counts of 1, are left out.
template <typename Record>
std::string to_line(Record record);

/// `line` without its end.  Nothing if it is another kind of line, or has invalid values.  Unknown keys are ignored.
template <typename Record>
std::optional<Record> parse_line(std::string_view line);

}  // namespace weir::trace
