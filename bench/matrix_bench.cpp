// A matrix of bytes, written by four workers in blocks of rows (r) to a file of four subfiles: blocks of columns (c),
// squares (b), rows (r).  The phases of a write by message, as the parallel file model's experiment has them.

#include <algorithm>
#include <chrono>
#include <cstring>

#include <weir/base/text.h>
#include <weir/layout/language.h>
#include <weir/transfer/route.h>

#include "fs_report.h"
#include "fs_team.h"

namespace weir::bench {
namespace {

using layout::Element;
using layout::Partition;
using layout::Range;
using transfer::Route;

constexpr std::string_view kHelp =
    "usage: matrix_bench [--quick] [--json] [--svg FILE]\n"
    "\n"
    "Four workers write a matrix of N x N bytes, N = 256 to 8192 (--quick: to 2048), each its block of rows, to\n"
    "four servers with memory stores and to four with disk stores (below TMPDIR).  Layouts: c blocks of columns,\n"
    "b squares, r blocks of rows.  Times are medians over repetitions, means over workers.\n"
    "  t_i     intersect the view with the subfiles, once per view\n"
    "  t_m     map the ends of the access to the subfiles\n"
    "  t_g     gather what is not contiguous in the view\n"
    "  t_w     the write call by message, t_m and t_g included, until the last answer\n"
    "  t_disk  the same to disk stores, and sync\n"
    "  t_d     the write call without messages, straight to the memory of the servers\n"
    "  t_s     scatter at the target\n"
    "  --svg FILE  plots\n";

struct Layout {
  const char* name;
  const char* dist;
  const char* grid;
};
constexpr Layout kLayouts[] = {{"c", "*,BLOCK", "1,4"}, {"b", "BLOCK,BLOCK", "2,2"}, {"r", "BLOCK,*", "4,1"}};

Partition matrix(Offset edge, const Layout& layout) {
  return expect(layout::parse(
      concat("hpf(shape=[", edge, ",", edge, "], elem=1, dist=(", layout.dist, "), grid=[", layout.grid, "])")));
}

double median(std::vector<double> values) { return spread_of(std::move(values)).median; }

// Of one worker, in seconds.
struct Phases {
  double intersect = 0;
  double map = 0;
  double gather = 0;
  double scatter = 0;
  double write = 0;
  double write_disk = 0;
  double write_direct = 0;
  double targets = 0;  // that the worker writes to
};

class MatrixBench {
 public:
  MatrixBench(const Team& team, bool is_quick)
      : team_(team),
        is_quick_(is_quick),
        by_message_(team.connect(0, false)),
        direct_(team.connect(0, true)),
        disk_(team.connect(1, false)) {}

  std::vector<Table> run() {
    Table compute{"Write timing at a worker, microseconds",
                  {"size", "layout", "view", "t_i", "t_m", "t_g", "t_w", "t_disk", "t_d"},
                  {},
                  ""};
    Table target{"Write timing at a target, microseconds", {"size", "layout", "view", "contention", "t_s"}, {}, ""};
    Table rates{"Throughput of a worker, MB/s",
                {"size", "layout", "view", "message", "gain %", "disk", "gain %", "direct", "gain %"},
                {},
                "Gain: of the rate with layout c.  Four workers and four servers share the processors of this host."};
    for (Offset edge = 256; edge <= (is_quick_ ? 2048 : 8192); edge *= 2) {
      Phases worst;
      for (const Layout& layout : kLayouts) {
        const Phases phases = measure(edge, layout);
        const std::vector<std::string> what{std::to_string(edge), layout.name, "r"};
        compute.rows.push_back(row(
            what, {phases.intersect, phases.map, phases.gather, phases.write, phases.write_disk, phases.write_direct}));
        target.rows.push_back(row(what, {phases.targets * 1e-6, phases.scatter}));
        if (&layout == kLayouts) worst = phases;
        rates.rows.push_back(what);
        const double bytes = static_cast<double>(edge * edge) / team_.size();
        for (const auto time : {&Phases::write, &Phases::write_disk, &Phases::write_direct}) {
          rates.rows.back().push_back(number(bytes / phases.*time / 1e6, 1));
          rates.rows.back().push_back(number(100 * worst.*time / phases.*time, 0));
        }
        plot(static_cast<double>(edge), layout, phases);
      }
    }
    return {compute, target, rates};
  }

  [[nodiscard]] std::string plots() const {
    return draw_panels("Phases of a write: view r, layouts c, b, r", panels_, 2);
  }

 private:
  static std::vector<std::string> row(std::vector<std::string> cells, const std::vector<double>& seconds) {
    for (const double value : seconds) cells.push_back(number(1e6 * value, 1));
    return cells;
  }

  Phases measure(Offset edge, const Layout& layout) {
    const Partition subfiles = matrix(edge, layout);
    const Element view = expect(matrix(edge, kLayouts[2]).element(team_.rank()));
    Phases phases;
    team_.in_turn([&] { measure_alone(subfiles, view, phases); });
    phases.write = seconds_of_write(by_message_, subfiles, view, false);
    phases.write_direct = seconds_of_write(direct_, subfiles, view, false);
    phases.write_disk = seconds_of_write(disk_, subfiles, view, true);
    for (const auto field : {&Phases::intersect, &Phases::map, &Phases::gather, &Phases::scatter, &Phases::targets}) {
      phases.*field = team_.mean(phases.*field);
    }
    return phases;
  }

  // What needs no servers, while the other workers rest.
  void measure_alone(const Partition& subfiles, const Element& view, Phases& phases) const {
    const int calls = is_quick_ ? 21 : 51;
    std::vector<Element> elements;
    for (Offset i = 0; i < subfiles.element_count(); ++i) elements.push_back(expect(subfiles.element(i)));
    std::vector<Route> packings;
    phases.intersect = median(times_of(calls, [&] {
      packings.clear();
      for (const Element& subfile : elements) {
        const layout::Mapping mapping = expect(layout::intersect(view, subfile));
        if (!mapping.is_empty()) packings.push_back(expect(Route::create(mapping)));
      }
    }));
    phases.targets = static_cast<double>(packings.size());
    const Range range{0, view.size()};
    constexpr int kMaps = 100;  // one alone is near the clock's resolution
    volatile Offset sink = 0;
    phases.map = median(times_of(calls,
                                 [&] {
                                   for (int i = 0; i < kMaps; ++i) {
                                     for (const Route& packing : packings) sink = packing.extent_b(range).to;
                                   }
                                 })) /
                 kMaps;
    (void)sink;
    const Buffer user(view.size());
    const Buffer message(view.size());
    const Buffer subfile(view.size() * 4);
    phases.gather = median(times_of(calls, [&] {
      for (const Route& packing : packings) {
        if (!packing.direct_a(range)) packing.pack_a({user.data(), 0}, range, message.data());
      }
    }));
    // A target gets as many bytes as a worker sends, from all of them together.
    phases.scatter = median(times_of(calls, [&] {
      for (const Route& packing : packings) packing.unpack_b(message.data(), range, {subfile.data(), 0});
    }));
  }

  double seconds_of_write(const client::FileSystem& system, const Partition& subfiles, const Element& view,
                          bool with_sync) const {
    if (team_.is_first()) {
      (void)system.remove("/matrix");
      (void)expect(system.create("/matrix", subfiles));
    }
    team_.barrier();
    const client::File file = expect(system.open("/matrix"));
    const client::View bound = expect(file.view(view));
    const Buffer memory(view.size());
    for (Offset i = 0; i < view.size(); ++i) memory.data()[i] = static_cast<std::byte>((i ^ team_.rank()) * 31 >> 3);
    const auto write = [&] {
      expect(bound.write(0, memory.span()));
      if (with_sync) expect(file.sync());
    };
    check(bound, memory, write);
    const int repeats = with_sync ? 1 : team_.repeats_for(write, 0.002);
    std::vector<double> times;
    for (int i = 0; i < (with_sync ? 3 : is_quick_ ? 5 : 11); ++i)
      times.push_back(team_.time(write, repeats) / repeats);
    return median(std::move(times));
  }

  void check(const client::View& bound, const Buffer& memory, const std::function<void()>& write) const {
    write();
    team_.barrier();
    const Buffer got(static_cast<Offset>(memory.span().size()));
    expect(bound.read(0, got.span()));
    if (std::memcmp(got.data(), memory.data(), memory.span().size()) != 0) give_up("matrix: other bytes came back");
    team_.barrier();
  }

  void plot(double edge, const Layout& layout, const Phases& phases) {
    const auto add = [&](const char* title, double seconds) {
      auto panel = std::find_if(panels_.begin(), panels_.end(), [&](const PlotPanel& p) { return p.title == title; });
      if (panel == panels_.end()) {
        panels_.push_back({title, "edge of the matrix, bytes", "microseconds", true, {}});
        for (const Layout& one : kLayouts) panels_.back().series.push_back({concat("layout ", one.name), {}});
        panel = panels_.end() - 1;
      }
      if (seconds > 0)
        panel->series[static_cast<std::size_t>(&layout - kLayouts)].points.push_back({edge, 1e6 * seconds});
    };
    add("t_i: intersect", phases.intersect);
    add("t_m: map", phases.map);
    add("t_g: gather (none for r)", layout.name[0] == 'r' ? 0 : phases.gather);
    add("t_w: write by message", phases.write);
    add("t_disk: write to disk stores, and sync", phases.write_disk);
    add("t_d: write, direct", phases.write_direct);
  }

  const Team& team_;
  bool is_quick_;
  client::FileSystem by_message_;
  client::FileSystem direct_;
  client::FileSystem disk_;
  std::vector<PlotPanel> panels_;
};

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  const Arguments arguments = parse_arguments(argc, argv, kHelp);
  TeamOptions options;
  options.workers = 4;
  options.servers = 4;
  options.stores = {"memory", "disk:"};
  return run_team(options, [&](Team& all, Team*) {
    MatrixBench bench(all, arguments.is_quick);
    const auto tables = bench.run();
    if (!all.is_first()) return;
    arguments.is_json ? print_json(tables) : print_text(tables);
    if (!arguments.svg.empty()) write_file(arguments.svg, bench.plots());
  });
}
