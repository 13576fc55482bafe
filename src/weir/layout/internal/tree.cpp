#include <weir/layout/internal/tree.h>

#include <algorithm>
#include <span>

namespace weir::layout::internal {

namespace {

// The tree while it is built: a node owns its children.
struct Draft {
  Offset x = 0;
  Offset y = 0;
  Offset length = 0;
  Offset count = 1;
  Offset x_step = 0;
  Offset y_step = 0;
  std::vector<Draft> children;

  [[nodiscard]] Offset end() const noexcept { return x + (count - 1) * x_step + length; }
};
using Drafts = std::vector<Draft>;

// Puts the first byte of the block at offset 0 of the block.
void tighten(Draft& draft) {
  if (draft.children.empty()) return;
  Offset first = kMaxBytes;
  Offset end = 0;
  for (const Draft& child : draft.children) {
    first = std::min(first, child.x);
    end = std::max(end, child.end());
  }
  for (Draft& child : draft.children) child.x -= first;
  draft.x += first;
  draft.length = end - first;
}

Offset block_bytes(const Draft& draft) {
  if (draft.children.empty()) return draft.length;
  Offset total = 0;
  for (const Draft& child : draft.children) total += child.count * block_bytes(child);
  return total;
}

// Nodes written as the FALLS are: element order, steps not necessarily proper.
Drafts draft_sequence(const FallsSet& set) {
  Drafts drafts;
  drafts.reserve(set.size());
  Offset y = 0;
  for (const Falls& falls : set) {
    Draft draft{falls.left, y, falls.block_length(), falls.count, falls.count > 1 ? falls.stride : 0, 0, {}};
    draft.children = draft_sequence(falls.inner);
    tighten(draft);
    draft.y_step = falls.is_leaf() ? falls.block_length() : size(falls.inner);
    y += draft.y_step * falls.count;
    drafts.push_back(std::move(draft));
  }
  return drafts;
}

struct LoopDraft {
  Offset count;
  Offset x_step;
  Offset y_step;
};

// Turns drafts in element order into the spatial form.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::size_t most_nodes) : nodes_left_(static_cast<Offset>(most_nodes)) {}

  // `base` is the offset of the first block of all parents, to name a duplicate byte.
  Drafts arrange(Drafts drafts, Offset base) {
    Drafts out;
    for (Draft& draft : drafts) {
      draft.children = arrange(std::move(draft.children), base + draft.x);
      tighten(draft);
      if (draft.count == 1 || (draft.x_step >= draft.length)) {
        out.push_back(std::move(draft));
        continue;
      }
      const LoopDraft loop{draft.count, draft.x_step, draft.y_step};
      draft.count = 1;
      draft.x_step = draft.y_step = 0;
      push(loop, std::move(draft), base, out);
    }
    sort_by_file(out);
    return out;
  }

  [[nodiscard]] bool failed() const { return nodes_left_ < 0; }
  [[nodiscard]] std::optional<Offset> duplicate() const { return duplicate_; }

 private:
  static void sort_by_file(Drafts& drafts) {
    const auto is_before = [](const Draft& a, const Draft& b) { return a.x < b.x; };
    // Most are, and a stable sort would move them all to find out.
    if (std::is_sorted(drafts.begin(), drafts.end(), is_before)) return;
    std::stable_sort(drafts.begin(), drafts.end(), is_before);
  }

  static Draft repeated(const LoopDraft& loop, Draft block) {
    if (block.count == 1) {
      block.count = loop.count;
      block.x_step = loop.x_step;
      block.y_step = loop.y_step;
      return block;
    }
    Draft outer{block.x, block.y, 0, loop.count, loop.x_step, loop.y_step, {}};
    block.x = block.y = 0;
    outer.children.push_back(std::move(block));
    tighten(outer);
    return outer;
  }

  // Adds to `out` the nodes for `loop` around `draft`, a properly nested node.
  void push(const LoopDraft& loop, Draft draft, Offset base, Drafts& out) {
    if (--nodes_left_ < 0) return;
    const Offset whole = (draft.count - 1) * draft.x_step + draft.length;
    if (loop.x_step >= whole) return out.push_back(repeated(loop, std::move(draft)));
    if (draft.count > 1) return push_past_loop(loop, std::move(draft), base, out);
    if (draft.children.empty()) return push_onto_leaf(loop, std::move(draft), base, out);
    for (Draft& child : draft.children) {
      child.x += draft.x;
      child.y += draft.y;
      push(loop, std::move(child), base, out);
    }
  }

  // The step is shorter than the family `draft`: exchange the two loops if the family's step leaves room for this loop.
  void push_past_loop(const LoopDraft& loop, Draft draft, Offset base, Drafts& out) {
    const Offset turned = (loop.count - 1) * loop.x_step + draft.length;
    if (draft.x_step >= turned) {
      Draft block = draft;
      block.count = 1;
      block.x_step = block.y_step = 0;
      block.x = block.y = 0;
      draft.length = 0;
      draft.children.clear();
      push(loop, std::move(block), base + draft.x, draft.children);
      sort_by_file(draft.children);
      tighten(draft);
      return out.push_back(std::move(draft));
    }
    if (draft.count <= loop.count) {  // neither order is proper: unroll the shorter loop
      const LoopDraft own{draft.count, draft.x_step, draft.y_step};
      draft.count = 1;
      draft.x_step = draft.y_step = 0;
      for (Offset i = 0; i < own.count && nodes_left_ >= 0; ++i) {
        Draft block = draft;
        block.x += i * own.x_step;
        block.y += i * own.y_step;
        push(loop, std::move(block), base, out);
      }
      return;
    }
    for (Offset i = 0; i < loop.count && nodes_left_ >= 0; ++i) {
      --nodes_left_;
      out.push_back(draft);
      out.back().x += i * loop.x_step;
      out.back().y += i * loop.y_step;
    }
  }

  // Segments that overlap their successors: the union, as a set, is one segment.
  void push_onto_leaf(const LoopDraft& loop, Draft leaf, Offset base, Drafts& out) {
    const Offset twice = base + leaf.x + loop.x_step;
    duplicate_ = std::min(duplicate_.value_or(twice), twice);
    leaf.length += (loop.count - 1) * loop.x_step;
    out.push_back(std::move(leaf));
  }

  Offset nodes_left_;
  std::optional<Offset> duplicate_;
};

std::size_t count_nodes(const Drafts& drafts) {
  std::size_t total = drafts.size();
  for (const Draft& draft : drafts) total += count_nodes(draft.children);
  return total;
}

void write_siblings(const Drafts& drafts, std::uint32_t at, std::uint32_t& free, Tree& tree) {
  Offset before = 0;
  Offset reach = 0;
  for (const Draft& draft : drafts) {
    Node& node = tree.nodes[at++];
    node = {draft.x, draft.y, draft.length, draft.count, draft.x_step, draft.y_step, block_bytes(draft), before, 0,
            0,       0};
    before += node.bytes * node.count;
    reach = std::max(reach, draft.end());
    node.reach = reach;
    if (draft.children.empty()) continue;
    node.first_child = free;
    node.child_count = static_cast<std::uint32_t>(draft.children.size());
    free += node.child_count;
    write_siblings(draft.children, tree.nodes[at - 1].first_child, free, tree);
  }
}

Tree flatten(const Drafts& drafts) {
  Tree tree;
  tree.nodes.resize(count_nodes(drafts));
  tree.root_count = static_cast<std::uint32_t>(drafts.size());
  std::uint32_t free = tree.root_count;
  write_siblings(drafts, 0, free, tree);
  return tree;
}

// As tighten() of a draft.
void tighten(Tree& tree, Node& node) {
  const std::span children(tree.nodes.data() + node.first_child, node.child_count);
  Offset first = kMaxBytes;
  for (const Node& child : children) first = std::min(first, child.x);
  for (Node& child : children) {
    child.x -= first;
    child.reach -= first;
  }
  node.x += first;
  node.length = children.back().reach;
}

// Writes the nodes of a set as they are, in element order, from nodes[at] on.  \returns the bytes of the set
Offset write_as_given(const FallsSet& set, std::uint32_t at, std::uint32_t& free, Tree& tree) {
  Offset before = 0;
  Offset reach = 0;
  for (const Falls& falls : set) {
    Node& node = tree.nodes[at++];
    node = {falls.left, before, falls.block_length(), falls.count, falls.count > 1 ? falls.stride : 0, 0, 0, before, 0,
            0,          0};
    if (falls.is_leaf()) {
      node.bytes = node.length;
    } else {
      node.first_child = free;
      node.child_count = static_cast<std::uint32_t>(falls.inner.size());
      free += node.child_count;
      node.bytes = write_as_given(falls.inner, node.first_child, free, tree);
      tighten(tree, node);
    }
    node.y_step = node.bytes;
    before += node.bytes * node.count;
    reach = std::max(reach, node.end());
    node.reach = reach;
  }
  return before;
}

// Number of siblings with node.x <= x.
std::uint32_t upper_bound(const Node* siblings, std::uint32_t count, Offset x) noexcept {
  if (count <= 4) {
    std::uint32_t k = 0;
    while (k < count && siblings[k].x <= x) ++k;
    return k;
  }
  return static_cast<std::uint32_t>(
      std::upper_bound(siblings, siblings + count, x, [](Offset value, const Node& node) { return value < node.x; }) -
      siblings);
}

// The block of `node` at or before x (relative to the node's first block).  \pre rest >= 0
Offset block_of(const Node& node, Offset rest) noexcept {
  return node.count == 1 ? 0 : std::min(rest / node.x_step, node.count - 1);
}

Offset first_y(const Tree& tree, const Node* node) noexcept {
  Offset y = node->y;
  while (!node->is_leaf()) {
    node = &tree.nodes[node->first_child];
    y += node->y;
  }
  return y;
}

// Element offset, relative to the block, of the last byte of a block of `node`.
Offset last_y_of_block(const Tree& tree, const Node* node) noexcept {
  Offset y = 0;
  while (!node->is_leaf()) {
    const Node* child = &tree.nodes[node->first_child + node->child_count - 1];
    while (child->end() != node->length) --child;
    y += child->y + (child->count - 1) * child->y_step;
    node = child;
  }
  return y + node->length - 1;
}

}  // namespace

std::optional<Offset> find(const Tree& tree, std::uint32_t first, std::uint32_t count, Offset x) noexcept {
  Offset y = 0;
  for (;;) {  // descends without recursion while only one sibling can hold x
    const Node* siblings = tree.nodes.data() + first;
    std::uint32_t k = upper_bound(siblings, count, x);
    const Node* descend = nullptr;
    Offset descend_x = 0;
    Offset descend_y = 0;
    for (; k > 0 && siblings[k - 1].reach > x; --k) {
      const Node& node = siblings[k - 1];
      Offset rest = x - node.x;
      const Offset block = block_of(node, rest);
      rest -= block * node.x_step;
      if (rest >= node.length) continue;
      const Offset node_y = y + node.y + block * node.y_step;
      if (node.is_leaf()) return node_y + rest;
      if (descend) {  // siblings interleave: look into the earlier candidate first
        if (const auto found = find(tree, descend->first_child, descend->child_count, descend_x))
          return descend_y + *found;
      }
      descend = &node;
      descend_x = rest;
      descend_y = node_y;
    }
    if (!descend) return std::nullopt;
    first = descend->first_child;
    count = descend->child_count;
    x = descend_x;
    y = descend_y;
  }
}

std::optional<Place> find_next(const Tree& tree, std::uint32_t first, std::uint32_t count, Offset x) noexcept {
  const Node* siblings = tree.nodes.data() + first;
  std::uint32_t k = upper_bound(siblings, count, x);
  std::optional<Place> best;
  if (k < count) best = Place{siblings[k].x, first_y(tree, &siblings[k])};
  for (; k > 0 && siblings[k - 1].reach > x; --k) {
    const Node& node = siblings[k - 1];
    Offset rest = x - node.x;
    Offset block = block_of(node, rest);
    rest -= block * node.x_step;
    std::optional<Place> place;
    if (rest < node.length) {
      if (node.is_leaf()) return Place{x, node.y + block * node.y_step + rest};
      place = find_next(tree, node.first_child, node.child_count, rest);
      if (place) place = Place{node.x + block * node.x_step + place->x, node.y + block * node.y_step + place->y};
    } else if (++block < node.count) {
      place = Place{node.x + block * node.x_step, first_y(tree, &node) + block * node.y_step};
    }
    if (place && (!best || place->x < best->x)) best = place;
  }
  return best;
}

std::optional<Place> find_previous(const Tree& tree, std::uint32_t first, std::uint32_t count, Offset x) noexcept {
  const Node* siblings = tree.nodes.data() + first;
  std::optional<Place> best;
  for (std::uint32_t k = upper_bound(siblings, count, x); k > 0; --k) {
    const Node& node = siblings[k - 1];
    if (best && node.reach - 1 <= best->x) break;
    Offset rest = x - node.x;
    const Offset block = block_of(node, rest);
    rest -= block * node.x_step;
    Place place{node.x + block * node.x_step, node.y + block * node.y_step};
    if (rest >= node.length) {
      place.x += node.length - 1;
      place.y += last_y_of_block(tree, &node);
    } else if (node.is_leaf()) {
      return Place{x, place.y + rest};
    } else {
      // Blocks are tight, so some byte of this block is at or before `rest`.
      const auto inner = find_previous(tree, node.first_child, node.child_count, rest);
      place.x += inner->x;
      place.y += inner->y;
    }
    if (!best || place.x > best->x) best = place;
  }
  return best;
}

Offset count_below(const Tree& tree, std::uint32_t first, std::uint32_t count, Offset x) noexcept {
  const Node* siblings = tree.nodes.data() + first;
  std::uint32_t k = upper_bound(siblings, count, x);
  Offset total = 0;
  for (; k > 0 && siblings[k - 1].reach > x; --k) {
    const Node& node = siblings[k - 1];
    Offset rest = x - node.x;
    const Offset block = block_of(node, rest);
    rest -= block * node.x_step;
    total += block * node.bytes;
    if (rest >= node.length) {
      total += node.bytes;
    } else {
      total += node.is_leaf() ? rest : count_below(tree, node.first_child, node.child_count, rest);
    }
  }
  if (k > 0) total += siblings[k - 1].before + siblings[k - 1].bytes * siblings[k - 1].count;
  return total;
}

Located locate(const Tree& tree, Offset y) noexcept {
  std::uint32_t first = 0;
  std::uint32_t count = tree.root_count;
  Offset x = 0;
  for (;;) {
    const Node* siblings = tree.nodes.data() + first;
    std::uint32_t k = 0;
    if (count <= 8) {
      while (k + 1 < count && siblings[k + 1].y <= y) ++k;
    } else {
      k = static_cast<std::uint32_t>(std::upper_bound(siblings + 1, siblings + count, y,
                                                      [](Offset value, const Node& node) { return value < node.y; }) -
                                     siblings - 1);
    }
    const Node& node = siblings[k];
    Offset rest = y - node.y;
    const Offset block = node.count == 1 ? 0 : rest / node.y_step;
    rest -= block * node.y_step;
    x += node.x + block * node.x_step;
    if (node.is_leaf()) return {x + rest, node.length - rest};
    first = node.first_child;
    count = node.child_count;
    y = rest;
  }
}

bool is_monotone(const FallsSet& simplified) noexcept {
  Offset end = 0;
  for (const Falls& falls : simplified) {
    if (falls.left < end) return false;
    if (falls.count > 1 && falls.stride < falls.block_length()) return false;
    if (!is_monotone(falls.inner)) return false;
    end = falls.right + 1 + (falls.count > 1 ? (falls.count - 1) * falls.stride : 0);
  }
  return true;
}

Tree make_sequence(const FallsSet& simplified) {
  Tree tree;
  tree.nodes.resize(static_cast<std::size_t>(node_count(simplified)));
  tree.root_count = static_cast<std::uint32_t>(simplified.size());
  std::uint32_t free = tree.root_count;
  write_as_given(simplified, 0, free, tree);
  return tree;
}

Result<Spatial> make_spatial(const FallsSet& simplified, std::size_t most_nodes) {
  TreeBuilder builder{most_nodes};
  const Drafts drafts = builder.arrange(draft_sequence(simplified), 0);
  if (builder.failed()) {
    return too_complex(concat("the pattern interleaves in a way that needs more than ", most_nodes, " parts"));
  }
  return Spatial{flatten(drafts), builder.duplicate()};
}

}  // namespace weir::layout::internal
