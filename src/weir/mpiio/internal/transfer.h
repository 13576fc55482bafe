#pragma once

// One read or write: so many bytes of a view from some offset on, from or to a program's buffer.
//
//   buffer in one piece            straight between it and the file
//   in pieces, as FALLS            the same, by a plan of the client's
//   in another representation,     through a staging buffer that is converted
//   or not expressible as FALLS

#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include <weir/client/file_system.h>
#include <weir/mpiio/internal/file.h>
#include <weir/mpiio/internal/trace.h>
#include <weir/mpiio/internal/two_phase.h>

namespace weir::mpiio::internal {

/// \threadsafety One thread at a time.
class Transfer {
 public:
  /// `bytes`: of the buffer, as it is in the file.
  static Outcome create(File& file, std::shared_ptr<const FileView> view, const Access& access, const Buffer& buffer,
                        Offset bytes, std::unique_ptr<Transfer>& transfer);

  /// For a trace: since when it is under way.
  void trace(std::int64_t start);

  /// Does it all.  `from`: in bytes of the view.
  Outcome run(Offset from);
  /// The same in two steps: what comes before bytes move, after which bytes() are as many as there will be ...
  Outcome get_ready(Offset from);
  /// ... and the rest, unless getting ready failed; or, with other ranks, by `move` through a view of the
  /// whole file.
  Outcome run_alone(const Outcome& ready);
  Outcome run_together(const client::View& whole, const std::function<Outcome(ProgramMemory&)>& move);
  /// True if it goes by message, so that it may pay if others take part.
  [[nodiscard]] bool may_be_shared(Offset from) const;
  /// What get_ready() has found.
  Result<Share> share() const;
  /// Starts it; does it all if nothing is gained by waiting for messages.
  void start(Offset from);
  /// True when it is done; outcome() tells how it went.
  bool test();
  /// Waits.
  Outcome finish();

  [[nodiscard]] const FileView& view() const { return *view_; }
  [[nodiscard]] Offset bytes() const { return bytes_; }
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }
  /// Of the program's buffer that were read or written, for MPI_Get_count.
  [[nodiscard]] Offset buffer_bytes() const;
  void fill(MPI_Status* status) const;

 private:
  using InOne = std::byte*;               // the program's memory
  using InPieces = client::Memory;        // the same
  using Staged = std::vector<std::byte>;  // the bytes as they are in the file

  Transfer(File& file, std::shared_ptr<const FileView> view, const Access& access, const Buffer& buffer, Offset bytes)
      : file_(file),
        view_(std::move(view)),
        call_(access.call),
        is_write_(access.is_write),
        buffer_(buffer),
        bytes_(bytes) {}
  Outcome find_memory();
  std::byte* in_one();
  Outcome move(Offset from);
  Outcome conclude(Outcome outcome);
  Outcome clip_to_file(Offset from);
  Outcome encode();
  Outcome decode();
  Status read_overlapping(Offset from);
  void ended(Status status);
  void end(const Outcome& outcome);
  void trace_end();

  File& file_;
  std::shared_ptr<const FileView> view_;
  const char* call_;  // for messages
  bool is_write_;
  Buffer buffer_;
  Offset bytes_;  // to be moved; less than asked for where the file ends
  Offset from_ = 0;
  Offset item_bytes_ = 1;  // of one item of the buffer's type, in the file
  std::variant<InOne, InPieces, Staged> memory_ = InOne{};
  std::optional<client::Pending> pending_;
  Outcome outcome_;
  trace::Access traced_;
};

}  // namespace weir::mpiio::internal
