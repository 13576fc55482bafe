#include <weir/cli/internal/fs_copy.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include <sys/stat.h>

#include <fmt/format.h>

#include <weir/base/json_text.h>
#include <weir/cli/internal/copy_ends.h>
#include <weir/cli/internal/copy_tree.h>
#include <weir/cli/internal/interruption.h>
#include <weir/cli/internal/parallel_copy.h>
#include <weir/cli/internal/printable.h>
#include <weir/cli/internal/progress.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {

namespace {

using client::FileSystem;
using client::Stat;
using client::TargetUsage;
using SourcePtr = std::unique_ptr<CopySource>;
using SinkPtr = std::unique_ptr<CopySink>;

// Smaller copies find out as quickly by themselves that there is no room.
constexpr Offset kWorthAsking = Offset{4} << 20;

/// How the two ends of each file of a plan are made.
struct CopyWay {
  const char* name = "";  ///< "put"
  std::function<Result<SourcePtr>(const CopyTask&)> open{};
  std::function<Result<SinkPtr>(const CopyTask&, const CopySource&)> make{};
  std::function<Status(const std::string&)> make_folder{};
};

class Transfer {
 public:
  Transfer(const TransferOptions& options, const CopyWay& way, Console& console)
      : options_(options), way_(way), console_(console) {}

  Result<int> run(const CopyPlan& plan) {
    for (const std::string& folder : plan.folders) WEIR_RETURN_IF_ERROR(way_.make_folder(folder));
    for (const std::string& one : plan.left_out) warn(concat("left out ", one));
    ProgressBar bar(console_.err, terminal(), last_part(options_.source));
    bar_ = &bar;
    all_bytes_ = plan.bytes;
    for (const CopyTask& task : plan.files) {
      const Status status = copy(task);
      if (status.message() == kInterrupted) return end_interrupted();
      if (!status.is_ok() && (!options_.recursive || ends_all(status.code()))) return status;
      if (!status.is_ok()) {
        warn(status.message());
        ++failed_;
      }
    }
    return failed_ > 0 ? kExitBad : plan.left_out.empty() ? kExitOk : kExitNo;
  }

  void report(const CopyPlan& plan, double seconds) const {
    const double rate = seconds > 0 ? static_cast<double>(bytes_) / seconds : 0;
    if (options_.json) {
      std::string text;
      JsonWriter json(text);
      json.begin_object().field("files", files_).field("bytes", bytes_).field("seconds", seconds);
      json.field("failed", failed_).field("left_out", static_cast<Offset>(plan.left_out.size())).end_object();
      console_.out << text << '\n';
    } else if (options_.has_summary) {
      console_.err << fmt::format("weir {}: {} file{}, {} in {:.3g} s, {}/s\n", way_.name, files_,
                                  files_ == 1 ? "" : "s", bytes_text(static_cast<double>(bytes_)), seconds,
                                  bytes_text(rate));
    }
  }

 private:
  [[nodiscard]] Terminal terminal() const {
    Terminal terminal = console_.terminal;
    // Not between the bytes that go to the same screen.
    if (options_.is_quiet || (options_.target == "-" && terminal.is_terminal)) terminal.is_error_terminal = false;
    return terminal;
  }

  static bool ends_all(ErrorCode code) {
    return code == ErrorCode::kNoSpace || code == ErrorCode::kQuota || code == ErrorCode::kUnavailable ||
           code == ErrorCode::kTimedOut;
  }

  void warn(const std::string& text) const {
    console_.err << "weir " << way_.name << ": " << printable_message(text) << '\n';
  }

  [[nodiscard]] Result<int> end_interrupted() const {
    warn(options_.is_resumable ? "interrupted; the same command goes on from here"
         : options_.recursive  ? fmt::format("interrupted after {} file{}", files_, files_ == 1 ? "" : "s")
                               : "interrupted; nothing was copied");
    return kExitInterrupted;
  }

  Status copy(const CopyTask& task) {
    WEIR_TRY(const SourcePtr source, way_.open(task));
    WEIR_TRY(const SinkPtr sink, way_.make(task, *source));
    if (options_.verify && (sink->is_stream() || !source->size())) {
      return invalid_argument("--verify needs a source and a copy that can be read again");
    }
    const std::optional<Offset> size = source->size();
    const Offset expected = size.value_or(task.bytes);
    if (expected >= kWorthAsking) WEIR_RETURN_IF_ERROR(sink->check_room(expected));
    const Result<Offset> copied =
        size && !sink->is_stream() ? copy_chunks(*source, *sink, *size) : copy_in_order(*source, *sink);
    if (!copied.is_ok()) return copied.status();
    WEIR_RETURN_IF_ERROR(sink->finish(*copied));
    if (options_.verify) WEIR_RETURN_IF_ERROR(verify(*source, *sink, *copied));
    if (InterruptionGuard::is_interrupted()) return {ErrorCode::kIoError, kInterrupted};
    WEIR_RETURN_IF_ERROR(sink->publish());
    ++files_;
    return Status::ok();
  }

  void note(Offset bytes) {
    bytes_ += bytes;
    bar_->show(bytes_, all_bytes_);
  }

  [[nodiscard]] CopyOptions chunks() const {
    CopyOptions how;
    how.jobs = options_.jobs;
    return how;
  }

  Result<Offset> copy_chunks(CopySource& source, CopySink& sink, Offset size) {
    CopyOptions how = chunks();
    // A part of n bytes is good up to the window that chunks may have been missing in.
    const Offset good = std::max<Offset>(std::min(sink.partial_bytes(), size) - how.window_bytes(), 0);
    const Offset from = good / how.chunk_bytes * how.chunk_bytes;
    if (from > 0) warn(concat("going on at byte ", from, " of ", size));
    const Offset before = bytes_;
    how.progress = [&](Offset done) { note(before + from + done - bytes_); };
    const Status status = copy_in_parallel(from, size, how, [&](Offset at, std::span<std::byte> buffer) -> Status {
      WEIR_RETURN_IF_ERROR(source.read(at, buffer));
      return sink.write(at, buffer);
    });
    if (!status.is_ok()) return status;
    return size;
  }

  Result<Offset> copy_in_order(CopySource& source, CopySink& sink) {
    const std::optional<Offset> size = source.size();
    if (!size && all_bytes_ == 0) all_bytes_ = -1;
    std::vector<std::byte> buffer(static_cast<std::size_t>(chunks().chunk_bytes));
    for (Offset at = 0;;) {
      if (InterruptionGuard::is_interrupted()) return Status(ErrorCode::kIoError, kInterrupted);
      WEIR_TRY(const std::size_t count, next_bytes(source, size, at, buffer));
      if (count > 0) WEIR_RETURN_IF_ERROR(sink.write(at, std::span(buffer).first(count)));
      at += static_cast<Offset>(count);
      note(static_cast<Offset>(count));
      if (count < buffer.size()) return at;
    }
  }

  static Result<std::size_t> next_bytes(CopySource& source, std::optional<Offset> size, Offset at,
                                        std::span<std::byte> buffer) {
    if (!size) return source.read_next(buffer);
    const auto count = static_cast<std::size_t>(std::min(*size - at, static_cast<Offset>(buffer.size())));
    WEIR_RETURN_IF_ERROR(source.read(at, buffer.first(count)));
    return count;
  }

  [[nodiscard]] Status verify(CopySource& source, CopySink& sink, Offset size) const {
    ProgressBar bar(console_.err, terminal(), "verify");
    CopyOptions how = chunks();
    how.progress = [&](Offset done) { bar.show(done, size); };
    return copy_in_parallel(0, size, how, [&](Offset at, std::span<std::byte> buffer) -> Status {
      std::vector<std::byte> other(buffer.size());
      WEIR_RETURN_IF_ERROR(source.read(at, buffer));
      WEIR_RETURN_IF_ERROR(sink.read(at, other));
      const auto [first, second] = std::mismatch(buffer.begin(), buffer.end(), other.begin());
      if (first == buffer.end()) return Status::ok();
      const Offset where = at + (first - buffer.begin());
      return {ErrorCode::kCorrupt, concat("verify: source and copy differ at byte ", where), where};
    });
  }

  const TransferOptions& options_;
  const CopyWay& way_;
  Console& console_;
  ProgressBar* bar_ = nullptr;
  Offset all_bytes_ = 0;
  Offset bytes_ = 0;
  Offset files_ = 0;
  Offset failed_ = 0;
};

Result<int> transfer(const TransferOptions& options, const CopyWay& way, const CopyPlan& plan, Console& console) {
  const auto start = std::chrono::steady_clock::now();
  Transfer work(options, way, console);
  WEIR_TRY(const int code, work.run(plan));
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  if (code != kExitInterrupted) work.report(plan, passed.count());
  return code;
}

Result<std::optional<ElementOf>> element_of(const TransferOptions& options, Console& console) {
  if (options.view.empty()) return std::optional<ElementOf>();
  WEIR_TRY(layout::Partition partition, load_layout(options.view, console));
  return std::optional(ElementOf{std::move(partition), options.element});
}

Result<std::optional<layout::Partition>> given_layout(const TransferOptions& options, Console& console) {
  if (options.layout.empty()) return std::optional<layout::Partition>();
  WEIR_TRY(layout::Partition partition, load_layout(options.layout, console));
  return std::optional(std::move(partition));
}

Result<layout::Partition> default_layout(const FileSystem& fs) {
  return layout::parse(fmt::format("stripe(unit=1M, over={})", fs.target_count()));
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The name of the copy in the file system: in a directory that is there, the name of the source.
Result<std::string> weir_target(const FileSystem& fs, const TransferOptions& options) {
  const std::string target = weir_path(options.target);
  const Result<Stat> found = fs.stat(target);
  if (found.is_ok() && found->is_directory) {
    if (options.source == "-") {
      return invalid_argument(concat(target, " is a directory: standard input has no name, so say one"));
    }
    const std::string name = last_part(without_slashes(options.source));
    if (!is_entry_name(name))
      return invalid_argument(concat("say a name for the copy of ", options.source, " in ", target));
    return join_path(target, name);
  }
  if (options.target.size() > 1 && options.target.back() == '/' && !options.recursive) {
    return Status(ErrorCode::kNotFound, concat("there is no directory ", target, ": make it with `weir mkdir -p`"));
  }
  return target;
}

Status make_weir_folder(const FileSystem& fs, const std::string& path) {
  const Status status = fs.make_directory(path);
  if (status.code() != ErrorCode::kExists) return status;
  WEIR_TRY(const Stat found, fs.stat(path));
  if (found.is_directory) return Status::ok();
  return {ErrorCode::kNotDirectory, concat(path, " is a file, and a directory is to be copied there")};
}

Status make_local_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return Status::ok();
  return {ErrorCode::kIoError, concat("cannot make the folder ", path, ": ", error.message())};
}

// Of many files, before the first is copied.
Status check_tree_room(const FileSystem& fs, const CopyPlan& plan, const std::string& target) {
  const Result<std::vector<TargetUsage>> usage = fs.usage();
  if (!usage.is_ok()) return Status::ok();
  std::map<std::string, Offset> free;  // of a disk once
  for (const TargetUsage& one : *usage) {
    free[one.disk.empty() ? concat("target ", one.target) : one.disk] = one.capacity_bytes - one.used_bytes;
  }
  Offset sum = 0;
  for (const auto& [disk, bytes] : free) sum += bytes;
  if (plan.bytes <= sum) return Status::ok();
  return {ErrorCode::kNoSpace,
          fmt::format("no space for {}: {} are needed, {} are free in the file system", target,
                      bytes_text(static_cast<double>(plan.bytes)), bytes_text(static_cast<double>(sum)))};
}

Status check_no_view(const TransferOptions& options) {
  if (options.view.empty()) return Status::ok();
  return invalid_argument("--view is for one file, not for a directory");
}

Result<CopyPlan> plan_put(const FileSystem& fs, const TransferOptions& options) {
  WEIR_TRY(const std::string target, weir_target(fs, options));
  struct stat status {};
  const std::string source = without_slashes(options.source);
  const bool is_there = options.source != "-" && ::stat(source.c_str(), &status) == 0;
  if (is_there && S_ISDIR(status.st_mode) && options.recursive) {
    WEIR_RETURN_IF_ERROR(check_no_view(options));
    WEIR_TRY(CopyPlan plan, plan_local_tree(source, target));
    WEIR_RETURN_IF_ERROR(check_tree_room(fs, plan, target));
    return plan;
  }
  CopyPlan plan;
  plan.add({options.source, target, is_there ? static_cast<Offset>(status.st_size) : 0});
  return plan;
}

Result<CopyPlan> plan_get(const FileSystem& fs, const TransferOptions& options) {
  const std::string source = weir_path(options.source);
  WEIR_TRY(const Stat found, fs.stat(source));
  std::string target = options.target.empty() ? last_part(source) : options.target;
  struct stat status {};
  const bool is_folder = ::stat(target.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  if (options.target.empty() && target == "-") target = "./-";
  if (found.is_directory && target.empty()) target = ".";
  if (is_folder && target != "-" && source != "/") target = join_path(target, last_part(source));
  if (!found.is_directory || !options.recursive) {
    CopyPlan plan;
    plan.add({source, target, found.size});
    return plan;
  }
  WEIR_RETURN_IF_ERROR(check_no_view(options));
  if (target == "-") return invalid_argument(concat(source, " is a directory: standard output takes one file"));
  return plan_weir_tree(fs, source, target);
}

Result<CopyPlan> plan_copy(const FileSystem& fs, const TransferOptions& options) {
  const std::string source = weir_path(options.source);
  WEIR_TRY(const Stat found, fs.stat(source));
  WEIR_TRY(const std::string target, weir_target(fs, options));
  if (target == source) return invalid_argument(concat(source, " would be copied to itself"));
  if (!found.is_directory || !options.recursive) {
    CopyPlan plan;
    plan.add({source, target, found.size});
    return plan;
  }
  if (source == "/" || target.rfind(source + "/", 0) == 0) {
    return invalid_argument(concat("cannot copy ", source, " into itself, to ", target));
  }
  WEIR_TRY(CopyPlan plan, plan_weir_tree(fs, source, target));
  WEIR_RETURN_IF_ERROR(check_tree_room(fs, plan, target));
  return plan;
}

}  // namespace

Result<int> put(const TransferOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  const InterruptionGuard guard;
  WEIR_TRY(const std::optional<layout::Partition> given, given_layout(options, console));
  WEIR_TRY(const layout::Partition partition, given ? Result<layout::Partition>(*given) : default_layout(fs));
  WEIR_TRY(const std::optional<ElementOf> view, element_of(options, console));
  WEIR_TRY(const CopyPlan plan, plan_put(fs, options));
  CopyWay way{.name = "put"};
  way.open = [&](const CopyTask& task) -> Result<SourcePtr> {
    if (task.source == "-") return make_stream_source(console.in);
    return open_local_source(task.source);
  };
  way.make = [&](const CopyTask& task, const CopySource& source) {
    const WeirSinkOptions how{partition, view, 0644, options.is_resumable && source.size(), source.identity()};
    return make_weir_sink(fs, task.target, how);
  };
  way.make_folder = [&](const std::string& path) { return make_weir_folder(fs, path); };
  return transfer(options, way, plan, console);
}

Result<int> get(const TransferOptions& options, Console& console) {
  if (options.target == "-" && options.json) {
    return invalid_argument("--json would be among the bytes on standard output");
  }
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  const InterruptionGuard guard;
  WEIR_TRY(const std::optional<ElementOf> view, element_of(options, console));
  WEIR_TRY(const CopyPlan plan, plan_get(fs, options));
  CopyWay way{.name = "get"};
  way.open = [&](const CopyTask& task) { return open_weir_source(fs, task.source, view); };
  way.make = [&](const CopyTask& task, const CopySource& source) -> Result<SinkPtr> {
    if (task.target == "-") return make_stream_sink(console.out);
    return make_local_sink(task.target, {options.is_resumable, source.identity()});
  };
  way.make_folder = make_local_folder;
  return transfer(options, way, plan, console);
}

Result<int> copy_within(const TransferOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  const InterruptionGuard guard;
  WEIR_TRY(const std::optional<layout::Partition> given, given_layout(options, console));
  WEIR_TRY(const CopyPlan plan, plan_copy(fs, options));
  CopyWay way{.name = "cp"};
  way.open = [&](const CopyTask& task) { return open_weir_source(fs, task.source, std::nullopt); };
  way.make = [&](const CopyTask& task, const CopySource& source) -> Result<SinkPtr> {
    WEIR_TRY(const Stat found, fs.stat(task.source));
    if (!found.layout) return Status(ErrorCode::kStale, concat(task.source, " is not a file any more"));
    const WeirSinkOptions how{given ? *given : *found.layout, std::nullopt, found.mode, options.is_resumable,
                              source.identity()};
    return make_weir_sink(fs, task.target, how);
  };
  way.make_folder = [&](const std::string& path) { return make_weir_folder(fs, path); };
  return transfer(options, way, plan, console);
}

}  // namespace weir::cli::internal
