#include <weir/transfer/internal/normalize.h>

#include <algorithm>

namespace weir::transfer::internal {

namespace {

using Input = Program::Input;

// Drops loops of one turn, makes one of two loops that go on in each other, and longer blocks of loops without gaps.
void melt(Input& input) {
  auto& loops = input.loops;
  std::erase_if(loops, [](const Step& loop) { return loop.count == 1; });
  for (std::size_t i = loops.size(); i-- > 1;) {
    const Step& inner = loops[i];
    Step& outer = loops[i - 1];
    if (outer.source != inner.source * inner.count || outer.target != inner.target * inner.count) continue;
    outer = {outer.count * inner.count, inner.source, inner.target};
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (!loops.empty() && loops.back().source == input.length && loops.back().target == input.length) {
    input.length *= loops.back().count;
    loops.pop_back();
  }
}

bool same_loops(const Input& x, const Input& y) {
  return std::equal(x.loops.begin(), x.loops.end(), y.loops.begin(), y.loops.end(), [](const Step& s, const Step& t) {
    return s.count == t.count && s.source == t.source && s.target == t.target;
  });
}

// True if y goes on where x ends, at every turn.
bool continues(const Input& x, const Input& y) {
  return x.source + x.length == y.source && x.target + x.length == y.target && same_loops(x, y);
}

}  // namespace

std::vector<Input> normalize(std::vector<Input> inputs, Key key) {
  for (Input& input : inputs) melt(input);
  const auto side = key == Key::kSource ? &Input::source : &Input::target;
  std::sort(inputs.begin(), inputs.end(), [side](const Input& x, const Input& y) { return x.*side < y.*side; });
  std::vector<Input> out;
  for (Input& input : inputs) {
    if (out.empty() || !continues(out.back(), input)) {
      out.push_back(std::move(input));
    } else {
      out.back().length += input.length;
      melt(out.back());
    }
  }
  return out;
}

}  // namespace weir::transfer::internal
