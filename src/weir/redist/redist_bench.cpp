// Redistribution against what a program would do otherwise, in one run:
//
//   mpirun -n 2 redist_bench_openmpi [--mb 64] [--repeats 9] [--case 2-D] [--json | --explain]
//
//   weir        Redistribution::execute
//   alltoallw   MPI_Alltoallw with one derived type per peer, nested vectors made from the same families, committed beforehand
//   darray      the same with MPI_Type_create_darray, where a darray of the local array describes what a peer gets
//   bound       memcpy of what leaves into a buffer, one contiguous message per peer, memcpy of what came into place, memcpy of what
//               stays: what a perfect pack, message and unpack would take one after the other
//   memory      memcpy from source to target on all ranks at once: every byte read once and written once, none sent; only
//               stores that bypass the caches can beat that
//
// Contenders take turns; the time of one turn is that of the slowest rank.  A ratio is rival / weir of the same turn:
// above 1, weir is faster.  Shown are the median and, in brackets, the quartiles.  --explain adds the plan of rank 0
// and what the model predicts.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <mpi.h>

#include <weir/base/spread.h>
#include <weir/base/text.h>
#include <weir/layout/language.h>
#include <weir/layout/mapping.h>
#include <weir/redist/redistribution.h>

namespace weir::redist {
namespace {

struct Settings {
  Offset bytes_per_rank = Offset{64} << 20;
  int repeats = 9;
  std::string cases;  // those whose name contains this
  bool json = false;
  bool explain = false;
};

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// A benchmark that cannot do what it claims to measure must not print numbers.
void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "redist_bench: rank %d: %s\n", world_rank(), what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

template <typename T>
T take(Result<T> result) {
  require(result.is_ok(), result.status().message());
  return std::move(result).value();
}

struct Case {
  std::string name;
  layout::Partition from;
  layout::Partition to;
  Offset cyclic_elements = 0;  // positive: BLOCK to CYCLIC of so many elements per rank, for which a darray exists
};

// One type per peer for MPI_Alltoallw.
class Types {
 public:
  Types()
      : types_(static_cast<std::size_t>(world_size()), MPI_BYTE),
        counts_(types_.size(), 0),
        places_(types_.size(), 0) {}
  ~Types() {
    for (MPI_Datatype& type : types_) {
      if (type != MPI_BYTE) MPI_Type_free(&type);
    }
  }
  Types(const Types&) = delete;
  Types& operator=(const Types&) = delete;

  void set(int peer, MPI_Datatype type, int place = 0) {
    const auto at = static_cast<std::size_t>(peer);
    MPI_Type_commit(&type);
    types_[at] = type;
    counts_[at] = 1;
    places_[at] = place;
  }
  [[nodiscard]] const int* counts() const { return counts_.data(); }
  [[nodiscard]] const int* places() const { return places_.data(); }
  [[nodiscard]] const MPI_Datatype* types() const { return types_.data(); }

 private:
  std::vector<MPI_Datatype> types_;
  std::vector<int> counts_;
  std::vector<int> places_;
};

MPI_Datatype replaced(MPI_Datatype old, MPI_Datatype made) {
  MPI_Type_free(&old);
  return made;
}

// The families of a mapping in one of its address spaces; both ends list them in the same order.
MPI_Datatype type_of(const layout::Mapping& mapping, Offset layout::Run::*start, Offset layout::Loop::*step) {
  std::vector<MPI_Datatype> parts;
  std::vector<MPI_Aint> places;
  for (const layout::Run& run : mapping.runs()) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(run.length), MPI_BYTE, &type);
    const auto loops = mapping.loops(run);
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
      MPI_Datatype outer = MPI_DATATYPE_NULL;
      MPI_Type_create_hvector(static_cast<int>(loop->count), 1, (*loop).*step, type, &outer);
      type = replaced(type, outer);
    }
    parts.push_back(type);
    places.push_back(run.*start);
  }
  const std::vector<int> ones(parts.size(), 1);
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(static_cast<int>(parts.size()), ones.data(), places.data(), parts.data(), &whole);
  for (MPI_Datatype& part : parts) MPI_Type_free(&part);
  return whole;
}

layout::Mapping mapping_between(const Case& item, int from, int to) {
  const layout::Window window{.file = {0, item.from.period()}, .a = {}, .b = {}};
  return take(layout::intersect(take(item.from.element(from)), take(item.to.element(to)), window));
}

void make_vector_types(const Case& item, Types& send, Types& receive) {
  for (int peer = 0; peer < world_size(); ++peer) {
    const layout::Mapping there = mapping_between(item, world_rank(), peer);
    if (!there.is_empty()) send.set(peer, type_of(there, &layout::Run::a, &layout::Loop::a));
    const layout::Mapping here = mapping_between(item, peer, world_rank());
    if (!here.is_empty()) receive.set(peer, type_of(here, &layout::Run::b, &layout::Loop::b));
  }
}

// BLOCK to CYCLIC: a peer gets its cyclic part of the block, and has the blocks of all ranks one after the other.
void make_darray_types(const Case& item, Types& send, Types& receive) {
  const int ranks = world_size();
  const int elements = static_cast<int>(item.cyclic_elements);
  const int distribution = MPI_DISTRIBUTE_CYCLIC;
  const int argument = MPI_DISTRIBUTE_DFLT_DARG;
  for (int peer = 0; peer < ranks; ++peer) {
    MPI_Datatype part = MPI_DATATYPE_NULL;
    MPI_Type_create_darray(ranks, peer, 1, &elements, &distribution, &argument, &ranks, MPI_ORDER_C, MPI_DOUBLE, &part);
    send.set(peer, part);
    MPI_Datatype block = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(elements / ranks, MPI_DOUBLE, &block);
    receive.set(peer, block, peer * (elements / ranks) * 8);
  }
}

struct Memory {
  Memory(Offset source_bytes, Offset target_bytes)
      : source(static_cast<std::size_t>(source_bytes)),
        target(static_cast<std::size_t>(target_bytes)),
        scratch(target.size()) {
    for (std::size_t i = 0; i < source.size(); ++i)
      source[i] = static_cast<std::byte>((i * 2654435761u + 97u * i) >> 9);
  }
  std::vector<std::byte> source;
  std::vector<std::byte> target;
  std::vector<std::byte> scratch;
};

// What has to be done at least; see above.
class Bound {
 public:
  explicit Bound(const Report& report) : report_(report) {
    for (const Transfer& send : report.sends) leaves_ += send.bytes;
    for (const Transfer& receive : report.receives) comes_ += receive.bytes;
    out_.resize(static_cast<std::size_t>(leaves_));
    in_.resize(static_cast<std::size_t>(comes_));
    requests_.resize(report.sends.size() + report.receives.size());
  }

  void run(Memory& memory) {
    std::memcpy(out_.data(), memory.source.data(), out_.size());
    std::size_t request = 0;
    Offset at = 0;
    for (const Transfer& receive : report_.receives) {
      MPI_Irecv(in_.data() + at, static_cast<int>(receive.bytes), MPI_BYTE, receive.peer, 0, MPI_COMM_WORLD,
                &requests_[request++]);
      at += receive.bytes;
    }
    at = 0;
    for (const Transfer& send : report_.sends) {
      MPI_Isend(out_.data() + at, static_cast<int>(send.bytes), MPI_BYTE, send.peer, 0, MPI_COMM_WORLD,
                &requests_[request++]);
      at += send.bytes;
    }
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    std::memcpy(memory.scratch.data(), in_.data(), in_.size());
    std::memcpy(memory.scratch.data() + in_.size(), memory.source.data(),
                static_cast<std::size_t>(report_.local_bytes));
  }

 private:
  const Report& report_;
  Offset leaves_ = 0;
  Offset comes_ = 0;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
  std::vector<MPI_Request> requests_;
};

double seconds_of(const std::function<void()>& turn) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  turn();
  const double mine = MPI_Wtime() - start;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

struct Contender {
  std::string name;
  std::function<void()> turn;
  std::vector<double> seconds;
};

void print_rows(const Case& item, const std::vector<Contender>& contenders, Offset bytes, bool json) {
  if (world_rank() != 0) return;
  const std::vector<double>& ours = contenders.front().seconds;
  for (const Contender& contender : contenders) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(contender.seconds[i] / ours[i]);
    const Spread ratio = spread_of(ratios);
    const double median = spread_of(contender.seconds).median;
    if (json) {
      std::printf(
          "{\"mpi\": \"%s\", \"ranks\": %d, \"case\": \"%s\", \"contender\": \"%s\", \"bytes_per_rank\": %lld, "
          "\"milliseconds\": %.3f, \"ratio\": %.3f, \"ratio_low\": %.3f, \"ratio_high\": %.3f, \"repeats\": %zu}\n",
          WEIR_MPI_NAME, world_size(), item.name.c_str(), contender.name.c_str(), static_cast<long long>(bytes),
          median * 1e3, ratio.median, ratio.low, ratio.high, ours.size());
    } else {
      std::printf("%-34s %-10s %10.2f %9.2f   %6.2f  [%.2f, %.2f]\n", item.name.c_str(), contender.name.c_str(),
                  median * 1e3, static_cast<double>(bytes) / median / 1e9, ratio.median, ratio.low, ratio.high);
    }
  }
  std::fflush(stdout);
}

void measure(const Case& item, const Settings& settings) {
  if (item.name.find(settings.cases) == std::string::npos) return;
  Redistribution redistribution = take(Redistribution::create(MPI_COMM_WORLD, item.from, item.to));
  const Report& report = redistribution.report();
  Memory memory(report.source_bytes, report.target_bytes);
  Types vector_send;
  Types vector_receive;
  make_vector_types(item, vector_send, vector_receive);
  Types darray_send;
  Types darray_receive;
  Bound bound(report);
  const auto all_to_all = [&memory](const Types& send, const Types& receive) {
    MPI_Alltoallw(memory.source.data(), send.counts(), send.places(), send.types(), memory.scratch.data(),
                  receive.counts(), receive.places(), receive.types(), MPI_COMM_WORLD);
  };
  const auto same = [&memory] { require(memory.scratch == memory.target, "contenders disagree about the result"); };

  std::vector<Contender> contenders;
  contenders.push_back({"weir",
                        [&] {
                          const Status status = redistribution.execute(memory.source.data(), memory.target.data());
                          require(status.is_ok(), status.message());
                        },
                        {}});
  contenders.push_back({"alltoallw", [&] { all_to_all(vector_send, vector_receive); }, {}});
  if (item.cyclic_elements > 0) {
    make_darray_types(item, darray_send, darray_receive);
    contenders.push_back({"darray", [&] { all_to_all(darray_send, darray_receive); }, {}});
  }
  for (std::size_t i = 0; i < contenders.size(); ++i) {  // warms up, too
    contenders[i].turn();
    if (i > 0) same();
  }
  contenders.push_back({"bound", [&] { bound.run(memory); }, {}});
  contenders.back().turn();
  const std::size_t moved = std::min(memory.source.size(), memory.target.size());
  contenders.push_back({"memory", [&] { std::memcpy(memory.scratch.data(), memory.source.data(), moved); }, {}});
  for (int repeat = 0; repeat < settings.repeats; ++repeat) {
    for (Contender& contender : contenders) contender.seconds.push_back(seconds_of(contender.turn));
  }
  print_rows(item, contenders, report.source_bytes, settings.json);
  if (settings.explain && world_rank() == 0) std::printf("\n%s\n", redistribution.explain().c_str());
}

layout::Partition parsed(const std::string& text) { return take(layout::parse(text)); }

Case one_dimension(const char* name, const char* from, const char* to, const Settings& settings) {
  const Offset ranks = world_size();
  const Offset per_rank =
      settings.bytes_per_rank / 8 / ranks * ranks;  // whole turns of a cyclic distribution in each block
  const auto layout = [&](const char* dist) {
    return parsed(concat("hpf(shape=[", per_rank * ranks, "], elem=8, dist=(", dist, "), grid=[", ranks, "])"));
  };
  const bool has_darray = std::string(from) == "BLOCK" && std::string(to) == "CYCLIC";
  return {name, layout(from), layout(to), has_darray ? per_rank : 0};
}

Case two_dimensions(const char* name, Offset from, Offset to, const Settings& settings) {
  const Offset ranks = world_size();
  Offset rows = 1;
  for (Offset i = 1; i * i <= ranks; ++i) rows = ranks % i == 0 ? i : rows;
  Offset edge = 64;
  while ((edge + 64) * (edge + 64) * 8 <= settings.bytes_per_rank * ranks) edge += 64;
  const auto layout = [&](Offset block) {
    return parsed(concat("hpf(shape=[", edge, ',', edge, "], elem=8, dist=(CYCLIC(", block, "),CYCLIC(", block,
                         ")), grid=[", rows, ',', ranks / rows, "])"));
  };
  return {name, layout(from), layout(to), 0};
}

void run(const Settings& settings) {
  if (world_rank() == 0 && !settings.json) {
    std::printf("%s, %d ranks, %.1f MiB per rank, %d repeats\n", WEIR_MPI_NAME, world_size(),
                static_cast<double>(settings.bytes_per_rank) / 1048576.0, settings.repeats);
    std::printf("%-34s %-10s %10s %9s   %6s  %s\n", "case", "contender", "ms", "GB/s/rank", "ratio", "quartiles");
  }
  measure(one_dimension("BLOCK to CYCLIC(1)", "BLOCK", "CYCLIC", settings), settings);
  measure(one_dimension("CYCLIC(1) to BLOCK", "CYCLIC", "BLOCK", settings), settings);
  measure(one_dimension("CYCLIC(64) to CYCLIC(48)", "CYCLIC(64)", "CYCLIC(48)", settings), settings);
  measure(two_dimensions("2-D CYCLIC(64) to CYCLIC(32)", 64, 32, settings), settings);
  measure(two_dimensions("2-D CYCLIC(64) to CYCLIC(48)", 64, 48, settings), settings);
  measure(two_dimensions("2-D CYCLIC(8) to CYCLIC(64)", 8, 64, settings), settings);
}

Settings parse_arguments(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const double value = i + 1 < argc ? std::atof(argv[i + 1]) : 0;
    if (argument == "--json") {
      settings.json = true;
    } else if (argument == "--explain") {
      settings.explain = true;
    } else if (argument == "--mb" && value > 0 && value <= 1024) {
      settings.bytes_per_rank = static_cast<Offset>(value * 1048576.0);
      ++i;
    } else if (argument == "--repeats" && value >= 1) {
      settings.repeats = static_cast<int>(value);
      ++i;
    } else if (argument == "--case" && i + 1 < argc) {
      settings.cases = argv[++i];
    } else {
      require(false,
              "usage: redist_bench [--mb MEGABYTES_PER_RANK] [--repeats N] [--case PART_OF_NAME] [--json | --explain]");
    }
  }
  require(!settings.json || !settings.explain, "--explain is for people: not with --json");
  return settings;
}

}  // namespace
}  // namespace weir::redist

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  weir::redist::run(weir::redist::parse_arguments(argc, argv));
  MPI_Finalize();
  return 0;
}
