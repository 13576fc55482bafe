#pragma once

// Which stores and which metadata belong together.  All of a file system that are below one directory have labels
// (storage/label.h) that say so:
//
//   DIR/server-0/store       settings: the label of server 0's store
//   DIR/server-0/metadata    key "f": the label of the metadata
//   DIR/server-1/store ...
//
// How a file system is made, and what a crash after each step leaves:
//   1. The store of each server, its label "forming".      Starting again goes on: what is missing is made.
//   2. On server 0 the metadata, its label "forming".      The same.
//   3. All servers are up and know it (set_members):       The same; the number of servers is known now, and must be the
//      the label of the metadata becomes "formed",         same again.
//   4. then those of the stores.                           What is missing from now on is lost: servers that need it
//                                                          refuse to start.
//
// Folders that are not below one directory (on disks of several hosts) are checked one by one.

#include <cstdint>
#include <string>
#include <vector>

#include <weir/base/result.h>
#include <weir/base/task.h>
#include <weir/runtime/runtime.h>
#include <weir/storage/key_value.h>
#include <weir/storage/label.h>
#include <weir/storage/store.h>

namespace weir::server::internal {

inline constexpr std::string_view kLabelKey = "f";

struct LabelledStore {
  std::uint32_t index = 0;  ///< As its folder says.
  std::string path;
  storage::Label label;
};

std::string store_path(const std::string& directory, std::uint32_t index);
std::string metadata_path(const std::string& directory);

/// The stores below `directory`, by ascending index.
/// \error kCorrupt if one cannot be read, or they do not belong together: names two and what to do
Result<std::vector<LabelledStore>> find_stores(const std::string& directory);

/// The label that the store of server `index` has, or is to have if it is new.  `new_file_system`: the id if all is
/// new; 0: a random one.
/// \error kCorrupt if a store or the metadata is lost, or they do not belong together
Result<storage::Label> label_for(const std::string& directory, std::uint32_t index, std::uint64_t new_file_system,
                                 runtime::Random& random = *runtime::system_runtime().random);

/// Gives new metadata the label of server 0's store, durably; that of others must be the same.
/// \error kCorrupt
Status label_metadata(storage::KeyValue& metadata, const std::string& directory, const storage::Label& store);

/// Step 3, durable once the map is synced.  \error kInvalidArgument if they were made by another number of servers
Status form_metadata(storage::KeyValue& metadata, std::uint32_t servers);
/// Step 4; nothing for stores without a label.
Task<Status> form_label(storage::Store& store, std::uint32_t servers);

/// Whether there is a database.  \error kCorrupt if the folder holds something else
Result<bool> has_metadata(const std::string& directory);

}  // namespace weir::server::internal
