#include <weir/trace/lines.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include <weir/base/text.h>

namespace weir::trace {
namespace {

constexpr std::int64_t kMostPlace = std::int64_t{1} << 61;   // moments and offsets
constexpr std::int64_t kMostAmount = std::int64_t{1} << 50;  // what is added up
constexpr std::int64_t kMostRanks = std::int64_t{1} << 30;

// ---- keys: what each record consists of.  `fields` writes them or reads them.

void each_field(HeadLine& line, auto& fields) {
  fields.number("version", line.version);
  fields.text("host", line.host);
  fields.number("pid", line.pid);
  fields.number("rank", line.rank);
  fields.number("ranks", line.ranks);
  fields.text("mpi", line.mpi);
  fields.place("at", line.at);
}

void each_field(OpenLine& line, auto& fields) {
  fields.number("file", line.file);
  fields.text("path", line.path);
  fields.text("layout", line.layout);
  fields.text("why", line.why);
  fields.number("rank", line.rank);
  fields.number("ranks", line.ranks);
  fields.number("write", line.can_write);
  fields.place("at", line.at);
  fields.number("took", line.took);
  fields.texts("hint.", line.hints);
}

void each_field(LayoutLine& line, auto& fields) {
  fields.number("file", line.file);
  fields.text("layout", line.layout);
  fields.text("why", line.why);
}

void each_field(ChoiceLine& line, auto& fields) {
  fields.number("file", line.file);
  fields.text("what", line.what);
  fields.text("chosen", line.chosen);
  fields.text("why", line.why);
}

void each_field(ViewLine& line, auto& fields) {
  fields.number("file", line.file);
  fields.number("view", line.view);
  fields.text("element", line.element);
  fields.place("etype", line.etype);
  fields.place("size", line.size);
  fields.place("period", line.period);
  fields.place("disp", line.disp);
  fields.fraction("degree", line.degree);
  fields.place("targets", line.targets);
  fields.place("breaks", line.breaks);
  fields.place("matched", line.matched);
}

void each_field(AccessLine& line, auto& fields) {
  fields.number("file", line.file);
  fields.number("view", line.view);
  fields.text("call", line.call);
  fields.number("write", line.is_write);
  fields.count("count", line.count);
  fields.place("at", line.at);
  fields.number("took", line.took);
  fields.number("bytes", line.bytes);
  fields.place("first", line.first);
  fields.place("last", line.last);
  fields.number("meet", line.phases[kMeet]);
  fields.number("lock", line.phases[kLock]);
  fields.number("pack", line.phases[kPack]);
  fields.number("move", line.phases[kMove]);
  fields.number("messages", line.messages);
  fields.number("index", line.index_bytes);
  fields.number("moved", line.moved_bytes);
  fields.number("direct", line.direct_bytes);
  fields.number("gathered", line.gathered_bytes);
}

void each_field(LimitLine& line, auto& fields) {
  fields.text("what", line.what);
  fields.number("at", line.at);
}

void each_field(FailLine& line, auto& fields) {
  fields.text("path", line.path);
  fields.text("call", line.call);
  fields.count("count", line.count);
  fields.text("message", line.message);
}

void each_field(CloseLine& line, auto& fields) {
  fields.number("file", line.file);
  fields.place("at", line.at);
  fields.number("io", line.io);
}

void each_field(EndLine& line, auto& fields) {
  fields.place("at", line.at);
  fields.number("io", line.io);
}

template <typename Record>
bool is_possible(const Record&) {
  return true;
}
bool is_possible(const OpenLine& line) { return !line.path.empty(); }
bool is_possible(const FailLine& line) { return !line.path.empty(); }
bool is_possible(const AccessLine& line) { return line.first <= line.last; }

// ---- writing

// A word, then "key=value" with a tab before each.  In values, control characters and '%' are written as %XX.
class LineWriter {
 public:
  explicit LineWriter(std::string_view word) : line_(word) {}

  void text(std::string_view key, std::string_view value) {
    if (!value.empty()) add(key, value);
  }
  void texts(std::string_view prefix, const std::map<std::string, std::string>& values) {
    for (const auto& [key, value] : values) add(concat(prefix, key), value);
  }
  void number(std::string_view key, std::int64_t value) {
    if (value > 0) line_ += concat('\t', key, '=', value);
  }
  void place(std::string_view key, std::int64_t value) { number(key, value); }
  void count(std::string_view key, std::int64_t value) { number(key, value == 1 ? 0 : value); }
  // The same in all locales.
  void fraction(std::string_view key, double value) {
    char digits[32];
    const char* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    if (value != 0) add(key, {digits, end});
  }

  [[nodiscard]] std::string finish() && { return std::move(line_ += '\n'); }

 private:
  void add(std::string_view key, std::string_view value) {
    line_ += concat('\t', key, '=');
    for (const char character : value) {
      const auto code = static_cast<unsigned char>(character);
      if (code >= ' ' && code != '%' && code != 0x7f) {
        line_ += character;
        continue;
      }
      fmt::format_to(std::back_inserter(line_), "%{:02x}", code);
    }
  }

  std::string line_;
};

// ---- reading

std::optional<std::string> decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned char code = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc{} || end != digits.data() + 2) return std::nullopt;
    out += static_cast<char>(code);
    i += 2;
  }
  return out;
}

class LineReader {
 public:
  // What follows the word.
  explicit LineReader(std::string_view rest) {
    while (!rest.empty()) {
      rest.remove_prefix(1);
      const std::string_view field = rest.substr(0, rest.find('\t'));
      rest.remove_prefix(field.size());
      const std::size_t equals = field.find('=');
      auto value = decode(equals == std::string_view::npos ? field : field.substr(equals + 1));
      is_good_ = is_good_ && equals != std::string_view::npos && value;
      if (!is_good_) return;
      values_.push_back({field.substr(0, equals), std::move(*value)});
    }
  }

  void text(std::string_view key, std::string& value) {
    if (const std::string* const found = find(key)) value = *found;
  }
  void texts(std::string_view prefix, std::map<std::string, std::string>& values) {
    for (const auto& [key, value] : values_) {
      if (key.starts_with(prefix)) values[std::string(key.substr(prefix.size()))] = value;
    }
  }
  void number(std::string_view key, std::int64_t& value) { value = integer(key, kMostAmount); }
  void number(std::string_view key, int& value) { value = static_cast<int>(integer(key, kMostRanks)); }
  void number(std::string_view key, bool& value) { value = integer(key, kMostAmount) != 0; }
  void place(std::string_view key, std::int64_t& value) { value = integer(key, kMostPlace); }
  void count(std::string_view key, std::int64_t& value) {
    value = std::max<std::int64_t>(integer(key, kMostAmount), 1);
  }
  void fraction(std::string_view key, double& value) {
    value = parse<double>(key);
    is_good_ = is_good_ && value >= 0 && value <= 1;
  }

  [[nodiscard]] bool is_good() const { return is_good_; }

 private:
  struct Value {
    std::string_view key;
    std::string value;
  };

  // The last one of that name.
  [[nodiscard]] const std::string* find(std::string_view key) const {
    const auto found =
        std::find_if(values_.rbegin(), values_.rend(), [&](const Value& value) { return value.key == key; });
    return found == values_.rend() ? nullptr : &found->value;
  }
  template <typename Number>
  Number parse(std::string_view key) {
    const std::string* const digits = find(key);
    if (digits == nullptr) return 0;
    Number value = 0;
    const char* const end = digits->data() + digits->size();
    const auto parsed = std::from_chars(digits->data(), end, value);
    is_good_ = is_good_ && parsed.ec == std::errc() && parsed.ptr == end;
    return value;
  }
  std::int64_t integer(std::string_view key, std::int64_t most) {
    const auto value = parse<std::int64_t>(key);
    is_good_ = is_good_ && value >= 0 && value <= most;
    return value;
  }

  std::vector<Value> values_;
  bool is_good_ = true;
};

}  // namespace

template <typename Record>
std::string to_line(Record record) {
  LineWriter writer(Record::kWord);
  each_field(record, writer);
  return std::move(writer).finish();
}

template <typename Record>
std::optional<Record> parse_line(std::string_view line) {
  const std::string_view word = line.substr(0, line.find('\t'));
  if (word != Record::kWord) return std::nullopt;
  LineReader reader(line.substr(word.size()));
  Record record;
  each_field(record, reader);
  return reader.is_good() && is_possible(record) ? std::optional(std::move(record)) : std::nullopt;
}

#define WEIR_TRACE_LINE(Record)         \
  template std::string to_line(Record); \
  template std::optional<Record> parse_line(std::string_view)
WEIR_TRACE_LINE(HeadLine);
WEIR_TRACE_LINE(OpenLine);
WEIR_TRACE_LINE(LayoutLine);
WEIR_TRACE_LINE(ChoiceLine);
WEIR_TRACE_LINE(ViewLine);
WEIR_TRACE_LINE(AccessLine);
WEIR_TRACE_LINE(LimitLine);
WEIR_TRACE_LINE(FailLine);
WEIR_TRACE_LINE(CloseLine);
WEIR_TRACE_LINE(EndLine);
#undef WEIR_TRACE_LINE

}  // namespace weir::trace
