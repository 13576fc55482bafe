#pragma once

// Views of many ranks, told in few words: ranks with the same pattern at other places are one group.

#include <string>
#include <vector>

#include <weir/layout/element.h>

namespace weir::trace {

struct RankView {
  int rank = 0;
  layout::Element element;
  double degree = 0;
  Offset bytes = 0;  ///< Read and written through it.
};

struct ViewGroup {
  std::vector<int> ranks;
  std::string pattern;  ///< FALLS of one period, as if the first byte were byte 0.
  std::string place;    ///< Where the first byte is: "byte 0 + 4096 x rank"
  Offset size = 0;      ///< Bytes per period.
  Offset period = 0;
  double lowest_degree = 1;
  double highest_degree = 0;
  Offset bytes = 0;
  bool is_whole = false;  ///< All bytes of the file.
};

std::vector<ViewGroup> group_views(const std::vector<RankView>& views);

/// All bytes from the displacement on.
bool is_whole(const layout::Element& element);

}  // namespace weir::trace
