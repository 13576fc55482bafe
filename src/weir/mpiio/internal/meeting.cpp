#include <weir/mpiio/internal/meeting.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include <weir/base/ranks.h>
#include <weir/mpiio/internal/real.h>
#include <weir/mpiio/internal/running.h>

namespace weir::mpiio::internal {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNoticeTag = 1;
constexpr std::size_t kMaxShown = 160;  // characters of an argument in a message
constexpr int kLooksAtOthers = 64;      // at the request for each at what others tell

// FNV-1a; a clash would let a mistake pass that nobody makes on purpose.
std::uint64_t hash(std::uint64_t state, std::string_view text) {
  for (const char character : text) state = (state ^ static_cast<unsigned char>(character)) * 0x100000001b3u;
  return (state ^ 0xffu) * 0x100000001b3u;
}

constexpr std::uint64_t kHashStart = 0xcbf29ce484222325u;

std::uint64_t hash(const std::vector<Term>& terms) {
  std::uint64_t state = kHashStart;
  for (const Term& term : terms) state = hash(state, term.value);
  return state;
}

// What ranks meet in, to be told by a number.
constexpr std::array<std::string_view, 26> kCalls{
    "MPI_File_open",
    "MPI_File_close",
    "MPI_File_set_size",
    "MPI_File_preallocate",
    "MPI_File_set_info",
    "MPI_File_set_view",
    "MPI_File_set_atomicity",
    "MPI_File_sync",
    "MPI_File_seek_shared",
    "MPI_File_read_at_all",
    "MPI_File_write_at_all",
    "MPI_File_read_all",
    "MPI_File_write_all",
    "MPI_File_read_ordered",
    "MPI_File_write_ordered",
    "MPI_File_iread_at_all",
    "MPI_File_iwrite_at_all",
    "MPI_File_iread_all",
    "MPI_File_iwrite_all",
    "MPI_File_read_at_all_begin",
    "MPI_File_write_at_all_begin",
    "MPI_File_read_all_begin",
    "MPI_File_write_all_begin",
    "MPI_File_read_ordered_begin",
    "MPI_File_write_ordered_begin",
    "another call",
};

// Of "MPI_File_write_all_c /x" it is MPI_File_write_all: it is the same function, whatever type its counts have.
std::string_view function_of(std::string_view call) {
  const std::string_view name = call.substr(0, call.find(' '));
  return name.ends_with("_c") ? name.substr(0, name.size() - 2) : name;
}

std::uint64_t number_of(std::string_view call) {
  const auto found = std::find(kCalls.begin(), kCalls.end() - 1, function_of(call));
  return static_cast<std::uint64_t>(found - kCalls.begin());
}

}  // namespace

std::chrono::seconds longest_wait() {
  static const std::chrono::seconds limit = [] {
    const char* const text = std::getenv("WEIR_MPIIO_TIMEOUT");
    const long value = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
    return std::chrono::seconds(value > 0 ? value : 60);
  }();
  return limit;
}

// "I wait in this call", on its way to one rank.
struct Meeting::Notice {
  std::uint64_t call;
  MPI_Request request = MPI_REQUEST_NULL;
};

// What a reduction tells: the greatest of each word of all ranks.
struct Meeting::Exchange {
  // A value and its complement have complementary maxima only if all ranks have the same value.
  enum { kCall, kNotCall, kTerms, kNotTerms, kBad, kFlag, kDoesNotWait, kLast, kNotFirst, kCount };
  std::array<std::uint64_t, kCount> mine{};
  std::array<std::uint64_t, kCount> most{};

  int start(MPI_Comm comm, MPI_Request& request) {
    return PMPI_Iallreduce(mine.data(), most.data(), kCount, MPI_UINT64_T, MPI_MAX, comm, &request);
  }
  [[nodiscard]] bool is_same_call() const { return most[kCall] == ~most[kNotCall]; }
  [[nodiscard]] bool has_same_terms() const { return most[kTerms] == ~most[kNotTerms]; }
};

// For others to make a call.
struct Meeting::Waiting {
  Clock::time_point start;
  bool is_quiet = true;  // has not told that it waits
};

// A call that did not wait.
struct Meeting::Pending {
  std::shared_ptr<Arrival> arrival;
  std::string call;
  std::uint64_t number = 0;
  std::unique_ptr<Exchange> exchange;
  MPI_Request request = MPI_REQUEST_NULL;
  std::optional<Waiting> waiting;  // from the first look on
};

Result<std::unique_ptr<Meeting>> Meeting::convene(MPI_Comm parent, std::string_view call,
                                                  std::chrono::milliseconds quiet) {
  std::unique_ptr<Meeting> meeting(new Meeting);
  meeting->quiet_ = quiet;
  // On the heap: should the others not come, MPI writes here for ever.
  auto comm = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Comm_rank(parent, &meeting->rank_);
  PMPI_Comm_size(parent, &meeting->size_);
  meeting->heard_.resize(static_cast<std::size_t>(meeting->size_));
  meeting->received_.resize(static_cast<std::size_t>(meeting->size_));
  const Status status = meeting->await(std::string(call), PMPI_Comm_idup(parent, comm.get(), &request), request);
  if (!status.is_ok()) {
    static_cast<void>(comm.release());
    return status;
  }
  meeting->comm_ = *comm;
  PMPI_Comm_set_errhandler(meeting->comm_, MPI_ERRORS_RETURN);
  return meeting;
}

Meeting::~Meeting() {
  if (!is_mpi_running()) return;
  const std::lock_guard lock(mutex_);
  end_pending();
  for (auto& notice : notices_) {
    int is_done = 0;
    WEIR_REAL(MPI_Test)(&notice->request, &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0) static_cast<void>(notice.release());  // MPI may still read it
  }
}

void Meeting::adjourn(const std::string& call) {
  {
    const std::lock_guard lock(mutex_);
    end_pending();
    if (broken_ || !is_same_call_) return;
    is_adjourning_ = true;
  }
  if (size_ > 1) {
    const Result<std::vector<Offset>> announced = gather(call, std::span(&announced_, 1));
    if (!announced.is_ok()) return;
    const std::lock_guard lock(mutex_);
    const Clock::time_point deadline = Clock::now() + longest_wait();
    for (Backoff backoff; !has_received(*announced); backoff.pause()) {
      if (Clock::now() > deadline) return;
    }
  }
  PMPI_Comm_free(&comm_);
}

bool Meeting::has_received(const std::vector<Offset>& announced) {
  listen();
  for (int other = 0; other < size_; ++other) {
    const auto at = static_cast<std::size_t>(other);
    if (other != rank_ && received_[at] < announced[at]) return false;
  }
  return true;
}

Status Meeting::await(const std::string& call, int code, MPI_Request& request, Backoff backoff) {
  if (code != MPI_SUCCESS) return {ErrorCode::kIoError, from_mpi(code, call).message()};
  Waiting waiting{Clock::now()};
  for (int looks = 1;; ++looks) {
    int is_done = 0;
    const int result = WEIR_REAL(MPI_Test)(&request, &is_done, MPI_STATUS_IGNORE);
    if (result != MPI_SUCCESS) return {ErrorCode::kIoError, from_mpi(result, call).message()};
    if (is_done != 0) return Status::ok();
    backoff.pause();
    if (looks % kLooksAtOthers != 0) continue;
    const std::lock_guard lock(mutex_);
    look_after_pending();
    if (broken_) return {ErrorCode::kIoError, concat(call, ": an earlier call failed for good: ", broken_->message())};
    if (is_too_long(waiting, calls_)) {
      const Status late(ErrorCode::kTimedOut,
                        concat(call, ": ", missing(calls_), " did not come to this collective call within ",
                               longest_wait().count(), " s (WEIR_MPIIO_TIMEOUT)"));
      give_up(late);
      return late;
    }
  }
}

// After a while, tells the others.
bool Meeting::is_too_long(Waiting& waiting, std::uint64_t call) {
  const auto waited = Clock::now() - waiting.start;
  if (waiting.is_quiet && waited > std::min<Clock::duration>(quiet_, longest_wait() / 2)) {
    waiting.is_quiet = false;
    if (!is_adjourning_) announce(call);
  }
  if (!waiting.is_quiet) listen();
  return waited > longest_wait();
}

// In their order: that ranks differ in a later one ends those that are still there, and all ranks may have made the earlier ones.
void Meeting::look_after_pending() {
  while (!pending_.empty() && look_after(*pending_.front())) pending_.pop_front();
}

// Until none is left: in bounded time, with or without the others.
void Meeting::end_pending() {
  Backoff backoff;
  for (look_after_pending(); !pending_.empty(); look_after_pending()) backoff.pause();
}

// True when it is known that all ranks made the call.
bool Meeting::look_after(Pending& pending) {
  int is_done = 0;
  const int code = WEIR_REAL(MPI_Test)(&pending.request, &is_done, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) {
    give_up(from_mpi(code, pending.call));
    return false;
  }
  if (is_done != 0 && !pending.exchange->is_same_call()) {
    give_up(tell_difference(*pending.exchange));
    return false;
  }
  if (is_done != 0) {
    pending.arrival->outcome = Outcome::ok();
    return true;
  }
  if (!pending.waiting) pending.waiting = Waiting{Clock::now()};
  if (is_too_long(*pending.waiting, pending.number)) {
    give_up(fail(MPI_ERR_IO, pending.call, ": ", missing(pending.number),
                 " did not come to this collective call, or did not call MPI since, within ", longest_wait().count(),
                 " s (WEIR_MPIIO_TIMEOUT)"));
  }
  return false;
}

void Meeting::give_up(Outcome why) {
  if (!broken_) broken_ = std::move(why);
  for (const auto& pending : pending_) {
    pending->arrival->outcome = broken_;
    static_cast<void>(pending->exchange.release());  // MPI may still use it
  }
  pending_.clear();
}

void Meeting::announce(std::uint64_t call) {
  if (comm_ == MPI_COMM_NULL) return;
  ++announced_;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    auto notice = std::make_unique<Notice>(Notice{call, MPI_REQUEST_NULL});
    PMPI_Isend(&notice->call, 1, MPI_UINT64_T, other, kNoticeTag, comm_, &notice->request);
    notices_.push_back(std::move(notice));
  }
}

void Meeting::listen() {
  if (comm_ == MPI_COMM_NULL) return;
  for (;;) {
    int is_there = 0;
    MPI_Status status;
    if (PMPI_Iprobe(MPI_ANY_SOURCE, kNoticeTag, comm_, &is_there, &status) != MPI_SUCCESS || is_there == 0) return;
    std::uint64_t call = 0;
    PMPI_Recv(&call, 1, MPI_UINT64_T, status.MPI_SOURCE, kNoticeTag, comm_, MPI_STATUS_IGNORE);
    const auto other = static_cast<std::size_t>(status.MPI_SOURCE);
    heard_[other] = std::max(heard_[other], call);
    ++received_[other];
  }
}

std::string Meeting::missing(std::uint64_t call) const {
  std::vector<int> ranks;
  for (int other = 0; other < size_; ++other) {
    if (other != rank_ && heard_[static_cast<std::size_t>(other)] < call) ranks.push_back(other);
  }
  if (ranks.empty() || comm_ == MPI_COMM_NULL) return "some rank";
  return concat(ranks.size() == 1 ? "rank " : "ranks ", list_ranks(ranks));
}

Outcome Meeting::tell_difference(const Exchange& exchange) const {
  const auto tell = [](std::uint64_t word) { return concat("rank ", word & 0xffffffffu, " ", kCalls[word >> 32]); };
  return fail(MPI_ERR_NOT_SAME, "ranks make different collective calls: ", tell(~exchange.most[Exchange::kNotFirst]),
              ", ", tell(exchange.most[Exchange::kLast]));
}

std::unique_ptr<Meeting::Exchange> Meeting::exchange_of(const std::string& call, const std::vector<Term>& terms) const {
  auto exchange = std::make_unique<Exchange>();
  auto& mine = exchange->mine;
  const std::string_view function = function_of(call);
  mine[Exchange::kCall] = hash(hash(kHashStart ^ calls_, function), std::string_view(call).substr(call.find(' ') + 1));
  mine[Exchange::kLast] = number_of(call) << 32 | static_cast<std::uint32_t>(rank_);
  mine[Exchange::kNotFirst] = ~mine[Exchange::kLast];
  mine[Exchange::kTerms] = hash(terms);
  mine[Exchange::kNotCall] = ~mine[Exchange::kCall];
  mine[Exchange::kNotTerms] = ~mine[Exchange::kTerms];
  return exchange;
}

Outcome Meeting::arrive(const std::string& call, std::shared_ptr<Arrival>& arrival) {
  const std::lock_guard lock(mutex_);
  if (broken_) return fail(MPI_ERR_IO, call, ": an earlier call failed for good: ", broken_->message());
  ++calls_;
  arrival = std::make_shared<Arrival>();
  if (size_ == 1) {
    arrival->outcome = Outcome::ok();
    return Outcome::ok();
  }
  auto pending = std::make_unique<Pending>();
  pending->arrival = arrival;
  pending->call = call;
  pending->number = calls_;
  pending->exchange = exchange_of(call, {});
  pending->exchange->mine[Exchange::kDoesNotWait] = 1;
  const Outcome started = from_mpi(pending->exchange->start(comm_, pending->request), call);
  if (started.is_ok()) pending_.push_back(std::move(pending));
  return started;
}

bool Meeting::test(const Arrival& arrival) {
  const std::lock_guard lock(mutex_);
  if (!arrival.outcome) look_after_pending();
  return arrival.outcome.has_value();
}

Outcome Meeting::meet(const std::string& call, const std::vector<Term>& terms, const Outcome& mine, Together together,
                      bool* flag) {
  {
    const std::lock_guard lock(mutex_);
    if (broken_) return fail(MPI_ERR_IO, call, ": an earlier call failed for good: ", broken_->message());
  }
  ++calls_;
  if (size_ == 1) return mine;
  auto exchange = exchange_of(call, terms);
  exchange->mine[Exchange::kBad] = mine.is_ok() ? 0 : 1;
  exchange->mine[Exchange::kFlag] = flag != nullptr && *flag ? 1 : 0;
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call, exchange->start(comm_, request), request);
  if (!status.is_ok()) {
    static_cast<void>(exchange.release());  // MPI may still use it
    return status;
  }
  const auto& most = exchange->most;
  is_same_call_ = exchange->is_same_call();
  if (!exchange->is_same_call() && most[Exchange::kDoesNotWait] != 0) {
    const std::lock_guard lock(mutex_);
    end_pending();
    give_up(tell_difference(*exchange));
    return *broken_;
  }
  if (exchange->is_same_call() && most[Exchange::kBad] != 0 && together == Together::kAllOrNone) {
    return share_error(call, mine);
  }
  if (!exchange->is_same_call() || !exchange->has_same_terms()) return explain_difference(call, terms);
  if (flag != nullptr) *flag = most[Exchange::kFlag] != 0;
  return mine;
}

Outcome Meeting::explain_difference(const std::string& call, const std::vector<Term>& terms) {
  WEIR_TRY(const std::vector<std::string> calls,
           gather(call, concat(function_of(call), " (call ", calls_, " on this file)")));
  const std::string other_calls = describe_difference(calls, kMaxShown);
  if (!other_calls.empty()) return fail(MPI_ERR_NOT_SAME, "ranks make different collective calls: ", other_calls);
  std::string differences;
  for (const Term& term : terms) {
    WEIR_TRY(const std::vector<std::string> values, gather(call, term.value));
    const std::string difference = describe_difference(values, kMaxShown);
    if (!difference.empty()) differences += concat(' ', term.name, ": ", difference, '.');
  }
  return fail(MPI_ERR_NOT_SAME, call, ": ranks pass different arguments:", differences, " All must pass the same");
}

// The error of the lowest rank that has one, to those that have none.
Outcome Meeting::share_error(const std::string& call, const Outcome& mine) {
  const std::string text = mine.is_ok() ? std::string() : concat(mine.error_class(), ' ', mine.message());
  WEIR_TRY(const std::vector<std::string> texts, gather(call, text));
  if (!mine.is_ok()) return mine;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) continue;
    const std::size_t blank = texts[i].find(' ');
    return fail(std::atoi(texts[i].c_str()), "on rank ", i, ": ", texts[i].substr(blank + 1));
  }
  return Outcome::ok();
}

Result<std::vector<std::string>> Meeting::gather(const std::string& call, const std::string& mine) {
  struct Texts {
    std::string mine;
    int length = 0;
    std::vector<int> lengths, starts;
    std::string all;
  };
  const auto ranks = static_cast<std::size_t>(size_);
  auto exchange = std::make_unique<Texts>();
  Texts& x = *exchange;
  x.mine = mine;
  x.length = static_cast<int>(mine.size());
  x.lengths.resize(ranks);
  x.starts.resize(ranks);
  MPI_Request request = MPI_REQUEST_NULL;
  Status status =
      await(call, PMPI_Iallgather(&x.length, 1, MPI_INT, x.lengths.data(), 1, MPI_INT, comm_, &request), request);
  if (status.is_ok()) {
    std::exclusive_scan(x.lengths.begin(), x.lengths.end(), x.starts.begin(), 0);
    x.all.resize(static_cast<std::size_t>(x.starts.back() + x.lengths.back()));
    status = await(call,
                   PMPI_Iallgatherv(x.mine.data(), x.length, MPI_CHAR, x.all.data(), x.lengths.data(), x.starts.data(),
                                    MPI_CHAR, comm_, &request),
                   request);
  }
  if (!status.is_ok()) {
    static_cast<void>(exchange.release());
    return status;
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i) {
    texts.push_back(x.all.substr(static_cast<std::size_t>(x.starts[i]), static_cast<std::size_t>(x.lengths[i])));
  }
  return texts;
}

Result<std::vector<Offset>> Meeting::gather(const std::string& call, std::span<const Offset> mine) {
  struct Numbers {
    std::vector<Offset> mine, all;
  };
  auto exchange = std::make_unique<Numbers>();
  exchange->mine.assign(mine.begin(), mine.end());
  exchange->all.resize(mine.size() * static_cast<std::size_t>(size_));
  const int count = static_cast<int>(mine.size());
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call,
                              PMPI_Iallgather(exchange->mine.data(), count, MPI_INT64_T, exchange->all.data(), count,
                                              MPI_INT64_T, comm_, &request),
                              request);
  if (!status.is_ok()) {
    static_cast<void>(exchange.release());
    return status;
  }
  return std::move(exchange->all);
}

Status Meeting::exchange(const std::string& call, const Parcels& out, const Parcels& in) {
  auto both = std::make_unique<std::array<Parcels, 2>>(std::array<Parcels, 2>{out, in});
  const Parcels& from = (*both)[0];
  const Parcels& to = (*both)[1];
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call,
                              PMPI_Ialltoallv(from.data, from.counts.data(), from.starts.data(), MPI_BYTE, to.data,
                                              to.counts.data(), to.starts.data(), MPI_BYTE, comm_, &request),
                              request, Backoff(Backoff::kBytes));
  if (!status.is_ok()) static_cast<void>(both.release());
  return status;
}

Result<Offset> Meeting::sum_below(const std::string& call, Offset value) {
  auto exchange = std::make_unique<std::array<Offset, 2>>(std::array<Offset, 2>{value, 0});
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(
      call, PMPI_Iexscan(exchange->data(), exchange->data() + 1, 1, MPI_INT64_T, MPI_SUM, comm_, &request), request);
  if (!status.is_ok()) {
    static_cast<void>(exchange.release());
    return status;
  }
  return rank_ == 0 ? 0 : (*exchange)[1];
}

Result<Offset> Meeting::value_of(const std::string& call, int root, Offset value) {
  auto exchange = std::make_unique<Offset>(value);
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call, PMPI_Ibcast(exchange.get(), 1, MPI_INT64_T, root, comm_, &request), request);
  if (!status.is_ok()) {
    static_cast<void>(exchange.release());
    return status;
  }
  return *exchange;
}

}  // namespace weir::mpiio::internal
