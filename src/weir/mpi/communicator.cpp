#include <weir/mpi/communicator.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <numeric>

#include <weir/base/text.h>

namespace weir::mpi {

namespace {

constexpr int kNoticeTag = 1;

// So that numbers with a sign are in the order that these have without: MPICH 4.0 compares MPI_UINT64_T, and Open MPI 4.1
// MPI_UNSIGNED_LONG, as if the highest bit were a sign.
std::uint64_t with_other_sign(std::uint64_t word) { return word ^ (std::uint64_t{1} << 63); }

// \returns `status`, after leaving to MPI what it may still use.
template <typename Memory>
Status abandon(std::unique_ptr<Memory>& memory, Status status) {
  static_cast<void>(memory.release());
  return status;
}

}  // namespace

// "I wait in this round", on its way to one rank.
struct Communicator::Notice {
  std::uint64_t round;
  MPI_Request request = MPI_REQUEST_NULL;
};

struct Communicator::Words {
  std::array<std::uint64_t, kMaxWords> mine{};
  std::array<std::uint64_t, kMaxWords> most{};
};

// For others to make a call.
struct Communicator::Waiting {
  runtime::TimePoint start;
  bool is_quiet = true;  // has not told that it waits
};

Communicator::Communicator(const CommunicatorOptions& options) : options_(options), words_(std::make_unique<Words>()) {}
Communicator::Communicator(Communicator&&) noexcept = default;

Result<Communicator> Communicator::duplicate(MPI_Comm parent, std::string_view call,
                                             const CommunicatorOptions& options) {
  if (!is_mpi_running()) {
    return invalid_argument(concat(call, ": MPI is not running: call MPI_Init before and MPI_Finalize after"));
  }
  if (parent == MPI_COMM_NULL) return invalid_argument(concat(call, ": the communicator is MPI_COMM_NULL"));
  int is_inter = 0;
  WEIR_RETURN_IF_ERROR(check_mpi(PMPI_Comm_test_inter(parent, &is_inter), call));
  if (is_inter != 0) {
    return invalid_argument(concat(call, ": the communicator joins two groups: merge them with MPI_Intercomm_merge"));
  }
  Communicator made(options);
  WEIR_RETURN_IF_ERROR(check_mpi(PMPI_Comm_rank(parent, &made.rank_), call));
  WEIR_RETURN_IF_ERROR(check_mpi(PMPI_Comm_size(parent, &made.size_), call));
  made.heard_.resize(static_cast<std::size_t>(made.size_));
  made.received_.resize(static_cast<std::size_t>(made.size_));
  // On the heap: should the others not come, MPI writes here for ever.
  auto comm = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = made.await(call, PMPI_Comm_idup(parent, comm.get(), &request), request);
  if (!status.is_ok()) return abandon(comm, status);
  made.comm_ = std::move(comm);
  WEIR_RETURN_IF_ERROR(check_mpi(PMPI_Comm_set_errhandler(*made.comm_, MPI_ERRORS_RETURN), call));
  return made;
}

Communicator::~Communicator() {
  if (!is_mpi_running()) return;
  for (auto& notice : notices_) {
    int is_done = 0;
    options_.test(&notice->request, &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0) static_cast<void>(notice.release());  // MPI may still read it
  }
  if (options_.limit.time.count() == 0 && comm() != MPI_COMM_NULL) PMPI_Comm_free(comm_.get());
}

void Communicator::leave(std::string_view call) {
  if (is_broken()) return;
  is_leaving_ = true;
  if (size_ > 1) {
    const Result<std::vector<Offset>> announced = gather(call, std::span(&announced_, 1));
    if (!announced.is_ok()) return;
    const runtime::TimePoint deadline = options_.clock->now() + options_.limit.time;
    for (Backoff backoff; !has_received(*announced); backoff.pause()) {
      if (options_.clock->now() > deadline) return;
    }
  }
  PMPI_Comm_free(comm_.get());
}

bool Communicator::has_received(const std::vector<Offset>& announced) {
  listen();
  for (int other = 0; other < size_; ++other) {
    const auto at = static_cast<std::size_t>(other);
    if (other != rank_ && received_[at] < announced[at]) return false;
  }
  return true;
}

Status Communicator::await(std::string_view call, int code, MPI_Request& request, std::chrono::microseconds awake) {
  Wait wait{awake, {}, options_.test};
  Waiting waiting{.start = {}};
  if (options_.limit.time.count() > 0) {
    waiting.start = options_.clock->now();
    wait.is_too_long = [this, &waiting] { return is_too_long(waiting); };
  }
  Status status = mpi::await(call, code, request, wait);
  if (status.code() != ErrorCode::kTimedOut) return status;
  return break_by(call, missing(), options_.limit);
}

Communicator::Watch::Watch(Communicator& communicator, std::string_view call)
    : communicator_(communicator), call_(call) {}
Communicator::Watch::~Watch() = default;

Status Communicator::Watch::look() {
  if (communicator_.options_.limit.time.count() == 0) return Status::ok();
  if (!waiting_) waiting_ = std::make_unique<Waiting>(Waiting{communicator_.options_.clock->now()});
  if (!communicator_.is_too_long(*waiting_)) return Status::ok();
  return communicator_.break_by(call_, communicator_.missing(), communicator_.options_.limit);
}

// After a while, tells the others.
bool Communicator::is_too_long(Waiting& waiting) {
  const auto waited = options_.clock->now() - waiting.start;
  if (waiting.is_quiet && waited > std::min<runtime::Duration>(options_.quiet, options_.limit.time / 2)) {
    waiting.is_quiet = false;
    if (!is_leaving_) announce();
  }
  if (!waiting.is_quiet) listen();
  return waited > options_.limit.time;
}

void Communicator::announce() {
  if (!comm_) return;
  ++announced_;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    auto notice = std::make_unique<Notice>(Notice{round_, MPI_REQUEST_NULL});
    PMPI_Isend(&notice->round, 1, MPI_UINT64_T, other, kNoticeTag, *comm_, &notice->request);
    notices_.push_back(std::move(notice));
  }
}

void Communicator::listen() {
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

std::string Communicator::missing() const {
  std::vector<int> ranks;
  for (int other = 0; other < size_; ++other) {
    if (other != rank_ && heard_[static_cast<std::size_t>(other)] < round_) ranks.push_back(other);
  }
  if (ranks.empty() || !comm_) return "some rank";
  return group::name_ranks(ranks);
}

Status Communicator::greatest(std::string_view call, std::span<std::uint64_t> words) {
  if (is_broken()) return broken(call);
  assert(words.size() <= kMaxWords);
  ++round_;
  std::transform(words.begin(), words.end(), words_->mine.begin(), with_other_sign);
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call,
                              PMPI_Iallreduce(words_->mine.data(), words_->most.data(), static_cast<int>(words.size()),
                                              MPI_INT64_T, MPI_MAX, *comm_, &request),
                              request);
  if (!status.is_ok()) {
    static_cast<void>(abandon(words_, status));
    words_ = std::make_unique<Words>();
    return status;
  }
  std::transform(words_->most.begin(), words_->most.begin() + static_cast<std::ptrdiff_t>(words.size()), words.begin(),
                 with_other_sign);
  return Status::ok();
}

Result<std::vector<std::string>> Communicator::gather(std::string_view call, const std::string& mine) {
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

Result<std::vector<Offset>> Communicator::gather(std::string_view call, std::span<const Offset> mine) {
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

Status Communicator::exchange(std::string_view call, const group::RankBuffers& out, const group::RankBuffers& in) {
  auto both = std::make_unique<std::array<group::RankBuffers, 2>>(std::array<group::RankBuffers, 2>{out, in});
  const group::RankBuffers& from = (*both)[0];
  const group::RankBuffers& to = (*both)[1];
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call,
                              PMPI_Ialltoallv(from.data, from.counts.data(), from.starts.data(), MPI_BYTE, to.data,
                                              to.counts.data(), to.starts.data(), MPI_BYTE, *comm_, &request),
                              request, Backoff::kBytes);
  return status.is_ok() ? status : abandon(both, status);
}

Result<Offset> Communicator::sum_below(std::string_view call, Offset value) {
  auto exchange = std::make_unique<std::array<Offset, 2>>(std::array<Offset, 2>{value, 0});
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(
      call, PMPI_Iexscan(exchange->data(), exchange->data() + 1, 1, MPI_INT64_T, MPI_SUM, *comm_, &request), request);
  if (!status.is_ok()) return abandon(exchange, status);
  return rank_ == 0 ? 0 : (*exchange)[1];
}

Result<Offset> Communicator::value_of(std::string_view call, int root, Offset value) {
  auto exchange = std::make_unique<Offset>(value);
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call, PMPI_Ibcast(exchange.get(), 1, MPI_INT64_T, root, *comm_, &request), request);
  if (!status.is_ok()) return abandon(exchange, status);
  return *exchange;
}

Result<std::string> Communicator::bytes_of(std::string_view call, int root, std::string mine) {
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

}  // namespace weir::mpi
