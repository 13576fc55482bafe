#pragma once

// From what stores know of subfiles to files with names, for rebuild() and fsck.  Asks nobody.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <weir/base/result.h>
#include <weir/storage/store.h>
#include <weir/wire/wire.h>

namespace weir::wire {

/// A file of more subfiles is refused.
inline constexpr Offset kMostSubfiles = 65536;

/// Subfiles up to this one are described when the file is made; others when it is synced.
inline constexpr std::uint32_t kDescribedAtOnce = 64;

struct FoundSubfile {
  std::uint32_t server = 0;
  storage::SubfileId id;
  storage::SubfileInfo info;
  std::shared_ptr<const AboutT> about;  ///< Null: none, or damaged.
  bool is_damaged = false;              ///< Its lengths are not known.
};

struct FoundFile {
  AttributesT attributes;
  std::string path;                ///< Empty: not known.
  bool is_pending = false;         ///< What a relayout was making of the file.
  std::vector<bool> is_found;      ///< Of each subfile: bytes, or what was kept beside it.
  Offset size = 0;                 ///< Of a file of which nothing is known.
  std::vector<std::string> notes;  ///< What is missing.

  /// For messages.
  [[nodiscard]] std::string name() const;
};

/// Whether what was kept beside `id` speaks of it, and makes sense.  \error kCorrupt
Status check_found_about(storage::SubfileId id, const AboutT& about);

/// The file whose subfiles are filed under `data`.  Nothing if no name is known, and there is not a byte of it, or a
/// subfile is damaged: that is left alone.
std::optional<FoundFile> put_file_together(std::uint64_t data, const std::vector<FoundSubfile>& subfiles,
                                           std::uint32_t servers);

struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

struct Names {
  std::vector<std::string> paths;                  ///< Of each file.
  std::map<std::string, AttributesT> directories;  ///< By path, so that each comes after those above it.
  std::vector<std::string> collisions;             ///< For people.
  std::vector<std::string> lost;
};

/// Where several claim a name, the one that is newest by what is known has it, the others get a suffix with their
/// number.  Directories are for all who could read every file below them.
Names name_files(const std::vector<FoundFile>& files, Owner owner);

}  // namespace weir::wire
