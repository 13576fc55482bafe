#include <weir/pario/internal/transfer.h>

#include <algorithm>

#include <weir/pario/errors.h>
#include <weir/pario/internal/stopwatch.h>

namespace weir::pario::internal {

Transfer::Transfer(File& file, std::shared_ptr<const View> view, const AccessRequest& access, const Memory& memory,
                   Offset bytes)
    : file_(file),
      view_(std::move(view)),
      call_(access.call),
      is_write_(access.is_write),
      memory_(memory),
      bytes_(bytes) {}

// Reads end with the file.
Status Transfer::clip_to_file(Offset from) {
  const Offset end = view_->end_in_file(from, bytes_);
  WEIR_TRY(const Offset size, file_.size_at_least(end));
  if (size < end) bytes_ = std::clamp<Offset>(view_->count_below(size) - from, 0, bytes_);
  return Status::ok();
}

ProgramMemory Transfer::program_memory() const {
  ProgramMemory memory{memory_.data, std::nullopt};
  if (memory_.pieces) memory.pieces.emplace(*memory_.pieces);
  return memory;
}

Status Transfer::read_overlapping(Offset from) {
  WEIR_TRY(const std::vector<layout::Segment> pieces, view_->overlap->pieces(from, bytes_));
  std::vector<std::byte> packed(memory_.pieces ? static_cast<std::size_t>(bytes_) : 0);
  std::vector<client::ReadPart> parts;
  std::byte* memory = memory_.pieces ? packed.data() : memory_.data;
  for (const layout::Segment& piece : pieces) {
    parts.push_back({piece.offset, {memory, static_cast<std::size_t>(piece.length)}});
    memory += piece.length;
  }
  WEIR_RETURN_IF_ERROR(view_->whole->read(parts));
  if (memory_.pieces) program_memory().put(packed.data(), {0, bytes_});
  return Status::ok();
}

Status Transfer::move(Offset from) {
  std::optional<client::FileLock> lock;
  if (file_.is_atomic()) {
    const Stopwatch watch(file_.stopwatch_clock(), result_.locked);
    const Offset first = view_->unmap(from).value_or(0);
    WEIR_TRY(lock, file_.data().lock(first, view_->end_in_file(from, bytes_), is_write_));
  }
  if (lock && !is_write_) WEIR_RETURN_IF_ERROR(clip_to_file(from));
  if (bytes_ == 0) return Status::ok();
  const Stopwatch watch(file_.stopwatch_clock(), result_.moved);
  const auto bytes = static_cast<std::size_t>(bytes_);
  const client::View& view = view_->bound;
  Status status;
  if (!view_->is_bound_to(from + bytes_)) {
    status = read_overlapping(from);
  } else if (memory_.pieces) {
    status = is_write_ ? view.write(from, bytes_, client::ConstMemory{memory_.data, *memory_.pieces})
                       : view.read(from, bytes_, client::Memory{memory_.data, *memory_.pieces});
  } else {
    status = is_write_ ? view.write(from, std::span<const std::byte>(memory_.data, bytes))
                       : view.read(from, std::span<std::byte>(memory_.data, bytes));
  }
  if (status.is_ok() && lock) status = lock->release();
  return status;
}

// However it ended.
Status Transfer::end(const Status& status) {
  status_ = named(call_, file_.path(), status);
  if (!status_.is_ok()) bytes_ = 0;
  if (is_write_ && bytes_ > 0) file_.grown_to(view_->end_in_file(from_, bytes_));
  result_.bytes = bytes_;
  result_.view = view_;
  if (file_.is_observed()) {
    result_.first = view_->unmap(from_).value_or(0);
    result_.last = bytes_ > 0 ? view_->end_in_file(from_, bytes_) - 1 : result_.first;
  }
  return status_;
}

Status Transfer::get_ready(Offset from) {
  from_ = from;
  if (bytes_ == 0 || is_write_) return Status::ok();
  return file_.is_atomic() ? Status::ok() : clip_to_file(from);  // or else when nobody can write meanwhile
}

Status Transfer::run(Offset from) { return run_alone(get_ready(from)); }

Status Transfer::run_alone(const Status& ready) { return end(ready.is_ok() && bytes_ > 0 ? move(from_) : ready); }

Status Transfer::run_together(const client::View& whole, const std::function<Status(ProgramMemory&)>& move) {
  const bool is_observed = file_.is_observed();
  const client::AccessReport before = is_observed ? whole.report() : client::AccessReport{};
  Status status;
  {
    const Stopwatch watch(file_.stopwatch_clock(), result_.moved);
    ProgramMemory memory = program_memory();
    status = move(memory);
  }
  if (is_observed) result_.for_all = cost_between(before, whole.report());
  return end(status);
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
  const Status ready = get_ready(from);
  if (!ready.is_ok() || bytes_ == 0) {
    static_cast<void>(end(ready));
    return;
  }
  if (file_.is_observed()) started_ = file_.clock().now();
  const client::View& view = view_->bound;
  if (memory_.pieces) {
    pending_ = is_write_ ? view.start_write(from, bytes_, client::ConstMemory{memory_.data, *memory_.pieces})
                         : view.start_read(from, bytes_, client::Memory{memory_.data, *memory_.pieces});
    return;
  }
  const auto bytes = static_cast<std::size_t>(bytes_);
  pending_ = is_write_ ? view.start_write(from, std::span<const std::byte>(memory_.data, bytes))
                       : view.start_read(from, std::span<std::byte>(memory_.data, bytes));
}

void Transfer::ended(const Status& status) {
  pending_.reset();
  if (file_.is_observed()) result_.moved += file_.clock().now() - started_;
  static_cast<void>(end(status));
}

bool Transfer::test() {
  if (!pending_) return true;
  if (!pending_->test()) return false;
  ended(pending_->wait());
  return true;
}

Status Transfer::finish() {
  if (pending_) ended(pending_->wait());
  return status_;
}

}  // namespace weir::pario::internal
