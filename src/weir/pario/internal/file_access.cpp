// Reading and writing: what is common to all of the many ways.

#include <weir/pario/errors.h>
#include <weir/pario/file.h>
#include <weir/pario/internal/transfer.h>

namespace weir::pario {

using internal::Transfer;

// What can be wrong with an access.
Status File::check(const AccessRequest& access, Offset bytes, const View& view) const {
  const auto wrong = [&](ErrorCode code, int detail, const auto&... parts) {
    return Status(code, concat(access.call, " ", path_, ": ", parts...)).with_detail(detail);
  };
  if (access.is_write && !options_.can_write) {
    return wrong(ErrorCode::kPermission, kReadOnly, "the file is open for reading only");
  }
  if (!access.is_write && !options_.can_read) {
    return wrong(ErrorCode::kPermission, 0, "the file is open for writing only");
  }
  if (access.pointer == Pointer::kExplicit && access.offset < 0) {
    return wrong(ErrorCode::kInvalidArgument, 0, "the offset is ", access.offset);
  }
  if (access.is_collective && split_) {
    return wrong(ErrorCode::kInvalidArgument, kMisuse, split_->access.call,
                 " has not been ended; no other collective access may come before that");
  }
  if (bytes % view.etype_bytes != 0) {
    return wrong(ErrorCode::kInvalidArgument, kMisuse, bytes, " bytes are not a whole number of etypes, which have ",
                 view.etype_bytes);
  }
  return Status::ok();
}

// Whether this rank may have to exchange bytes with others in a collective access, as far as can be told before it is
// made.
bool File::may_exchange() const {
  if (ranks() == 1 || is_atomic_ || wanted_ == Method::kAlone) return false;
  return wanted_ == Method::kTwoPhase || !is_in_memory_here_;
}

// The ranks of a collective access meet only if they may need each other; also those that cannot do their part.
// `is_alone`: each does its part without the others.
Status File::meet_for(const AccessRequest& access, Mode mode, const Status& mine, const Transfer& transfer,
                      bool& is_alone) {
  is_alone = true;
  const Operation operation = collective_access(mode, access.pointer, access.is_write);
  const bool is_ordered = access.pointer == Pointer::kOrdered;  // needs all ranks to find their places
  if (is_everybody_alone_ && !is_ordered) {
    WEIR_RETURN_IF_ERROR(meeting_.note(operation, access.call));
    return mine;
  }
  is_alone = !mine.is_ok() || !may_go_together(access, transfer);
  return meet(operation, concat(access.call, " ", path_), {}, mine, is_ordered ? Together::kAllOrNone : Together::kEach,
              &is_alone);
}

Status File::access(const AccessRequest& access, const Memory& memory, Offset bytes, AccessResult& result,
                    const Status& mine) {
  WEIR_RETURN_IF_ERROR(store_before_writing(access, Mode::kBlocking));
  Transfer transfer(*this, view(), access, memory, bytes);
  Status status = mine.is_ok() ? check(access, bytes, transfer.view()) : mine;
  bool is_alone = true;
  if (access.is_collective) {
    met_ = {};
    status = meet_for(access, Mode::kBlocking, status, transfer, is_alone);
  }
  WEIR_RETURN_IF_ERROR(status);
  const Result<Offset> from = locate(access, transfer.view(), bytes);
  if (is_alone) {
    if (!from.is_ok()) return from.status();
    status = transfer.run(*from);
  } else {
    status = access_together(access, Mode::kBlocking, transfer, from.status(), from.is_ok() ? *from : 0);
  }
  if (access.is_collective) transfer.result().met = met_;
  result = std::move(transfer.result());
  return status;
}

Result<Pending> File::start(const AccessRequest& access, const Memory& memory, Offset bytes, const Status& mine) {
  auto transfer = std::make_unique<Transfer>(*this, view(), access, memory, bytes);
  // Never in two phases, so no rank needs the others.
  if (access.is_collective) {
    WEIR_RETURN_IF_ERROR(
        meeting_.note(collective_access(Mode::kStarted, access.pointer, access.is_write), access.call));
  }
  WEIR_RETURN_IF_ERROR(mine.is_ok() ? check(access, bytes, transfer->view()) : mine);
  WEIR_TRY(const Offset from, locate(access, transfer->view(), bytes));
  transfer->start(from);
  return Pending(shared_from_this(), std::move(transfer));
}

Status File::begin(const AccessRequest& access, const Memory& memory, Offset bytes, const Status& mine) {
  WEIR_RETURN_IF_ERROR(store_before_writing(access, Mode::kSplit));
  auto transfer = std::make_unique<Transfer>(*this, view(), access, memory, bytes);
  bool is_alone = true;
  met_ = {};
  WEIR_RETURN_IF_ERROR(meet_for(access, Mode::kSplit, mine.is_ok() ? check(access, bytes, transfer->view()) : mine,
                                *transfer, is_alone));
  const Result<Offset> from = locate(access, transfer->view(), bytes);
  if (is_alone) {
    if (!from.is_ok()) return from.status();
    transfer->start(*from);
  } else {  // all of it: other ranks could not be asked for their part while the program computes
    WEIR_RETURN_IF_ERROR(access_together(access, Mode::kSplit, *transfer, from.status(), from.is_ok() ? *from : 0));
  }
  transfer->result().met = met_;
  split_ = std::make_unique<Split>(Split{access, memory.data, std::move(transfer)});
  return Status::ok();
}

Status File::end(const AccessRequest& access, const std::byte* data, AccessResult& result) {
  const bool fits = split_ && split_->access.is_write == access.is_write && split_->access.pointer == access.pointer;
  if (!fits) {
    return invalid_argument(concat(access.call, " ", path_, ": ",
                                   split_ ? concat("what has begun is ", split_->access.call) : "nothing has begun"))
        .with_detail(kMisuse);
  }
  if (split_->data != data) {
    return invalid_argument(concat(access.call, " ", path_, ": another buffer was passed to ", split_->access.call))
        .with_detail(kOtherBuffer);
  }
  const std::unique_ptr<Split> ended = std::move(split_);
  Status status = ended->transfer->finish();
  result = std::move(ended->transfer->result());
  return status;
}

// ---------------------------------------------------------------- accesses under way

Pending::Pending(std::shared_ptr<File> file, std::unique_ptr<Transfer> transfer)
    : file_(std::move(file)), transfer_(std::move(transfer)) {}
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;
Pending::~Pending() = default;

bool Pending::test() { return transfer_->test(); }
Status Pending::wait() { return transfer_->finish(); }
AccessResult& Pending::result() { return transfer_->result(); }

}  // namespace weir::pario
