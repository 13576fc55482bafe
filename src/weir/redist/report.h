#pragma once

#include <optional>
#include <string>
#include <vector>

#include <weir/base/checked.h>

namespace weir::redist {

/// What one rank exchanges with another per array.
struct Transfer {
  int peer = 0;
  Offset bytes = 0;
  Offset pieces = 0;       ///< Contiguous pieces in this rank's memory.
  Offset messages = 0;     ///< One per round.
  bool is_direct = false;  ///< Sent from or received into the array itself, without packing.
};

/// Bytes per array that go from one rank to another, or stay if they are the same.
struct Flow {
  int from = 0;
  int to = 0;
  Offset bytes = 0;
  friend bool operator==(const Flow&, const Flow&) = default;
};

/// What an execution of a redistribution does, per array.
struct Report {
  std::string from;  ///< The partitions, in the layout language.
  std::string to;

  // This rank.
  int rank = 0;
  int ranks = 1;
  std::optional<Offset> source_element;  ///< Index in the partition; nothing if this rank holds none.
  std::optional<Offset> target_element;
  Offset source_bytes = 0;
  Offset target_bytes = 0;
  std::vector<Transfer> sends;  ///< In the order in which they are started.
  std::vector<Transfer> receives;
  Offset local_bytes = 0;  ///< Copied from source to target.
  Offset local_pieces = 0;
  Offset buffer_bytes = 0;   ///< Of messages on their way, for one array.
  Offset message_bytes = 0;  ///< Longest message that is packed; longer transfers take several rounds.
  Offset rounds = 0;         ///< Messages of the longest transfer.

  // All ranks.
  /// Who sends what to whom, by sender, then receiver.  Nothing if there are more than Options::survey_ranks ranks.
  std::optional<std::vector<Flow>> flows;
  /// Bytes that need not travel if target elements are given to the ranks that hold most of them already.
  std::optional<Offset> relabelling_saves;
  bool is_relabelled = false;  ///< That was done: relabelling_saves is saved already.
};

/// A table for people.
std::string explain(const Report& report);

}  // namespace weir::redist
