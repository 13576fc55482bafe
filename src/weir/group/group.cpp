#include <weir/group/group.h>

#include <charconv>

#include <weir/base/hash.h>
#include <weir/base/ranks.h>
#include <weir/base/text.h>

namespace weir::group {

namespace {

constexpr std::size_t kMaxShown = 160;  // characters of an argument in a message

// What of a value is told to the others: all of it may be megabytes on each of thousands of ranks.
std::string abstract_of(const std::string& value) {
  if (value.size() <= kMaxShown) return value;
  return concat(std::string_view(value).substr(0, kMaxShown), "... (", value.size(), " characters, hash ",
                weir::hash_of(value), ')');
}

// An error as ranks tell it: "code detail message".
std::string to_text(const Status& status) {
  return concat(static_cast<int>(status.code()), ' ', status.detail(), ' ', status.message());
}

Status parse_error(std::string_view text, int rank) {
  int numbers[2] = {static_cast<int>(ErrorCode::kIoError), 0};
  for (int& number : numbers) {
    const char* const end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
    text.remove_prefix(std::min<std::size_t>(static_cast<std::size_t>(end - text.data()) + 1, text.size()));
  }
  return Status(static_cast<ErrorCode>(numbers[0]), concat("on rank ", rank, ": ", text)).with_detail(numbers[1]);
}

}  // namespace

std::uint64_t hash_of(const std::vector<Term>& terms) noexcept {
  std::uint64_t state = 0;
  for (const Term& term : terms) state = weir::hash_of(term.value, state);
  return state;
}

std::string name_ranks(const std::vector<int>& ranks) {
  return concat(ranks.size() == 1 ? "rank " : "ranks ", list_ranks(ranks));
}

Status Group::failure_of(std::string_view call, std::uint64_t greatest_blame, const Status& mine) {
  const int first = size_ - static_cast<int>(greatest_blame);
  WEIR_TRY(const std::string text, bytes_of(call, first, to_text(mine)));
  return parse_error(text, first);
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

Status Group::break_by(std::string_view call, const std::string& missing, const Limit& limit) {
  const auto ms = limit.time.count();
  why_broken_ = concat(call, ": ", missing, " did not come to this collective call within ",
                       ms % 1000 == 0 ? concat(ms / 1000, " s") : concat(ms, " ms"));
  if (!limit.name.empty()) why_broken_ += concat(" (", limit.name, ')');
  return {ErrorCode::kTimedOut, why_broken_};
}

Status Group::broken(std::string_view call) const {
  return {ErrorCode::kTimedOut, concat(call, ": an earlier call failed for good: ", why_broken_)};
}

}  // namespace weir::group
