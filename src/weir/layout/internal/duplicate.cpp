#include <weir/layout/internal/duplicate.h>

#include <algorithm>

namespace weir::layout::internal {

namespace {

constexpr std::size_t kSteps = std::size_t{1} << 26;

Status cannot_tell() {
  return too_complex(
      "the families of the pattern fit together so badly that overlaps cannot be ruled out in bounded time");
}

// Bytes that siblings share, in the first block of their parent (other blocks repeat it at higher offsets).
class DuplicateFinder {
 public:
  DuplicateFinder(const Tree& tree, std::optional<Offset> known) : tree_(tree), lowest_(known) {}

  bool search(std::uint32_t first, std::uint32_t count, Offset base) {
    for (std::uint32_t i = first; i < first + count; ++i) {
      const Node& node = tree_.nodes[i];
      for (std::uint32_t k = i; k > first && tree_.nodes[k - 1].reach > node.x; --k) {
        if (tree_.nodes[k - 1].end() > node.x && !meet_pair(tree_.nodes[k - 1], node, base)) return false;
      }
      if (!node.is_leaf() && !search(node.first_child, node.child_count, base + node.x)) return false;
    }
    return true;
  }

  [[nodiscard]] std::optional<Offset> lowest() const { return lowest_; }

 private:
  bool meet_pair(const Node& a, const Node& b, Offset base) {
    const auto end = meet_siblings(tree_, a, b, steps_left_, [&](const Piece& piece, std::span<const Loop>) {
      lowest_ = std::min(lowest_.value_or(kMaxBytes), base + piece.file);
      return true;
    });
    return end != MeetEnd::kOverBudget;
  }

  const Tree& tree_;
  std::optional<Offset> lowest_;
  std::size_t steps_left_ = kSteps;
};

}  // namespace

Result<std::optional<Offset>> first_duplicate(const Spatial& spatial) {
  DuplicateFinder finder{spatial.tree, spatial.duplicate};
  if (!finder.search(0, spatial.tree.root_count, 0)) return cannot_tell();
  return finder.lowest();
}

Result<std::optional<Offset>> first_common(const Shape& a, const Shape& b, Offset to) {
  std::optional<Offset> lowest;
  std::size_t steps_left = kSteps;
  const auto end = meet(a, b, {0, to}, steps_left, [&](const Piece& piece, std::span<const Loop>) {
    lowest = std::min(lowest.value_or(kMaxBytes), piece.file);
    return true;
  });
  if (end == MeetEnd::kOverBudget) return cannot_tell();
  return lowest;
}

}  // namespace weir::layout::internal
