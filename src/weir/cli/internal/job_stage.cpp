#include <weir/cli/internal/job_stage.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fnmatch.h>
#include <unistd.h>

#include <weir/base/os_error.h>

namespace weir::cli::internal {

namespace {

namespace fs = std::filesystem;
using client::FileSystem;

constexpr char kWildcards[] = "*?[";
constexpr char kAll[] = "all";

Result<Stage> split(const std::string& text, const std::string& rest) {
  const std::size_t colon = rest.find(':');
  Stage stage{rest.substr(0, colon), colon == std::string::npos ? "" : rest.substr(colon + 1)};
  if (!stage.source.empty() && (colon == std::string::npos || !stage.target.empty())) return stage;
  return invalid_argument(concat("'", text, "': write SOURCE, or SOURCE:TARGET"));
}

TransferOptions transfer(const std::string& connection, std::string source, std::string target) {
  TransferOptions options;
  options.file_system.file_system = connection;
  options.source = std::move(source);
  options.target = std::move(target);
  options.is_resumable = false;  // the file system will be gone
  return options;
}

// `mkdir -p`
Status make_directories(const FileSystem& file_system, const std::string& path) {
  for (std::size_t end = path.find('/', 1); !path.empty(); end = path.find('/', end + 1)) {
    const Status status = file_system.make_directory(path.substr(0, end));
    if (!status.is_ok() && status.code() != ErrorCode::kExists) return status;
    if (end == std::string::npos) break;
  }
  return Status::ok();
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

Result<int> put_file(const std::string& connection, const FileSystem& file_system, const Stage& stage,
                     const std::string& layout, launch::Manifest& copied, Console& console) {
  TransferOptions options = transfer(connection, stage.source, stage.target);
  options.layout = layout;
  WEIR_TRY(const int code, put(options, console));
  if (code != kExitOk) return code;
  WEIR_TRY(const client::Stat found, file_system.stat(stage.target));
  // Into a folder that is there: the file in it is another name.
  if (!found.is_directory) WEIR_RETURN_IF_ERROR(copied.add(stage.target, found, 0));
  return code;
}

Result<int> put_folder(const std::string& connection, const FileSystem& file_system, const Stage& stage,
                       const std::string& layout, launch::Manifest& copied, Console& console) {
  WEIR_RETURN_IF_ERROR(make_directories(file_system, stage.target));
  std::error_code error;
  fs::recursive_directory_iterator entry(stage.source, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string target = concat(stage.target, "/", entry->path().lexically_relative(stage.source).string());
    std::error_code gone;
    if (entry->is_directory(gone)) {
      WEIR_RETURN_IF_ERROR(make_directories(file_system, target));
    } else {
      WEIR_TRY(const int code,
               put_file(connection, file_system, {entry->path().string(), target}, layout, copied, console));
      if (code != kExitOk) return code;
    }
  }
  if (error) return Status(ErrorCode::kIoError, concat("cannot read ", stage.source, ": ", error.message()));
  return kExitOk;
}

bool is_below(const std::string& path, const std::string& folder) {
  return folder == "/" || (path.starts_with(folder) && path[folder.size()] == '/');
}

// The folder that a pattern spells out: /run of /run/*/x.
std::string fixed_folder(const std::string& pattern) {
  const std::size_t slash = pattern.rfind('/', pattern.find_first_of(kWildcards));
  return slash == 0 ? "/" : pattern.substr(0, slash);
}

std::string below(const std::string& path, const std::string& folder) {
  return path.substr(folder == "/" ? 1 : folder.size() + 1);
}

Status make_local_folder(const fs::path& folder) {
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (!error) return Status::ok();
  return {ErrorCode::kIoError, concat("cannot make ", folder.string(), ": ", error.message())};
}

/// Copies what one --stage-out names.  One file that cannot be copied is no reason to lose the others.
class OutCopies {
 public:
  OutCopies(const FileSystem& file_system, const std::string& connection, const StageOut& stage,
            const StageOutOptions& options, Console& console)
      : file_system_(file_system), connection_(connection), stage_(stage), options_(options), console_(console) {}

  Result<int> one(const std::string& path, const std::string& target) {
    copy(path, target);
    return end();
  }

  Result<int> all_below(const std::string& folder) {
    const Status status = walk(file_system_, folder, [&](const std::string& path, bool is_directory) -> Status {
      const auto target = stage_.target_of(path);
      if (!target || code_ != kExitOk) return Status::ok();
      is_found_ = is_found_ || !is_directory;
      if (!is_directory) {
        copy(path, *target);
      } else if (const Status made = make_local_folder(*target); !made.is_ok()) {
        note(path, made);
      }
      return Status::ok();
    });
    if (!status.is_ok() && status.code() != ErrorCode::kNotFound) note(folder, status);
    const bool may_be_empty = !stage_.is_pattern || stage_.source == "/";
    if (is_found_ || may_be_empty || !first_.is_ok()) return end();
    return Status(ErrorCode::kNotFound, concat("no file matches ", stage_.source));
  }

 private:
  void copy(const std::string& path, const std::string& target) {
    const Result<client::Stat> found = file_system_.stat(path);
    const bool is_known =
        found.is_ok() && (options_.is_drained(path, *found) || (stage_.is_pattern && options_.is_input(path, *found)));
    if (is_known) return;
    const Result<int> copied =
        found.is_ok() ? stage_out_file(connection_, path, target, console_) : Result<int>(found.status());
    if (copied.is_ok()) {
      code_ = *copied;
    } else if (file_system_.stat(path).status().code() != ErrorCode::kNotFound) {  // what has gone away is no failure
      note(path, copied.status());
    }
  }

  // The first is for the caller to tell.
  void note(const std::string& path, const Status& status) {
    if (first_.is_ok()) {
      first_ = Status(ErrorCode::kIoError, concat(path, ": ", status.message()));
    } else {
      console_.err << "weir run: not staged out: " << path << ": " << status.message() << '\n';
    }
  }

  [[nodiscard]] Result<int> end() const { return first_.is_ok() ? Result<int>(code_) : Result<int>(first_); }

  const FileSystem& file_system_;
  const std::string& connection_;
  const StageOut& stage_;
  const StageOutOptions& options_;
  Console& console_;
  int code_ = kExitOk;
  bool is_found_ = false;
  Status first_;
};

Result<FileSystem> connect_to(const std::string& connection) {
  FileSystemOptions options;
  options.file_system = connection;
  return connect(options);
}

}  // namespace

Result<Stage> parse_stage_in(const std::string& text) {
  WEIR_TRY(Stage stage, split(text, text));
  while (stage.source.size() > 1 && stage.source.back() == '/') stage.source.pop_back();
  stage.target = weir_path(stage.target.empty() ? fs::path(stage.source).filename().string() : stage.target);
  return stage;
}

Result<StageOut> parse_stage_out(const std::string& text) {
  constexpr std::string_view kScheme = "weir:";
  WEIR_TRY(const Stage stage, split(text, text.rfind(kScheme, 0) == 0 ? text.substr(kScheme.size()) : text));
  if (text == kAll || text.starts_with(concat(kAll, ":"))) {
    return StageOut{"/", stage.target.empty() ? "." : stage.target, true};
  }
  StageOut out{weir_path(stage.source), stage.target, stage.source.find_first_of(kWildcards) != std::string::npos};
  if (out.target.empty()) {
    out.target = out.is_pattern || out.source == "/" ? "." : out.source.substr(out.source.rfind('/') + 1);
  }
  return out;
}

std::optional<std::string> StageOut::target_of(const std::string& path) const {
  if (!is_pattern) {
    if (path == source) return target;
    if (!is_below(path, source)) return std::nullopt;
    return concat(target, "/", below(path, source));
  }
  bool is_match = source == "/";
  for (std::size_t end = path.find('/', 1); !is_match; end = path.find('/', end + 1)) {
    is_match =
        ::fnmatch(source.c_str(), path.substr(0, end).c_str(), FNM_PATHNAME) == 0;  // the file, or a folder above
    if (end == std::string::npos) break;
  }
  if (!is_match) return std::nullopt;
  return concat(target, "/", below(path, source == "/" ? source : fixed_folder(source)));
}

Status check_stage_in(const Stage& stage) {
  if (::access(stage.source.c_str(), R_OK) == 0) return Status::ok();
  return os_error(ErrorCode::kNotFound, concat("--stage-in ", stage.source));
}

Status check_stage_out(const StageOut& stage) {
  std::error_code error;
  fs::path target = fs::absolute(stage.target, error);
  if (stage.is_pattern && !target.has_filename()) target = target.parent_path();  // DIR/ is made, too
  const fs::path folder = fs::is_directory(target, error) ? target : target.parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return Status::ok();
  return os_error(ErrorCode::kIoError, concat("--stage-out ", stage.source, ": cannot write to ", folder.string()));
}

Result<int> stage_in(const std::string& connection, const Stage& stage, const std::string& layout,
                     launch::Manifest& copied, Console& console) {
  WEIR_TRY(const FileSystem file_system, connect_to(connection));
  std::error_code error;
  if (fs::is_directory(stage.source, error)) {
    return put_folder(connection, file_system, stage, layout, copied, console);
  }
  WEIR_RETURN_IF_ERROR(make_directories(file_system, parent_of(stage.target)));
  return put_file(connection, file_system, stage, layout, copied, console);
}

Status walk(const FileSystem& file_system, const std::string& directory,
            const std::function<Status(const std::string& path, bool is_directory)>& visit) {
  WEIR_TRY(const std::vector<client::Entry> entries, file_system.list(directory));
  for (const client::Entry& entry : entries) {
    const std::string path = concat(directory == "/" ? "" : directory, "/", entry.name);
    Status status = visit(path, entry.is_directory);
    if (status.is_ok() && entry.is_directory) status = walk(file_system, path, visit);
    if (!status.is_ok() && status.code() != ErrorCode::kNotFound) return status;
  }
  return Status::ok();
}

Result<int> stage_out_file(const std::string& connection, const std::string& path, const std::string& target,
                           Console& console) {
  WEIR_RETURN_IF_ERROR(make_local_folder(fs::path(target).parent_path()));
  return get(transfer(connection, path, target), console);
}

Result<int> stage_out(const std::string& connection, const StageOut& stage, const StageOutOptions& options,
                      Console& console) {
  WEIR_TRY(const FileSystem file_system, connect_to(connection));
  OutCopies copies(file_system, connection, stage, options, console);
  if (stage.is_pattern) return copies.all_below(stage.source == "/" ? stage.source : fixed_folder(stage.source));
  WEIR_TRY(const client::Stat found, file_system.stat(stage.source));
  if (!found.is_directory) return copies.one(stage.source, stage.target);
  WEIR_RETURN_IF_ERROR(make_local_folder(stage.target));
  return copies.all_below(stage.source);
}

}  // namespace weir::cli::internal
