#pragma once

// A parallel file: ranks of a group open it together, each sees its own part of it, and they read and write it alone or
// together.
//
//   auto file = File::open(std::move(group), file_system, "/out", {.is_created = true});
//   (*file)->set_view({.element = mine, .etype_bytes = 8});
//   (*file)->access({.is_write = true, .pointer = Pointer::kIndividual, .is_collective = true}, {data}, bytes, result);
//   (*file)->close();
//
// Collective functions are made by all ranks in the same order; if they are not, the next one in which ranks meet fails
// and names the ranks that differ (meeting.h).  An error of one rank is an error of all where the ranks could not go on
// otherwise.  Each takes an error that the caller has found before (`mine`), so that no rank is left waiting.
//
//   internal/file_open.cpp      open, close, size, sync, hints      internal/file_view.cpp     views
//   internal/file_pointers.cpp  individual and shared pointers      internal/file_access.cpp   reading and writing
//   internal/file_layout.cpp    a layout made of ranks' views       internal/file_together.cpp accesses by all together

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include <weir/client/file_system.h>
#include <weir/pario/access.h>
#include <weir/pario/collective.h>
#include <weir/pario/hints.h>
#include <weir/pario/meeting.h>
#include <weir/pario/view.h>

namespace weir::pario {

namespace internal {
class Transfer;
struct CollectiveState;
}  // namespace internal

class Pending;

/// Is told what a file does by itself, for traces.  With an observer, accesses are timed.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Accesses go through this view from now on.  Not told of the first one, which shows the whole file.
  virtual void viewed(const View& view, const layout::Partition& layout) = 0;
  /// The layout was changed, or could not be; only on one rank.
  virtual void stored(const std::string& layout, const std::string& why) = 0;
  /// What else was chosen, for which reason: "collective writes", "two-phase", ...; only on one rank.
  virtual void chosen(const std::string& what, const std::string& choice, const std::string& why) = 0;
};

struct OpenOptions {
  bool can_read = true;
  bool can_write = true;
  bool is_created = false;           ///< If it is not there.
  bool is_exclusive = false;         ///< kExists if it is there.
  bool is_appended_to = false;       ///< Pointers start at the end.
  bool is_removed_on_close = false;  ///< By close().
  Hints hints{};
  std::vector<group::Term> terms{};    ///< Further arguments of the caller that all ranks must pass alike.
  const CallNames& names = kOwnNames;  ///< For messages.  Must stay.
  std::unique_ptr<Observer> observer{};
  runtime::Runtime runtime = runtime::system_runtime();
};

enum class SeekFrom : std::uint8_t { kStart, kCurrent, kEnd };

/// \threadsafety Independent calls from any thread, collective ones by one at a time.
class File : public std::enable_shared_from_this<File> {
 public:
  /// Collective over `group`, which must be the file's own.  `fs`: of this rank, or why it has none: all ranks get the
  /// error.  One rank asks the servers for the file, and tells the others.
  static Result<std::shared_ptr<File>> open(std::unique_ptr<group::Group> group, const Result<client::FileSystem>& fs,
                                            const std::string& path, OpenOptions options, const Status& mine = {});
  /// Collective: one rank removes the file, all get its answer.
  static Status remove(group::Group& group, const Result<client::FileSystem>& fs, const std::string& path,
                       const CallNames& names = kOwnNames);
  /// Collective.  When it returns without error, what this rank has written is safe from crashes, as far as the stores
  /// can promise that.  \pre All accesses that were started are done
  Status close(const Status& mine = {});
  ~File();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int rank() const { return meeting_.rank(); }
  [[nodiscard]] int ranks() const { return meeting_.size(); }
  [[nodiscard]] layout::Partition layout() const { return data_->layout(); }
  /// Why it has this layout, as of opening; only the first rank knows.
  [[nodiscard]] const std::string& layout_reason() const { return layout_reason_; }

  /// In effect, the layout and the collective method included.
  [[nodiscard]] Hints hints() const;
  /// Collective.  The layout of an existing file stays, and hints that are not given keep their values.
  Status set_hints(const Hints& given);
  Result<Offset> size();
  /// Collective.
  Status set_size(Offset size, const Status& mine = {});
  Status preallocate(Offset size, const Status& mine = {});
  Status sync();
  /// In atomic mode accesses of ranks that overlap come one after the other.
  Status set_atomicity(bool is_atomic);
  [[nodiscard]] bool is_atomic() const { return is_atomic_; }

  /// Collective.  Pointers go to the start of the view.  `terms`: further arguments that all ranks must pass alike.
  Status set_view(const ViewDescription& description, const std::optional<Hints>& given = {},
                  std::vector<group::Term> terms = {}, const Status& mine = {});
  [[nodiscard]] std::shared_ptr<const View> view() const;
  /// The byte of the file where etype `offset` of the view starts.
  [[nodiscard]] Result<Offset> byte_offset(Offset offset) const;

  /// In etypes of the view.
  Status seek(Offset offset, SeekFrom from);
  [[nodiscard]] Offset position() const;
  /// Collective.
  Status seek_shared(Offset offset, SeekFrom from, const Status& mine = {});
  Result<Offset> shared_position();

  /// `bytes`: of the memory.  `result` is only filled if the access was made.  Collective if the access is.
  Status access(const AccessRequest& access, const Memory& memory, Offset bytes, AccessResult& result,
                const Status& mine = {});
  /// The access goes on while the program does something else; memory must stay.
  Result<Pending> start(const AccessRequest& access, const Memory& memory, Offset bytes, const Status& mine = {});
  /// A collective access in two calls; no other collective access may come between them.  end() gets the same memory.
  Status begin(const AccessRequest& access, const Memory& memory, Offset bytes, const Status& mine = {});
  Status end(const AccessRequest& access, const std::byte* data, AccessResult& result);

  // ---- for transfers

  /// Of the file: at least so long it is.  Asks the servers only if that is not known to be `wanted` or more.
  Result<Offset> size_at_least(Offset wanted);
  /// Somebody of this process has written up to there.
  void grown_to(Offset end);
  [[nodiscard]] const client::File& data() const { return *data_; }
  [[nodiscard]] bool is_observed() const { return options_.observer != nullptr; }
  [[nodiscard]] const runtime::Clock& clock() const { return *options_.runtime.clock; }
  /// Times accesses; null: they are not observed.
  [[nodiscard]] const runtime::Clock* stopwatch_clock() const { return is_observed() ? &clock() : nullptr; }

 private:
  File(std::unique_ptr<group::Group> group, const std::string& path, OpenOptions options);
  [[nodiscard]] std::string call_text(Operation operation) const;
  Status meet(Operation operation, const std::vector<group::Term>& terms, const Status& mine, Together together,
              bool* flag = nullptr);
  Status meet(Operation operation, const std::string& call, const std::vector<group::Term>& terms, const Status& mine,
              Together together, bool* flag = nullptr);
  Status open_together(const Result<client::FileSystem>& fs, const Status& mine);
  Status open_on_first();
  Status open_as_on_first();
  Status refresh_as_on_first(const std::string& call);
  Status bind_whole();
  Status keep_written();
  Status change_size(Operation operation, Offset size, const Status& mine,
                     Status (client::File::*change)(Offset) const);
  Status check(const AccessRequest& access, Offset bytes, const View& view) const;
  Status check_nothing_begun(std::string_view call) const;
  Status meet_for(const AccessRequest& access, Mode mode, const Status& mine, const internal::Transfer& transfer,
                  bool& is_alone);
  [[nodiscard]] bool may_exchange() const;
  [[nodiscard]] bool may_go_together(const AccessRequest& access, const internal::Transfer& transfer) const;
  Status access_together(const AccessRequest& access, Mode mode, internal::Transfer& transfer, const Status& located,
                         Offset from);
  [[nodiscard]] std::vector<Offset> describe_share(bool is_write, const internal::Transfer& transfer,
                                                   bool is_ready) const;
  Result<Offset> locate(const AccessRequest& access, const View& view, Offset bytes);
  Result<Offset> target_of_seek(Operation operation, Offset offset, SeekFrom from, Offset current);
  Status store_as_viewed(Operation operation, const std::string& call, const layout::Element& element, bool is_write);
  Status store_before_writing(const AccessRequest& access, Mode mode);
  Status reset_shared(Operation operation, bool is_used, Offset value);
  Result<client::Counter> shared();
  void use(std::shared_ptr<const View> fresh);

  std::string path_;
  OpenOptions options_;
  Meeting meeting_;
  std::optional<client::FileSystem> fs_;
  std::optional<client::File> data_;
  std::atomic<bool> is_atomic_{false};
  std::string layout_reason_;
  bool is_as_viewed_ = false;   // its layout is to be that of views, and is not yet
  int view_attempts_ = 16;      // how often that may be tried
  bool is_view_fresh_ = false;  // no collective write since it was set
  std::atomic<Offset> known_size_{0};
  std::unique_ptr<internal::CollectiveState> collective_state_;  // null: no collective access by message since the view
                                                                 // was set
  // What only collective calls use:
  std::optional<model::Io> costs_;  // of rank 0, known to all since the first collective access by message
  model::Corrections corrections_;  // on rank 0: how long such accesses took
  ViewBinder binder_;
  bool is_in_memory_here_ = false;  // no access needs a message for long
  // As of the last meeting: no rank exchanges bytes with others in collective accesses.
  bool is_everybody_alone_ = false;
  std::chrono::nanoseconds met_{0};  // spent on meeting other ranks, for the current access

  mutable std::mutex mutex_;  // for what follows
  Hints hints_;
  Method wanted_ = Method::kAuto;  // by the hints, for collective accesses; only collective calls change it
  std::shared_ptr<const View> view_;
  Offset position_ = 0;
  std::uint64_t shared_id_ = 0;
  std::optional<client::Counter> shared_;
  bool is_shared_used_ = false;
  struct Split {
    AccessRequest access;
    const std::byte* data = nullptr;
    std::unique_ptr<internal::Transfer> transfer;
  };
  std::unique_ptr<Split> split_;  // a collective access that has begun and not ended
};

/// An access under way.  \threadsafety One thread at a time.
class Pending {
 public:
  Pending(std::shared_ptr<File> file, std::unique_ptr<internal::Transfer> transfer);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  /// Waits.
  ~Pending();

  /// Does what can be done now.  \returns true when it is done; wait() tells how it went.
  bool test();
  Status wait();
  /// \pre it is done
  [[nodiscard]] AccessResult& result();

 private:
  std::shared_ptr<File> file_;
  std::unique_ptr<internal::Transfer> transfer_;
};

}  // namespace weir::pario
