#pragma once

// A view of an open file: its binding to the file as it is laid out now, and what its accesses cost so far.

#include <memory>
#include <mutex>

#include <weir/client/internal/binding.h>
#include <weir/client/internal/operation.h>

namespace weir::client::internal {

/// The element that is the whole file: byte x at offset x.
Result<layout::Element> every_byte();

/// \threadsafety Safe from any thread.
class BoundView : public std::enable_shared_from_this<BoundView> {
 public:
  static Result<std::shared_ptr<BoundView>> create(std::shared_ptr<OpenFile> file, const layout::Element& element,
                                                   const ViewOptions& options = {});
  /// The same of a file that the caller keeps open meanwhile.
  static Result<std::shared_ptr<BoundView>> of(OpenFile& file, const layout::Element& element);

  [[nodiscard]] const layout::Element& element() const { return element_; }
  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] Session& session() const { return file_->session(); }

  Status read(Offset from, std::span<std::byte> memory);
  Status write(Offset from, std::span<const std::byte> memory);
  Status read(Offset from, Offset bytes, const Memory& memory);
  Status write(Offset from, Offset bytes, const ConstMemory& memory);
  /// Several accesses, all reads or all writes.
  Status run(std::span<const ViewAccess> accesses);
  std::shared_ptr<Operation> start(const ViewAccess& access);
  std::shared_ptr<UnderWay> start_read(Offset from, Offset bytes, const Memory& memory);
  std::shared_ptr<UnderWay> start_write(Offset from, Offset bytes, const ConstMemory& memory);

  // ---- for operations

  /// Starts a part of an access, which is counted as one call elsewhere.
  std::shared_ptr<Operation> start_part(const ViewAccess& access);
  BufferPool::Buffer take_buffer() { return file_->session().buffers().take(BufferPool::kBytes); }
  /// Says of which file an error is that is about bytes of a subfile.
  [[nodiscard]] Status about(bool is_write, const Status& status) const;
  /// With another binding, or later.
  Status access_again(const std::shared_ptr<Binding>& stale, const ViewAccess& access);

  Result<bool> goes_by_message(bool is_write, Offset from, Offset bytes) {
    return binding()->goes_by_message({is_write, from, bytes}, counters_);
  }
  Result<AccessShape> shape(Offset from, Offset bytes) { return binding()->shape({from, from + bytes}); }
  [[nodiscard]] AccessReport report() const;
  [[nodiscard]] std::string explain() { return binding()->explain(); }

 private:
  BoundView(std::shared_ptr<OpenFile> file, layout::Element element, const ViewOptions& options);
  std::shared_ptr<Binding> binding();
  Status rebind(const std::shared_ptr<Binding>& stale, Patience& patience);
  /// Runs `work(binding)` with the binding that follows `stale`, again and again until that is not stale too.
  template <typename Work>
  Status until_current(std::shared_ptr<Binding> stale, Offset bytes, Work work);
  [[nodiscard]] Status check(const ViewAccess& access) const;
  /// Memory in pieces is long enough.
  [[nodiscard]] Status check_memory(bool is_write, Offset bytes, const layout::Element& memory) const;
  Status access_in_pieces(ViewAccess access);
  std::shared_ptr<UnderWay> start_in_pieces(ViewAccess access);
  /// Moves memory in pieces to or from mapped memory, if all of it is there.  False: nothing is known to be moved.
  Result<bool> move_in_pieces(const ViewAccess& access);
  /// By way of a buffer.
  Status move_in_windows(const ViewAccess& access);
  Status access(const ViewAccess& access);  // counted as a call
  Status move(const ViewAccess& access);
  Status access_once(const std::shared_ptr<Binding>& binding, const ViewAccess& access);
  Status run_once(const std::shared_ptr<Binding>& binding, std::span<const ViewAccess> accesses);
  /// Does what needs no message, and says how much that was; appends to `rest` the parts that do.  What a stale layout
  /// makes vain is counted.
  Status move_directly(Binding& binding, const ViewAccess& access, std::vector<BoundSubfile*>& rest, Offset& moved);
  transfer::Route route_of(const layout::Element& memory);
  Offset window_bytes();

  std::shared_ptr<OpenFile> file_;
  layout::Element element_;
  ViewOptions options_;
  Counters counters_;
  std::mutex mutex_;
  std::shared_ptr<Binding> binding_;
  // The last layout of memory that was used: programs use the same again and again.
  std::optional<layout::Element> memory_;
  transfer::Route memory_route_;
};

}  // namespace weir::client::internal
