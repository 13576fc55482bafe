#include <weir/storage/internal/checked_text.h>

#include <charconv>

#include <xxhash.h>

#include <fmt/format.h>

namespace weir::storage::internal {
namespace {

constexpr std::string_view kChecksum = "checksum ";
constexpr std::size_t kChecksumLine = kChecksum.size() + 16 + 1;

// Takes `word` and the number behind it off the front of `text`.
template <typename Number>
bool take_labelled(std::string_view& text, std::string_view word, Number& number, int base) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::string checksum_line(std::string_view text) {
  return fmt::format("{}{:016x}\n", kChecksum, XXH3_64bits(text.data(), text.size()));
}

}  // namespace

std::string add_checksum(std::string text) {
  text += checksum_line(text);
  return text;
}

Result<std::string_view> check_checksum(std::string_view text) {
  if (text.size() < kChecksumLine) return corrupt("it is too short");
  const std::string_view body = text.substr(0, text.size() - kChecksumLine);
  if (text.substr(body.size()) != checksum_line(body)) return corrupt("its checksum is wrong");
  return body;
}

std::string label_lines(const Label& label) {
  return fmt::format("file_system {:016x}\nserver {} of {}\nstate {}\n", label.file_system, label.server, label.servers,
                     label.is_formed ? "formed" : "forming");
}

Result<Label> parse_label_lines(std::string_view text) {
  Label label;
  const bool has_numbers = take_labelled(text, "file_system ", label.file_system, 16) &&
                           take_labelled(text, "\nserver ", label.server, 10) &&
                           take_labelled(text, " of ", label.servers, 10);
  label.is_formed = text == "\nstate formed\n";
  const bool has_state = label.is_formed || text == "\nstate forming\n";
  if (!has_numbers || !has_state || (label.is_formed && label.server >= label.servers)) {
    return corrupt("its lines about the file system make no sense");
  }
  return label;
}

}  // namespace weir::storage::internal
