#include <weir/cli/internal/model_text.h>

#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include <weir/base/json_text.h>
#include <weir/cli/internal/progress.h>

namespace weir::cli::internal {
namespace {

void write_regimes(const char* name, const model::CopyModel& copy, std::ostream& out) {
  if (copy.regimes.empty()) return;
  out << fmt::format("\n{:<8} {:>12} {:>10} {:>6} {:>10} {:>10} {:>10}\n", name, "working set", "a ns", "b",
                     "c ns/byte", "kappa ns", "theta ns");
  for (const model::Regime& regime : copy.regimes) {
    out << fmt::format("{:<8} {:>10.0f} K {:>10.4f} {:>6.2f} {:>10.4f} {:>10.3f} {:>10.3f}\n", "",
                       regime.working_set / 1024, regime.phi.a * 1e9, regime.phi.b, regime.phi.c * 1e9,
                       regime.line_seconds * 1e9, regime.page_seconds * 1e9);
  }
}

// Costs in units that suit them, in one table.
void write_costs(const model::Io& io, std::ostream& out) {
  const model::Io built_in;
  std::vector<std::string> assumed;
  each_parameter(built_in, [&](std::string_view, std::string_view, auto value, std::string_view) {
    assumed.push_back(fmt::format("{}", value));
  });
  std::size_t i = 0;
  std::string_view table;
  each_parameter(io, [&](std::string_view of_table, std::string_view name, auto value, std::string_view meaning) {
    if (of_table != table) out << '\n' << (table = of_table) << '\n';
    const bool is_time = std::is_same_v<decltype(value), double>;
    out << fmt::format("  {:<26}{:>12}  {}{}\n", name,
                       is_time ? model::time_text(static_cast<double>(value)) : bytes_text(static_cast<double>(value)),
                       meaning, fmt::format("{}", value) == assumed[i++] ? " (built in)" : "");
  });
}

void write_costs_json(const model::Io& io, JsonWriter& json) {
  json.key("costs").begin_object();
  std::string_view table;
  each_parameter(io, [&](std::string_view of_table, std::string_view name, auto value, std::string_view) {
    if (of_table != table) {
      if (!table.empty()) json.end_object();
      json.key(table = of_table).begin_object();
    }
    json.field(name, value);
  });
  json.end_object().end_object();
}

}  // namespace

void write_machine(const model::Machine& machine, std::ostream& out) {
  out << machine.description << '\n';
  write_regimes("pack", machine.pack, out);
  write_regimes("unpack", machine.unpack, out);
  write_regimes("copy", machine.copy, out);
  if (machine.network) {
    out << fmt::format("\nmessages: {} + bytes / {:.3f} GB/s\n", seconds_text(machine.network->latency_seconds),
                       machine.network->bytes_per_second / 1e9);
  } else {
    out << "\nmessages: not known; --mpi or --mpi-probe says what they cost\n";
  }
  write_costs(machine.io, out);
  out << '\n';
}

void write_machine_json(const model::Machine& machine, const std::string& path, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("file", std::string_view(path)).field("machine", std::string_view(machine.description));
  for (const auto* copy : {&machine.pack, &machine.unpack, &machine.copy}) {
    json.key(copy == &machine.pack ? "pack" : copy == &machine.unpack ? "unpack" : "copy").begin_array();
    for (const model::Regime& regime : copy->regimes) {
      json.begin_object().field("working_set", regime.working_set).field("a", regime.phi.a).field("b", regime.phi.b);
      json.field("c", regime.phi.c)
          .field("line_seconds", regime.line_seconds)
          .field("page_seconds", regime.page_seconds);
      json.end_object();
    }
    json.end_array();
  }
  json.field("knows_messages", machine.network.has_value());
  write_costs_json(machine.io, json);
  json.end_object();
  out << text << '\n';
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} us", seconds * 1e6);
}

}  // namespace weir::cli::internal
