#include <weir/cli/internal/batch.h>

#include <array>

#include <weir/base/json_text.h>
#include <weir/cli/internal/answers.h>
#include <weir/layout/language.h>
#include <weir/layout/match.h>

namespace weir::cli::internal {
namespace {

/// An error about what a key holds, said with the key's name.
Status at_key(Key key, const Status& status) {
  return Status{status.code(), concat("\"", to_string(key), "\": ", status.message()), status.location()};
}

}  // namespace

struct BatchEngine::Named {
  std::string_view name;
  Operation operation;
};

BatchEngine::Operation BatchEngine::find_operation(std::string_view name) {
  static constexpr std::array<Named, 12> kOperations{{{"map", &BatchEngine::map},
                                                      {"unmap", &BatchEngine::unmap},
                                                      {"segments", &BatchEngine::segments},
                                                      {"intersect", &BatchEngine::intersect},
                                                      {"project", &BatchEngine::project},
                                                      {"size", &BatchEngine::size},
                                                      {"print", &BatchEngine::print},
                                                      {"simplify", &BatchEngine::simplify},
                                                      {"cut", &BatchEngine::cut},
                                                      {"match", &BatchEngine::match},
                                                      {"validate", &BatchEngine::validate},
                                                      {"cost", &BatchEngine::cost}}};
  for (const Named& known : kOperations) {
    if (known.name == name) return known.operation;
  }
  return nullptr;
}

void BatchEngine::refuse(const Status& status, std::string& out) {
  JsonWriter(out).begin_object().field("error", std::string_view(status.message())).end_object();
  out += '\n';
}

void BatchEngine::answer(std::string_view line, std::string& out) {
  const std::size_t begin = out.size();
  const Status status = dispatch(line, out);
  if (status.is_ok()) {
    out += '\n';
  } else {
    out.resize(begin);  // drop what was written before the error showed
    refuse(status, out);
  }
}

Status BatchEngine::dispatch(std::string_view line, std::string& out) {
  WEIR_RETURN_IF_ERROR(request_.parse(line));
  WEIR_TRY(const std::string_view name, request_.text(Key::kOp));
  const Operation operation = find_operation(name);
  if (operation == nullptr) {
    return invalid_argument(
        concat("unknown op \"", name.substr(0, 40),
               "\": there are print, size, map, unmap, segments, intersect, project, simplify, cut, "
               "match, validate and cost"));
  }
  JsonWriter json(out);
  json.begin_object();
  WEIR_RETURN_IF_ERROR((this->*operation)(json));
  json.end_object();
  return Status::ok();
}

Result<std::shared_ptr<const layout::Partition>> BatchEngine::partition(Key key) {
  WEIR_TRY(const std::string_view text, request_.text(key));
  auto partition = cache_.partition(text);
  if (!partition.is_ok()) return at_key(key, partition.status());
  return partition;
}

Result<layout::Element> BatchEngine::element(Key layout, Key index) {
  WEIR_TRY(const std::string_view text, request_.text(layout));
  WEIR_TRY(const Offset number, request_.number(index));
  auto element = cache_.element(text, number);
  if (!element.is_ok()) return at_key(layout, element.status());
  return element;
}

Result<layout::FallsSet> BatchEngine::falls() {
  WEIR_TRY(const std::string_view text, request_.text(Key::kFalls));
  auto set = layout::parse_falls(text);
  if (!set.is_ok()) return at_key(Key::kFalls, set.status());
  return set;
}

Status BatchEngine::check_pieces(Offset count) const {
  if (count <= limits_.pieces) return Status::ok();
  return too_complex(concat("the answer has more than ", limits_.pieces, " parts: ask for a smaller range"));
}

Status BatchEngine::print(JsonWriter& json) {
  WEIR_TRY(const auto layout, partition(Key::kLayout));
  json.field("layout", std::string_view(layout::print(*layout)));
  return Status::ok();
}

Status BatchEngine::size(JsonWriter& json) {
  WEIR_TRY(const layout::Element subject, element(Key::kLayout, Key::kElement));
  json.field("size", subject.size()).field("period", subject.period());
  return Status::ok();
}

Status BatchEngine::map(JsonWriter& json) {
  WEIR_TRY(const layout::Element subject, element(Key::kLayout, Key::kElement));
  WEIR_TRY(const Offset x, request_.number(Key::kX));
  MapMode mode = MapMode::kExact;
  if (request_.has(Key::kMode)) {
    WEIR_TRY(const std::string_view name, request_.text(Key::kMode));
    WEIR_TRY(mode, parse_map_mode(name));
  }
  const std::optional<Offset> y = map_by(subject, x, mode);
  json.key("y");
  y ? json.value(*y) : json.null();
  return Status::ok();
}

Status BatchEngine::unmap(JsonWriter& json) {
  WEIR_TRY(const layout::Element subject, element(Key::kLayout, Key::kElement));
  WEIR_TRY(const Offset y, request_.number(Key::kY));
  WEIR_TRY(const Offset x, unmap_in_range(subject, y));
  json.field("x", x);
  return Status::ok();
}

Status BatchEngine::segments(JsonWriter& json) {
  WEIR_TRY(const layout::Element subject, element(Key::kLayout, Key::kElement));
  WEIR_TRY(const Offset from, request_.number(Key::kFrom));
  WEIR_TRY(const Offset to, request_.number(Key::kTo));
  WEIR_RETURN_IF_ERROR(check_element_range(subject, from, to));
  json.key("segments").begin_array();
  Offset count = 0;
  for (layout::SegmentCursor cursor{subject, from, to}; const auto segment = cursor.next();) {
    WEIR_RETURN_IF_ERROR(check_pieces(++count));
    json.begin_array().value(segment->offset).value(segment->length).end_array();
  }
  json.end_array();
  return Status::ok();
}

Status BatchEngine::intersect(JsonWriter& json) {
  WEIR_TRY(const layout::Element a, element(Key::kA, Key::kAi));
  WEIR_TRY(const layout::Element b, element(Key::kB, Key::kBi));
  layout::Window window;
  if (request_.has(Key::kFrom)) {
    WEIR_TRY(window.file.from, request_.number(Key::kFrom));
  } else {
    window.file.from = 0;
  }
  WEIR_TRY(window.file.to, request_.number(Key::kTo));
  WEIR_RETURN_IF_ERROR(check_range(window.file.from, window.file.to));
  json.key("pieces").begin_array();
  Offset count = 0;
  layout::PieceCursor cursor(a, b, layout::Order::kA, window, limits_.budget);
  while (const auto piece = cursor.next()) {
    WEIR_RETURN_IF_ERROR(check_pieces(++count));
    json.begin_array().value(piece->a).value(piece->b).value(piece->length).end_array();
  }
  json.end_array();
  return Status::ok();
}

Status BatchEngine::project(JsonWriter& json) {
  WEIR_TRY(const layout::Element a, element(Key::kA, Key::kAi));
  WEIR_TRY(const layout::Element b, element(Key::kB, Key::kBi));
  WEIR_TRY(const layout::Mapping mapping, layout::intersect(a, b, limits_.budget));
  write_projections(mapping, json);
  return Status::ok();
}

Status BatchEngine::simplify(JsonWriter& json) {
  WEIR_TRY(layout::FallsSet set, falls());
  json.field("falls", std::string_view(layout::print(layout::simplify(std::move(set)))));
  return Status::ok();
}

Status BatchEngine::cut(JsonWriter& json) {
  WEIR_TRY(const layout::FallsSet set, falls());
  WEIR_TRY(const Offset first, request_.number(Key::kL));
  WEIR_TRY(const Offset last, request_.number(Key::kR));
  WEIR_RETURN_IF_ERROR(check_cut(first, last));
  json.field("falls", std::string_view(layout::print(layout::cut(set, first, last))));
  return Status::ok();
}

Status BatchEngine::match(JsonWriter& json) {
  WEIR_TRY(const layout::Element view, element(Key::kView, Key::kElement));
  WEIR_TRY(const auto layout, partition(Key::kLayout));
  WEIR_TRY(const layout::Match match, layout::match(view, *layout));
  write_match(match, json);
  return Status::ok();
}

Status BatchEngine::validate(JsonWriter& json) {
  WEIR_RETURN_IF_ERROR(request_.text(Key::kLayout).status());
  const auto layout = partition(Key::kLayout);
  // A text that describes nothing is no layout either; it has a column, not a byte.
  if (!layout.is_ok()) return write_verdict(invalid_argument(layout.status().message()), json);
  return write_verdict((*layout)->validate(), json);
}

Status BatchEngine::cost(JsonWriter& json) {
  WEIR_TRY(const layout::Element a, element(Key::kA, Key::kAi));
  WEIR_TRY(const layout::Element b, element(Key::kB, Key::kBi));
  WEIR_TRY(const Cost cost, measure_cost(a, b, limits_.budget, limits_.cost_calls));
  json.field("nodes", cost.nodes).field("nanoseconds", cost.nanoseconds);
  return Status::ok();
}

}  // namespace weir::cli::internal
