#pragma once

// Anonymous files for subfiles.
//
// Linux makes memory that processes share page by page, 3 µs each, unless the system is set up otherwise.  A tmpfs of
// our own has huge pages where they are asked for (huge=advise; base/huge_pages.h), and 2 MiB take as long as twenty
// small pages did.  It is mounted nowhere, and is gone with the last descriptor.  Mounting takes root, or a user
// namespace; where neither is to be had (or with WEIR_HUGE_PAGES=off) files are memfds.
//
// A memfd can be sealed: then nobody who maps it can make it shorter, which would kill all others who read it.  Files
// of a tmpfs cannot.  They are for processes of our own user, who can kill us anyway.

#include <weir/base/descriptor.h>
#include <weir/share/shared_memory.h>

namespace weir::share::internal {

struct MemoryFile {
  Descriptor descriptor;  ///< Not open if none is to be had.
  bool is_sealed = false;
  bool is_huge = false;  ///< Has huge pages where they are asked for.
};

/// Readable and writable by this user only, of length 0.  \threadsafety Safe.
MemoryFile make_memory_file(Peers peers);

/// The root of a tmpfs with huge pages, made by a child in a user namespace, where everybody may mount; not open if
/// that is not allowed.
Descriptor make_tmpfs_in_namespace();

}  // namespace weir::share::internal
