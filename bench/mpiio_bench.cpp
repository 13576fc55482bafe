// MPI-IO through Weir against the MPI's own, in one run of one ordinary MPI program:
//
//   weir run -- mpirun -n 2 mpiio_bench_openmpi [--tables] [--mb 16] [--repeats 5] [--case cyclic] [--only write] [--disk DIR] [--json]
//
// The program knows nothing of Weir but the name weir:/..., which the preloaded library takes for its own, and the hint
// weir_layout.
//
//   weir      the file weir:/..., in the store that `weir run` was told; on a disk also with each of its ways of collective access,
//             instead of the one that it chooses
//   tmpfs     the MPI's own MPI-IO on a file in memory; "best" is the fastest of the hint sets below in this row, and its name is shown
//   disk      the same on a file of the disk, through the page cache
//   manual    what an expert would write by hand: who owns which part of the file is worked out beforehand, then pack, MPI_Alltoallv,
//             unpack, one pwrite (pread) of a contiguous part per rank on tmpfs (`manual disk`: on the disk); with collective calls only
//   wire      with --wire HOST:PORT, where `mpiio_bench --serve-wire` answers, the only rival: each rank sends or receives as many bytes
//             on a plain TCP connection of its own
//   memcpy    all ranks copy as many bytes from one warm buffer to another: the bound
//
// write goes to a file just created, rewrite to one that is full, read comes from it; nobody syncs.  durable is write
// and MPI_File_sync (fsync by hand), for all contenders; cold is read after all files on the disk were taken out of the
// page cache.  Contenders take turns; the time of one turn, of the data call alone, is from the start of the first rank
// to the end of the last.  A ratio is rival / weir of the same turn: above 1, weir is faster.  Shown are the median
// and, in brackets, the quartiles.  Every file is compared with what must be in it before anything is timed.  If a disk
// takes part, it is given time to settle (sync) before each turn.
//
// Beside patterns: `calls` that move nothing, and `transfers` of 4 KiB, 47,008 B and 1 MiB, as IOR makes them.  --busy
// N: while so many processes compute on the same machine.
//
// --tables compares how a file is stored, by its size: each rank a contiguous part, and blocks of a 3-D array of ints.
//
//   view      weir:/..., stored as the ranks see it (weir_layout=view): each rank's part is one subfile
//   block     weir:/..., in stripes over the servers
//
// Ratios are to view.  The MPI's own MPI-IO gets the contiguous parts as bytes from a displacement on, which suits it
// best.
//
// Servers fault memory in ahead of use, up to 160 MiB each.  They do that between the turns: all ranks rest for a while
// (--rest MS) after each write of a new file through weir, so that it costs no rival time.  With --rest 0 nothing is
// made up for, as when a program writes more than that at once.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <weir/base/spread.h>

#include "fs_report.h"
#include "mpiio_calls.h"
#include "mpiio_files.h"
#include "mpiio_patterns.h"
#include "mpiio_wire.h"

namespace weir::mpiio_bench {
namespace {

struct Contender {
  std::string name;
  std::string note;
  bool is_ours = false;
  std::function<void()> before;  // not timed
  std::function<void()> turn;
  std::vector<double> seconds;
};

Spread ratio_of(const std::vector<double>& seconds, const std::vector<double>& ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(ours.size(), seconds.size()); ++i) ratios.push_back(seconds[i] / ours[i]);
  return spread_of(ratios);
}

// One line: `bytes` is 0 if none are moved.
struct Line {
  std::string name;
  const char* way;
  const char* operation;
  std::string contender;
  std::string hints;
  Offset bytes = 0;
  double seconds = 0;
  Spread ratio;
  std::size_t repeats = 0;
};

void print_line(const Line& line, const Settings& settings) {
  if (settings.json) {
    std::printf(
        "{\"mpi\": \"%s\", \"ranks\": %d, \"case\": \"%s\", \"way\": \"%s\", \"operation\": \"%s\", \"contender\": "
        "\"%s\", \"hints\": \"%s\", \"store\": \"%s\", \"servers\": %d, \"busy\": %d, "
        "\"bytes\": %lld, \"milliseconds\": %.4f, \"ratio\": %.3f, \"ratio_low\": %.3f, \"ratio_high\": %.3f, "
        "\"repeats\": %zu}\n",
        WEIR_MPI_NAME, world_size(), line.name.c_str(), line.way, line.operation, line.contender.c_str(),
        line.hints.c_str(), settings.store.c_str(), settings.servers, settings.busy, line.bytes, line.seconds * 1e3,
        line.ratio.median, line.ratio.low, line.ratio.high, line.repeats);
  } else {
    const std::string rate =
        line.bytes > 0 ? weir::bench::number(static_cast<double>(line.bytes) / line.seconds / 1e6, 0) : "";
    std::printf("%-24s %-11s %-8s %-12s %9.*f %9s %8.2f  [%.2f, %.2f] %s\n", line.name.c_str(), line.way,
                line.operation, line.contender.c_str(), line.bytes > 0 ? 2 : 4, line.seconds * 1e3, rate.c_str(),
                line.ratio.median, line.ratio.low, line.ratio.high, line.hints.c_str());
  }
  std::fflush(stdout);
}

void print_row(const Job& job, const char* operation, const Contender& contender, const std::vector<double>& ours,
               Offset bytes, const Settings& settings) {
  print_line(
      {job.pattern.name, job.collective ? "collective" : "independent", operation, contender.name, contender.note,
       bytes, spread_of(contender.seconds).median, ratio_of(contender.seconds, ours), contender.seconds.size()},
      settings);
}

void print_call(const CallRow& row, const Settings& settings) {
  print_line({row.name, row.way, row.call, row.contender, "", row.bytes, spread_of(row.seconds).median,
              ratio_of(row.seconds, *row.ours), row.seconds.size()},
             settings);
}

void forget_pages(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  if (descriptor < 0) return;  // it has been removed
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

// Takes what rivals and Weir's store have on the disk out of the page cache.  \pre It is synced.
void forget_files(const Settings& settings) {
  for (const std::string& file : local_files()) forget_pages(file);
  const std::string disk = "disk:";
  if (settings.store.rfind(disk, 0) != 0) return;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(settings.store.substr(disk.size()), error)) {
    if (entry.is_regular_file(error)) forget_pages(entry.path().string());
  }
}

// One contender in one row of the tables.
struct Cell {
  std::string column;
  std::string hints;
  double megabytes_per_second = 0;
  Spread ratio;  // to the first contender
};

struct Place {
  std::string name;
  std::string path;
  bool is_ours = false;
};

class Row {
 public:
  Row(const Settings& settings, const Pattern& pattern, bool collective, Operation operation,
      const char* operation_name)
      : settings_(settings),
        name_(operation_name),
        job_{pattern, collective, operation, std::vector<std::byte>(static_cast<std::size_t>(pattern.memory_span))},
        copy_(static_cast<std::size_t>(pattern.bytes())) {
    const Offset mine = pattern.bytes();
    MPI_Allreduce(&mine, &bytes_, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  }

  void add_file(const Place& place, const HintSet& set) {
    auto file = std::make_shared<std::unique_ptr<MpiFile>>();
    const auto open = [this, file, place, set](bool fresh) {
      file->reset();
      *file = std::make_unique<MpiFile>(place.path, set, fresh);
      if (settings_.tables && !place.is_ours && job_.pattern.mine.size() == 1) {
        (*file)->set_plain_view(job_.pattern.mine.front());
      } else {
        (*file)->set_view(job_.pattern);
      }
      if (settings_.tables && place.is_ours)
        require((*file)->is_striped() == (place.name == "block"),
                place.name + ": " + place.path + " is stored otherwise");
    };
    if (!place.is_ours) local_files().insert(place.path);
    open(!job_.pattern.read_only);
    if (!job_.pattern.read_only) {
      const Operation asked = std::exchange(job_.operation, Operation::kWrite);
      fill(job_);
      (*file)->run(job_);
      job_.operation = asked;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    verify(place.name, [&] { (*file)->run(job_); });
    const bool fresh = makes_file(job_.operation);
    contenders_.push_back({place.name,
                           set.name == "default" ? "" : set.name,
                           place.is_ours,
                           [open, fresh] {
                             if (fresh) open(true);
                           },
                           [this, file] { (*file)->run(job_); },
                           {}});
  }

  void add_manual(const std::string& name, const std::string& path) {
    if (!job_.collective) return;
    local_files().insert(path);
    if (job_.pattern.read_only) write_linear(path, job_.pattern.file_bytes);
    auto manual = std::make_shared<Manual>(job_.pattern, path);
    if (!job_.pattern.read_only) {
      const Operation asked = std::exchange(job_.operation, Operation::kWrite);
      fill(job_);
      manual->run(job_);
      job_.operation = asked;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    verify(name, [&] { manual->run(job_); });
    const bool fresh = makes_file(job_.operation);
    contenders_.push_back({name,
                           "",
                           false,
                           [manual, fresh] {
                             if (fresh && world_rank() == 0) manual->empty();
                           },
                           [this, manual] { manual->run(job_); },
                           {}});
  }

  /// Plain TCP connections, one for each rank, carry as many bytes.
  void add_wire() {
    auto wire = std::make_shared<Wire>(settings_.wire);
    contenders_.push_back({"wire",
                           "",
                           false,
                           [] {},
                           [this, wire] { only_reads(job_.operation) ? wire->read(copy_) : wire->write(copy_); },
                           {}});
  }

  void add_memcpy() {
    contenders_.push_back(
        {"memcpy", "", false, [] {}, [this] { std::memcpy(copy_.data(), job_.memory.data(), copy_.size()); }, {}});
  }

  void measure() {
    rest();
    for (int repeat = 0; repeat < settings_.repeats; ++repeat) {
      for (Contender& contender : contenders_) {
        if (!contender.seconds.empty() && contender.seconds.back() > settings_.limit_seconds) continue;
        contender.before();
        settle();
        contender.seconds.push_back(seconds_of(contender.turn));
        if (contender.is_ours) rest();
      }
    }
  }

  // Of several hint sets of one place, the default and the fastest.
  void print() {
    if (world_rank() != 0) return;
    const auto best = fastest();
    for (const Contender& contender : contenders_) {
      if (contender.note.empty() || contender.is_ours || best.at(contender.name) == &contender)
        print_row(job_, name_, contender, contenders_.front().seconds, bytes_, settings_);
    }
  }

  // The same as cells of a table, one column for each contender and one more for the fastest hints.
  [[nodiscard]] std::vector<Cell> cells() const {
    const auto best = fastest();
    std::vector<Cell> cells;
    for (const Contender& contender : contenders_) {
      if (!contender.note.empty()) continue;
      cells.push_back(cell_of(contender.name, contender));
      if (has_hints(contender.name)) cells.push_back(cell_of(contender.name + " best", *best.at(contender.name)));
    }
    return cells;
  }

 private:
  void rest() const {
    if (makes_file(job_.operation)) ::usleep(static_cast<useconds_t>(settings_.rest_ms) * 1000);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // What others left to be written to the disk is not to be waited for in this turn.
  void settle() const {
    if (!uses_disk(settings_)) return;
    if (world_rank() == 0) {
      ::sync();
      if (job_.operation == Operation::kCold) forget_files(settings_);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  [[nodiscard]] std::map<std::string, const Contender*> fastest() const {
    std::map<std::string, const Contender*> best;
    for (const Contender& contender : contenders_) {
      const Contender*& one = best[contender.name];
      if (one == nullptr || spread_of(contender.seconds).median < spread_of(one->seconds).median) one = &contender;
    }
    return best;
  }

  [[nodiscard]] bool has_hints(const std::string& name) const {
    return std::any_of(contenders_.begin(), contenders_.end(),
                       [&](const Contender& one) { return one.name == name && !one.note.empty(); });
  }

  [[nodiscard]] Cell cell_of(const std::string& name, const Contender& contender) const {
    return {name, contender.note, static_cast<double>(bytes_) / spread_of(contender.seconds).median / 1e6,
            ratio_of(contender.seconds, contenders_.front().seconds)};
  }

  void verify(const std::string& who, const std::function<void()>& access) {
    const Operation asked = std::exchange(job_.operation, Operation::kRead);
    std::fill(job_.memory.begin(), job_.memory.end(), std::byte{0xEE});
    access();
    check(job_, who);
    job_.operation = asked;
  }

  const Settings& settings_;
  const char* name_;
  Job job_;
  std::vector<std::byte> copy_;
  Offset bytes_ = 0;
  std::vector<Contender> contenders_;
};

// Those of the MPI library.
std::vector<Place> rival_places(const Settings& settings) {
  std::vector<Place> places = {{"tmpfs", settings.tmpfs + file_name()}};
  if (!settings.disk.empty()) places.push_back({"disk", settings.disk + file_name()});
  return places;
}

void add_rivals(Row& row, const Pattern& pattern, const std::vector<Place>& places) {
  for (const Place& place : places) {
    for (std::size_t i = 0; i < hint_sets().size(); ++i) {
      const std::string path = place.path + std::to_string(i);
      if (pattern.read_only) write_linear(path, pattern.file_bytes);
      row.add_file({place.name, path}, hint_sets()[i]);
    }
  }
}

// What Weir chooses from if accesses go by message.
const std::vector<HintSet>& collective_ways() {
  static const std::vector<HintSet> ways = {{"alone", {{"weir_collective", "alone"}}},
                                            {"two phases", {{"weir_collective", "two-phase"}}}};
  return ways;
}

// Collective; afterwards, nothing is left of a pattern.
void remove_files(const std::vector<std::string>& ours) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() != 0) return;
  for (const std::string& path : ours) MPI_File_delete(path.c_str(), MPI_INFO_NULL);
  remove_local_files();
}

void measure_calls(const Pattern& pattern, const Settings& settings) {
  if (pattern.name.find(settings.cases) == std::string::npos) return;
  const std::string ours = "weir:/mpiio_bench";
  const std::vector<Place> places = rival_places(settings);
  for (const bool collective : {false, true}) {
    for (const auto& [operation, name] : kOperations) {
      if (!is_asked(operation, name, settings)) continue;
      if (pattern.read_only && !only_reads(operation)) continue;
      Row row(settings, pattern, collective, operation, name);
      if (pattern.read_only) write_linear(ours, pattern.file_bytes);
      row.add_file({"weir", ours, true}, hint_sets().front());
      if (!settings.wire.empty()) {
        row.add_wire();
        row.measure();
        row.print();
        continue;
      }
      if (collective && settings.store != "memory") {
        for (const HintSet& way : collective_ways()) {
          const std::string path = ours + "." + way.hints.front().second;
          if (pattern.read_only) write_linear(path, pattern.file_bytes);
          row.add_file({"weir", path, true}, way);
        }
      }
      add_rivals(row, pattern, places);
      for (const Place& place : places)
        row.add_manual(place.name == "tmpfs" ? "manual" : "manual " + place.name, place.path + "manual");
      row.add_memcpy();
      row.measure();
      row.print();
    }
  }
  remove_files({ours, ours + ".alone", ours + ".two-phase"});
}

void measure_pattern(Pattern pattern, const Settings& settings) {
  measure_calls(pattern, settings);
  if (pattern.filetype != MPI_BYTE) MPI_Type_free(&pattern.filetype);
  if (pattern.memory_type != pattern.etype) MPI_Type_free(&pattern.memory_type);
}

// 76 decompositions of an array of 10^9 elements: views must cost next to nothing.
void measure_views(const Settings& settings) {
  if (std::string("set_view").find(settings.cases) == std::string::npos) return;
  MpiFile file("weir:/mpiio_bench_views", hint_sets().front(), true);
  constexpr int kViews = 76;
  std::vector<Pattern> patterns;
  for (int i = 0; i < kViews; ++i) {
    Pattern pattern;
    pattern.etype = MPI_FLOAT;
    const int width = 1 + i * 13;
    pattern.filetype = subarray({1000, 1000, 1000}, {1000 - i, width, 500 + i},
                                {i, std::max(0, 1000 - width - world_rank()), 2 * i}, MPI_FLOAT);
    patterns.push_back(pattern);
  }
  const double seconds = seconds_of([&] {
    for (const Pattern& pattern : patterns) file.set_view(pattern);
  });
  if (world_rank() == 0) {
    if (settings.json) {
      std::printf("{\"mpi\": \"%s\", \"ranks\": %d, \"case\": \"set_view\", \"views\": %d, \"milliseconds\": %.3f}\n",
                  WEIR_MPI_NAME, world_size(), kViews, seconds * 1e3);
    } else {
      std::printf("set_view of %d decompositions of 1000 x 1000 x 1000 floats: %.2f ms in all\n", kViews,
                  seconds * 1e3);
    }
  }
  for (Pattern& pattern : patterns) MPI_Type_free(&pattern.filetype);
}

// --- how files are stored ---------------------------------------------------------------------------------------------------------

// Only the memory of a store can be reached directly.
const char* way_to_servers(const Settings& settings) {
  const char* direct = std::getenv("WEIR_DIRECT");
  const bool is_off = direct != nullptr && std::strcmp(direct, "off") == 0;
  return is_off || settings.store != "memory" ? "by message" : "direct";
}

std::string describe(const Settings& settings) {
  return std::string(WEIR_MPI_NAME) + ", " + std::to_string(world_size()) + " ranks, " +
         std::to_string(settings.servers) + (settings.servers == 1 ? " server" : " servers") + " (" +
         way_to_servers(settings) + "), store " + settings.store + ", " + std::to_string(settings.repeats) + " repeats";
}

// One figure: a table by file size, and the curves of a plot.
class Figure {
 public:
  explicit Figure(std::string title) : title_(std::move(title)) {}

  void add(Offset file_bytes, bool collective, const char* operation, const std::vector<Cell>& cells) {
    const std::string way = collective ? "collective" : "independent";
    const double mebibytes = static_cast<double>(file_bytes) / 1048576.0;
    std::vector<std::string> row = {weir::bench::number(mebibytes, 0), way, operation};
    for (const Cell& cell : cells) row.push_back(weir::bench::number(cell.megabytes_per_second, 0));
    std::vector<std::string> columns = {"MiB", "way", "call"};
    for (const Cell& cell : cells) columns.push_back(cell.column);
    std::string hints;
    for (const Cell& cell : cells) {
      if (!is_compared(cell, cells)) continue;
      columns.push_back(cell.column + "/" + cells.front().column);
      row.push_back(weir::bench::number(cell.ratio.median, 2) + " [" + weir::bench::number(cell.ratio.low, 2) + ", " +
                    weir::bench::number(cell.ratio.high, 2) + "]");
      if (!cell.hints.empty()) hints += (hints.empty() ? "" : "; ") + cell.hints;
    }
    columns.emplace_back("hints");
    row.push_back(hints);
    table_.columns = std::move(columns);
    table_.rows.push_back(std::move(row));
    plot(way + " " + operation, mebibytes, cells);
  }

  [[nodiscard]] weir::bench::Table table(const Settings& settings) const {
    weir::bench::Table table = table_;
    table.title = title_ + ": " + describe(settings) + "; MB/s";
    return table;
  }
  [[nodiscard]] const std::vector<weir::bench::PlotPanel>& panels() const { return panels_; }

 private:
  // Of a place with hints, only the fastest.  The bound is for the eye.
  static bool is_compared(const Cell& cell, const std::vector<Cell>& cells) {
    if (&cell == &cells.front() || cell.column == "memcpy") return false;
    return std::none_of(cells.begin(), cells.end(),
                        [&](const Cell& other) { return other.column == cell.column + " best"; });
  }

  void plot(const std::string& call, double mebibytes, const std::vector<Cell>& cells) {
    const std::string title = title_ + ", " + call;
    auto panel = std::find_if(panels_.begin(), panels_.end(), [&](const auto& one) { return one.title == title; });
    if (panel == panels_.end()) {
      panels_.push_back({title, "file, MiB", "MB/s", false, {}});
      panel = panels_.end() - 1;
      for (const Cell& cell : cells) panel->series.push_back({cell.column, {}});
    }
    for (std::size_t i = 0; i < cells.size(); ++i)
      panel->series[i].points.push_back({mebibytes, cells[i].megabytes_per_second});
  }

  std::string title_;
  weir::bench::Table table_;
  std::vector<weir::bench::PlotPanel> panels_;
};

void measure_storage(Pattern pattern, const Settings& settings, Figure& figure) {
  const std::string ours = "weir:/mpiio_bench_";
  const std::vector<Place> places = rival_places(settings);
  for (const bool collective : {false, true}) {
    for (const auto& [operation, name] : kOperations) {
      if (!is_asked(operation, name, settings)) continue;
      Row row(settings, pattern, collective, operation, name);
      row.add_file({"view", ours + "view", true}, {"default", {{"weir_layout", "view"}}});
      row.add_file({"block", ours + "block", true}, hint_sets().front());
      add_rivals(row, pattern, places);
      row.add_memcpy();
      row.measure();
      if (settings.json) row.print();
      if (world_rank() == 0) figure.add(pattern.file_bytes, collective, name, row.cells());
    }
  }
  remove_files({ours + "view", ours + "block"});
  MPI_Type_free(&pattern.filetype);
}

// plot.svg becomes plot-4.svg: each number of ranks is a run of its own.
std::string with_ranks(const std::string& file) {
  const std::size_t dot = file.rfind('.');
  const std::size_t at = dot == std::string::npos || file.find('/', dot) != std::string::npos ? file.size() : dot;
  return file.substr(0, at) + "-" + std::to_string(world_size()) + file.substr(at);
}

Figure measure_figure(const std::string& title, bool is_strided, const Settings& settings) {
  Figure figure(title);
  for (int edge = 64; Offset{4} * edge * edge * edge <= settings.file_bytes; edge *= 2) {
    const std::vector<int> shape =
        is_strided ? std::vector<int>{edge, edge, edge} : std::vector<int>{edge * edge * edge};
    measure_storage(subcubes(title, shape, MPI_INT, 4), settings, figure);
  }
  return figure;
}

void run_tables(const Settings& settings) {
  std::vector<weir::bench::PlotPanel> panels;
  for (const bool is_strided : {false, true}) {
    const std::string title = is_strided ? "strided" : "contiguous";
    if (title.find(settings.cases) == std::string::npos) continue;
    const Figure figure = measure_figure(title, is_strided, settings);
    if (world_rank() != 0) continue;
    panels.insert(panels.end(), figure.panels().begin(), figure.panels().end());
    if (!settings.json) weir::bench::print_text({figure.table(settings)});
    std::fflush(stdout);
  }
  if (world_rank() == 0 && !settings.svg.empty())
    weir::bench::write_file(with_ranks(settings.svg), weir::bench::draw_panels(describe(settings), panels, 3));
}

// Against the wire: what matters is how long the pieces are.
void run_over_network(const Settings& settings) {
  const int quarter = std::max(8, cube_edge(settings, 8 * 512) / 2 * 2);  // rows of 512 elements, 4 KiB
  measure_pattern(contiguous(settings.bytes_per_rank * world_size()), settings);
  measure_pattern(blocks(settings), settings);
  measure_pattern(subcubes("4-D, rows of 4 KiB", {quarter, quarter, quarter, 512}, MPI_DOUBLE, 8), settings);
  measure_pattern(cyclic(settings, 4), settings);
}

void run(const Settings& settings) {
  if (world_rank() == 0 && !settings.json) {
    std::printf("%s, %.1f MiB per rank\n", describe(settings).c_str(),
                static_cast<double>(settings.bytes_per_rank) / 1048576.0);
    std::printf("%-24s %-11s %-8s %-12s %9s %9s %8s  %s\n", "case", "way", "call", "contender", "ms", "MB/s", "ratio",
                "quartiles, hints");
  }
  const BusyLoops busy(settings.busy);
  if (!settings.wire.empty()) return run_over_network(settings);
  measure_views(settings);
  const auto print = [&](const CallRow& row) { print_call(row, settings); };
  measure_small_calls(settings, print);
  measure_transfers(settings, print);
  const int cube = cube_edge(settings, 4);
  const int quarter = std::max(8, cube_edge(settings, 8 * 512) / 2 * 2);  // rows of 512 elements, 4 KiB
  measure_pattern(contiguous(settings.bytes_per_rank * world_size()), settings);
  measure_pattern(blocks(settings), settings);
  measure_pattern(columns_of_blocks(settings), settings);
  for (const int k : {1, 4, 8, 32, 64}) measure_pattern(cyclic(settings, k), settings);
  measure_pattern(subcubes("3-D ints", {cube, cube, cube}, MPI_INT, 4), settings);
  measure_pattern(subcubes("4-D, rows of 4 KiB", {quarter, quarter, quarter, 512}, MPI_DOUBLE, 8), settings);
  measure_pattern(scattered(), settings);
  measure_pattern(overlapping_tiles(settings), settings);
  measure_pattern(memory_gaps(settings), settings);
  measure_pattern(checkpoint(settings), settings);
}

constexpr const char* kUsage =
    "usage: mpiio_bench [--tables] [--mb N] [--repeats N] [--case TEXT] [--only write|rewrite|read|durable|cold]\n"
    "                   [--tmpfs DIR] [--disk DIR] [--limit SECONDS] [--rest MS] [--busy N] [--json]\n"
    "                   [--quick]\n"
    "                   [--file-mb N] [--svg FILE] [--store TEXT] [--servers N]\n"
    "       mpiio_bench --serve-wire ADDRESS FILE\n"
    "`weir bench mpiio --help` says what they mean.  --store and --servers are what `weir run` was told, to be "
    "reported.\n";

bool is_operation(const std::string& text) {
  return std::any_of(std::begin(kOperations), std::end(kOperations),
                     [&](const auto& operation) { return text == operation.second; });
}

Settings parse_arguments(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string text = i + 1 < argc ? argv[i + 1] : "";
    const double value = std::atof(text.c_str());
    if (argument == "--help" || argument == "-h") {
      if (world_rank() == 0) std::fputs(kUsage, stdout);
      MPI_Finalize();
      std::exit(0);
    }
    if (argument == "--quick") {
      settings.bytes_per_rank = Offset{1} << 20;
      settings.repeats = 2;
      continue;
    }
    if (argument == "--json" || argument == "--tables") {
      (argument == "--json" ? settings.json : settings.tables) = true;
      continue;
    }
    require(!text.empty(), kUsage);
    ++i;
    if (argument == "--mb" && value > 0 && value <= 512) {
      settings.bytes_per_rank = static_cast<Offset>(value * 1048576.0) / 4096 * 4096;
    } else if (argument == "--repeats" && value >= 1) {
      settings.repeats = static_cast<int>(value);
    } else if (argument == "--limit" && value > 0) {
      settings.limit_seconds = value;
    } else if (argument == "--rest" && value >= 0 && value <= 10000) {
      settings.rest_ms = static_cast<int>(value);
    } else if (argument == "--busy" && value >= 0 && value <= 1000) {
      settings.busy = static_cast<int>(value);
    } else if (argument == "--case") {
      settings.cases = text;
    } else if (argument == "--only" && is_operation(text)) {
      settings.operations = text;
    } else if (argument == "--file-mb" && value >= 1 && value <= 512) {
      settings.file_bytes = static_cast<Offset>(value * 1048576.0);
    } else if (argument == "--svg") {
      settings.svg = text;
    } else if (argument == "--store") {
      settings.store = text;
    } else if (argument == "--servers" && value >= 1) {
      settings.servers = static_cast<int>(value);
    } else if (argument == "--tmpfs") {
      settings.tmpfs = text;
    } else if (argument == "--disk") {
      settings.disk = text;
    } else if (argument == "--wire") {
      settings.wire = text;
    } else {
      give_up(kUsage);
    }
  }
  return settings;
}

}  // namespace
}  // namespace weir::mpiio_bench

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--serve-wire") == 0) weir::mpiio_bench::serve_wire(argv[2], argv[3]);
  MPI_Init(&argc, &argv);
  const auto settings = weir::mpiio_bench::parse_arguments(argc, argv);
  settings.tables ? weir::mpiio_bench::run_tables(settings) : weir::mpiio_bench::run(settings);
  MPI_Finalize();
  return 0;
}
