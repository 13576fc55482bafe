#pragma once

// What stores keep beside subfiles, as the I/O service uses it.  wire::About says what is in it.

#include <cstdint>
#include <span>
#include <vector>

#include <weir/base/result.h>
#include <weir/base/task.h>
#include <weir/storage/store.h>
#include <weir/wire/wire.h>

namespace weir::server::internal {

/// Whether bytes from a client are what they should be; empty ones are.  \error kInvalidArgument
Status check_about(storage::SubfileId id, std::span<const std::uint8_t> about);

/// Keeps it, unless what is kept is of a later time: a client that opened the file before it was renamed must not undo
/// that.
Task<Status> keep_newer_about(storage::Store& store, storage::SubfileId id, std::vector<std::uint8_t> about);

/// What is kept, or how it is damaged.  \error what the store says otherwise: then nothing is known of it
Task<Status> add_about(storage::Store& store, storage::SubfileId id, wire::SubfileInfoT& answer);

}  // namespace weir::server::internal
