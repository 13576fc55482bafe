#include <weir/cli/run.h>

#include <algorithm>
#include <new>
#include <string_view>

#include <weir/base/nearest.h>
#include <weir/base/version.h>
#include <weir/cli/internal/command.h>
#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/printable.h>
#include <weir/cli/internal/report_command.h>
#include <weir/cli/internal/run_command.h>
#include <weir/cli/internal/self_description.h>

namespace weir::cli {
namespace {

using internal::Console;
using internal::Selection;

constexpr char kExamples[] =
    "Exit codes: 0 done, 1 the answer is no, 2 wrong usage or it failed, 130 interrupted; `weir run` has that of its "
    "command.\n\n"
    "Examples:\n"
    "  weir run -- mpirun -n 8 ./simulation weir:/out.dat\n"
    "  weir up --servers 4 && weir put input.dat /input.dat && weir ls -l\n"
    "  weir layout show 'hpf(shape=[8,8], dist=(*,BLOCK), grid=[1,4])'\n"
    "  weir help put\n";

struct ParsedCommand {
  const CLI::App* command;
  std::string name;  ///< "weir layout map"
};

/// The innermost command that was parsed, or being parsed.
ParsedCommand find_command(const CLI::App& app) {
  ParsedCommand found{&app, app.get_name()};
  while (true) {
    const auto parsed = found.command->get_subcommands();
    if (parsed.empty()) return found;
    found.command = parsed.back();
    found.name += " " + found.command->get_name();
  }
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::optional<std::string> meant = nearest(word, known);
  return meant ? concat("; did you mean '", *meant, "'?") : "";
}

// What is wrong with a word that the parser did not understand.
std::string explain_word(const CLI::App& command, const std::string& word) {
  if (word.starts_with("-")) {
    const std::string hint = did_you_mean(word.substr(0, word.find('=')), internal::option_names(command));
    const std::string rest = hint.empty() && command.get_name() == "run" ? "; the command to run comes after --" : hint;
    return concat("there is no option '", word, "'", rest);
  }
  const std::vector<const CLI::App*> commands = internal::visible_commands(command);
  if (commands.empty()) {
    return concat("unexpected argument '", word, "'",
                  command.get_name() == "run" ? "; the command to run comes after --" : "");
  }
  std::vector<std::string> names;
  for (const CLI::App* one : commands) names.push_back(one->get_name());
  return concat("there is no command '", word, "'", did_you_mean(word, names));
}

int report_usage(const CLI::App& app, const CLI::ParseError& error, Console& console) {
  const auto [command, name] = find_command(app);
  const std::vector<std::string> rest = app.remaining(true);
  // The parser only says that a subcommand is required, also when there is one that it does not know.
  const std::string what = rest.empty() ? error.what() : explain_word(*command, rest.front());
  console.err << name << ": " << internal::printable_message(what) << "\nTry '" << name << " --help'.\n";
  return kExitBad;
}

int run_selected(const Selection& selection, Console& console) {
  const Result<int> exit_code = selection.action(console);
  if (!exit_code.is_ok()) {
    console.err << selection.name << ": " << internal::printable_message(exit_code.status().message()) << '\n';
    return kExitBad;
  }
  console.out.flush();
  if (!console.out) {
    console.err << selection.name << ": cannot write the answer to standard output\n";
    return kExitBad;
  }
  return *exit_code;
}

// How many words are ours: those of a command to run, after "--", are not even looked at.
int count_own(int argc, const char* const* argv) {
  if (argc < 2 || std::string_view(argv[1]) != "run") return argc;
  return static_cast<int>(std::find(argv, argv + argc, std::string_view("--")) - argv);
}

int parse_and_run(int argc, const char* const* argv, Console& console) {
  CLI::App app{"Weir: a parallel file system and I/O runtime for array data", "weir"};
  app.set_version_flag("--version", concat("weir ", version()), "Print the version");
  app.require_subcommand(1);
  app.footer(kExamples);
  Selection selection;
  const int own = count_own(argc, argv);
  if (own < argc) selection.command.assign(argv + own + 1, argv + argc);
  internal::add_run(app, selection);
  internal::add_env(app, selection);
  internal::add_report(app, selection);
  internal::add_daemon_commands(app, selection);
  internal::add_name_commands(app, selection);
  internal::add_owner_commands(app, selection);
  internal::add_quota_command(app, selection);
  internal::add_sync_command(app, selection);
  internal::add_copy_commands(app, selection);
  internal::add_care_commands(app, selection);
  internal::add_layout(app, selection);
  internal::add_model(app, selection);
  internal::add_bench(app, selection);
  internal::add_serve_job(app, selection);
  internal::add_self_description(app, selection);
  try {
    app.parse(own, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    app.exit(success, console.out, console.err);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error, console);
  }
  selection.name = find_command(app).name;
  return run_selected(selection, console);
}

}  // namespace

int run(int argc, const char* const* argv, std::istream& in, std::ostream& out, std::ostream& err,
        const Terminal& terminal) {
  Console console{in, out, err, terminal};
  try {
    return parse_and_run(argc, argv, console);
  } catch (const std::bad_alloc&) {
    err << "weir: out of memory\n";
    return kExitBad;
  }
}

}  // namespace weir::cli
