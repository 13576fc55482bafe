#pragma once

// What all subcommands share: where they write, how they read arguments, how they report.

#include <functional>
#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <weir/cli/run.h>
#include <weir/layout/partition.h>

namespace weir::cli::internal {

struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Terminal terminal;
};

/// What the parsed command line asks for.  An error that `action` returns is printed as "<name>: <message>" and gives
/// exit code 2.
struct Selection {
  std::string name;  ///< "weir layout map"
  std::function<Result<int>(Console&)> action;
  std::vector<std::string> command;  ///< Of `weir run`: what follows "--", for others to understand.
};

/// Adds `weir layout` with all its subcommands to `app`; parsing fills in `selection`.
void add_layout(CLI::App& app, Selection& selection);

/// Adds `weir bench`.
void add_bench(CLI::App& app, Selection& selection);

/// Adds `weir model`.
void add_model(CLI::App& app, Selection& selection);

// One function for each file of subcommands.
void add_show(CLI::App& layout, Selection& selection);
void add_map_commands(CLI::App& layout, Selection& selection);       // map, unmap, segments
void add_relation_commands(CLI::App& layout, Selection& selection);  // intersect, match, cost
void add_text_commands(CLI::App& layout, Selection& selection);      // print, size, simplify, cut, validate
void add_batch(CLI::App& layout, Selection& selection);

/// Adds a subcommand whose options live in an `Options` object as long as the parser does.
/// `declare(command, options)` declares them, `act(options, console)` runs.
template <typename Options, typename Declare, typename Act>
void add_command(CLI::App& parent, Selection& selection, const std::string& name, const std::string& summary,
                 const std::string& examples, Declare declare, Act act) {
  CLI::App* command = parent.add_subcommand(name, summary);
  command->footer(examples);
  auto options = std::make_shared<Options>();
  declare(*command, *options);
  command->callback([&selection, options, act] {
    selection.action = [options, act](Console& console) -> Result<int> { return act(*options, console); };
  });
}

/// Digits with K, M, G or T (powers of 1024), within [0, 2^62].
Result<Offset> parse_size(std::string_view text);

/// What a size may be.
struct SizeRange {
  Offset least = 0;
  Offset most = kMaxBytes;
};

/// \error kOutOfRange: names the option, what was given, and the range
Status check_size(const std::string& option, Offset size, const SizeRange& range);

/// Declares an option or positional that takes a size.
CLI::Option* add_size(CLI::App& command, const std::string& name, std::optional<Offset>& target,
                      const std::string& help, const SizeRange& range = {});
CLI::Option* add_sizes(CLI::App& command, const std::string& name, std::vector<Offset>& target,
                       const std::string& help);
/// \throws CLI::ValidationError, which becomes a message about the command line
Offset parse_number(const std::string& option, const std::string& text, Offset least, Offset most);

/// Declares an option that takes a whole number from `least` to `most`; anything else is refused with that range.
template <typename Integer>
CLI::Option* add_number(CLI::App& command, const std::string& name, Integer& target, Offset least, Offset most,
                        const std::string& help) {
  const auto store = [&target, name, least, most](const std::string& text) {
    target = static_cast<Integer>(parse_number(name, text, least, most));
  };
  return command.add_option_function<std::string>(name, store, help)->type_name("N");
}
/// The same for decimal numbers.
CLI::Option* add_decimal(CLI::App& command, const std::string& name, double& target, double least, double most,
                         const std::string& help);

/// Declares a layout argument.
CLI::Option* add_layout_text(CLI::App& command, const std::string& name, std::string& target, const std::string& help);
void add_json(CLI::App& command, bool& json);

/// The layout that `text` describes; "@FILE" reads the text from a file, "@-" from standard input.
/// A syntax error comes with the text and a caret under the column.
Result<layout::Partition> load_layout(const std::string& text, Console& console);
Result<layout::FallsSet> load_falls(const std::string& text, Console& console);

/// `status` of reading `text`, with a line of the text and a caret under the column that location() names.
Status point_at(const Status& status, std::string_view text);

}  // namespace weir::cli::internal
