#pragma once

// The label of a store or of metadata: which file system it is part of, and as which of its servers.  What does not
// belong together has different labels, and servers refuse to start with it.

#include <cstdint>
#include <string>
#include <string_view>

#include <weir/base/result.h>

namespace weir::storage {

struct Label {
  std::uint64_t file_system = 0;  ///< Chosen at random when the file system is made; 0: there is no label.
  std::uint32_t server = 0;       ///< Index of the server.
  std::uint32_t servers = 0;      ///< How many the file system has; 0 until it is formed.
  /// All servers of the file system were up once: from then on, a store or the metadata that is missing is lost, not
  /// new.
  bool is_formed = false;

  friend bool operator==(const Label&, const Label&) = default;
};

/// "file system 4f1c0a7be25d9936, server 1 of 2", for messages.
std::string describe(const Label& label);

/// Lines of text, and a checksum behind them: see docs/formats.md.
std::string encode_label(const Label& label);
/// \error kCorrupt
Result<Label> decode_label(std::string_view text);

}  // namespace weir::storage
