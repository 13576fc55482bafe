#include <weir/client/internal/relayout.h>

// How a file gets another layout, and what an end at each step leaves behind:
//
//   1. BeginRelayout: the metadata service notes a second set of subfiles, filed under another number.   old layout serves
//   2. The old subfiles are fenced: from now on, writers wait.                                            old layout serves, and is written
//                                                                                                         again once the fences have fallen
//   3. Bytes are copied: a subfile of the new layout is a view of the old file, read in long ranges       the same; new subfiles are found
//      and written as they come.  What is all zero is not written.  The new subfiles are synced.          by fsck
//   4. The fences are confirmed: they were up all the time, and stay if a process is gone or restarted.   old layout serves; the next writer, or
//                                                                                                         fsck, cancels the relayout
//   5. EndRelayout{commit}: in one step, the new ones are the file.                                       new layout serves; old subfiles
//   6. The old subfiles are removed; clients that have them open are told that they are stale.            are found by fsck, and fenced
//
// So no write is lost: what was written to an old subfile before its fence was up is copied, and what comes later is
// refused, as long as the old subfile is there.  Writers look up the file until it has another layout, or can be
// written again.
//
// Until 5, and if that is refused, an error ends with EndRelayout{no commit}, removal of the new subfiles, and the
// fences lowered.  Whether 5 was done is not known if its answer does not come and the file looks as before: then
// nothing is removed or lowered, and the next writer (or fsck) decides.  Server 0 serialises commit and cancellation:
// the first request wins, and later ones are refused.

#include <algorithm>
#include <cstring>

#include <weir/base/text.h>
#include <weir/client/internal/about.h>
#include <weir/client/internal/bound_view.h>

namespace weir::client::internal {

namespace {

constexpr Offset kMostBufferBytes = Offset{4} << 20;
constexpr Offset kLeastBufferBytes = Offset{64} << 10;

bool is_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes.front() == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

class Copy {
 public:
  Copy(std::shared_ptr<OpenFile> from, std::shared_ptr<Incarnation> to, const RelayoutOptions& options)
      : session_(from->session()), from_(std::move(from)), to_(std::move(to)), options_(options) {}

  Status run() {
    WEIR_TRY(size_, from_->size());
    WEIR_RETURN_IF_ERROR(list());
    const std::size_t lanes =
        std::max<std::size_t>(1, std::min<std::size_t>(subfiles_.size(), session_.server_count()));
    step_ = std::clamp(options_.max_buffer_bytes / static_cast<Offset>(lanes), kLeastBufferBytes, kMostBufferBytes);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      lanes_.push_back(session_.buffers().take(static_cast<std::size_t>(step_)));
    }
    // Neighbouring subfiles are on different targets, so those under way together keep several busy.
    for (std::size_t first = 0; first < subfiles_.size(); first += lanes) {
      WEIR_RETURN_IF_ERROR(copy_group(std::span(subfiles_).subspan(first, std::min(lanes, subfiles_.size() - first))));
    }
    return finish();
  }

 private:
  struct Subfile {
    std::uint32_t element = 0;
    Offset length = 0;
  };
  struct Lane {
    const Subfile* subfile;
    std::shared_ptr<BoundView> view;
  };

  Status list() {
    for (std::uint32_t element = 0; element < to_->element_count(); ++element) {
      WEIR_TRY(const layout::Element sequence, to_->layout().element(element));
      const Offset length = room_for(sequence, size_);
      if (length > 0) subfiles_.push_back({element, length});
      all_ += length;
    }
    return Status::ok();
  }

  Status copy_group(std::span<const Subfile> group) {
    std::vector<Lane> lanes;
    Offset longest = 0;
    for (const Subfile& subfile : group) {
      WEIR_TRY(const layout::Element sequence, to_->layout().element(subfile.element));
      WEIR_TRY(auto view, BoundView::create(from_, sequence));
      lanes.push_back({&subfile, std::move(view)});
      longest = std::max(longest, subfile.length);
    }
    for (Offset at = 0; at < longest; at += step_) WEIR_RETURN_IF_ERROR(copy_step(lanes, at));
    return Status::ok();
  }

  Status copy_step(const std::vector<Lane>& lanes, Offset at) {
    std::vector<std::shared_ptr<Operation>> reads(lanes.size());
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const Offset length = length_at(*lanes[i].subfile, at);
      if (length > 0) reads[i] = lanes[i].view->start({false, at, length, lanes_[i].data()});
    }
    Status status;
    for (const auto& read : reads) {
      if (Status ended = read ? read->wait() : Status::ok(); status.is_ok()) status = std::move(ended);
    }
    WEIR_RETURN_IF_ERROR(std::move(status));
    std::vector<Outgoing> writes;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const Offset length = length_at(*lanes[i].subfile, at);
      done_ += length;
      const std::span<const std::byte> bytes(lanes_[i].data(), static_cast<std::size_t>(length));
      if (!is_zero(bytes)) writes.push_back(write_of(lanes[i].subfile->element, at, bytes));
    }
    WEIR_RETURN_IF_ERROR(session_.run_all(writes));
    if (options_.progress) options_.progress(done_, all_);
    return Status::ok();
  }

  [[nodiscard]] Offset length_at(const Subfile& subfile, Offset at) const {
    return std::clamp<Offset>(subfile.length - at, 0, step_);
  }

  Outgoing write_of(std::uint32_t element, Offset at, std::span<const std::byte> bytes) const {
    wire::WritePiecesT write;
    write.subfile = to_wire(to_->subfile(element));
    write.pieces.emplace_back(at, at + static_cast<Offset>(bytes.size()));
    write.file_end = size_;
    return {to_->server_of(element), wire::encode_request(std::move(write), session_.timeout_ms()), bytes, {}, {}};
  }

  // The file has its end even if its last bytes were not written, being zero.
  Status finish() {
    if (!subfiles_.empty()) {
      wire::TruncateT truncate;
      truncate.subfile = to_wire(to_->subfile(subfiles_.front().element));
      truncate.length = subfiles_.front().length;
      truncate.file_end = size_;
      const std::uint32_t server = to_->server_of(subfiles_.front().element);
      WEIR_RETURN_IF_ERROR(session_.call<wire::DoneT>(server, std::move(truncate)).status());
    }
    std::vector<Outgoing> syncs = calls_to_subfiles(session_, *to_, [&](std::uint32_t element) {
      wire::SyncT sync;
      sync.subfile = to_wire(to_->subfile(element));
      if (session_.keeps_about()) sync.about = about_of(from_->path(), to_->attributes(), element, true);
      return sync;
    });
    return session_.run_all(syncs);
  }

  Session& session_;
  std::shared_ptr<OpenFile> from_;
  std::shared_ptr<Incarnation> to_;
  const RelayoutOptions& options_;
  std::vector<Subfile> subfiles_;
  std::vector<BufferPool::Buffer> lanes_;
  Offset size_ = 0;
  Offset step_ = 0;
  Offset done_ = 0;
  Offset all_ = 0;
};

Result<wire::AttributesT> end(Session& session, const Incarnation& file, bool commit) {
  wire::EndRelayoutT table;
  table.file = file.file();
  table.data = file.data();
  table.commit = commit;
  return session.call<wire::AttributesT>(0, std::move(table), Repeat::kNever);
}

Status fence(Session& session, const Incarnation& file, wire::FenceAction action, std::uint64_t token) {
  std::vector<Outgoing> calls = calls_to_subfiles(session, file, [&](std::uint32_t element) {
    wire::FenceT table;
    table.action = action;
    table.subfile = to_wire(file.subfile(element));
    table.token = token;
    return table;
  });
  return session.run_all(calls);
}

// Steps 2 to 4.
Status copy(const std::shared_ptr<Session>& session, const std::string& path, const std::shared_ptr<Incarnation>& from,
            const std::shared_ptr<Incarnation>& to, const RelayoutOptions& options) {
  WEIR_RETURN_IF_ERROR(fence(*session, *from, wire::FenceAction::Raise, to->data()));
  WEIR_RETURN_IF_ERROR(Copy(std::make_shared<OpenFile>(session, path, from), to, options).run());
  return fence(*session, *from, wire::FenceAction::Confirm, to->data());
}

enum class Outcome { kDone, kNotDone, kUnknown };

// Step 5; `status` gets what was answered.
Outcome commit(Session& session, const std::string& path, const Incarnation& file, Status& status) {
  status = end(session, file, true).status();
  if (status.is_ok()) return Outcome::kDone;
  const Result<wire::AttributesT> now = look_up(session, path);
  if (now.is_ok() && now->data == file.data()) return Outcome::kDone;  // only the answer was lost
  const bool is_answered = status.code() != ErrorCode::kTimedOut && status.code() != ErrorCode::kUnavailable;
  return is_answered && now.is_ok() ? Outcome::kNotDone : Outcome::kUnknown;
}

}  // namespace

Result<wire::AttributesT> look_up(Session& session, const std::string& path) {
  wire::LookupT lookup;
  lookup.path = path;
  return session.call<wire::AttributesT>(0, std::move(lookup));
}

Status relayout(const std::shared_ptr<Session>& session, const std::string& path, const layout::Partition& layout,
                const RelayoutOptions& options) {
  WEIR_RETURN_IF_ERROR(layout.validate());
  WEIR_TRY(const wire::AttributesT before, look_up(*session, path));
  WEIR_TRY(const auto old_file, Incarnation::create(path, before));

  wire::BeginRelayoutT begin;
  begin.path = path;
  begin.layout = wire::to_bytes(layout);
  begin.targets = options.targets;
  begin.stores = session->stores();
  WEIR_TRY(const wire::AttributesT after, session->call<wire::AttributesT>(0, std::move(begin), Repeat::kNever));
  WEIR_TRY(const auto new_file, Incarnation::create(path, after));

  Status status = copy(session, path, old_file, new_file, options);
  const Outcome done = status.is_ok() ? commit(*session, path, *new_file, status) : Outcome::kNotDone;
  if (done == Outcome::kDone) {
    // Before the old subfiles go: what is known of these may be all that is left one day.
    const Result<wire::AttributesT> now = look_up(*session, path);
    if (session->keeps_about() && now.is_ok()) (void)write_about(*session, path, *now);
    return remove_subfiles(*session, *old_file);
  }
  if (done == Outcome::kNotDone) {
    // The first error is the one to tell; what cannot be taken back now is found by fsck.
    (void)end(*session, *new_file, false);
    (void)remove_subfiles(*session, *new_file);
    (void)fence(*session, *old_file, wire::FenceAction::Lower, new_file->data());
    return {status.code(), concat("relayout of ", path, ": ", status.message(), "; the old layout still serves")};
  }
  (void)fence(*session, *old_file, wire::FenceAction::Leave, new_file->data());
  return {status.code(), concat("relayout of ", path, ": ", status.message(),
                                "; the next write to the file, or weir fsck --repair, ends it one way or the other")};
}

}  // namespace weir::client::internal
