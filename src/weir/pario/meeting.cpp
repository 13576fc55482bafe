#include <weir/pario/meeting.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include <weir/base/ranks.h>
#include <weir/base/text.h>
#include <weir/pario/errors.h>

namespace weir::pario {

namespace {

constexpr std::size_t kMaxShown = 160;  // characters of an argument in a message
constexpr std::uint64_t kHashPrime = 0x100000001b3u;

// The operation that it is compared as.  Ranks may mix accesses at an offset and at their pointer: the MPIs accept
// that, and PnetCDF depends on it for ranks that have nothing to write.
constexpr std::uint8_t kind_of(Operation operation) {
  const auto number = static_cast<std::uint8_t>(operation);
  constexpr auto kFirst = static_cast<std::uint8_t>(Operation::kFirstAccess);
  const bool is_at_offset =
      number >= kFirst && (number - kFirst) / 2 % kPointers == static_cast<std::size_t>(Pointer::kExplicit);
  return is_at_offset ? static_cast<std::uint8_t>(number - 2) : number;
}
static_assert(kind_of(collective_access(Mode::kStarted, Pointer::kExplicit, true)) ==
              kind_of(collective_access(Mode::kStarted, Pointer::kIndividual, true)));

// The last calls of a rank, as it tells them to others: the number of the last one, and a letter for each operation.
struct LastCalls {
  std::uint64_t last = 0;
  std::vector<Operation> operations;

  [[nodiscard]] std::uint64_t first() const { return last + 1 - operations.size(); }
  /// Nothing: it made no such call, or it is not known.
  [[nodiscard]] std::optional<Operation> at(std::uint64_t call) const {
    if (call < first() || call > last) return std::nullopt;
    return operations[static_cast<std::size_t>(call - first())];
  }
};

constexpr char kFirstLetter = 'A';

LastCalls parse_calls(const std::string& text) {
  LastCalls calls;
  const char* const end = text.data() + text.size();
  const char* at = std::from_chars(text.data(), end, calls.last).ptr;
  for (; at != end; ++at) {
    const auto operation = static_cast<std::size_t>(*at - kFirstLetter);
    calls.operations.push_back(static_cast<Operation>(std::min(operation, kOperations - 1)));
  }
  return calls;
}

// By rank, the first calls that are not the same.
std::vector<std::string> first_difference(const std::vector<LastCalls>& ranks, const CallNames& names) {
  std::uint64_t first = 1;
  std::uint64_t last = 1;
  for (const LastCalls& rank : ranks) {
    first = std::max(first, rank.first());
    last = std::max(last, rank.last);
  }
  const auto kind_at = [](const LastCalls& rank, std::uint64_t call) {
    const auto operation = rank.at(call);
    return operation ? int{kind_of(*operation)} : -1;
  };
  const auto is_same = [&](std::uint64_t call) {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](const LastCalls& rank) { return kind_at(rank, call) == kind_at(ranks.front(), call); });
  };
  while (first <= last && is_same(first)) ++first;
  std::vector<std::string> calls;
  for (const LastCalls& rank : ranks) {
    const std::uint64_t call = first <= last ? first : rank.last;
    const auto operation = rank.at(call);
    calls.push_back(
        concat(operation ? names[static_cast<std::size_t>(*operation)] : "no call", " (call ", call, " on this file)"));
  }
  return calls;
}

}  // namespace

void Meeting::leave(const std::string& call) {
  if (is_same_call_) group_->leave(call);
}

Status Meeting::broken(std::string_view call) const {
  return {ErrorCode::kTimedOut, concat(call, ": an earlier call failed for good: ", group_->why_broken())};
}

void Meeting::remember(Operation operation) {
  recent_[calls_++ % kRemembered] = operation;
  digest_ = (digest_ ^ kind_of(operation)) * kHashPrime;
}

Status Meeting::meet(Operation operation, const std::string& call, const std::vector<group::Term>& terms,
                     const Status& mine, Together together, Flags* flags) {
  if (group_->is_broken()) return broken(call);
  if (size() == 1) return mine;
  remember(operation);
  enum { kCalls, kNotCalls, kTerms, kNotTerms, kBlame, kFirstFlag, kSecondFlag, kCount };
  const std::uint64_t hash = group::hash_of(terms);
  std::array<std::uint64_t, kCount> words{digest_, ~digest_, hash, ~hash, group_->blame(!mine.is_ok())};
  if (flags != nullptr) {
    words[kFirstFlag] = flags->first ? 1 : 0;
    words[kSecondFlag] = flags->second ? 1 : 0;
  }
  WEIR_RETURN_IF_ERROR(group_->greatest(call, words));
  if (flags != nullptr) *flags = {words[kFirstFlag] != 0, words[kSecondFlag] != 0};
  is_same_call_ = words[kCalls] == ~words[kNotCalls];
  if (!is_same_call_) {
    WEIR_TRY(const std::string difference, compare_calls(call));
    return invalid_argument(concat("ranks make different collective calls: ", difference)).with_detail(kRanksDiffer);
  }
  digest_ = kHashStart;
  if (words[kBlame] != 0 && together == Together::kAllOrNone) {
    const Status first = group_->failure_of(call, words[kBlame], mine);
    return mine.is_ok() ? first : mine;
  }
  if (words[kTerms] == ~words[kNotTerms]) return mine;
  WEIR_TRY(const std::string differences, group_->differences(call, terms));
  return invalid_argument(concat(call, ": ranks pass different arguments:", differences, " All must pass the same"))
      .with_detail(kRanksDiffer);
}

std::string Meeting::last_calls() const {
  std::string text = concat(calls_);
  const std::uint64_t known = std::min<std::uint64_t>(calls_ - forgotten_, kRemembered);
  for (std::uint64_t call = calls_ - known; call < calls_; ++call) {
    text += static_cast<char>(kFirstLetter + static_cast<int>(recent_[call % kRemembered]));
  }
  return text;
}

// Says which calls differ; from now on ranks count as having made the same.
Result<std::string> Meeting::compare_calls(const std::string& call) {
  WEIR_TRY(const std::vector<std::string> texts, group_->gather(call, last_calls()));
  std::vector<LastCalls> ranks;
  for (const std::string& text : texts) ranks.push_back(parse_calls(text));
  is_same_call_ = true;
  for (const LastCalls& rank : ranks) {
    is_same_call_ = is_same_call_ && kind_of(rank.operations.back()) == kind_of(ranks.front().operations.back());
    calls_ = std::max(calls_, rank.last);
  }
  forgotten_ = calls_;
  digest_ = kHashStart;
  const std::string difference = describe_difference(first_difference(ranks, names_), kMaxShown);
  return difference.empty() ? concat("those before the last ", kRemembered, " on this file") : difference;
}

}  // namespace weir::pario
