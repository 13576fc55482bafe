#pragma once

// What batch and the single commands have in common: the questions they ask of the algebra and the answers they write.

#include <optional>
#include <string_view>

#include <weir/base/json_text.h>
#include <weir/layout/mapping.h>
#include <weir/layout/match.h>

namespace weir::cli::internal {

enum class MapMode { kExact, kNext, kPrevious };

Result<MapMode> parse_map_mode(std::string_view name);
std::optional<Offset> map_by(const layout::Element& element, Offset x, MapMode mode) noexcept;

/// \error kOutOfRange if the element has no byte y.
Result<Offset> unmap_in_range(const layout::Element& element, Offset y);

/// Refuses [from, to) if it ends before it begins.
Status check_range(Offset from, Offset to);
/// The same, and ranges beyond the element's end.  The empty element has no bytes in any range, which is no error.
Status check_element_range(const layout::Element& element, Offset from, Offset to);
/// Refuses to cut to [first, last] if it ends before it begins; last is inclusive.
Status check_cut(Offset first, Offset last);

/// Members "falls", "proj_a", "proj_b", "period", "disp", "period_a", "period_b".
void write_projections(const layout::Mapping& mapping, JsonWriter& json);

/// Members "degree", "bytes", "breaks", "targets", "exact".
void write_match(const layout::Match& match, JsonWriter& json);

/// Members "ok" and, where it is false, "error" and "byte", for what Partition::validate() said.
/// \error what is not a verdict: the check itself could not be done.
Status write_verdict(const Status& verdict, JsonWriter& json);
bool is_verdict(const Status& verdict) noexcept;

struct Cost {
  Offset nodes = 0;
  Offset nanoseconds = 0;  ///< Median of the timed calls.
};
Result<Cost> measure_cost(const layout::Element& a, const layout::Element& b, const layout::Budget& budget, int calls);

}  // namespace weir::cli::internal
