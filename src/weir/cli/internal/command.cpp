#include <weir/cli/internal/command.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include <fmt/format.h>

#include <weir/base/read_all.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

constexpr std::size_t kCaretWindow = 72;
constexpr std::size_t kMostTextBytes = std::size_t{256} << 20;  // a pattern of millions of segments has less

Result<std::string> read_text(const std::string& argument, Console& console) {
  if (argument.empty() || argument[0] != '@') return argument;
  const std::string name = argument.substr(1);
  std::string text;
  if (name == "-") {
    text = read_all(console.in, kMostTextBytes);
  } else {
    std::ifstream file(name, std::ios::binary);
    text = read_all(file, kMostTextBytes);
    if (text.size() <= kMostTextBytes && (file.bad() || !file.eof()))
      return Status{ErrorCode::kIoError, concat("cannot read a layout from file '", name, "'")};
  }
  if (text.size() > kMostTextBytes) {
    return invalid_argument(concat("'", name, "' has more than ", kMostTextBytes, " bytes: it is no layout"));
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

Result<Offset> parse_digits(std::string_view digits, std::string_view text) {
  Offset number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error == std::errc::result_out_of_range) {
    return out_of_range(concat("'", text, "' leaves the range of file offsets (2^62 bytes)"));
  }
  if (error != std::errc{} || end != digits.data() + digits.size() || digits[0] == '-') {
    return invalid_argument(concat("'", text, "' is no size: write digits, with K, M, G or T for powers of 1024"));
  }
  return number;
}

}  // namespace

Result<Offset> parse_size(std::string_view text) {
  std::string_view digits = text;
  int shift = 0;
  if (!digits.empty()) {
    const std::size_t unit = std::string_view("KMGT").find(digits.back());
    if (unit != std::string_view::npos) {
      shift = static_cast<int>(10 * (unit + 1));
      digits.remove_suffix(1);
    }
  }
  if (digits.empty()) return invalid_argument(concat("'", text, "' is no size: it has no digits"));
  WEIR_TRY(const Offset number, parse_digits(digits, text));
  const Result<Offset> size = checked_mul(number, Offset{1} << shift);
  if (!size.is_ok()) return out_of_range(concat("'", text, "' leaves the range of file offsets (2^62 bytes)"));
  return *size;
}

Status check_size(const std::string& option, Offset size, const SizeRange& range) {
  if (size >= range.least && size <= range.most) return Status::ok();
  return out_of_range(concat(option, " ", size, ": allowed are ", range.least, " to ", range.most, " bytes"));
}

CLI::Option* add_size(CLI::App& command, const std::string& name, std::optional<Offset>& target,
                      const std::string& help, const SizeRange& range) {
  const auto store = [&target, name, range](const std::string& text) {
    const Result<Offset> size = parse_size(text);
    if (!size.is_ok()) throw CLI::ValidationError(name, size.status().message());
    const Status status = check_size(name, *size, range);
    if (!status.is_ok()) throw CLI::ValidationError(status.message());
    target = *size;
  };
  return command.add_option_function<std::string>(name, store, help)->type_name("N");
}

Offset parse_number(const std::string& option, const std::string& text, Offset least, Offset most) {
  Offset number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most) {
    throw CLI::ValidationError(concat(option, " ", text, ": allowed are whole numbers from ", least, " to ", most));
  }
  return number;
}

CLI::Option* add_decimal(CLI::App& command, const std::string& name, double& target, double least, double most,
                         const std::string& help) {
  const auto store = [&target, name, least, most](const std::string& text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = error == std::errc{} && end == text.data() + text.size();
    if (!is_number || !(number >= least && number <= most)) {
      throw CLI::ValidationError(fmt::format("{} {}: allowed are numbers from {} to {}", name, text, least, most));
    }
    target = number;
  };
  return command.add_option_function<std::string>(name, store, help)->type_name("S");
}

CLI::Option* add_sizes(CLI::App& command, const std::string& name, std::vector<Offset>& target,
                       const std::string& help) {
  const auto store = [&target, name](const std::vector<std::string>& texts) {
    target.clear();
    for (const std::string& text : texts) {
      const Result<Offset> size = parse_size(text);
      if (!size.is_ok()) throw CLI::ValidationError(name, size.status().message());
      target.push_back(*size);
    }
  };
  return command.add_option_function<std::vector<std::string>>(name, store, help)->type_name("N");
}

CLI::Option* add_layout_text(CLI::App& command, const std::string& name, std::string& target, const std::string& help) {
  return command.add_option(name, target, help)->required()->type_name("TEXT");
}

void add_json(CLI::App& command, bool& json) { command.add_flag("--json", json, "Answer in JSON, on one line"); }

Status point_at(const Status& status, std::string_view text) {
  if (!status.location()) return status;
  const auto column = static_cast<std::size_t>(std::max<std::int64_t>(*status.location(), 1)) - 1;
  const std::size_t first = column > kCaretWindow / 2 ? column - kCaretWindow / 2 : 0;
  std::string line(text.substr(std::min(first, text.size()), kCaretWindow));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  const std::string_view before = first > 0 ? "  ..." : "  ";
  const std::string_view after = first + kCaretWindow < text.size() ? "..." : "";
  // A caret line counts characters, not bytes: UTF-8 continuation bytes take no column.
  const std::size_t bytes = std::min(column - first, line.size());
  const auto characters = std::count_if(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(bytes),
                                        [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  const std::string caret = std::string(before.size() + static_cast<std::size_t>(characters), ' ') + "^";
  return Status{status.code(), concat(status.message(), "\n", before, line, after, "\n", caret), status.location()};
}

Result<layout::Partition> load_layout(const std::string& text, Console& console) {
  WEIR_TRY(const std::string description, read_text(text, console));
  Result<layout::Partition> partition = layout::parse(description);
  if (!partition.is_ok()) return point_at(partition.status(), description);
  return partition;
}

Result<layout::FallsSet> load_falls(const std::string& text, Console& console) {
  WEIR_TRY(const std::string description, read_text(text, console));
  Result<layout::FallsSet> set = layout::parse_falls(description);
  if (!set.is_ok()) return point_at(set.status(), description);
  return set;
}

}  // namespace weir::cli::internal
