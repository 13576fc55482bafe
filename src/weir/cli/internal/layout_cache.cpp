#include <weir/cli/internal/layout_cache.h>

#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

constexpr std::size_t kMostCachedTextBytes = std::size_t{64} << 20;

}  // namespace

LayoutCache::Entry& LayoutCache::entry(std::string_view text) {
  if (const auto found = by_text_.find(text); found != by_text_.end()) return found->second;
  if (entries_ >= most_entries_ || text_bytes_ >= kMostCachedTextBytes) {
    by_text_.clear();
    entries_ = 0;
    text_bytes_ = 0;
  }
  Entry fresh;
  Result<layout::Partition> partition = layout::parse(text);
  if (partition.is_ok()) {
    fresh.partition = std::make_shared<const layout::Partition>(std::move(partition).value());
  } else {
    fresh.status = partition.status();
  }
  ++entries_;
  text_bytes_ += text.size();
  return by_text_.emplace(std::string(text), std::move(fresh)).first->second;
}

Result<std::shared_ptr<const layout::Partition>> LayoutCache::partition(std::string_view text) {
  const Entry& known = entry(text);
  if (known.partition == nullptr) return known.status;
  return known.partition;
}

Result<layout::Element> LayoutCache::element(std::string_view text, Offset index) {
  Entry& known = entry(text);
  if (known.partition == nullptr) return known.status;
  const auto found = known.elements.find(index);
  if (found != known.elements.end()) return found->second;
  Result<layout::Element> element = known.partition->element(index);
  ++entries_;                           // a full cache is emptied when the next text comes
  if (entries_ >= 2 * most_entries_) {  // one text with very many elements
    entries_ -= known.elements.size();
    known.elements.clear();
  }
  known.elements.emplace(index, element);
  return element;
}

}  // namespace weir::cli::internal
