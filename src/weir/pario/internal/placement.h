#pragma once

// Where the subfiles of a file go that is stored as its ranks see it.
//
//   subfile i of rank i     a target on the host of rank i, the one of them that has the fewest ranks; if no target is there, the one of all
//                           that has the fewest
//   further subfiles        bytes that no rank sees, striped: one target after the other
//
// Of targets with as few the next in turn is taken, from a start that the file has for itself: files of few ranks do
// not all meet on one.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weir::pario::internal {

struct Placement {
  std::vector<std::uint32_t> targets;  ///< Of each subfile.
  std::size_t at_rank = 0;             ///< How many subfiles are on the host of their rank.
};

/// \param rank_hosts    by rank
/// \param target_hosts  by target; empty if not known, then it is on no rank's host
/// \pre There is a target, and a subfile for every rank.
Placement place_at_ranks(std::span<const std::string> rank_hosts, std::span<const std::string> target_hosts,
                         std::size_t subfiles, std::uint32_t start);

}  // namespace weir::pario::internal
