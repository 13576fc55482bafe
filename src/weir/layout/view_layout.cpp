#include <weir/layout/view_layout.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <weir/layout/language.h>
#include <weir/layout/mapping.h>

namespace weir::layout {

namespace {

constexpr std::size_t kMaxPieces = std::size_t{1} << 16;
constexpr Offset kMaxPeriod = Offset{1} << 50;

void append_shifted(FallsSet& out, FallsSet part, Offset shift) {
  for (Falls& falls : part) {
    falls.left += shift;
    falls.right += shift;
    out.push_back(std::move(falls));
  }
}

// One period of a view as if it had no displacement: what reaches beyond the period's end comes round to its start.
FallsSet without_disp(const Element& view) {
  const Offset period = view.period();
  const Offset shift = floor_mod(view.disp(), period);
  const Offset end = extent(view.falls());
  FallsSet out;
  if (shift + end <= period) {
    append_shifted(out, view.falls(), shift);
    return out;
  }
  const Offset kept = period - shift;
  append_shifted(out, cut(view.falls(), kept, end - 1), 0);
  append_shifted(out, cut(view.falls(), 0, kept - 1), shift);
  return simplify(std::move(out));
}

FallsSet repeated(FallsSet set, Offset period, Offset whole) {
  if (period == whole || set.empty()) return set;
  return simplify({Falls{0, period - 1, period, whole / period, std::move(set)}});
}

Result<Offset> common_period(const std::vector<Element>& views) {
  Offset whole = 1;
  for (const Element& view : views) {
    if (view.is_empty()) continue;
    const Offset factor = view.period() / std::gcd(whole, view.period());
    const Result<Offset> product = checked_mul(whole, factor);
    if (!product.is_ok() || *product > kMaxPeriod) {
      return too_complex("the periods of the views have no common multiple below 2^50 bytes");
    }
    whole = *product;
  }
  return whole;
}

Result<bool> are_disjoint(const std::vector<FallsSet>& sets, Offset period) {
  std::vector<Element> elements;
  for (const FallsSet& set : sets) {
    WEIR_TRY(Element element, Element::create(set, {0, period}));
    elements.push_back(std::move(element));
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    for (std::size_t j = i + 1; j < elements.size(); ++j) {
      WEIR_TRY(const Mapping common, intersect(elements[i], elements[j]));
      if (!common.is_empty()) return false;
    }
  }
  return true;
}

struct Owned {
  Segment segment;
  std::size_t rank;
};

// The pieces of all sets, in file order and for equal places in rank order.
Result<std::vector<Owned>> list_pieces(const std::vector<FallsSet>& sets, Offset period) {
  std::vector<Owned> pieces;
  for (std::size_t rank = 0; rank < sets.size(); ++rank) {
    WEIR_TRY(const Element element, Element::create(sets[rank], {0, period}));
    for (SegmentCursor cursor{element, 0, element.size()}; const auto segment = cursor.next();) {
      if (pieces.size() == kMaxPieces) return too_complex("the views overlap or leave gaps, in too many pieces");
      pieces.push_back({*segment, rank});
    }
  }
  return pieces;
}

// Who owns which part of the period: cut at every end of a piece, each part goes to the lowest rank that has it.
std::vector<Owned> resolve(const std::vector<Owned>& pieces, std::size_t nobody, Offset period) {
  struct Event {
    Offset at;
    std::size_t rank;
    int change;
  };
  std::vector<Event> events;
  for (const Owned& piece : pieces) {
    events.push_back({piece.segment.offset, piece.rank, 1});
    events.push_back({piece.segment.end(), piece.rank, -1});
  }
  std::sort(events.begin(), events.end(), [](const Event& x, const Event& y) { return x.at < y.at; });
  std::vector<int> depth(nobody, 0);
  std::vector<Owned> parts;
  const auto add = [&](Offset from, Offset to) {
    if (from == to) return;
    const auto first = std::find_if(depth.begin(), depth.end(), [](int open) { return open > 0; });
    const auto owner = static_cast<std::size_t>(first - depth.begin());
    if (!parts.empty() && parts.back().rank == owner) {
      parts.back().segment.length += to - from;
    } else {
      parts.push_back({{from, to - from}, owner});
    }
  };
  Offset at = 0;
  for (const Event& event : events) {
    add(at, event.at);
    at = event.at;
    depth[event.rank] += event.change;
  }
  add(at, period);
  return parts;
}

// Deals a gap to the stripes' elements, unit by unit of the file.
void stripe_gap(Segment gap, const GapStripes& gaps, std::vector<FallsSet>& elements, std::size_t first) {
  while (gap.length > 0) {
    const Offset unit = gap.offset / gaps.unit;
    const Offset length = std::min(gap.length, (unit + 1) * gaps.unit - gap.offset);
    elements[first + static_cast<std::size_t>(unit % gaps.over)].push_back(
        {gap.offset, gap.offset + length - 1, 0, 1, {}});
    gap.offset += length;
    gap.length -= length;
  }
}

Result<std::vector<FallsSet>> share_out(const std::vector<FallsSet>& sets, Offset period, const GapStripes& gaps) {
  WEIR_TRY(const std::vector<Owned> pieces, list_pieces(sets, period));
  const std::vector<Owned> parts = resolve(pieces, sets.size(), period);
  std::vector<FallsSet> elements(sets.size());
  Offset gap_units = 0;
  bool has_gaps = false;
  for (const Owned& part : parts) {
    if (part.rank < sets.size()) continue;
    has_gaps = true;
    gap_units += part.segment.length / gaps.unit + 1;
  }
  if (gap_units > static_cast<Offset>(kMaxPieces)) return too_complex("the views leave gaps of too many stripes");
  if (has_gaps) elements.resize(sets.size() + static_cast<std::size_t>(gaps.over));
  for (const Owned& part : parts) {
    if (part.rank == sets.size()) {
      stripe_gap(part.segment, gaps, elements, sets.size());
    } else {
      elements[part.rank].push_back({part.segment.offset, part.segment.end() - 1, 0, 1, {}});
    }
  }
  for (FallsSet& set : elements) set = simplify(std::move(set));
  for (std::size_t rank = 0; rank < sets.size(); ++rank) {
    if (!sets[rank].empty() && elements[rank].empty()) {
      return invalid_argument(concat("lower ranks see every byte that rank ", rank, " sees"));
    }
  }
  return elements;
}

}  // namespace

Result<Partition> layout_of_views(const std::vector<Element>& views, const GapStripes& gaps) {
  WEIR_TRY(const Offset period, common_period(views));
  std::vector<FallsSet> sets;
  Offset covered = 0;
  for (const Element& view : views) {
    sets.push_back(view.is_empty() ? FallsSet{} : repeated(without_disp(view), view.period(), period));
    covered += size(sets.back());
  }
  bool is_exact = covered == period;
  if (is_exact) {
    WEIR_TRY(is_exact, are_disjoint(sets, period));
  }
  if (!is_exact) {
    WEIR_TRY(sets, share_out(sets, period, gaps));
  }
  WEIR_TRY(Partition whole, Partition::create(Explicit{std::move(sets)}, {0, period}));
  WEIR_RETURN_IF_ERROR(whole.validate());
  return whole;
}

std::string to_text(const Element& element) {
  return concat(element.disp(), ' ', element.period(), ' ', print(element.falls()));
}

Result<Element> from_text(const std::string& text) {
  char* rest = nullptr;
  Element::Placement placement;
  placement.disp = std::strtoll(text.c_str(), &rest, 10);
  placement.period = std::strtoll(rest, &rest, 10);
  WEIR_TRY(FallsSet set, parse_falls(rest));
  return Element::create(std::move(set), placement);
}

}  // namespace weir::layout
