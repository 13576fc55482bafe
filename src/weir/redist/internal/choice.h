#pragma once

// One phase or two, decided the same way on all ranks.
//
// Files and variables differ between hosts, so rank 0 alone reads them: the model of its machine and
// WEIR_REDIST_PHASES.  Every rank predicts what it will spend itself; the slowest rank of a phase is its time.

#include <optional>

#include <weir/layout/partition.h>
#include <weir/redist/internal/agreement.h>
#include <weir/redist/internal/pipeline.h>
#include <weir/redist/redistribution.h>

namespace weir::redist::internal {

struct Choice {
  std::optional<layout::Partition> between;  ///< Two phases, through this.
  Between memory;
  Offset message_bytes = 0;  ///< Of max_buffer_bytes, what is left for the buffers of one phase; 0: no limit.
  Prediction prediction;
};

/// Collective.  \error kInvalidArgument if two phases are asked for by Options::phases and there is no layout between,
/// or no room for its elements, or if WEIR_REDIST_PHASES is none of its values.
Result<Choice> choose_phases(Group& group, const layout::Partition& from, const layout::Partition& to,
                             const Options& options);

}  // namespace weir::redist::internal
