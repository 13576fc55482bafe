#include <weir/group/group.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include <weir/base/hash.h>
#include <weir/base/ranks.h>
#include <weir/base/text.h>

namespace weir::group {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNoticeTag = 1;
constexpr std::size_t kMaxShown = 160;  // characters of an argument in a message

// What of a value is told to the others: all of it may be megabytes on each of thousands of ranks.
std::string abstract_of(const std::string& value) {
  if (value.size() <= kMaxShown) return value;
  return concat(std::string_view(value).substr(0, kMaxShown), "... (", value.size(), " characters, hash ",
                weir::hash_of(value), ')');
}

// \returns `status`, after leaving to MPI what it may still use.
template <typename Memory>
Status abandon(std::unique_ptr<Memory>& memory, Status status) {
  static_cast<void>(memory.release());
  return status;
}

}  // namespace

std::uint64_t hash_of(const std::vector<Term>& terms) noexcept {
  std::uint64_t state = 0;
  for (const Term& term : terms) state = weir::hash_of(term.value, state);
  return state;
}

// "I wait in this round", on its way to one rank.
struct Group::Notice {
  std::uint64_t round;
  MPI_Request request = MPI_REQUEST_NULL;
};

struct Group::Words {
  std::array<std::uint64_t, kMaxWords> mine{};
  std::array<std::uint64_t, kMaxWords> most{};
};

// For others to make a call.
struct Group::Waiting {
  Clock::time_point start = Clock::now();
  bool is_quiet = true;  // has not told that it waits
};

Group::Group(const Options& options) : options_(options), words_(std::make_unique<Words>()) {}
Group::Group(Group&&) noexcept = default;

Result<Group> Group::duplicate(MPI_Comm parent, std::string_view call, const Options& options) {
  if (!is_mpi_running()) {
    return invalid_argument(concat(call, ": MPI is not running: call MPI_Init before and MPI_Finalize after"));
  }
  if (parent == MPI_COMM_NULL) return invalid_argument(concat(call, ": the communicator is MPI_COMM_NULL"));
  int is_inter = 0;
  WEIR_RETURN_IF_ERROR(check_mpi(PMPI_Comm_test_inter(parent, &is_inter), call));
  if (is_inter != 0) {
    return invalid_argument(concat(call, ": the communicator joins two groups: merge them with MPI_Intercomm_merge"));
  }
  Group group(options);
  WEIR_RETURN_IF_ERROR(check_mpi(PMPI_Comm_rank(parent, &group.rank_), call));
  WEIR_RETURN_IF_ERROR(check_mpi(PMPI_Comm_size(parent, &group.size_), call));
  group.heard_.resize(static_cast<std::size_t>(group.size_));
  group.received_.resize(static_cast<std::size_t>(group.size_));
  // On the heap: should the others not come, MPI writes here for ever.
  auto comm = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = group.await(call, PMPI_Comm_idup(parent, comm.get(), &request), request);
  if (!status.is_ok()) return abandon(comm, status);
  group.comm_ = std::move(comm);
  WEIR_RETURN_IF_ERROR(check_mpi(PMPI_Comm_set_errhandler(*group.comm_, MPI_ERRORS_RETURN), call));
  return group;
}

Group::~Group() {
  if (!is_mpi_running()) return;
  for (auto& notice : notices_) {
    int is_done = 0;
    options_.test(&notice->request, &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0) static_cast<void>(notice.release());  // MPI may still read it
  }
  if (options_.limit.count() == 0 && comm() != MPI_COMM_NULL) PMPI_Comm_free(comm_.get());
}

void Group::leave(std::string_view call) {
  if (is_broken()) return;
  is_leaving_ = true;
  if (size_ > 1) {
    const Result<std::vector<Offset>> announced = gather(call, std::span(&announced_, 1));
    if (!announced.is_ok()) return;
    const Clock::time_point deadline = Clock::now() + options_.limit;
    for (Backoff backoff; !has_received(*announced); backoff.pause()) {
      if (Clock::now() > deadline) return;
    }
  }
  PMPI_Comm_free(comm_.get());
}

bool Group::has_received(const std::vector<Offset>& announced) {
  listen();
  for (int other = 0; other < size_; ++other) {
    const auto at = static_cast<std::size_t>(other);
    if (other != rank_ && received_[at] < announced[at]) return false;
  }
  return true;
}

Status Group::await(std::string_view call, int code, MPI_Request& request, std::chrono::microseconds awake) {
  Wait wait{awake, {}, options_.test};
  Waiting waiting;
  if (options_.limit.count() > 0) wait.is_too_long = [this, &waiting] { return is_too_long(waiting); };
  Status status = group::await(call, code, request, wait);
  if (status.code() != ErrorCode::kTimedOut) return status;
  why_broken_ = concat(call, ": ", missing(), " did not come to this collective call within ", options_.limit.count(),
                       " s (", options_.limit_name, ')');
  return {ErrorCode::kTimedOut, why_broken_};
}

// After a while, tells the others.
bool Group::is_too_long(Waiting& waiting) {
  const auto waited = Clock::now() - waiting.start;
  if (waiting.is_quiet && waited > std::min<Clock::duration>(options_.quiet, options_.limit / 2)) {
    waiting.is_quiet = false;
    if (!is_leaving_) announce();
  }
  if (!waiting.is_quiet) listen();
  return waited > options_.limit;
}

void Group::announce() {
  if (!comm_) return;
  ++announced_;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    auto notice = std::make_unique<Notice>(Notice{round_, MPI_REQUEST_NULL});
    PMPI_Isend(&notice->round, 1, MPI_UINT64_T, other, kNoticeTag, *comm_, &notice->request);
    notices_.push_back(std::move(notice));
  }
}

void Group::listen() {
  if (!comm_) return;
  for (;;) {
    int is_there = 0;
    MPI_Status status;
    if (PMPI_Iprobe(MPI_ANY_SOURCE, kNoticeTag, *comm_, &is_there, &status) != MPI_SUCCESS || is_there == 0) return;
    std::uint64_t round = 0;
    PMPI_Recv(&round, 1, MPI_UINT64_T, status.MPI_SOURCE, kNoticeTag, *comm_, MPI_STATUS_IGNORE);
    const auto other = static_cast<std::size_t>(status.MPI_SOURCE);
    heard_[other] = std::max(heard_[other], round);
    ++received_[other];
  }
}

std::string Group::missing() const {
  std::vector<int> ranks;
  for (int other = 0; other < size_; ++other) {
    if (other != rank_ && heard_[static_cast<std::size_t>(other)] < round_) ranks.push_back(other);
  }
  if (ranks.empty() || !comm_) return "some rank";
  return concat(ranks.size() == 1 ? "rank " : "ranks ", list_ranks(ranks));
}

Status Group::greatest(std::string_view call, std::span<std::uint64_t> words) {
  if (is_broken()) return {ErrorCode::kTimedOut, concat(call, ": an earlier call failed for good: ", why_broken_)};
  assert(words.size() <= kMaxWords);
  ++round_;
  std::copy(words.begin(), words.end(), words_->mine.begin());
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call,
                              PMPI_Iallreduce(words_->mine.data(), words_->most.data(), static_cast<int>(words.size()),
                                              MPI_UINT64_T, MPI_MAX, *comm_, &request),
                              request);
  if (!status.is_ok()) {
    static_cast<void>(abandon(words_, status));
    words_ = std::make_unique<Words>();
    return status;
  }
  std::copy_n(words_->most.begin(), words.size(), words.begin());
  return Status::ok();
}

Result<Failure> Group::failure_of(std::string_view call, std::uint64_t greatest_blame, const Failure& mine) {
  const int first = size_ - static_cast<int>(greatest_blame);
  WEIR_TRY(const std::string text, bytes_of(call, first, concat(mine.code, ' ', mine.message)));
  return Failure{std::atoi(text.c_str()), concat("on rank ", first, ": ", text.substr(text.find(' ') + 1))};
}

Result<std::string> Group::differences(std::string_view call, const std::vector<Term>& terms) {
  std::string text;
  for (const Term& term : terms) {
    WEIR_TRY(const std::vector<std::string> values, gather(call, abstract_of(term.value)));
    const std::string difference = describe_difference(values);
    if (!difference.empty()) text += concat(' ', term.name, ": ", difference, '.');
  }
  return text;
}

Result<std::vector<std::string>> Group::gather(std::string_view call, const std::string& mine) {
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
      await(call, PMPI_Iallgather(&x.length, 1, MPI_INT, x.lengths.data(), 1, MPI_INT, *comm_, &request), request);
  if (status.is_ok()) {
    std::exclusive_scan(x.lengths.begin(), x.lengths.end(), x.starts.begin(), 0);
    x.all.resize(static_cast<std::size_t>(x.starts.back() + x.lengths.back()));
    status = await(call,
                   PMPI_Iallgatherv(x.mine.data(), x.length, MPI_CHAR, x.all.data(), x.lengths.data(), x.starts.data(),
                                    MPI_CHAR, *comm_, &request),
                   request);
  }
  if (!status.is_ok()) return abandon(exchange, status);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i) {
    texts.push_back(x.all.substr(static_cast<std::size_t>(x.starts[i]), static_cast<std::size_t>(x.lengths[i])));
  }
  return texts;
}

Result<std::vector<Offset>> Group::gather(std::string_view call, std::span<const Offset> mine) {
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
                                              MPI_INT64_T, *comm_, &request),
                              request);
  if (!status.is_ok()) return abandon(exchange, status);
  return std::move(exchange->all);
}

Status Group::exchange(std::string_view call, const RankBuffers& out, const RankBuffers& in) {
  auto both = std::make_unique<std::array<RankBuffers, 2>>(std::array<RankBuffers, 2>{out, in});
  const RankBuffers& from = (*both)[0];
  const RankBuffers& to = (*both)[1];
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call,
                              PMPI_Ialltoallv(from.data, from.counts.data(), from.starts.data(), MPI_BYTE, to.data,
                                              to.counts.data(), to.starts.data(), MPI_BYTE, *comm_, &request),
                              request, Backoff::kBytes);
  return status.is_ok() ? status : abandon(both, status);
}

Result<Offset> Group::sum_below(std::string_view call, Offset value) {
  auto exchange = std::make_unique<std::array<Offset, 2>>(std::array<Offset, 2>{value, 0});
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(
      call, PMPI_Iexscan(exchange->data(), exchange->data() + 1, 1, MPI_INT64_T, MPI_SUM, *comm_, &request), request);
  if (!status.is_ok()) return abandon(exchange, status);
  return rank_ == 0 ? 0 : (*exchange)[1];
}

Result<Offset> Group::value_of(std::string_view call, int root, Offset value) {
  auto exchange = std::make_unique<Offset>(value);
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call, PMPI_Ibcast(exchange.get(), 1, MPI_INT64_T, root, *comm_, &request), request);
  if (!status.is_ok()) return abandon(exchange, status);
  return *exchange;
}

Result<std::string> Group::bytes_of(std::string_view call, int root, std::string mine) {
  if (size_ == 1) return mine;
  // Most are short: length and bytes in one go.
  struct Bytes {
    std::array<char, 1024> first{};
    std::string all;
  };
  auto exchange = std::make_unique<Bytes>();
  auto& [first, all] = *exchange;
  std::uint64_t length = mine.size();
  const auto at_once = [&] { return std::min<std::size_t>(length, first.size() - sizeof length); };
  if (rank_ == root) {
    all = std::move(mine);
    std::memcpy(first.data(), &length, sizeof length);
    all.copy(first.data() + sizeof length, at_once());
  }
  MPI_Request request = MPI_REQUEST_NULL;
  const int first_bytes = static_cast<int>(first.size());
  Status status = await(call, PMPI_Ibcast(first.data(), first_bytes, MPI_CHAR, root, *comm_, &request), request);
  if (status.is_ok()) {
    std::memcpy(&length, first.data(), sizeof length);
    if (rank_ != root) {
      all.assign(first.data() + sizeof length, at_once());
      all.resize(length);
    }
    const std::size_t done = at_once();
    if (done < length) {
      const int rest = static_cast<int>(length - done);
      status = await(call, PMPI_Ibcast(all.data() + done, rest, MPI_CHAR, root, *comm_, &request), request);
    }
  }
  if (!status.is_ok()) return abandon(exchange, status);
  return std::move(all);
}

}  // namespace weir::group
