#pragma once

// One access as a program makes it: its buffer as pario takes it, and what MPI wants to know of it in the end.
//
//   buffer in one piece            as it is
//   in pieces, as FALLS            as it is
//   in another representation,     a copy of its bytes as they are in the file
//   or not expressible as FALLS

#include <cstdint>
#include <memory>
#include <vector>

#include <weir/mpiio/internal/representation.h>
#include <weir/mpiio/internal/view.h>
#include <weir/pario/access.h>

namespace weir::mpiio::internal {

class File;

/// \threadsafety One thread at a time.
class ProgramAccess {
 public:
  /// `file` must stay.
  ProgramAccess(File& file, const pario::AccessRequest& access, const Buffer& buffer);

  /// Finds the memory, and converts what is to be written.
  Status prepare();
  [[nodiscard]] const pario::Memory& memory() const { return memory_; }
  /// Of the buffer, as it is in the file.
  [[nodiscard]] Offset bytes() const { return bytes_; }

  /// After bytes have moved, or not: converts what was read, counts and traces.
  Status conclude(const Status& moved, const pario::AccessResult& result);
  void fill(MPI_Status* status) const;

 private:
  Status find_memory();
  void stage();
  Status encode();
  Status decode();
  void record(const pario::AccessResult& result) const;

  File& file_;
  const char* call_;
  bool is_write_;
  Buffer buffer_;
  std::shared_ptr<const ViewTypes> types_;
  Offset bytes_ = 0;       // then, those that were moved
  Offset item_bytes_ = 1;  // of one item of the buffer's type, in the file
  pario::Memory memory_;
  bool is_staged_ = false;
  std::vector<std::byte> staged_;  // the bytes as they are in the file
  std::int64_t start_;             // for the trace
  std::int64_t packed_ = 0;        // ns, the same
};

}  // namespace weir::mpiio::internal
