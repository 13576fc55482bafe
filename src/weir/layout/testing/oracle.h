#pragma once

// The algebra by listing every byte: slow, obvious, and the judge of all that is fast.  For tests only, not installed.
//
// Nothing here shares code with the library.  A set becomes the list of its bytes; an element becomes two tables over a
// few periods, element offset -> file offset and back; an intersection is a scan over the file.

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <weir/layout/element.h>
#include <weir/layout/mapping.h>

namespace weir::layout::oracle {

/// File bytes in the order of a sequence.
using Bytes = std::vector<Offset>;

inline void append_bytes(const FallsSet& set, Offset base, Bytes& out) {
  for (const Falls& falls : set) {
    for (Offset i = 0; i < falls.count; ++i) {
      const Offset block = base + falls.left + (i == 0 ? 0 : i * falls.stride);
      if (falls.is_leaf()) {
        for (Offset byte = 0; byte < falls.block_length(); ++byte) out.push_back(block + byte);
      } else {
        append_bytes(falls.inner, block, out);
      }
    }
  }
}

/// The sequence that a set means.
inline Bytes expand(const FallsSet& set) {
  Bytes out;
  append_bytes(set, 0, out);
  return out;
}

inline bool has_duplicates(Bytes bytes) {
  std::sort(bytes.begin(), bytes.end());
  return std::adjacent_find(bytes.begin(), bytes.end()) != bytes.end();
}

/// One past the highest byte; 0 if there is none.
inline Offset end_of(const Bytes& bytes) {
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end()) + 1;
}

/// Number of FALLS in a tree.
inline Offset count_nodes(const FallsSet& set) {
  Offset nodes = 0;
  for (const Falls& falls : set) nodes += 1 + count_nodes(falls.inner);
  return nodes;
}

/// For messages of failed tests; written as in the layout language.
inline std::string describe(const FallsSet& set) {
  std::string out = "{";
  for (const Falls& falls : set) {
    if (out.size() > 1) out += ',';
    out += concat('(', falls.left, ',', falls.right, ',', falls.stride, ',', falls.count);
    if (!falls.is_leaf()) out += "," + describe(falls.inner);
    out += ')';
  }
  return out + "}";
}

/// What an Element is made from.
struct Pattern {
  FallsSet set;
  Offset disp = 0;
  Offset period = 1;

  [[nodiscard]] Element::Placement placement() const { return {.disp = disp, .period = period}; }
};

inline std::string describe(const Pattern& pattern) {
  return concat("falls(disp=", pattern.disp, ", period=", pattern.period, ", ", describe(pattern.set), ")");
}

inline Pattern pattern_of(const Element& element) { return {element.falls(), element.disp(), element.period()}; }

/// Tables of an element over `periods` periods: exact for file offsets below end() and element offsets below size().
class BruteElement {
 public:
  BruteElement(const Pattern& pattern, Offset periods) {
    const Bytes one = expand(pattern.set);
    per_period_ = static_cast<Offset>(one.size());
    to_element_.assign(static_cast<std::size_t>(pattern.disp + periods * pattern.period), kNone);
    for (Offset k = 0; k < periods; ++k) {
      for (const Offset byte : one) {
        const Offset x = pattern.disp + k * pattern.period + byte;
        to_element_[static_cast<std::size_t>(x)] = static_cast<Offset>(to_file_.size());
        to_file_.push_back(x);
      }
    }
  }

  /// Tables that reach at least to file offset `end`.
  static BruteElement reaching(const Pattern& pattern, Offset end) {
    return BruteElement(pattern, std::max<Offset>(1, ceil_div(end - pattern.disp, pattern.period)));
  }

  [[nodiscard]] Offset end() const { return static_cast<Offset>(to_element_.size()); }
  [[nodiscard]] Offset size() const { return static_cast<Offset>(to_file_.size()); }
  [[nodiscard]] Offset per_period() const { return per_period_; }

  [[nodiscard]] std::optional<Offset> map(Offset x) const {
    if (x < 0 || x >= end() || to_element_[static_cast<std::size_t>(x)] == kNone) return std::nullopt;
    return to_element_[static_cast<std::size_t>(x)];
  }
  [[nodiscard]] std::optional<Offset> map_next(Offset x) const {
    for (x = std::max<Offset>(x, 0); x < end(); ++x) {
      if (const auto y = map(x)) return y;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<Offset> map_previous(Offset x) const {
    for (; x >= 0; --x) {
      if (const auto y = map(x)) return y;
    }
    return std::nullopt;
  }
  [[nodiscard]] Offset unmap(Offset y) const { return to_file_.at(static_cast<std::size_t>(y)); }

  [[nodiscard]] Offset count_below(Offset x) const {
    return std::count_if(to_element_.begin(), to_element_.begin() + std::clamp<Offset>(x, 0, end()),
                         [](Offset y) { return y != kNone; });
  }
  [[nodiscard]] bool covers(Offset x, Offset x_end) const {
    for (; x < x_end; ++x) {
      if (!map(x)) return false;
    }
    return true;
  }
  [[nodiscard]] bool is_contiguous(Offset from, Offset to) const { return segments(from, to).size() <= 1; }

  /// Maximal segments of [from, to), in element order.
  [[nodiscard]] std::vector<Segment> segments(Offset from, Offset to) const {
    std::vector<Segment> out;
    for (Offset y = from; y < to; ++y) {
      if (!out.empty() && out.back().end() == unmap(y)) {
        ++out.back().length;
      } else {
        out.push_back({unmap(y), 1});
      }
    }
    return out;
  }

  [[nodiscard]] bool is_monotone() const { return std::is_sorted(to_file_.begin(), to_file_.end()); }

 private:
  static constexpr Offset kNone = -1;
  Bytes to_file_;
  std::vector<Offset> to_element_;
  Offset per_period_ = 0;
};

/// One byte that two elements share.
struct Common {
  Offset file;
  Offset a;
  Offset b;
  friend auto operator<=>(const Common&, const Common&) = default;
};

inline bool holds(const Range& range, Offset offset) { return range.from <= offset && offset < range.to; }

/// All bytes common to a and b in the window, in file order; as far as the shorter table reaches.
inline std::vector<Common> common_bytes(const BruteElement& a, const BruteElement& b, const Window& window) {
  std::vector<Common> out;
  const Offset end = std::min({a.end(), b.end(), window.file.to});
  for (Offset x = std::max<Offset>(0, window.file.from); x < end; ++x) {
    const auto y = a.map(x);
    const auto z = b.map(x);
    if (y && z && holds(window.a, *y) && holds(window.b, *z)) out.push_back({x, *y, *z});
  }
  return out;
}

/// Maximal pieces in the order asked for.
inline std::vector<Piece> pieces(std::vector<Common> bytes, Order order) {
  std::sort(bytes.begin(), bytes.end(), [order](const Common& p, const Common& q) {
    return order == Order::kFile ? p.file < q.file : order == Order::kA ? p.a < q.a : p.b < q.b;
  });
  std::vector<Piece> out;
  for (const Common& byte : bytes) {
    if (!out.empty()) {
      Piece& last = out.back();
      const bool file_goes_on = order != Order::kFile || last.file + last.length == byte.file;
      if (file_goes_on && last.a + last.length == byte.a && last.b + last.length == byte.b) {
        ++last.length;
        continue;
      }
    }
    out.push_back({byte.file, byte.a, byte.b, 1});
  }
  return out;
}

inline void append_run(const Run& run, std::span<const Loop> loops, Common at, std::vector<Common>& out) {
  if (loops.empty()) {
    for (Offset i = 0; i < run.length; ++i) out.push_back({at.file + i, at.a + i, at.b + i});
    return;
  }
  const Loop& loop = loops.front();
  for (Offset i = 0; i < loop.count; ++i) {
    append_run(run, loops.subspan(1), {at.file + i * loop.file, at.a + i * loop.a, at.b + i * loop.b}, out);
  }
}

/// Every byte that a mapping lists, sorted; a byte listed twice is there twice.
inline std::vector<Common> expand(const Mapping& mapping) {
  std::vector<Common> out;
  for (const Run& run : mapping.runs()) append_run(run, mapping.loops(run), {run.file, run.a, run.b}, out);
  std::sort(out.begin(), out.end());
  return out;
}

inline std::string describe(const std::vector<Common>& bytes) {
  std::string out;
  for (const Common& byte : bytes) out += concat('(', byte.file, ',', byte.a, ',', byte.b, ')');
  return out;
}

/// The first byte of the period that not just one of the sets holds; nothing for a layout.
inline std::optional<Offset> first_offence(const std::vector<FallsSet>& elements, Offset period) {
  std::vector<int> owners(static_cast<std::size_t>(period), 0);
  for (const FallsSet& set : elements) {
    for (const Offset byte : expand(set)) ++owners.at(static_cast<std::size_t>(byte));
  }
  const auto found = std::find_if(owners.begin(), owners.end(), [](int count) { return count != 1; });
  if (found == owners.end()) return std::nullopt;
  return found - owners.begin();
}

/// Where a view goes in a layout: see match().
struct BruteMatch {
  Offset bytes = 0;
  Offset breaks = 0;
  Offset targets = 0;
};

/// Looks at view bytes [0, bytes) and at their successors.  \pre The tables reach that far; subfiles cover what the
/// view holds.
inline BruteMatch match(const BruteElement& view, const std::vector<BruteElement>& subfiles, Offset bytes) {
  struct Place {
    std::size_t subfile;
    Offset offset;
  };
  const auto place = [&](Offset y) -> Place {
    const Offset x = view.unmap(y);
    for (std::size_t i = 0; i < subfiles.size(); ++i) {
      if (const auto z = subfiles[i].map(x)) return {i, *z};
    }
    return {subfiles.size(), x};  // below the layout: of no subfile, at its place in the file
  };
  BruteMatch out{.bytes = bytes};
  std::set<std::size_t> touched;
  for (Offset y = 0; y < bytes; ++y) {
    const Place here = place(y);
    const Place next = place(y + 1);
    touched.insert(here.subfile);
    if (next.subfile != here.subfile || next.offset != here.offset + 1) ++out.breaks;
  }
  out.targets = static_cast<Offset>(touched.size());
  return out;
}

}  // namespace weir::layout::oracle

namespace weir::layout {

// Found by argument-dependent look-up, so that failed expectations show values.
inline void PrintTo(const Falls& falls, std::ostream* out) { *out << oracle::describe(FallsSet{falls}); }
inline void PrintTo(const Segment& segment, std::ostream* out) {
  *out << concat('[', segment.offset, ", +", segment.length, ')');
}
inline void PrintTo(const Piece& piece, std::ostream* out) {
  *out << concat("(file ", piece.file, ", a ", piece.a, ", b ", piece.b, ", length ", piece.length, ')');
}

}  // namespace weir::layout
