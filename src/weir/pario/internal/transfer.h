#pragma once

// One read or write: so many bytes of a view from some offset on, from or to memory of the program.

#include <functional>
#include <memory>
#include <optional>

#include <weir/pario/access.h>
#include <weir/pario/collective.h>
#include <weir/pario/file.h>
#include <weir/pario/internal/two_phase.h>

namespace weir::pario::internal {

/// \threadsafety One thread at a time.
class Transfer {
 public:
  Transfer(File& file, std::shared_ptr<const View> view, const AccessRequest& access, const Memory& memory,
           Offset bytes);

  /// Does it all.  `from`: in bytes of the view.
  Status run(Offset from);
  /// The same in two steps: what comes before bytes move, after which bytes() are as many as there will be ...
  Status get_ready(Offset from);
  /// ... and the rest, unless getting ready failed; or, with other ranks, by `move` through a view of the
  /// whole file.
  Status run_alone(const Status& ready);
  Status run_together(const client::View& whole, const std::function<Status(ProgramMemory&)>& move);
  /// True if it goes by message, so that it may pay if others take part.
  [[nodiscard]] bool may_be_shared(Offset from) const;
  /// What get_ready() has found.
  Result<Share> share() const;
  /// Starts it; does it all if nothing is gained by waiting for messages.
  void start(Offset from);
  /// True when it is done.
  bool test();
  /// Waits.
  Status finish();

  [[nodiscard]] const View& view() const { return *view_; }
  [[nodiscard]] Offset bytes() const { return bytes_; }
  /// \pre it is done
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] AccessResult& result() { return result_; }

 private:
  Status move(Offset from);
  Status clip_to_file(Offset from);
  Status read_overlapping(Offset from);
  ProgramMemory program_memory() const;
  Status end(const Status& status);
  void ended(const Status& status);

  File& file_;
  std::shared_ptr<const View> view_;
  const char* call_;
  bool is_write_;
  Memory memory_;
  Offset bytes_;  // to be moved; less than asked for where the file ends
  Offset from_ = 0;
  std::optional<client::Pending> pending_;
  runtime::TimePoint started_{};
  Status status_;
  AccessResult result_;
};

}  // namespace weir::pario::internal
