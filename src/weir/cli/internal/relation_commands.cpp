// weir layout intersect, match, cost

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include <weir/cli/internal/answers.h>
#include <weir/cli/internal/command.h>
#include <weir/cli/internal/svg.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

constexpr Offset kMostCounted = 1'000'000;  // pieces; counting more would take longer than anyone waits

struct IntersectOptions {
  std::string a;
  std::string b;
  std::optional<Offset> a_element;
  std::optional<Offset> b_element;
  std::optional<Offset> from;
  std::optional<Offset> to;
  bool list_pieces = false;
  Offset limit = 40;
  std::string svg;
  bool json = false;
};

struct MatchOptions {
  std::string view;
  std::string layout;
  std::optional<Offset> element;
  Offset limit = 16;
  bool json = false;
};

/// Two elements and what is common to them.
struct Intersection {
  layout::Element a;
  layout::Element b;
  layout::Range file;  ///< What was looked at.
  layout::Mapping mapping;
  Offset piece_count = 0;
  bool is_count_exact = true;
};

Result<layout::Element> load_element(const std::string& text, Offset index, Console& console) {
  WEIR_TRY(const layout::Partition partition, load_layout(text, console));
  return partition.element(index);
}

Result<layout::Mapping> find_mapping(const IntersectOptions& options, Intersection& common) {
  if (options.from || options.to) {
    common.file = {options.from.value_or(0), options.to.value_or(kMaxBytes)};
    WEIR_RETURN_IF_ERROR(check_range(common.file.from, common.file.to));
    layout::Window window;
    window.file = common.file;
    return layout::intersect(common.a, common.b, window);
  }
  Result<layout::Mapping> mapping = layout::intersect(common.a, common.b);
  if (!mapping.is_ok() && mapping.status().code() == ErrorCode::kTooComplex) {
    return too_complex(concat(mapping.status().message(), "; --from and --to choose a part of the file"));
  }
  if (mapping.is_ok()) common.file = {mapping->disp(), mapping->disp() + mapping->period()};
  return mapping;
}

layout::PieceCursor pieces_of(const Intersection& common) {
  layout::Window window;
  window.file = common.file;
  return {common.a, common.b, layout::Order::kA, window};
}

void count_pieces(Intersection& common) {
  layout::PieceCursor cursor = pieces_of(common);
  while (cursor.next()) {
    if (common.piece_count == kMostCounted) {
      common.is_count_exact = false;
      return;
    }
    ++common.piece_count;
  }
}

std::vector<layout::Piece> list_pieces(const Intersection& common, Offset limit) {
  std::vector<layout::Piece> pieces;
  layout::PieceCursor cursor = pieces_of(common);
  while (static_cast<Offset>(pieces.size()) < limit) {
    const auto piece = cursor.next();
    if (!piece) break;
    pieces.push_back(*piece);
  }
  return pieces;
}

Result<Intersection> find_common(const IntersectOptions& options, Console& console) {
  Intersection common;
  WEIR_TRY(common.a, load_element(options.a, options.a_element.value_or(0), console));
  WEIR_TRY(common.b, load_element(options.b, options.b_element.value_or(0), console));
  WEIR_TRY(common.mapping, find_mapping(options, common));
  count_pieces(common);
  return common;
}

void write_intersection_json(const IntersectOptions& options, const Intersection& common, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object();
  write_projections(common.mapping, json);
  json.field("from", common.file.from).field("to", common.file.to);
  json.field("bytes", common.mapping.bytes()).field("nodes", static_cast<Offset>(common.mapping.node_count()));
  json.field("piece_count", common.piece_count).field("piece_count_exact", common.is_count_exact);
  if (options.list_pieces) {
    json.key("pieces").begin_array();
    for (const layout::Piece& piece : list_pieces(common, options.limit)) {
      json.begin_array().value(piece.a).value(piece.b).value(piece.length).end_array();
    }
    json.end_array();
  }
  json.end_object();
  out << text << '\n';
}

void write_pieces(const IntersectOptions& options, const Intersection& common, std::ostream& out) {
  out << fmt::format("{:>14}  {:>14}  {:>14}  {:>14}\n", "a offset", "b offset", "file", "length");
  for (const layout::Piece& piece : list_pieces(common, options.limit)) {
    out << fmt::format("{:>14}  {:>14}  {:>14}  {:>14}\n", piece.a, piece.b, piece.file, piece.length);
  }
  if (common.piece_count > options.limit) out << "... and more: --limit shows more\n";
}

void write_intersection(const IntersectOptions& options, const Intersection& common, std::ostream& out) {
  const layout::Mapping& mapping = common.mapping;
  out << "a       element " << options.a_element.value_or(0) << " of " << shorten(options.a, 100) << '\n';
  out << "b       element " << options.b_element.value_or(0) << " of " << shorten(options.b, 100) << '\n';
  out << "a n b   " << layout::print(mapping.file_falls());
  if (mapping.disp() != 0) out << "  from file byte " << mapping.disp() << " on";
  out << "\non a    " << layout::print(mapping.a_falls()) << "\non b    " << layout::print(mapping.b_falls()) << '\n';
  if (mapping.is_periodic()) {
    out << "period  " << mapping.period() << " bytes of the file; a advances by " << mapping.a_period() << ", b by "
        << mapping.b_period() << '\n';
  } else {
    out << "range   file bytes [" << common.file.from << ", " << common.file.to << ")\n";
  }
  out << "bytes   " << mapping.bytes() << '\n';
  out << "pieces  " << (common.is_count_exact ? "" : "more than ") << common.piece_count << '\n';
  out << "nodes   " << mapping.node_count() << '\n';
  if (options.list_pieces) write_pieces(options, common, out);
}

/// The part of `element` that a picture of `pieces` shows; `start` tells where a piece begins in it.
layout::Range shown_part(const layout::Element& element, const layout::Range& file,
                         const std::vector<layout::Piece>& pieces, Offset layout::Piece::*start) {
  if (element.is_monotone()) return {element.count_below(file.from), element.count_below(file.to)};
  layout::Range part{kMaxBytes, 0};
  for (const layout::Piece& piece : pieces) {
    part.from = std::min(part.from, piece.*start);
    part.to = std::max(part.to, piece.*start + piece.length);
  }
  return pieces.empty() ? layout::Range{0, 0} : part;
}

Status draw_intersection(const IntersectOptions& options, const Intersection& common, Console& console) {
  if (!common.is_count_exact || common.piece_count > kMostDrawnPieces) {
    return too_complex(concat("a picture of ", common.piece_count, " pieces shows nothing: at most ", kMostDrawnPieces,
                              " are drawn; --from and --to choose a part of the file"));
  }
  PieceDrawing drawing;
  drawing.a_title = concat("a: element ", options.a_element.value_or(0), " of ", options.a);
  drawing.b_title = concat("b: element ", options.b_element.value_or(0), " of ", options.b);
  drawing.file = common.file;
  drawing.pieces = list_pieces(common, kMostDrawnPieces);
  drawing.a = shown_part(common.a, common.file, drawing.pieces, &layout::Piece::a);
  drawing.b = shown_part(common.b, common.file, drawing.pieces, &layout::Piece::b);
  return write_file(options.svg, draw_pieces_svg(drawing), console);
}

Result<int> intersect_elements(const IntersectOptions& options, Console& console) {
  WEIR_TRY(const Intersection common, find_common(options, console));
  if (!options.svg.empty()) {
    WEIR_RETURN_IF_ERROR(draw_intersection(options, common, console));
    if (options.svg == "-") return kExitOk;
  }
  if (options.json) {
    write_intersection_json(options, common, console.out);
  } else {
    write_intersection(options, common, console.out);
  }
  return kExitOk;
}

Result<int> measure_intersection(const IntersectOptions& options, Console& console) {
  constexpr int kCalls = 101;
  WEIR_TRY(const layout::Element a, load_element(options.a, options.a_element.value_or(0), console));
  WEIR_TRY(const layout::Element b, load_element(options.b, options.b_element.value_or(0), console));
  WEIR_TRY(const Cost cost, measure_cost(a, b, {}, kCalls));
  if (options.json) {
    std::string text;
    JsonWriter(text).begin_object().field("nodes", cost.nodes).field("nanoseconds", cost.nanoseconds).end_object();
    console.out << text << '\n';
  } else {
    console.out << cost.nodes << " FALLS nodes, " << cost.nanoseconds << " nanoseconds (median of " << kCalls
                << " calls)\n";
  }
  return kExitOk;
}

void write_match_line(Offset index, const layout::Match& match, Offset subfiles, std::ostream& out) {
  const double bytes = static_cast<double>(std::max<Offset>(match.bytes, 1));
  const double cuts = static_cast<double>(layout::kBreakBytes) * static_cast<double>(match.breaks) / bytes;
  const double spread = static_cast<double>(std::max<Offset>(match.targets - 1, 0)) / static_cast<double>(subfiles);
  out << fmt::format("{:>8}  {:>8.6f}  {:>12}  {:>12}  {:>8}  {:>12.6g}  {:>10.6g}{}\n", index, match.degree,
                     match.bytes, match.breaks, match.targets, cuts, spread, match.is_exact ? "" : "  (from a sample)");
}

Result<int> match_views(const MatchOptions& options, Console& console) {
  WEIR_TRY(const layout::Partition view, load_layout(options.view, console));
  WEIR_TRY(const layout::Partition layout, load_layout(options.layout, console));
  const Offset first = options.element.value_or(0);
  const Offset last = options.element ? first + 1 : std::min(view.element_count(), std::max<Offset>(options.limit, 1));
  if (!options.json) {
    console.out << fmt::format("{:>8}  {:>8}  {:>12}  {:>12}  {:>8}  {:>12}  {:>10}\n", "element", "degree", "bytes",
                               "breaks", "targets", "break cost", "spread");
  }
  for (Offset i = first; i < last; ++i) {
    WEIR_TRY(const layout::Element element, view.element(i));
    WEIR_TRY(const layout::Match match, layout::match(element, layout));
    if (options.json) {
      std::string text;
      JsonWriter json(text);
      json.begin_object().field("element", i);
      write_match(match, json);
      json.end_object();
      console.out << text << '\n';
    } else {
      write_match_line(i, match, layout.element_count(), console.out);
    }
  }
  if (options.json) return kExitOk;
  if (!options.element && last < view.element_count()) {
    console.out << "... and " << view.element_count() - last << " more elements (--limit shows more)\n";
  }
  console.out
      << "\ndegree = 1 / (1 + break cost + spread)\n"
      << "break cost = " << layout::kBreakBytes
      << " * breaks / bytes: a break, where the view's next byte is not the next of the same subfile, costs as\n"
      << "             much as moving " << layout::kBreakBytes << " bytes\n"
      << "spread = (targets - 1) / " << layout.element_count() << " subfiles of the layout\n";
  return kExitOk;
}

void declare_pair(CLI::App& command, IntersectOptions& options) {
  add_layout_text(command, "A", options.a, "A layout or view");
  add_layout_text(command, "B", options.b, "Another one");
  add_size(command, "--a-element", options.a_element, "Element of A [0]");
  add_size(command, "--b-element", options.b_element, "Element of B [0]");
  add_json(command, options.json);
}

void declare_intersect(CLI::App& command, IntersectOptions& options) {
  declare_pair(command, options);
  add_size(command, "--from", options.from, "First file byte to look at");
  add_size(command, "--to", options.to, "One past the last file byte to look at");
  command.add_flag("--pieces", options.list_pieces, "List the pieces, in the order of a");
  command.add_option("--limit", options.limit, "Pieces listed at most")
      ->capture_default_str()
      ->check(CLI::Range(Offset{0}, Offset{100'000'000}));
  command.add_option("--svg", options.svg, "Draw a, the file and b with their common pieces (- is standard output)")
      ->type_name("FILE");
}

}  // namespace

void add_relation_commands(CLI::App& layout, Selection& selection) {
  add_command<IntersectOptions>(
      layout, selection, "intersect", "The bytes that two elements have in common, and where they are in each",
      "Without --from and --to: one common period.\n\n"
      "Examples:\n"
      "  weir layout intersect 'falls(period=32, {(0,7,16,2,{(0,1,-,1)})})' 'falls({(0,3,8,4,{(0,0,2,2)})})'\n"
      "  weir layout intersect 'hpf(shape=[8,8], dist=(*,BLOCK), grid=[1,4])' 'stripe(unit=16, over=4)' --pieces\n",
      declare_intersect, intersect_elements);
  add_command<MatchOptions>(
      layout, selection, "match", "How well views fit a layout: 1 is every access one piece on one target",
      "Without --element: all elements of VIEW.\n\n"
      "Example:\n"
      "  weir layout match 'hpf(shape=[64,64], elem=8, dist=(BLOCK,*), grid=[4,1])' 'stripe(unit=8K, over=4)'\n",
      [](CLI::App& command, MatchOptions& options) {
        add_layout_text(command, "VIEW", options.view, "The views: the elements of a partition");
        add_layout_text(command, "LAYOUT", options.layout, "The layout of the file");
        add_size(command, "-e,--element", options.element, "Only this element of VIEW");
        command.add_option("--limit", options.limit, "Elements shown at most")->capture_default_str();
        add_json(command, options.json);
      },
      match_views);
  add_command<IntersectOptions>(layout, selection, "cost", "What one intersection costs: FALLS nodes and time",
                                "Example:\n  weir layout cost 'falls({(4,7,12,1)})' 'stripe(unit=64K, over=4)'\n",
                                declare_pair, measure_intersection);
}

}  // namespace weir::cli::internal
