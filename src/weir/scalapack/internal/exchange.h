#pragma once

// Moves the numbers of one call between processes.
//
// A submatrix is rows times columns, and so is what two processes share of it: the rows that both hold, in each of the
// columns that both hold.  So one plan for a column serves all columns, however badly the block sizes of both sides
// fit: planning costs rows plus columns, never rows times columns.
//
//   message   the shared columns one after the other, each packed by the plan of its rows
//   segment   a piece of a message, one MPI message; both ends cut alike.  Two per peer are on their way at a time: while MPI
//             carries one, the other is packed or unpacked.  One that is contiguous in the array is sent from there, or received there.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <mpi.h>

#include <weir/transfer/plan.h>

namespace weir::scalapack::internal {

using transfer::Range;

/// Columns that follow each other on both sides.
struct ColumnRun {
  Offset message = 0;  ///< Number of the first one among the shared columns.
  Offset a = 0;        ///< Its local number in A, and in B.
  Offset b = 0;
  Offset count = 0;
};

using ColumnRuns = std::shared_ptr<const std::vector<ColumnRun>>;

/// Where the local part of a submatrix lies, in bytes from the start of the local array.
struct Place {
  Offset start = 0;
  Offset stride = 0;  ///< From column to column.
};

/// One end of a message.
struct Stream {
  int peer = 0;
  bool is_send = false;
  Offset column_bytes = 0;  ///< Of the shared rows.
  Offset columns = 0;
  transfer::Plan rows;           ///< Between a column of the array and a column of the message.
  std::optional<Offset> direct;  ///< The shared rows are contiguous in the array, from here on in each column.
  ColumnRuns runs;
  Place place;

  [[nodiscard]] Offset bytes() const { return column_bytes * columns; }
  /// Where this range of the message lies in the array if it is contiguous there.
  [[nodiscard]] std::optional<Offset> contiguous(Range range) const;
  /// Packs (a send) or unpacks (a receive) a range of the message.  `buffer` holds just that range.
  void gather(Range range, const std::byte* array, std::byte* buffer) const;
  void scatter(Range range, const std::byte* buffer, std::byte* array) const;

 private:
  template <typename Action>
  void for_columns(Range range, Action action) const;
};

/// Rows and columns that a process has in both matrices.
struct LocalCopy {
  Offset column_bytes = 0;
  Offset columns = 0;
  transfer::Plan rows;  ///< From a column of A to a column of B.
  Range range;          ///< Of its key.
  ColumnRuns runs;
  Place a;
  Place b;

  [[nodiscard]] Offset bytes() const { return column_bytes * columns; }
  void run(const std::byte* from, std::byte* to, Range columns_of_message) const;
};

struct Traffic {
  std::vector<Stream> streams;  ///< Receives, then sends.
  std::optional<LocalCopy> local;
};

/// Longest segment between processes of a communicator of this size: buffers of all peers stay within some dozens of
/// megabytes.
Offset segment_bytes(int processes);

class Exchange {
 public:
  Exchange(MPI_Comm comm, int processes, Traffic traffic);

  [[nodiscard]] const Traffic& traffic() const { return traffic_; }
  /// Bytes that run() needs for segments on their way.
  [[nodiscard]] Offset buffer_bytes() const { return buffer_bytes_; }

  /// \pre buffer.size() >= buffer_bytes(); A and B do not overlap.
  Status run(const std::byte* a, std::byte* b, std::span<std::byte> buffer);

 private:
  static constexpr std::size_t kDepth = 2;

  // A segment on its way.
  struct Slot {
    Range range;
    std::byte* buffer = nullptr;  // of its own
    bool is_packed = false;
  };

  Status start_next(std::size_t index);
  Status finish(std::size_t index);
  Result<int> poll(bool may_block);
  void copy_portion();

  MPI_Comm comm_;
  Traffic traffic_;
  Offset segment_;
  Offset buffer_bytes_ = 0;

  // Of the exchange that runs: kDepth slots and requests per stream.
  const std::byte* a_ = nullptr;
  std::byte* b_ = nullptr;
  std::vector<Slot> slots_;
  std::vector<MPI_Request> requests_;
  std::vector<int> completed_;
  std::vector<Offset> next_;  // per stream: start of the next segment
  std::size_t open_ = 0;
  Offset copied_ = 0;  // columns
};

}  // namespace weir::scalapack::internal
