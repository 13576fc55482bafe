#include <weir/layout/binary.h>

#include <algorithm>
#include <cstdint>
#include <utility>

// docs/formats.md describes the form.  There is just one encoding of every value: numbers are as short as possible, and
// what has its default value is left out.  So equal layouts have equal bytes, and bytes can serve as a key.

namespace weir::layout {
namespace {

constexpr std::uint8_t kMagicAndVersion = 0xA1;  // 0xA: a layout of Weir; 1: version of the form

enum Kind : std::uint8_t { kStripe = 0, kHpf = 1, kTiles = 2, kExplicit = 3, kSet = 4 };
constexpr std::uint8_t kKindMask = 0x0F;
constexpr std::uint8_t kFortranFlag = 0x10;
constexpr std::uint8_t kDispFlag = 0x20;
constexpr std::uint8_t kPeriodFlag = 0x40;

enum DistCode : std::uint8_t { kWhole = 0, kBlock = 1, kBlockOf = 2, kCyclic = 3, kCyclicOf = 4 };

class Writer {
 public:
  void byte(unsigned value) { bytes_.push_back(static_cast<std::byte>(value)); }

  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte((value & 0x7F) | 0x80);
    byte(static_cast<unsigned>(value));
  }
  void number(Offset value) { number(static_cast<std::uint64_t>(value)); }

  void numbers(const std::vector<Offset>& values) {
    for (const Offset value : values) number(value);
  }

  void set(const FallsSet& members) {
    number(std::uint64_t{members.size()});
    for (const Falls& member : members) falls(member);
  }

  void body(const Stripe& stripe) {
    number(stripe.unit);
    number(stripe.over);
  }

  void body(const Hpf& hpf) {
    number(std::uint64_t{hpf.shape.size()});
    number(hpf.elem);
    numbers(hpf.shape);
    numbers(hpf.grid);
    for (const Dist& one : hpf.dist) dist(one);
  }

  void body(const Tiles& tiles) {
    number(std::uint64_t{tiles.shape.size()});
    number(tiles.elem);
    numbers(tiles.shape);
    numbers(tiles.tile);
    number(tiles.over);
  }

  void body(const Explicit& description) {
    number(std::uint64_t{description.elements.size()});
    for (const FallsSet& element : description.elements) set(element);
  }

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void falls(const Falls& falls) {
    number(falls.left);
    number(falls.block_length() - 1);
    number(static_cast<std::uint64_t>(falls.count - 1) << 1 | (falls.is_leaf() ? 0 : 1));
    if (falls.count > 1) number(falls.stride);
    if (!falls.is_leaf()) set(falls.inner);
  }

  void dist(const Dist& dist) {
    switch (dist.kind) {
      case Dist::Kind::kWhole: return byte(kWhole);
      case Dist::Kind::kBlock: byte(dist.width == 0 ? kBlock : kBlockOf); break;
      case Dist::Kind::kCyclic: byte(dist.width == 0 ? kCyclic : kCyclicOf); break;
    }
    if (dist.width != 0) number(dist.width);
  }

  std::vector<std::byte> bytes_;
};

std::uint8_t kind_of(const Stripe&) { return kStripe; }
std::uint8_t kind_of(const Hpf& hpf) { return kHpf | (hpf.order == ArrayOrder::kFortran ? kFortranFlag : 0); }
std::uint8_t kind_of(const Tiles& tiles) { return kTiles | (tiles.order == ArrayOrder::kFortran ? kFortranFlag : 0); }
std::uint8_t kind_of(const Explicit&) { return kExplicit; }

/// Functions return false at the first error, which is then in error_.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<Partition> partition() {
    Description description;
    Partition::Options options;
    std::uint8_t kind = 0;
    if (!header(kind) || !placement(kind, options) || !body(kind, description) || !at_end()) return std::move(error_);
    Result<Partition> partition = Partition::create(std::move(description), options);
    if (!partition.is_ok()) return corrupt(concat("encoded layout: ", partition.status().message()));
    if (options.period != 0 && options.period == partition->default_period()) {
      return corrupt("encoded layout: the period is the default one and should have been left out");
    }
    return partition;
  }

  Result<FallsSet> falls_set() {
    FallsSet out;
    std::uint8_t kind = 0;
    if (!header(kind)) return std::move(error_);
    if (kind != kSet) return corrupt(concat("encoded FALLS: byte 1 is ", kind, ", not ", +kSet));
    if (!set(out, 1) || !at_end()) return std::move(error_);
    if (const Status status = check(out); !status.is_ok()) return corrupt(concat("encoded FALLS: ", status.message()));
    return out;
  }

 private:
  bool fail(std::string_view what) {
    error_ = corrupt(concat("encoded layout, at byte ", at_, " of ", bytes_.size(), ": ", what));
    return false;
  }

  bool byte(std::uint8_t& value) {
    if (at_ == bytes_.size()) return fail("the bytes end too early");
    value = std::to_integer<std::uint8_t>(bytes_[at_++]);
    return true;
  }

  bool number(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0;; shift += 7) {
      std::uint8_t next = 0;
      if (!byte(next)) return false;
      const std::uint64_t bits = next & 0x7F;
      if (shift == 63 && bits > 1) return fail("a number has more than 64 bits");
      value |= bits << shift;
      if ((next & 0x80) != 0) {
        if (shift == 63) return fail("a number has more than 64 bits");
        continue;
      }
      if (next == 0 && shift > 0) return fail("a number is longer than it has to be");
      return true;
    }
  }

  bool number(Offset& value) {
    std::uint64_t bits = 0;
    if (!number(bits)) return false;
    if (bits > static_cast<std::uint64_t>(kMaxBytes)) return fail(concat(bits, " is larger than 2^62"));
    value = static_cast<Offset>(bits);
    return true;
  }

  bool positive(Offset& value) { return number(value) && (value > 0 || fail("a number is 0 that must not be")); }

  /// How many things follow, each of at least `least` bytes: no more than there is room for, so memory stays bounded.
  bool length(std::size_t& value, std::size_t least) {
    std::uint64_t bits = 0;
    if (!number(bits)) return false;
    if (bits > (bytes_.size() - at_) / least) return fail(concat(bits, " parts do not fit into what follows"));
    value = static_cast<std::size_t>(bits);
    return true;
  }

  bool numbers(std::vector<Offset>& values, std::size_t count) {
    values.resize(count);
    return std::all_of(values.begin(), values.end(), [this](Offset& value) { return number(value); });
  }

  bool header(std::uint8_t& kind) {
    std::uint8_t magic = 0;
    if (!byte(magic)) return false;
    if (magic == kMagicAndVersion) return byte(kind);
    at_ = 0;
    if (magic >> 4 != kMagicAndVersion >> 4) return fail("this is not an encoded layout");
    return fail(concat("version ", magic & 0x0F, " of the form is not known, only ", kMagicAndVersion & 0x0F));
  }

  bool placement(std::uint8_t kind, Partition::Options& options) {
    const bool is_array = (kind & kKindMask) == kHpf || (kind & kKindMask) == kTiles;
    const bool is_explicit = (kind & kKindMask) == kExplicit;
    const unsigned possible = kDispFlag | (is_array ? kFortranFlag : 0u) | (is_explicit ? kPeriodFlag : 0u);
    if ((kind & kKindMask) > kExplicit || (kind & ~kKindMask & ~possible) != 0) {
      --at_;
      return fail(concat("kind ", kind, " is not known"));
    }
    if ((kind & kDispFlag) != 0 && !positive(options.disp)) return false;
    return (kind & kPeriodFlag) == 0 || positive(options.period);
  }

  bool body(std::uint8_t kind, Description& out) {
    const ArrayOrder order = (kind & kFortranFlag) != 0 ? ArrayOrder::kFortran : ArrayOrder::kC;
    switch (kind & kKindMask) {
      case kStripe: return body(out.emplace<Stripe>());
      case kHpf: return body(out.emplace<Hpf>(Hpf{.shape = {}, .dist = {}, .grid = {}, .order = order}));
      case kTiles: return body(out.emplace<Tiles>(Tiles{.shape = {}, .tile = {}, .order = order}));
      default: return body(out.emplace<Explicit>());
    }
  }

  bool body(Stripe& out) { return number(out.unit) && number(out.over); }

  bool body(Hpf& out) {
    std::size_t rank = 0;
    if (!length(rank, 3) || !number(out.elem) || !numbers(out.shape, rank) || !numbers(out.grid, rank)) return false;
    out.dist.resize(rank);
    return std::all_of(out.dist.begin(), out.dist.end(), [this](Dist& one) { return dist(one); });
  }

  bool body(Tiles& out) {
    std::size_t rank = 0;
    return length(rank, 2) && number(out.elem) && numbers(out.shape, rank) && numbers(out.tile, rank) &&
           number(out.over);
  }

  bool body(Explicit& out) {
    std::size_t count = 0;
    if (!length(count, 1)) return false;
    out.elements.resize(count);
    return std::all_of(out.elements.begin(), out.elements.end(), [this](FallsSet& element) { return set(element, 1); });
  }

  bool dist(Dist& out) {
    std::uint8_t code = 0;
    if (!byte(code)) return false;
    if (code > kCyclicOf) return fail(concat("distribution ", code, " is not known"));
    if (code == kWhole) return true;
    out.kind = code <= kBlockOf ? Dist::Kind::kBlock : Dist::Kind::kCyclic;
    return code == kBlock || code == kCyclic || positive(out.width);
  }

  bool set(FallsSet& out, int depth) {
    constexpr std::size_t kLeastBytesOfFalls = 3;
    if (depth > kMaxDepth) return fail(concat("FALLS are nested more than ", kMaxDepth, " deep"));
    std::size_t count = 0;
    if (!length(count, kLeastBytesOfFalls)) return false;
    if (count == 0 && depth > 1) return fail("an inner set is empty");
    while (out.size() < count) {  // grows with what was read: nested sets that claim much must not cost much
      if (!falls(out.emplace_back(), depth)) return false;
    }
    return true;
  }

  bool falls(Falls& out, int depth) {
    Offset length_less_one = 0;
    std::uint64_t shape = 0;
    if (!number(out.left) || !number(length_less_one) || !number(shape)) return false;
    if (length_less_one > kMaxBytes - out.left) return fail("a block ends beyond 2^62");
    if (shape >> 1 >= static_cast<std::uint64_t>(kMaxBytes)) return fail("a count is larger than 2^62");
    out.right = out.left + length_less_one;
    out.count = static_cast<Offset>(shape >> 1) + 1;
    if (out.count > 1 && !number(out.stride)) return false;
    return (shape & 1) == 0 || set(out.inner, depth + 1);
  }

  bool at_end() { return at_ == bytes_.size() || fail("bytes follow that do not belong to it"); }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  Status error_;
};

}  // namespace

std::vector<std::byte> encode(const Partition& partition) {
  const bool has_disp = partition.disp() != 0;
  const bool has_period = partition.period() != partition.default_period();
  const std::uint8_t kind = std::visit([](const auto& one) { return kind_of(one); }, partition.description());
  Writer writer;
  writer.byte(kMagicAndVersion);
  writer.byte(kind | (has_disp ? kDispFlag : 0u) | (has_period ? kPeriodFlag : 0u));
  if (has_disp) writer.number(partition.disp());
  if (has_period) writer.number(partition.period());
  std::visit([&writer](const auto& one) { writer.body(one); }, partition.description());
  return writer.take();
}

std::vector<std::byte> encode(const FallsSet& set) {
  Writer writer;
  writer.byte(kMagicAndVersion);
  writer.byte(kSet);
  writer.set(set);
  return writer.take();
}

Result<Partition> decode_partition(std::span<const std::byte> bytes) { return Reader(bytes).partition(); }

Result<FallsSet> decode_falls(std::span<const std::byte> bytes) { return Reader(bytes).falls_set(); }

}  // namespace weir::layout
