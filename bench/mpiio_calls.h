#pragma once

// What mpiio_bench measures beside patterns: calls that move little or nothing, and files written and read in many
// transfers, as IOR does.

#include <memory>

#include "mpiio_patterns.h"

namespace weir::mpiio_bench {

/// Times of one contender, against those of weir in the same turns.
struct CallRow {
  std::string name;
  const char* way;   ///< "collective" or "independent"
  const char* call;  ///< "open", "write", ...
  std::string contender;
  std::vector<double> seconds;
  const std::vector<double>* ours;
  Offset bytes = 0;  ///< 0: moves none
};

using PrintRow = std::function<void(const CallRow&)>;

/// Case "calls": MPI_File_open, set_size and close of one file, many times.
void measure_small_calls(const Settings& settings, const PrintRow& print);

/// Case "transfers": each rank writes a part of a new file in transfers of 4 KiB, 47,008 B and 1 MiB, then reads
/// another's.
void measure_transfers(const Settings& settings, const PrintRow& print);

/// Processes that compute for nothing for as long as this exists, each in a session of its own.  Of the first rank.
class BusyLoops {
 public:
  explicit BusyLoops(int count);
  ~BusyLoops();
  BusyLoops(const BusyLoops&) = delete;
  BusyLoops& operator=(const BusyLoops&) = delete;

 private:
  std::vector<int> processes_;
};

}  // namespace weir::mpiio_bench
