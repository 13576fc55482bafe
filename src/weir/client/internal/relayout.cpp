#include <weir/client/internal/relayout.h>

// How a file gets another layout, and what an end at each step leaves behind:
//
//   1. BeginRelayout: the metadata service notes a second set of subfiles, filed under another number.   old layout serves
//   2. The old subfiles are fenced: from now on, writers wait.                                            old layout serves, and is written
//                                                                                                         again once the fences have fallen
//   3. Servers pull: each reads what its new subfiles get from the old ones, and writes it.  The client   the same; the new subfiles go when
//      asks for ranges and sees no bytes.  The new subfiles are synced.                                   the relayout is cancelled
//   4. The fences are confirmed: they were up all the time, and stay if a process is gone or restarted.   old layout serves; the next writer, or
//                                                                                                         fsck, cancels the relayout
//   5. EndRelayout{commit}: in one step, the new ones are the file.  Server 0 removes the old subfiles;   new layout serves
//      clients that have them open are told that they are stale.
//
// So no write is lost: what was written to an old subfile before its fence was up is copied, and what comes later is
// refused, as long as the old subfile is there.  Writers look up the file until it has another layout, or can be
// written again.
//
// Until 5, and if that is refused, an error ends with EndRelayout{no commit}, upon which server 0 removes the new
// subfiles, and the fences lowered.  Whether 5 was done is not known if its answer does not come and the file looks as
// before: then nothing is lowered, and the next writer (or fsck) decides.  Server 0 serialises commit and cancellation:
// the first request wins, and later ones are refused.

#include <algorithm>

#include <weir/base/text.h>
#include <weir/wire/about.h>

namespace weir::client::internal {

namespace {

// What a server pulls at a time: between two of these, progress is told.
constexpr Offset kStepBytes = Offset{16} << 20;

/// Step 3.
class Copy {
 public:
  Copy(Session& session, const std::string& path, Incarnation& from, Incarnation& to, const RelayoutOptions& options)
      : session_(session), path_(path), from_(from), to_(to), options_(options), boots_(to.element_count(), 0) {}

  Status run() {
    WEIR_TRY(size_, size_of(session_, from_));
    WEIR_RETURN_IF_ERROR(list());
    const std::size_t lanes =
        std::max<std::size_t>(1, std::min<std::size_t>(subfiles_.size(), session_.server_count()));
    buffer_bytes_ = std::max<Offset>(options_.max_buffer_bytes / static_cast<Offset>(lanes), 1);
    // Neighbouring subfiles are on different targets, so those under way together keep several busy.
    for (std::size_t first = 0; first < subfiles_.size(); first += lanes) {
      WEIR_RETURN_IF_ERROR(pull_group(std::span(subfiles_).subspan(first, std::min(lanes, subfiles_.size() - first))));
    }
    return sync();
  }

  /// \error kIoError if a server was started again between its first bytes and their sync: they may be lost
  [[nodiscard]] Status check_boots() const { return boots_status_; }

 private:
  struct Subfile {
    std::uint32_t element = 0;
    Offset length = 0;
  };

  Status list() {
    for (std::uint32_t element = 0; element < to_.element_count(); ++element) {
      WEIR_TRY(const layout::Element sequence, to_.layout().element(element));
      const Offset length = room_for(sequence, size_);
      if (length > 0) subfiles_.push_back({element, length});
      all_ = length > kMaxBytes - all_ ? kMaxBytes : all_ + length;
    }
    return Status::ok();
  }

  Status pull_group(std::span<const Subfile> group) {
    Offset longest = 0;
    for (const Subfile& subfile : group) longest = std::max(longest, subfile.length);
    for (Offset at = 0; at < longest; at += kStepBytes) WEIR_RETURN_IF_ERROR(pull_step(group, at));
    return Status::ok();
  }

  Status pull_step(std::span<const Subfile> group, Offset at) {
    std::vector<Outgoing> calls;
    std::vector<std::uint32_t> elements;
    for (const Subfile& subfile : group) {
      const Offset length = std::clamp<Offset>(subfile.length - at, 0, kStepBytes);
      if (length == 0) continue;
      calls.push_back(pull_of(subfile.element, at, length));
      elements.push_back(subfile.element);
      done_ += length;
    }
    session_.run(calls, Repeat::kSafe);
    for (std::size_t i = 0; i < calls.size(); ++i) WEIR_RETURN_IF_ERROR(note_boot(elements[i], calls[i]));
    if (options_.progress) options_.progress(done_, all_);
    return Status::ok();
  }

  Outgoing pull_of(std::uint32_t element, Offset at, Offset length) {
    wire::PullT pull;
    pull.element = element;
    pull.to = std::make_unique<wire::AttributesT>(to_.attributes());
    pull.from = std::make_unique<wire::AttributesT>(from_.attributes());
    pull.range = std::make_unique<wire::Range>(at, at + length);
    pull.file_end = size_;
    pull.buffer_bytes = buffer_bytes_;
    return {to_.server_of(element),
            wire::encode_request(std::move(pull), session_.timeout_ms(), to_.store_of(element), session_.epoch()),
            {},
            {},
            {},
            &to_.capability()};
  }

  Status note_boot(std::uint32_t element, const Outgoing& call) {
    WEIR_TRY(const wire::ReplyHeadT head, session_.decode(call.server, *call.result));
    const std::uint64_t before = boots_[element] == 0 ? head.boot : boots_[element];
    boots_[element] = before;
    if (before == head.boot || !boots_status_.is_ok()) return Status::ok();
    boots_status_ = {ErrorCode::kIoError,
                     concat(session_.name_of(call.server), " was started again: bytes that it had pulled may be lost")};
    return Status::ok();
  }

  // The file has its end even if its last bytes were not written, being zero.
  Status sync() {
    if (!subfiles_.empty()) {
      const Subfile& first = subfiles_.front();
      wire::TruncateT truncate;
      truncate.subfile = to_wire(to_.subfile(first.element));
      truncate.length = first.length;
      truncate.file_end = size_;
      WEIR_RETURN_IF_ERROR(session_
                               .call<wire::DoneT>(to_.server_of(first.element), std::move(truncate), Repeat::kSafe,
                                                  to_.store_of(first.element), &to_.capability())
                               .status());
    }
    std::vector<Outgoing> calls = calls_to_subfiles(session_, to_, [&](std::uint32_t element) {
      wire::SyncT table;
      table.subfile = to_wire(to_.subfile(element));
      if (session_.keeps_about()) table.about = wire::about_of(path_, to_.attributes(), element, true);
      return table;
    });
    session_.run(calls, Repeat::kSafe);
    for (std::uint32_t element = 0; element < calls.size(); ++element) {
      WEIR_RETURN_IF_ERROR(note_boot(element, calls[element]));
    }
    return Status::ok();
  }

  Session& session_;
  const std::string& path_;
  Incarnation& from_;
  Incarnation& to_;
  const RelayoutOptions& options_;
  std::vector<Subfile> subfiles_;
  std::vector<std::uint64_t> boots_;  // of the server of each new subfile, when it first answered
  Status boots_status_;
  Offset size_ = 0;
  Offset buffer_bytes_ = 0;  // for each pull
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

Status fence(Session& session, Incarnation& file, wire::FenceAction action, std::uint64_t token) {
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
Status copy(Session& session, const std::string& path, Incarnation& from, Incarnation& to,
            const RelayoutOptions& options) {
  WEIR_RETURN_IF_ERROR(fence(session, from, wire::FenceAction::Raise, to.data()));
  Copy copying(session, path, from, to, options);
  WEIR_RETURN_IF_ERROR(copying.run());
  WEIR_RETURN_IF_ERROR(fence(session, from, wire::FenceAction::Confirm, to.data()));
  return copying.check_boots();
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

Result<wire::AttributesT> look_up(Session& session, const std::string& path, std::uint8_t access) {
  wire::LookupT lookup;
  lookup.path = path;
  lookup.access = access;
  return session.call<wire::AttributesT>(0, std::move(lookup));
}

Status relayout(const std::shared_ptr<Session>& session, const std::string& path, const layout::Partition& layout,
                const RelayoutOptions& options) {
  WEIR_RETURN_IF_ERROR(layout.validate());
  WEIR_TRY(const wire::AttributesT before, look_up(*session, path));
  WEIR_TRY(const auto old_file, Incarnation::create(*session, path, before));

  const auto begin = [&] {
    wire::BeginRelayoutT table;
    table.path = path;
    table.layout = wire::to_bytes(layout);
    table.targets = options.targets;
    table.stores = session->stores();
    return table;
  };
  WEIR_TRY(const wire::AttributesT after, session->call_by_table<wire::AttributesT>(begin, Repeat::kNever));
  WEIR_TRY(const auto new_file, Incarnation::create(*session, path, after));

  Status status = copy(*session, path, *old_file, *new_file, options);
  const Outcome done = status.is_ok() ? commit(*session, path, *new_file, status) : Outcome::kNotDone;
  if (done == Outcome::kDone) return Status::ok();
  if (done == Outcome::kNotDone) {
    // The first error is the one to tell; what cannot be taken back now is found by the next writer, or by fsck.
    (void)end(*session, *new_file, false);
    (void)fence(*session, *old_file, wire::FenceAction::Lower, new_file->data());
    return {status.code(), concat("relayout of ", path, ": ", status.message(), "; the old layout still serves")};
  }
  (void)fence(*session, *old_file, wire::FenceAction::Leave, new_file->data());
  return {status.code(), concat("relayout of ", path, ": ", status.message(),
                                "; the next write to the file, or weir fsck --repair, ends it one way or the other")};
}

}  // namespace weir::client::internal
