#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <weir/wire/wire.h>

namespace weir::wire {

/// What is kept beside subfile `element` of a file.  Layouts and targets of files with many subfiles are kept beside a
/// few of them only, or they would take more room than the bytes.  `is_pending`: the file will be so when its relayout
/// is done.
std::vector<std::uint8_t> about_of(const std::string& path, const AttributesT& attributes, std::uint32_t element,
                                   bool is_pending = false);

}  // namespace weir::wire
