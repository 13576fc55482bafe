#pragma once

// What stands behind an MPI_File of ours.
//
//   open.cpp      open, close, size, sync, information      file_view.cpp   views
//   pointers.cpp  individual and shared pointers            access.cpp      reading and writing
//                                                           together.cpp    the same by all ranks together

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include <weir/client/file_system.h>
#include <weir/mpiio/internal/collective.h>
#include <weir/mpiio/internal/hints.h>
#include <weir/mpiio/internal/meeting.h>
#include <weir/mpiio/internal/representation.h>
#include <weir/mpiio/internal/trace.h>
#include <weir/mpiio/internal/view.h>

namespace weir::mpiio::internal {

inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Transfer;
struct CollectiveState;

/// Where an access starts.
enum class Pointer { kExplicit, kIndividual, kShared, kOrdered };

/// One of the many functions that read or write.
struct Access {
  const char* call = "";  ///< As the program knows it, for messages.
  bool is_write = false;
  Pointer pointer = Pointer::kExplicit;
  bool is_collective = false;
  Offset offset = 0;  ///< In etypes, if the pointer is explicit.
};

/// \threadsafety As MPI demands: independent calls from any thread, collective ones by one at a time.
class File : public std::enable_shared_from_this<File> {
 public:
  /// Collective over `comm`.
  static Outcome open(MPI_Comm comm, const std::string& path, int amode, MPI_Info info, std::shared_ptr<File>& file);
  static Outcome remove(const std::string& path);
  Outcome close();
  ~File();

  [[nodiscard]] MPI_File handle() { return reinterpret_cast<MPI_File>(this); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int amode() const { return amode_; }
  [[nodiscard]] MPI_Errhandler error_handler() const { return error_handler_; }
  void set_error_handler(MPI_Errhandler handler);

  Outcome get_group(MPI_Group* group) const;
  Outcome get_info(MPI_Info* info) const;
  Outcome set_info(MPI_Info info);
  Outcome get_size(Offset& size);
  Outcome set_size(Offset size);
  Outcome preallocate(Offset size);
  Outcome sync();
  Outcome set_atomicity(bool is_atomic);
  [[nodiscard]] bool is_atomic() const { return is_atomic_; }

  Outcome set_view(const ViewArguments& arguments, MPI_Info info);
  [[nodiscard]] std::shared_ptr<const FileView> view() const;
  Outcome get_type_extent(MPI_Datatype type, Offset& extent) const;
  Outcome get_byte_offset(Offset offset, Offset& byte) const;

  Outcome seek(Offset offset, int whence);
  Outcome seek_shared(Offset offset, int whence);
  Outcome get_position(Offset& position) const;
  Outcome get_position_shared(Offset& position);

  Outcome access(const Access& access, const Buffer& buffer, MPI_Status* status);
  Outcome start(const Access& access, const Buffer& buffer, MPI_Request* request);
  Outcome begin(const Access& access, const Buffer& buffer);
  Outcome end(const Access& access, const void* data, MPI_Status* status);

  // ---- for transfers

  /// Of the file: at least so long it is.  Asks the servers only if that is not known to be `wanted` or more.
  Result<Offset> size_at_least(Offset wanted);
  /// Somebody of this process has written up to there.
  void grown_to(Offset end);
  [[nodiscard]] const client::File& data() const { return *data_; }
  [[nodiscard]] trace::Counts& counts() { return *counts_; }

 private:
  File() = default;
  Outcome open_together(const Hints& given);
  Outcome open_on_first(const Hints& given);
  Outcome open_as_on_first();
  Outcome refresh_as_on_first(const std::string& call);
  Outcome connect();
  Outcome bind_whole();
  Outcome keep_written();
  void trace_opening(const Hints& given, std::int64_t start) const;
  Outcome meet(const char* call, const std::vector<Term>& terms, const Outcome& mine, Together together,
               bool* flag = nullptr);
  Outcome change_size(const char* call, Offset size, Status (client::File::*change)(Offset) const);
  Outcome check(const Access& access, const Buffer& buffer, const FileView& view, Offset& bytes) const;
  Outcome check_not_sequential(const char* call) const;
  Outcome check_nothing_begun(const char* call, int error_class) const;
  Outcome prepare(const Access& access, const Buffer& buffer, std::unique_ptr<Transfer>& transfer);
  Outcome meet_for(const Access& access, const Outcome& mine, const Transfer* transfer, bool& is_alone);
  [[nodiscard]] bool may_exchange() const;
  void look_where_it_is();
  [[nodiscard]] bool may_go_together(const Access& access, const Transfer& transfer) const;
  Outcome access_together(const Access& access, Transfer& transfer, const Outcome& located, Offset from);
  [[nodiscard]] std::vector<Offset> describe_share(const Transfer& transfer, bool is_ready) const;
  Outcome locate(const Access& access, const FileView& view, Offset bytes, Offset& from);
  Outcome target_of_seek(const char* call, Offset offset, int whence, Offset current, Offset& position);
  Outcome resolve_displacement(ViewArguments& arguments);
  Outcome byte_at(Offset offset, Offset& byte) const;
  Outcome store_as_viewed(const char* call, const layout::Element& element, bool is_write);
  Outcome store_before_writing(const Access& access);
  Outcome reset_shared(const char* call, bool is_used, Offset value);
  Result<client::Counter> shared();

  std::string path_;
  const std::shared_ptr<trace::Counts> counts_ = std::make_shared<trace::Counts>();
  int amode_ = 0;
  std::unique_ptr<Meeting> meeting_;
  std::optional<client::FileSystem> fs_;
  std::optional<client::File> data_;
  MPI_Errhandler error_handler_ = MPI_ERRORS_RETURN;
  std::atomic<bool> is_atomic_{false};
  std::string layout_reason_;   // only the first rank knows
  bool is_as_viewed_ = false;   // its layout is to be that of views, and is not yet
  int view_attempts_ = 16;      // how often that may be tried
  bool is_view_fresh_ = false;  // no collective write since it was set
  std::atomic<Offset> known_size_{0};
  std::unique_ptr<CollectiveState> collective_state_;  // null: no collective access by message since the view was set
  // What only collective calls use:
  ViewBinder binder_;
  bool is_in_memory_here_ = false;  // no access needs a message for long
  // As of the last meeting: no rank exchanges bytes with others in collective accesses.
  bool is_everybody_alone_ = false;

  mutable std::mutex mutex_;  // for what follows
  Hints hints_;
  Method wanted_ = Method::kAuto;  // by the hints, for collective accesses; only collective calls change it
  std::shared_ptr<const FileView> view_;
  Offset position_ = 0;
  std::uint64_t shared_id_ = 0;
  std::optional<client::Counter> shared_;
  bool is_shared_used_ = false;
  struct Split {
    Access access;
    const void* data = nullptr;
    std::unique_ptr<Transfer> transfer;
  };
  std::unique_ptr<Split> split_;  // a collective access that has begun and not ended
};

}  // namespace weir::mpiio::internal
