#include <weir/storage/label.h>

#include <fmt/format.h>

#include <weir/storage/internal/checked_text.h>

namespace weir::storage {

std::string describe(const Label& label) {
  if (label.file_system == 0) return "no file system";
  if (label.servers == 0) return fmt::format("file system {:016x}, server {}", label.file_system, label.server);
  return fmt::format("file system {:016x}, server {} of {}", label.file_system, label.server, label.servers);
}

std::string encode_label(const Label& label) {
  return internal::add_checksum(fmt::format("weir label, version 1\n{}", internal::label_lines(label)));
}

Result<Label> decode_label(std::string_view text) {
  constexpr std::string_view kFirst = "weir label, version 1\n";
  WEIR_TRY(std::string_view rest, internal::check_checksum(text));
  if (!rest.starts_with(kFirst)) return corrupt("the label is of another version");
  rest.remove_prefix(kFirst.size());
  return internal::parse_label_lines(rest);
}

}  // namespace weir::storage
