#include <weir/storage/store_spec.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include <weir/base/text.h>

namespace weir::storage {

namespace {

constexpr std::string_view kMemory = "memory";
constexpr std::string_view kDisk = "disk:";
constexpr std::string_view kSlow = "slow:";
constexpr std::string_view kForms = "memory, disk:DIR, or slow:STORE?seek=8ms&rate=50M";

struct Unit {
  std::string_view name;
  std::int64_t factor;
};
// The longest name first: "8ms" also ends in "s".
constexpr std::array kTimes{Unit{"ns", 1}, Unit{"us", 1'000}, Unit{"ms", 1'000'000}, Unit{"s", 1'000'000'000}};
constexpr std::array kSizes{Unit{"K", Offset{1} << 10}, Unit{"M", Offset{1} << 20}, Unit{"G", Offset{1} << 30},
                            Unit{"", 1}};

constexpr std::int64_t kLongestSeek = 3'600'000'000'000;  // an hour
constexpr Offset kMostRate = Offset{1} << 50;

/// Digits and one of the units; nothing if it is something else, or not in [least, most].
template <std::size_t N>
std::optional<std::int64_t> parse_number(std::string_view text, const std::array<Unit, N>& units, std::int64_t least,
                                         std::int64_t most) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.name)) continue;
    const std::string_view digits = text.substr(0, text.size() - unit.name.size());
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc{} || end != digits.data() + digits.size() || number < 0) return std::nullopt;
    if (number > most / unit.factor || number * unit.factor < least) return std::nullopt;
    return number * unit.factor;
  }
  return std::nullopt;
}

/// With the largest unit that leaves a whole number.
template <std::size_t N>
std::string print_number(std::int64_t number, const std::array<Unit, N>& units) {
  const Unit* best = nullptr;
  for (const Unit& unit : units) {
    if (number % unit.factor == 0 && (best == nullptr || unit.factor > best->factor)) best = &unit;
  }
  return concat(number / best->factor, best->name);
}

/// `settings`: seek=T&rate=N, either or both.
Result<SlowDisk> parse_slow(std::string_view text, std::string_view settings) {
  SlowDisk slow;
  while (!settings.empty()) {
    const std::string_view setting = settings.substr(0, settings.find('&'));
    settings.remove_prefix(std::min(settings.size(), setting.size() + 1));
    const std::size_t equals = setting.find('=');
    const std::string_view key = setting.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : setting.substr(equals + 1);
    if (key == "seek") {
      const auto seek = parse_number(value, kTimes, 0, kLongestSeek);
      if (!seek) return invalid_argument(concat("store '", text, "': seek=", value, " is not a time such as 8ms"));
      slow.seek = std::chrono::nanoseconds(*seek);
    } else if (key == "rate") {
      const auto rate = parse_number(value, kSizes, 1, kMostRate);
      if (!rate) {
        return invalid_argument(
            concat("store '", text, "': rate=", value, " is not a number of bytes per second such as 50M"));
      }
      slow.bytes_per_second = *rate;
    } else {
      return invalid_argument(concat("store '", text, "': unknown setting '", setting, "' (seek, rate)"));
    }
  }
  return slow;
}

}  // namespace

Result<StoreSpec> StoreSpec::parse(std::string_view text) {
  if (text == kMemory) return StoreSpec{};
  if (text.starts_with(kDisk) && text.size() > kDisk.size()) return StoreSpec{std::string(text.substr(kDisk.size()))};
  if (!text.starts_with(kSlow)) return invalid_argument(concat("unknown store '", text, "'; write ", kForms));
  const std::string_view rest = text.substr(kSlow.size());
  const std::size_t question = rest.rfind('?');
  // Looked at first: a name that a server tells may have it a million times.
  const bool is_nested = rest.starts_with(kSlow);
  Result<StoreSpec> inner = is_nested ? StoreSpec{} : parse(rest.substr(0, question));
  if (is_nested || !inner.is_ok()) {
    return invalid_argument(concat("store '", text, "': slow: goes in front of memory or disk:DIR"));
  }
  WEIR_TRY(inner->slow, parse_slow(text, question == std::string_view::npos ? "" : rest.substr(question + 1)));
  return inner;
}

std::string StoreSpec::text() const {
  const std::string store = is_memory() ? std::string(kMemory) : concat(kDisk, directory);
  if (!slow) return store;
  return concat(kSlow, store, "?seek=", print_number(slow->seek.count(), kTimes),
                "&rate=", print_number(slow->bytes_per_second, kSizes));
}

}  // namespace weir::storage
