#include <weir/mpiio/internal/transfer.h>

#include <algorithm>
#include <climits>

#include <weir/log/log.h>
#include <weir/mpiio/internal/datatype.h>
#include <weir/mpiio/internal/type_cache.h>

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
Outcome for_items(const Buffer& buffer, Bytes& packed, One one) {
  const Offset extent = extent_of(buffer.type);
  const auto size = static_cast<std::size_t>(size_of(buffer.type));
  for (MPI_Count i = 0; i < buffer.count; ++i) {
    WEIR_PASS(one(static_cast<std::byte*>(buffer.data) + i * extent, packed.data() + static_cast<std::size_t>(i) * size,
                  static_cast<int>(size)));
  }
  return Outcome::ok();
}
Outcome pack(const Buffer& buffer, std::vector<std::byte>& packed) {
  return for_items(buffer, packed, [&](const std::byte* item, std::byte* bytes, int size) {
    int at = 0;
    return from_mpi(PMPI_Pack(item, 1, buffer.type, bytes, size, &at, MPI_COMM_SELF), "MPI_Pack");
  });
}
Outcome unpack(const std::vector<std::byte>& packed, const Buffer& buffer) {
  return for_items(buffer, packed, [&](std::byte* item, const std::byte* bytes, int size) {
    int at = 0;
    return from_mpi(PMPI_Unpack(bytes, size, &at, item, 1, buffer.type, MPI_COMM_SELF), "MPI_Unpack");
  });
}

}  // namespace

Outcome Transfer::create(File& file, std::shared_ptr<const FileView> view, const Access& access, const Buffer& buffer,
                         Offset bytes, std::unique_ptr<Transfer>& transfer) {
  transfer.reset(new Transfer(file, std::move(view), access, buffer, bytes));
  return bytes == 0 ? Outcome::ok() : transfer->find_memory();
}

// Decides how bytes get from or to the program's buffer.
Outcome Transfer::find_memory() {
  auto* const data = static_cast<std::byte*>(buffer_.data);
  if (view_->representation) {
    item_bytes_ = bytes_ / buffer_.count;
    memory_ = Staged(static_cast<std::size_t>(bytes_));
    return Outcome::ok();
  }
  if (is_predefined(buffer_.type) && size_of(buffer_.type) == extent_of(buffer_.type)) {
    memory_ = data;
    return Outcome::ok();
  }
  WEIR_TRY(const std::shared_ptr<const MemoryMap> found, cached_memory_map(buffer_.count, buffer_.type));
  const MemoryMap& map = *found;
  if (!map.direct.is_ok()) {
    WEIR_LOG_INFO("{}: memory is packed by MPI: {}", file_.path(), map.direct.message());
    if (bytes_ > INT_MAX) {
      return fail(MPI_ERR_COUNT, file_.path(), ": ", bytes_, " bytes cannot be packed at once, and ",
                  map.direct.message());
    }
    memory_ = Staged(static_cast<std::size_t>(bytes_));
  } else if (map.is_contiguous) {
    memory_ = data + map.shift;
  } else if (view_->overlap) {
    memory_ = Staged(static_cast<std::size_t>(bytes_));
  } else {
    memory_ = InPieces{data + map.shift, map.element};
  }
  return Outcome::ok();
}

// The bytes as they are in the file.  \pre They are not in pieces.
std::byte* Transfer::in_one() {
  auto* const staged = std::get_if<Staged>(&memory_);
  return staged != nullptr ? staged->data() : std::get<InOne>(memory_);
}

Offset Transfer::buffer_bytes() const {
  if (!view_->representation) return bytes_;
  return item_bytes_ == 0 ? 0 : bytes_ / item_bytes_ * size_of(buffer_.type);
}

void Transfer::fill(MPI_Status* status) const {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  PMPI_Status_set_cancelled(status, 0);
  PMPI_Status_set_elements_x(status, MPI_BYTE, buffer_bytes());
}

// Reads end with the file.
Outcome Transfer::clip_to_file(Offset from) {
  const Offset end = view_->end_in_file(from, bytes_);
  WEIR_TRY(const Offset size, file_.size_at_least(end));
  if (size >= end) return Outcome::ok();
  bytes_ = std::clamp<Offset>(view_->count_below(size) - from, 0, bytes_);
  return Outcome::ok();
}

void Transfer::trace(std::int64_t start) {
  if (!trace::is_on) return;
  traced_.file = &file_;
  traced_.view = view_.get();
  traced_.call = call_;
  traced_.is_write = is_write_;
  traced_.start = start;
}

void Transfer::trace_end() {
  if (!trace::is_on) return;
  traced_.end = trace::now();
  traced_.bytes = bytes_;
  traced_.first = view_->unmap(from_).value_or(0);
  traced_.last = bytes_ > 0 ? view_->end_in_file(from_, bytes_) - 1 : traced_.first;
  trace::done(traced_);
}

Outcome Transfer::encode() {
  auto* const staged = std::get_if<Staged>(&memory_);
  if (staged == nullptr) return Outcome::ok();
  const trace::Stopwatch watch(traced_.phases[trace::kPack]);
  if (!view_->representation) return pack(buffer_, *staged);
  return view_->representation->encode(buffer_, item_bytes_, *staged);
}

// Of what was staged, only so much as was read goes to the program.
Outcome Transfer::decode() {
  auto* const staged = std::get_if<Staged>(&memory_);
  if (staged == nullptr || bytes_ == 0) return Outcome::ok();
  const trace::Stopwatch watch(traced_.phases[trace::kPack]);
  if (view_->representation) {
    return view_->representation->decode(*staged, item_bytes_, {buffer_.data, bytes_ / item_bytes_, buffer_.type});
  }
  if (bytes_ < static_cast<Offset>(staged->size())) {
    // The last item may be there in part: what lies behind it in the program's buffer stays.
    Staged whole(staged->size());
    WEIR_PASS(pack(buffer_, whole));
    std::copy_n(staged->begin(), bytes_, whole.begin());
    return unpack(whole, buffer_);
  }
  return unpack(*staged, buffer_);
}

Status Transfer::read_overlapping(Offset from) {
  WEIR_TRY(const std::vector<layout::Segment> pieces, view_->overlap->pieces(from, bytes_));
  std::vector<client::ReadPart> parts;
  std::byte* memory = in_one();
  for (const layout::Segment& piece : pieces) {
    parts.push_back({piece.offset, {memory, static_cast<std::size_t>(piece.length)}});
    memory += piece.length;
  }
  return view_->whole->read(parts);
}

Outcome Transfer::move(Offset from) {
  std::optional<client::FileLock> lock;
  if (file_.is_atomic()) {
    const trace::Stopwatch watch(traced_.phases[trace::kLock]);
    const Offset first = view_->unmap(from).value_or(0);
    WEIR_TRY(lock, file_.data().lock(first, view_->end_in_file(from, bytes_), is_write_));
  }
  if (lock && !is_write_) WEIR_PASS(clip_to_file(from));
  if (bytes_ == 0) return Outcome::ok();
  const trace::Stopwatch watch(traced_.phases[trace::kMove]);
  const auto bytes = static_cast<std::size_t>(bytes_);
  const client::View& view = view_->bound;
  Status status;
  if (!view_->is_bound_to(from + bytes_)) {
    status = read_overlapping(from);
  } else if (auto* const pieces = std::get_if<InPieces>(&memory_)) {
    status = is_write_ ? view.write(from, bytes_, client::ConstMemory{pieces->data, pieces->layout})
                       : view.read(from, bytes_, *pieces);
  } else {
    std::byte* const memory = in_one();
    status = is_write_ ? view.write(from, std::span<const std::byte>(memory, bytes))
                       : view.read(from, std::span<std::byte>(memory, bytes));
  }
  if (status.is_ok() && lock) status = lock->release();
  return status;
}

// However it ended.
void Transfer::end(const Outcome& outcome) {
  outcome_ = named(call_, file_.path(), outcome);
  if (!outcome_.is_ok()) bytes_ = 0;
  if (is_write_ && bytes_ > 0) file_.grown_to(view_->end_in_file(from_, bytes_));
  file_.counts().add(is_write_, bytes_);
  trace_end();
}

Outcome Transfer::get_ready(Offset from) {
  from_ = from;
  if (trace::is_on) traced_.phases[trace::kMeet] = trace::time_met();
  if (bytes_ == 0) return Outcome::ok();
  if (is_write_) return encode();
  return file_.is_atomic() ? Outcome::ok() : clip_to_file(from);  // or else when nobody can write meanwhile
}

Outcome Transfer::conclude(Outcome outcome) {
  if (outcome.is_ok() && !is_write_) outcome = decode();
  end(outcome);
  return outcome_;
}

Outcome Transfer::run(Offset from) { return run_alone(get_ready(from)); }

Outcome Transfer::run_alone(const Outcome& ready) {
  return conclude(ready.is_ok() && bytes_ > 0 ? move(from_) : ready);
}

Outcome Transfer::run_together(const client::View& whole, const std::function<Outcome(ProgramMemory&)>& move) {
  const auto moved = [&] {
    const trace::Stopwatch watch(traced_.phases[trace::kMove]);
    ProgramMemory memory;
    if (auto* const pieces = std::get_if<InPieces>(&memory_)) {
      memory.data = static_cast<std::byte*>(pieces->data);
      memory.pieces.emplace(pieces->layout);
    } else {
      memory.data = in_one();
    }
    return move(memory);
  };
  const client::AccessReport before = trace::is_on ? whole.report() : client::AccessReport{};
  const Outcome outcome = moved();
  if (trace::is_on) traced_.for_all = trace::cost_between(before, whole.report());
  return conclude(outcome);
}

bool Transfer::may_be_shared(Offset from) const {
  if (bytes_ == 0) return true;
  const Result<bool> is_by_message = view_->bound.goes_by_message(is_write_, from, bytes_);
  return is_by_message.is_ok() && *is_by_message;
}

Result<Share> Transfer::share() const {
  Share share{.from = from_, .bytes = bytes_, .file = {0, 0}};
  if (bytes_ == 0) return share;
  share.file = {view_->unmap(from_).value_or(kMaxBytes), view_->end_in_file(from_, bytes_)};
  WEIR_TRY(const client::AccessShape shape, view_->bound.shape(from_, bytes_));
  share.messages = shape.messages;
  share.pieces = shape.pieces;
  share.touched_bytes = shape.touched_bytes;
  return share;
}

void Transfer::start(Offset from) {
  // Locks are held over one call.
  if (bytes_ == 0 || file_.is_atomic() || view_->overlap) {
    static_cast<void>(run(from));
    return;
  }
  const Outcome ready = get_ready(from);
  if (!ready.is_ok() || bytes_ == 0) return end(ready);
  traced_.phases[trace::kMove] -= trace::now();  // until it ends
  if (auto* const pieces = std::get_if<InPieces>(&memory_)) {
    pending_ = is_write_ ? view_->bound.start_write(from, bytes_, client::ConstMemory{pieces->data, pieces->layout})
                         : view_->bound.start_read(from, bytes_, *pieces);
    return;
  }
  std::byte* const memory = in_one();
  const auto bytes = static_cast<std::size_t>(bytes_);
  pending_ = is_write_ ? view_->bound.start_write(from, std::span<const std::byte>(memory, bytes))
                       : view_->bound.start_read(from, std::span<std::byte>(memory, bytes));
}

void Transfer::ended(Status status) {
  pending_.reset();
  traced_.phases[trace::kMove] += trace::now();
  Outcome outcome = status;
  if (outcome.is_ok() && !is_write_) outcome = decode();
  end(outcome);
}

bool Transfer::test() {
  if (!pending_) return true;
  if (!pending_->test()) return false;
  ended(pending_->wait());
  return true;
}

Outcome Transfer::finish() {
  if (pending_) ended(pending_->wait());
  return outcome_;
}

}  // namespace weir::mpiio::internal
