#pragma once

// A view bound to a file with one layout: what it has in common with each subfile, and both ways for the bytes.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include <weir/client/internal/open_file.h>
#include <weir/transfer/route.h>

namespace weir::client::internal {

using layout::Range;

/// AccessReport, counted by several threads.
struct Counters {
  std::atomic<std::int64_t> calls{0};
  std::atomic<std::int64_t> messages{0};
  std::atomic<std::int64_t> index_bytes{0};
  std::atomic<std::int64_t> moved_bytes{0};
  std::atomic<std::int64_t> extra_bytes{0};
  std::atomic<std::int64_t> direct_bytes{0};
  std::atomic<std::int64_t> gathered_bytes{0};

  static void add(std::atomic<std::int64_t>& counter, std::int64_t value) {
    counter.fetch_add(value, std::memory_order_relaxed);
  }
};

/// Bytes [from, from + bytes) of a view, at `data` in memory; memory is read by writes and written by reads.
struct ViewAccess {
  bool is_write = false;
  Offset from = 0;
  Offset bytes = 0;
  std::byte* data = nullptr;
  Offset ahead = 0;  ///< So many bytes more of the view follow at once, by other accesses.
  /// Memory in pieces: byte `from + k` of the view is at data + pieces->unmap(k).  Null: one after the other.
  const layout::Element* pieces = nullptr;

  [[nodiscard]] Range range() const { return {from, from + bytes}; }
};

/// What a view has in common with one subfile.
struct BoundSubfile {
  std::uint32_t element = 0;
  std::uint32_t server = 0;
  std::uint64_t store = 0;  ///< That has it; 0: not known.
  storage::SubfileId subfile;
  layout::Element sequence;  ///< The subfile's own.
  transfer::Route route;     ///< a: the view, b: the subfile.
  SubfileSlot* slot = nullptr;

  std::uint64_t view_id = 0;
  std::atomic<std::uint64_t> known{0};  ///< The connection that the view was registered on.
  /// How the server answered that; changed with the session locked.
  std::shared_ptr<Status> registration = std::make_shared<Status>();
};

/// \threadsafety Safe from any thread.
class Binding {
 public:
  static Result<std::shared_ptr<Binding>> create(std::shared_ptr<Session> session, std::shared_ptr<Incarnation> file,
                                                 const layout::Element& view, const ViewOptions& options);
  ~Binding();

  [[nodiscard]] Session& session() const { return *session_; }
  [[nodiscard]] const std::shared_ptr<Incarnation>& file() const { return file_; }

  /// Calls `visit(part)`, which returns a Status, for all parts that may have bytes in the range.
  template <typename Visit>
  Status for_parts(Range range, Visit visit) {
    if (is_lazy_) {
      WEIR_TRY(const std::vector<BoundSubfile*> parts, parts_of(range));
      for (BoundSubfile* part : parts) WEIR_RETURN_IF_ERROR(visit(*part));
      return Status::ok();
    }
    if (BoundSubfile* part = only_part(range)) return visit(*part);
    for (const auto& part : parts_) WEIR_RETURN_IF_ERROR(visit(*part));
    return Status::ok();
  }

  /// For the first access that is worth it: asks for the memory of all subfiles that it needs at once, not one by one.
  Status fetch_memory(const ViewAccess& access, Counters& counters);

  /// Moves the bytes of the access that the part has, if its memory is here.  \returns how many; nothing if they must
  /// go by message
  /// \error kStale, kNoSpace
  Result<std::optional<Offset>> move_directly(BoundSubfile& part, const ViewAccess& access, Offset file_end,
                                              Counters& counters);

  /// Registers the view of a part before a call that uses it, where the target does not know it.  Nobody waits for the
  /// answer: if the target refuses the view, the call that follows fails with kNotFound.
  [[nodiscard]] std::function<std::optional<net::Call>(std::uint64_t generation)> announcement(BoundSubfile& part,
                                                                                               Counters& counters);
  /// Why the target does not know the view; `unknown` if it did not say.
  [[nodiscard]] Status refusal(const BoundSubfile& part, const Status& unknown) const;

  /// False if the access would be copied straight to or from mapped memory, as far as that can be told from its first
  /// part.  If nothing is known yet, memory is asked for as the access would do it.
  Result<bool> goes_by_message(const ViewAccess& access, Counters& counters);
  /// What servers would have to do if it went by message.
  Result<AccessShape> shape(Range range);

  /// One past the highest byte of the file in a range of the view.
  [[nodiscard]] Offset file_end(Range range) const;

  /// Views may hold bytes before the first of the layout: zero, for ever.  \returns true if the range has some
  [[nodiscard]] bool reaches_before_layout(Range range);

  /// True if all that it has in common with subfiles is in mapped memory, as far as is known.
  [[nodiscard]] bool is_mapped();

  [[nodiscard]] std::string explain();

 private:
  Binding(std::shared_ptr<Session> session, std::shared_ptr<Incarnation> file, layout::Element view,
          const ViewOptions& options);
  [[nodiscard]] const model::Io& costs() const { return session_->costs(); }
  Result<std::unique_ptr<BoundSubfile>> bind(std::uint32_t element) const;  // null: nothing in common
  Result<BoundSubfile*> part_of(std::uint32_t element);                     // lazy
  Result<std::vector<BoundSubfile*>> parts_of(Range range);                 // lazy
  BoundSubfile* only_part(Range range) const;
  [[nodiscard]] SubfileSlot::Wanted wanted_of(const BoundSubfile& part, Range hull, Offset bytes,
                                              const ViewAccess& access) const;
  std::shared_ptr<MappedSubfile> memory_of(BoundSubfile& part, Range hull, Offset bytes, const ViewAccess& access,
                                           Counters& counters);
  // As move_directly(), of a step that has at least one byte.
  Result<std::optional<Offset>> move_mapped(BoundSubfile& part, const transfer::Route::Step& step,
                                            const ViewAccess& access, Offset file_end, Counters& counters);
  // These return false if they cannot.
  bool enter_pages(MappedSubfile& memory, Range range) const;
  bool prepare_to_write(MappedSubfile& memory, Range range) const;
  bool write_mapped(BoundSubfile& part, const transfer::Route::Step& step, MappedSubfile& memory,
                    const ViewAccess& access);
  bool write_in_one_piece(BoundSubfile& part, MappedSubfile& memory, Offset shift, Range hull,
                          const ViewAccess& access);
  bool read_mapped(BoundSubfile& part, const transfer::Route::Step& step, MappedSubfile& memory,
                   const ViewAccess& access);
  static share::BlockSet blocks_of(const BoundSubfile& part, const transfer::Route::Step& step);
  Status reserve(BoundSubfile& part, Range hull, Counters& counters);

  std::shared_ptr<Session> session_;
  std::shared_ptr<Incarnation> file_;
  layout::Element view_;
  const ViewOptions options_;
  std::atomic<bool> has_fetched_{false};
  bool is_lazy_;
  std::vector<std::unique_ptr<BoundSubfile>> parts_;
  std::vector<BoundSubfile*> by_element_;  // null: nothing in common
  std::mutex mutex_;                       // of the lazy ones
  std::unordered_map<std::uint32_t, std::unique_ptr<BoundSubfile>> lazy_parts_;
};

}  // namespace weir::client::internal
