#pragma once

// A layout made of views: a file stored as its ranks see it.  Subfile i holds the bytes of the view of rank i.
//
//   all views      made to repeat with one period, from the start of the file on
//   disjoint,      they are the layout as they are, however many pieces they have
//   no gaps
//   otherwise      bytes in several views go to the lowest rank, bytes in none are striped over further subfiles; this needs a list of
//                  the pieces of one period, which must not be long

#include <vector>

#include <weir/layout/partition.h>

namespace weir::layout {

struct GapStripes {
  Offset unit = Offset{64} << 10;
  Offset over = 1;
};

/// \error kInvalidArgument, kTooComplex: why the views cannot be a layout; the file should be striped then
Result<Partition> layout_of_views(const std::vector<Element>& views, const GapStripes& gaps);

/// An element as text, "disp period {falls}", for other ranks and for traces.
std::string to_text(const Element& element);
Result<Element> from_text(const std::string& text);

}  // namespace weir::layout
