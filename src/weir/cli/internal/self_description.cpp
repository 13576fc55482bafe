#include <weir/cli/internal/self_description.h>

#include <algorithm>
#include <array>

#include <weir/base/environment.h>
#include <weir/base/nearest.h>
#include <weir/base/version.h>

namespace weir::cli::internal {

namespace {

struct HelpOptions {
  std::vector<std::string> names;
};

struct NoOptions {};

struct Paragraph {
  const char* term;
  const char* text;
};

// ---- help ----------------------------------------------------------------------------------------------------------

Result<int> show_help(const CLI::App& app, const HelpOptions& options, Console& console) {
  const CLI::App* command = &app;
  std::string above;
  for (const std::string& name : options.names) {
    above += concat(above.empty() ? "" : " ", command->get_name());
    const std::vector<const CLI::App*> inner =
        command->get_subcommands([&](const CLI::App* one) { return one->get_name() == name; });
    if (inner.empty()) {
      std::vector<std::string> known;
      for (const CLI::App* one : visible_commands(*command)) known.push_back(one->get_name());
      const std::optional<std::string> meant = nearest(name, known);
      return Status(ErrorCode::kInvalidArgument, concat(above, ": there is no command '", name, "'",
                                                        meant ? concat("; did you mean '", *meant, "'?") : ""));
    }
    command = inner.front();
  }
  // Not App::help(), which goes on to the subcommand that was parsed: this one.
  console.out << command->get_formatter()->make_help(
      command, concat(above, above.empty() ? "" : " ", command->get_name()), CLI::AppFormatMode::Normal);
  return kExitOk;
}

// ---- completion ----------------------------------------------------------------------------------------------------

// The values of an option that takes one of a set, from "{a,b,c}" in its description.
std::string values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return "";
  std::string values = type.substr(open + 1, close - open - 1);
  std::replace(values.begin(), values.end(), ',', ' ');
  return values;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

struct CompletionTables {
  std::string commands;  ///< case branches: the command that a word leads to
  std::string words;     ///< case branches: commands and options that may follow a command
  std::string values;    ///< case branches: what may follow an option
};

void add_to_completion(const CLI::App& command, const std::string& path, CompletionTables& tables) {
  std::string words;
  for (const CLI::App* inner : visible_commands(command)) {
    const std::string inner_path = concat(path, " ", inner->get_name());
    words += inner->get_name() + " ";
    tables.commands += concat("      '", inner_path, "') command='", inner_path, "' ;;\n");
    add_to_completion(*inner, inner_path, tables);
  }
  if (command.get_name() == "help" && command.get_parent() != nullptr) {
    for (const CLI::App* other : visible_commands(*command.get_parent())) words += other->get_name() + " ";
  }
  std::string options;
  for (const std::string& name : option_names(command)) options += name + " ";
  tables.words += concat("    '", path, "') words='", words, "' options='", options, "' ;;\n");
  for (const CLI::Option* option : command.get_options()) {
    const std::string values = values_of(*option);
    const bool takes_value = option->get_items_expected_max() > 0;
    for (const std::string& name : names_of(*option)) {
      if (takes_value) tables.values += concat("    '", path, " ", name, "') words='", values, "' takes_value=1 ;;\n");
    }
  }
}

// ---- manual --------------------------------------------------------------------------------------------------------

constexpr std::array kExitCodes{
    Paragraph{"0", "Done."},
    Paragraph{
        "1",
        "The command worked, and the answer is no: \\fBfsck\\fR found faults, \\fBstatus\\fR found servers that do not "
        "answer, \\fBdown\\fR had to kill servers, a recursive copy left something out, layouts are not equal."},
    Paragraph{"2", "Wrong usage, bad input, or the operation failed; standard error says why."},
    Paragraph{"130", "\\fBput\\fR, \\fBget\\fR or \\fBcp\\fR was interrupted."},
    Paragraph{"other",
              "\\fBweir run\\fR has the exit code of its command; 124 after \\fB\\-\\-timeout\\fR, 126 and 127 if the "
              "command "
              "cannot be started."},
};

constexpr std::array kFiles{
    Paragraph{"$XDG_RUNTIME_DIR/weir/fs.toml, ~/.weir/fs.toml",
              "The connection file that \\fBweir up\\fR writes: addresses of the servers and the key. Only its owner "
              "may read it."},
    Paragraph{
        "NAME.servers, NAME.secret, NAME.log",
        "Beside a connection file NAME: which processes the servers are, the secret that they share, and what they "
        "log. Clients do not need them."},
    Paragraph{".weir\\-part\\-*", "A copy under way, in the folder of its target."},
};

// Text as it is, safe inside a manual page.
std::string roff(const std::string& text) {
  std::string out;
  bool starts_line = true;
  for (const char c : text) {
    // A dot or quote at the start of a line would be a request.
    if (starts_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    starts_line = c == '\n';
  }
  return out;
}

template <std::size_t kCount>
void add_paragraphs(const std::array<Paragraph, kCount>& paragraphs, std::string& page) {
  for (const Paragraph& one : paragraphs) page += concat(".TP\n.B ", one.term, "\n", one.text, "\n");
}

std::string synopsis(const CLI::App& command, const std::string& path) {
  std::string line = concat("\\fB", roff(path), "\\fR");
  if (!visible_commands(command).empty()) return line + " \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]";
  if (!option_names(command).empty()) line += " [\\fIOPTION\\fR...]";
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = concat("\\fI", roff(option->get_name(true)), "\\fR");
    const std::string more = option->get_expected_max() > 1 ? "..." : "";
    line += option->get_required() ? concat(" ", name, more) : concat(" [", name, more, "]");
  }
  return line;
}

// Footers are paragraphs, and indented lines that stay as they are: examples and tables.
void add_footer(const std::string& footer, std::string& page) {
  bool is_table = false;
  page += ".PP\n";
  for (std::size_t at = 0; at < footer.size();) {
    const std::size_t end = std::min(footer.find('\n', at), footer.size());
    const std::string line = footer.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("Example")) continue;
    const bool is_indented = line.starts_with("  ");
    if (is_indented != is_table) page += is_indented ? ".nf\n" : ".fi\n";
    is_table = is_indented;
    page += line.empty() ? ".PP\n" : roff(line) + "\n";
  }
  if (is_table) page += ".fi\n";
}

void add_options(const CLI::App& command, std::string& page) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty() || option == command.get_help_ptr()) continue;
    const std::string name = option->get_positional() ? option->get_name(true) : option->get_name(false, true);
    const bool takes_value = !option->get_positional() && option->get_items_expected_max() > 0;
    std::string values = values_of(*option);
    std::replace(values.begin(), values.end(), ' ', '|');
    const std::string value =
        !takes_value ? "" : concat(" \\fI", roff(values.empty() ? option->get_type_name() : values), "\\fR");
    page += concat(".TP\n\\fB", roff(name), "\\fR", value, "\n", roff(option->get_description()), "\n");
  }
}

void add_commands(const CLI::App& app, const std::string& path, std::string& page) {
  for (const CLI::App* command : visible_commands(app)) {
    const std::string inner = concat(path, " ", command->get_name());
    page += concat(".SS ", roff(inner), "\n", roff(command->get_description()), ".\n.PP\n", synopsis(*command, inner),
                   "\n");
    add_options(*command, page);
    add_footer(command->get_footer(), page);
    add_commands(*command, inner, page);
  }
}

}  // namespace

std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); });
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> of_one = names_of(*option);
    names.insert(names.end(), of_one.begin(), of_one.end());
  }
  return names;
}

std::string bash_completion(const CLI::App& app) {
  CompletionTables tables;
  add_to_completion(app, app.get_name(), tables);
  return concat(
      "# bash completion for weir, written by `weir completion`\n"
      "_weir() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command=weir words='' options='' takes_value='' index\n"
      "  COMPREPLY=()\n"
      "  for ((index = 1; index < COMP_CWORD; ++index)); do\n"
      "    if [[ ${COMP_WORDS[index]} == -- ]]; then\n"
      "      # Of `weir run`: a command of its own begins.\n"
      "      if declare -F _command_offset >/dev/null; then _command_offset $((index + 1)); fi\n"
      "      return\n"
      "    fi\n"
      "    case \"$command ${COMP_WORDS[index]}\" in\n",
      tables.commands,
      "    esac\n"
      "  done\n"
      "  case \"$command\" in\n",
      tables.words,
      "  esac\n"
      "  case \"$command $previous\" in\n",
      tables.values,
      "  esac\n"
      "  # Where nothing fits, bash completes names of local files.\n"
      "  if [[ -z $takes_value && $current == -* ]]; then words=$options; fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}\n"
      "complete -o default -F _weir weir\n");
}

std::string manual_page(const CLI::App& app) {
  std::string page = concat(".TH WEIR 1 \"\" \"weir ", version(), "\" \"User Commands\"\n.ad l\n.nh\n");
  page += ".SH NAME\nweir \\- parallel file system and I/O runtime for array data\n";
  page += concat(".SH SYNOPSIS\n", synopsis(app, "weir"),
                 "\n.br\n\\fBweir run\\fR [\\fIOPTION\\fR...] \\fB\\-\\-\\fR \\fICOMMAND\\fR...\n");
  page +=
      ".SH DESCRIPTION\n"
      "Weir stores files by layouts that say which bytes each server holds and in which order, and gives each process "
      "a view of the\n"
      "same kind. The map between the two is computed once, and every byte moves once, straight to its place.\n"
      ".PP\n"
      "\\fBweir run\\fR starts a file system for one command, lets the MPI\\-IO of its program reach files named "
      "\\fIweir:/...\\fR, and\n"
      "takes everything away at the end. \\fBweir up\\fR starts one that stays, and the commands on files work on it. "
      "Names in the file\n"
      "system are absolute; \\fIweir:/x\\fR, \\fI/x\\fR and \\fIx\\fR mean the same. Sizes take K, M, G and T, powers "
      "of 1024.\n"
      "Every command takes \\fB\\-h\\fR and \\fB\\-\\-help\\fR.\n";
  page += ".SH COMMANDS\n";
  add_commands(app, "weir", page);
  const std::string footer = app.get_footer();
  page += ".SH EXAMPLES\n";
  add_footer(footer.substr(std::min(footer.find("Example"), footer.size())), page);
  page += ".SH EXIT STATUS\n";
  add_paragraphs(kExitCodes, page);
  page += ".SH ENVIRONMENT\n";
  for (const Variable& one : variables())
    page += concat(".TP\n.B ", one.name, "\n", roff(meaning_and_default(one)), "\n");
  page += ".SH FILES\n";
  add_paragraphs(kFiles, page);
  return page;
}

void add_self_description(CLI::App& app, Selection& selection) {
  add_command<HelpOptions>(
      app, selection, "help", "Describe a command", "Examples:\n  weir help put\n  weir help layout show\n",
      [](CLI::App& command, HelpOptions& options) {
        command.add_option("COMMAND", options.names, "The command [an overview]");
      },
      [&app](const HelpOptions& options, Console& console) { return show_help(app, options, console); });
  add_command<NoOptions>(
      app, selection, "completion", "Print a script that teaches bash the commands and options",
      "Packages and `cmake --install` install it.\n\nExample:\n  source <(weir completion)\n",
      [](CLI::App&, NoOptions&) {},
      [&app](const NoOptions&, Console& console) -> Result<int> {
        console.out << bash_completion(app);
        return kExitOk;
      });
  add_command<NoOptions>(
      app, selection, "manual", "Print the manual page", "", [](CLI::App& command, NoOptions&) { command.group(""); },
      [&app](const NoOptions&, Console& console) -> Result<int> {
        console.out << manual_page(app);
        return kExitOk;
      });
}

}  // namespace weir::cli::internal
