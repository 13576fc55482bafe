#pragma once

// How far a database is known to be durable, kept beside it: a log that ends earlier has lost something, and a log that
// ends later may have been torn by a loss of power.  The file has two slots, written in turn, so that a torn write
// leaves the other; docs/formats.md shows them.
//
// The number of the system's boot is kept too.  If it is the same at the next start, there was no loss of power, and
// the log cannot be torn at all.

#include <cstdint>
#include <memory>
#include <string>

#include <weir/base/descriptor.h>
#include <weir/base/result.h>

namespace weir::storage::internal {

/// Empty: the system does not tell.
std::string boot_of_system();

/// \threadsafety One thread at a time.
class Watermark {
 public:
  /// Makes the file if there is none, and locks it as long as it lives: one process at a time has the database.
  /// \error kUnavailable if another one has; kCorrupt if no slot can be read
  static Result<Watermark> open(const std::string& path, std::string this_boot = boot_of_system());

  /// All changes up to this one are durable.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }
  /// Whether it was last written since the system was started.
  [[nodiscard]] bool is_of_this_boot() const noexcept { return !boot_.empty() && boot_ == this_boot_; }

  /// Durable when it returns.
  Status write(std::uint64_t sequence);

 private:
  Watermark(std::string path, std::string this_boot) : path_(std::move(path)), this_boot_(std::move(this_boot)) {}
  bool take_slot(std::string_view text);

  std::string path_;
  Descriptor file_;
  std::uint64_t turn_ = 0;
  std::uint64_t sequence_ = 0;
  std::string boot_;
  std::string this_boot_;
};

}  // namespace weir::storage::internal
