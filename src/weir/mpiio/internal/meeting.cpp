#include <weir/mpiio/internal/meeting.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include <weir/base/ranks.h>
#include <weir/mpiio/internal/real.h>

namespace weir::mpiio::internal {

namespace {

constexpr std::size_t kMaxShown = 160;  // characters of an argument in a message
constexpr std::uint64_t kHashPrime = 0x100000001b3u;

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

Result<std::unique_ptr<Meeting>> Meeting::convene(MPI_Comm parent, std::string_view call,
                                                  std::chrono::milliseconds quiet) {
  WEIR_TRY(Group group, duplicate(parent, call,
                                  {.limit = longest_wait(),
                                   .limit_name = "WEIR_MPIIO_TIMEOUT",
                                   .quiet = quiet,
                                   .awake = Backoff::kMessages,
                                   .test = WEIR_REAL(MPI_Test)}));
  return std::unique_ptr<Meeting>(new Meeting(std::move(group)));
}

void Meeting::adjourn(const std::string& call) {
  if (is_same_call_) leave(call);
}

Outcome Meeting::broken(std::string_view call) const {
  return fail(MPI_ERR_IO, call, ": an earlier call failed for good: ", why_broken());
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
  if (is_broken()) return broken(call);
  if (size() == 1) return mine;
  remember(index_of(function_of(call)));
  enum { kCalls, kNotCalls, kTerms, kNotTerms, kBlame, kFirstFlag, kSecondFlag, kCount };
  const std::uint64_t hash = group::hash_of(terms);
  std::array<std::uint64_t, kCount> words{digest_, ~digest_, hash, ~hash, blame(!mine.is_ok())};
  if (flags != nullptr) {
    words[kFirstFlag] = flags->first ? 1 : 0;
    words[kSecondFlag] = flags->second ? 1 : 0;
  }
  WEIR_RETURN_IF_ERROR(greatest(call, words));
  if (flags != nullptr) *flags = {words[kFirstFlag] != 0, words[kSecondFlag] != 0};
  is_same_call_ = words[kCalls] == ~words[kNotCalls];
  if (!is_same_call_) {
    WEIR_TRY(const std::string difference, compare_calls(call));
    return fail(MPI_ERR_NOT_SAME, "ranks make different collective calls: ", difference);
  }
  digest_ = kHashStart;
  if (words[kBlame] != 0 && together == Together::kAllOrNone) {
    WEIR_TRY(group::Failure first, failure_of(call, words[kBlame], {mine.error_class(), mine.message()}));
    return mine.is_ok() ? Outcome(first.code, std::move(first.message)) : mine;
  }
  if (words[kTerms] == ~words[kNotTerms]) return mine;
  WEIR_TRY(const std::string differences, this->differences(call, terms));
  return fail(MPI_ERR_NOT_SAME, call, ": ranks pass different arguments:", differences, " All must pass the same");
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

}  // namespace weir::mpiio::internal
