#include <weir/cli/internal/job_stage.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

namespace weir::cli::internal {

namespace {

namespace fs = std::filesystem;
using client::FileSystem;

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

Result<int> put_file(const std::string& connection, const Stage& stage, const std::string& layout, Console& console) {
  TransferOptions options = transfer(connection, stage.source, stage.target);
  options.layout = layout;
  return put(options, console);
}

Result<int> put_folder(const std::string& connection, const FileSystem& file_system, const Stage& stage,
                       const std::string& layout, Console& console) {
  WEIR_RETURN_IF_ERROR(make_directories(file_system, stage.target));
  std::error_code error;
  fs::recursive_directory_iterator entry(stage.source, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const std::string target = concat(stage.target, "/", entry->path().lexically_relative(stage.source).string());
    std::error_code gone;
    if (entry->is_directory(gone)) {
      WEIR_RETURN_IF_ERROR(make_directories(file_system, target));
    } else {
      WEIR_TRY(const int code, put_file(connection, {entry->path().string(), target}, layout, console));
      if (code != kExitOk) return code;
    }
  }
  if (error) return Status(ErrorCode::kIoError, concat("cannot read ", stage.source, ": ", error.message()));
  return kExitOk;
}

Result<int> get_folder(const std::string& connection, const FileSystem& file_system, const Stage& stage,
                       Console& console) {
  std::error_code error;
  fs::create_directories(stage.target, error);
  if (error) return Status(ErrorCode::kIoError, concat("cannot make ", stage.target, ": ", error.message()));
  WEIR_TRY(const std::vector<client::Entry> entries, file_system.list(stage.source));
  for (const client::Entry& entry : entries) {
    const Stage inner{concat(stage.source == "/" ? "" : stage.source, "/", entry.name),
                      concat(stage.target, "/", entry.name)};
    WEIR_TRY(const int code, entry.is_directory ? get_folder(connection, file_system, inner, console)
                                                : get(transfer(connection, inner.source, inner.target), console));
    if (code != kExitOk) return code;
  }
  return kExitOk;
}

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

Result<Stage> parse_stage_out(const std::string& text) {
  constexpr std::string_view kScheme = "weir:";
  WEIR_TRY(Stage stage, split(text, text.rfind(kScheme, 0) == 0 ? text.substr(kScheme.size()) : text));
  stage.source = weir_path(stage.source);
  if (stage.target.empty()) stage.target = stage.source == "/" ? "." : stage.source.substr(stage.source.rfind('/') + 1);
  return stage;
}

Status check_stage_in(const Stage& stage) {
  if (::access(stage.source.c_str(), R_OK) == 0) return Status::ok();
  return {ErrorCode::kNotFound, concat("--stage-in ", stage.source, ": ", std::strerror(errno))};
}

Status check_stage_out(const Stage& stage) {
  std::error_code error;
  const fs::path target = fs::absolute(stage.target, error);
  const fs::path folder = fs::is_directory(target, error) ? target : target.parent_path();
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return Status::ok();
  return {ErrorCode::kIoError,
          concat("--stage-out ", stage.source, ": cannot write to ", folder.string(), ": ", std::strerror(errno))};
}

Result<int> stage_in(const std::string& connection, const Stage& stage, const std::string& layout, Console& console) {
  WEIR_TRY(const FileSystem file_system, connect_to(connection));
  std::error_code error;
  if (fs::is_directory(stage.source, error)) return put_folder(connection, file_system, stage, layout, console);
  WEIR_RETURN_IF_ERROR(make_directories(file_system, parent_of(stage.target)));
  return put_file(connection, stage, layout, console);
}

Result<int> stage_out(const std::string& connection, const Stage& stage, Console& console) {
  WEIR_TRY(const FileSystem file_system, connect_to(connection));
  WEIR_TRY(const client::Stat found, file_system.stat(stage.source));
  if (found.is_directory) return get_folder(connection, file_system, stage, console);
  return get(transfer(connection, stage.source, stage.target), console);
}

}  // namespace weir::cli::internal
