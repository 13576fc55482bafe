#include <weir/mpiio/internal/meeting.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <thread>

#include <weir/base/ranks.h>
#include <weir/mpiio/internal/real.h>
#include <weir/mpiio/internal/running.h>

namespace weir::mpiio::internal {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNoticeTag = 1;
constexpr std::size_t kMaxShown = 160;  // characters of an argument in a message
constexpr std::chrono::milliseconds kQuiet{500};

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

Result<std::unique_ptr<Meeting>> Meeting::convene(MPI_Comm parent, std::string_view call) {
  std::unique_ptr<Meeting> meeting(new Meeting);
  // On the heap: should the others not come, MPI writes here for ever.
  auto comm = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Comm_rank(parent, &meeting->rank_);
  PMPI_Comm_size(parent, &meeting->size_);
  meeting->heard_.resize(static_cast<std::size_t>(meeting->size_));
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
  if (comm_ == MPI_COMM_NULL || !is_mpi_running()) return;
  listen();
  if (broken_.empty()) PMPI_Comm_free(&comm_);
  for (auto& notice : notices_) {
    int is_done = 0;
    WEIR_REAL(MPI_Test)(&notice->request, &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0) static_cast<void>(notice.release());  // MPI may still read it
  }
}

Status Meeting::await(const std::string& call, int code, MPI_Request& request) {
  if (code != MPI_SUCCESS) return {ErrorCode::kIoError, from_mpi(code, call).message()};
  const auto start = Clock::now();
  bool is_quiet = true;
  for (int looks = 0;; ++looks) {
    int is_done = 0;
    const int result = WEIR_REAL(MPI_Test)(&request, &is_done, MPI_STATUS_IGNORE);
    if (result != MPI_SUCCESS) return {ErrorCode::kIoError, from_mpi(result, call).message()};
    if (is_done != 0) return Status::ok();
    if (looks < 16) continue;  // then give the processor away: it may be what the others wait for
    std::this_thread::yield();
    if (looks % 64 != 0) continue;
    const auto waited = Clock::now() - start;
    if (is_quiet && waited > std::min<Clock::duration>(kQuiet, longest_wait() / 2)) {
      is_quiet = false;
      announce();
    }
    if (!is_quiet) listen();
    if (waited > longest_wait()) {
      broken_ = concat(call, ": ", missing(), " did not come to this collective call within ", longest_wait().count(),
                       " s (WEIR_MPIIO_TIMEOUT)");
      return {ErrorCode::kTimedOut, broken_};
    }
  }
}

void Meeting::announce() {
  if (comm_ == MPI_COMM_NULL) return;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    auto notice = std::make_unique<Notice>(Notice{calls_, MPI_REQUEST_NULL});
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
    auto& heard = heard_[static_cast<std::size_t>(status.MPI_SOURCE)];
    heard = std::max(heard, call);
  }
}

std::string Meeting::missing() const {
  std::vector<int> ranks;
  for (int other = 0; other < size_; ++other) {
    if (other != rank_ && heard_[static_cast<std::size_t>(other)] < calls_) ranks.push_back(other);
  }
  if (ranks.empty() || comm_ == MPI_COMM_NULL) return "some rank";
  return concat(ranks.size() == 1 ? "rank " : "ranks ", list_ranks(ranks));
}

Outcome Meeting::meet(const std::string& call, const std::vector<Term>& terms, const Outcome& mine, Together together,
                      bool* flag) {
  if (!broken_.empty()) return fail(MPI_ERR_IO, call, ": an earlier call failed for good: ", broken_);
  ++calls_;
  if (size_ == 1) return mine;
  // A value and its complement have complementary maxima only if all ranks have the same value.
  enum { kCall, kNotCall, kTerms, kNotTerms, kBad, kFlag, kCount };
  struct Exchange {
    std::array<std::uint64_t, kCount> mine;
    std::array<std::uint64_t, kCount> most;
  };
  const std::uint64_t call_hash = hash(kHashStart ^ calls_, call);
  const std::uint64_t terms_hash = hash(terms);
  auto exchange = std::make_unique<Exchange>();
  exchange->mine = {
      call_hash, ~call_hash, terms_hash, ~terms_hash, mine.is_ok() ? 0u : 1u, flag != nullptr && *flag ? 1u : 0u};
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(
      call,
      PMPI_Iallreduce(exchange->mine.data(), exchange->most.data(), kCount, MPI_UINT64_T, MPI_MAX, comm_, &request),
      request);
  if (!status.is_ok()) {
    static_cast<void>(exchange.release());  // MPI may still use it
    return status;
  }
  const auto& most = exchange->most;
  const bool is_same_call = most[kCall] == ~most[kNotCall];
  if (is_same_call && most[kBad] != 0 && together == Together::kAllOrNone) return share_error(call, mine);
  if (!is_same_call || most[kTerms] != ~most[kNotTerms]) return explain_difference(call, terms);
  if (flag != nullptr) *flag = most[kFlag] != 0;
  return mine;
}

Outcome Meeting::explain_difference(const std::string& call, const std::vector<Term>& terms) {
  WEIR_TRY(const std::vector<std::string> calls, gather(call, concat(call, " (call ", calls_, " on this file)")));
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
  struct Exchange {
    std::string mine;
    int length = 0;
    std::vector<int> lengths, starts;
    std::string all;
  };
  const auto ranks = static_cast<std::size_t>(size_);
  auto exchange = std::make_unique<Exchange>();
  Exchange& x = *exchange;
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
