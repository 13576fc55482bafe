#include <weir/trace/summary.h>

#include <algorithm>
#include <bit>
#include <set>

#include <weir/base/text.h>
#include <weir/layout/view_layout.h>

namespace weir::trace {
namespace {

constexpr double kNanosecond = 1e-9;
constexpr std::size_t kMostChoices = 16;

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * kNanosecond; }

// One file, as one rank had it open once.
struct Opening {
  const Trace* trace;
  const TracedFile* file;
};
using Openings = std::vector<Opening>;

void add_access(const AccessLine& access, FileSummary& sum) {
  const std::size_t way = access.is_write ? 1 : 0;
  sum.bytes[way] += access.bytes;
  sum.accesses[way] += access.count;
  sum.seconds[way] += seconds(access.took);
  const auto size = static_cast<std::uint64_t>(access.bytes / access.count);
  const std::size_t size_class = size == 0 ? 0 : static_cast<std::size_t>(std::bit_width(size)) - 1;
  sum.sizes[way][std::min<std::size_t>(size_class, kSizeClasses - 1)] += access.count;
  double rest = seconds(access.took);
  for (std::size_t i = 0; i < kPhases; ++i) {
    sum.phases[i] += seconds(access.phases[i]);
    rest -= seconds(access.phases[i]);
  }
  sum.phases[kPhases] += std::max(rest, 0.0);
  CallSum& call = sum.calls[access.call];
  call.is_write = access.is_write;
  call.count += access.count;
  call.bytes += access.bytes;
  call.seconds += seconds(access.took);
  sum.messages += access.messages;
  sum.index_bytes += access.index_bytes;
  sum.moved_bytes += access.moved_bytes;
  sum.direct_bytes += access.direct_bytes;
  sum.gathered_bytes += access.gathered_bytes;
}

// ---- views

struct UsedView {
  const ViewLine* view;
  int rank;
  Offset bytes = 0;
};

// Those that something was read or written through, rank by rank.
std::vector<UsedView> find_used(const Openings& parts) {
  std::vector<UsedView> used;
  for (const Opening& part : parts) {
    std::map<std::int64_t, Offset> bytes;
    for (const AccessLine& access : part.file->accesses) bytes[access.view] += access.bytes;
    for (const ViewLine& view : part.file->views) {
      const auto found = bytes.find(view.view);
      if (found != bytes.end() && found->second > 0) used.push_back({&view, part.file->rank, found->second});
    }
  }
  return used;
}

void add_views(const Openings& parts, FileSummary& sum) {
  std::map<std::pair<int, std::string>, RankView> views;  // what a rank sees twice counts once
  double weighted = 0;
  double weight = 0;
  for (const UsedView& used : find_used(parts)) {
    weighted += used.view->degree * static_cast<double>(used.bytes);
    weight += static_cast<double>(used.bytes);
    const auto element = layout::from_text(used.view->element);
    if (used.view->element.empty() || !element.is_ok()) {
      ++sum.unknown_views;
      continue;
    }
    RankView& view = views[{used.rank, used.view->element}];
    view.rank = used.rank;
    view.element = *element;
    view.degree = used.view->degree;
    view.bytes += used.bytes;
  }
  if (weight > 0) sum.degree = weighted / weight;
  std::vector<RankView> all;
  std::map<int, RankView> main;
  for (const auto& [key, view] : views) {
    all.push_back(view);
    const auto [at, is_new] = main.try_emplace(view.rank, view);
    if (!is_new && at->second.bytes < view.bytes) at->second = view;
  }
  sum.views = group_views(all);
  for (const auto& [rank, view] : main) sum.main_views.push_back(view);
}

// ---- the heat map

// The cells that [from, to] covers, of `cells` that `whole` is divided into.
struct Span {
  int first;
  int last;
};
Span cells_of(double from, double to, double whole, int cells) {
  const auto cell = [&](double at) {
    return std::clamp(static_cast<int>(whole > 0 ? at / whole * cells : 0), 0, cells - 1);
  };
  return {cell(from), cell(to)};
}

void add_heat(const Openings& parts, HeatMap& heat) {
  for (std::vector<double>& way : heat.bytes) way.assign(HeatMap::kRows * HeatMap::kColumns, 0);
  std::int64_t start = INT64_MAX;
  std::int64_t end = 0;
  for (const Opening& part : parts) {
    for (const AccessLine& access : part.file->accesses) {
      if (access.bytes == 0) continue;
      start = std::min(start, access.at);
      end = std::max(end, access.at + access.took);
      heat.file_end = std::max(heat.file_end, access.last + 1);
    }
  }
  if (end < start) return;
  heat.seconds = seconds(end - start);
  for (const Opening& part : parts) {
    for (const AccessLine& access : part.file->accesses) {
      if (access.bytes == 0) continue;
      const Span columns = cells_of(seconds(access.at - start), seconds(access.at + access.took - start), heat.seconds,
                                    HeatMap::kColumns);
      const Span rows = cells_of(static_cast<double>(access.first), static_cast<double>(access.last),
                                 static_cast<double>(heat.file_end), HeatMap::kRows);
      const double share =
          static_cast<double>(access.bytes) / ((columns.last - columns.first + 1) * (rows.last - rows.first + 1));
      for (int row = rows.first; row <= rows.last; ++row) {
        for (int column = columns.first; column <= columns.last; ++column) {
          heat.bytes[access.is_write ? 1 : 0][static_cast<std::size_t>(row * HeatMap::kColumns + column)] += share;
        }
      }
    }
  }
}

// "MPI_File_read /x: the rest": the rest.
std::string without_name(const FailLine& failure) {
  const std::string name = concat(failure.call, " ", failure.path, ": ");
  return failure.message.starts_with(name) ? failure.message.substr(name.size()) : failure.message;
}

void add_failures(const std::vector<Trace>& traces, IoSummary& summary) {
  std::map<std::pair<std::string, std::string>, FailureSum> sums;
  for (const Trace& trace : traces) {
    for (const FailLine& failure : trace.failures) {
      FailureSum& sum = sums[{failure.path, failure.call}];
      sum.path = failure.path;
      sum.call = failure.call;
      sum.count += failure.count;
      sum.by_rank[trace.rank] += failure.count;
      sum.message = without_name(failure);
      summary.failed_calls += failure.count;
    }
  }
  for (auto& [where, sum] : sums) {
    for (FileSummary& file : summary.files) {
      if (file.path == sum.path) file.failed_calls += sum.count;
    }
    summary.failures.push_back(std::move(sum));
  }
  std::stable_sort(summary.failures.begin(), summary.failures.end(),
                   [](const FailureSum& x, const FailureSum& y) { return x.count > y.count; });
}

// A job may run several programs.  Traces of a rank come one after the other, so the k-th of each rank are those of one
// program, as far as programs have different numbers of ranks or do not overlap.
double io_seconds(const std::vector<Trace>& traces) {
  std::map<std::pair<int, int>, int> programs;  // so far: of so many ranks, by rank
  std::map<std::pair<int, int>, std::pair<double, int>> times;
  for (const Trace& trace : traces) {
    auto& [sum, count] = times[{trace.ranks, programs[{trace.ranks, trace.rank}]++}];
    sum += seconds(trace.io_ns);
    ++count;
  }
  double all = 0;
  for (const auto& [program, time] : times) all += time.first / time.second;
  return all;
}

FileSummary summarize_file(const std::string& path, const Openings& parts) {
  FileSummary sum;
  sum.path = path;
  std::set<int> ranks;
  for (const Opening& part : parts) {
    ranks.insert(part.trace->rank);
    if (part.file->rank == 0) ++sum.openings;
    sum.opening_seconds += seconds(part.file->took);
    // The first rank says why, and the last opening counts.
    if (!part.file->why.empty() || sum.layout.empty()) {
      sum.layout = part.file->layout;
      if (sum.why.empty() || part.file->rank == 0) sum.why = part.file->why;
    }
    for (const auto& [key, value] : part.file->hints) sum.hints[key] = value;
    for (const ChoiceLine& choice : part.file->choices) {
      const bool is_known = std::find(sum.choices.begin(), sum.choices.end(), choice) != sum.choices.end();
      if (!is_known && sum.choices.size() < kMostChoices) sum.choices.push_back(choice);
    }
    for (const AccessLine& access : part.file->accesses) add_access(access, sum);
  }
  sum.ranks = static_cast<int>(ranks.size());
  add_views(parts, sum);
  add_heat(parts, sum.heat);
  return sum;
}

}  // namespace

IoSummary summarize(const std::vector<Trace>& traces) {
  IoSummary summary;
  std::set<std::string> hosts;
  std::set<std::string> mpis;
  std::map<std::string, Openings> by_path;
  for (const Trace& trace : traces) {
    hosts.insert(trace.host);
    if (!trace.mpi.empty()) mpis.insert(trace.mpi);
    summary.world = std::max(summary.world, trace.ranks);
    summary.cut_off += trace.is_whole ? 0 : 1;
    summary.summed += trace.is_summed ? 1 : 0;
    summary.unread += trace.unread;
    for (const TracedFile& file : trace.files) by_path[file.path].push_back({&trace, &file});
  }
  summary.ranks = static_cast<int>(traces.size());
  summary.hosts.assign(hosts.begin(), hosts.end());
  for (const auto& [path, parts] : by_path) summary.files.push_back(summarize_file(path, parts));
  std::stable_sort(summary.files.begin(), summary.files.end(), [](const FileSummary& x, const FileSummary& y) {
    return x.bytes[0] + x.bytes[1] > y.bytes[0] + y.bytes[1];
  });
  for (const std::string& mpi : mpis) summary.mpi += concat(summary.mpi.empty() ? "" : ", ", mpi);
  summary.io_seconds = io_seconds(traces);
  add_failures(traces, summary);
  return summary;
}

}  // namespace weir::trace
