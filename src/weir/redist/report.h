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
  bool is_direct = false;  ///< Contiguous in this rank's memory: a message leaves from or arrives in the array itself.
  int phase = 1;
  bool is_shared = false;  ///< Through memory that both ranks share, on one host: messages are slots of it.
};

/// Bytes per array that go from one rank to another, or stay if they are the same.
struct Flow {
  int from = 0;
  int to = 0;
  Offset bytes = 0;
  int phase = 1;
  friend bool operator==(const Flow&, const Flow&) = default;
};

/// Where the time of one phase goes on the rank that takes longest, for one array.
struct PhaseSeconds {
  int rank = 0;
  double pack = 0;
  double messages = 0;
  double local = 0;
  double unpack = 0;
  [[nodiscard]] double total() const { return pack + messages + local + unpack; }
};

/// What the model of the machine says; see <weir/model/model.h>.  The same on all ranks, before any relabelling.
struct Prediction {
  std::string why;                        ///< Why so many phases, or why nothing is predicted.
  bool knows_messages = false;            ///< Otherwise PhaseSeconds::messages is 0.
  std::vector<PhaseSeconds> phases;       ///< Of the way taken; empty if nothing is known about the machine.
  std::vector<PhaseSeconds> alternative;  ///< Of the other one; empty if there is none.
};

/// What an execution took on this rank, from its start to its end: if it was not waited for at once, what happened in
/// between counts.
struct Execution {
  Offset arrays = 0;
  std::vector<double> phase_seconds;
};

/// What an execution of a redistribution does, per array.
struct Report {
  std::string from;  ///< The partitions, in the layout language.
  std::string to;
  std::string between;  ///< Of two phases; empty: one phase.

  // This rank.
  int rank = 0;
  int ranks = 1;
  std::optional<Offset> source_element;  ///< Index in the partition; nothing if this rank holds none.
  std::optional<Offset> target_element;
  Offset source_bytes = 0;
  Offset target_bytes = 0;
  std::vector<Transfer> sends;  ///< By phase, in the order in which they are started.
  std::vector<Transfer> receives;
  Offset local_bytes = 0;  ///< Copied from source to target, in all phases.
  Offset local_pieces = 0;
  Offset buffer_bytes = 0;   ///< Of messages on their way, for one array.
  Offset between_bytes = 0;  ///< Of the memory between two phases, for one array.
  Offset message_bytes = 0;  ///< Longest message that is packed; longer transfers take several rounds.
  Offset rounds = 0;         ///< Messages of the longest transfer.

  // All ranks.
  /// Who sends what to whom, by phase, sender, receiver.  Nothing if there are more than Options::survey_ranks ranks.
  std::optional<std::vector<Flow>> flows;
  /// Bytes that need not travel if target elements are given to the ranks that hold most of them already.
  std::optional<Offset> relabelling_saves;
  bool is_relabelled = false;  ///< That was done: relabelling_saves is saved already.

  Prediction prediction;
  std::optional<Execution> last;  ///< The last one that was finished.
};

/// A table for people.
std::string explain(const Report& report);

}  // namespace weir::redist
