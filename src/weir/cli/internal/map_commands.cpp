// weir layout map, unmap, segments

#include <algorithm>

#include <fmt/format.h>

#include <weir/cli/internal/answers.h>
#include <weir/cli/internal/command.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

struct MapOptions {
  std::string layout;
  std::vector<Offset> offsets;
  std::optional<Offset> element;
  std::string mode = "exact";
  bool json = false;
};

struct SegmentsOptions {
  std::string layout;
  std::optional<Offset> element;
  std::optional<Offset> from;
  std::optional<Offset> to;
  Offset limit = 40;
  bool json = false;
};

struct Place {
  Offset file;
  std::optional<Offset> element;
  std::optional<Offset> offset;
};

/// Which element holds file byte x, and where.
Result<Place> find_place(const layout::Partition& partition, Offset x) {
  Place place{x, std::nullopt, std::nullopt};
  WEIR_TRY(place.element, partition.owner(x));
  if (!place.element) return place;
  WEIR_TRY(const layout::Element element, partition.element(*place.element));
  place.offset = element.map(x);
  return place;
}

Result<std::vector<Place>> find_places(const MapOptions& options, const layout::Partition& partition) {
  WEIR_TRY(const MapMode mode, parse_map_mode(options.mode));
  std::vector<Place> places;
  if (!options.element) {
    if (mode != MapMode::kExact) {
      return invalid_argument(concat("mode ", options.mode, " needs --element: the closest byte of which element?"));
    }
    for (const Offset x : options.offsets) {
      WEIR_TRY(const Place place, find_place(partition, x));
      places.push_back(place);
    }
    return places;
  }
  WEIR_TRY(const layout::Element element, partition.element(*options.element));
  for (const Offset x : options.offsets) places.push_back({x, options.element, map_by(element, x, mode)});
  return places;
}

void write_optional(JsonWriter& json, std::string_view name, const std::optional<Offset>& number) {
  json.key(name);
  number ? json.value(*number) : json.null();
}

void write_place(const Place& place, bool as_json, std::ostream& out) {
  if (as_json) {
    std::string text;
    JsonWriter json(text);
    json.begin_object().field("x", place.file);
    write_optional(json, "element", place.element);
    write_optional(json, "y", place.offset);
    json.end_object();
    out << text << '\n';
  } else if (place.offset) {
    out << "file " << place.file << "  element " << *place.element << "  offset " << *place.offset << '\n';
  } else if (place.element) {
    out << "file " << place.file << "  not on element " << *place.element << '\n';
  } else {
    out << "file " << place.file << "  on no element\n";
  }
}

Result<int> map_offsets(const MapOptions& options, Console& console) {
  WEIR_TRY(const layout::Partition partition, load_layout(options.layout, console));
  WEIR_TRY(const std::vector<Place> places, find_places(options, partition));
  for (const Place& place : places) write_place(place, options.json, console.out);
  const bool all =
      std::all_of(places.begin(), places.end(), [](const Place& place) { return place.offset.has_value(); });
  return all ? kExitOk : kExitNo;
}

Result<int> unmap_offsets(const MapOptions& options, Console& console) {
  WEIR_TRY(const layout::Partition partition, load_layout(options.layout, console));
  WEIR_TRY(const layout::Element element, partition.element(*options.element));
  for (const Offset y : options.offsets) {
    WEIR_TRY(const Offset x, unmap_in_range(element, y));
    if (options.json) {
      std::string text;
      JsonWriter(text).begin_object().field("element", *options.element).field("y", y).field("x", x).end_object();
      console.out << text << '\n';
    } else {
      console.out << "element " << *options.element << "  offset " << y << "  file " << x << '\n';
    }
  }
  return kExitOk;
}

struct ListedSegment {
  Offset offset;  ///< In the element.
  layout::Segment file;
};

struct SegmentList {
  std::vector<ListedSegment> segments;
  bool is_complete = true;
};

SegmentList list_segments(const layout::Element& element, Offset from, Offset to, Offset limit) {
  SegmentList list;
  Offset at = from;
  for (layout::SegmentCursor cursor{element, from, to}; const auto segment = cursor.next();) {
    if (static_cast<Offset>(list.segments.size()) == limit) {
      list.is_complete = false;
      break;
    }
    list.segments.push_back({at, *segment});
    at += segment->length;
  }
  return list;
}

void write_segments_json(const SegmentList& list, Offset from, Offset to, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("from", from).field("to", to).key("segments").begin_array();
  for (const ListedSegment& listed : list.segments) {
    json.begin_array().value(listed.file.offset).value(listed.file.length).end_array();
  }
  json.end_array().field("complete", list.is_complete).end_object();
  out << text << '\n';
}

void write_segments(const SegmentList& list, std::ostream& out) {
  out << fmt::format("{:>14}  {:>14}  {:>14}\n", "offset", "file", "length");
  for (const ListedSegment& listed : list.segments) {
    out << fmt::format("{:>14}  {:>14}  {:>14}\n", listed.offset, listed.file.offset, listed.file.length);
  }
  if (!list.is_complete) out << "... and more: --limit shows more, --from and --to choose others\n";
}

Result<int> show_segments(const SegmentsOptions& options, Console& console) {
  WEIR_TRY(const layout::Partition partition, load_layout(options.layout, console));
  WEIR_TRY(const layout::Element element, partition.element(*options.element));
  const Offset from = options.from.value_or(0);
  const Offset period_end =
      std::min(floor_div(from, std::max<Offset>(element.size(), 1)) * element.size() + element.size(), element.limit());
  const Offset to = options.to.value_or(std::max(from, period_end));
  WEIR_RETURN_IF_ERROR(check_element_range(element, from, to));
  const SegmentList list = list_segments(element, from, to, options.limit);
  if (options.json) {
    write_segments_json(list, from, to, console.out);
  } else {
    console.out << "element " << *options.element << " of " << shorten(layout::print(partition), 100) << ", bytes ["
                << from << ", " << to << ")\n";
    write_segments(list, console.out);
  }
  return kExitOk;
}

void add_segments(CLI::App& layout, Selection& selection) {
  add_command<SegmentsOptions>(
      layout, selection, "segments", "The file segments that a range of an element consists of, in element order",
      "Without --from and --to: one period.\n\n"
      "Examples:\n"
      "  weir layout segments 'stripe(unit=4, over=3)' --element 1\n"
      "  weir layout segments 'tiles(shape=[8,12], tile=[4,3], over=3)' --element 2 --from 3 --to 20\n",
      [](CLI::App& command, SegmentsOptions& options) {
        add_layout_text(command, "LAYOUT", options.layout, "The layout");
        add_size(command, "-e,--element", options.element, "The element")->required();
        add_size(command, "--from", options.from, "First byte of the element");
        add_size(command, "--to", options.to, "One past the last byte of the element");
        command.add_option("--limit", options.limit, "Segments shown at most")
            ->capture_default_str()
            ->check(CLI::Range(Offset{0}, Offset{100'000'000}));
        add_json(command, options.json);
      },
      show_segments);
}

}  // namespace

void add_map_commands(CLI::App& layout, Selection& selection) {
  add_command<MapOptions>(
      layout, selection, "map", "Where file bytes live: the element, and the offset in it",
      "Exit code 1 if a byte is on no element (with --element: not on that one).\n\n"
      "Examples:\n"
      "  weir layout map 'stripe(unit=64K, over=4)' 0 100K 1M\n"
      "  weir layout map 'falls(disp=2, {(0,1,6,1)} | {(2,3,6,1)} | {(4,5,6,1)})' 5 --element 0 --mode next\n",
      [](CLI::App& command, MapOptions& options) {
        add_layout_text(command, "LAYOUT", options.layout, "The layout");
        add_sizes(command, "X", options.offsets, "File offsets")->required();
        add_size(command, "-e,--element", options.element, "Ask this element only");
        command.add_option("--mode", options.mode, "exact, or the closest byte of the element: next, previous")
            ->capture_default_str()
            ->check(CLI::IsMember({"exact", "next", "previous"}));
        add_json(command, options.json);
      },
      map_offsets);
  add_command<MapOptions>(
      layout, selection, "unmap", "The file offsets of bytes of an element",
      "Example:\n  weir layout unmap 'stripe(unit=64K, over=4)' 0 100K --element 3\n",
      [](CLI::App& command, MapOptions& options) {
        add_layout_text(command, "LAYOUT", options.layout, "The layout");
        add_sizes(command, "Y", options.offsets, "Offsets in the element")->required();
        add_size(command, "-e,--element", options.element, "The element")->required();
        add_json(command, options.json);
      },
      unmap_offsets);
  add_segments(layout, selection);
}

}  // namespace weir::cli::internal
