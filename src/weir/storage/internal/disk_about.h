#pragma once

// What is known of the file that a subfile belongs to, kept beside its data: bytes of the caller's, with a checksum.
//
//   offset  bytes
//   0       8      WEIRINFO
//   8       4      version, 1
//   12      4      element
//   16      8      number of the file
//   24      8      number of bytes that follow the header, n
//   32      n      the caller's
//   32+n    8      XXH3 of all before it

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <weir/base/result.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

std::vector<std::byte> encode_about(SubfileId id, std::span<const std::byte> about);
/// \error kCorrupt if it is damaged, or of another subfile
Result<std::vector<std::byte>> decode_about(SubfileId id, std::span<const std::byte> file);

/// The same of an open file.  \error kCorrupt: names the file
Result<std::vector<std::byte>> read_about(SubfileId id, int descriptor, const std::string& path);

}  // namespace weir::storage::internal
