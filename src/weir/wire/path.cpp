#include <weir/wire/path.h>

#include <iterator>

#include <fmt/format.h>

#include <weir/base/text.h>

namespace weir::wire {

namespace {

constexpr std::size_t kMostShownBytes = 512;

void append_escaped(std::string& out, std::string_view text) {
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte > 0x7e || character == '"' || character == '\\') {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += character;
    }
  }
}

Status check_name(std::string_view name, std::string_view path) {
  if (name == "." || name == "..") {
    return invalid_argument(
        concat("path ", quoted_path(path), ": \"", name, "\" is no name here: write the path without it"));
  }
  if (name.size() > kMostNameBytes) {
    return invalid_argument(
        concat("path ", quoted_path(path), ": a name of ", name.size(), " bytes; at most ", kMostNameBytes));
  }
  return Status::ok();
}

}  // namespace

Result<std::vector<std::string_view>> split_path(std::string_view path) {
  if (path.empty() || path.front() != '/') {
    return invalid_argument(concat("path ", quoted_path(path), " is not absolute: it must start with '/'"));
  }
  if (path.size() > kMostPathBytes) {
    return invalid_argument(
        concat("path ", quoted_path(path), " has ", path.size(), " bytes; at most ", kMostPathBytes));
  }
  if (path.find('\0') != std::string_view::npos) {
    return invalid_argument(concat("path ", quoted_path(path), " has a NUL byte"));
  }
  std::vector<std::string_view> names;
  for (std::size_t at = 1; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) {
      names.push_back(path.substr(at, end - at));
      WEIR_RETURN_IF_ERROR(check_name(names.back(), path));
    }
    at = end + 1;
  }
  return names;
}

std::string quoted_path(std::string_view path) {
  std::string out = "\"";
  if (path.size() <= kMostShownBytes) {
    append_escaped(out, path);
  } else {
    append_escaped(out, path.substr(0, kMostShownBytes / 2));
    out += "\"...\"";
    append_escaped(out, path.substr(path.size() - kMostShownBytes / 2));
  }
  return out += '"';
}

}  // namespace weir::wire
