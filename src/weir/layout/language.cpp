#include <weir/layout/language.h>

#include <array>
#include <cstdint>
#include <utility>

#include <weir/layout/internal/description.h>

namespace weir::layout {
namespace {

/// Arguments by name.
enum Argument : std::uint8_t {
  kUnit,
  kOver,
  kShape,
  kElem,
  kDist,
  kGrid,
  kTile,
  kOrder,
  kDisp,
  kPeriod,
  kArgumentCount
};
constexpr std::array<std::string_view, kArgumentCount> kArgumentNames = {"unit", "over", "shape", "elem", "dist",
                                                                         "grid", "tile", "order", "disp", "period"};

using Arguments = unsigned;  // a set of them, one bit each
constexpr Arguments bit(Argument argument) { return 1u << argument; }

struct Constructor {
  std::string_view name;
  Arguments possible;
  Arguments required;
};
constexpr Constructor kStripe{"stripe", bit(kUnit) | bit(kOver) | bit(kDisp), bit(kUnit) | bit(kOver)};
constexpr Constructor kHpf{"hpf", bit(kShape) | bit(kElem) | bit(kDist) | bit(kGrid) | bit(kOrder) | bit(kDisp),
                           bit(kShape) | bit(kDist) | bit(kGrid)};
constexpr Constructor kTiles{"tiles", bit(kShape) | bit(kElem) | bit(kTile) | bit(kOver) | bit(kOrder) | bit(kDisp),
                             bit(kShape) | bit(kTile) | bit(kOver)};
constexpr Constructor kFalls{"falls", bit(kDisp) | bit(kPeriod), 0};

constexpr std::string_view kNegative = "negative values are not allowed";
constexpr std::string_view kLowCount = "a count must be at least 1";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

int suffix_shift(char c) {
  switch (c) {
    case 'K': return 10;
    case 'M': return 20;
    case 'G': return 30;
    case 'T': return 40;
    default: return 0;
  }
}

std::string list(Arguments arguments) {
  std::string out;
  for (unsigned a = 0; a < kArgumentCount; ++a) {
    if ((arguments & (1u << a)) == 0) continue;
    if (!out.empty()) out += ", ";
    out += kArgumentNames[a];
  }
  return out;
}

/// Recursive descent.  Functions return false at the first error, which is then in error_.
class Parser {
 public:
  explicit Parser(std::string_view text) : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

  Result<Partition> layout() {
    Description description;
    if (!describe(description)) return std::move(error_);
    if (given_stride_ > 0 && options_.period == 0) settle_period(std::get<Explicit>(description));
    Result<Partition> partition = Partition::create(std::move(description), options_);
    if (partition.is_ok()) return partition;
    return Parser({begin_, end_}).explain(partition.status());
  }

  Result<FallsSet> falls_alone() {
    FallsSet out;
    skip_space();
    start_ = column();
    const bool is_single = at_ != end_ && *at_ == '(';
    if (!(is_single ? falls(out.emplace_back(), 1) : set(out, 1)) || !at_end()) return std::move(error_);
    if (const Status status = check(out); !status.is_ok()) {
      return at(is_single ? start_ : column_of_flaw(out, start_), status.message());
    }
    return out;
  }

 private:
  bool describe(Description& out) {
    skip_space();
    start_ = column();
    const std::string_view name = word();
    bool is_good = false;
    if (name == kStripe.name) {
      is_good = arguments(kStripe, out.emplace<Stripe>());
    } else if (name == kHpf.name) {
      is_good = arguments(kHpf, out.emplace<Hpf>());
    } else if (name == kTiles.name) {
      is_good = arguments(kTiles, out.emplace<Tiles>());
    } else if (name == kFalls.name) {
      is_good = elements(out.emplace<Explicit>());
    } else {
      is_good = fail_unknown_layout(name);
    }
    return is_good && at_end();
  }

  // Errors.

  [[nodiscard]] std::int64_t column() const { return at_ - begin_ + 1; }

  static Status at(std::int64_t column, std::string_view message) {
    return invalid_argument(concat("column ", column, ": ", message), column);
  }

  bool fail(std::int64_t column, std::string_view message) {
    error_ = at(column, message);
    return false;
  }

  /// What stands at the cursor, for messages.
  [[nodiscard]] std::string found() const {
    constexpr std::ptrdiff_t kLongest = 32;
    if (at_ == end_) return "the end of the text";
    const char* last = at_;
    while (last != end_ && last - at_ < kLongest && (is_letter(*last) || is_digit(*last))) ++last;
    if (last != at_) return concat('\'', std::string_view(at_, last), '\'');
    if (*at_ > ' ' && *at_ <= '~') return concat('\'', *at_, '\'');
    return concat("byte ", static_cast<unsigned>(static_cast<unsigned char>(*at_)));
  }

  bool fail_expected(std::string_view what) { return fail(column(), concat("expected ", what, ", found ", found())); }

  bool fail_unknown_layout(std::string_view name) {
    constexpr std::string_view kPossible = "stripe, hpf, tiles or falls";
    if (name.empty()) return fail_expected(concat("a layout (", kPossible, ")"));
    return fail(start_, concat("there is no layout '", name, "'; possible are ", kPossible));
  }

  // Tokens.  White space may stand before each.

  void skip_space() {
    while (at_ != end_ && is_space(*at_)) ++at_;
  }

  bool accept(char c) {
    skip_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  /// `where` tells where: " after the count".
  bool expect(char c, std::string_view where) { return accept(c) || fail_expected(concat('\'', c, '\'', where)); }

  std::string_view word() {
    skip_space();
    const char* first = at_;
    while (at_ != end_ && is_letter(*at_)) ++at_;
    return {first, at_};
  }

  bool at_end() {
    skip_space();
    return at_ == end_ || fail_expected("the end of the text");
  }

  bool number(Offset& value, std::string_view what, std::string_view if_negative = kNegative) {
    skip_space();
    const char* first = at_;
    if (at_ == end_ || !is_digit(*at_)) return no_number(what, if_negative);
    value = 0;
    bool fits = true;
    for (; at_ != end_ && is_digit(*at_); ++at_) {
      if (value > kMaxBytes / 10) fits = false;
      if (fits) value = value * 10 + (*at_ - '0');
    }
    if (const int shift = at_ == end_ ? 0 : suffix_shift(*at_); shift != 0) {
      ++at_;
      if (value > kMaxBytes >> shift) fits = false;
      if (fits) value <<= shift;
    }
    const std::int64_t start = first - begin_ + 1;
    if (at_ != end_ && is_letter(*at_)) {
      return fail(column(), concat("a number ends in a digit or in K, M, G or T, not in ", found()));
    }
    if (!fits || value > kMaxBytes) return fail(start, concat(what, " is larger than 2^62"));
    return true;
  }

  bool no_number(std::string_view what, std::string_view if_negative) {
    if (at_ != end_ && *at_ == '-' && at_ + 1 != end_ && is_digit(at_[1])) {
      return fail(column(), concat(what, ": ", if_negative));
    }
    return fail_expected(concat("a number for ", what));
  }

  // stripe, hpf, tiles: arguments by name.

  template <typename Shape>
  bool arguments(const Constructor& constructor, Shape& out) {
    if (!accept('(')) return fail_expected(concat("'(' after ", constructor.name));
    do {
      Argument argument;
      if (!argument_name(constructor, argument) || !value(argument, out)) return false;
    } while (accept(','));
    if (!accept(')')) return fail_expected("',' or ')'");
    const Arguments missing = constructor.required & ~given_;
    if (missing == 0) return true;
    return fail(start_, concat(constructor.name, " needs ", list(missing), " as well"));
  }

  /// "name =" of an argument that is possible here and was not given before.
  bool argument_name(const Constructor& constructor, Argument& argument) {
    skip_space();
    const std::int64_t start = column();
    const std::string_view name = word();
    if (name.empty()) return fail_expected(concat("an argument (", list(constructor.possible & ~given_), ")"));
    unsigned a = 0;
    while (a < kArgumentCount && kArgumentNames[a] != name) ++a;
    if (a == kArgumentCount || (constructor.possible & (1u << a)) == 0) {
      return fail(start,
                  concat(constructor.name, " has no argument '", name, "'; possible are ", list(constructor.possible)));
    }
    argument = static_cast<Argument>(a);
    if ((given_ & bit(argument)) != 0) return fail(start, concat("argument '", name, "' is given twice"));
    given_ |= bit(argument);
    columns_[argument] = start;
    return accept('=') || fail_expected(concat("'=' after ", name));
  }

  bool value(Argument argument, Stripe& out) {
    switch (argument) {
      case kUnit: return number(out.unit, "unit");
      case kOver: return number(out.over, "over");
      default: return number(options_.disp, "disp");
    }
  }

  bool value(Argument argument, Hpf& out) {
    switch (argument) {
      case kShape: return numbers(out.shape, "shape");
      case kElem: return number(out.elem, "elem");
      case kDist: return distributions(out.dist);
      case kGrid: return numbers(out.grid, "grid");
      case kOrder: return order(out.order);
      default: return number(options_.disp, "disp");
    }
  }

  bool value(Argument argument, Tiles& out) {
    switch (argument) {
      case kShape: return numbers(out.shape, "shape");
      case kElem: return number(out.elem, "elem");
      case kTile: return numbers(out.tile, "tile");
      case kOver: return number(out.over, "over");
      case kOrder: return order(out.order);
      default: return number(options_.disp, "disp");
    }
  }

  bool numbers(std::vector<Offset>& out, std::string_view what) {
    if (!accept('[')) return fail_expected(concat("'[' for ", what));
    out.reserve(4);
    do {
      if (!number(out.emplace_back(), what)) return false;
    } while (accept(','));
    return accept(']') || fail_expected(concat("',' or ']' in ", what));
  }

  bool distributions(std::vector<Dist>& out) {
    if (!accept('(')) return fail_expected("'(' for dist");
    out.reserve(4);
    do {
      if (!distribution(out.emplace_back())) return false;
    } while (accept(','));
    return accept(')') || fail_expected("',' or ')' in dist");
  }

  bool distribution(Dist& out) {
    if (accept('*')) return true;
    const char* start = at_;
    const std::string_view name = word();
    if (name == "BLOCK" || name == "block") {
      out.kind = Dist::Kind::kBlock;
    } else if (name == "CYCLIC" || name == "cyclic") {
      out.kind = Dist::Kind::kCyclic;
    } else {
      at_ = start;
      return fail_expected("*, BLOCK, BLOCK(m), CYCLIC or CYCLIC(k)");
    }
    if (!accept('(')) return true;
    skip_space();
    const std::int64_t width = column();
    if (!number(out.width, "a width")) return false;
    if (out.width == 0) return fail(width, concat("the width of ", name, " must be at least 1"));
    return accept(')') || fail_expected("')' after a width");
  }

  bool order(ArrayOrder& out) {
    skip_space();
    const char* start = at_;
    const std::string_view name = word();
    if (name == "C" || name == "F") {
      out = name == "C" ? ArrayOrder::kC : ArrayOrder::kFortran;
      return true;
    }
    at_ = start;
    return fail_expected("C or F for order");
  }

  // falls: disp and period, then sets.

  bool elements(Explicit& out) {
    if (!accept('(')) return fail_expected("'(' after falls");
    skip_space();
    while (at_ != end_ && *at_ != '{') {
      if (!falls_argument() || !expect(',', " after a number")) return false;
      skip_space();
    }
    do {
      skip_space();
      set_columns_.push_back(column());
      if (!set(out.elements.emplace_back(), 1)) return false;
    } while (accept('|'));
    if (accept(')')) return true;
    if (at_ != end_ && *at_ == ',') {
      return fail(column(), "expected '|' or ')' after a set, found ','; disp and period stand before the sets");
    }
    return fail_expected("'|' or ')' after a set");
  }

  bool falls_argument() {
    if (!is_letter(*at_)) return fail_expected("a set ('{'), disp or period");
    Argument argument;
    if (!argument_name(kFalls, argument)) return false;
    if (argument == kDisp) return number(options_.disp, "disp");
    skip_space();
    const std::int64_t start = column();
    if (!number(options_.period, "period")) return false;
    return options_.period > 0 || fail(start, "a period must be at least 1");
  }

  bool set(FallsSet& out, int depth) {
    skip_space();
    if (depth > kMaxDepth) return fail(column(), concat("FALLS are nested more than ", kMaxDepth, " deep"));
    if (!accept('{')) return fail_expected("a set ('{')");
    if (accept('}')) {
      if (depth == 1) return true;
      --at_;
      return fail_expected("a FALLS ('(') in the inner set");
    }
    do {
      if (!falls(out.emplace_back(), depth)) return false;
    } while (accept(','));
    return accept('}') || fail_expected("',' or '}' after a FALLS");
  }

  bool falls(Falls& out, int depth) {
    if (!accept('(')) return fail_expected("a FALLS ('(')");
    if (!number(out.left, "the left end") || !comma("the left end")) return false;
    skip_space();
    const std::int64_t right = column();
    if (!number(out.right, "the right end")) return false;
    if (out.right < out.left) {
      return fail(right, concat("the right end ", out.right, " lies before the left end ", out.left));
    }
    if (!comma("the right end")) return false;
    skip_space();
    const std::int64_t stride = column();
    const bool has_stride = !is_dash();
    if (has_stride ? !number(out.stride, "the stride") : !accept('-')) return false;
    if (!comma("the stride") || !count(out.count)) return false;
    if (out.count > 1 && !has_stride) {
      return fail(stride, concat("'-' stands for the stride of a single block, but the count is ", out.count));
    }
    if (out.count == 1) forget_stride(out, depth);
    if (accept(',') && !set(out.inner, depth + 1)) return false;
    return expect(')', out.is_leaf() ? " after the count" : " after the inner set");
  }

  bool comma(std::string_view after) { return accept(',') || fail_expected(concat("',' after ", after)); }

  /// At a '-' that stands for itself and does not begin a negative number.
  [[nodiscard]] bool is_dash() const { return at_ != end_ && *at_ == '-' && (at_ + 1 == end_ || !is_digit(at_[1])); }

  bool count(Offset& out) {
    skip_space();
    const std::int64_t start = column();
    if (!number(out, "the count", "negative values are not allowed; a count must be at least 1")) return false;
    return out > 0 || fail(start, kLowCount);
  }

  /// The stride of a single block means nothing, except that a view with gaps may state its period that way.
  void forget_stride(Falls& out, int depth) {
    if (depth == 1 && out.stride > given_stride_) given_stride_ = out.stride;
    out.stride = 0;
  }

  /// Takes into account for the default period what forget_stride() dropped.
  void settle_period(const Explicit& description) {
    for (const FallsSet& set : description.elements) {
      if (!check(set).is_ok()) return;  // create() will say why
    }
    options_.period = internal::default_period(description, given_stride_).value_or(0);
  }

  // Errors that only show when the whole is known.

  /// Parses again, for the columns, and points at what Partition::create refuses.
  Status explain(const Status& refusal) {
    Description description;
    if (!describe(description)) return refusal;
    internal::Facts facts;
    auto problem = internal::examine(description, facts);
    if (!problem) problem = internal::examine(description, facts, options_);
    if (!problem) return refusal;
    return at(column_of(*problem, description), problem->status.message());
  }

  [[nodiscard]] std::int64_t column_of(const internal::Problem& problem, const Description& description) const {
    if (problem.element) {
      return column_of_flaw(std::get<Explicit>(description).elements[*problem.element], set_columns_[*problem.element]);
    }
    for (unsigned a = 0; a < kArgumentCount; ++a) {
      if (kArgumentNames[a] == problem.argument && columns_[a] != 0) return columns_[a];
    }
    return start_;
  }

  /// The column of the first outermost FALLS that fails check(), in the set that starts at `set_column`.
  [[nodiscard]] std::int64_t column_of_flaw(const FallsSet& set, std::int64_t set_column) const {
    std::size_t flaw = 0;
    while (flaw < set.size() && check({set[flaw]}).is_ok()) ++flaw;
    if (flaw == set.size()) return set_column;
    const char* cursor = begin_ + set_column - 1;
    for (int depth = 0;; ++cursor) {
      if (*cursor == ')') --depth;
      if (*cursor != '(' || depth++ > 0) continue;
      if (flaw-- == 0) return cursor - begin_ + 1;
    }
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  std::int64_t start_ = 1;  // column of the constructor
  Status error_;
  Arguments given_ = 0;
  std::array<std::int64_t, kArgumentCount> columns_{};  // of the arguments given
  std::vector<std::int64_t> set_columns_;
  Offset given_stride_ = 0;  // the largest that an outermost FALLS of one block has
  Partition::Options options_;
};

}  // namespace

Result<Partition> parse(std::string_view text) { return Parser(text).layout(); }

Result<FallsSet> parse_falls(std::string_view text) { return Parser(text).falls_alone(); }

}  // namespace weir::layout
