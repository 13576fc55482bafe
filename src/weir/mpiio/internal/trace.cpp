#include <weir/mpiio/internal/trace.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/environment.h>
#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/layout/match.h>
#include <weir/layout/view_layout.h>
#include <weir/log/log.h>
#include <weir/mpiio/internal/running.h>

namespace weir::mpiio::internal::trace {

namespace {

constexpr std::size_t kRecordsPerBlock = 1024;     // records that are kept before they are written
constexpr std::int64_t kPatience = 1'000'000'000;  // ns; what a rank that is killed may lose
constexpr std::int64_t kMostRecords = 200'000;     // of one rank, if WEIR_TRACE_LIMIT says nothing else; about 40 MB
constexpr std::int64_t kMostViews = 1000;          // of one rank: a program may set one for each access
constexpr std::size_t kLongestElement = 1 << 16;   // of a view, as text
constexpr std::int64_t kToldFailures = 8;          // of one file and function that are written one by one
constexpr std::uint64_t kTimedCalls = 1024;        // that are measured, every one, before only some are
constexpr int kTimedShareBits = 4;                 // then one of 2^4

using weir::trace::AccessLine;
using weir::trace::LimitLine;
using weir::trace::to_line;

struct Record {
  TracedAccess access;
  std::int64_t file = 0;
  std::int64_t view = 0;
  client::AccessReport cost;
};

struct KnownView {
  std::int64_t number = 0;
  client::AccessReport seen;  // what has been attributed to accesses already
};

// Of accesses that are too many to be written one by one.
struct Sum {
  std::int64_t count = 0;
  Record record;  // everything added up, the ends being the outermost
};

// What is no number says nothing.
std::int64_t record_limit() {
  const std::string text = environment("WEIR_TRACE_LIMIT");
  std::int64_t limit = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, limit);
  return parsed.ec == std::errc() && parsed.ptr == end && limit >= 0 ? limit : kMostRecords;
}

constexpr const char* mpi_name() {
#ifdef OPEN_MPI
  return "openmpi";
#else
  return "mpich";
#endif
}

std::int64_t wall_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t steady_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::atomic<std::uint64_t> timed_calls{0};
std::atomic<std::int64_t> time_in_calls{0};  // ns

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

struct KnownFile {
  std::int64_t number = 0;
  std::int64_t opened = 0;  // when
  std::shared_ptr<const Counts> counts;
};

// Of one file and function.
struct Failures {
  std::int64_t count = 0;
  std::int64_t untold = 0;
  std::string message;  // the last one
};

/// \threadsafety Safe from any thread.
class Tracer {
 public:
  // Never destroyed: programs may close files while they end.
  static Tracer& get() {
    static auto* const tracer = [] {
      auto* const made = new Tracer;
      std::atexit([] { get().finish(); });
      return made;
    }();
    return *tracer;
  }

  void opened(const void* file, const Opening& opening) {
    const std::lock_guard lock(mutex_);
    start();
    const std::int64_t number = next_file_++;
    const std::int64_t opened = is_on ? opening.start : wall_clock();
    files_[file] = {number, opened, opening.counts};
    weir::trace::OpenLine line{.file = number,
                               .path = opening.path,
                               .layout = opening.layout,
                               .why = opening.why,
                               .rank = opening.rank,
                               .ranks = opening.ranks,
                               .can_write = opening.can_write,
                               .at = opened,
                               .took = is_on ? now() - opening.start : 0};
    opening.hints.for_each([&](const std::string& key, const std::string& value) {
      if (key != "weir_layout") line.hints[key] = value;  // the layout is told already
    });
    write(to_line(std::move(line)));
  }

  void stored(const void* file, const std::string& layout, const std::string& why) {
    const std::lock_guard lock(mutex_);
    write(to_line(weir::trace::LayoutLine{files_[file].number, layout, why}));
  }

  void chosen(const void* file, const std::string& what, const std::string& choice, const std::string& why) {
    const std::lock_guard lock(mutex_);
    write(to_line(weir::trace::ChoiceLine{files_[file].number, what, choice, why}));
  }

  void viewed(const void* file, const pario::View& view, const layout::Partition& layout) {
    const std::lock_guard lock(mutex_);
    const std::int64_t number = next_view_++;
    views_[&view] = {number, view.bound.report()};  // it may have been used before
    if (number > kMostViews) return;
    if (number == kMostViews) write(to_line(LimitLine{"views", number}));
    const layout::Element& element = view.element();
    weir::trace::ViewLine line{.file = files_[file].number,
                               .view = number,
                               .element = layout::to_text(element),
                               .etype = view.etype_bytes,
                               .size = element.size(),
                               .period = element.period(),
                               .disp = element.disp()};
    if (line.element.size() > kLongestElement) line.element.clear();
    if (const auto match = layout::match(element, layout); match.is_ok()) {
      line.degree = match->degree;
      line.targets = match->targets;
      line.breaks = match->breaks;
      line.matched = match->bytes;
    }
    write(to_line(std::move(line)));
  }

  void done(const TracedAccess& access) {
    const std::lock_guard lock(mutex_);
    Record record{access, files_[access.file].number, 0, {}};
    const auto view = views_.find(access.view);
    if (view != views_.end()) {
      record.view = view->second.number;
      const client::AccessReport report = access.view->bound.report();
      record.cost = pario::cost_between(view->second.seen, report);
      view->second.seen = report;
      add(record.cost, access.for_all);
    }
    if (written_ >= most_records_) {
      add_to_sum(record);
      return;
    }
    ++written_;
    records_.push_back(record);
    if (written_ == most_records_) {
      flush();
      write(to_line(LimitLine{"accesses", written_}));
    } else if (records_.size() == kRecordsPerBlock || access.end > flushed_ + kPatience) {
      flush();
      flushed_ = access.end;
    }
  }

  void closed(const void* file) {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(file);
    if (found == files_.end() || ::getpid() != process_) return;
    flush();
    write_sums(found->second.number);
    write_counts(found->second);
    write_failures();
    write(to_line(weir::trace::CloseLine{found->second.number, wall_clock(), time_in_calls}));
    files_.erase(found);
  }

  // The first ones at once: the program may not get much further.
  void failed(const std::string& path, std::string_view call, const std::string& message) {
    const std::lock_guard lock(mutex_);
    start();
    if (::getpid() != process_) return;
    Failures& failures = failures_[{path, std::string(call)}];
    ++failures.untold;
    failures.message = message;
    if (++failures.count <= kToldFailures) write_failures();
  }

  void finish() {
    const std::lock_guard lock(mutex_);
    if (::getpid() != process_ || is_finished_) return;  // a child of the rank has nothing to add
    is_finished_ = true;
    flush();
    write_sums(std::nullopt);
    for (const auto& [file, known] : files_) write_counts(known);
    write_failures();
    if (out_.is_open()) write(to_line(weir::trace::EndLine{wall_clock(), time_in_calls}));
  }

 private:
  // The file is made when there is something to say.
  void start() {
    if (is_started_) return;
    is_started_ = true;
    process_ = ::getpid();
    int rank = 0;
    int ranks = 1;
    if (is_mpi_running()) {
      PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
      PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    }
    const std::string name = concat(environment("WEIR_TRACE"), '/', host_name(), '.', ::getpid(), ".trace");
    out_ = Descriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    if (!out_.is_open()) WEIR_LOG_WARN("WEIR_TRACE: cannot write {}: {}", name, std::strerror(errno));
    write(to_line(
        weir::trace::HeadLine{weir::trace::kVersion, host_name(), ::getpid(), rank, ranks, mpi_name(), wall_clock()}));
    if (!is_on) write(to_line(LimitLine{"accesses", 0}));
  }

  // Costs are counted for each view; what came since the last look is this access's.  So sums are exact, whatever runs
  // at the same time.
  static void add(client::AccessReport& sum, const client::AccessReport& more) {
    sum.messages += more.messages;
    sum.index_bytes += more.index_bytes;
    sum.moved_bytes += more.moved_bytes;
    sum.direct_bytes += more.direct_bytes;
    sum.gathered_bytes += more.gathered_bytes;
  }

  void add_to_sum(const Record& record) {
    Sum& sum = sums_[{record.file, record.access.call}];
    if (sum.count++ == 0) {
      sum.record = record;
      sum.record.access.end = record.access.start;  // becomes the busy time
    } else {
      TracedAccess& all = sum.record.access;
      all.bytes += record.access.bytes;
      all.first = std::min(all.first, record.access.first);
      all.last = std::max(all.last, record.access.last);
      for (int i = 0; i < kPhases; ++i) all.phases[i] += record.access.phases[i];
      add(sum.record.cost, record.cost);
    }
    sum.record.access.end += record.access.end - record.access.start;
  }

  static std::string line_of(const Record& record, std::int64_t count) {
    const TracedAccess& access = record.access;
    AccessLine line{.file = record.file,
                    .view = record.view,
                    .call = access.call,
                    .is_write = access.is_write,
                    .count = count,
                    .at = access.start,
                    .took = access.end - access.start,
                    .bytes = access.bytes,
                    .first = access.first,
                    .last = access.last,
                    .messages = record.cost.messages,
                    .index_bytes = record.cost.index_bytes,
                    .moved_bytes = record.cost.moved_bytes,
                    .direct_bytes = record.cost.direct_bytes,
                    .gathered_bytes = record.cost.gathered_bytes};
    std::copy_n(access.phases, kPhases, line.phases.begin());
    return to_line(std::move(line));
  }

  void flush() {
    std::string text;
    for (const Record& record : records_) text += line_of(record, 1);
    records_.clear();
    if (!text.empty()) write(text);
  }

  // Of one file, or of all.
  void write_sums(std::optional<std::int64_t> file) {
    for (auto at = sums_.begin(); at != sums_.end();) {
      if (file && at->first.first != *file) {
        ++at;
        continue;
      }
      write(line_of(at->second.record, at->second.count));
      at = sums_.erase(at);
    }
  }

  // What was counted of a file whose accesses are not recorded.
  void write_counts(const KnownFile& file) {
    if (is_on || file.counts == nullptr) return;
    for (const int way : {0, 1}) {
      const std::int64_t accesses = file.counts->accesses[way];
      if (accesses == 0) continue;
      write(to_line(AccessLine{.file = file.number,
                               .call = way == 0 ? "reads" : "writes",
                               .is_write = way == 1,
                               .count = accesses,
                               .at = file.opened,
                               .bytes = file.counts->bytes[way]}));
    }
  }

  void write_failures() {
    for (auto& [where, failures] : failures_) {
      if (failures.untold == 0) continue;
      write(to_line(weir::trace::FailLine{where.first, where.second, failures.untold, failures.message}));
      failures.untold = 0;
    }
  }

  // A trace that cannot be written ends; the program goes on.
  void write(std::string_view text) {
    while (out_.is_open() && !text.empty()) {
      const ssize_t written = uninterrupted([&] { return ::write(out_.get(), text.data(), text.size()); });
      if (written < 0) {
        WEIR_LOG_WARN("WEIR_TRACE: {}", os_error("stopped").message());
        out_ = Descriptor();
        return;
      }
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  std::mutex mutex_;
  bool is_started_ = false;
  pid_t process_ = -1;
  Descriptor out_;
  std::int64_t next_file_ = 0;
  std::int64_t next_view_ = 0;
  std::int64_t written_ = 0;
  std::int64_t flushed_ = 0;  // when
  const std::int64_t most_records_ = record_limit();
  bool is_finished_ = false;
  std::map<const void*, KnownFile> files_;
  std::map<const pario::View*, KnownView> views_;  // an address that is used again is announced again
  std::vector<Record> records_;
  std::map<std::pair<std::int64_t, std::string>, Sum> sums_;
  std::map<std::pair<std::string, std::string>, Failures> failures_;
};

// Of one file.
class FileObserver final : public pario::Observer {
 public:
  explicit FileObserver(const void* file) : file_(file) {}
  void viewed(const pario::View& view, const layout::Partition& layout) override {
    Tracer::get().viewed(file_, view, layout);
  }
  void stored(const std::string& layout, const std::string& why) override { Tracer::get().stored(file_, layout, why); }
  void chosen(const std::string& what, const std::string& choice, const std::string& why) override {
    Tracer::get().chosen(file_, what, choice, why);
  }

 private:
  const void* file_;
};

}  // namespace

const bool is_counting = !environment("WEIR_TRACE").empty();
const bool is_on = is_counting && record_limit() > 0;

std::int64_t now() { return is_on ? wall_clock() : 0; }

// Multiples of the golden ratio are spread evenly, and in step with no pattern of the program: the calls that are
// measured stand for the others.
void CallTimer::begin() {
  constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15U;
  const std::uint64_t call = timed_calls.load(std::memory_order_relaxed);
  timed_calls.store(call + 1, std::memory_order_relaxed);  // threads may count a call once together
  const bool is_sampled = call >= kTimedCalls;
  if (is_sampled && (call * kGoldenRatio) >> (64 - kTimedShareBits) != 0) return;
  weight_ = is_sampled ? 1 << kTimedShareBits : 1;
  start_ = steady_clock();
}

void CallTimer::end() const { time_in_calls.fetch_add((steady_clock() - start_) * weight_, std::memory_order_relaxed); }

void opened(const void* file, const Opening& opening) {
  if (is_counting) Tracer::get().opened(file, opening);
}
std::unique_ptr<pario::Observer> observer_of(const void* file) {
  if (!is_on) return nullptr;
  return std::make_unique<FileObserver>(file);
}
void viewed(const void* file, const pario::View& view, const layout::Partition& layout) {
  if (is_on) Tracer::get().viewed(file, view, layout);
}
void done(const TracedAccess& access) {
  if (is_on) Tracer::get().done(access);
}
void closed(const void* file) {
  if (is_counting) Tracer::get().closed(file);
}
void failed(const std::string& path, std::string_view call, const std::string& message) {
  if (is_counting) Tracer::get().failed(path, call, message);
}
void finish() {
  if (is_counting) Tracer::get().finish();
}

}  // namespace weir::mpiio::internal::trace
