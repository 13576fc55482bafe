#include <weir/mpiio/internal/program_access.h>

#include <algorithm>
#include <climits>

#include <weir/log/log.h>
#include <weir/mpiio/internal/datatype.h>
#include <weir/mpiio/internal/errors.h>
#include <weir/mpiio/internal/file.h>
#include <weir/mpiio/internal/type_cache.h>
#include <weir/pario/errors.h>

namespace weir::mpiio::internal {

namespace {

Offset size_of(MPI_Datatype type) {
  MPI_Count size = 0;
  PMPI_Type_size_x(type, &size);
  return size;
}

// All items of the buffer, in the bytes of memory, one after the other.  Each for itself: MPICH 4.0 packs other bytes
// of several items that have a negative extent or overlap.
template <typename Bytes, typename One>
Status for_items(const Buffer& buffer, Bytes& packed, One one) {
  const Offset extent = extent_of(buffer.type);
  const auto size = static_cast<std::size_t>(size_of(buffer.type));
  for (MPI_Count i = 0; i < buffer.count; ++i) {
    WEIR_RETURN_IF_ERROR(one(static_cast<std::byte*>(buffer.data) + i * extent,
                             packed.data() + static_cast<std::size_t>(i) * size, static_cast<int>(size)));
  }
  return Status::ok();
}
Status pack(const Buffer& buffer, std::vector<std::byte>& packed) {
  return for_items(buffer, packed, [&](const std::byte* item, std::byte* bytes, int size) {
    int at = 0;
    return from_mpi(PMPI_Pack(item, 1, buffer.type, bytes, size, &at, MPI_COMM_SELF), "MPI_Pack");
  });
}
Status unpack(const std::vector<std::byte>& packed, const Buffer& buffer) {
  return for_items(buffer, packed, [&](std::byte* item, const std::byte* bytes, int size) {
    int at = 0;
    return from_mpi(PMPI_Unpack(bytes, size, &at, item, 1, buffer.type, MPI_COMM_SELF), "MPI_Unpack");
  });
}

}  // namespace

ProgramAccess::ProgramAccess(File& file, const pario::AccessRequest& access, const Buffer& buffer)
    : file_(file),
      call_(access.call),
      is_write_(access.is_write),
      buffer_(buffer),
      types_(file.types()),
      start_(trace::now()) {}

Status ProgramAccess::prepare() {
  WEIR_TRY(const Offset item, file_bytes(buffer_.type, types_->representation.get()));
  WEIR_TRY(bytes_, checked_mul(item, buffer_.count));
  if (bytes_ == 0) return Status::ok();
  WEIR_RETURN_IF_ERROR(find_memory());
  return is_write_ ? encode() : Status::ok();
}

void ProgramAccess::stage() {
  staged_.resize(static_cast<std::size_t>(bytes_));
  is_staged_ = true;
  memory_.data = staged_.data();
}

// Decides how bytes get from or to the program's buffer.
Status ProgramAccess::find_memory() {
  auto* const data = static_cast<std::byte*>(buffer_.data);
  const bool is_basic = is_predefined(buffer_.type);
  if (data == nullptr && is_basic) {  // other types may hold addresses
    return fail(MPI_ERR_BUFFER, call_, " ", file_.path(), ": the buffer is a null pointer");
  }
  if (types_->representation) {
    item_bytes_ = bytes_ / buffer_.count;
    stage();
    return Status::ok();
  }
  if (is_basic && size_of(buffer_.type) == extent_of(buffer_.type)) {
    memory_.data = data;
    return Status::ok();
  }
  WEIR_TRY(const std::shared_ptr<const MemoryMap> found, cached_memory_map(buffer_.count, buffer_.type));
  const MemoryMap& map = *found;
  if (!map.direct.is_ok()) {
    WEIR_LOG_INFO("{}: memory is packed by MPI: {}", file_.path(), map.direct.message());
    if (bytes_ > INT_MAX) {
      return fail(MPI_ERR_COUNT, file_.path(), ": ", bytes_, " bytes cannot be packed at once, and ",
                  map.direct.message());
    }
    stage();
    return Status::ok();
  }
  memory_.data = data + map.shift;
  if (!map.is_contiguous) memory_.pieces = map.element;
  return Status::ok();
}

Status ProgramAccess::encode() {
  if (!is_staged_) return Status::ok();
  const trace::Stopwatch watch(packed_);
  if (!types_->representation) return pack(buffer_, staged_);
  return types_->representation->encode(buffer_, item_bytes_, staged_);
}

// Of what was staged, only so much as was read goes to the program.
Status ProgramAccess::decode() {
  if (!is_staged_ || bytes_ == 0) return Status::ok();
  const trace::Stopwatch watch(packed_);
  if (types_->representation) {
    return types_->representation->decode(staged_, item_bytes_, {buffer_.data, bytes_ / item_bytes_, buffer_.type});
  }
  if (bytes_ < static_cast<Offset>(staged_.size())) {
    // The last item may be there in part: what lies behind it in the program's buffer stays.
    std::vector<std::byte> whole(staged_.size());
    WEIR_RETURN_IF_ERROR(pack(buffer_, whole));
    std::copy_n(staged_.begin(), bytes_, whole.begin());
    return unpack(whole, buffer_);
  }
  return unpack(staged_, buffer_);
}

Status ProgramAccess::conclude(const Status& moved, const pario::AccessResult& result) {
  bytes_ = result.bytes;
  Status status = moved;
  if (status.is_ok() && !is_write_) status = pario::named(call_, file_.path(), decode());
  if (!status.is_ok()) bytes_ = 0;
  file_.counts().add(is_write_, bytes_);
  if (trace::is_on) record(result);
  return status;
}

void ProgramAccess::record(const pario::AccessResult& result) const {
  trace::TracedAccess traced;
  traced.file = &file_;
  traced.view = result.view.get();
  traced.call = call_;
  traced.is_write = is_write_;
  traced.start = start_;
  traced.end = trace::now();
  traced.phases[trace::kMeet] = result.met.count();
  traced.phases[trace::kLock] = result.locked.count();
  traced.phases[trace::kPack] = packed_;
  traced.phases[trace::kMove] = result.moved.count();
  traced.bytes = bytes_;
  traced.for_all = result.for_all;
  traced.first = result.first;
  traced.last = result.last;
  trace::done(traced);
}

void ProgramAccess::fill(MPI_Status* status) const {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  PMPI_Status_set_cancelled(status, 0);
  const Offset of_buffer = types_->representation ? bytes_ / item_bytes_ * size_of(buffer_.type) : bytes_;
  PMPI_Status_set_elements_x(status, MPI_BYTE, of_buffer);
}

}  // namespace weir::mpiio::internal
