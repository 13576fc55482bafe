// Opening and closing, and all that concerns a file as a whole.

#include <array>

#include <weir/layout/language.h>
#include <weir/log/log.h>
#include <weir/pario/errors.h>
#include <weir/pario/file.h>
#include <weir/pario/internal/stopwatch.h>
#include <weir/pario/internal/text.h>
#include <weir/pario/internal/transfer.h>

namespace weir::pario {

namespace {

constexpr char kLayoutKept[] = "the file was there before and keeps its layout";

client::Access access_of(const OpenOptions& options) {
  if (!options.can_write) return client::Access::kRead;
  return options.can_read ? client::Access::kReadWrite : client::Access::kWrite;
}

std::string mode_text(const OpenOptions& options) {
  std::string text;
  const auto add = [&](bool is_set, std::string_view word) {
    if (is_set) text += concat(text.empty() ? "" : ", ", word);
  };
  add(options.can_read, "read");
  add(options.can_write, "write");
  add(options.is_created, "create");
  add(options.is_exclusive, "exclusive");
  add(options.is_appended_to, "append");
  add(options.is_removed_on_close, "remove on close");
  return text;
}

}  // namespace

File::File(std::unique_ptr<group::Group> group, const std::string& path, OpenOptions options)
    : path_(path), options_(std::move(options)), meeting_(std::move(group), options_.names) {}

File::~File() = default;

std::string File::call_text(Operation operation) const { return concat(meeting_.name_of(operation), " ", path_); }

Status File::meet(Operation operation, const std::vector<group::Term>& terms, const Status& mine, Together together,
                  bool* flag) {
  return meet(operation, call_text(operation), terms, mine, together, flag);
}

Status File::meet(Operation operation, const std::string& call, const std::vector<group::Term>& terms,
                  const Status& mine, Together together, bool* flag) {
  const internal::Stopwatch watch(stopwatch_clock(), met_);
  Meeting::Flags flags{flag != nullptr && *flag, may_exchange()};
  Status status = meeting_.meet(operation, call, terms, mine, together, &flags);
  if (flag != nullptr) *flag = flags.first;
  is_everybody_alone_ = !flags.second;
  return status;
}

Result<std::shared_ptr<File>> File::open(std::unique_ptr<group::Group> group, const Result<client::FileSystem>& fs,
                                         const std::string& path, OpenOptions options, const Status& mine) {
  std::shared_ptr<File> file(new File(std::move(group), path, std::move(options)));
  file->hints_ = usable(file->options_.hints, file->rank() == 0);
  file->wanted_ = wanted_method(file->hints_, *file->options_.runtime.settings);
  const Status status = file->open_together(fs, mine);
  if (!status.is_ok()) {
    file->meeting_.leave(file->call_text(Operation::kOpen));
    return status;
  }
  describe_layout(file->data_->layout(), file->hints_);
  return file;
}

Status File::remove(group::Group& group, const Result<client::FileSystem>& fs, const std::string& path,
                    const CallNames& names) {
  const std::string_view name = names[static_cast<std::size_t>(Operation::kRemove)];
  Status mine = fs.status();
  if (mine.is_ok() && group.rank() == 0) mine = fs->remove(path);
  mine = named(name, path, mine);
  std::array<std::uint64_t, 1> blame{group.blame(!mine.is_ok())};
  WEIR_RETURN_IF_ERROR(group.greatest(name, blame));
  if (blame[0] == 0) return Status::ok();
  const Status first = group.failure_of(name, blame[0], mine);
  return mine.is_ok() ? first : mine;
}

// Fails on all ranks or on none.
Status File::open_together(const Result<client::FileSystem>& fs, const Status& mine) {
  std::vector<group::Term> terms{{"file", path_}, {"mode", mode_text(options_)}};
  terms.insert(terms.end(), options_.terms.begin(), options_.terms.end());
  WEIR_RETURN_IF_ERROR(meet(Operation::kOpen, terms, mine, Together::kAllOrNone));
  Status status = fs.status();
  if (status.is_ok()) fs_ = *fs;
  if (status.is_ok() && rank() == 0) status = open_on_first();
  WEIR_RETURN_IF_ERROR(meet(Operation::kOpen, {}, status, Together::kAllOrNone, &is_as_viewed_));
  status = open_as_on_first();
  if (status.is_ok()) status = bind_whole();
  if (status.is_ok()) is_in_memory_here_ = data_->is_in_memory_here();
  WEIR_RETURN_IF_ERROR(meet(Operation::kOpen, {}, status, Together::kAllOrNone));
  if (options_.is_appended_to) is_shared_used_ = true;  // it does not start at 0
  return Status::ok();
}

// What only one rank does: the others find the file there.
Status File::open_on_first() {
  const std::string_view name = meeting_.name_of(Operation::kOpen);
  if (options_.is_created) {
    Result<NewFile> plan = plan_new_file(options_.hints, fs_->target_count(), *options_.runtime.settings);
    WEIR_RETURN_IF_ERROR(named(name, path_, plan.status()));
    plan->options.exclusive = options_.is_exclusive;
    plan->options.access = access_of(options_);
    const Result<client::File> created = fs_->create(path_, plan->layout, plan->options);
    WEIR_RETURN_IF_ERROR(named(name, path_, created.status()));
    data_ = *created;
    if (plan->is_as_viewed) {
      WEIR_TRY(const Offset bytes, data_->size());
      is_as_viewed_ = bytes == 0;  // a file with bytes keeps its layout
    }
    const bool is_kept = !is_as_viewed_ && layout::print(data_->layout()) != layout::print(plan->layout);
    layout_reason_ = is_kept ? kLayoutKept : plan->why;
    WEIR_LOG_INFO("{}: layout {}{} ({})", path_, layout::print(data_->layout()),
                  is_as_viewed_ ? ", until the first views are set" : "", layout_reason_);
  } else {
    const Result<client::File> found = fs_->open(path_, access_of(options_));
    WEIR_RETURN_IF_ERROR(named(name, path_, found.status()));
    data_ = *found;
    layout_reason_ = kLayoutKept;
  }
  if (options_.is_appended_to) {
    WEIR_TRY(position_, data_->size());
  }
  WEIR_TRY(shared_, fs_->make_counter(position_));
  shared_id_ = shared_->id();
  return Status::ok();
}

// Collective: one rank has asked the servers, the others ask nobody.
Status File::open_as_on_first() {
  struct Known {
    std::uint64_t shared_id;
    Offset position;
  };
  Known known{shared_id_, position_};
  std::string text(reinterpret_cast<const char*>(&known), sizeof known);
  if (rank() == 0) text += internal::to_text(data_->describe());
  WEIR_TRY(text, meeting_.group().bytes_of(call_text(Operation::kOpen), 0, std::move(text)));
  if (rank() == 0) return Status::ok();
  text.copy(reinterpret_cast<char*>(&known), sizeof known);
  shared_id_ = known.shared_id;
  position_ = known.position;
  WEIR_TRY(data_, fs_->open_described(path_, std::as_bytes(std::span(text)).subspan(sizeof known)));
  return Status::ok();
}

// The view that a file has at first: all of its bytes.
Status File::bind_whole() {
  WEIR_TRY(layout::Element whole, layout::Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1}));
  WEIR_TRY(view_, binder_.bind(*data_, ranks(), {.element = std::move(whole)}));
  return Status::ok();
}

// What this rank has written is safe from crashes, as far as the stores promise that; or an error tells what may be
// lost.
Status File::keep_written() {
  if (!options_.can_write || options_.is_removed_on_close) return Status::ok();
  if (rank() != 0 && !data_->has_unsynced()) return Status::ok();  // the first rank may have made the name
  const Status status = data_->sync();
  if (status.is_ok() || status.code() == ErrorCode::kStale) return Status::ok();  // stale: removed, with all its bytes
  return {ErrorCode::kIoError, concat("bytes that were written may be lost: ", status.message())};
}

Status File::close(const Status& mine) {
  Status status = mine.is_ok() ? check_nothing_begun(meeting_.name_of(Operation::kClose)) : mine;
  split_.reset();
  const Status kept = keep_written();
  if (status.is_ok()) status = kept;
  status = meet(Operation::kClose, {}, status, Together::kAllOrNone);
  if (options_.is_removed_on_close && rank() == 0) {
    const Status removed = named(meeting_.name_of(Operation::kClose), path_, fs_->remove(path_));
    if (status.is_ok()) status = removed;
  }
  meeting_.leave(call_text(Operation::kClose));
  return status;
}

Hints File::hints() const {
  const std::lock_guard lock(mutex_);
  Hints in_effect = hints_;
  in_effect.set("weir_collective", std::string(to_text(wanted_)));
  return in_effect;
}

Status File::set_hints(const Hints& given) {
  {
    const std::lock_guard lock(mutex_);
    hints_.merge(usable(given, rank() == 0));
    describe_layout(data_->layout(), hints_);
    wanted_ = wanted_method(hints_, *options_.runtime.settings);
  }
  return meet(Operation::kSetHints, {}, Status::ok(), Together::kEach);
}

Result<Offset> File::size() {
  Result<Offset> bytes = data_->size();
  if (!bytes.is_ok()) return named(meeting_.name_of(Operation::kGetSize), path_, bytes.status());
  return bytes;
}

// A split collective access must be ended before.
Status File::check_nothing_begun(std::string_view call) const {
  if (!split_) return Status::ok();
  return invalid_argument(concat(call, " ", path_, ": ", split_->access.call, " has not been ended"))
      .with_detail(kMisuse);
}

// One rank does it, after all have come and before any goes on.
Status File::change_size(Operation operation, Offset size, const Status& mine,
                         Status (client::File::*change)(Offset) const) {
  const std::string_view name = meeting_.name_of(operation);
  Status status = mine;
  if (status.is_ok()) status = check_nothing_begun(name);
  if (!options_.can_write) {
    status = Status(ErrorCode::kPermission, concat(name, " ", path_, ": it is open for reading only"))
                 .with_detail(kReadOnly);
  } else if (status.is_ok() && size < 0) {
    status = invalid_argument(concat(name, " ", path_, ": the size is ", size));
  }
  WEIR_RETURN_IF_ERROR(meet(operation, {{"size", concat(size)}}, status, Together::kAllOrNone));
  if (rank() == 0) status = named(name, path_, ((*data_).*change)(size));
  known_size_ = 0;
  return meet(operation, {}, status, Together::kAllOrNone);
}

Status File::set_size(Offset size, const Status& mine) {
  return change_size(Operation::kSetSize, size, mine, &client::File::truncate);
}
Status File::preallocate(Offset size, const Status& mine) {
  return change_size(Operation::kPreallocate, size, mine, &client::File::preallocate);
}

Status File::sync() {
  const std::string_view name = meeting_.name_of(Operation::kSync);
  Status mine = check_nothing_begun(name);
  if (mine.is_ok() && options_.can_write) mine = named(name, path_, data_->sync());
  known_size_ = 0;
  return meet(Operation::kSync, {}, mine, Together::kEach);
}

Status File::set_atomicity(bool is_atomic) {
  const bool before = is_atomic_.exchange(is_atomic);
  Status status =
      meet(Operation::kSetAtomicity, {{"flag", is_atomic ? "true" : "false"}}, Status::ok(), Together::kEach);
  if (!status.is_ok()) is_atomic_ = before;
  return status;
}

Result<Offset> File::size_at_least(Offset wanted) {
  if (const Offset known = known_size_; known >= wanted) return known;
  WEIR_TRY(const Offset bytes, data_->size());
  grown_to(bytes);
  return bytes;
}

void File::grown_to(Offset end) {
  Offset known = known_size_;
  while (known < end && !known_size_.compare_exchange_weak(known, end)) {
  }
}

}  // namespace weir::pario
