#pragma once

#include <string>
#include <string_view>

#include <weir/base/checked.h>

namespace weir {

/// Writes JSON text at the end of a string, member by member; the writer places the commas.
///
///     JsonWriter json{out};
///     json.begin_object().field("x", 4).key("list").begin_array().value(1).value(2).end_array().end_object();
///
/// Nothing is built in memory first: batch answers are written at the speed of the string.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) noexcept : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  JsonWriter& key(std::string_view name);
  JsonWriter& value(Offset number);
  JsonWriter& value(int number) { return value(Offset{number}); }
  JsonWriter& value(double number);  ///< Shortest text that reads back as the same number.
  JsonWriter& value(bool truth);
  JsonWriter& value(std::string_view text);  ///< Bytes that are not UTF-8 become U+FFFD.
  JsonWriter& value(const char* text) { return value(std::string_view{text}); }
  JsonWriter& null();

  template <typename T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string& out_;
  bool needs_comma_ = false;
};

/// Bytes of the well-formed UTF-8 character that `text` starts with; 0 if it starts with none.  \pre It is not empty.
std::size_t utf8_length(std::string_view text);

/// Appends `text` as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace weir
