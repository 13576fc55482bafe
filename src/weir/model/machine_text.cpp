// The text form of a machine, in TOML.

#include <weir/model/machine.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include <weir/config/toml.h>

namespace weir::model {
namespace {

constexpr std::string_view kFormat = "weir-model";
constexpr double kVersion = 1;
constexpr std::string_view kCorrection = "correction_";
constexpr std::string_view kAligned = "aligned_";
constexpr std::string_view kRegimeNames[] = {"working_set", "phi", "line_seconds", "page_seconds"};
constexpr std::string_view kMachineNames[] = {"description", "line_bytes",        "page_bytes",         "cache_bytes",
                                              "cache_ways",  "pack_turn_seconds", "unpack_turn_seconds"};
constexpr std::string_view kNetworkNames[] = {"latency_seconds", "bytes_per_second"};

// ---- writing -------------------------------------------------------------------------------------------------------

void print_knots(std::string& out, std::string_view name, Offset length, const std::vector<Correction>& knots) {
  if (knots.empty()) return;
  out += fmt::format("{}{} = [", name, length);
  for (std::size_t i = 0; i < knots.size(); ++i) {
    out += fmt::format("{}{}, {}", i ? ", " : "", knots[i].stride, knots[i].log_factor);
  }
  out += "]\n";
}

void print_regime(std::string& out, std::string_view name, const Regime& regime) {
  out += fmt::format("\n[[{}]]\nworking_set = {}\nphi = [{}, {}, {}]\nline_seconds = {}\npage_seconds = {}\n", name,
                     regime.working_set, regime.phi.a, regime.phi.b, regime.phi.c, regime.line_seconds,
                     regime.page_seconds);
  for (const CorrectionRow& row : regime.rows) {
    print_knots(out, kCorrection, row.length, row.knots);
    print_knots(out, kAligned, row.length, row.aligned);
  }
}

// ---- reading -------------------------------------------------------------------------------------------------------

struct Table {
  std::string_view name;
  const toml::table& values;
};

Status bad_line(std::int64_t line, std::string_view what) {
  return {ErrorCode::kCorrupt, concat("line ", line, ": ", what), line};
}
Status bad(const toml::node& node, std::string_view what) { return bad_line(node.source().begin.line, what); }
Status bad(const toml::node& node, std::string_view name, const Table& table, std::string_view what) {
  return bad(node, concat("'", name, "' of table '", table.name, "' ", what));
}

// toml++ 3.3 nests a table for each part of a dotted key, without a limit, and destroys them recursively.  At least
// every other dot of a key counts: either it is not directly between digits, or another dot follows the word behind it.
bool has_deep_keys(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kWord = "0123456789+-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr int kMostDots = 1000;  // comments may have some
  int dots = 0;
  for (std::size_t dot = text.find('.'); dot != text.npos; dot = text.find('.', dot + 1)) {
    const std::size_t end = text.find_first_not_of(kWord, dot + 1);
    const bool is_of_number = dot > 0 && kDigits.find(text[dot - 1]) != text.npos && dot + 1 < text.size() &&
                              kDigits.find(text[dot + 1]) != text.npos && (end == text.npos || text[end] != '.');
    if (!is_of_number && ++dots > kMostDots) return true;
  }
  return false;
}

Result<toml::table> parse_toml(std::string_view text) {
  if (has_deep_keys(text)) return bad_line(1, "too many dots: keys of a machine model have none");
  Result<toml::table> table = config::parse(text);
  if (table.is_ok()) return table;
  const std::int64_t line = table.status().location().value_or(1);
  for (std::int64_t i = 1; i < line && text.find('\n') != text.npos; ++i) text.remove_prefix(text.find('\n') + 1);
  return Status{
      ErrorCode::kCorrupt,
      concat(table.status().message(), ": '", text.substr(0, std::min<std::size_t>(text.find('\n'), 40)), "'"), line};
}

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status check_names(const Table& table, std::span<const std::string_view> names) {
  for (const auto& [name, node] : table.values) {
    if (!is_one_of(name.str(), names)) return bad(node, name.str(), table, "is not known");
  }
  return Status::ok();
}

// One number, or all of a list.
Result<std::vector<double>> numbers_of(const toml::node& node, std::string_view name, const Table& table) {
  std::vector<double> numbers;
  const auto add = [&](const toml::node& one) {
    const std::optional<double> number = one.is_number() ? one.value<double>() : std::nullopt;
    if (number && std::isfinite(*number)) numbers.push_back(*number);
    return number && std::isfinite(*number);
  };
  if (const toml::array* list = node.as_array()) {
    for (const toml::node& one : *list) {
      if (!add(one)) return bad(one, name, table, "has an element that is no number");
    }
  } else if (!add(node)) {
    return bad(node, name, table, "is no number");
  }
  return numbers;
}

Result<std::vector<double>> numbers(const Table& table, std::string_view name) {
  const toml::node* node = table.values.get(name);
  if (node == nullptr) return bad(table.values, concat("table '", table.name, "' has no numbers '", name, "'"));
  WEIR_TRY(std::vector<double> found, numbers_of(*node, name, table));
  for (const double number : found) {
    if (number < 0) return bad(*node, name, table, "is negative");
  }
  return found;
}

Result<double> number(const Table& table, std::string_view name) {
  WEIR_TRY(const std::vector<double> list, numbers(table, name));
  if (list.size() != 1) return bad(*table.values.get(name), name, table, "is not one number");
  return list.front();
}

Result<double> positive(const Table& table, std::string_view name) {
  WEIR_TRY(const double value, number(table, name));
  if (value <= 0) return bad(*table.values.get(name), name, table, "must be positive");
  return value;
}

bool is_whole(double value) { return value >= 1 && value <= 1e15 && value == std::floor(value); }

Result<Offset> whole(const Table& table, std::string_view name) {
  WEIR_TRY(const double value, positive(table, name));
  if (!is_whole(value)) return bad(*table.values.get(name), name, table, "is not a whole number");
  return static_cast<Offset>(value);
}

Result<std::vector<Correction>> read_knots(const Table& table, std::string_view name, const toml::node& node) {
  WEIR_TRY(const std::vector<double> values, numbers_of(node, name, table));
  if (values.empty() || values.size() % 2 != 0) {
    return bad(node, name, table, "is not a list of stride and correction");
  }
  std::vector<Correction> knots;
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const Correction knot{values[i], values[i + 1]};
    if (knot.stride <= 0 || std::abs(knot.log_factor) > 20 || (i > 0 && knot.stride <= knots.back().stride)) {
      return bad(node, name, table, "has strides that do not ascend or an absurd correction");
    }
    knots.push_back(knot);
  }
  return knots;
}

// A row may have knots of one kind or of both.
Status read_row(const Table& table, std::string_view name, const toml::node& node,
                std::map<Offset, CorrectionRow>& rows) {
  const bool is_aligned = name.starts_with(kAligned);
  if (!is_aligned && !name.starts_with(kCorrection)) return bad(node, name, table, "is not known");
  const std::string_view digits = name.substr((is_aligned ? kAligned : kCorrection).size());
  double length = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (error != std::errc{} || end != digits.data() + digits.size()) {
    return bad(node, concat("'", digits.substr(0, 40), "' is no number"));
  }
  if (!is_whole(length)) return bad(node, name, table, "is not of a length in bytes");
  CorrectionRow& row = rows[static_cast<Offset>(length)];
  row.length = static_cast<Offset>(length);
  WEIR_TRY((is_aligned ? row.aligned : row.knots), read_knots(table, name, node));
  return Status::ok();
}

Result<Regime> read_regime(const Table& table) {
  Regime regime;
  WEIR_TRY(regime.working_set, positive(table, "working_set"));
  WEIR_TRY(const std::vector<double> phi, numbers(table, "phi"));
  if (phi.size() != 3 || phi[0] + phi[2] <= 0) {
    return bad(*table.values.get("phi"), "phi", table, "is not [a, b, c]");
  }
  regime.phi = {phi[0], phi[1], phi[2]};
  WEIR_TRY(regime.line_seconds, number(table, "line_seconds"));
  WEIR_TRY(regime.page_seconds, number(table, "page_seconds"));
  std::map<Offset, CorrectionRow> rows;
  for (const auto& [name, node] : table.values) {
    if (!is_one_of(name.str(), kRegimeNames)) WEIR_RETURN_IF_ERROR(read_row(table, name.str(), node, rows));
  }
  for (auto& [length, row] : rows) regime.rows.push_back(std::move(row));
  return regime;
}

Status read_regimes(const toml::node& node, std::string_view name, CopyModel& model) {
  if (!node.is_array_of_tables()) return bad(node, concat("'", name, "' is not a list of tables [[", name, "]]"));
  for (const toml::node& one : *node.as_array()) {
    WEIR_TRY(Regime regime, read_regime({name, *one.as_table()}));
    if (!model.regimes.empty() && regime.working_set <= model.regimes.back().working_set) {
      return bad(one, concat("tables '", name, "' are not in the order of their working sets"));
    }
    model.regimes.push_back(std::move(regime));
  }
  return Status::ok();
}

Status read_machine(const Table& table, Machine& machine) {
  WEIR_RETURN_IF_ERROR(check_names(table, kMachineNames));
  machine.description = table.values["description"].value_or(std::string());
  WEIR_TRY(machine.line_bytes, whole(table, "line_bytes"));
  WEIR_TRY(machine.page_bytes, whole(table, "page_bytes"));
  WEIR_TRY(const std::vector<double> bytes, numbers(table, "cache_bytes"));
  WEIR_TRY(const std::vector<double> ways, numbers(table, "cache_ways"));
  const toml::node& node = *table.values.get("cache_bytes");
  if (bytes.size() != ways.size()) return bad(node, "'cache_bytes' and 'cache_ways' differ in length");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] < 1 || bytes[i] > 1e15 || ways[i] > 1e6) return bad(node, "a cache has an absurd size");
    machine.caches.push_back({static_cast<Offset>(bytes[i]), static_cast<Offset>(ways[i])});
  }
  WEIR_TRY(machine.pack.turn_seconds, number(table, "pack_turn_seconds"));
  WEIR_TRY(machine.unpack.turn_seconds, number(table, "unpack_turn_seconds"));
  return Status::ok();
}

Status read_network(const Table& table, std::optional<Network>& network) {
  WEIR_RETURN_IF_ERROR(check_names(table, kNetworkNames));
  network.emplace();
  WEIR_TRY(network->latency_seconds, positive(table, "latency_seconds"));
  WEIR_TRY(network->bytes_per_second, positive(table, "bytes_per_second"));
  return Status::ok();
}

Status read_cost(const Table& table, std::string_view name, double& seconds) {
  constexpr double kMostSeconds = 3600;
  WEIR_TRY(seconds, number(table, name));
  if (seconds > kMostSeconds) return bad(*table.values.get(name), name, table, "is more than an hour");
  return Status::ok();
}

Status read_cost(const Table& table, std::string_view name, Offset& bytes) {
  constexpr Offset kMostBytes = Offset{1} << 30;
  WEIR_TRY(bytes, whole(table, name));
  if (bytes > kMostBytes) return bad(*table.values.get(name), name, table, "is more than 1 GiB");
  return Status::ok();
}

// Those that the table does not have stay as they are.
Status read_costs(const Table& table, Io& io) {
  std::vector<std::string_view> names;
  Status status;
  each_parameter(io, [&](std::string_view of_table, std::string_view name, auto& value, std::string_view) {
    if (of_table != table.name) return;
    names.push_back(name);
    if (status.is_ok() && table.values.contains(name)) status = read_cost(table, name, value);
  });
  WEIR_RETURN_IF_ERROR(status);
  return check_names(table, names);
}

bool has_costs(std::string_view name) {
  bool is_found = false;
  const Io io;
  each_parameter(io, [&](std::string_view table, auto&&...) { is_found = is_found || table == name; });
  return is_found;
}

Status check_version(const Table& top) {
  if (top.values["format"].value<std::string_view>() != kFormat) {
    return bad_line(1, concat("this is no machine model: it does not say format = \"", kFormat, "\""));
  }
  WEIR_TRY(const double version, number(top, "version"));
  if (version != kVersion) {
    return bad(*top.values.get("version"), fmt::format("version {} is not known, only {}", version, kVersion));
  }
  return Status::ok();
}

Status read_table(std::string_view name, const toml::node& node, Machine& machine) {
  if (name == "pack") return read_regimes(node, name, machine.pack);
  if (name == "unpack") return read_regimes(node, name, machine.unpack);
  if (name == "copy") return read_regimes(node, name, machine.copy);
  if (name == "format" || name == "version") return Status::ok();
  if (!node.is_table() && !node.is_array_of_tables()) return bad(node, concat("'", name, "' is not known"));
  const toml::table* values = node.as_table();
  if (values != nullptr && name == "machine") return read_machine({name, *values}, machine);
  if (values != nullptr && name == "network") return read_network({name, *values}, machine.network);
  if (values != nullptr && has_costs(name)) return read_costs({name, *values}, machine.io);
  return bad(node, concat("there is no table '", name, "' in this version"));
}

}  // namespace

std::string print(const Machine& machine) {
  std::string bytes;
  std::string ways;
  for (const Cache& cache : machine.caches) {
    bytes += fmt::format("{}{}", bytes.empty() ? "" : ", ", cache.bytes);
    ways += fmt::format("{}{}", ways.empty() ? "" : ", ", cache.ways);
  }
  std::ostringstream description;
  description << toml::value(machine.description);  // quoted and escaped
  std::string out = fmt::format(
      "# Written by 'weir model calibrate'.  Times in seconds, sizes in bytes.\n"
      "format = \"{}\"\nversion = {}\n\n[machine]\ndescription = {}\nline_bytes = {}\npage_bytes = {}\n"
      "cache_bytes = [{}]\ncache_ways = [{}]\npack_turn_seconds = {}\nunpack_turn_seconds = {}\n",
      kFormat, kVersion, description.str(), machine.line_bytes, machine.page_bytes, bytes, ways,
      machine.pack.turn_seconds, machine.unpack.turn_seconds);
  if (machine.network) {
    out += fmt::format("\n[network]\nlatency_seconds = {}\nbytes_per_second = {}\n", machine.network->latency_seconds,
                       machine.network->bytes_per_second);
  }
  std::string_view table;
  each_parameter(machine.io, [&](std::string_view of_table, std::string_view name, auto value, std::string_view) {
    if (of_table != table) out += fmt::format("\n[{}]\n", table = of_table);
    out += fmt::format("{} = {}\n", name, value);
  });
  for (const Regime& regime : machine.pack.regimes) print_regime(out, "pack", regime);
  for (const Regime& regime : machine.unpack.regimes) print_regime(out, "unpack", regime);
  for (const Regime& regime : machine.copy.regimes) print_regime(out, "copy", regime);
  return out;
}

Result<Machine> parse(const std::string& text) {
  WEIR_TRY(const toml::table top, parse_toml(text));
  WEIR_RETURN_IF_ERROR(check_version({"", top}));
  Machine machine;
  for (const auto& [name, node] : top) WEIR_RETURN_IF_ERROR(read_table(name.str(), node, machine));
  if (!top.contains("machine")) return bad_line(1, "table 'machine' is missing");
  if (machine.pack.regimes.empty() || machine.unpack.regimes.empty()) {
    return bad_line(1, "tables 'pack' and 'unpack' are missing");
  }
  return machine;
}

}  // namespace weir::model
