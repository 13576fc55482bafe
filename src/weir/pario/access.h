#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include <weir/client/file_system.h>
#include <weir/pario/operation.h>

namespace weir::pario {

struct View;

/// A read or write.
struct AccessRequest {
  bool is_write = false;
  Pointer pointer = Pointer::kExplicit;
  bool is_collective = false;
  Offset offset = 0;               ///< In etypes, if the pointer is explicit.
  const char* call = "an access";  ///< As the program knows it, for messages.
};

/// Memory of the program; it is only written to by reads.
struct Memory {
  std::byte* data = nullptr;
  std::optional<layout::Element> pieces{};  ///< Byte k is at data + pieces->unmap(k).  Nothing: at data + k.
};

/// What became of an access.
struct AccessResult {
  Offset bytes = 0;                  ///< Read or written; fewer than asked for where the file ends.
  std::shared_ptr<const View> view;  ///< Null: it was not made.

  // For traces, if the file has an observer.
  std::chrono::nanoseconds met{0};     ///< Spent on meeting other ranks,
  std::chrono::nanoseconds locked{0};  ///< on waiting for locks,
  std::chrono::nanoseconds moved{0};   ///< on moving bytes.
  Offset first = 0;                    ///< Bytes of the file.
  Offset last = 0;
  client::AccessReport for_all;  ///< What this rank moved for all ranks, not through its own view.
};

/// What a view's accesses cost from one report to a later one, as far as traces tell.
client::AccessReport cost_between(const client::AccessReport& before, const client::AccessReport& after);

}  // namespace weir::pario
