#pragma once

namespace weir::redist {

/// One array on this rank: where its part of the source lies and where its part of the target goes.
struct Arrays {
  const void* source = nullptr;  ///< May be null if this rank holds no source element.
  void* target = nullptr;
};

}  // namespace weir::redist
