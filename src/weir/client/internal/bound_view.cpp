#include <weir/client/internal/bound_view.h>

#include <algorithm>
#include <cstring>

#include <weir/base/text.h>
#include <weir/client/internal/windowed_operation.h>

namespace weir::client::internal {

namespace {

// ViewAccess::is_write says so.
std::byte* never_written(const void* memory) { return static_cast<std::byte*>(const_cast<void*>(memory)); }

// The same access to memory that is one piece as far as it reaches.
ViewAccess in_one(ViewAccess access) {
  if (access.bytes > 0) access.data += *access.pieces->unmap(0);
  access.pieces = nullptr;
  return access;
}

}  // namespace

Result<layout::Element> every_byte() { return layout::Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1}); }

BoundView::BoundView(std::shared_ptr<OpenFile> file, layout::Element element, const ViewOptions& options)
    : file_(std::move(file)), element_(std::move(element)), options_(options) {}

Result<std::shared_ptr<BoundView>> BoundView::create(std::shared_ptr<OpenFile> file, const layout::Element& element,
                                                     const ViewOptions& options) {
  std::shared_ptr<BoundView> view(new BoundView(std::move(file), element, options));
  WEIR_TRY(view->binding_,
           Binding::create(view->file_->shared_session(), view->file_->incarnation(), element, options));
  return view;
}

Result<std::shared_ptr<BoundView>> BoundView::of(OpenFile& file, const layout::Element& element) {
  return create(std::make_shared<OpenFile>(file.shared_session(), file.path(), file.incarnation()), element);
}

std::shared_ptr<Binding> BoundView::binding() {
  const std::lock_guard lock(mutex_);
  return binding_;
}

Status BoundView::rebind(const std::shared_ptr<Binding>& stale, Patience& patience) {
  if (binding() != stale) return Status::ok();
  WEIR_TRY(auto incarnation, file_->await_change(stale->file(), patience));
  if (incarnation == stale->file()) return Status::ok();  // not yet, or no more
  WEIR_TRY(auto fresh, Binding::create(file_->shared_session(), std::move(incarnation), element_, options_));
  const std::lock_guard lock(mutex_);
  if (binding_ == stale) binding_ = std::move(fresh);
  return Status::ok();
}

template <typename Work>
Status BoundView::until_current(std::shared_ptr<Binding> stale, Offset bytes, Work work) {
  Patience patience{.deadline = file_->session().deadline(bytes), .reason = "its layout was found to be stale"};
  for (;;) {
    WEIR_RETURN_IF_ERROR(rebind(stale, patience));
    stale = binding();
    Status status = work(stale);
    if (status.code() != ErrorCode::kStale) return status;
    patience.reason = status.message();
  }
}

Status BoundView::check(const ViewAccess& access) const {
  const std::uint8_t right = access.is_write ? kToWrite : kToRead;
  if ((file_->rights() & right) == 0) {
    return {ErrorCode::kPermission, concat(access.is_write ? "write to " : "read of ", file_->path(),
                                           ": owner, group and mode did not allow that when it was opened")};
  }
  const Offset limit = element_.limit();
  if (access.from >= 0 && access.bytes <= limit && access.from <= limit - access.bytes) return Status::ok();
  return out_of_range(concat(access.is_write ? "write to " : "read of ", file_->path(), ": ", access.bytes,
                             " bytes at ", access.from, " of a view that has ", limit));
}

Status BoundView::about(bool is_write, const Status& status) const {
  if (status.code() != ErrorCode::kCorrupt) return status;
  return {status.code(), concat(is_write ? "write to " : "read of ", file_->path(), ": ", status.message()),
          status.location()};
}

Status BoundView::move_directly(Binding& binding, const ViewAccess& access, std::vector<BoundSubfile*>& rest,
                                Offset& moved) {
  if (binding.reaches_before_layout(access.range())) {
    if (access.is_write) {
      return invalid_argument(concat("write to ", file_->path(), ": the layout of the file starts at byte ",
                                     binding.file()->layout().disp(), "; what is before cannot be written"));
    }
    std::memset(access.data, 0, static_cast<std::size_t>(access.bytes));
  }
  WEIR_RETURN_IF_ERROR(binding.fetch_memory(access, counters_));
  const Offset file_end = access.is_write ? binding.file_end(access.range()) : 0;
  Status status = binding.for_parts(access.range(), [&](BoundSubfile& part) -> Status {
    WEIR_TRY(const std::optional<Offset> done, binding.move_directly(part, access, file_end, counters_));
    if (!done) rest.push_back(&part);
    moved += done.value_or(0);
    return Status::ok();
  });
  if (status.code() == ErrorCode::kStale) Counters::add(counters_.extra_bytes, moved);
  return status;
}

Status BoundView::access_once(const std::shared_ptr<Binding>& binding, const ViewAccess& access) {
  std::vector<BoundSubfile*> rest;
  Offset moved = 0;
  WEIR_RETURN_IF_ERROR(move_directly(*binding, access, rest, moved));
  if (rest.empty()) return Status::ok();
  Operation operation(shared_from_this(), binding, access, std::move(rest), moved);
  operation.start();
  return operation.finish();
}

Status BoundView::access(const ViewAccess& access) {
  Counters::add(counters_.calls, 1);
  return move(access);
}

Status BoundView::move(const ViewAccess& access) {
  WEIR_RETURN_IF_ERROR(check(access));
  if (access.bytes == 0) return Status::ok();
  const std::shared_ptr<Binding> bound = binding();
  Status status = access_once(bound, access);
  return status.code() == ErrorCode::kStale ? access_again(bound, access) : status;
}

Status BoundView::access_again(const std::shared_ptr<Binding>& stale, const ViewAccess& access) {
  return until_current(stale, access.bytes,
                       [&](const std::shared_ptr<Binding>& bound) { return access_once(bound, access); });
}

Status BoundView::read(Offset from, std::span<std::byte> memory) {
  return access({false, from, static_cast<Offset>(memory.size()), memory.data()});
}

Status BoundView::write(Offset from, std::span<const std::byte> memory) {
  return access({true, from, static_cast<Offset>(memory.size()), never_written(memory.data())});
}

std::shared_ptr<Operation> BoundView::start(const ViewAccess& access) {
  if (Status status = check(access); !status.is_ok()) return std::make_shared<Operation>(std::move(status));
  Counters::add(counters_.calls, 1);
  if (access.bytes == 0) return std::make_shared<Operation>(Status::ok());
  return start_part(access);
}

std::shared_ptr<Operation> BoundView::start_part(const ViewAccess& access) {
  const std::shared_ptr<Binding> bound = binding();
  std::vector<BoundSubfile*> rest;
  Offset moved = 0;
  Status status = move_directly(*bound, access, rest, moved);
  if (status.code() == ErrorCode::kStale) return std::make_shared<Operation>(access_again(bound, access));
  if (!status.is_ok() || rest.empty()) return std::make_shared<Operation>(std::move(status));
  auto operation = std::make_shared<Operation>(shared_from_this(), bound, access, std::move(rest), moved);
  operation->start();
  if (!operation->is_done()) file_->session().keep_going();
  return operation;
}

Status BoundView::run_once(const std::shared_ptr<Binding>& binding, std::span<const ViewAccess> accesses) {
  std::vector<ViewAccess> small;
  std::vector<BoundSubfile*> small_parts;
  std::vector<std::unique_ptr<Operation>> large;
  Status status;
  for (const ViewAccess& access : accesses) {
    std::vector<BoundSubfile*> rest;
    Offset moved = 0;
    status = move_directly(*binding, access, rest, moved);
    if (!status.is_ok()) break;
    if (rest.empty()) continue;
    if (file_->session().costs().is_worth_merging(access.bytes)) {
      small.push_back(access);
      small_parts.insert(small_parts.end(), rest.begin(), rest.end());
      continue;
    }
    large.push_back(std::make_unique<Operation>(shared_from_this(), binding, access, std::move(rest), moved));
    large.back()->start();
  }
  std::sort(small_parts.begin(), small_parts.end());
  small_parts.erase(std::unique(small_parts.begin(), small_parts.end()), small_parts.end());
  if (status.is_ok() && !small.empty()) {
    status = about(small.front().is_write, move_pieces(*binding, small, small_parts, counters_));
  }
  for (const auto& operation : large) {
    Status ended = operation->finish();
    if (status.is_ok()) status = std::move(ended);
  }
  return status;
}

Status BoundView::run(std::span<const ViewAccess> accesses) {
  for (const ViewAccess& access : accesses) WEIR_RETURN_IF_ERROR(check(access));
  Counters::add(counters_.calls, 1);
  const std::shared_ptr<Binding> bound = binding();
  Status status = run_once(bound, accesses);
  if (status.code() != ErrorCode::kStale) return status;
  Offset bytes = 0;
  for (const ViewAccess& access : accesses) bytes += access.bytes;
  return until_current(bound, bytes, [&](const std::shared_ptr<Binding>& fresh) { return run_once(fresh, accesses); });
}

// ---------------------------------------------------------------- memory in pieces

transfer::Route BoundView::route_of(const layout::Element& memory) {
  const std::lock_guard lock(mutex_);
  if (!memory_ || &memory_->trees() != &memory.trees()) {
    memory_ = memory;
    memory_route_ = transfer::Route::of(memory);
  }
  return memory_route_;
}

// Memory in pieces passes through a buffer unless it can be moved directly.  One that stays in the cache costs little
// beside the copy to mapped memory; messages rather are few and long.
Offset BoundView::window_bytes() {
  constexpr auto kMost = static_cast<Offset>(BufferPool::kBytes);
  const model::Io& costs = file_->session().costs();
  return binding()->is_mapped() ? std::min(costs.memory.window_bytes, kMost) : costs.message_window(kMost);
}

Status BoundView::check_memory(bool is_write, Offset bytes, const layout::Element& memory) const {
  if (bytes >= 0 && bytes <= memory.limit()) return Status::ok();
  return out_of_range(concat(is_write ? "write to " : "read of ", file_->path(), ": ", bytes,
                             is_write ? " bytes from memory of " : " bytes into memory for ", memory.limit()));
}

Result<bool> BoundView::move_in_pieces(const ViewAccess& access) {
  WEIR_RETURN_IF_ERROR(check(access));
  const std::shared_ptr<Binding> bound = binding();
  if (!bound->is_mapped() || bound->reaches_before_layout(access.range())) return false;
  std::vector<BoundSubfile*> rest;
  Offset moved = 0;
  const Status status = move_directly(*bound, access, rest, moved);
  if (status.is_ok() && rest.empty()) return true;
  if (!status.is_ok() && status.code() != ErrorCode::kStale) return status;
  // All of it goes again: with the new layout, or by way of a buffer.
  if (status.is_ok()) Counters::add(counters_.extra_bytes, moved);
  return false;
}

Status BoundView::move_in_windows(const ViewAccess& access) {
  const transfer::Route route = route_of(*access.pieces);
  const Offset step = window_bytes();
  const BufferPool::Buffer buffer = take_buffer();
  for (Offset at = 0; at < access.bytes; at += step) {
    const Offset length = std::min(step, access.bytes - at);
    const Range range{at, at + length};
    if (access.is_write) route.pack_b({access.data, 0}, range, buffer.data());
    const Offset ahead = access.is_write ? access.bytes - range.to : 0;
    WEIR_RETURN_IF_ERROR(move({access.is_write, access.from + at, length, buffer.data(), ahead}));
    if (!access.is_write) route.unpack_b(buffer.data(), range, {access.data, 0});
    Counters::add(counters_.gathered_bytes, length);
  }
  return Status::ok();
}

Status BoundView::access_in_pieces(ViewAccess access) {
  WEIR_RETURN_IF_ERROR(check_memory(access.is_write, access.bytes, *access.pieces));
  Counters::add(counters_.calls, 1);
  if (access.pieces->is_contiguous(0, access.bytes)) return move(in_one(access));
  WEIR_TRY(const bool is_moved, move_in_pieces(access));
  return is_moved ? Status::ok() : move_in_windows(access);
}

Status BoundView::read(Offset from, Offset bytes, const Memory& memory) {
  return access_in_pieces({false, from, bytes, static_cast<std::byte*>(memory.data), 0, &memory.layout});
}

Status BoundView::write(Offset from, Offset bytes, const ConstMemory& memory) {
  return access_in_pieces({true, from, bytes, never_written(memory.data), 0, &memory.layout});
}

std::shared_ptr<UnderWay> BoundView::start_in_pieces(ViewAccess access) {
  Status status = check_memory(access.is_write, access.bytes, *access.pieces);
  if (status.is_ok()) status = check(access);
  if (!status.is_ok()) return std::make_shared<Operation>(std::move(status));
  if (access.pieces->is_contiguous(0, access.bytes)) return start(in_one(access));
  Counters::add(counters_.calls, 1);
  const Result<bool> is_moved = move_in_pieces(access);
  if (!is_moved.is_ok() || *is_moved) return std::make_shared<Operation>(is_moved.status());
  transfer::Route route = route_of(*access.pieces);
  access.pieces = nullptr;
  auto operation = std::make_shared<WindowedOperation>(shared_from_this(), access, std::move(route), window_bytes());
  operation->start();
  return operation;
}

std::shared_ptr<UnderWay> BoundView::start_read(Offset from, Offset bytes, const Memory& memory) {
  return start_in_pieces({false, from, bytes, static_cast<std::byte*>(memory.data), 0, &memory.layout});
}

std::shared_ptr<UnderWay> BoundView::start_write(Offset from, Offset bytes, const ConstMemory& memory) {
  return start_in_pieces({true, from, bytes, never_written(memory.data), 0, &memory.layout});
}

AccessReport BoundView::report() const {
  AccessReport report;
  report.calls = counters_.calls;
  report.messages = counters_.messages;
  report.index_bytes = counters_.index_bytes;
  report.moved_bytes = counters_.moved_bytes;
  report.direct_bytes = counters_.direct_bytes;
  report.gathered_bytes = counters_.gathered_bytes;
  report.extra_bytes = counters_.extra_bytes;
  return report;
}

}  // namespace weir::client::internal
