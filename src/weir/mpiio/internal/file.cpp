#include <weir/mpiio/internal/file.h>

#include <algorithm>
#include <bit>

#include <weir/layout/language.h>
#include <weir/mpiio/internal/connection.h>
#include <weir/mpiio/internal/ending.h>
#include <weir/mpiio/internal/errors.h>
#include <weir/mpiio/internal/handlers.h>
#include <weir/mpiio/internal/info.h>
#include <weir/mpiio/internal/program_access.h>
#include <weir/mpiio/internal/real.h>
#include <weir/mpiio/internal/requests.h>
#include <weir/mpiio/internal/running.h>
#include <weir/pario/errors.h>

namespace weir::mpiio::internal {

namespace {

constexpr int kAccessModes = MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR;
constexpr int kAllModes = kAccessModes | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE |
                          MPI_MODE_UNIQUE_OPEN | MPI_MODE_SEQUENTIAL | MPI_MODE_APPEND;

// By pario::Operation.
constexpr pario::CallNames kFunctions{
    "MPI_File_open",
    "MPI_File_close",
    "MPI_File_delete",
    "MPI_File_get_size",
    "MPI_File_set_size",
    "MPI_File_preallocate",
    "MPI_File_set_info",
    "MPI_File_set_view",
    "MPI_File_set_atomicity",
    "MPI_File_sync",
    "MPI_File_seek",
    "MPI_File_seek_shared",
    "MPI_File_get_position",
    "MPI_File_get_position_shared",
    "MPI_File_get_byte_offset",
    "MPI_File_read_all",
    "MPI_File_write_all",
    "MPI_File_read_at_all",
    "MPI_File_write_at_all",
    "MPI_File_read_ordered",
    "MPI_File_write_ordered",
    "MPI_File_iread_all",
    "MPI_File_iwrite_all",
    "MPI_File_iread_at_all",
    "MPI_File_iwrite_at_all",
    "MPI_File_iread_ordered",
    "MPI_File_iwrite_ordered",
    "MPI_File_read_all_begin",
    "MPI_File_write_all_begin",
    "MPI_File_read_at_all_begin",
    "MPI_File_write_at_all_begin",
    "MPI_File_read_ordered_begin",
    "MPI_File_write_ordered_begin",
};

Status check_amode(const std::string& path, int amode) {
  const auto wrong = [&](std::string_view why) { return fail(MPI_ERR_AMODE, "MPI_File_open ", path, ": ", why); };
  if ((amode & ~kAllModes) != 0) return wrong(concat("access mode ", amode, " has bits that are no mode"));
  if (std::popcount(static_cast<unsigned>(amode & kAccessModes)) != 1) {
    return wrong("just one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR is needed");
  }
  if ((amode & MPI_MODE_RDONLY) != 0 && (amode & (MPI_MODE_CREATE | MPI_MODE_EXCL)) != 0) {
    return wrong("MPI_MODE_CREATE and MPI_MODE_EXCL do not go with MPI_MODE_RDONLY");
  }
  if ((amode & MPI_MODE_RDWR) != 0 && (amode & MPI_MODE_SEQUENTIAL) != 0) {
    return wrong("MPI_MODE_SEQUENTIAL does not go with MPI_MODE_RDWR");
  }
  return Status::ok();
}

pario::OpenOptions open_options(int amode, MPI_Info info) {
  return {.can_read = (amode & MPI_MODE_WRONLY) == 0,
          .can_write = (amode & MPI_MODE_RDONLY) == 0,
          .is_created = (amode & MPI_MODE_CREATE) != 0,
          .is_exclusive = (amode & MPI_MODE_EXCL) != 0,
          .is_appended_to = (amode & MPI_MODE_APPEND) != 0,
          .is_removed_on_close = (amode & MPI_MODE_DELETE_ON_CLOSE) != 0,
          .hints = read_info(info),
          .terms = {{"access mode", concat(amode)}},
          .names = kFunctions};
}

Result<pario::SeekFrom> seek_from(int whence) {
  switch (whence) {
    case MPI_SEEK_SET: return pario::SeekFrom::kStart;
    case MPI_SEEK_CUR: return pario::SeekFrom::kCurrent;
    case MPI_SEEK_END: return pario::SeekFrom::kEnd;
    default: break;
  }
  return fail(MPI_ERR_ARG, "whence ", whence, " is none of MPI_SEEK_SET, MPI_SEEK_CUR, MPI_SEEK_END");
}

}  // namespace

struct File::Split {
  const void* data;  // as the program has passed it
  ProgramAccess program;
};

File::File(const std::string& path, int amode) : path_(path), amode_(amode) {}
File::~File() = default;

Status File::check_running(const char* call) const {
  if (is_mpi_running()) return Status::ok();
  return fail(MPI_ERR_OTHER, call, " ", path_, ": MPI has been finalized");
}

Status File::check_not_sequential(const char* call) const {
  if ((amode_ & MPI_MODE_SEQUENTIAL) == 0) return Status::ok();
  return fail(MPI_ERR_UNSUPPORTED_OPERATION, call, " ", path_,
              ": a file opened with MPI_MODE_SEQUENTIAL has the shared pointer only");
}

// ---------------------------------------------------------------- the file as a whole

Status File::open(MPI_Comm comm, const std::string& path, int amode, MPI_Info info, std::shared_ptr<File>& opened) {
  constexpr const char* kCall = "MPI_File_open";
  int is_inter = 0;
  if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter != 0) {
    return fail(MPI_ERR_COMM, kCall, " ", path, ": a communicator of one group is needed");
  }
  const std::int64_t start = trace::now();
  std::shared_ptr<File> file(new File(path, amode));
  begin_finalize_together(comm);
  WEIR_TRY(mpi::Communicator duplicate, mpi::Communicator::duplicate(comm, concat(kCall, " ", path),
                                                                     {.limit = {longest_wait(), "WEIR_MPIIO_TIMEOUT"},
                                                                      .awake = Backoff::kMessages,
                                                                      .test = WEIR_REAL(MPI_Test)}));
  auto group = std::make_unique<mpi::Communicator>(std::move(duplicate));
  file->group_ = group.get();
  pario::OpenOptions options = open_options(amode, info);
  options.observer = trace::observer_of(file.get());
  const pario::Hints given = options.hints;
  WEIR_TRY(file->data_,
           pario::File::open(std::move(group), file_system(), path, std::move(options), check_amode(path, amode)));
  file->types_ = std::make_shared<const ViewTypes>();
  file->set_error_handler(default_handler());
  if (trace::is_counting) {
    const pario::File& data = *file->data_;
    trace::opened(file.get(), {path, layout::print(data.layout()), data.layout_reason(), given, data.rank(),
                               data.ranks(), (amode & MPI_MODE_RDONLY) == 0, start, file->counts_});
    trace::viewed(file.get(), *data.view(), data.layout());
  }
  opened = std::move(file);
  return Status::ok();
}

Status File::remove(const std::string& path) {
  WEIR_TRY(const client::FileSystem fs, file_system());
  return pario::named("MPI_File_delete", path, fs.remove(path));
}

Status File::close() {
  if (!is_mpi_running()) return Status::ok();
  finish_requests(*this);
  Status status = data_->close();
  split_.reset();
  trace::closed(this);
  // A split access has not been ended.
  return status.detail() == pario::kMisuse ? fail(MPI_ERR_FILE, status.message()) : status;
}

void File::set_error_handler(MPI_Errhandler handler) {
  keep_handler(handler);
  error_handler_ = handler;
}

Status File::get_group(MPI_Group* group) const {
  return from_mpi(PMPI_Comm_group(group_->comm(), group), "MPI_File_get_group");
}

Status File::get_info(MPI_Info* info) const { return write_info(data_->hints(), info); }

Status File::set_info(MPI_Info info) {
  WEIR_RETURN_IF_ERROR(check_running("MPI_File_set_info"));
  return data_->set_hints(read_info(info));
}

Status File::get_size(Offset& size) {
  WEIR_TRY(size, data_->size());
  return Status::ok();
}

Status File::change_size(const char* call, Offset size, Status (pario::File::*change)(Offset, const Status&)) {
  WEIR_RETURN_IF_ERROR(check_running(call));
  finish_requests(*this);
  return ((*data_).*change)(size, check_not_sequential(call));
}

Status File::set_size(Offset size) { return change_size("MPI_File_set_size", size, &pario::File::set_size); }
Status File::preallocate(Offset size) { return change_size("MPI_File_preallocate", size, &pario::File::preallocate); }

Status File::sync() {
  WEIR_RETURN_IF_ERROR(check_running("MPI_File_sync"));
  return data_->sync();
}

Status File::set_atomicity(bool is_atomic) {
  WEIR_RETURN_IF_ERROR(check_running("MPI_File_set_atomicity"));
  finish_requests(*this);
  return data_->set_atomicity(is_atomic);
}

// ---------------------------------------------------------------- views

std::shared_ptr<const ViewTypes> File::types() const {
  const std::lock_guard lock(mutex_);
  return types_;
}

// MPI_DISPLACEMENT_CURRENT: where the shared pointer is; for files without random access, and only for them.
Status File::resolve_displacement(ViewArguments& arguments) {
  constexpr const char* kCall = "MPI_File_set_view";
  const bool is_current = arguments.disp == MPI_DISPLACEMENT_CURRENT;
  const bool is_sequential = (amode_ & MPI_MODE_SEQUENTIAL) != 0;
  if (is_sequential && !is_current) {
    return fail(MPI_ERR_ARG, kCall, " ", path_,
                ": MPI_MODE_SEQUENTIAL needs the displacement MPI_DISPLACEMENT_CURRENT");
  }
  if (!is_current) return Status::ok();
  if (!is_sequential) {
    return fail(MPI_ERR_ARG, kCall, " ", path_, ": MPI_DISPLACEMENT_CURRENT is for MPI_MODE_SEQUENTIAL");
  }
  WEIR_TRY(const Offset position, data_->shared_position());
  WEIR_TRY(arguments.disp, data_->byte_offset(position));
  return Status::ok();
}

// Programs set the same views again and again: those that were described by the same object have the same types.
std::shared_ptr<const ViewTypes> File::hold_types(const ViewArguments& arguments, const ViewDescription& description) {
  constexpr std::size_t kKept = 8;
  const auto is_same = [&](const std::shared_ptr<const ViewTypes>& one) {
    return &one->element.trees() == &description.view.element.trees() && one->disp == arguments.disp &&
           one->representation_name == arguments.representation;
  };
  const auto known = std::find_if(recent_types_.begin(), recent_types_.end(), is_same);
  if (known != recent_types_.end() && is_kept_with_type(arguments)) {
    std::rotate(recent_types_.begin(), known, known + 1);
    return recent_types_.front();
  }
  recent_types_.insert(recent_types_.begin(), std::make_shared<const ViewTypes>(arguments, description));
  if (recent_types_.size() > kKept) recent_types_.pop_back();
  return recent_types_.front();
}

Status File::set_view(const ViewArguments& given, MPI_Info info) {
  constexpr const char* kCall = "MPI_File_set_view";
  WEIR_RETURN_IF_ERROR(check_running(kCall));
  finish_requests(*this);
  ViewArguments arguments = given;
  ViewDescription description;
  Status mine = resolve_displacement(arguments);
  if (mine.is_ok()) {
    mine = pario::named(kCall, path_, describe_view(arguments, (amode_ & MPI_MODE_RDONLY) != 0, description));
  }
  std::optional<pario::Hints> hints;
  if (info != MPI_INFO_NULL) hints = read_info(info);
  WEIR_RETURN_IF_ERROR(
      data_->set_view(description.view, hints, {{"data representation", arguments.representation}}, mine));
  auto fresh = hold_types(arguments, description);
  const std::lock_guard lock(mutex_);
  types_ = std::move(fresh);
  return Status::ok();
}

Status File::get_type_extent(MPI_Datatype type, Offset& extent) const {
  if (type == MPI_DATATYPE_NULL) {
    return fail(MPI_ERR_TYPE, "MPI_File_get_type_extent ", path_, ": the type is MPI_DATATYPE_NULL");
  }
  WEIR_TRY(extent, file_extent(type, types()->representation.get()));
  return Status::ok();
}

Status File::get_byte_offset(Offset offset, Offset& byte) const {
  WEIR_RETURN_IF_ERROR(check_not_sequential("MPI_File_get_byte_offset"));
  WEIR_TRY(byte, data_->byte_offset(offset));
  return Status::ok();
}

// ---------------------------------------------------------------- pointers

Status File::seek(Offset offset, int whence) {
  WEIR_RETURN_IF_ERROR(check_not_sequential("MPI_File_seek"));
  WEIR_TRY(const pario::SeekFrom from, seek_from(whence));
  return data_->seek(offset, from);
}

Status File::seek_shared(Offset offset, int whence) {
  constexpr const char* kCall = "MPI_File_seek_shared";
  WEIR_RETURN_IF_ERROR(check_running(kCall));
  const Result<pario::SeekFrom> from = seek_from(whence);
  Status mine = check_not_sequential(kCall);
  if (mine.is_ok()) mine = pario::named(kCall, path_, from.status());
  return data_->seek_shared(offset, from.is_ok() ? *from : pario::SeekFrom::kStart, mine);
}

Status File::get_position(Offset& position) const {
  WEIR_RETURN_IF_ERROR(check_not_sequential("MPI_File_get_position"));
  position = data_->position();
  return Status::ok();
}

Status File::get_position_shared(Offset& position) {
  WEIR_RETURN_IF_ERROR(check_not_sequential("MPI_File_get_position_shared"));
  WEIR_TRY(position, data_->shared_position());
  return Status::ok();
}

// ---------------------------------------------------------------- reading and writing

// What can be wrong with an access that only MPI knows, and the program's memory.
Status File::prepare(const AccessRequest& access, const Buffer& buffer, ProgramAccess& program) const {
  const auto wrong = [&](int error_class, const auto&... parts) {
    return fail(error_class, access.call, " ", path_, ": ", parts...);
  };
  if (access.pointer == Pointer::kExplicit || access.pointer == Pointer::kIndividual) {
    WEIR_RETURN_IF_ERROR(check_not_sequential(access.call));
  }
  if (buffer.count < 0) return wrong(MPI_ERR_COUNT, "the count is ", buffer.count);
  if (buffer.type == MPI_DATATYPE_NULL) return wrong(MPI_ERR_TYPE, "the datatype is MPI_DATATYPE_NULL");
  return program.prepare();
}

Status File::access(const AccessRequest& access, const Buffer& buffer, MPI_Status* status) {
  WEIR_RETURN_IF_ERROR(check_running(access.call));
  ProgramAccess program(*this, access, buffer);
  const Status mine = prepare(access, buffer, program);
  pario::AccessResult result;
  Status ended = data_->access(access, program.memory(), program.bytes(), result, mine);
  if (!result.view) return ended;
  ended = program.conclude(ended, result);
  program.fill(status);
  return ended;
}

Status File::start(const AccessRequest& access, const Buffer& buffer, MPI_Request* request) {
  WEIR_RETURN_IF_ERROR(check_running(access.call));
  ProgramAccess program(*this, access, buffer);
  const Status mine = prepare(access, buffer, program);
  WEIR_TRY(pario::Pending pending, data_->start(access, program.memory(), program.bytes(), mine));
  return make_request(shared_from_this(), std::move(program), std::move(pending), request);
}

Status File::begin(const AccessRequest& access, const Buffer& buffer) {
  WEIR_RETURN_IF_ERROR(check_running(access.call));
  ProgramAccess program(*this, access, buffer);
  const Status mine = prepare(access, buffer, program);
  WEIR_RETURN_IF_ERROR(data_->begin(access, program.memory(), program.bytes(), mine));
  split_ = std::make_unique<Split>(Split{buffer.data, std::move(program)});
  return Status::ok();
}

Status File::end(const AccessRequest& access, const void* data, MPI_Status* status) {
  static constexpr std::byte kNotTheBuffer{};
  const bool is_same = split_ && split_->data == data;
  pario::AccessResult result;
  Status ended = data_->end(access, is_same ? split_->program.memory().data : &kNotTheBuffer, result);
  if (!result.view) return ended;
  const std::unique_ptr<Split> split = std::move(split_);
  ended = split->program.conclude(ended, result);
  split->program.fill(status);
  return ended;
}

}  // namespace weir::mpiio::internal
