#include <string>
#include <variant>

#include <weir/layout/language.h>

namespace weir::layout {
namespace {

/// With the largest suffix that is exact.
void append_bytes(std::string& out, Offset bytes) {
  constexpr std::string_view kSuffixes = "KMGT";
  std::size_t power = 0;
  for (; power < kSuffixes.size() && bytes != 0 && bytes % 1024 == 0; ++power) bytes /= 1024;
  append(out, bytes);
  if (power > 0) append(out, kSuffixes[power - 1]);
}

void append_numbers(std::string& out, const std::vector<Offset>& numbers) {
  char separator = '[';
  for (const Offset number : numbers) {
    append(out, separator);
    append(out, number);
    separator = ',';
  }
  append(out, ']');
}

void append_dist(std::string& out, const Dist& dist) {
  if (dist.kind == Dist::Kind::kWhole) return append(out, '*');
  append(out, dist.kind == Dist::Kind::kBlock ? std::string_view("BLOCK") : std::string_view("CYCLIC"));
  if (dist.width == 0) return;
  append(out, '(');
  append(out, dist.width);
  append(out, ')');
}

void append_order(std::string& out, ArrayOrder order) {
  if (order == ArrayOrder::kFortran) append(out, ", order=F");
}

void append_set(std::string& out, const FallsSet& set);

void append_falls(std::string& out, const Falls& falls) {
  append(out, '(');
  append(out, falls.left);
  append(out, ',');
  append(out, falls.right);
  append(out, ',');
  if (falls.count == 1) {
    append(out, '-');
  } else {
    append(out, falls.stride);
  }
  append(out, ',');
  append(out, falls.count);
  if (!falls.is_leaf()) {
    append(out, ',');
    append_set(out, falls.inner);
  }
  append(out, ')');
}

void append_set(std::string& out, const FallsSet& set) {
  append(out, '{');
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i > 0) append(out, ',');
    append_falls(out, set[i]);
  }
  append(out, '}');
}

void append_arguments(std::string& out, const Stripe& stripe) {
  append(out, "unit=");
  append_bytes(out, stripe.unit);
  append(out, ", over=");
  append(out, stripe.over);
}

void append_arguments(std::string& out, const Hpf& hpf) {
  append(out, "shape=");
  append_numbers(out, hpf.shape);
  append(out, ", elem=");
  append_bytes(out, hpf.elem);
  append(out, ", dist=");
  char separator = '(';
  for (const Dist& dist : hpf.dist) {
    append(out, separator);
    append_dist(out, dist);
    separator = ',';
  }
  append(out, "), grid=");
  append_numbers(out, hpf.grid);
  append_order(out, hpf.order);
}

void append_arguments(std::string& out, const Tiles& tiles) {
  append(out, "shape=");
  append_numbers(out, tiles.shape);
  append(out, ", elem=");
  append_bytes(out, tiles.elem);
  append(out, ", tile=");
  append_numbers(out, tiles.tile);
  append(out, ", over=");
  append(out, tiles.over);
  append_order(out, tiles.order);
}

void append_arguments(std::string& out, const Explicit& description) {
  for (std::size_t i = 0; i < description.elements.size(); ++i) {
    if (i > 0) append(out, " | ");
    append_set(out, description.elements[i]);
  }
}

std::string_view name_of(const Stripe&) { return "stripe"; }
std::string_view name_of(const Hpf&) { return "hpf"; }
std::string_view name_of(const Tiles&) { return "tiles"; }
std::string_view name_of(const Explicit&) { return "falls"; }

}  // namespace

std::string print(const Partition& partition) {
  std::string out;
  std::visit([&out](const auto& description) { append(out, name_of(description)); }, partition.description());
  append(out, '(');
  if (partition.disp() != 0) {
    append(out, "disp=");
    append_bytes(out, partition.disp());
    append(out, ", ");
  }
  if (partition.period() != partition.default_period()) {
    append(out, "period=");
    append_bytes(out, partition.period());
    append(out, ", ");
  }
  std::visit([&out](const auto& description) { append_arguments(out, description); }, partition.description());
  append(out, ')');
  return out;
}

std::string print(const FallsSet& set) {
  std::string out;
  append_set(out, set);
  return out;
}

std::string print(const Falls& falls) {
  std::string out;
  append_falls(out, falls);
  return out;
}

}  // namespace weir::layout
