#include <weir/pario/hints.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <numeric>
#include <set>
#include <variant>
#include <vector>

#include <weir/base/text.h>
#include <weir/layout/language.h>
#include <weir/log/log.h>
#include <weir/pario/collective.h>
#include <weir/pario/errors.h>

namespace weir::pario {

namespace {

constexpr Offset kDefaultUnit = Offset{64} << 10;

std::optional<Offset> parse_number(const std::string& text, int base = 10) {
  Offset value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value, base);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return value;
}

template <typename... Parts>
Status bad_hint(const Parts&... parts) {
  return invalid_argument(concat(parts...)).with_detail(kBadHint);
}

// Of striping; programs that know other file systems say 0 (its default) and -1 (all there is), too.
std::optional<std::string> striping_hint(const Hints& hints, const std::string& key) {
  auto text = hints.get(key);
  return text == "0" || text == "-1" ? std::nullopt : text;
}

// A positive number; `value` stays as it is if there is no such hint.
Status read_striping(const Hints& hints, const std::string& key, Offset& value) {
  const auto text = striping_hint(hints, key);
  if (!text) return Status::ok();
  const auto number = parse_number(*text);
  if (!number || *number <= 0) return bad_hint("hint ", key, "=", *text, ": a number above 0 is needed");
  value = *number;
  return Status::ok();
}

// What decides about the layout of a new file.
struct LayoutChoice {
  std::optional<std::string> layout;  // nothing: stripes
  std::string why;
};

LayoutChoice requested_layout(const Hints& hints, const runtime::Settings& settings) {
  if (auto text = hints.get("weir_layout")) {
    std::string why = concat("hint weir_layout=", *text);
    return {std::move(text), std::move(why)};
  }
  for (const char* const key : {"striping_unit", "striping_factor"}) {
    if (const auto text = striping_hint(hints, key)) return {std::nullopt, concat("hint ", key, "=", *text)};
  }
  const std::string text = settings.get("WEIR_LAYOUT");
  if (!text.empty()) return {text, concat("WEIR_LAYOUT=", text)};
  return {std::nullopt, "no hint and no WEIR_LAYOUT: stripes over all targets"};
}

// Keys of ours that programs may set.
constexpr const char* kOwnKeys[] = {"weir_layout", "weir_collective"};

std::size_t edit_distance(std::string_view x, std::string_view y) {
  std::vector<std::size_t> row(y.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < y.size(); ++j) {
      const std::size_t replaced = diagonal + (x[i] == y[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

template <typename Words>
std::string nearest_word(const std::string& word, const Words& words) {
  return *std::min_element(std::begin(words), std::end(words), [&](const auto& x, const auto& y) {
    return edit_distance(word, x) < edit_distance(word, y);
  });
}

void warn_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(text).second) WEIR_LOG_WARN("{}", text);
}

// Why a hint has no effect; empty: it has, or is one of those that never have.
std::string useless(const std::string& key, const std::string& value) {
  if (key == "weir_collective") {
    if (parse_method(value).is_ok()) return {};
    return concat("hint weir_collective=", value, " is not a method (auto, alone, two-phase); did you mean ",
                  nearest_word(value, std::array<std::string, 3>{"auto", "alone", "two-phase"}), "?");
  }
  if (key == "cb_nodes" || key == "cb_buffer_size") {
    const auto number = parse_number(value);
    return number && *number > 0 ? "" : concat("hint ", key, "=", value, " is ignored: a number above 0 is needed");
  }
  if (!key.starts_with("weir_") || key == "weir_collective_last") return {};
  if (std::find(std::begin(kOwnKeys), std::end(kOwnKeys), key) != std::end(kOwnKeys)) return {};
  return concat("hint ", key, " is unknown; did you mean ", nearest_word(key, kOwnKeys), "?");
}

}  // namespace

Hints usable(const Hints& given, bool is_told) {
  Hints hints;
  given.for_each([&](const std::string& key, const std::string& value) {
    const std::string why_not = useless(key, value);
    if (!why_not.empty()) {
      if (is_told) warn_once(why_not);
      return;
    }
    for (const char* const known : {"weir_layout", "weir_collective", "striping_unit", "striping_factor", "file_perm",
                                    "cb_nodes", "cb_buffer_size"}) {
      if (key == known) hints.set(key, value);
    }
  });
  return hints;
}

Method wanted_method(const Hints& hints, const runtime::Settings& settings) {
  if (const auto hint = hints.get("weir_collective")) {
    if (const Result<Method> method = parse_method(*hint); method.is_ok()) return *method;
  }
  const std::string text = settings.get("WEIR_COLLECTIVE");
  if (text.empty()) return Method::kAuto;
  const Result<Method> method = parse_method(text);
  if (!method.is_ok()) warn_once(concat("WEIR_COLLECTIVE: ", method.status().message(), "; auto is assumed"));
  return method.is_ok() ? *method : Method::kAuto;
}

std::optional<std::string> Hints::get(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

void Hints::merge(const Hints& others) {
  for (const auto& [key, value] : others.values_) values_[key] = value;
}

Result<NewFile> plan_new_file(const Hints& hints, std::uint32_t targets, const runtime::Settings& settings) {
  Offset unit = kDefaultUnit;
  Offset factor = targets;
  WEIR_RETURN_IF_ERROR(read_striping(hints, "striping_unit", unit));
  WEIR_RETURN_IF_ERROR(read_striping(hints, "striping_factor", factor));
  factor = std::min<Offset>(factor, targets);

  client::CreateOptions options;
  if (const auto permission = hints.get("file_perm")) {
    const auto mode = parse_number(*permission, 8);
    if (!mode || *mode < 0 || *mode > 07777) {
      return bad_hint("hint file_perm=", *permission, ": an octal number is needed, such as 0640");
    }
    options.mode = static_cast<std::uint32_t>(*mode);
  }

  const LayoutChoice choice = requested_layout(hints, settings);
  const bool is_as_viewed = choice.layout == "view";
  const auto layout = choice.layout && !is_as_viewed ? layout::parse(*choice.layout)
                                                     : layout::Partition::create(layout::Stripe{unit, factor});
  if (!layout.is_ok()) return bad_hint(choice.why, ": ", layout.status().message());
  return NewFile{*layout, std::move(options), is_as_viewed, choice.why};
}

void describe_layout(const layout::Partition& layout, Hints& hints) {
  hints.set("weir_layout", layout::print(layout));
  hints.set("striping_factor", concat(layout.element_count()));
  if (const auto* stripe = std::get_if<layout::Stripe>(&layout.description())) {
    hints.set("striping_unit", concat(stripe->unit));
  } else {
    hints.remove("striping_unit");
  }
}

}  // namespace weir::pario
