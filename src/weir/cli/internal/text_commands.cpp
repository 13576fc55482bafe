// weir layout print, size, simplify, cut, validate

#include <weir/cli/internal/answers.h>
#include <weir/cli/internal/command.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

struct LayoutOptions {
  std::string layout;
  bool json = false;
};

struct SizeOptions {
  std::string layout;
  std::optional<Offset> element;
  Offset limit = 16;
  bool json = false;
};

struct FallsOptions {
  std::string falls;
  std::optional<Offset> first;
  std::optional<Offset> last;
  bool json = false;
};

/// Writes one JSON object on a line of its own; `fill(json)` writes the members.
template <typename Fill>
void write_object(std::ostream& out, Fill fill) {
  std::string text;
  JsonWriter json(text);
  json.begin_object();
  fill(json);
  json.end_object();
  out << text << '\n';
}

void declare_layout(CLI::App& command, LayoutOptions& options) {
  add_layout_text(command, "LAYOUT", options.layout, "The layout");
  add_json(command, options.json);
}

Result<int> print_layout(const LayoutOptions& options, Console& console) {
  WEIR_TRY(const layout::Partition partition, load_layout(options.layout, console));
  const std::string text = layout::print(partition);
  if (options.json) {
    write_object(console.out, [&](JsonWriter& json) { json.field("layout", std::string_view(text)); });
  } else {
    console.out << text << '\n';
  }
  return kExitOk;
}

Result<int> validate_layout(const LayoutOptions& options, Console& console) {
  WEIR_TRY(const layout::Partition partition, load_layout(options.layout, console));
  const Status verdict = partition.validate();
  if (!is_verdict(verdict)) return verdict;
  if (options.json) {
    write_object(console.out, [&](JsonWriter& json) { static_cast<void>(write_verdict(verdict, json)); });
  } else if (verdict.is_ok()) {
    console.out << "ok: " << partition.element_count() << " elements hold each byte of the period of "
                << partition.period() << " bytes once\n";
  } else {
    console.out << "not a " << verdict.message() << '\n';
  }
  return verdict.is_ok() ? kExitOk : kExitNo;
}

Result<int> show_sizes(const SizeOptions& options, Console& console) {
  WEIR_TRY(const layout::Partition partition, load_layout(options.layout, console));
  const Offset first = options.element.value_or(0);
  const Offset last =
      options.element ? first + 1 : std::min(partition.element_count(), std::max<Offset>(options.limit, 1));
  for (Offset i = first; i < last; ++i) {
    WEIR_TRY(const layout::Element element, partition.element(i));
    if (options.json) {
      write_object(console.out, [&](JsonWriter& json) {
        json.field("element", i).field("size", element.size()).field("period", element.period());
      });
    } else {
      console.out << "element " << i << "  " << element.size() << " of " << element.period() << " bytes\n";
    }
  }
  if (!options.element && last < partition.element_count() && !options.json) {
    console.out << "... and " << partition.element_count() - last << " more elements (--limit shows more)\n";
  }
  return kExitOk;
}

int write_falls(const layout::FallsSet& set, bool as_json, std::ostream& out) {
  const std::string text = layout::print(set);
  if (as_json) {
    write_object(out, [&](JsonWriter& json) { json.field("falls", std::string_view(text)); });
  } else {
    out << text << '\n';
  }
  return kExitOk;
}

Result<int> simplify_falls(const FallsOptions& options, Console& console) {
  WEIR_TRY(layout::FallsSet set, load_falls(options.falls, console));
  return write_falls(layout::simplify(std::move(set)), options.json, console.out);
}

Result<int> cut_falls(const FallsOptions& options, Console& console) {
  WEIR_TRY(const layout::FallsSet set, load_falls(options.falls, console));
  WEIR_RETURN_IF_ERROR(check_cut(*options.first, *options.last));
  return write_falls(layout::cut(set, *options.first, *options.last), options.json, console.out);
}

void add_falls_commands(CLI::App& layout, Selection& selection) {
  add_command<FallsOptions>(
      layout, selection, "simplify", "Write a set of FALLS with fewer parts",
      "Example:\n  weir layout simplify '{(0,15,32,2,{(1,3,-,1),(4,6,-,1)})}'\n",
      [](CLI::App& command, FallsOptions& options) {
        add_layout_text(command, "FALLS", options.falls, "A set {(l,r,s,n[,{...}]),...}");
        add_json(command, options.json);
      },
      simplify_falls);
  add_command<FallsOptions>(
      layout, selection, "cut", "The bytes of a set of FALLS from FIRST to LAST, relative to FIRST",
      "Example:\n  weir layout cut '(3,5,6,5)' 4 28\n",
      [](CLI::App& command, FallsOptions& options) {
        add_layout_text(command, "FALLS", options.falls, "A set {(l,r,s,n[,{...}]),...}");
        add_size(command, "FIRST", options.first, "First byte")->required();
        add_size(command, "LAST", options.last, "Last byte, inclusive")->required();
        add_json(command, options.json);
      },
      cut_falls);
}

}  // namespace

void add_text_commands(CLI::App& layout, Selection& selection) {
  add_command<LayoutOptions>(
      layout, selection, "validate", "Check that the elements are disjoint and cover the period",
      "Exit code 1 if they do not; the first byte that no element or more than one holds is named.\n\n"
      "Example:\n  weir layout validate 'falls({(0,1,6,1)} | {(3,5,6,1)})'\n",
      declare_layout, validate_layout);
  add_command<LayoutOptions>(layout, selection, "print", "Print a layout in its canonical form",
                             "Example:\n  weir layout print 'stripe( over=4, unit=65536 )'\n", declare_layout,
                             print_layout);
  add_command<SizeOptions>(
      layout, selection, "size", "Bytes of each element in one period",
      "Example:\n  weir layout size 'hpf(shape=[10,10], dist=(BLOCK,*), grid=[4,1])'\n",
      [](CLI::App& command, SizeOptions& options) {
        add_layout_text(command, "LAYOUT", options.layout, "The layout");
        add_size(command, "-e,--element", options.element, "Only this element");
        command.add_option("--limit", options.limit, "Elements shown at most")->capture_default_str();
        add_json(command, options.json);
      },
      show_sizes);
  add_falls_commands(layout, selection);
}

}  // namespace weir::cli::internal
