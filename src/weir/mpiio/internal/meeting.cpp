#include <weir/mpiio/internal/meeting.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>

#include <weir/base/ranks.h>
#include <weir/mpiio/internal/real.h>
#include <weir/mpiio/internal/running.h>

namespace weir::mpiio::internal {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNoticeTag = 1;
constexpr std::size_t kMaxShown = 160;  // characters of an argument in a message
constexpr int kLooksAtOthers = 64;      // at the request for each at what others tell

constexpr std::uint64_t kHashStart = 0xcbf29ce484222325u;
constexpr std::uint64_t kHashPrime = 0x100000001b3u;

// FNV-1a; a clash would let a mistake pass that nobody makes on purpose.
std::uint64_t hash(std::uint64_t state, std::string_view text) {
  for (const char character : text) state = (state ^ static_cast<unsigned char>(character)) * kHashPrime;
  return (state ^ 0xffu) * kHashPrime;
}

std::uint64_t hash(const std::vector<Term>& terms) {
  std::uint64_t state = kHashStart;
  for (const Term& term : terms) state = hash(state, term.value);
  return state;
}

// Collective functions, known by their index.
constexpr std::array<std::string_view, 26> kFunctions{
    "MPI_File_open",
    "MPI_File_close",
    "MPI_File_set_size",
    "MPI_File_preallocate",
    "MPI_File_set_info",
    "MPI_File_set_view",
    "MPI_File_set_atomicity",
    "MPI_File_sync",
    "MPI_File_seek_shared",
    "MPI_File_read_all",
    "MPI_File_write_all",
    "MPI_File_read_at_all",
    "MPI_File_write_at_all",
    "MPI_File_read_ordered",
    "MPI_File_write_ordered",
    "MPI_File_iread_all",
    "MPI_File_iwrite_all",
    "MPI_File_iread_at_all",
    "MPI_File_iwrite_at_all",
    "MPI_File_read_all_begin",
    "MPI_File_write_all_begin",
    "MPI_File_read_at_all_begin",
    "MPI_File_write_at_all_begin",
    "MPI_File_read_ordered_begin",
    "MPI_File_write_ordered_begin",
    "another call",
};

// Of "MPI_File_write_all_c /x" it is MPI_File_write_all: it is the same function, whatever type its counts have.
constexpr std::string_view function_of(std::string_view call) {
  const std::string_view name = call.substr(0, call.find(' '));
  return name.ends_with("_c") ? name.substr(0, name.size() - 2) : name;
}

constexpr std::uint8_t index_of(std::string_view function) {
  std::uint8_t index = 0;
  while (index + std::size_t{1} < kFunctions.size() && kFunctions[index] != function) ++index;
  return index;
}

// By function: the one that it is compared as.  Ranks may mix MPI_File_write_at_all and MPI_File_write_all, and the
// like: both MPIs accept that, and PnetCDF depends on it for ranks that have nothing to write.
constexpr auto kKinds = [] {
  std::array<std::uint8_t, kFunctions.size()> kinds{};
  for (std::uint8_t i = 0; i < kFunctions.size(); ++i) {
    kinds[i] = i;
    const std::string_view name = kFunctions[i];
    const std::size_t at = name.find("_at_all");
    if (at == std::string_view::npos) continue;
    for (std::uint8_t other = 0; other < kFunctions.size(); ++other) {
      const std::string_view plain = kFunctions[other];
      if (plain.size() + 3 == name.size() && plain.substr(0, at) == name.substr(0, at) &&
          plain.substr(at) == name.substr(at + 3)) {
        kinds[i] = other;
      }
    }
  }
  return kinds;
}();
static_assert(kKinds[index_of("MPI_File_iwrite_at_all")] == index_of("MPI_File_iwrite_all"));

// The last calls of a rank, as it tells them to others: the number of the last one, and a letter for each function.
struct LastCalls {
  std::uint64_t last = 0;
  std::vector<std::uint8_t> functions;

  [[nodiscard]] std::uint64_t first() const { return last + 1 - functions.size(); }
  /// Nothing: it made no such call, or it is not known.
  [[nodiscard]] std::optional<std::uint8_t> at(std::uint64_t call) const {
    if (call < first() || call > last) return std::nullopt;
    return functions[static_cast<std::size_t>(call - first())];
  }
};

constexpr char kFirstLetter = 'A';

LastCalls parse_calls(const std::string& text) {
  LastCalls calls;
  const char* const end = text.data() + text.size();
  const char* at = std::from_chars(text.data(), end, calls.last).ptr;
  for (; at != end; ++at) {
    const auto function = static_cast<std::size_t>(*at - kFirstLetter);
    calls.functions.push_back(static_cast<std::uint8_t>(std::min(function, kFunctions.size() - 1)));
  }
  return calls;
}

std::string describe_call(std::optional<std::uint8_t> function, std::uint64_t call) {
  return concat(function ? kFunctions[*function] : "no call", " (call ", call, " on this file)");
}

// By rank, the first calls that are not the same.
std::vector<std::string> first_difference(const std::vector<LastCalls>& ranks) {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
  for (const LastCalls& rank : ranks) {
    first = std::max(first, rank.first());
    last = std::max(last, rank.last);
  }
  const auto kind_at = [](const LastCalls& rank, std::uint64_t call) {
    const auto function = rank.at(call);
    return function ? int{kKinds[*function]} : -1;
  };
  const auto is_same = [&](std::uint64_t call) {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](const LastCalls& rank) { return kind_at(rank, call) == kind_at(ranks.front(), call); });
  };
  while (first <= last && is_same(first)) ++first;
  std::vector<std::string> calls;
  for (const LastCalls& rank : ranks) {
    const std::uint64_t call = first <= last ? first : rank.last;
    calls.push_back(describe_call(rank.at(call), call));
  }
  return calls;
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

// "I wait in this meeting", on its way to one rank.
struct Meeting::Notice {
  std::uint64_t meeting;
  MPI_Request request = MPI_REQUEST_NULL;
};

// What a reduction tells: the greatest of each word of all ranks.
struct Meeting::Exchange {
  // A value and its complement have complementary maxima only if all ranks have the same value.
  enum { kCalls, kNotCalls, kTerms, kNotTerms, kBad, kFirstFlag, kSecondFlag, kCount };
  std::array<std::uint64_t, kCount> mine{};
  std::array<std::uint64_t, kCount> most{};

  int start(MPI_Comm comm, MPI_Request& request) {
    return PMPI_Iallreduce(mine.data(), most.data(), kCount, MPI_UINT64_T, MPI_MAX, comm, &request);
  }
  [[nodiscard]] bool has_same_calls() const { return most[kCalls] == ~most[kNotCalls]; }
  [[nodiscard]] bool has_same_terms() const { return most[kTerms] == ~most[kNotTerms]; }
};

// For others to make a call.
struct Meeting::Waiting {
  Clock::time_point start;
  bool is_quiet = true;  // has not told that it waits
};

Result<std::unique_ptr<Meeting>> Meeting::convene(MPI_Comm parent, std::string_view call,
                                                  std::chrono::milliseconds quiet) {
  std::unique_ptr<Meeting> meeting(new Meeting);
  meeting->quiet_ = quiet;
  meeting->digest_ = kHashStart;
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
  for (auto& notice : notices_) {
    int is_done = 0;
    WEIR_REAL(MPI_Test)(&notice->request, &is_done, MPI_STATUS_IGNORE);
    if (is_done == 0) static_cast<void>(notice.release());  // MPI may still read it
  }
}

void Meeting::adjourn(const std::string& call) {
  if (is_broken_ || !is_same_call_) return;
  is_adjourning_ = true;
  if (size_ > 1) {
    const Result<std::vector<Offset>> announced = gather(call, std::span(&announced_, 1));
    if (!announced.is_ok()) return;
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
    if (looks % kLooksAtOthers != 0 || !is_too_long(waiting)) continue;
    is_broken_ = true;
    why_broken_ = concat(call, ": ", missing(), " did not come to this collective call within ", longest_wait().count(),
                         " s (WEIR_MPIIO_TIMEOUT)");
    return {ErrorCode::kTimedOut, why_broken_};
  }
}

Outcome Meeting::broken(std::string_view call) const {
  return fail(MPI_ERR_IO, call, ": an earlier call failed for good: ", why_broken_);
}

// After a while, tells the others.
bool Meeting::is_too_long(Waiting& waiting) {
  const auto waited = Clock::now() - waiting.start;
  if (waiting.is_quiet && waited > std::min<Clock::duration>(quiet_, longest_wait() / 2)) {
    waiting.is_quiet = false;
    if (!is_adjourning_) announce();
  }
  if (!waiting.is_quiet) listen();
  return waited > longest_wait();
}

void Meeting::announce() {
  if (comm_ == MPI_COMM_NULL) return;
  ++announced_;
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    auto notice = std::make_unique<Notice>(Notice{meetings_, MPI_REQUEST_NULL});
    PMPI_Isend(&notice->meeting, 1, MPI_UINT64_T, other, kNoticeTag, comm_, &notice->request);
    notices_.push_back(std::move(notice));
  }
}

void Meeting::listen() {
  if (comm_ == MPI_COMM_NULL) return;
  for (;;) {
    int is_there = 0;
    MPI_Status status;
    if (PMPI_Iprobe(MPI_ANY_SOURCE, kNoticeTag, comm_, &is_there, &status) != MPI_SUCCESS || is_there == 0) return;
    std::uint64_t meeting = 0;
    PMPI_Recv(&meeting, 1, MPI_UINT64_T, status.MPI_SOURCE, kNoticeTag, comm_, MPI_STATUS_IGNORE);
    const auto other = static_cast<std::size_t>(status.MPI_SOURCE);
    heard_[other] = std::max(heard_[other], meeting);
    ++received_[other];
  }
}

std::string Meeting::missing() const {
  std::vector<int> ranks;
  for (int other = 0; other < size_; ++other) {
    if (other != rank_ && heard_[static_cast<std::size_t>(other)] < meetings_) ranks.push_back(other);
  }
  if (ranks.empty() || comm_ == MPI_COMM_NULL) return "some rank";
  return concat(ranks.size() == 1 ? "rank " : "ranks ", list_ranks(ranks));
}

std::uint8_t Meeting::number_of(const char* call) {
  if (call != last_name_) {
    last_name_ = call;
    last_number_ = index_of(function_of(call));
  }
  return last_number_;
}

void Meeting::remember(std::uint8_t function) {
  recent_[calls_++ % kRemembered] = function;
  digest_ = (digest_ ^ kKinds[function]) * kHashPrime;
}

Outcome Meeting::meet(const std::string& call, const std::vector<Term>& terms, const Outcome& mine, Together together,
                      Flags* flags) {
  if (is_broken_) return broken(call);
  ++meetings_;
  if (size_ == 1) return mine;
  remember(index_of(function_of(call)));
  auto exchange = std::make_unique<Exchange>();
  auto& words = exchange->mine;
  words[Exchange::kCalls] = digest_;
  words[Exchange::kNotCalls] = ~digest_;
  words[Exchange::kTerms] = hash(terms);
  words[Exchange::kNotTerms] = ~words[Exchange::kTerms];
  words[Exchange::kBad] = mine.is_ok() ? 0 : 1;
  if (flags != nullptr) {
    words[Exchange::kFirstFlag] = flags->first ? 1 : 0;
    words[Exchange::kSecondFlag] = flags->second ? 1 : 0;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  const Status status = await(call, exchange->start(comm_, request), request);
  if (!status.is_ok()) {
    static_cast<void>(exchange.release());  // MPI may still use it
    return status;
  }
  const auto& most = exchange->most;
  if (flags != nullptr) *flags = {most[Exchange::kFirstFlag] != 0, most[Exchange::kSecondFlag] != 0};
  is_same_call_ = exchange->has_same_calls();
  if (!is_same_call_) {
    WEIR_TRY(const std::string difference, compare_calls(call));
    return fail(MPI_ERR_NOT_SAME, "ranks make different collective calls: ", difference);
  }
  digest_ = kHashStart;
  if (most[Exchange::kBad] != 0 && together == Together::kAllOrNone) return share_error(call, mine);
  return exchange->has_same_terms() ? mine : explain_difference(call, terms);
}

std::string Meeting::last_calls() const {
  std::string text = concat(calls_);
  const std::uint64_t known = std::min<std::uint64_t>(calls_ - forgotten_, kRemembered);
  for (std::uint64_t call = calls_ - known; call < calls_; ++call) {
    text += static_cast<char>(kFirstLetter + recent_[call % kRemembered]);
  }
  return text;
}

// Says which calls differ; from now on ranks count as having made the same.
Result<std::string> Meeting::compare_calls(const std::string& call) {
  WEIR_TRY(const std::vector<std::string> texts, gather(call, last_calls()));
  std::vector<LastCalls> ranks;
  for (const std::string& text : texts) ranks.push_back(parse_calls(text));
  is_same_call_ = true;
  for (const LastCalls& rank : ranks) {
    is_same_call_ = is_same_call_ && kKinds[rank.functions.back()] == kKinds[ranks.front().functions.back()];
    calls_ = std::max(calls_, rank.last);
  }
  forgotten_ = calls_;
  digest_ = kHashStart;
  const std::string difference = describe_difference(first_difference(ranks), kMaxShown);
  return difference.empty() ? concat("those before the last ", kRemembered, " on this file") : difference;
}

Outcome Meeting::explain_difference(const std::string& call, const std::vector<Term>& terms) {
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

Result<std::string> Meeting::bytes_of(const std::string& call, int root, std::string mine) {
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
  Status status = await(call, PMPI_Ibcast(first.data(), first_bytes, MPI_CHAR, root, comm_, &request), request);
  if (status.is_ok()) {
    std::memcpy(&length, first.data(), sizeof length);
    if (rank_ != root) {
      all.assign(first.data() + sizeof length, at_once());
      all.resize(length);
    }
    const std::size_t done = at_once();
    if (done < length) {
      const int rest = static_cast<int>(length - done);
      status = await(call, PMPI_Ibcast(all.data() + done, rest, MPI_CHAR, root, comm_, &request), request);
    }
  }
  if (!status.is_ok()) {
    static_cast<void>(exchange.release());  // MPI may still use it
    return status;
  }
  return std::move(all);
}

}  // namespace weir::mpiio::internal
