#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <weir/base/result.h>

namespace weir::wire {

inline constexpr std::size_t kMostNameBytes = 255;
inline constexpr std::size_t kMostPathBytes = 65536;

/// The names of an absolute path, in order; "/" has none.  A name is any bytes but '/' and NUL; several '/' are as one.
/// The names point into `path`.
/// \error kInvalidArgument if the path is not absolute, or a name is "." or "..", too long, or has a NUL: names the
/// path
Result<std::vector<std::string_view>> split_path(std::string_view path);

/// For messages: in quotes, bytes that do not print as \xNN, the middle of a long one left out.
std::string quoted_path(std::string_view path);

}  // namespace weir::wire
