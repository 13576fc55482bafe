// Opening and closing, and all that concerns a file as a whole.

#include <bit>

#include <weir/layout/language.h>
#include <weir/log/log.h>
#include <weir/mpiio/internal/connection.h>
#include <weir/mpiio/internal/ending.h>
#include <weir/mpiio/internal/file.h>
#include <weir/mpiio/internal/handlers.h>
#include <weir/mpiio/internal/requests.h>
#include <weir/mpiio/internal/running.h>
#include <weir/mpiio/internal/trace.h>
#include <weir/mpiio/internal/transfer.h>
#include <weir/mpiio/internal/two_phase.h>

namespace weir::mpiio::internal {

namespace {

constexpr int kAccessModes = MPI_MODE_RDONLY | MPI_MODE_WRONLY | MPI_MODE_RDWR;
constexpr int kAllModes = kAccessModes | MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE |
                          MPI_MODE_UNIQUE_OPEN | MPI_MODE_SEQUENTIAL | MPI_MODE_APPEND;

Outcome check_amode(const std::string& path, int amode) {
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
  return Outcome::ok();
}

constexpr char kLayoutKept[] = "the file was there before and keeps its layout";

}  // namespace

File::~File() = default;

Outcome File::meet(const char* call, const std::vector<Term>& terms, const Outcome& mine, Together together,
                   bool* flag) {
  if (!is_mpi_running()) return fail(MPI_ERR_OTHER, call, " ", path_, ": MPI has been finalized");
  const trace::Stopwatch watch(trace::time_met());
  Meeting::Flags flags{flag != nullptr && *flag, may_exchange()};
  Outcome outcome = meeting_->meet(concat(call, " ", path_), terms, mine, together, &flags);
  if (flag != nullptr) *flag = flags.first;
  is_everybody_alone_ = !flags.second;
  return outcome;
}

Outcome File::open(MPI_Comm comm, const std::string& path, int amode, MPI_Info info, std::shared_ptr<File>& opened) {
  constexpr const char* kCall = "MPI_File_open";
  int is_inter = 0;
  if (comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS || is_inter != 0) {
    return fail(MPI_ERR_COMM, kCall, " ", path, ": a communicator of one group is needed");
  }
  const std::int64_t start = trace::now();
  std::shared_ptr<File> file(new File);
  file->path_ = path;
  file->amode_ = amode;
  begin_finalize_together(comm);
  WEIR_TRY(file->meeting_, Meeting::convene(comm, concat(kCall, " ", path)));
  const Hints given = Hints::read(info);
  file->hints_ = usable(given, file->meeting_->rank() == 0);
  file->wanted_ = wanted_method(file->hints_.get("weir_collective"));
  const Outcome outcome = file->open_together(given);
  if (!outcome.is_ok()) {
    file->meeting_->adjourn(concat(kCall, " ", path));
    return outcome;
  }
  describe_layout(file->data_->layout(), file->hints_);
  file->set_error_handler(default_handler());
  if (trace::is_counting) file->trace_opening(given, start);
  opened = std::move(file);
  return Outcome::ok();
}

// Fails on all ranks or on none.
Outcome File::open_together(const Hints& given) {
  constexpr const char* kCall = "MPI_File_open";
  WEIR_PASS(meet(kCall, {{"file", path_}, {"access mode", concat(amode_)}}, check_amode(path_, amode_),
                 Together::kAllOrNone));
  Outcome mine = connect();
  const bool is_first = meeting_->rank() == 0;
  if (mine.is_ok() && is_first) mine = open_on_first(given);
  WEIR_PASS(meet(kCall, {}, mine, Together::kAllOrNone, &is_as_viewed_));
  mine = open_as_on_first();
  if (mine.is_ok()) mine = bind_whole();
  if (mine.is_ok()) look_where_it_is();
  WEIR_PASS(meet(kCall, {}, mine, Together::kAllOrNone));
  if ((amode_ & MPI_MODE_APPEND) != 0) is_shared_used_ = true;  // it does not start at 0
  return Outcome::ok();
}

// Collective: one rank has asked the servers, the others ask nobody.
Outcome File::open_as_on_first() {
  constexpr const char* kCall = "MPI_File_open";
  struct Known {
    std::uint64_t shared_id;
    Offset position;
  };
  Known known{shared_id_, position_};
  std::string text(reinterpret_cast<const char*>(&known), sizeof known);
  if (meeting_->rank() == 0) text += to_text(data_->describe());
  WEIR_TRY(text, meeting_->bytes_of(kCall, 0, std::move(text)));
  if (meeting_->rank() == 0) return Outcome::ok();
  text.copy(reinterpret_cast<char*>(&known), sizeof known);
  shared_id_ = known.shared_id;
  position_ = known.position;
  WEIR_TRY(data_, fs_->open_described(path_, std::as_bytes(std::span(text)).subspan(sizeof known)));
  return Outcome::ok();
}

void File::look_where_it_is() { is_in_memory_here_ = data_->is_in_memory_here(); }

void File::trace_opening(const Hints& given, std::int64_t start) const {
  trace::opened(this, {path_, layout::print(data_->layout()), layout_reason_, given, meeting_->rank(), meeting_->size(),
                       (amode_ & MPI_MODE_RDONLY) == 0, start, counts_});
  trace::viewed(this, *view_, data_->layout());
}

// The view that a file has at first: all of its bytes.
Outcome File::bind_whole() {
  ViewDescription description;
  WEIR_PASS(describe_view({}, false, description));
  return binder_.bind(*data_, meeting_->size(), {}, description, view_);
}

Outcome File::connect() {
  WEIR_TRY(fs_, file_system());
  return Outcome::ok();
}

// What only one rank does: the others find the file there.
Outcome File::open_on_first(const Hints& given) {
  constexpr const char* kCall = "MPI_File_open";
  if ((amode_ & MPI_MODE_CREATE) != 0) {
    std::optional<NewFile> plan;
    WEIR_PASS(named(kCall, path_, plan_new_file(given, *fs_, plan)));
    plan->options.exclusive = (amode_ & MPI_MODE_EXCL) != 0;
    auto created = fs_->create(path_, plan->layout, plan->options);
    WEIR_PASS(named(kCall, path_, created.status()));
    data_ = *created;
    if (plan->is_as_viewed) {
      WEIR_TRY(const Offset size, data_->size());
      is_as_viewed_ = size == 0;  // a file with bytes keeps its layout
    }
    const bool is_kept = !is_as_viewed_ && layout::print(data_->layout()) != layout::print(plan->layout);
    layout_reason_ = is_kept ? kLayoutKept : plan->why;
    WEIR_LOG_INFO("{}: layout {}{} ({})", path_, layout::print(data_->layout()),
                  is_as_viewed_ ? ", until the first views are set" : "", layout_reason_);
  } else {
    auto found = fs_->open(path_);
    WEIR_PASS(named(kCall, path_, found.status()));
    data_ = *found;
    layout_reason_ = kLayoutKept;
  }
  if ((amode_ & MPI_MODE_APPEND) != 0) {
    WEIR_TRY(position_, data_->size());
  }
  WEIR_TRY(shared_, fs_->make_counter(position_));
  shared_id_ = shared_->id();
  return Outcome::ok();
}

Outcome File::remove(const std::string& path) {
  WEIR_TRY(const client::FileSystem fs, file_system());
  return named("MPI_File_delete", path, fs.remove(path));
}

// What this rank has written is safe from crashes, as far as the stores promise that; or an error tells what may be
// lost.
Outcome File::keep_written() {
  if ((amode_ & (MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE)) != 0) return Outcome::ok();
  if (meeting_->rank() != 0 && !data_->has_unsynced()) return Outcome::ok();  // the first rank may have made the name
  const Status status = data_->sync();
  if (status.is_ok() || status.code() == ErrorCode::kStale) return Outcome::ok();  // stale: removed, with all its bytes
  return fail(MPI_ERR_IO, "bytes that were written may be lost: ", status.message());
}

Outcome File::close() {
  constexpr const char* kCall = "MPI_File_close";
  if (!is_mpi_running()) return Outcome::ok();
  finish_requests(*this);
  Outcome mine = check_nothing_begun(kCall, MPI_ERR_FILE);
  split_.reset();
  const Outcome kept = keep_written();
  if (mine.is_ok()) mine = kept;
  Outcome outcome = meet(kCall, {}, mine, Together::kAllOrNone);
  if ((amode_ & MPI_MODE_DELETE_ON_CLOSE) != 0 && meeting_->rank() == 0) {
    Outcome removed = named(kCall, path_, fs_->remove(path_));
    if (outcome.is_ok()) outcome = std::move(removed);
  }
  meeting_->adjourn(concat(kCall, " ", path_));
  trace::closed(this);
  return outcome;
}

void File::set_error_handler(MPI_Errhandler handler) {
  keep_handler(handler);
  error_handler_ = handler;
}

Outcome File::get_group(MPI_Group* group) const {
  return from_mpi(PMPI_Comm_group(meeting_->comm(), group), "MPI_File_get_group");
}

Outcome File::get_info(MPI_Info* info) const {
  const std::lock_guard lock(mutex_);
  Hints in_effect = hints_;
  in_effect.set("weir_collective", std::string(to_text(wanted_)));
  return in_effect.write(info);
}

// The layout of a file that exists stays, and so do hints that are not given anew; others are kept for who asks.
Outcome File::set_info(MPI_Info info) {
  {
    const std::lock_guard lock(mutex_);
    hints_.merge(usable(Hints::read(info), meeting_->rank() == 0));
    describe_layout(data_->layout(), hints_);
    wanted_ = wanted_method(hints_.get("weir_collective"));
  }
  return meet("MPI_File_set_info", {}, Outcome::ok(), Together::kEach);
}

Outcome File::get_size(Offset& size) {
  auto asked = data_->size();
  WEIR_PASS(named("MPI_File_get_size", path_, asked.status()));
  size = *asked;
  return Outcome::ok();
}

// A split collective access must be ended before.
Outcome File::check_nothing_begun(const char* call, int error_class) const {
  if (!split_) return Outcome::ok();
  return fail(error_class, call, " ", path_, ": ", split_->access.call, " has not been ended");
}

// One rank does it, after all have come and before any goes on.
Outcome File::change_size(const char* call, Offset size, Status (client::File::*change)(Offset) const) {
  Outcome mine = check_nothing_begun(call, MPI_ERR_IO);
  if (size < 0) mine = fail(MPI_ERR_ARG, call, " ", path_, ": the size is ", size);
  if ((amode_ & MPI_MODE_SEQUENTIAL) != 0) mine = check_not_sequential(call);
  if ((amode_ & MPI_MODE_RDONLY) != 0)
    mine = fail(MPI_ERR_READ_ONLY, call, " ", path_, ": it is open for reading only");
  finish_requests(*this);
  WEIR_PASS(meet(call, {{"size", concat(size)}}, mine, Together::kAllOrNone));
  if (meeting_->rank() == 0) mine = named(call, path_, ((*data_).*change)(size));
  known_size_ = 0;
  return meet(call, {}, mine, Together::kAllOrNone);
}

Outcome File::set_size(Offset size) { return change_size("MPI_File_set_size", size, &client::File::truncate); }
Outcome File::preallocate(Offset size) { return change_size("MPI_File_preallocate", size, &client::File::preallocate); }

Outcome File::sync() {
  constexpr const char* kCall = "MPI_File_sync";
  Outcome mine = check_nothing_begun(kCall, MPI_ERR_IO);
  if (mine.is_ok() && (amode_ & MPI_MODE_RDONLY) == 0) mine = named(kCall, path_, data_->sync());
  known_size_ = 0;
  return meet(kCall, {}, mine, Together::kEach);
}

Outcome File::set_atomicity(bool is_atomic) {
  finish_requests(*this);
  const bool before = is_atomic_.exchange(is_atomic);
  const Outcome outcome =
      meet("MPI_File_set_atomicity", {{"flag", is_atomic ? "true" : "false"}}, Outcome::ok(), Together::kEach);
  if (!outcome.is_ok()) is_atomic_ = before;
  return outcome;
}

Result<Offset> File::size_at_least(Offset wanted) {
  if (const Offset known = known_size_; known >= wanted) return known;
  WEIR_TRY(const Offset size, data_->size());
  grown_to(size);
  return size;
}

void File::grown_to(Offset end) {
  Offset known = known_size_;
  while (known < end && !known_size_.compare_exchange_weak(known, end)) {
  }
}

}  // namespace weir::mpiio::internal
