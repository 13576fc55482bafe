#include <weir/layout/internal/address_tree.h>

#include <algorithm>

namespace weir::layout::internal {

namespace {

// Writes the loops of one band as a chain of nodes, the outermost to nodes[at].
void write_chain(const Band& band, std::size_t at, Tree& tree) {
  Offset length = band.piece.length;
  for (const Loop& loop : band.loops) length += (loop.count - 1) * loop.a;
  for (std::size_t k = 0; k < std::max<std::size_t>(band.loops.size(), 1); ++k) {
    Node node{.x = k == 0 ? band.piece.a : 0, .y = k == 0 ? band.piece.b : 0};
    if (!band.loops.empty()) {
      const Loop& loop = band.loops[k];
      length -= (loop.count - 1) * loop.a;
      node.count = loop.count;
      node.x_step = loop.a;
      node.y_step = loop.b;
    }
    node.length = length;
    node.reach = node.end();
    if (k + 1 < band.loops.size()) {
      node.first_child = static_cast<std::uint32_t>(tree.nodes.size());
      node.child_count = 1;
    }
    tree.nodes[at] = node;
    at = tree.nodes.size();
    if (node.child_count > 0) tree.nodes.emplace_back();
  }
}

}  // namespace

Shape shape_of(std::vector<Band> bands) {
  std::sort(bands.begin(), bands.end(), [](const Band& x, const Band& y) { return x.piece.a < y.piece.a; });
  Tree tree;
  tree.root_count = static_cast<std::uint32_t>(bands.size());
  tree.nodes.resize(bands.size());
  Offset reach = 0;
  for (std::size_t i = 0; i < bands.size(); ++i) {
    write_chain(bands[i], i, tree);
    reach = std::max(reach, tree.nodes[i].reach);
    tree.nodes[i].reach = reach;
  }
  return make_shape(std::make_shared<const Tree>(std::move(tree)));
}

Shape address_shape(const Trees& trees) {
  Tree tree = trees.by_element();
  for (Node& node : tree.nodes) {  // siblings are in element order already, and their blocks adjoin
    std::swap(node.x, node.y);
    node.length = node.bytes;
    node.y_step = node.x_step;
    node.x_step = node.count > 1 ? node.bytes : 0;
    node.reach = node.end();
  }
  Shape shape = make_shape(std::make_shared<const Tree>(std::move(tree)));
  const Offset first_byte = trees.size > 0 ? trees.spatial->nodes[0].x : 0;
  shape.root.y = trees.disp;
  shape.root.count = std::max<Offset>(1, (kMaxBytes - trees.disp - first_byte - 1) / trees.period + 1);
  if (shape.root.count > 1) {
    shape.root.x_step = trees.size;
    shape.root.y_step = trees.period;
  }
  return shape;
}

}  // namespace weir::layout::internal
