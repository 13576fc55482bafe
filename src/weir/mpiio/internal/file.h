#pragma once

// What stands behind an MPI_File of ours: a pario::File, and what only MPI knows of it.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <weir/mpi/communicator.h>
#include <weir/mpiio/internal/trace.h>
#include <weir/mpiio/internal/view.h>
#include <weir/pario/file.h>

namespace weir::mpiio::internal {

using pario::AccessRequest;
using pario::Pointer;

class ProgramAccess;

/// \threadsafety As MPI demands: independent calls from any thread, collective ones by one at a time.
class File : public std::enable_shared_from_this<File> {
 public:
  /// Collective over `comm`.
  static Status open(MPI_Comm comm, const std::string& path, int amode, MPI_Info info, std::shared_ptr<File>& file);
  static Status remove(const std::string& path);
  Status close();
  ~File();

  [[nodiscard]] MPI_File handle() { return reinterpret_cast<MPI_File>(this); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int amode() const { return amode_; }
  [[nodiscard]] MPI_Errhandler error_handler() const { return error_handler_; }
  void set_error_handler(MPI_Errhandler handler);

  Status get_group(MPI_Group* group) const;
  Status get_info(MPI_Info* info) const;
  Status set_info(MPI_Info info);
  Status get_size(Offset& size);
  Status set_size(Offset size);
  Status preallocate(Offset size);
  Status sync();
  Status set_atomicity(bool is_atomic);
  [[nodiscard]] bool is_atomic() const { return data_->is_atomic(); }

  Status set_view(const ViewArguments& arguments, MPI_Info info);
  [[nodiscard]] std::shared_ptr<const ViewTypes> types() const;
  Status get_type_extent(MPI_Datatype type, Offset& extent) const;
  Status get_byte_offset(Offset offset, Offset& byte) const;

  Status seek(Offset offset, int whence);
  Status seek_shared(Offset offset, int whence);
  Status get_position(Offset& position) const;
  Status get_position_shared(Offset& position);

  Status access(const AccessRequest& access, const Buffer& buffer, MPI_Status* status);
  Status start(const AccessRequest& access, const Buffer& buffer, MPI_Request* request);
  Status begin(const AccessRequest& access, const Buffer& buffer);
  Status end(const AccessRequest& access, const void* data, MPI_Status* status);

  [[nodiscard]] trace::Counts& counts() { return *counts_; }

 private:
  File(const std::string& path, int amode);
  Status check_running(const char* call) const;
  Status check_not_sequential(const char* call) const;
  Status change_size(const char* call, Offset size, Status (pario::File::*change)(Offset, const Status&));
  Status resolve_displacement(ViewArguments& arguments);
  std::shared_ptr<const ViewTypes> hold_types(const ViewArguments& arguments, const ViewDescription& description);
  Status prepare(const AccessRequest& access, const Buffer& buffer, ProgramAccess& program) const;

  const std::string path_;
  const int amode_;
  const std::shared_ptr<trace::Counts> counts_ = std::make_shared<trace::Counts>();
  mpi::Communicator* group_ = nullptr;  // owned by data_
  std::shared_ptr<pario::File> data_;
  MPI_Errhandler error_handler_ = MPI_ERRORS_RETURN;
  std::vector<std::shared_ptr<const ViewTypes>> recent_types_;  // the last one first; only collective calls use them
  struct Split;
  std::unique_ptr<Split> split_;  // a collective access that has begun and not ended

  mutable std::mutex mutex_;  // for what follows
  std::shared_ptr<const ViewTypes> types_;
};

}  // namespace weir::mpiio::internal
