#pragma once

// Where the bytes of a server go, as users write it:
//
//   memory                                in memory
//   disk:DIR                              in files below DIR
//   slow:STORE[?seek=8ms&rate=50M]        either of them, as slow as one disk head

#include <optional>
#include <string>
#include <string_view>

#include <weir/base/result.h>
#include <weir/storage/slow_store.h>

namespace weir::storage {

struct StoreSpec {
  std::string directory;           ///< Of a disk store; empty: memory.
  std::optional<SlowDisk> slow{};  ///< The head that the store is slowed down to.

  /// \error kInvalidArgument: quotes the text and lists what can be written
  static Result<StoreSpec> parse(std::string_view text);

  /// Whether its bytes are gone when the server ends.
  [[nodiscard]] bool is_memory() const noexcept { return directory.empty(); }
  /// parse() gives the same again.
  [[nodiscard]] std::string text() const;

  friend bool operator==(const StoreSpec&, const StoreSpec&) = default;
};

}  // namespace weir::storage
