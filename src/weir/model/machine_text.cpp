// The text form of a machine: a subset of TOML.  Strings, numbers and flat lists of numbers; tables [x] and lists of
// tables [[x]].

#include <weir/model/machine.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>

#include <fmt/format.h>

namespace weir::model {
namespace {

constexpr std::string_view kFormat = "weir-model";
constexpr double kVersion = 1;
constexpr std::string_view kCorrection = "correction_";
constexpr std::string_view kAligned = "aligned_";

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

struct Value {
  bool is_text = false;
  std::string text;
  std::vector<double> numbers;
};

struct Table {
  std::string name;
  std::int64_t line = 1;
  std::map<std::string, Value> values;
};

Status bad_line(std::int64_t line, std::string_view what) {
  return {ErrorCode::kCorrupt, concat("line ", line, ": ", what), line};
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

Result<double> parse_number(std::string_view text, std::int64_t line) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number)) {
    return bad_line(line, concat("'", text.substr(0, 40), "' is no number"));
  }
  return number;
}

Result<Value> parse_value(std::string_view text, std::int64_t line) {
  Value value;
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    value.is_text = true;
    value.text = text.substr(1, text.size() - 2);
    return value;
  }
  const bool is_list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  if (is_list) text = trim(text.substr(1, text.size() - 2));
  while (!text.empty() || !is_list) {
    const std::size_t comma = is_list ? text.find(',') : std::string_view::npos;
    WEIR_TRY(const double number, parse_number(trim(text.substr(0, comma)), line));
    value.numbers.push_back(number);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return value;
}

Result<std::vector<Table>> parse_tables(std::string_view text) {
  std::vector<Table> tables(1);
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    const std::string_view content = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (content.empty() || content.front() == '#') continue;
    if (content.front() == '[') {
      const std::size_t brackets = content.starts_with("[[") ? 2 : 1;
      if (content.size() <= 2 * brackets || content.substr(content.size() - brackets) != (brackets == 2 ? "]]" : "]")) {
        return bad_line(line, concat("'", content.substr(0, 40), "' is no table"));
      }
      tables.push_back({std::string(content.substr(brackets, content.size() - 2 * brackets)), line, {}});
      continue;
    }
    const std::size_t equals = content.find('=');
    if (equals == std::string_view::npos) return bad_line(line, "expected 'name = value'");
    WEIR_TRY(Value value, parse_value(trim(content.substr(equals + 1)), line));
    const std::string name(trim(content.substr(0, equals)));
    if (!tables.back().values.emplace(name, std::move(value)).second) {
      return bad_line(line, concat("'", name, "' is there twice"));
    }
  }
  return tables;
}

Result<std::vector<double>> numbers(const Table& table, const std::string& name) {
  const auto found = table.values.find(name);
  if (found == table.values.end() || found->second.is_text) {
    return bad_line(table.line, concat("table '", table.name, "' has no numbers '", name, "'"));
  }
  for (const double number : found->second.numbers) {
    if (number < 0) return bad_line(table.line, concat("'", name, "' of table '", table.name, "' is negative"));
  }
  return found->second.numbers;
}

Result<double> number(const Table& table, const std::string& name) {
  WEIR_TRY(const std::vector<double> list, numbers(table, name));
  if (list.size() != 1)
    return bad_line(table.line, concat("'", name, "' of table '", table.name, "' is not one number"));
  return list.front();
}

Result<double> positive(const Table& table, const std::string& name) {
  WEIR_TRY(const double value, number(table, name));
  if (value <= 0) return bad_line(table.line, concat("'", name, "' of table '", table.name, "' must be positive"));
  return value;
}

Result<Offset> whole(const Table& table, const std::string& name) {
  WEIR_TRY(const double value, positive(table, name));
  if (value < 1 || value > 1e15 || value != std::floor(value)) {
    return bad_line(table.line, concat("'", name, "' of table '", table.name, "' is not a whole number"));
  }
  return static_cast<Offset>(value);
}

Result<std::vector<Correction>> read_knots(const Table& table, const std::string& name, const Value& value) {
  if (value.is_text || value.numbers.empty() || value.numbers.size() % 2 != 0) {
    return bad_line(table.line,
                    concat("'", name, "' of table '", table.name, "' is not a list of stride and correction"));
  }
  std::vector<Correction> knots;
  for (std::size_t i = 0; i < value.numbers.size(); i += 2) {
    const Correction knot{value.numbers[i], value.numbers[i + 1]};
    if (knot.stride <= 0 || std::abs(knot.log_factor) > 20 || (i > 0 && knot.stride <= knots.back().stride)) {
      return bad_line(table.line, concat("'", name, "' of table '", table.name,
                                         "' has strides that do not ascend or an absurd correction"));
    }
    knots.push_back(knot);
  }
  return knots;
}

// A row may have knots of one kind or of both.
Status read_row(const Table& table, const std::string& name, const Value& value,
                std::map<Offset, CorrectionRow>& rows) {
  const bool is_aligned = name.starts_with(kAligned);
  if (!is_aligned && !name.starts_with(kCorrection)) return Status::ok();
  const std::string_view digits = std::string_view(name).substr((is_aligned ? kAligned : kCorrection).size());
  WEIR_TRY(const double number, parse_number(digits, table.line));
  if (number < 1 || number > 1e15 || number != std::floor(number)) {
    return bad_line(table.line, concat("'", name, "' of table '", table.name, "' is not of a length in bytes"));
  }
  const auto length = static_cast<Offset>(number);
  CorrectionRow& row = rows[length];
  row.length = length;
  WEIR_TRY((is_aligned ? row.aligned : row.knots), read_knots(table, name, value));
  return Status::ok();
}

Result<Regime> read_regime(const Table& table) {
  Regime regime;
  WEIR_TRY(regime.working_set, positive(table, "working_set"));
  WEIR_TRY(const std::vector<double> phi, numbers(table, "phi"));
  if (phi.size() != 3 || phi[0] + phi[2] <= 0)
    return bad_line(table.line, concat("'phi' of table '", table.name, "' is not [a, b, c]"));
  regime.phi = {phi[0], phi[1], phi[2]};
  WEIR_TRY(regime.line_seconds, number(table, "line_seconds"));
  WEIR_TRY(regime.page_seconds, number(table, "page_seconds"));
  std::map<Offset, CorrectionRow> rows;
  for (const auto& [name, value] : table.values) WEIR_RETURN_IF_ERROR(read_row(table, name, value, rows));
  for (auto& [length, row] : rows) regime.rows.push_back(std::move(row));
  return regime;
}

Status add_regime(const Table& table, CopyModel& model) {
  WEIR_TRY(Regime regime, read_regime(table));
  if (!model.regimes.empty() && regime.working_set <= model.regimes.back().working_set) {
    return bad_line(table.line, concat("tables '", table.name, "' are not in the order of their working sets"));
  }
  model.regimes.push_back(std::move(regime));
  return Status::ok();
}

Status read_machine(const Table& table, Machine& machine) {
  const auto description = table.values.find("description");
  if (description != table.values.end() && description->second.is_text) machine.description = description->second.text;
  WEIR_TRY(machine.line_bytes, whole(table, "line_bytes"));
  WEIR_TRY(machine.page_bytes, whole(table, "page_bytes"));
  WEIR_TRY(const std::vector<double> bytes, numbers(table, "cache_bytes"));
  WEIR_TRY(const std::vector<double> ways, numbers(table, "cache_ways"));
  if (bytes.size() != ways.size()) return bad_line(table.line, "'cache_bytes' and 'cache_ways' differ in length");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] < 1 || bytes[i] > 1e15 || ways[i] > 1e6) return bad_line(table.line, "a cache has an absurd size");
    machine.caches.push_back({static_cast<Offset>(bytes[i]), static_cast<Offset>(ways[i])});
  }
  WEIR_TRY(machine.pack.turn_seconds, number(table, "pack_turn_seconds"));
  WEIR_TRY(machine.unpack.turn_seconds, number(table, "unpack_turn_seconds"));
  return Status::ok();
}

Status check_version(const Table& top) {
  const auto format = top.values.find("format");
  if (format == top.values.end() || format->second.text != kFormat) {
    return bad_line(1, concat("this is no machine model: it does not say format = \"", kFormat, "\""));
  }
  WEIR_TRY(const double version, number(top, "version"));
  if (version != kVersion) {
    return bad_line(
        1, concat("version ", static_cast<Offset>(version), " is not known, only ", static_cast<Offset>(kVersion)));
  }
  return Status::ok();
}

}  // namespace

std::string print(const Machine& machine) {
  std::string bytes;
  std::string ways;
  for (const Cache& cache : machine.caches) {
    bytes += fmt::format("{}{}", bytes.empty() ? "" : ", ", cache.bytes);
    ways += fmt::format("{}{}", ways.empty() ? "" : ", ", cache.ways);
  }
  std::string out = fmt::format(
      "# Written by 'weir model calibrate'.  Times in seconds, sizes in bytes.\n"
      "format = \"{}\"\nversion = {}\n\n[machine]\ndescription = \"{}\"\nline_bytes = {}\npage_bytes = {}\n"
      "cache_bytes = [{}]\ncache_ways = [{}]\npack_turn_seconds = {}\nunpack_turn_seconds = {}\n",
      kFormat, kVersion, machine.description, machine.line_bytes, machine.page_bytes, bytes, ways,
      machine.pack.turn_seconds, machine.unpack.turn_seconds);
  if (machine.network) {
    out += fmt::format("\n[network]\nlatency_seconds = {}\nbytes_per_second = {}\n", machine.network->latency_seconds,
                       machine.network->bytes_per_second);
  }
  for (const Regime& regime : machine.pack.regimes) print_regime(out, "pack", regime);
  for (const Regime& regime : machine.unpack.regimes) print_regime(out, "unpack", regime);
  for (const Regime& regime : machine.copy.regimes) print_regime(out, "copy", regime);
  return out;
}

Result<Machine> parse(const std::string& text) {
  WEIR_TRY(const std::vector<Table> tables, parse_tables(text));
  WEIR_RETURN_IF_ERROR(check_version(tables.front()));
  Machine machine;
  bool has_machine = false;
  for (const Table& table : tables) {
    if (table.name == "machine") {
      WEIR_RETURN_IF_ERROR(read_machine(table, machine));
      has_machine = true;
    } else if (table.name == "network") {
      Network network;
      WEIR_TRY(network.latency_seconds, positive(table, "latency_seconds"));
      WEIR_TRY(network.bytes_per_second, positive(table, "bytes_per_second"));
      machine.network = network;
    } else if (table.name == "pack") {
      WEIR_RETURN_IF_ERROR(add_regime(table, machine.pack));
    } else if (table.name == "unpack") {
      WEIR_RETURN_IF_ERROR(add_regime(table, machine.unpack));
    } else if (table.name == "copy") {
      WEIR_RETURN_IF_ERROR(add_regime(table, machine.copy));
    } else if (!table.name.empty()) {
      return bad_line(table.line, concat("there is no table '", table.name, "' in this version"));
    }
  }
  if (!has_machine) return bad_line(1, "table 'machine' is missing");
  if (machine.pack.regimes.empty() || machine.unpack.regimes.empty()) {
    return bad_line(1, "tables 'pack' and 'unpack' are missing");
  }
  return machine;
}

}  // namespace weir::model
