// weir layout show

#include <algorithm>

#include <weir/base/environment.h>
#include <weir/cli/internal/answers.h>
#include <weir/cli/internal/command.h>
#include <weir/cli/internal/svg.h>
#include <weir/cli/internal/text_picture.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

constexpr Offset kSvgArrayCells = 256;  // each way; finer than print
constexpr Offset kSvgByteColumns = 64;
constexpr Offset kSvgByteRows = 24;

struct ShowOptions {
  std::string layout;
  std::optional<Offset> element;
  std::string slice;
  std::string svg;
  std::string color = "auto";
  std::optional<Offset> width;
  Offset height = 40;
  Offset periods = 2;
  Offset limit = 8;
  bool ascii = false;
  bool no_tree = false;
  bool no_picture = false;
  bool json = false;
};

std::string_view kind_of(const layout::Partition& partition) {
  struct Names {
    std::string_view operator()(const layout::Stripe&) const { return "stripe"; }
    std::string_view operator()(const layout::Hpf&) const { return "hpf"; }
    std::string_view operator()(const layout::Tiles&) const { return "tiles"; }
    std::string_view operator()(const layout::Explicit&) const { return "falls"; }
  };
  return std::visit(Names{}, partition.description());
}

bool wants_color(const ShowOptions& options, const Terminal& terminal) {
  if (options.color != "auto") return options.color == "always";
  return terminal.is_terminal && environment("NO_COLOR").empty();
}

/// The elements to list: the one asked for, or the first few.
layout::Range listed(const ShowOptions& options, const layout::Partition& partition) {
  if (options.element) return {*options.element, *options.element + 1};
  return {0, std::min(partition.element_count(), options.limit)};
}

PictureOptions picture_options(const ShowOptions& options) {
  PictureOptions wanted;
  wanted.periods = options.periods;
  wanted.element = options.element;
  wanted.slice = options.slice;
  return wanted;
}

Result<Picture> draw_text_picture(const ShowOptions& options, const layout::Partition& partition, Offset width) {
  PictureOptions wanted = picture_options(options);
  wanted.max_columns = text_columns(partition, width);
  wanted.max_rows = options.height;
  return draw(partition, wanted);
}

Status write_svg(const ShowOptions& options, const layout::Partition& partition, Console& console) {
  PictureOptions wanted = picture_options(options);
  const bool is_array = array_shape(partition).has_value();
  wanted.max_columns = is_array ? kSvgArrayCells : kSvgByteColumns;
  wanted.max_rows = is_array ? kSvgArrayCells : kSvgByteRows;
  WEIR_TRY(const Picture picture, draw(partition, wanted));
  WEIR_TRY(const std::string text, draw_layout_svg(partition, picture));
  return write_file(options.svg, text, console);
}

Status write_json(const ShowOptions& options, const layout::Partition& partition, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object()
      .field("layout", std::string_view(layout::print(partition)))
      .field("kind", kind_of(partition))
      .field("disp", partition.disp())
      .field("period", partition.period())
      .field("element_count", partition.element_count())
      .key("elements")
      .begin_array();
  const layout::Range range = listed(options, partition);
  for (Offset i = range.from; i < range.to; ++i) {
    WEIR_TRY(const layout::Element element, partition.element(i));
    json.begin_object()
        .field("element", i)
        .field("size", element.size())
        .field("monotone", element.is_monotone())
        .field("falls", std::string_view(layout::print(element.falls())))
        .end_object();
  }
  json.end_array().end_object();
  out << text << '\n';
  return Status::ok();
}

Status write_trees(const ShowOptions& options, const layout::Partition& partition, const TextStyle& style,
                   std::ostream& out) {
  const layout::Range range = listed(options, partition);
  for (Offset i = range.from; i < range.to; ++i) {
    WEIR_TRY(const layout::Element element, partition.element(i));
    out << "\nelement " << i << "  " << element.size() << (element.size() == 1 ? " byte" : " bytes") << " a period"
        << (element.is_monotone() ? "" : ", not in file order") << '\n'
        << render_tree(element.falls(), style);
  }
  if (!options.element && range.to < partition.element_count()) {
    out << "\n... and " << partition.element_count() - range.to << " more elements (--limit shows more)\n";
  }
  return Status::ok();
}

Status write_text(const ShowOptions& options, const layout::Partition& partition, Console& console) {
  TextStyle style;
  style.width = options.width.value_or(console.terminal.columns);
  style.ascii = options.ascii;
  style.color = wants_color(options, console.terminal);
  // Drawn before anything is written: an error leaves no half of an answer.
  Picture picture;
  if (!options.no_picture) {
    WEIR_TRY(picture, draw_text_picture(options, partition, style.width));
  }
  const Offset count = partition.element_count();
  console.out << shorten(layout::print(partition), 400) << '\n'
              << kind_of(partition) << ": " << count << (count == 1 ? " element" : " elements") << ", period "
              << partition.period() << " bytes, disp " << partition.disp() << '\n';
  if (!options.no_tree) WEIR_RETURN_IF_ERROR(write_trees(options, partition, style, console.out));
  if (!options.no_picture) console.out << '\n' << render_text(picture, count, style);
  return Status::ok();
}

Result<int> show_layout(const ShowOptions& options, Console& console) {
  WEIR_TRY(const layout::Partition partition, load_layout(options.layout, console));
  if (options.element) {
    const auto element = partition.element(*options.element);  // refused here, before anything is written
    if (!element.is_ok()) return element.status();
  }
  if (!options.svg.empty()) {
    WEIR_RETURN_IF_ERROR(write_svg(options, partition, console));
    if (options.svg == "-") return kExitOk;
  }
  WEIR_RETURN_IF_ERROR(options.json ? write_json(options, partition, console.out)
                                    : write_text(options, partition, console));
  return kExitOk;
}

void declare_show(CLI::App& command, ShowOptions& options) {
  add_layout_text(command, "LAYOUT", options.layout, "The layout");
  add_size(command, "-e,--element", options.element, "Show this element only");
  command.add_option("--slice", options.slice, "Plane of an n-D array, e.g. 3,*,*  [the last two dimensions]")
      ->type_name("INDICES");
  command.add_option("--svg", options.svg, "Write a vector picture to FILE (- is standard output)")->type_name("FILE");
  add_size(command, "--width", options.width, "Columns of text [those of the terminal, else 80]")
      ->check(CLI::Range(20, 10'000));
  command.add_option("--height", options.height, "Rows of the picture at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  command.add_option("--periods", options.periods, "Periods in a picture of bytes")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000));
  command.add_option("--limit", options.limit, "Elements listed at most")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  command.add_option("--color", options.color, "auto, always or never")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command.add_flag("--ascii", options.ascii, "Draw trees with ASCII characters");
  command.add_flag("--no-tree", options.no_tree, "Leave out the FALLS of the elements");
  command.add_flag("--no-picture", options.no_picture, "Leave out the picture");
  add_json(command, options.json);
}

}  // namespace

void add_show(CLI::App& layout, Selection& selection) {
  add_command<ShowOptions>(
      layout, selection, "show", "The elements of a layout as trees of FALLS, and a picture",
      "Examples:\n"
      "  weir layout show 'hpf(shape=[8,8], dist=(*,BLOCK), grid=[1,4])'\n"
      "  weir layout show 'hpf(shape=[16,64,64], elem=8, dist=(BLOCK,*,CYCLIC), grid=[2,1,4])' --slice '3,*,*'\n"
      "  weir layout show 'tiles(shape=[4096,4096], elem=8, tile=[256,256], over=4)' --svg tiles.svg\n",
      declare_show, show_layout);
}

}  // namespace weir::cli::internal
