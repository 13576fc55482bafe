#include <weir/cli/internal/trace_reader.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <tuple>

#include <weir/base/text.h>

namespace weir::cli::internal {
namespace {

constexpr std::size_t kLongestLine = std::size_t{4} << 20;
constexpr std::int64_t kMostPlace = std::int64_t{1} << 61;   // moments and offsets
constexpr std::int64_t kMostAmount = std::int64_t{1} << 50;  // what is added up
constexpr char kFirstWord[] = "weir-trace";

std::optional<std::string> decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    std::uint8_t code = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16).ptr;
    if (digits.size() != 2 || end != digits.data() + 2) return std::nullopt;
    out += static_cast<char>(code);
    i += 2;
  }
  return out;
}

// A word and its values.
class Line {
 public:
  static std::optional<Line> parse(std::string_view text) {
    Line line;
    std::size_t tab = text.find('\t');
    line.word_ = text.substr(0, tab);
    while (tab != std::string_view::npos) {
      text.remove_prefix(tab + 1);
      tab = text.find('\t');
      const std::string_view field = text.substr(0, tab);
      const std::size_t equals = field.find('=');
      if (equals == std::string_view::npos) return std::nullopt;
      auto value = decode(field.substr(equals + 1));
      if (!value) return std::nullopt;
      line.values_[std::string(field.substr(0, equals))] = std::move(*value);
    }
    return line;
  }

  [[nodiscard]] std::string_view word() const { return word_; }
  [[nodiscard]] const std::map<std::string, std::string>& values() const { return values_; }
  [[nodiscard]] std::string text(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? std::string() : found->second;
  }
  // 0 if there is none, and `is_good` false if it is no number that can be.
  std::int64_t number(const std::string& key, std::int64_t most = kMostAmount) {
    const auto found = values_.find(key);
    if (found == values_.end()) return 0;
    const std::string& digits = found->second;
    std::int64_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size() && value >= 0 && value <= most) {
      return value;
    }
    is_good_ = false;
    return 0;
  }
  double fraction(const std::string& key) {
    const std::string digits = text(key);
    if (digits.empty()) return 0;
    double value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool is_all = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
    if (is_all && value >= 0 && value <= 1) return value;
    is_good_ = false;
    return 0;
  }
  int small(const std::string& key) {
    const std::int64_t value = number(key);
    if (value > (1 << 30)) is_good_ = false;
    return is_good_ ? static_cast<int>(value) : 0;
  }
  [[nodiscard]] bool is_good() const { return is_good_; }

 private:
  std::string_view word_;
  std::map<std::string, std::string> values_;
  bool is_good_ = true;
};

TraceFile* find_file(Trace& trace, std::int64_t number) {
  // The last ones are the ones that are open.
  const auto found = std::find_if(trace.files.rbegin(), trace.files.rend(),
                                  [&](const TraceFile& file) { return file.number == number; });
  return found == trace.files.rend() ? nullptr : &*found;
}

bool read_open(Line& line, Trace& trace) {
  TraceFile file;
  file.number = line.number("file");
  file.path = line.text("path");
  file.layout = line.text("layout");
  file.why = line.text("why");
  file.rank = line.small("rank");
  file.ranks = line.small("ranks");
  file.at = line.number("at", kMostPlace);
  file.took = line.number("took");
  file.can_write = line.number("write") != 0;
  constexpr std::string_view kHint = "hint.";
  for (const auto& [key, value] : line.values()) {
    if (key.starts_with(kHint)) file.hints[key.substr(kHint.size())] = value;
  }
  if (!line.is_good() || file.path.empty()) return false;
  trace.files.push_back(std::move(file));
  return true;
}

bool read_view(Line& line, Trace& trace) {
  TraceView view;
  view.number = line.number("view");
  view.element = line.text("element");
  view.size = line.number("size", kMostPlace);
  view.period = line.number("period", kMostPlace);
  view.disp = line.number("disp", kMostPlace);
  view.degree = line.fraction("degree");
  TraceFile* const file = find_file(trace, line.number("file"));
  if (!line.is_good() || file == nullptr) return false;
  file->views.push_back(std::move(view));
  return true;
}

bool read_layout(Line& line, Trace& trace) {
  TraceFile* const file = find_file(trace, line.number("file"));
  if (!line.is_good() || file == nullptr) return false;
  file->layout = line.text("layout");
  file->why = line.text("why");
  return true;
}

bool read_choice(Line& line, Trace& trace) {
  TraceFile* const file = find_file(trace, line.number("file"));
  if (!line.is_good() || file == nullptr) return false;
  file->choices.push_back({line.text("what"), line.text("chosen"), line.text("why")});
  return true;
}

bool read_access(Line& line, Trace& trace) {
  TraceAccess access;
  access.view = line.number("view");
  access.call = line.text("call");
  access.is_write = line.number("write") != 0;
  access.count = std::max<std::int64_t>(line.number("count"), 1);
  access.at = line.number("at", kMostPlace);
  access.took = line.number("took");
  access.phases = {line.number("meet"), line.number("lock"), line.number("pack"), line.number("move")};
  access.bytes = line.number("bytes");
  access.first = line.number("first", kMostPlace);
  access.last = line.number("last", kMostPlace);
  access.messages = line.number("messages");
  access.index_bytes = line.number("index");
  access.moved_bytes = line.number("moved");
  access.direct_bytes = line.number("direct");
  access.gathered_bytes = line.number("gathered");
  TraceFile* const file = find_file(trace, line.number("file"));
  if (!line.is_good() || file == nullptr || access.last < access.first) return false;
  file->accesses.push_back(std::move(access));
  return true;
}

bool read_failure(Line& line, Trace& trace) {
  TraceFailure failure;
  failure.path = line.text("path");
  failure.call = line.text("call");
  failure.count = std::max<std::int64_t>(line.number("count"), 1);
  failure.message = line.text("message");
  if (!line.is_good() || failure.path.empty()) return false;
  const auto same = std::find_if(trace.failures.begin(), trace.failures.end(), [&](const TraceFailure& one) {
    return one.path == failure.path && one.call == failure.call;
  });
  if (same == trace.failures.end()) {
    trace.failures.push_back(std::move(failure));
  } else {
    same->count = std::min(same->count + failure.count, kMostAmount);
    same->message = std::move(failure.message);
  }
  return true;
}

// How long I/O took up to here; the last line counts.
bool read_io_time(Line& line, Trace& trace) {
  const std::int64_t spent = line.number("io");
  if (line.is_good()) trace.io_ns = std::max(trace.io_ns, spent);
  return line.is_good();
}

bool read_line(Line& line, Trace& trace) {
  if (line.word() == "open") return read_open(line, trace);
  if (line.word() == "view") return read_view(line, trace);
  if (line.word() == "layout") return read_layout(line, trace);
  if (line.word() == "choice") return read_choice(line, trace);
  if (line.word() == "access") return read_access(line, trace);
  if (line.word() == "fail") return read_failure(line, trace);
  if (line.word() == "close") return read_io_time(line, trace);
  if (line.word() == "limit") return trace.is_summed = true;
  if (line.word() == "end") return trace.is_whole = read_io_time(line, trace);
  return false;
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
  Trace trace;
  std::string text;
  const bool has_line = next_line(in, text);
  auto head = Line::parse(text);
  if (!has_line || !head || head->word() != kFirstWord) return invalid_argument("this is no trace of Weir");
  if (head->number("version") != 1) {
    return invalid_argument(concat("a trace of version ", head->text("version"), "; this program reads version 1"));
  }
  trace.host = head->text("host");
  trace.mpi = head->text("mpi");
  trace.rank = head->small("rank");
  trace.ranks = head->small("ranks");
  trace.start = head->number("at", kMostPlace);
  while (next_line(in, text)) {
    auto line = Line::parse(text);
    if (!line || !read_line(*line, trace)) ++trace.unread;
  }
  return trace;
}

std::optional<TraceEvent> read_trace_event(std::string_view line) {
  const bool is_opening = line.starts_with("open\t");
  if (!is_opening && !line.starts_with("close\t")) return std::nullopt;
  auto parsed = Line::parse(line);
  if (!parsed) return std::nullopt;
  TraceEvent event{is_opening, parsed->number("file"), parsed->text("path"), parsed->number("write") != 0};
  if (!parsed->is_good() || (is_opening && event.path.empty())) return std::nullopt;
  return event;
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
    if (trace->start >= since) traces.push_back(std::move(*trace));
  }
  std::stable_sort(traces.begin(), traces.end(), [](const Trace& x, const Trace& y) {
    return std::tie(x.rank, x.start) < std::tie(y.rank, y.start);
  });
  return traces;
}

}  // namespace weir::cli::internal
