#include <weir/transfer/internal/composition.h>

namespace weir::transfer::internal {

std::optional<Composition::Composed> Composition::plan_for(const layout::Element& a, const layout::Element& b,
                                                           Range range, const layout::Element& memory,
                                                           Route::Direction direction, Route::Compose when) {
  if (!memory.is_monotone()) return std::nullopt;
  const Offset periods = range.from / a.size();
  Key key{a.disp() + periods * a.period(), range.from % a.size(), range.to - range.from};
  if (key.first != 0 && key.first + key.bytes > a.size()) return std::nullopt;
  // The same again, whole periods of b further on.
  Offset shift = 0;
  if (key.disp > b.disp()) {
    const Offset ahead = (key.disp - b.disp()) / b.period();
    key.disp -= ahead * b.period();
    shift = ahead * b.size();
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = direction == Route::Direction::kToB ? to_b_ : to_a_;
  if (!(entry.key == key) || !entry.memory || &entry.memory->trees() != &memory.trees()) {
    entry = {key, memory, std::nullopt, 0};
  }
  ++entry.uses;
  if (entry.uses == (when == Route::Compose::kAtOnce ? 1 : 2)) {
    if (auto plan = compose(a, b, key, memory, direction); plan.is_ok()) entry.plan = std::move(plan).value();
  }
  if (!entry.plan) return std::nullopt;
  return Composed{*entry.plan, shift};
}

Result<Plan> Composition::compose(const layout::Element& a, const layout::Element& b, const Key& key,
                                  const layout::Element& memory, Route::Direction direction) {
  // An element whose byte 0 is the first of the range.
  WEIR_TRY(const layout::Element from_here,
           layout::Element::create(
               key.first == 0 ? a.falls() : layout::subsequence(a.falls(), key.first, key.first + key.bytes),
               {.disp = key.disp, .period = a.period()}));
  const Range all{0, key.bytes};
  if (direction == Route::Direction::kToB) {
    WEIR_TRY(const layout::Mapping mapping,
             layout::intersect(from_here, b, {.file = {}, .a = all, .b = {}}, Route::kBudget));
    WEIR_TRY(const layout::Mapping composed, layout::compose_a(mapping, memory, Route::kBudget));
    return Plan::copy(composed);
  }
  WEIR_TRY(const layout::Mapping mapping,
           layout::intersect(b, from_here, {.file = {}, .a = {}, .b = all}, Route::kBudget));
  WEIR_TRY(const layout::Mapping composed, layout::compose_b(mapping, memory, Route::kBudget));
  return Plan::copy(composed);
}

}  // namespace weir::transfer::internal
