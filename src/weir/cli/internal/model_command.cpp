#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include <weir/base/json_text.h>
#include <weir/cli/internal/calibrate_servers.h>
#include <weir/cli/internal/command.h>
#include <weir/cli/internal/model_text.h>
#include <weir/model/calibrate.h>
#include <weir/model/validate.h>

namespace weir::cli::internal {
namespace {

constexpr char kModelHelp[] =
    "The model of this machine is a small file: WEIR_MODEL, or $XDG_CONFIG_HOME/weir/model.toml, or\n"
    "~/.config/weir/model.toml.  'calibrate' writes it, the others read it.\n"
    "\n"
    "Examples:\n"
    "  weir model calibrate --mpi latency_us=1.5,bandwidth_gbs=10\n"
    "  weir model show\n"
    "  weir model predict 'hpf(shape=[64M], elem=8, dist=(BLOCK), grid=[4])' \\\n"
    "                     'hpf(shape=[64M], elem=8, dist=(CYCLIC), grid=[4])'\n"
    "  weir model validate --svg model.svg\n";

struct CalibrateOptions {
  std::string output;
  std::string mpi;
  std::string mpi_probe;
  std::string disk;
  std::string remote;
  double limit_seconds = 40;
  bool quick = false;
  bool json = false;
};

struct PredictOptions {
  std::string from;
  std::string to;
  std::string file;
  std::optional<Offset> ranks;
  std::optional<Offset> elem;
  std::optional<Offset> bytes;
  std::string phases = "auto";
  std::string path = "auto";
  bool explain = false;
  bool json = false;
};

struct ValidateOptions {
  std::string file;
  std::string svg;
  double limit_seconds = 60;
  bool quick = false;
  bool points = false;
  bool json = false;
};

Result<std::string> path_or_default(const std::string& path) {
  if (!path.empty()) return path;
  return model::default_path();
}

Result<model::Machine> load_machine(const std::string& path) {
  WEIR_TRY(const std::string name, path_or_default(path));
  return model::load(name);
}

Status make_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error)
    return Status{ErrorCode::kIoError, concat("cannot create folder '", folder.string(), "': ", error.message())};
  return Status::ok();
}

// ---- calibrate -----------------------------------------------------------------------------------------------------

Result<std::optional<model::Network>> network_of(const CalibrateOptions& options) {
  if (!options.mpi.empty()) {
    WEIR_TRY(const model::Network network, model::parse_network(options.mpi));
    return std::optional(network);
  }
  if (!options.mpi_probe.empty()) {
    WEIR_TRY(const model::Network network, model::probe_network(options.mpi_probe));
    return std::optional(network);
  }
  return std::optional<model::Network>();
}

Result<model::Io> calibrate_io(const CalibrateOptions& options,
                               const std::function<void(const std::string&)>& progress) {
  constexpr double kShare = 1.0 / 16;  // of the time that copies get, for each kind
  const auto allowed = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(options.limit_seconds * kShare));
  const auto effort = [&](const std::string& step) {
    if (progress) progress(step);
    return model::Effort{std::chrono::steady_clock::now() + allowed, options.quick ? 3 : 15};
  };
  std::error_code error;
  const std::string folder = options.disk.empty() ? std::filesystem::temp_directory_path(error).string() : options.disk;
  model::Io io;
  WEIR_TRY(io.disk, model::calibrate_disk(folder, effort(concat("the disk of ", folder))));
  if (!options.remote.empty()) {
    WEIR_TRY(io.remote, calibrate_remote(options.remote, effort("servers over the network")));
  }
  WEIR_RETURN_IF_ERROR(model::calibrate_memory(model::describe_machine(), effort("memory"), io.memory));
  WEIR_RETURN_IF_ERROR(calibrate_servers(effort("servers on this host"), io));
  return io;
}

Result<int> calibrate(const CalibrateOptions& options, Console& console) {
  WEIR_TRY(const std::string path, path_or_default(options.output));
  WEIR_RETURN_IF_ERROR(make_folder_of(path));
  WEIR_TRY(const std::optional<model::Network> network, network_of(options));
  model::CalibrateOptions how;
  how.quick = options.quick;
  how.limit_seconds = options.limit_seconds;
  if (console.terminal.is_terminal) how.progress = [&](const std::string& step) { console.err << step << '\n'; };
  // Input and output first: what may be wrong with the options is found before copies take their time.
  WEIR_TRY(const model::Io io, calibrate_io(options, how.progress));
  WEIR_TRY(model::Machine machine, model::calibrate(how));
  machine.io = io;
  machine.network = network;
  // What is not measured here, a new calibration keeps.
  if (const Result<model::Machine> old = model::load(path); old.is_ok()) {
    if (!network) machine.network = old->network;
    if (options.remote.empty()) machine.io.remote = old->io.remote;
  }
  if (machine.network) machine.io.ranks = model::ranks_over(*machine.network);
  WEIR_RETURN_IF_ERROR(model::save(machine, path));
  if (options.json) {
    write_machine_json(machine, path, console.out);
  } else {
    write_machine(machine, console.out);
    console.out << "written to " << path << '\n';
  }
  return kExitOk;
}

// ---- show ----------------------------------------------------------------------------------------------------------

struct ShowOptions {
  std::string file;
  bool json = false;
};

Result<int> show(const ShowOptions& options, Console& console) {
  WEIR_TRY(const std::string path, path_or_default(options.file));
  std::error_code error;
  const bool is_there = !options.file.empty() || std::filesystem::exists(path, error);
  model::Machine machine;
  if (is_there) {
    WEIR_TRY(machine, model::load(path));
  } else {
    machine = model::describe_machine();
  }
  if (options.json) {
    write_machine_json(machine, is_there ? path : std::string(), console.out);
    return kExitOk;
  }
  write_machine(machine, console.out);
  if (is_there) {
    console.out << "from " << path << '\n';
  } else {
    console.out << "nothing calibrated: there is no " << path << "; 'weir model calibrate' measures this machine\n";
  }
  return kExitOk;
}

// ---- predict -------------------------------------------------------------------------------------------------------

void write_phase(const model::PhasePrediction& phase, std::ostream& out) {
  constexpr std::size_t kMostRanks = 16;
  out << phase.from << "\n  -> " << phase.to << '\n';
  out << fmt::format("{:>6} {:>12} {:>12} {:>12} {:>12} {:>12} {:>7} {:>12}\n", "rank", "pack", "messages",
                     "local copy", "unpack", "total", "sends", "bytes sent");
  for (std::size_t i = 0; i < phase.ranks.size(); ++i) {
    if (i >= kMostRanks && i != phase.critical) continue;
    const model::RankPrediction& rank = phase.ranks[i];
    out << fmt::format(
        "{:>6} {:>12} {:>12} {:>12} {:>12} {:>12} {:>7} {:>12}{}\n", rank.rank, seconds_text(rank.pack_seconds),
        rank.message_seconds ? seconds_text(*rank.message_seconds) : "?", seconds_text(rank.local_seconds),
        seconds_text(rank.unpack_seconds), seconds_text(rank.seconds()), rank.sends, rank.bytes_sent,
        i == phase.critical ? "  critical" : "");
  }
  if (phase.ranks.size() > kMostRanks) out << fmt::format("   ... {} ranks in all\n", phase.ranks.size());
}

void explain_phase(const model::PhasePrediction& phase, std::ostream& out) {
  const model::RankPrediction& rank = phase.ranks[phase.critical];
  const auto mean = [](double bytes, double pieces) { return pieces > 0 ? bytes / pieces : 0; };
  out << fmt::format("  {} -> {}, rank {}:\n", phase.from, phase.to, rank.rank);
  out << fmt::format("    pack    {:.0f} pieces, {:.1f} bytes each; {} of {} messages leave from the array itself\n",
                     rank.pieces_packed, mean(static_cast<double>(rank.bytes_sent), rank.pieces_packed),
                     rank.sends_in_place, rank.sends);
  out << fmt::format("    unpack  {:.0f} pieces, {:.1f} bytes each; {} of {} messages arrive in the array itself\n",
                     rank.pieces_unpacked, mean(static_cast<double>(rank.bytes_received), rank.pieces_unpacked),
                     rank.receives_in_place, rank.receives);
  out << fmt::format(
      "    local   {} bytes: {} from array to array, {} through a buffer; {} (--path direct, --path packed)\n",
      rank.bytes_local, seconds_text(rank.direct_seconds), seconds_text(rank.packed_seconds),
      phase.local_direct ? "direct" : "packed");
}

void explain(const model::Prediction& prediction, std::ostream& out) {
  out << "\nphases: " << prediction.why << " (--phases 1, --phases 2)\n";
  for (const model::PhasePrediction& phase : prediction.phases) explain_phase(phase, out);
  if (prediction.alternative.empty()) return;
  out << fmt::format("not chosen, {}:\n", seconds_text(prediction.alternative_seconds));
  for (const model::PhasePrediction& phase : prediction.alternative) explain_phase(phase, out);
}

void write_prediction(const model::Prediction& prediction, bool explained, std::ostream& out) {
  for (const model::PhasePrediction& phase : prediction.phases) write_phase(phase, out);
  out << fmt::format("{}: {} ({})\n", prediction.knows_messages ? "total" : "total without messages",
                     seconds_text(prediction.seconds), prediction.phases.size() == 1 ? "one phase" : "two phases");
  if (!prediction.knows_messages) {
    out << "messages: latency and bandwidth are missing; 'weir model calibrate --mpi latency_us=..,bandwidth_gbs=..' "
           "or\n"
           "'--mpi-probe CMD' adds them\n";
  }
  if (explained) explain(prediction, out);
}

void write_rank_json(const model::RankPrediction& rank, JsonWriter& json) {
  json.begin_object()
      .field("rank", rank.rank)
      .field("seconds", rank.seconds())
      .field("pack_seconds", rank.pack_seconds);
  json.key("message_seconds");
  if (rank.message_seconds) {
    json.value(*rank.message_seconds);
  } else {
    json.null();
  }
  json.field("local_seconds", rank.local_seconds).field("unpack_seconds", rank.unpack_seconds);
  json.field("direct_seconds", rank.direct_seconds).field("packed_seconds", rank.packed_seconds);
  json.field("sends", rank.sends).field("receives", rank.receives).field("bytes_sent", rank.bytes_sent);
  json.field("sends_in_place", rank.sends_in_place).field("receives_in_place", rank.receives_in_place);
  json.field("bytes_received", rank.bytes_received).field("bytes_local", rank.bytes_local);
  json.field("pieces_packed", rank.pieces_packed).field("pieces_unpacked", rank.pieces_unpacked).end_object();
}

void write_phases_json(const std::vector<model::PhasePrediction>& phases, JsonWriter& json) {
  json.begin_array();
  for (const model::PhasePrediction& phase : phases) {
    json.begin_object().field("from", std::string_view(phase.from)).field("to", std::string_view(phase.to));
    json.field("seconds", phase.seconds).field("critical_rank", static_cast<Offset>(phase.critical));
    json.field("local", phase.local_direct ? "direct" : "packed").key("ranks").begin_array();
    for (const model::RankPrediction& rank : phase.ranks) write_rank_json(rank, json);
    json.end_array().end_object();
  }
  json.end_array();
}

void write_prediction_json(const model::Prediction& prediction, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("seconds", prediction.seconds).field("knows_messages", prediction.knows_messages);
  json.field("why", std::string_view(prediction.why)).key("phases");
  write_phases_json(prediction.phases, json);
  json.key("alternative");
  write_phases_json(prediction.alternative, json);
  json.end_object();
  out << text << '\n';
}

Result<layout::Partition> load_side(const std::string& text, const PredictOptions& options, Console& console) {
  WEIR_TRY(layout::Partition partition, load_layout(text, console));
  if (!options.elem) return partition;
  return model::with_elem(partition, *options.elem);
}

Result<int> predict(const PredictOptions& options, Console& console) {
  WEIR_TRY(const layout::Partition from, load_side(options.from, options, console));
  WEIR_TRY(const layout::Partition to, load_side(options.to, options, console));
  WEIR_TRY(const model::Machine machine, load_machine(options.file));
  model::Options how;
  how.ranks = options.ranks.value_or(0);
  how.bytes = options.bytes.value_or(0);
  how.phases = options.phases == "1"   ? model::Phases::kOne
               : options.phases == "2" ? model::Phases::kTwo
                                       : model::Phases::kAuto;
  how.local = options.path == "direct"   ? model::Local::kDirect
              : options.path == "packed" ? model::Local::kPacked
                                         : model::Local::kAuto;
  WEIR_TRY(const model::Prediction prediction, model::predict_redistribution(machine, from, to, how));
  if (options.json) {
    write_prediction_json(prediction, console.out);
  } else {
    write_prediction(prediction, options.explain, console.out);
  }
  return kExitOk;
}

// ---- validate ------------------------------------------------------------------------------------------------------

using Points = std::vector<model::Point>;

template <typename Condition>
Points select(const Points& points, Condition condition) {
  Points selected;
  std::copy_if(points.begin(), points.end(), std::back_inserter(selected), condition);
  return selected;
}

// The rows of the table: every group, then what is aimed at: all packing and unpacking.
std::vector<std::pair<std::string, Points>> rows_of(const Points& points) {
  std::vector<std::pair<std::string, Points>> rows;
  for (const model::Point& point : points) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& r) { return r.first == point.group; });
    if (row == rows.end()) {
      rows.push_back({point.group, {point}});
    } else {
      row->second.push_back(point);
    }
  }
  rows.emplace_back("all packing", select(points, [](const model::Point& p) {
                      return p.path == model::Path::kPack && !model::is_repeated(p);
                    }));
  rows.emplace_back("all unpacking", select(points, [](const model::Point& p) {
                      return p.path == model::Path::kUnpack && !model::is_repeated(p);
                    }));
  return rows;
}

std::string accuracy_text(const model::Accuracy& accuracy) {
  if (accuracy.points == 0) return fmt::format("{:>6} {:>7} {:>8} {:>8}", 0, "-", "-", "-");
  return fmt::format("{:>6} {:>7.3f} {:>8.1f} {:>8.1f}", accuracy.points, accuracy.r_squared, 100 * accuracy.max_error,
                     100 * accuracy.p90_error);
}

void write_table(const Points& points, std::ostream& out) {
  constexpr double kSteep = 128;
  out << fmt::format("{:<16}| {:^32} | {:^32} | {:^8} | {:^17}\n", "", "pieces of up to 128 bytes", "all pieces",
                     "noise", "formula alone");
  out << fmt::format("{:<16}| {:>6} {:>7} {:>8} {:>8} | {:>6} {:>7} {:>8} {:>8} | {:>8} | {:>8} {:>8}\n", "", "points",
                     "R^2", "max %", "90th %", "points", "R^2", "max %", "90th %", "90th %", "R^2", "90th %");
  for (const auto& [name, row] : rows_of(points)) {
    const Points steep = select(row, [](const model::Point& p) { return p.mean_length <= kSteep; });
    const model::Accuracy formula = model::accuracy_of(row, true);
    const model::Accuracy accuracy = model::accuracy_of(row);
    out << fmt::format("{:<16}| {} | {} | {:>8} | {:>8.3f} {:>8.1f}\n", name, accuracy_text(model::accuracy_of(steep)),
                       accuracy_text(accuracy),
                       accuracy.p90_noise ? fmt::format("{:.1f}", 100 * *accuracy.p90_noise) : "?", formula.r_squared,
                       100 * formula.p90_error);
  }
  out << "\nR^2 of seconds per byte; errors relative to the measured time.  Only the points 'again' were used to "
         "calibrate:\ntheir error is what the machine has changed since then.\nNoise: difference between two "
         "measurements of a point, each the median of half of the "
         "rounds.\n";
}

void write_points(const Points& points, std::ostream& out) {
  out << fmt::format("\n{:>12} {:>12} {:>7}\n", "measured", "predicted", "ratio");
  for (const model::Point& point : points) {
    out << fmt::format("{:>12} {:>12} {:>7.3f}  {}: {}\n", seconds_text(point.measured_seconds),
                       seconds_text(point.predicted_seconds), point.predicted_seconds / point.measured_seconds,
                       point.group, point.name);
  }
}

void write_accuracy_json(const model::Accuracy& accuracy, JsonWriter& json) {
  json.begin_object().field("points", static_cast<Offset>(accuracy.points)).field("r_squared", accuracy.r_squared);
  json.field("log_r_squared", accuracy.log_r_squared).field("max_error", accuracy.max_error);
  json.field("p90_error", accuracy.p90_error);
  if (accuracy.p90_noise) json.field("p90_noise", *accuracy.p90_noise);
  json.end_object();
}

void write_validation_json(const Points& points, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().key("groups").begin_array();
  for (const auto& [name, row] : rows_of(points)) {
    json.begin_object().field("name", std::string_view(name)).key("accuracy");
    write_accuracy_json(model::accuracy_of(row), json);
    json.key("formula_alone");
    write_accuracy_json(model::accuracy_of(row, true), json);
    json.end_object();
  }
  json.end_array().key("points").begin_array();
  for (const model::Point& point : points) {
    json.begin_object().field("group", std::string_view(point.group)).field("name", std::string_view(point.name));
    json.field("bytes", point.bytes).field("mean_length", point.mean_length);
    json.field("measured_seconds", point.measured_seconds).field("predicted_seconds", point.predicted_seconds);
    json.field("formula_seconds", point.formula_seconds).end_object();
  }
  json.end_array().end_object();
  out << text << '\n';
}

Result<int> validate(const ValidateOptions& options, Console& console) {
  WEIR_TRY(const model::Machine machine, load_machine(options.file));
  model::ValidateOptions how;
  how.quick = options.quick;
  how.limit_seconds = options.limit_seconds;
  if (console.terminal.is_terminal) how.progress = [&](const std::string& step) { console.err << step << '\n'; };
  WEIR_TRY(const Points points, model::validate(machine, how));
  if (!options.svg.empty()) {
    std::ofstream file(options.svg, std::ios::binary);
    file << model::draw_svg(points, concat("Predicted and measured: ", machine.description));
    file.flush();
    if (!file) return Status{ErrorCode::kIoError, concat("cannot write the plot to '", options.svg, "'")};
  }
  if (options.json) {
    write_validation_json(points, console.out);
  } else {
    write_table(points, console.out);
    if (options.points) write_points(points, console.out);
  }
  return kExitOk;
}

// ---- declarations --------------------------------------------------------------------------------------------------

void add_file(CLI::App& command, std::string& file) {
  command.add_option("--file", file, "The model of the machine [the default path]")->type_name("FILE");
}

void add_limit(CLI::App& command, double& seconds) {
  command
      .add_option("--limit", seconds, "Measure in rounds for so long and take medians; over before one round: an error")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 60.0))
      ->capture_default_str();
}

void declare_calibrate(CLI::App& command, CalibrateOptions& options) {
  command.add_option("-o,--output", options.output, "Where to write the model [the default path]")->type_name("FILE");
  command.add_flag("--quick", options.quick, "Fewer points, some seconds, for a first impression");
  add_limit(command, options.limit_seconds);
  CLI::Option* mpi = command.add_option("--mpi", options.mpi, "What messages cost: latency_us=1.5,bandwidth_gbs=10");
  command.add_option("--mpi-probe", options.mpi_probe, "Run CMD, which prints 'latency_seconds bytes_per_second'")
      ->type_name("CMD")
      ->excludes(mpi);
  command.add_option("--disk", options.disk, "A folder on the disk to measure [$TMPDIR, or /tmp]")->type_name("DIR");
  command
      .add_option(
          "--fs", options.remote,
          "Measure the network with the servers of this file system, best on another host: a connection file, or "
          "addresses")
      ->type_name("FS");
  add_json(command, options.json);
}

void declare_show(CLI::App& command, ShowOptions& options) {
  add_file(command, options.file);
  add_json(command, options.json);
}

void declare_predict(CLI::App& command, PredictOptions& options) {
  add_layout_text(command, "FROM", options.from, "How the array is distributed");
  add_layout_text(command, "TO", options.to, "How it shall be");
  add_size(command, "--ranks", options.ranks, "Processes; element i belongs to rank i mod N [one for each element]");
  add_size(command, "--bytes-per-elem", options.elem, "Size of an array element, in place of elem= of both layouts");
  add_size(command, "--bytes", options.bytes, "Bytes in all [one common period of both layouts]");
  command.add_option("--phases", options.phases, "1, 2 (through a layout between the two) or auto")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "1", "2"}));
  command.add_option("--path", options.path, "How the local part is copied: direct, packed or auto")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "direct", "packed"}));
  command.add_flag("--explain", options.explain, "Show the numbers behind each choice, and what overrides it");
  add_file(command, options.file);
  add_json(command, options.json);
}

void declare_validate(CLI::App& command, ValidateOptions& options) {
  command.add_option("--svg", options.svg, "Draw predicted against measured times")->type_name("FILE");
  command.add_flag("--points", options.points, "List every point");
  command.add_flag("--quick", options.quick, "Fewer points, some seconds");
  add_limit(command, options.limit_seconds);
  add_file(command, options.file);
  add_json(command, options.json);
}

}  // namespace

void add_model(CLI::App& app, Selection& selection) {
  CLI::App* command =
      app.add_subcommand("model", "Measure this machine and predict what copies, redistributions and I/O cost");
  command->require_subcommand(1);
  command->footer(kModelHelp);
  add_command<CalibrateOptions>(*command, selection, "calibrate", "Measure this machine, in about a minute",
                                "Example:\n  weir model calibrate --mpi latency_us=1.5,bandwidth_gbs=10\n",
                                declare_calibrate, calibrate);
  add_command<ShowOptions>(*command, selection, "show", "What is known of this machine, with units",
                           "Example:\n  weir model show\n", declare_show, show);
  add_command<PredictOptions>(*command, selection, "predict", "The time of a redistribution before it runs",
                              "Example:\n"
                              "  weir model predict 'hpf(shape=[64M], elem=8, dist=(CYCLIC(3)), grid=[4])' \\\n"
                              "                     'hpf(shape=[64M], elem=8, dist=(CYCLIC(5)), grid=[4])' --explain\n",
                              declare_predict, predict);
  add_command<ValidateOptions>(*command, selection, "validate", "Compare predictions with measurements",
                               "Example:\n  weir model validate --svg model.svg\n", declare_validate, validate);
}

}  // namespace weir::cli::internal
