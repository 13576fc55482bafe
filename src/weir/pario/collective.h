#pragma once

// How a collective access goes if it cannot be copied straight to or from the servers' memory.
//
//   each alone    every rank sends its own pieces; servers put them in place
//   two phases    ranks exchange bytes so that each holds contiguous parts of the file, and these are sent: every byte moves once more, but
//                 servers get few messages without pieces, and disks write a block once that ranks would write in turn
//
// model::Io says what ranks and servers would have to do either way; measured times correct it.  Nothing here asks a
// rank.

#include <optional>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/layout/mapping.h>
#include <weir/model/corrections.h>
#include <weir/model/io.h>

namespace weir::pario {

using layout::Range;

enum class Method { kAuto, kAlone, kTwoPhase };

/// "auto", "alone", "two-phase".  \error kInvalidArgument lists them
Result<Method> parse_method(const std::string& text);
std::string_view to_text(Method method);

/// One rank's part of a collective access: bytes [from, from + bytes) of its view.
struct Share {
  Offset from = 0;
  Offset bytes = 0;
  Range file;  ///< From its first to its last byte there.
  // What it asks of the servers if the rank goes alone.
  Offset messages = 0;
  Offset pieces = 0;
  Offset touched_bytes = 0;
};

/// The file from the first to the last byte of all shares, dealt to the first ranks in contiguous parts, and each part
/// in windows that fit into memory.
struct Domains {
  Range file;
  Offset origin = 0;  ///< Where the first part would start, if the file's range did not start later.
  int owners = 0;
  Offset width = 0;   ///< Of each part but the last.
  Offset window = 0;  ///< Of each window but the last of a part.

  [[nodiscard]] int rounds() const { return static_cast<int>(ceil_div(width, window)); }
  /// May be empty.
  [[nodiscard]] Range window_of(int owner, int round) const;
};

struct DomainOptions {
  int most_owners = 0;   ///< 0: as many as ranks.  The standard's hint cb_nodes.
  Offset window = 0;     ///< 0: what the model says.  The standard's hint cb_buffer_size.
  Offset alignment = 1;  ///< Of parts and windows: the layout's period, if it is not too long.
};

/// \pre At least one share has bytes.
Domains divide(const std::vector<Share>& shares, const DomainOptions& options, const model::Io& costs = {});

/// What is known before.
struct CollectiveFacts {
  bool is_write = false;
  bool are_disjoint = false;                     ///< No byte is in the views of two ranks.
  bool is_on_disk = false;                       ///< Some bytes, at least.
  model::Place place = model::Place::kThisHost;  ///< Where the servers are.
  Offset targets = 1;
  std::vector<Share> shares;
  Domains domains;
  model::Corrections::Factors factors;  ///< Of predictions: alone, in two phases.
};

struct CollectiveChoice {
  Method method = Method::kAlone;
  double alone_seconds = 0;  ///< Predicted, and corrected.
  double two_phase_seconds = 0;
  double predicted_seconds = 0;  ///< Of the method chosen, not corrected; 0: there was no choice.
  std::string why;
};

/// Two phases only if they are possible and pay, or are wanted and possible.  A write must leave no gap: what no rank
/// has written would be overwritten.
CollectiveChoice choose(const CollectiveFacts& facts, Method wanted, const model::Io& costs = {});

/// What corrections call such accesses.  \pre `method` is not kAuto.
model::Kind kind_of(Method method, bool is_write);

}  // namespace weir::pario
