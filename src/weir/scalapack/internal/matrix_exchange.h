#pragma once

// Moves the numbers of one call between processes.
//
// A submatrix is rows times columns, and so is what two processes share of it: the rows that both hold, in each of the
// columns that both hold.  So one plan for a column serves all columns, however badly the block sizes of both sides
// fit: planning costs rows plus columns, never rows times columns.
//
//   message   the shared columns one after the other, each packed by the plan of its rows
//   segment   a piece of a message; see exchange::Exchange.  One that is contiguous in the array is sent from there, or
//             received there.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <weir/exchange/exchange.h>
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
struct ColumnStream {
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
  [[nodiscard]] std::optional<Offset> contiguous(exchange::Range range) const;
  /// Packs (a send) or unpacks (a receive) a range of the message.  `buffer` holds just that range.
  void gather(exchange::Range range, const std::byte* array, std::byte* buffer) const;
  void scatter(exchange::Range range, const std::byte* buffer, std::byte* array) const;

 private:
  template <typename Action>
  void for_columns(exchange::Range range, Action action) const;
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
  std::vector<ColumnStream> receives;
  std::vector<ColumnStream> sends;
  std::optional<LocalCopy> local;
};

/// Longest segment between processes of a communicator of this size: buffers of all peers stay within some dozens of
/// megabytes.
Offset segment_bytes(int processes);

class MatrixExchange {
 public:
  MatrixExchange(mpi::Communicator& group, BufferPool& pool, Traffic traffic);
  MatrixExchange(const MatrixExchange&) = delete;
  MatrixExchange& operator=(const MatrixExchange&) = delete;

  [[nodiscard]] const Traffic& traffic() const { return traffic_; }
  /// Bytes that run() takes from the pool.
  [[nodiscard]] Offset buffer_bytes() const { return engine_.buffer_bytes(1); }

  /// \pre A and B do not overlap.
  Status run(const std::byte* a, std::byte* b);

 private:
  exchange::Stream stream_of(const ColumnStream& columns) const;
  exchange::Streams streams_of() const;
  void copy_portion(Offset portion) const;

  Traffic traffic_;
  Offset portion_columns_;  // of a local copy
  const std::byte* a_ = nullptr;
  std::byte* b_ = nullptr;
  exchange::Exchange engine_;
};

}  // namespace weir::scalapack::internal
