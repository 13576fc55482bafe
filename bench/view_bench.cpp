// Reads and writes through views: against memcpy, and against the other ways to a process's part of a matrix.

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include <sys/socket.h>
#include <unistd.h>

#include <weir/base/text.h>
#include <weir/layout/language.h>

#include "fs_methods.h"
#include "fs_report.h"

namespace weir::bench {
namespace {

using client::File;
using client::FileSystem;
using client::View;
using layout::Element;
using layout::Partition;

constexpr std::string_view kHelp =
    "usage: view_bench [--quick] [--json] [--svg FILE] [goals|methods]\n"
    "\n"
    "Servers with memory stores, and workers, each a process of its own on this host.\n"
    "  goals      two workers: view reads and writes as ratios to memcpy of as many bytes by both;\n"
    "             declaring views; small reads\n"
    "  methods    four workers, a matrix of bytes: aggregate throughput of view I/O, list I/O, data\n"
    "             sieving and two-phase I/O, what each sends, and what declaring the views costs\n"
    "  --svg FILE plots of the methods\n"
    "Ratios are medians with quartiles of neighbouring turns; 1 means as fast as the rival.\n";

Partition parse(const std::string& text) { return expect(layout::parse(text)); }

Partition matrix(Offset edge, Offset elem, const std::string& dist, const std::string& grid) {
  return parse(concat("hpf(shape=[", edge, ",", edge, "], elem=", elem, ", dist=(", dist, "), grid=[", grid, "])"));
}

// ---------------------------------------------------------------- goals

constexpr Offset kEdge = 2048;
constexpr Offset kBytes = kEdge * kEdge * 8 / 2;  // of each of two workers: 16 MiB

// The columns of a worker one after the other: a part of the matrix, transposed.
Element transposed_columns(Offset edge, int rank) {
  const Offset first = rank * edge / 2 * 8;
  return expect(Element::create({{first, first + (edge - 1) * edge * 8 + 7, 8, edge / 2, {{0, 7, edge * 8, edge, {}}}}},
                                {.disp = 0, .period = edge * edge * 8}));
}

class GoalBench {
 public:
  GoalBench(const Team& team, bool is_quick)
      : team_(team),
        is_quick_(is_quick),
        direct_(team.connect(0, true)),
        by_message_(team.connect(0, false)),
        ours_(kBytes),
        other_(kBytes),
        goals_("Two workers, servers on the same host with memory stores, 16 MiB each, warm",
               "Ratios are to memcpy of as many bytes by two processes, between memory of their own.") {}

  Table run() {
    const Partition rows = matrix(kEdge, 8, "BLOCK,*", "2,1");
    const Partition columns = matrix(kEdge, 8, "*,BLOCK", "1,2");
    const Partition cyclic = matrix(kEdge, 8, "*,CYCLIC", "1,2");
    const Element my_columns = expect(columns.element(team_.rank()));
    const Element my_cyclic = expect(cyclic.element(team_.rank()));
    const Element transposed = transposed_columns(kEdge, team_.rank());
    own_copy();
    for (const bool is_direct : {true, false}) {
      const std::string how = is_direct ? "direct" : "by message";
      throughput(how + ", matching columns", is_direct, columns, my_columns, is_direct ? 0.8 : 0);
      throughput(how + ", blocks of columns on rows", is_direct, rows, my_columns, is_direct ? 0.4 : 0);
      throughput(how + ", cyclic columns of 8 B on rows", is_direct, rows, my_cyclic, is_direct ? 0.4 : 0);
      throughput(how + ", columns in column order on rows", is_direct, rows, transposed, is_direct ? 0.4 : 0);
    }
    for (const bool is_direct : {true, false}) declaring(is_direct);
    small_reads();
    return goals_.table();
  }

 private:
  File file_of(const FileSystem& system, const Partition& layout) {
    if (team_.is_first()) {
      (void)system.remove("/goal");
      (void)expect(system.create("/goal", layout));
    }
    team_.barrier();
    return expect(system.open("/goal"));
  }

  void throughput(const std::string& name, bool is_direct, const Partition& layout, const Element& element,
                  double wanted) {
    const View view = expect(file_of(is_direct ? direct_ : by_message_, layout).view(element));
    const auto memcpy_all = [&] { std::memcpy(other_.data(), ours_.data(), static_cast<std::size_t>(kBytes)); };
    const auto write = [&] { expect(view.write(0, ours_.span())); };
    const auto read = [&] { expect(view.read(0, ours_.span())); };
    check(name, view);
    const int turns = is_quick_ ? 5 : 15;
    const double turn_seconds = is_quick_ ? 0.01 : 0.02;
    goals_.at_least("write " + name, "memcpy", team_.compare(write, memcpy_all, turns, turn_seconds), wanted);
    goals_.at_least("read " + name, "memcpy", team_.compare(read, memcpy_all, turns, turn_seconds), wanted);
    const client::AccessReport report = view.report();
    if (is_direct && report.direct_bytes * 10 < report.moved_bytes * 9) give_up(name + ": bytes went by message");
  }

  // Memcpy keeps to the caches where a plan writes around them: how much of the ratios below is that.
  void own_copy() {
    const auto bytes = static_cast<std::size_t>(kBytes);
    const Element all = expect(Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1}));
    const transfer::Plan plan = expect(transfer::Plan::gather(all));
    goals_.at_least("plan between memory of the process, no file", "memcpy",
                    team_.compare(
                        [&] {
                          plan.run({ours_.data(), 0}, {other_.data(), 0}, {0, kBytes});
                        },
                        [&] { std::memcpy(other_.data(), ours_.data(), bytes); }, is_quick_ ? 5 : 15, 0.02),
                    0);
  }

  void check(const std::string& name, const View& view) {
    for (std::size_t i = 0; i < ours_.span().size(); ++i) ours_.data()[i] = static_cast<std::byte>(i * 31 >> 3);
    expect(view.write(0, ours_.span()));
    expect(view.read(0, other_.span()));
    if (std::memcmp(ours_.data(), other_.data(), ours_.span().size()) != 0) give_up(name + ": other bytes came back");
  }

  // One worker declares views of rows on a layout of columns, and of columns in 8-byte pieces on rows.
  void declaring(bool is_direct) {
    const std::string how = is_direct ? "direct" : "by message";
    const auto measure = [&](Offset edge, const char* view, const char* view_grid, const char* layout,
                             const char* layout_grid, double* access_seconds) {
      const File file = file_of(is_direct ? direct_ : by_message_, matrix(edge, 8, layout, layout_grid));
      const Element element = expect(matrix(edge, 8, view, view_grid).element(0));
      Ratio seconds;
      if (team_.is_first()) {
        if (access_seconds != nullptr) *access_seconds = seconds_of_access(file, element);
        expect(file.preallocate(edge * edge * 8));
        seconds = microseconds(is_quick_ ? 50 : 200, [&] { return seconds_to_set_view(file, element); });
      }
      team_.barrier();
      return seconds;
    };
    double access = 1;
    Ratio set = measure(kEdge, "*,BLOCK", "1,2", "BLOCK,*", "2,1", &access);
    goals_.at_most(concat("set_view ", how, ", columns on rows"), "us", set, 0);
    goals_.at_most(concat("  of one write of 16 MiB"), "%", scaled(set, 1e-4 / access), 1);
    set = measure(kEdge, "*,CYCLIC", "1,2", "BLOCK,*", "2,1", &access);
    goals_.at_most(concat("set_view ", how, ", cyclic columns on rows"), "us", set, 0);
    goals_.at_most(concat("  of one write of 16 MiB"), "%", scaled(set, 1e-4 / access), 1);
    const Ratio small = measure(256, "*,BLOCK", "1,2", "BLOCK,*", "2,1", nullptr);
    const Ratio large = measure(8192, "*,BLOCK", "1,2", "BLOCK,*", "2,1", nullptr);
    goals_.at_most(concat("set_view ", how, ", edge 256"), "us", small, 0);
    goals_.at_most(concat("set_view ", how, ", edge 8192"), "us", large, 0);
    goals_.at_most("  of that for edge 256", "times", scaled(large, 1 / std::max(small.median, 1e-3)), 1.25);
  }

  double seconds_of_access(const File& file, const Element& element) {
    const View view = expect(file.view(element));
    const auto write = [&] { expect(view.write(0, ours_.span())); };
    write();
    return spread_of(times_of(11, write)).median;
  }

  void small_reads() {
    for (const bool is_direct : {true, false}) {
      const File file = file_of(is_direct ? direct_ : by_message_, parse("stripe(unit=64K, over=4)"));
      if (team_.is_first()) {
        const View view = expect(file.linear());
        for (Offset at = 0; at < 4 * kBytes; at += kBytes) expect(view.write(at, ours_.span()));
        if (is_direct) {
          goals_.at_most("read of 64 B at random, direct", "us", reads(view, is_quick_ ? 20000 : 100000, false), 2);
        } else {
          goals_.at_most("read of 64 B at random, by message", "us", reads(view, is_quick_ ? 2000 : 10000, false), 30);
          const int calls = is_quick_ ? 200 : 800;
          goals_.at_most("  after 2 ms of rest, servers asleep", "us", reads(view, calls, true), 30);
          goals_.at_most("  a byte to a sleeping thread and back by a socket, the same rest", "us", wakes(calls), 0);
        }
      }
      team_.barrier();
    }
  }

  Ratio reads(const View& view, int calls, bool with_rest) {
    std::uint64_t random = 1;
    return microseconds(calls, [&] {
      if (with_rest) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      random = random * 6364136223846793005u + 1442695040888963407u;
      const auto from = static_cast<Offset>((random >> 33) % static_cast<std::uint64_t>(4 * kBytes - 64));
      const double start = now_seconds();
      expect(view.read(from, other_.span().first(64)));
      return now_seconds() - start;
    });
  }

  // What this machine needs to wake a sleeper.
  static Ratio wakes(int calls) {
    int sockets[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return {};
    std::thread sleeper([socket = sockets[1]] {
      for (char byte = 0; ::read(socket, &byte, 1) == 1;) {
        if (::write(socket, &byte, 1) != 1) return;
      }
    });
    const Ratio times = microseconds(calls, [socket = sockets[0]] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      char byte = 0;
      const double start = now_seconds();
      if (::write(socket, &byte, 1) != 1) return 0.0;
      while (::recv(socket, &byte, 1, MSG_DONTWAIT) != 1) {
      }
      return now_seconds() - start;
    });
    ::shutdown(sockets[0], SHUT_RDWR);
    sleeper.join();
    for (const int socket : sockets) ::close(socket);
    return times;
  }

  template <typename Measure>
  static Ratio microseconds(int calls, Measure measure) {
    std::vector<double> times;
    for (int i = 0; i < calls; ++i) times.push_back(measure() * 1e6);
    return spread_of(std::move(times));
  }

  static Ratio scaled(const Ratio& value, double factor) {
    return {value.median * factor, value.low * factor, value.high * factor};
  }

  const Team& team_;
  bool is_quick_;
  FileSystem direct_;
  FileSystem by_message_;
  Buffer ours_;
  Buffer other_;
  Goals goals_;
};

// ---------------------------------------------------------------- methods

struct Pattern {
  const char* name;
  const char* dist;
  const char* grid;
  Offset parts;  // blocks of a cyclic distribution along an edge; 0: not cyclic
};

constexpr Pattern kPatterns[] = {
    {"(BLOCK,BLOCK)", "BLOCK,BLOCK", "2,2", 0}, {"(*,BLOCK)", "*,BLOCK", "1,4", 0}, {"(CYCLIC,CYCLIC)", "", "2,2", 16}};

Partition views_of(const Pattern& pattern, Offset edge) {
  if (pattern.parts == 0) return matrix(edge, 1, pattern.dist, pattern.grid);
  const std::string cyclic = concat("CYCLIC(", edge / pattern.parts, ")");
  return matrix(edge, 1, cyclic + "," + cyclic, pattern.grid);
}

class MethodBench {
 public:
  MethodBench(const Team& team, bool is_quick)
      : team_(team), is_quick_(is_quick), direct_(team.connect(0, true)), by_message_(team.connect(0, false)) {
    throughput_ = {"Aggregate throughput, MB/s", {"views", "layout", "", "edge"}, {}, ""};
    for (const std::string& name : Part::methods()) throughput_.columns.push_back(name);
    for (const char* name : {"view/best other", "low", "high"}) throughput_.columns.emplace_back(name);
    throughput_.note =
        "A matrix of edge x edge bytes, four workers, four servers; all but the last method by message.\n"
        "Best other: the fastest of list, sieving and two-phase.";
    costs_ = {
        "What one write of the whole matrix costs, views declared again included",
        {"views", "layout", "edge", "method", "calls", "messages", "index bytes", "index %", "extra bytes", "extra %"},
        {},
        "Extra bytes: moved beyond the matrix; for two-phase those that processes exchange."};
    declaring_ = {"Declaring a view, by message",
                  {"views", "layout", "edge", "us", "low", "high", "% of a write", "% of a read"},
                  {},
                  "One worker declares while the others rest; an access is that of all four."};
    speedup_ = {"Matching layout against stripes: throughput ratio", {"views", "", "edge"}, {}, ""};
    for (const std::string& name : Part::methods()) speedup_.columns.push_back(name);
  }

  std::vector<Table> run() {
    for (const Pattern& pattern : kPatterns) {
      for (const bool is_matching : {false, true}) {
        for (Offset edge = is_quick_ ? 1024 : 256; edge <= 4096; edge *= is_quick_ ? 4 : 2) {
          measure(pattern, is_matching, edge);
        }
      }
    }
    return {throughput_, speedup_, costs_, declaring_};
  }

  [[nodiscard]] std::string plots() const {
    return draw_panels("Aggregate throughput of four workers and four servers on one host", panels_, 2);
  }

 private:
  static constexpr std::size_t kRead = 1;

  void measure(const Pattern& pattern, bool is_matching, Offset edge) {
    const Partition views = views_of(pattern, edge);
    const Partition layout = is_matching ? views : parse("stripe(unit=64K, over=4)");
    Part part(team_, by_message_, direct_, layout, views);
    const std::string layout_name = is_matching ? "matching" : "64K stripes";
    for (std::size_t method = 0; method < Part::methods().size(); ++method) part.check(method);
    double access_seconds[2] = {};
    for (const std::size_t op : {std::size_t{0}, kRead}) {
      const auto times = times_of_methods(part, op == kRead);
      access_seconds[op] = median(times[0]);
      add_throughput(pattern, is_matching, edge, op, times, static_cast<double>(part.file_bytes()));
    }
    if (edge == 1024 || edge == 4096) add_costs({pattern.name, layout_name, std::to_string(edge)}, part);
    add_declaring({pattern.name, layout_name, std::to_string(edge)}, part, access_seconds);
  }

  // Turn by turn, so that whatever else the machine does hits all methods.
  std::vector<std::vector<double>> times_of_methods(Part& part, bool is_read) {
    const std::size_t methods = Part::methods().size();
    std::vector<int> repeats(methods);
    const auto work = [&](std::size_t method) {
      return [&part, method, is_read] { is_read ? part.read(method) : part.write(method); };
    };
    for (std::size_t i = 0; i < methods; ++i) repeats[i] = team_.repeats_for(work(i), is_quick_ ? 0.002 : 0.004);
    std::vector<std::vector<double>> times(methods);
    for (int turn = 0; turn < (is_quick_ ? 5 : 9); ++turn) {
      for (std::size_t i = 0; i < methods; ++i) times[i].push_back(team_.time(work(i), repeats[i]) / repeats[i]);
    }
    return times;
  }

  static double median(const std::vector<double>& values) { return spread_of(values).median; }

  void add_throughput(const Pattern& pattern, bool is_matching, Offset edge, std::size_t op,
                      const std::vector<std::vector<double>>& times, double bytes) {
    const std::string op_name = op == kRead ? "read" : "write";
    std::vector<std::string> row{pattern.name, is_matching ? "matching" : "64K stripes", op_name, std::to_string(edge)};
    std::vector<std::string> speedups{pattern.name, op_name, std::to_string(edge)};
    const std::string title =
        concat(op_name, ", views ", pattern.name, ", ", is_matching ? "matching layout" : "64K stripes");
    for (std::size_t i = 0; i < times.size(); ++i) {
      const double rate = bytes / median(times[i]) / 1e6;
      row.push_back(number(rate, 0));
      panel(title).series[i].points.push_back({static_cast<double>(edge), rate});
      double& striped = striped_[concat(pattern.name, op, edge, ".", i)];
      if (!is_matching) striped = rate;
      speedups.push_back(number(rate / striped, 2));
    }
    if (is_matching) speedup_.rows.push_back(std::move(speedups));
    const Ratio ratio = to_best_other(times);
    for (const double value : {ratio.median, ratio.low, ratio.high}) row.push_back(number(value, 2));
    throughput_.rows.push_back(std::move(row));
  }

  static Ratio to_best_other(const std::vector<std::vector<double>>& times) {
    std::size_t best = 1;
    for (std::size_t i = 2; i + 1 < times.size(); ++i) {
      if (median(times[i]) < median(times[best])) best = i;
    }
    std::vector<double> ratios;
    for (std::size_t turn = 0; turn < times[0].size(); ++turn) ratios.push_back(times[best][turn] / times[0][turn]);
    return spread_of(std::move(ratios));
  }

  PlotPanel& panel(const std::string& title) {
    for (PlotPanel& known : panels_) {
      if (known.title == title) return known;
    }
    panels_.push_back({title, "edge of the matrix, bytes", "MB/s", false, {}});
    for (const std::string& name : Part::methods()) panels_.back().series.push_back({name, {}});
    return panels_.back();
  }

  void add_costs(const std::vector<std::string>& what, Part& part) {
    const auto bytes = static_cast<double>(part.file_bytes());
    for (std::size_t method = 0; method + 1 < Part::methods().size(); ++method) {
      const Costs costs = part.costs_of_write(method);
      std::vector<std::string> row = what;
      row.push_back(Part::methods()[method]);
      for (const double value : {costs.calls, costs.messages, costs.index_bytes}) row.push_back(number(value, 0));
      row.push_back(number(100 * costs.index_bytes / bytes, 2));
      row.push_back(number(costs.extra_bytes, 0));
      row.push_back(number(100 * costs.extra_bytes / bytes, 0));
      costs_.rows.push_back(std::move(row));
    }
  }

  void add_declaring(std::vector<std::string> row, Part& part, const double (&access_seconds)[2]) {
    std::vector<double> times;
    for (int i = 0; team_.is_first() && i < (is_quick_ ? 20 : 50); ++i) times.push_back(part.seconds_to_set_view());
    team_.barrier();
    if (!team_.is_first()) return;
    const Ratio seconds = spread_of(std::move(times));
    for (const double value : {seconds.median, seconds.low, seconds.high}) row.push_back(number(1e6 * value, 1));
    for (const double access : access_seconds) row.push_back(number(100 * seconds.median / access, 2));
    declaring_.rows.push_back(std::move(row));
  }

  const Team& team_;
  bool is_quick_;
  FileSystem direct_;
  FileSystem by_message_;
  Table throughput_;
  Table speedup_;
  Table costs_;
  Table declaring_;
  std::map<std::string, double> striped_;  // MB/s by case
  std::vector<PlotPanel> panels_;
};

void run(const Arguments& arguments, Team& all, Team* pair) {
  std::vector<Table> tables;
  if (arguments.text != "methods" && pair != nullptr) {
    tables.push_back(GoalBench(*pair, arguments.is_quick).run());
  }
  all.barrier();
  if (arguments.text != "goals") {
    MethodBench bench(all, arguments.is_quick);
    for (Table& table : bench.run()) tables.push_back(std::move(table));
    if (all.is_first() && !arguments.svg.empty()) write_file(arguments.svg, bench.plots());
  }
  if (!all.is_first()) return;
  arguments.is_json ? print_json(tables) : print_text(tables);
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  const Arguments arguments = parse_arguments(argc, argv, kHelp);
  if (!arguments.text.empty() && arguments.text != "goals" && arguments.text != "methods") {
    std::fprintf(stderr, "%s", kHelp.data());
    return 2;
  }
  TeamOptions options;
  options.workers = 4;
  options.servers = 4;
  options.shared_bytes = std::size_t{16} << 20;
  return run_team(options, [&](Team& all, Team* pair) { run(arguments, all, pair); });
}
