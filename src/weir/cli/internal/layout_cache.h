#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include <weir/layout/partition.h>

namespace weir::cli::internal {

/// Remembers what layout texts mean, so that a batch that asks about the same layouts again and again parses each once.
/// Bounded: when it is full it starts afresh.
class LayoutCache {
 public:
  explicit LayoutCache(std::size_t most_entries) : most_entries_(most_entries) {}

  Result<std::shared_ptr<const layout::Partition>> partition(std::string_view text);
  Result<layout::Element> element(std::string_view text, Offset index);

 private:
  struct Entry {
    Status status;
    std::shared_ptr<const layout::Partition> partition;
    std::unordered_map<Offset, Result<layout::Element>> elements;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };

  Entry& entry(std::string_view text);

  std::size_t most_entries_;
  std::size_t entries_ = 0;     // layouts and elements
  std::size_t text_bytes_ = 0;  // of the layouts' texts
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> by_text_;
};

}  // namespace weir::cli::internal
