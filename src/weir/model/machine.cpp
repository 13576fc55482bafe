#include <weir/model/machine.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <sys/utsname.h>
#include <unistd.h>

namespace weir::model {
namespace {

Offset read_size(const std::string& path) {
  std::ifstream file(path);
  Offset number = 0;
  std::string unit;
  if (!(file >> number)) return 0;
  file >> unit;
  return unit == "K" ? number << 10 : unit == "M" ? number << 20 : number;
}

std::string read_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::vector<Cache> caches_of_kernel() {
  std::vector<Cache> caches;
  for (int i = 0; i < 8; ++i) {
    const std::string folder = concat("/sys/devices/system/cpu/cpu0/cache/index", i, "/");
    const std::string type = read_word(folder + "type");
    if (type.empty()) break;
    if (type == "Instruction") continue;
    const Cache cache{read_size(folder + "size"), read_size(folder + "ways_of_associativity")};
    if (cache.bytes > 0) caches.push_back(cache);
  }
  return caches;
}

std::vector<Cache> caches_of_library() {
  std::vector<Cache> caches;
  const int sizes[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  const int ways[] = {_SC_LEVEL1_DCACHE_ASSOC, _SC_LEVEL2_CACHE_ASSOC, _SC_LEVEL3_CACHE_ASSOC};
  for (int i = 0; i < 3; ++i) {
    const long bytes = ::sysconf(sizes[i]);
    if (bytes > 0) caches.push_back({bytes, std::max(0L, ::sysconf(ways[i]))});
  }
  return caches;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

Status io_error(std::string message) { return {ErrorCode::kIoError, std::move(message)}; }

}  // namespace

double Phi::operator()(double n) const noexcept { return a / std::pow(n, b) + c; }

Machine describe_machine() {
  Machine machine;
  utsname system{};
  ::uname(&system);
  machine.description = concat(processor_name(), ", ", ::sysconf(_SC_NPROCESSORS_ONLN), " processors, ", system.sysname,
                               " ", system.machine);
  std::replace(machine.description.begin(), machine.description.end(), '"', '\'');
  const long line = ::sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
  if (line > 0) machine.line_bytes = line;
  machine.page_bytes = ::sysconf(_SC_PAGESIZE);
  machine.caches = caches_of_kernel();
  if (machine.caches.empty()) machine.caches = caches_of_library();
  // No answer, as in some containers: sizes that most machines exceed by little.
  if (machine.caches.empty()) machine.caches = {{32 << 10, 8}, {512 << 10, 8}, {8 << 20, 16}};
  return machine;
}

Result<std::string> default_path(const runtime::Settings& settings) {
  if (const std::string path = settings.get("WEIR_MODEL"); !path.empty()) return path;
  if (const std::string folder = settings.get("XDG_CONFIG_HOME"); !folder.empty()) return folder + "/weir/model.toml";
  if (const std::string home = settings.get("HOME"); !home.empty()) return home + "/.config/weir/model.toml";
  return invalid_argument(
      "no place for the machine model: none of WEIR_MODEL, XDG_CONFIG_HOME and HOME is set; set WEIR_MODEL to a file "
      "name");
}

Result<Network> parse_network(const std::string& text) {
  double latency_us = 0;
  double bandwidth_gbs = 0;
  char rest = 0;
  const int found = std::sscanf(text.c_str(), "latency_us=%lf,bandwidth_gbs=%lf%c", &latency_us, &bandwidth_gbs, &rest);
  if (found != 2 || !(latency_us > 0) || !(bandwidth_gbs > 0) || !std::isfinite(latency_us) ||
      !std::isfinite(bandwidth_gbs)) {
    return invalid_argument(
        concat("'", text, "' does not describe messages: write latency_us=1.5,bandwidth_gbs=10, both positive"));
  }
  return Network{latency_us * 1e-6, bandwidth_gbs * 1e9};
}

Result<Network> probe_network(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) return io_error(concat("cannot run '", command, "'"));
  std::string output;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe)) output += buffer;
  const int code = ::pclose(pipe);
  if (code != 0) return io_error(concat("'", command, "' failed with status ", code, "; it printed: ", output));
  while (!output.empty() && std::isspace(static_cast<unsigned char>(output.back()))) output.pop_back();
  const std::size_t last = output.rfind('\n');
  const std::string line = last == std::string::npos ? output : output.substr(last + 1);
  Network network;
  char rest = 0;
  if (std::sscanf(line.c_str(), "%lf %lf%c", &network.latency_seconds, &network.bytes_per_second, &rest) != 2 ||
      !(network.latency_seconds > 0) || !(network.bytes_per_second > 0)) {
    return invalid_argument(concat("'", command, "' printed '", line,
                                   "' where 'latency_seconds bytes_per_second', both positive, was expected"));
  }
  return network;
}

Ranks ranks_over(const Network& network) {
  // The built-in costs were fitted where a message takes 1.5625 us and a byte 0.1 ns.
  constexpr Network kFitted{1.5625e-6, 1e10};
  Ranks ranks;
  ranks.exchange_byte_seconds += 1 / network.bytes_per_second - 1 / kFitted.bytes_per_second;
  ranks.meet_seconds *= network.latency_seconds / kFitted.latency_seconds;
  ranks.round_seconds *= network.latency_seconds / kFitted.latency_seconds;
  return ranks;
}

Status save(const Machine& machine, const std::string& path) {
  const std::string temporary = path + ".new";
  {
    std::ofstream file(temporary, std::ios::binary);
    file << print(machine);
    file.flush();
    if (!file) return io_error(concat("cannot write the machine model to '", temporary, "'"));
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return io_error(concat("cannot rename '", temporary, "' to '", path, "'"));
  }
  return Status::ok();
}

Result<Machine> load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) {
    return io_error(
        concat("cannot read the machine model '", path, "': run 'weir model calibrate' to measure this machine"));
  }
  Result<Machine> machine = parse(text.str());
  if (!machine.is_ok()) {
    const Status status = machine.status();
    return Status{status.code(),
                  concat("machine model '", path, "': ", status.message(), "; 'weir model calibrate' writes a new one"),
                  status.location()};
  }
  return machine;
}

Result<Io> calibrated_io(const runtime::Settings& settings) {
  const Result<std::string> path = default_path(settings);
  if (!path.is_ok() || ::access(path->c_str(), F_OK) != 0) return Io{};
  WEIR_TRY(const Machine machine, load(*path));
  return machine.io;
}

}  // namespace weir::model
