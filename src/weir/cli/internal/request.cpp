#include <weir/cli/internal/request.h>

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

namespace weir::cli::internal {
namespace {

constexpr std::array<std::string_view, kKeyCount> kNames{
    "op", "layout", "element", "x", "y", "mode", "from", "to", "a", "ai", "b", "bi", "falls", "l", "r", "view"};

std::optional<Key> find_key(std::string_view name) {
  for (std::size_t i = 0; i < kKeyCount; ++i) {
    if (kNames[i] == name) return static_cast<Key>(i);
  }
  return std::nullopt;
}

Status wrong(Key key, std::string_view what) { return invalid_argument(concat("key \"", to_string(key), "\" ", what)); }

}  // namespace

std::string_view to_string(Key key) noexcept { return kNames[static_cast<std::size_t>(key)]; }

/// Receives the parser's events.  Works without building a document: values below the top level only move `depth_`.
class Request::Reader {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit Reader(Request& request) : request_(request) {}
  [[nodiscard]] const Status& status() const { return status_; }

  bool null() { return other(); }
  bool boolean(bool) { return other(); }
  bool binary(binary_t&) { return other(); }

  bool number_integer(number_integer_t number) {
    return store([&](Field& field) {
      field.kind = Kind::kInteger;
      field.number = number;
    });
  }

  bool number_unsigned(number_unsigned_t number) {
    return store([&](Field& field) {
      field.kind = number > static_cast<number_unsigned_t>(INT64_MAX) ? Kind::kHuge : Kind::kInteger;
      field.number = static_cast<Offset>(number);
    });
  }

  bool number_float(number_float_t, const string_t& text) {
    // The parser also sends integers here that do not fit 64 bits.
    const bool has_fraction = text.find_first_not_of("-0123456789") != string_t::npos;
    return store([&](Field& field) { field.kind = has_fraction ? Kind::kFraction : Kind::kHuge; });
  }

  bool string(string_t& text) {
    return store([&](Field& field) {
      field.kind = Kind::kText;
      std::swap(field.text, text);  // the parser clears its buffer anyway
    });
  }

  bool start_object(std::size_t) {
    if (depth_ > 0) other();
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) {
    if (depth_ == 0) return refuse();
    other();
    ++depth_;
    return true;
  }
  bool end_object() { return --depth_, true; }
  bool end_array() { return --depth_, true; }

  bool key(string_t& name) {
    if (depth_ == 1) key_ = find_key(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) {
    // The library's text starts with its own error number; the part after the colon says what was expected.
    std::string_view what = error.what();
    if (const auto colon = what.find(": "); colon != std::string_view::npos) what.remove_prefix(colon + 2);
    status_ = invalid_argument(concat("not JSON at column ", position, ": ", what));
    return false;
  }

 private:
  template <typename Fill>
  bool store(Fill fill) {
    if (depth_ == 0) return refuse();
    if (depth_ == 1 && key_) fill(request_.fields_[static_cast<std::size_t>(*key_)]);
    return true;
  }
  bool other() {
    return store([](Field& field) { field.kind = Kind::kOther; });
  }
  bool refuse() {
    status_ = invalid_argument("not a JSON object: a request is {\"op\":...}");
    return false;
  }

  Request& request_;
  Status status_;
  std::size_t depth_ = 0;
  std::optional<Key> key_;
};

Status Request::parse(std::string_view line) {
  for (Field& field : fields_) field.kind = Kind::kMissing;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
    return invalid_argument("empty line: a request is {\"op\":...}");
  }
  Reader reader(*this);
  nlohmann::json::sax_parse(line.begin(), line.end(), &reader);
  return reader.status();
}

Result<std::string_view> Request::text(Key key) const {
  const Field& found = field(key);
  if (found.kind == Kind::kMissing) return wrong(key, "is missing");
  if (found.kind != Kind::kText) return wrong(key, "must be a string");
  return std::string_view(found.text);
}

Result<Offset> Request::number(Key key) const {
  const Field& found = field(key);
  switch (found.kind) {
    case Kind::kMissing: return wrong(key, "is missing");
    case Kind::kText:
    case Kind::kOther: return wrong(key, "must be an integer");
    case Kind::kFraction: return wrong(key, "must be an integer, without fraction or exponent");
    case Kind::kHuge: return wrong(key, "leaves the range of file offsets, [0, 2^62]");
    case Kind::kInteger: break;
  }
  if (found.number < 0) return wrong(key, concat("must not be negative, but is ", found.number));
  if (found.number > kMaxBytes) return wrong(key, "leaves the range of file offsets, [0, 2^62]");
  return found.number;
}

}  // namespace weir::cli::internal
