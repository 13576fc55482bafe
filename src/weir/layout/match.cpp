#include <weir/layout/match.h>

// Breaks are counted by structure.  The mapping between view and subfile, in view order, is a set of bands; the number
// of their pieces is a product of counts.  A piece is no break where another starts just at its end in both address
// spaces.  How often that happens is itself an intersection: of the ends of all pieces with the starts of all pieces,
// both as families of single bytes at their view offset (file side) that carry their subfile offset (element side).

#include <algorithm>
#include <numeric>

#include <weir/layout/band.h>
#include <weir/layout/internal/address_tree.h>

namespace weir::layout {

namespace {

// Turns of the loops at which both subfile offsets agree.  Exact if at most one loop tells them apart.
Offset count_agreeing(const Piece& first, std::span<const Loop> loops) {
  Offset agreeing = 1;
  const Loop* apart = nullptr;
  for (const Loop& loop : loops) {
    if (loop.a == loop.b) {
      agreeing *= loop.count;
    } else {
      if (apart) return first.a == first.b ? agreeing : 0;
      apart = &loop;
    }
  }
  if (!apart) return first.a == first.b ? agreeing : 0;
  const Offset turn = (first.b - first.a) / (apart->a - apart->b);
  const bool meets = turn >= 0 && turn < apart->count && turn * (apart->a - apart->b) == first.b - first.a;
  return meets ? agreeing : 0;
}

class Matcher {
 public:
  Matcher(const Element& view, const Partition& layout) : view_(view), layout_(layout) {}

  Result<Match> run() {
    if (view_.is_empty()) return match_;
    choose_window();
    // Halve what is looked at until every intersection fits its budget.
    for (;;) {
      const Status status = look();
      if (status.is_ok()) break;
      if (status.code() != ErrorCode::kTooComplex || window_.to - window_.from < 2) return status;
      window_.to -= (window_.to - window_.from) / 2;
      match_ = {};
      match_.is_exact = false;
    }
    finish();
    return match_;
  }

 private:
  static constexpr Budget kBudget{.runs = std::size_t{1} << 14, .steps = std::size_t{1} << 17};

  // View bytes of one common period; all that there are if the common period does not fit a file.
  void choose_window() {
    const Offset start = std::max<Offset>(0, ceil_div(layout_.disp() - view_.disp(), view_.period()));
    const Offset turns = layout_.period() / std::gcd(view_.period(), layout_.period());
    const Offset most = std::max<Offset>(1, (kMaxBytes - view_.disp()) / view_.period() - start);
    match_.is_exact = turns <= most;
    window_ = {start * view_.size(), (start + std::min(turns, most)) * view_.size()};
    common_period_ = match_.is_exact ? turns * view_.period() : 0;
  }

  Status look() {
    for (Offset i = 0; i < layout_.element_count(); ++i) {
      WEIR_TRY(const Element subfile, layout_.element(i));
      WEIR_TRY(const Mapping mapping, intersect(view_, subfile, Window{.file = {}, .a = window_, .b = {}}, kBudget));
      if (mapping.is_empty()) continue;
      ++match_.targets;
      WEIR_TRY(const Offset breaks, count_breaks(subfile, bands_of(mapping, Order::kA)));
      match_.breaks += breaks;
    }
    return Status::ok();
  }

  Result<Offset> count_breaks(const Element& subfile, std::vector<Band> starts) {
    std::vector<Band> ends = starts;
    Offset pieces = 0;
    for (Band& band : ends) {
      pieces += piece_count(band);
      band.piece.a += band.piece.length;
      band.piece.b += band.piece.length;
    }
    if (const auto next = first_of_next_period(subfile)) starts.push_back({*next, {}});
    for (auto* bands : {&starts, &ends}) {
      for (Band& band : *bands) band.piece.length = 1;
    }
    std::size_t steps_left = kBudget.steps;
    const auto end = internal::meet(internal::shape_of(std::move(ends)), internal::shape_of(std::move(starts)),
                                    {0, kMaxBytes}, steps_left, [&](const Piece& first, std::span<const Loop> loops) {
                                      pieces -= count_agreeing(first, loops);
                                      return true;
                                    });
    if (end != internal::MeetEnd::kDone) return too_complex("match: the pieces of view and layout are too many kinds");
    return pieces;
  }

  // Where the period behind the window starts, if that byte is on this subfile too.
  [[nodiscard]] std::optional<Piece> first_of_next_period(const Element& subfile) const {
    if (common_period_ == 0 || !match_.is_exact) return std::nullopt;
    const auto first = map_between(view_, window_.from, subfile);
    if (!first) return std::nullopt;
    return Piece{0, window_.to, *first + common_period_ / subfile.period() * subfile.size(), 1};
  }

  void finish() {
    match_.bytes = window_.to - window_.from;
    if (!match_.is_exact) match_.breaks = std::max<Offset>(match_.breaks, 1);  // degree 1 is a promise
    if (view_.count_below(layout_.disp()) > 0) {
      ++match_.targets;
      ++match_.breaks;
    }
    const double per_byte = static_cast<double>(match_.breaks) / static_cast<double>(match_.bytes);
    const double spread = static_cast<double>(match_.targets - 1) / static_cast<double>(layout_.element_count());
    match_.degree = 1 / (1 + static_cast<double>(kBreakBytes) * per_byte + spread);
  }

  const Element& view_;
  const Partition& layout_;
  Match match_;
  Range window_;
  Offset common_period_ = 0;
};

}  // namespace

Result<Match> match(const Element& view, const Partition& layout) { return Matcher{view, layout}.run(); }

}  // namespace weir::layout
