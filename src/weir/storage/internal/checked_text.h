#pragma once

// Small texts that end with a checksum of what is before it: settings of a disk store, labels.

#include <string>
#include <string_view>

#include <weir/base/result.h>
#include <weir/storage/label.h>

namespace weir::storage::internal {

/// \pre `text` ends with a line end.
std::string add_checksum(std::string text);
/// The text before the checksum.  \error kCorrupt if that is missing or wrong
Result<std::string_view> check_checksum(std::string_view text);

/// Three lines: file system, server, state.
std::string label_lines(const Label& label);
/// \error kCorrupt unless these lines are all there is
Result<Label> parse_label_lines(std::string_view text);

}  // namespace weir::storage::internal
