// weir quota

#include <cstdint>
#include <optional>
#include <string>

#include <pwd.h>

#include <fmt/format.h>

#include <weir/base/json_text.h>
#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/progress.h>

namespace weir::cli::internal {
namespace {

using client::FileSystem;
using client::Quota;
using client::QuotaLimits;
using client::Quotas;

struct ShowQuotaOptions {
  FileSystemOptions file_system;
  bool all = false;
  bool json = false;
};

struct SetQuotaOptions {
  FileSystemOptions file_system;
  std::string user;
  bool is_default = false;
  std::string bytes;
  std::string files;
};

std::string user_text(std::uint32_t user) {
  const passwd* const entry = ::getpwuid(user);
  return entry == nullptr ? std::to_string(user) : entry->pw_name;
}

void limits_json(JsonWriter& json, const QuotaLimits& limits) {
  json.key("bytes_limit");
  limits.bytes ? json.value(*limits.bytes) : json.null();
  json.key("files_limit");
  limits.files ? json.value(*limits.files) : json.null();
}

void quotas_json(const Quotas& quotas, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("active", quotas.is_active).key("users").begin_array();
  for (const Quota& one : quotas.users) {
    json.begin_object()
        .field("uid", static_cast<Offset>(one.user))
        .field("user", std::string_view(user_text(one.user)));
    json.field("used_bytes", one.used_bytes).field("used_files", one.used_files);
    limits_json(json, one.limits);
    json.field("own_limits", one.has_own_limits).end_object();
  }
  json.end_array().key("default");
  if (quotas.of_everybody) {
    json.begin_object();
    limits_json(json, *quotas.of_everybody);
    json.end_object();
  } else {
    json.null();
  }
  json.end_object();
  out << text << '\n';
}

std::string bytes_limit_text(const std::optional<Offset>& limit) {
  return limit ? bytes_text(static_cast<double>(*limit)) : "-";
}
std::string files_limit_text(const std::optional<Offset>& limit) { return limit ? std::to_string(*limit) : "-"; }

Result<int> show_quotas(const ShowQuotaOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  WEIR_TRY(const Quotas quotas, fs.quotas(options.all));
  if (options.json) {
    quotas_json(quotas, console.out);
    return kExitOk;
  }
  if (!quotas.is_active) {
    console.out << "no quotas are set, so nothing is counted\n";
    return kExitOk;
  }
  console.out << fmt::format("{:<16} {:>12} {:>12} {:>12} {:>12}\n", "user", "bytes", "limit", "files", "limit");
  for (const Quota& one : quotas.users) {
    console.out << fmt::format("{:<16} {:>12} {:>12} {:>12} {:>12}\n", user_text(one.user),
                               bytes_text(static_cast<double>(one.used_bytes)), bytes_limit_text(one.limits.bytes),
                               one.used_files, files_limit_text(one.limits.files));
  }
  if (quotas.of_everybody) {
    console.out << fmt::format("{:<16} {:>12} {:>12} {:>12} {:>12}\n", "others", "",
                               bytes_limit_text(quotas.of_everybody->bytes), "",
                               files_limit_text(quotas.of_everybody->files));
  }
  return kExitOk;
}

// -1: none.
Result<std::optional<Offset>> parse_limit(const std::string& text) {
  if (text.empty()) return std::optional<Offset>{};
  if (text == "none") return std::optional<Offset>(-1);
  WEIR_TRY(const Offset limit, parse_size(text));
  return std::optional<Offset>(limit);
}

Result<std::optional<std::uint32_t>> whose(const SetQuotaOptions& options) {
  if (options.is_default == !options.user.empty())
    return invalid_argument("quota: name a user, or --default for all who have no limits of their own");
  if (options.is_default) return std::optional<std::uint32_t>{};
  WEIR_TRY(const std::uint32_t user, user_of("quota", options.user));
  return std::optional<std::uint32_t>(user);
}

Result<int> set_quota(const SetQuotaOptions& options, Console&) {
  WEIR_TRY(const std::optional<std::uint32_t> user, whose(options));
  client::QuotaChange change;
  WEIR_TRY(change.bytes, parse_limit(options.bytes));
  WEIR_TRY(change.files, parse_limit(options.files));
  if (!change.bytes && !change.files) return invalid_argument("quota: say what to limit: --bytes, --files or both");
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  WEIR_RETURN_IF_ERROR(fs.set_quota(user, change));
  return kExitOk;
}

Result<int> clear_quota(const SetQuotaOptions& options, Console&) {
  WEIR_TRY(const std::optional<std::uint32_t> user, whose(options));
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  WEIR_RETURN_IF_ERROR(fs.clear_quota(user));
  return kExitOk;
}

void declare_user(CLI::App& command, SetQuotaOptions& options) {
  command.add_option("USER", options.user, "A name or a number");
  command.add_flag("--default", options.is_default,
                   "All who have no limits of their own, but root and the user that servers run as");
  add_file_system(command, options.file_system);
}

}  // namespace

void add_quota_command(CLI::App& app, Selection& selection) {
  CLI::App* quota = app.add_subcommand("quota", "Show and set how much users may have");
  quota->footer(
      "Bytes are the lengths of subfiles, in units of 4 KiB; holes count.  Files are files and directories.\n\n"
      "Examples:\n"
      "  weir quota                                  what you have and may have\n"
      "  weir quota --all --json                     all users: for root and the user that servers run as\n"
      "  weir quota set ada --bytes 10G --files 1000\n"
      "  weir quota set --default --bytes 1T\n"
      "  weir quota clear ada\n");
  auto show = std::make_shared<ShowQuotaOptions>();
  quota->add_flag("--all", show->all, "Of all users");
  add_file_system(*quota, show->file_system);
  add_json(*quota, show->json);
  quota->callback([&selection, show, quota] {
    if (!quota->get_subcommands().empty()) return;
    selection.action = [show](Console& console) { return show_quotas(*show, console); };
  });
  add_command<SetQuotaOptions>(
      *quota, selection, "set", "Limit what a user may have",
      "What is not said stays as it is.\n\nExample:\n  weir quota set ada --bytes 10G --files none\n",
      [](CLI::App& command, SetQuotaOptions& options) {
        command.add_option("--bytes", options.bytes, "Most bytes, or none for no limit")->type_name("N");
        command.add_option("--files", options.files, "Most files and directories, or none for no limit")
            ->type_name("N");
        declare_user(command, options);
      },
      set_quota);
  add_command<SetQuotaOptions>(*quota, selection, "clear", "Take away the limits of a user's own",
                               "Example:\n  weir quota clear ada\n", declare_user, clear_quota);
}

}  // namespace weir::cli::internal
