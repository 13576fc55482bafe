#include <weir/trace/reader.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <tuple>

#include <weir/base/text.h>

namespace weir::trace {
namespace {

constexpr std::size_t kLongestLine = std::size_t{4} << 20;
constexpr std::int64_t kMostFailures = std::int64_t{1} << 50;

TracedFile* find_file(Trace& trace, std::int64_t number) {
  // The last ones are the ones that are open.
  const auto found = std::find_if(trace.files.rbegin(), trace.files.rend(),
                                  [&](const TracedFile& file) { return file.file == number; });
  return found == trace.files.rend() ? nullptr : &*found;
}

void add(FailLine failure, std::vector<FailLine>& failures) {
  const auto same = std::find_if(failures.begin(), failures.end(), [&](const FailLine& one) {
    return one.path == failure.path && one.call == failure.call;
  });
  if (same == failures.end()) {
    failures.push_back(std::move(failure));
  } else {
    same->count = std::min(same->count + failure.count, kMostFailures);
    same->message = std::move(failure.message);
  }
}

// Adds a line about an open file; false if none is open under that number.
template <typename Line, typename Add>
bool add_to_file(const Line& line, Trace& trace, Add add) {
  TracedFile* const file = find_file(trace, line.file);
  if (file != nullptr) add(*file);
  return file != nullptr;
}

// False if the line is not understood.
bool read_line(std::string_view text, Trace& trace) {
  if (auto line = parse_line<AccessLine>(text)) {
    return add_to_file(*line, trace, [&](TracedFile& file) { file.accesses.push_back(std::move(*line)); });
  }
  if (auto line = parse_line<ViewLine>(text)) {
    return add_to_file(*line, trace, [&](TracedFile& file) { file.views.push_back(std::move(*line)); });
  }
  if (auto line = parse_line<ChoiceLine>(text)) {
    return add_to_file(*line, trace, [&](TracedFile& file) { file.choices.push_back(std::move(*line)); });
  }
  if (auto line = parse_line<LayoutLine>(text)) {
    return add_to_file(*line, trace, [&](TracedFile& file) {
      file.layout = std::move(line->layout);
      file.why = std::move(line->why);
    });
  }
  if (auto line = parse_line<OpenLine>(text)) {
    trace.files.push_back({std::move(*line), {}, {}, {}});
  } else if (auto failure = parse_line<FailLine>(text)) {
    add(std::move(*failure), trace.failures);
  } else if (const auto closing = parse_line<CloseLine>(text)) {
    trace.io_ns = std::max(trace.io_ns, closing->io);
  } else if (const auto end = parse_line<EndLine>(text)) {
    trace.io_ns = std::max(trace.io_ns, end->io);
    trace.is_whole = true;
  } else if (parse_line<LimitLine>(text)) {
    trace.is_summed = true;
  } else {
    return false;
  }
  return true;
}

// Without what follows the last line end; false at the end of the text.
bool next_line(std::istream& in, std::string& line) {
  line.clear();
  for (int character = in.get(); character != std::istream::traits_type::eof(); character = in.get()) {
    if (character == '\n') return true;
    if (line.size() < kLongestLine) line += static_cast<char>(character);
  }
  return false;
}

}  // namespace

Result<Trace> read_trace(std::istream& in) {
  std::string text;
  const bool has_line = next_line(in, text);
  auto head = parse_line<HeadLine>(text);
  if (!has_line || !head) return invalid_argument("this is no trace of Weir");
  if (head->version != kVersion) {
    return invalid_argument(concat("a trace of version ", head->version, "; this program reads version ", kVersion));
  }
  Trace trace;
  static_cast<HeadLine&>(trace) = std::move(*head);
  while (next_line(in, text)) {
    if (!read_line(text, trace)) ++trace.unread;
  }
  return trace;
}

Result<std::vector<Trace>> read_traces(const std::string& directory, std::int64_t since) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> paths;
  fs::directory_iterator entries(directory, error);
  if (error) return Status(ErrorCode::kNotFound, concat("cannot read ", directory, ": ", error.message()));
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().extension() == ".trace") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Trace> traces;
  for (const fs::path& path : paths) {
    if (fs::file_size(path, error) == 0) continue;  // the rank was killed at once
    std::ifstream in(path, std::ios::binary);
    if (!in) return Status(ErrorCode::kIoError, concat("cannot read ", path.string()));
    Result<Trace> trace = read_trace(in);
    if (!trace.is_ok()) return Status(trace.status().code(), concat(path.string(), ": ", trace.status().message()));
    if (trace->at >= since) traces.push_back(std::move(*trace));
  }
  std::stable_sort(traces.begin(), traces.end(),
                   [](const Trace& x, const Trace& y) { return std::tie(x.rank, x.at) < std::tie(y.rank, y.at); });
  return traces;
}

}  // namespace weir::trace
