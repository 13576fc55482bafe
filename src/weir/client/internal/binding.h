#pragma once

// A view bound to a file with one layout: what it has in common with each subfile, and both ways for the bytes.

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include <weir/client/internal/open_file.h>
#include <weir/client/internal/piece_list.h>
#include <weir/transfer/range_packing.h>

namespace weir::client::internal {

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
struct Access {
  bool is_write = false;
  Offset from = 0;
  Offset bytes = 0;
  std::byte* data = nullptr;
  Offset ahead = 0;  ///< So many bytes more of the view follow at once, by other accesses.
  /// Memory in pieces: byte `from + k` of the view is at data + pieces->unmap(k).  Null: one after the other.
  const layout::Element* pieces = nullptr;

  [[nodiscard]] Range range() const { return {from, from + bytes}; }
};

/// The way between memory in pieces and a subfile, without a buffer in between.  Kept, since programs use the same
/// memory again and again.
class Composition {
 public:
  /// The plan for the access, and by how much its offsets in the subfile have to be raised; nothing if there is none,
  /// or it is not worth making yet.
  struct Route {
    transfer::Plan plan;  ///< Key: its source, memory for a write and the subfile for a read.
    Offset shift = 0;
  };
  std::optional<Route> route(const layout::Element& view, const layout::Element& sequence, const Access& access);

 private:
  /// All that a plan depends on.
  struct Key {
    Offset disp = 0;   // of the view, with the whole periods before the access, less whole periods of the subfile
    Offset first = 0;  // byte of the view's period
    Offset bytes = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Entry {
    Key key;
    std::optional<layout::Element> memory;
    std::optional<transfer::Plan> plan;
    int uses = 0;
  };
  static Result<transfer::Plan> compose(const layout::Element& view, const layout::Element& sequence, const Key& key,
                                        const Access& access);

  std::mutex mutex_;
  Entry write_;
  Entry read_;
};

/// What a view has in common with one subfile.
struct Part {
  std::uint32_t element = 0;
  std::uint32_t server = 0;
  std::uint64_t store = 0;  ///< That has it; 0: not known.
  storage::SubfileId subfile;
  layout::Element sequence;                       ///< The subfile's own.
  std::optional<transfer::RangePacking> packing;  ///< Nothing: too complex, worked on piece by piece.
  PieceLists lists;                               ///< Of those.
  SubfileSlot* slot = nullptr;

  /// A range of the view is just a range of the subfile: no byte of that belongs to another range of the view.
  bool is_exact = false;
  std::once_flag write_once;
  std::once_flag read_once;
  std::optional<transfer::Plan> write_plan;  ///< Source: view.  Key: view.
  std::optional<transfer::Plan> read_plan;   ///< Source: subfile.  Key: subfile.
  Composition composition;

  std::uint64_t view_id = 0;
  std::atomic<std::uint64_t> registered{0};  ///< The connection that knows the view.
};

/// \threadsafety Safe from any thread.
class Binding {
 public:
  static Result<std::shared_ptr<Binding>> create(std::shared_ptr<Session> session, std::shared_ptr<Incarnation> file,
                                                 const layout::Element& view, const ViewOptions& options);
  ~Binding();

  [[nodiscard]] Session& session() const { return *session_; }
  [[nodiscard]] const std::shared_ptr<Incarnation>& file() const { return file_; }
  [[nodiscard]] const layout::Element& view() const { return view_; }

  /// Calls `visit(part)`, which returns a Status, for all parts that may have bytes in the range.
  template <typename Visit>
  Status for_parts(Range range, Visit visit) {
    if (is_lazy_) {
      WEIR_TRY(const std::vector<Part*> parts, parts_of(range));
      for (Part* part : parts) WEIR_RETURN_IF_ERROR(visit(*part));
      return Status::ok();
    }
    if (Part* part = only_part(range)) return visit(*part);
    for (const auto& part : parts_) WEIR_RETURN_IF_ERROR(visit(*part));
    return Status::ok();
  }

  /// For the first access that is worth it: asks for the memory of all subfiles that it needs at once, not one by one.
  Status fetch_memory(const Access& access, Counters& counters);

  /// Moves the bytes of the access that the part has, if its memory is here.  \returns how many; nothing if they must
  /// go by message
  /// \error kStale, kNoSpace
  Result<std::optional<Offset>> move_directly(Part& part, const Access& access, Offset file_end, Counters& counters);

  /// Tells the targets of the parts, as far as they do not know yet, and awaits no answer: accesses may follow at once.
  /// One whose target has refused the view fails with kNotFound; make_known() then says why.
  Status announce(std::span<Part* const> parts, Counters& counters);
  /// As announce(), but awaits the answers.
  Status make_known(std::span<Part* const> parts, Counters& counters);

  /// False if the access would be copied straight to or from mapped memory, as far as that can be told from its first
  /// part.  If nothing is known yet, memory is asked for as the access would do it.
  Result<bool> goes_by_message(const Access& access, Counters& counters);
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
  Result<std::unique_ptr<Part>> bind(std::uint32_t element) const;  // null: nothing in common
  Result<Part*> part_of(std::uint32_t element);                     // lazy
  Result<std::vector<Part*>> parts_of(Range range);                 // lazy
  Part* only_part(Range range) const;
  [[nodiscard]] SubfileSlot::Wanted wanted_of(const Part& part, Range hull, Offset bytes, const Access& access) const;
  std::shared_ptr<MappedSubfile> memory_of(Part& part, Range hull, Offset bytes, const Access& access,
                                           Counters& counters);
  /// What moves the bytes of an access between program memory and mapped memory; neither: the part's own plan.
  struct Means {
    const PieceList* list = nullptr;               ///< Covers just this access.
    const Composition::Route* composed = nullptr;  ///< For memory in pieces.
  };
  // As move_directly(), of an access of which the part has `bytes`, at least one.
  Result<std::optional<Offset>> move_mapped(Part& part, Means means, Offset bytes, const Access& access,
                                            Offset file_end, Counters& counters);
  // These return false if they cannot.
  bool write_mapped(Part& part, const PieceList* list, MappedSubfile& memory, Range hull, const Access& access);
  static bool write_in_one_piece(Part& part, MappedSubfile& memory, Offset shift, Range hull, const Access& access);
  bool read_mapped(Part& part, const PieceList* list, MappedSubfile& memory, Range hull, const Access& access,
                   Counters& counters);
  static bool move_in_pieces(const Part& part, const Composition::Route& route, MappedSubfile& memory, Range hull,
                             const Access& access);
  Status reserve(Part& part, Range hull, Counters& counters);

  std::shared_ptr<Session> session_;
  std::shared_ptr<Incarnation> file_;
  layout::Element view_;
  const ViewOptions options_;
  std::atomic<bool> has_fetched_{false};
  bool is_lazy_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<Part*> by_element_;  // null: nothing in common
  std::mutex mutex_;               // of the lazy ones
  std::unordered_map<std::uint32_t, std::unique_ptr<Part>> lazy_parts_;
};

}  // namespace weir::client::internal
