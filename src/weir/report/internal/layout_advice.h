#pragma once

// Which layout would have fitted the views of a file better.

#include <optional>
#include <string>
#include <vector>

#include <weir/layout/partition.h>
#include <weir/trace/summary.h>

namespace weir::report::internal {

struct Candidate {
  std::string name;    ///< For people.
  std::string layout;  ///< What to write: in the layout language, or "view".
  double degree = 0;   ///< Mean over the bytes moved through each view.
};

struct Advice {
  double degree = 0;                  ///< Of the layout that the file has, in the same way.
  std::vector<Candidate> candidates;  ///< Best first.
  std::optional<Candidate> better;    ///< Clearly better than what there is.
};

/// `views`: the one that matters of each rank.  Nothing if there is nothing to choose: no views, or only the whole
/// file.
std::optional<Advice> advise(const std::vector<trace::RankView>& views, const layout::Partition& layout);
/// The same for the views and the layout of a file.
std::optional<Advice> advise(const trace::FileSummary& file);

}  // namespace weir::report::internal
