#include <weir/cli/internal/mode_change.h>

#include <algorithm>
#include <charconv>
#include <string>

#include <weir/base/text.h>

namespace weir::cli::internal {

namespace {

constexpr std::uint32_t kSetUser = 04000;
constexpr std::uint32_t kSetGroup = 02000;
constexpr std::uint32_t kSticky = 01000;
constexpr std::uint32_t kUser = 0700;
constexpr std::uint32_t kGroup = 0070;
constexpr std::uint32_t kOthers = 0007;
constexpr std::uint32_t kRead = 0444;
constexpr std::uint32_t kWrite = 0222;
constexpr std::uint32_t kExecute = 0111;
constexpr std::uint32_t kAll = 07777;

std::uint32_t who_bits(char letter) {
  switch (letter) {
    case 'u': return kUser | kSetUser;
    case 'g': return kGroup | kSetGroup;
    case 'o': return kOthers | kSticky;
    case 'a': return kAll;
    default: return 0;
  }
}

std::uint32_t permission_bits(char letter) {
  switch (letter) {
    case 'r': return kRead;
    case 'w': return kWrite;
    case 'x': return kExecute;
    case 's': return kSetUser | kSetGroup;
    case 't': return kSticky;
    default: return 0;
  }
}

Status not_a_mode(std::string_view text) {
  return invalid_argument(
      concat("chmod: '", text, "' is not a mode: write octal digits (0644), or changes such as u+rw,go-w or a+X"));
}

}  // namespace

Result<ModeChange::Clause> ModeChange::parse_clause(std::string_view text) {
  Clause clause;
  std::size_t at = 0;
  while (at < text.size() && who_bits(text[at]) != 0) clause.who |= who_bits(text[at++]);
  if (clause.who == 0) clause.who = kAll;
  if (at == text.size() || std::string_view("+-=").find(text[at]) == std::string_view::npos) return not_a_mode(text);
  clause.how = text[at++];
  for (; at < text.size(); ++at) {
    clause.bits |= permission_bits(text[at]);
    clause.has_big_x |= text[at] == 'X';
    if (permission_bits(text[at]) == 0 && text[at] != 'X') return not_a_mode(text);
  }
  return clause;
}

Result<ModeChange> ModeChange::parse(std::string_view text) {
  ModeChange change;
  if (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    std::uint32_t mode = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
    if (error != std::errc() || end != text.data() + text.size() || mode > kAll) return not_a_mode(text);
    change.clauses_.push_back({kAll, '=', mode, false});
    return change;
  }
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(',', from), text.size());
    WEIR_TRY(const Clause clause, parse_clause(text.substr(from, end - from)));
    change.clauses_.push_back(clause);
    from = end + 1;
  }
  return change;
}

std::uint32_t ModeChange::apply(std::uint32_t mode, bool is_directory) const {
  for (const Clause& clause : clauses_) {
    std::uint32_t bits = clause.bits;
    if (clause.has_big_x && (is_directory || (mode & kExecute) != 0)) bits |= kExecute;
    bits &= clause.who;
    if (clause.how == '+') mode |= bits;
    if (clause.how == '-') mode &= ~bits;
    if (clause.how == '=') mode = (mode & ~clause.who) | bits;
  }
  return mode;
}

}  // namespace weir::cli::internal
