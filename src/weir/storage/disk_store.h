#pragma once

// Subfiles on a local disk: plain sparse files with checksums beside them.  docs/formats.md says what lies where; the
// beginning of disk_store.cpp says what a crash can and cannot do.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/storage/label.h>
#include <weir/storage/store.h>

namespace weir::storage {

struct DiskStoreOptions {
  /// Pieces from this size on go around the page cache (direct I/O), as far as they are aligned.
  Offset direct_from_bytes = Offset{256} << 10;
  /// Requests that the disk has in flight, and operations that are worked on, together.
  unsigned queue_depth = 64;
  /// io_uring, if the system allows it.  Otherwise one request after the other.
  bool use_uring = true;
  /// Files kept open; each takes up to three descriptors.
  std::size_t max_open = 256;
  /// Memory for checksums.  Beyond it the subfiles used longest ago are synced and forgotten.
  std::size_t max_checksum_bytes = std::size_t{64} << 20;
  /// A subfile is cut into files of this size, since file systems limit how long a file may be (ext4: 16 TiB).  Counts
  /// when the store is made; a multiple of 16 KiB.
  Offset part_bytes = Offset{1} << 40;
  /// Of a new store.
  Label label = {};
  runtime::Runtime runtime = runtime::system_runtime();
};

/// Opens the store in `directory`, or makes one there.  Only one process at a time can have it open.
/// \error kUnavailable if another one has; kPermission if the directory cannot be written; kCorrupt if it is not a
/// store (any more)
Result<std::unique_ptr<Store>> open_disk_store(const std::string& directory, const DiskStoreOptions& options = {});

/// The label of the store in `directory`, which may be in use; nothing if there is no store.
/// \error kCorrupt if its settings are damaged or of another version
Result<std::optional<Label>> read_disk_label(const std::string& directory);

/// Something that check_disk_store() found.
struct DiskFinding {
  enum class Kind : std::uint8_t {
    kDamagedBlock,      ///< The bytes do not fit their checksum.  Reading them fails.
    kUnverifiedBlocks,  ///< Written, but a crash came before the next sync.  Readable.
    kDamagedChecksums,  ///< The file with the checksums is damaged, cut off or missing.  Reading fails.
    kMissingData,  ///< The file with the data is missing, shorter than what was synced, or gone with its checksums.
                   ///< Reading fails.
    kUnfinishedRemove,  ///< What is left of a subfile whose removal a crash interrupted.  Goes when the subfile is next used.
    kDamagedAbout,  ///< What was known of the file is damaged.  The bytes are not touched by that.
    kForeignFile,   ///< A file that the store did not make.
  };
  Kind kind;
  SubfileId id;     ///< Not of kForeignFile.
  Offset from = 0;  ///< The bytes [from, to) of the subfile, where the finding is about some.
  Offset to = 0;
  std::string message;  ///< Names the file on disk.
};

struct DiskCheck {
  Offset subfiles = 0;
  Offset verified_blocks = 0;
  std::vector<DiskFinding> findings;
};

/// Reads all of the store in `directory` and verifies every checksum.  Changes nothing.
/// \error kUnavailable if a process has it open; kNotFound if there is no store
Result<DiskCheck> check_disk_store(const std::string& directory);

}  // namespace weir::storage
