#pragma once

// Files of a job that are the same outside: staged in, or copied out already.  Kept in a file of the job's folder,
// since the processes that copy and the one that asks are not the same.

#include <cstdint>
#include <map>
#include <string>

#include <weir/client/file_system.h>

namespace weir::launch {

class Manifest {
 public:
  /// Reads what there is.
  explicit Manifest(std::string file);

  /// `version`: of its contents, as OpenFiles counts them.  \error kIoError
  Status add(const std::string& path, const client::Stat& found, std::int64_t version);

  /// Whether the file is the one that was copied: not another of that name, and not changed since as far as names,
  /// sizes and versions tell.
  [[nodiscard]] bool holds(const std::string& path, const client::Stat& found, std::int64_t version) const;

 private:
  struct Entry {
    std::uint64_t file = 0;
    Offset size = 0;
    std::int64_t changed_ns = 0;
    std::int64_t version = 0;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::string file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace weir::launch
