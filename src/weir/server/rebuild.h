#pragma once

// Rebuilds lost metadata of a file system on disk from what its stores know; servers must not run.  Existing data is
// never changed or removed:
//
//   - a store that is missing: an empty one takes its place.  Files that had bytes there say so when they are read
//   - metadata that is missing: stores keep beside each subfile what is known of its file (wire::About), which gives
//     names, layouts, owners and modes back.  Bytes of which nothing is known get a name in /lost+found

#include <functional>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>

namespace weir::server {

/// Something that a user should look at.
struct RebuildFinding {
  enum class Kind {
    kStore,       ///< A store was missing.
    kSidecar,     ///< What was kept beside a subfile is damaged.
    kUnreadable,  ///< A subfile is damaged.
    kIncomplete,  ///< A file has its name again, but some of its subfiles are nowhere.
    kCollision,   ///< Another file has its name: it got a suffix.
    kLost,        ///< Nothing is known of the file: its bytes are in /lost+found.
  };
  Kind kind = Kind::kStore;
  std::string what;
};

struct RebuildReport {
  bool has_made_metadata = false;  ///< False: it was there.
  Offset files = 0;
  Offset directories = 0;
  Offset subfiles = 0;
  std::vector<RebuildFinding> findings;
};

struct RebuildOptions {
  std::string store;                                      ///< "disk:DIR", with the folders of all servers below DIR.
  std::function<void(Offset done, Offset all)> progress;  ///< Subfiles looked at.
};

/// All or nothing as far as metadata goes: it has its name when it is whole and durable.  Interrupted, the same call
/// begins again.
/// \error kNotFound if there is no store; kUnavailable if a server runs; kCorrupt if folders do not belong together, or
///        metadata is there that cannot be read
Result<RebuildReport> rebuild(const RebuildOptions& options);

}  // namespace weir::server
