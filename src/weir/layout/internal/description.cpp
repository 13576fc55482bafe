#include <weir/layout/internal/description.h>

#include <algorithm>

namespace weir::layout::internal {
namespace {

using MaybeProblem = std::optional<Problem>;
using Entries = std::vector<Offset>;

Problem wrong(std::string_view argument, std::string message) {
  return {invalid_argument(std::move(message)), argument, std::nullopt};
}

Problem too_long(std::string_view name, std::string_view argument) {
  return {out_of_range(concat(name, ": a period of more than 2^62 bytes leaves the range of file offsets")), argument,
          std::nullopt};
}

MaybeProblem examine_positive(std::string_view name, std::string_view argument, Offset value) {
  if (value >= 1) return std::nullopt;
  return wrong(argument, concat(name, ": ", argument, " must be at least 1, but is ", value));
}

MaybeProblem examine_entries(std::string_view name, std::string_view argument, const Entries& entries) {
  for (std::size_t d = 0; d < entries.size(); ++d) {
    if (entries[d] >= 1) continue;
    return wrong(argument, concat(name, ": entry ", d, " of ", argument, " must be at least 1, but is ", entries[d]));
  }
  return std::nullopt;
}

MaybeProblem examine_rank(std::string_view name, std::string_view argument, std::size_t entries, std::size_t rank) {
  if (entries == rank) return std::nullopt;
  return wrong(argument, concat(name, ": ", argument, " has ", entries, " entries, but shape has ", rank));
}

MaybeProblem examine_elements(std::string_view name, std::string_view argument, Offset elements) {
  if (elements <= kMaxElements) return std::nullopt;
  return wrong(argument, concat(name, ": ", elements, " elements are more than the 2^31 that a partition can have"));
}

/// The bytes of an array; also examines shape and elem.
MaybeProblem examine_array(std::string_view name, const Entries& shape, Offset elem, Offset& bytes) {
  if (shape.empty()) return wrong("shape", concat(name, ": shape needs at least one entry"));
  if (auto problem = examine_entries(name, "shape", shape)) return problem;
  if (auto problem = examine_positive(name, "elem", elem)) return problem;
  bytes = elem;
  for (const Offset extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMaxBytes) return too_long(name, "shape");
  }
  return std::nullopt;
}

MaybeProblem examine_whole(const Hpf& hpf, std::size_t d) {
  if (hpf.dist[d].width != 0) {
    return wrong("dist", concat("hpf: * in dimension ", d, " takes no width, but has ", hpf.dist[d].width));
  }
  if (hpf.grid[d] == 1) return std::nullopt;
  return wrong("grid", concat("hpf: dimension ", d, " is not distributed (*), so its grid entry must be 1, but is ",
                              hpf.grid[d]));
}

MaybeProblem examine_block(const Hpf& hpf, std::size_t d) {
  const Offset width = hpf.dist[d].width;
  if (width == 0 || ceil_div(hpf.shape[d], width) <= hpf.grid[d]) return std::nullopt;
  return wrong("dist", concat("hpf: BLOCK(", width, ") over ", hpf.grid[d], " processes is too short for the ",
                              hpf.shape[d], " indices of dimension ", d, ": write BLOCK, or at least BLOCK(",
                              ceil_div(hpf.shape[d], hpf.grid[d]), ")"));
}

MaybeProblem examine_dimension(const Hpf& hpf, std::size_t d) {
  if (hpf.dist[d].width < 0) {
    return wrong("dist", concat("hpf: the width in dimension ", d, " must be at least 1, but is ", hpf.dist[d].width));
  }
  switch (hpf.dist[d].kind) {
    case Dist::Kind::kWhole: return examine_whole(hpf, d);
    case Dist::Kind::kBlock: return examine_block(hpf, d);
    case Dist::Kind::kCyclic: return std::nullopt;
  }
  return wrong("dist", concat("hpf: the distribution of dimension ", d, " is of no known kind"));
}

MaybeProblem examine_one(const Stripe& stripe, Facts& facts) {
  if (auto problem = examine_positive("stripe", "unit", stripe.unit)) return problem;
  if (auto problem = examine_positive("stripe", "over", stripe.over)) return problem;
  if (auto problem = examine_elements("stripe", "over", stripe.over)) return problem;
  if (__builtin_mul_overflow(stripe.unit, stripe.over, &facts.period) || facts.period > kMaxBytes) {
    return too_long("stripe", "unit");
  }
  facts.elements = stripe.over;
  return std::nullopt;
}

MaybeProblem examine_one(const Hpf& hpf, Facts& facts) {
  if (auto problem = examine_array("hpf", hpf.shape, hpf.elem, facts.period)) return problem;
  const std::size_t rank = hpf.shape.size();
  if (auto problem = examine_rank("hpf", "dist", hpf.dist.size(), rank)) return problem;
  if (auto problem = examine_rank("hpf", "grid", hpf.grid.size(), rank)) return problem;
  if (auto problem = examine_entries("hpf", "grid", hpf.grid)) return problem;
  facts.elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    if (auto problem = examine_dimension(hpf, d)) return problem;
    if (__builtin_mul_overflow(facts.elements, hpf.grid[d], &facts.elements)) facts.elements = kMaxBytes;
    if (auto problem = examine_elements("hpf", "grid", facts.elements)) return problem;
  }
  return std::nullopt;
}

MaybeProblem examine_one(const Tiles& tiles, Facts& facts) {
  if (auto problem = examine_array("tiles", tiles.shape, tiles.elem, facts.period)) return problem;
  if (auto problem = examine_rank("tiles", "tile", tiles.tile.size(), tiles.shape.size())) return problem;
  if (auto problem = examine_entries("tiles", "tile", tiles.tile)) return problem;
  if (auto problem = examine_positive("tiles", "over", tiles.over)) return problem;
  facts.elements = tiles.over;
  return examine_elements("tiles", "over", tiles.over);
}

MaybeProblem examine_one(const Explicit& description, Facts& facts) {
  if (description.elements.empty()) return wrong("", "falls: at least one element is needed; an empty one is {}");
  facts.elements = static_cast<Offset>(description.elements.size());
  if (auto problem = examine_elements("falls", "", facts.elements)) return problem;
  for (std::size_t i = 0; i < description.elements.size(); ++i) {
    if (Status status = check(description.elements[i]); !status.is_ok()) return Problem{std::move(status), "", i};
  }
  const std::optional<Offset> period = default_period(description, 0);
  if (!period) return too_long("falls", "");
  facts.period = *period;
  return std::nullopt;
}

MaybeProblem examine_period(const Explicit& description, Offset period) {
  for (std::size_t i = 0; i < description.elements.size(); ++i) {
    const Offset reach = extent(description.elements[i]);
    if (reach <= period) continue;
    return wrong("period", concat("falls: a period of ", period, " bytes is too short for element ", i,
                                  ", which reaches to byte ", reach - 1));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Problem> examine(const Description& description, Facts& facts) {
  return std::visit([&facts](const auto& one) { return examine_one(one, facts); }, description);
}

std::optional<Problem> examine(const Description& description, const Facts& facts, const Partition::Options& options) {
  const auto* elements = std::get_if<Explicit>(&description);
  if (options.disp < 0) return wrong("disp", concat("a displacement must not be negative, but is ", options.disp));
  if (options.period < 0) return wrong("period", concat("a period must not be negative, but is ", options.period));
  if (options.period != 0 && options.period != facts.period) {
    if (elements == nullptr) {
      return wrong("period", concat("a period of ", options.period, " bytes does not fit: this layout repeats every ",
                                    facts.period, " bytes"));
    }
    if (auto problem = examine_period(*elements, options.period)) return problem;
  }
  const Offset period = options.period != 0 ? options.period : facts.period;
  if (period == 0) return wrong("", "falls: elements without a byte need a period: write falls(period=N, ...)");
  if (period > kMaxBytes) return too_long("falls", "period");
  if (options.disp <= kMaxBytes - period) return std::nullopt;
  return Problem{out_of_range(concat("displacement ", options.disp, " + period ", period,
                                     " leaves the range of file offsets (2^62 bytes)")),
                 "disp", std::nullopt};
}

std::optional<Offset> default_period(const Explicit& description, Offset given_stride) noexcept {
  Offset total = 0;
  Offset reach = 0;
  Offset longest = given_stride;
  bool fits = true;
  for (const FallsSet& set : description.elements) {
    const Offset bytes = size(set);
    total = total > kMaxBytes - bytes ? kMaxBytes + 1 : total + bytes;  // overlapping elements may add up to any sum
    reach = std::max(reach, extent(set));
    for (const Falls& falls : set) {
      Offset span = 0;
      if (falls.count > 1)
        fits = fits && !__builtin_mul_overflow(falls.stride, falls.count, &span) && span <= kMaxBytes;
      const Offset last = falls.count > 1 ? falls.stride * (falls.count - 1) : 0;
      longest = std::max({longest, span, falls.right + last + 1});
    }
  }
  if (total == reach) return total;
  return fits ? std::optional(longest) : std::nullopt;
}

}  // namespace weir::layout::internal
