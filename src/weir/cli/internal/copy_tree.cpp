#include <weir/cli/internal/copy_tree.h>

#include <algorithm>
#include <filesystem>

#include <weir/base/text.h>
#include <weir/cli/internal/printable.h>

namespace weir::cli::internal {

namespace {

namespace filesystem = std::filesystem;

Status add_local(CopyPlan& plan, const std::string& source, const std::string& target) {
  plan.folders.push_back(target);
  std::error_code error;
  std::vector<filesystem::directory_entry> entries;
  filesystem::directory_iterator next(source, error);
  for (; !error && next != filesystem::directory_iterator(); next.increment(error)) entries.push_back(*next);
  if (error) return {ErrorCode::kIoError, concat("cannot list ", source, ": ", error.message())};
  std::sort(entries.begin(), entries.end());
  for (const filesystem::directory_entry& entry : entries) {
    const std::string from = entry.path().string();
    const std::string to = join_path(target, entry.path().filename().string());
    const bool is_link = entry.is_symlink(error);
    if (entry.is_directory(error) && !is_link) {
      WEIR_RETURN_IF_ERROR(add_local(plan, from, to));
    } else if (entry.is_regular_file(error)) {
      const std::uintmax_t bytes = entry.file_size(error);
      plan.add({from, to, error ? 0 : static_cast<Offset>(bytes)});
    } else {
      const char* what = !is_link                    ? "neither a file nor a folder"
                         : entry.is_directory(error) ? "a link to a folder"
                         : !entry.exists(error)      ? "a link to nothing"
                                                     : "a link to something that is no file";
      plan.left_out.push_back(concat(printable(from), ": ", what));
    }
  }
  return Status::ok();
}

Status add_weir(CopyPlan& plan, const client::FileSystem& fs, const std::string& source, const std::string& target) {
  plan.folders.push_back(target);
  WEIR_TRY(const std::vector<client::Entry> entries, fs.list(source));
  for (const client::Entry& entry : entries) {
    if (!is_entry_name(entry.name)) {
      return {ErrorCode::kCorrupt,
              concat("the server lists a name in ", printable(source), " that cannot be one: ", printable(entry.name))};
    }
    const std::string from = join_path(source, entry.name);
    const std::string to = join_path(target, entry.name);
    if (entry.is_directory) {
      WEIR_RETURN_IF_ERROR(add_weir(plan, fs, from, to));
      continue;
    }
    const Result<client::Stat> found = fs.stat(from);
    if (!found.is_ok() && found.status().code() == ErrorCode::kNotFound) continue;  // removed since it was listed
    plan.add({from, to, found.is_ok() ? found->size : 0});  // other errors come again when it is copied
  }
  return Status::ok();
}

}  // namespace

void CopyPlan::add(CopyTask task) {
  bytes += task.bytes;
  files.push_back(std::move(task));
}

Result<CopyPlan> plan_local_tree(const std::string& source, const std::string& target) {
  CopyPlan plan;
  WEIR_RETURN_IF_ERROR(add_local(plan, source, target));
  return plan;
}

Result<CopyPlan> plan_weir_tree(const client::FileSystem& fs, const std::string& source, const std::string& target) {
  CopyPlan plan;
  WEIR_RETURN_IF_ERROR(add_weir(plan, fs, source, target));
  return plan;
}

bool is_entry_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

std::string join_path(const std::string& folder, const std::string& name) {
  return !folder.empty() && folder.back() == '/' ? folder + name : concat(folder, "/", name);
}

}  // namespace weir::cli::internal
