// Reading and writing: what is common to all of the many functions.

#include <weir/mpiio/internal/file.h>
#include <weir/mpiio/internal/requests.h>
#include <weir/mpiio/internal/running.h>
#include <weir/mpiio/internal/transfer.h>

namespace weir::mpiio::internal {

// What can be wrong with an access.  `bytes`: how many it is, in the file.
Outcome File::check(const Access& access, const Buffer& buffer, const FileView& view, Offset& bytes) const {
  const auto wrong = [&](int error_class, const auto&... parts) {
    return fail(error_class, access.call, " ", path_, ": ", parts...);
  };
  if (access.is_write && (amode_ & MPI_MODE_RDONLY) != 0) {
    return wrong(MPI_ERR_READ_ONLY, "the file is open for reading only (MPI_MODE_RDONLY)");
  }
  if (!access.is_write && (amode_ & MPI_MODE_WRONLY) != 0) {
    return wrong(MPI_ERR_ACCESS, "the file is open for writing only (MPI_MODE_WRONLY)");
  }
  if (access.pointer == Pointer::kExplicit || access.pointer == Pointer::kIndividual) {
    WEIR_PASS(check_not_sequential(access.call));
  }
  if (buffer.count < 0) return wrong(MPI_ERR_COUNT, "the count is ", buffer.count);
  if (buffer.type == MPI_DATATYPE_NULL) return wrong(MPI_ERR_TYPE, "the datatype is MPI_DATATYPE_NULL");
  if (access.pointer == Pointer::kExplicit && access.offset < 0) {
    return wrong(MPI_ERR_ARG, "the offset is ", access.offset);
  }
  if (access.is_collective && split_) {
    return wrong(MPI_ERR_IO, split_->access.call,
                 " has not been ended; no other collective access may come before that");
  }
  WEIR_TRY(const Offset item, file_bytes(buffer.type, view.representation.get()));
  WEIR_TRY(bytes, checked_mul(item, buffer.count));
  if (bytes > 0 && buffer.data == nullptr && is_predefined(buffer.type)) {
    return wrong(MPI_ERR_BUFFER, "the buffer is a null pointer");  // other types may hold addresses
  }
  if (bytes % view.etype_bytes != 0) {
    return wrong(MPI_ERR_IO, bytes, " bytes are not a whole number of etypes, which have ", view.etype_bytes);
  }
  return Outcome::ok();
}

// Up to the moment when bytes move.
Outcome File::prepare(const Access& access, const Buffer& buffer, std::unique_ptr<Transfer>& transfer) {
  if (!is_mpi_running()) return fail(MPI_ERR_OTHER, access.call, " ", path_, ": MPI has been finalized");
  const std::int64_t start = trace::now();
  if (trace::is_on) trace::time_met() = 0;
  const std::shared_ptr<const FileView> current = view();
  Offset bytes = 0;
  Outcome mine = check(access, buffer, *current, bytes);
  if (mine.is_ok()) mine = Transfer::create(*this, current, access, buffer, bytes, transfer);
  if (transfer) transfer->trace(start);
  return mine;
}

// Whether this rank may have to exchange bytes with others in a collective access, as far as can be told before it is
// made.
bool File::may_exchange() const {
  if (meeting_->size() == 1 || is_atomic_ || wanted_ == Method::kAlone) return false;
  return wanted_ == Method::kTwoPhase || !is_in_memory_here_;
}

// The ranks of a collective access meet only if they may need each other; also those that cannot do their part.
// `is_alone`: each does its part without the others.
Outcome File::meet_for(const Access& access, const Outcome& mine, const Transfer* transfer, bool& is_alone) {
  is_alone = true;
  const bool is_ordered = access.pointer == Pointer::kOrdered;  // needs all ranks to find their places
  if (is_everybody_alone_ && !is_ordered) {
    WEIR_PASS(meeting_->note(access.call));
    return mine;
  }
  is_alone = !mine.is_ok() || !may_go_together(access, *transfer);
  return meet(access.call, {}, mine, is_ordered ? Together::kAllOrNone : Together::kEach, &is_alone);
}

Outcome File::access(const Access& access, const Buffer& buffer, MPI_Status* status) {
  WEIR_PASS(store_before_writing(access));
  std::unique_ptr<Transfer> transfer;
  Outcome mine = prepare(access, buffer, transfer);
  bool is_alone = true;
  if (access.is_collective) mine = meet_for(access, mine, transfer.get(), is_alone);
  WEIR_PASS(mine);
  Offset from = 0;
  const Outcome located = locate(access, transfer->view(), transfer->bytes(), from);
  if (is_alone) WEIR_PASS(located);
  const Outcome outcome = is_alone ? transfer->run(from) : access_together(access, *transfer, located, from);
  transfer->fill(status);
  return outcome;
}

Outcome File::start(const Access& access, const Buffer& buffer, MPI_Request* request) {
  std::unique_ptr<Transfer> transfer;
  const Outcome mine = prepare(access, buffer, transfer);
  // Never in two phases, so no rank needs the others.
  if (access.is_collective) WEIR_PASS(meeting_->note(access.call));
  WEIR_PASS(mine);
  Offset from = 0;
  WEIR_PASS(locate(access, transfer->view(), transfer->bytes(), from));
  transfer->start(from);
  return make_request(shared_from_this(), std::move(transfer), request);
}

Outcome File::begin(const Access& access, const Buffer& buffer) {
  WEIR_PASS(store_before_writing(access));
  auto split = std::make_unique<Split>();
  split->access = access;
  split->data = buffer.data;
  const Outcome mine = prepare(access, buffer, split->transfer);
  bool is_alone = true;
  WEIR_PASS(meet_for(access, mine, split->transfer.get(), is_alone));
  Offset from = 0;
  const Outcome located = locate(access, split->transfer->view(), split->transfer->bytes(), from);
  if (is_alone) {
    WEIR_PASS(located);
    split->transfer->start(from);
  } else {  // all of it: other ranks could not be asked for their part while the program computes
    WEIR_PASS(access_together(access, *split->transfer, located, from));
  }
  split_ = std::move(split);
  return Outcome::ok();
}

Outcome File::end(const Access& access, const void* data, MPI_Status* status) {
  const bool fits = split_ && split_->access.is_write == access.is_write && split_->access.pointer == access.pointer;
  if (!fits) {
    return fail(MPI_ERR_IO, access.call, " ", path_, ": ",
                split_ ? concat("what has begun is ", split_->access.call) : std::string("nothing has begun"));
  }
  if (split_->data != data) {
    return fail(MPI_ERR_BUFFER, access.call, " ", path_, ": another buffer was passed to ", split_->access.call);
  }
  const std::unique_ptr<Split> ended = std::move(split_);
  const Outcome outcome = ended->transfer->finish();
  ended->transfer->fill(status);
  return outcome;
}

}  // namespace weir::mpiio::internal
