#pragma once

// Measures costs that need no server: of memory and of a disk.  What servers cost is measured by those who can start
// some.

#include <functional>

#include <weir/model/machine.h>

namespace weir::model {

/// Until when to measure, and how often at most.
struct Effort {
  runtime::TimePoint end;
  int rounds = 9;
  const runtime::Clock* clock = runtime::system_runtime().clock;
};

/// Runs `once`, which returns seconds, at least once, then until the effort is spent.
/// \returns the median  \error the first of `once`
Result<double> median_seconds(const Effort& effort, const std::function<Result<double>()>& once);

/// Sets what copies, pages, plans and buffers cost.  \error kIoError if there is no memory for it
Status calibrate_memory(const Machine& machine, const Effort& effort, Memory& memory);

/// Writes, syncs and reads a file of some MiB in `folder`, without the page cache where the file system allows it
/// (O_DIRECT), and removes it.
/// \error kIoError, kNotFound, kPermission, kNoSpace: names the folder
Result<Disk> calibrate_disk(const std::string& folder, const Effort& effort);

}  // namespace weir::model
