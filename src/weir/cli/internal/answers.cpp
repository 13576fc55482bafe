#include <weir/cli/internal/answers.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include <weir/layout/language.h>

namespace weir::cli::internal {

Result<MapMode> parse_map_mode(std::string_view name) {
  if (name == "exact") return MapMode::kExact;
  if (name == "next") return MapMode::kNext;
  if (name == "previous") return MapMode::kPrevious;
  return invalid_argument(concat("unknown mode \"", name.substr(0, 40), "\": there are exact, next and previous"));
}

std::optional<Offset> map_by(const layout::Element& element, Offset x, MapMode mode) noexcept {
  switch (mode) {
    case MapMode::kExact: return element.map(x);
    case MapMode::kNext: return element.map_next(x);
    case MapMode::kPrevious: return element.map_previous(x);
  }
  return std::nullopt;
}

Result<Offset> unmap_in_range(const layout::Element& element, Offset y) {
  if (const auto x = element.unmap(y)) return *x;
  if (element.is_empty()) return out_of_range(concat("the element is empty: it has no byte ", y));
  return out_of_range(
      concat("the element has no byte ", y, ": byte ", element.limit() - 1, " is the last within 2^62 bytes of file"));
}

Status check_range(Offset from, Offset to) {
  if (from <= to) return Status::ok();
  return invalid_argument(concat("range [", from, ", ", to, ") ends before it begins"));
}

Status check_element_range(const layout::Element& element, Offset from, Offset to) {
  WEIR_RETURN_IF_ERROR(check_range(from, to));
  if (to <= element.limit() || element.is_empty()) return Status::ok();
  return out_of_range(concat("range [", from, ", ", to, ") leaves the element: byte ", element.limit() - 1,
                             " is its last within 2^62 bytes of file"));
}

Status check_cut(Offset first, Offset last) {
  if (first <= last) return Status::ok();
  return invalid_argument(concat("cut to bytes ", first, " to ", last, " ends before it begins"));
}

void write_projections(const layout::Mapping& mapping, JsonWriter& json) {
  json.field("falls", std::string_view(layout::print(mapping.file_falls())))
      .field("proj_a", std::string_view(layout::print(mapping.a_falls())))
      .field("proj_b", std::string_view(layout::print(mapping.b_falls())))
      .field("period", mapping.period())
      .field("disp", mapping.disp())
      .field("period_a", mapping.a_period())
      .field("period_b", mapping.b_period());
}

void write_match(const layout::Match& match, JsonWriter& json) {
  json.field("degree", match.degree)
      .field("bytes", match.bytes)
      .field("breaks", match.breaks)
      .field("targets", match.targets)
      .field("exact", match.is_exact);
}

bool is_verdict(const Status& verdict) noexcept {
  return verdict.is_ok() || verdict.code() == ErrorCode::kInvalidArgument;
}

Status write_verdict(const Status& verdict, JsonWriter& json) {
  if (!is_verdict(verdict)) return verdict;
  json.field("ok", verdict.is_ok());
  if (verdict.is_ok()) return Status::ok();
  json.field("error", std::string_view(verdict.message())).key("byte");
  verdict.location() ? json.value(Offset{*verdict.location()}) : json.null();
  return Status::ok();
}

Result<Cost> measure_cost(const layout::Element& a, const layout::Element& b, const layout::Budget& budget, int calls) {
  using Clock = std::chrono::steady_clock;
  Cost cost;
  std::vector<Offset> times;
  for (int i = 0; i < calls; ++i) {
    const auto begin = Clock::now();
    const auto mapping = layout::intersect(a, b, budget);
    const auto end = Clock::now();
    if (!mapping.is_ok()) return mapping.status();
    cost.nodes = static_cast<Offset>(mapping->node_count());
    times.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count());
  }
  std::sort(times.begin(), times.end());
  cost.nanoseconds = times[times.size() / 2];
  return cost;
}

}  // namespace weir::cli::internal
