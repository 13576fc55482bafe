#include <weir/storage/internal/operation_order.h>

#include <algorithm>
#include <iterator>
#include <type_traits>
#include <utility>

#include <weir/base/text.h>

namespace weir::storage::internal {
namespace {

// Stands for what belongs to no subfile: fences, label, lists.
constexpr SubfileId kWholeStore{};

template <typename Piece>
std::vector<Footprint::Range> ranges_of(const std::vector<Piece>& pieces, Offset granule) {
  std::vector<Footprint::Range> all;
  for (const Piece& piece : pieces) {
    const auto size = static_cast<Offset>(piece.memory.size());
    const bool is_valid =
        size > 0 && piece.offset >= 0 && piece.offset <= kMaxBytes && size <= kMaxBytes - piece.offset;
    if (!is_valid) continue;  // moves nothing
    all.push_back({piece.offset / granule * granule, ceil_div(piece.offset + size, granule) * granule});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.from < b.from; });
  std::vector<Footprint::Range> joined;
  for (const Footprint::Range& range : all) {
    if (!joined.empty() && range.from <= joined.back().to) {
      joined.back().to = std::max(joined.back().to, range.to);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

}  // namespace

Footprint Footprint::of(const op::Any& operation, Offset granule) {
  return std::visit(
      [granule](const auto& what) -> Footprint {
        using What = std::decay_t<decltype(what)>;
        if constexpr (std::is_same_v<What, op::Read>) return {what.id, false, false, ranges_of(what.pieces, granule)};
        if constexpr (std::is_same_v<What, op::Write>) return {what.id, true, false, ranges_of(what.pieces, granule)};
        constexpr bool kLooks = requires { what.result; };
        if constexpr (requires { what.id; }) {
          return {what.id, !kLooks, true, {}};
        } else {
          return {kWholeStore, !kLooks, true, {}};
        }
      },
      operation);
}

bool Footprint::conflicts_with(const Footprint& other) const {
  if (id != other.id || !(is_change || other.is_change)) return false;
  if (is_whole || other.is_whole) return true;
  auto a = ranges.begin();
  auto b = other.ranges.begin();
  while (a != ranges.end() && b != other.ranges.end()) {
    if (a->to <= b->from) {
      ++a;
    } else if (b->to <= a->from) {
      ++b;
    } else {
      return true;
    }
  }
  return false;
}

void OperationOrder::add(const BatchPtr& batch) {
  for (std::size_t i = 0; i < batch->batch.operations.size(); ++i) add_one(batch, i);
}

void OperationOrder::add_one(const BatchPtr& batch, std::size_t index) {
  Footprint footprint = Footprint::of(batch->batch.operations[index].what, granule_);
  std::list<Entry>& others = entries_[footprint.id];
  Entry& entry = others.emplace_back(
      Entry{batch, index, std::move(footprint), batch->batch.priority, ++last_number_, 0, {}, false, {}});
  entry.place = std::prev(others.end());
  ++size_;
  for (Entry& other : others) {
    if (&other == &entry || !other.footprint.conflicts_with(entry.footprint)) continue;
    other.blocked.push_back(&entry);
    ++entry.blockers;
    if (entry.priority == Priority::kDemand) promote(other);
  }
  if (entry.blockers == 0) ready_.insert(&entry);
}

void OperationOrder::promote(Entry& entry) {
  if (entry.priority == Priority::kDemand || entry.has_begun) return;
  const bool was_ready = ready_.erase(&entry) > 0;
  entry.priority = Priority::kDemand;
  if (was_ready) ready_.insert(&entry);
  for (Entry& other : entries_.at(entry.footprint.id)) {
    if (&other == &entry) return;
    if (other.footprint.conflicts_with(entry.footprint)) promote(other);
  }
}

OperationOrder::Entry* OperationOrder::next() {
  if (ready_.empty()) return nullptr;
  Entry* entry = *ready_.begin();
  ready_.erase(ready_.begin());
  entry->has_begun = true;
  return entry;
}

BatchPtr OperationOrder::finish(Entry* entry) {
  for (Entry* other : entry->blocked) {
    if (--other->blockers == 0) ready_.insert(other);
  }
  BatchPtr batch = std::move(entry->batch);
  const auto list = entries_.find(entry->footprint.id);
  list->second.erase(entry->place);
  if (list->second.empty()) entries_.erase(list);
  --size_;
  return --batch->left == 0 ? batch : nullptr;
}

Status not_begun(const Operation& operation, bool is_stopped) {
  return {ErrorCode::kUnavailable,
          concat(op::name_of(operation.what),
                 is_stopped ? ": the store is stopped" : ": the caller gave up before it began")};
}

void refuse(IoBatch batch, const Completion& done) {
  for (Operation& operation : batch.operations) operation.status = not_begun(operation, true);
  done(std::move(batch));
}

}  // namespace weir::storage::internal
