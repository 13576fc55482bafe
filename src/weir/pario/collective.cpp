#include <weir/pario/collective.h>

#include <algorithm>

#include <weir/base/text.h>

namespace weir::pario {

namespace {

constexpr Offset kMostPerRound = Offset{1} << 30;  // groups count bytes by int
constexpr Offset kBlock = Offset{16} << 10;
// Far more than can pay, and rounds are counted by int.
constexpr Offset kMostRounds = Offset{1} << 24;

Range hull_of(const std::vector<Share>& shares) {
  Range hull{kMaxBytes, 0};
  for (const Share& share : shares) {
    if (share.bytes == 0) continue;
    hull = {std::min(hull.from, share.file.from), std::max(hull.to, share.file.to)};
  }
  return hull;
}

Offset aligned_down(Offset value, Offset unit) { return value / unit * unit; }
Offset aligned_up(Offset value, Offset unit) { return ceil_div(value, unit) * unit; }

double alone_seconds(const model::Io& costs, const CollectiveFacts& facts) {
  double sum = 0;
  for (const Share& share : facts.shares) {
    sum += costs.alone({.is_write = facts.is_write,
                        .is_on_disk = facts.is_on_disk,
                        .place = facts.place,
                        .bytes = share.bytes,
                        .messages = share.messages,
                        .pieces = share.pieces,
                        .touched_bytes = share.touched_bytes});
  }
  return sum;
}

double two_phase_seconds(const model::Io& costs, const CollectiveFacts& facts) {
  const Domains& domains = facts.domains;
  model::TwoPhaseWork work{.is_write = facts.is_write,
                           .is_on_disk = facts.is_on_disk,
                           .place = facts.place,
                           .span_bytes = domains.file.to - domains.file.from,
                           .bytes = 0,
                           .pieces = 0,
                           .ranks = static_cast<Offset>(facts.shares.size()),
                           .owners = domains.owners,
                           .rounds = domains.rounds(),
                           .targets = facts.targets};
  for (const Share& share : facts.shares) {
    work.bytes += share.bytes;
    work.pieces += share.pieces;
  }
  return costs.two_phase(work);
}

// Why two phases cannot be; nothing if they can.
std::string obstacle(const CollectiveFacts& facts) {
  if (facts.shares.size() < 2) return "there is one rank";
  if (facts.domains.owners == 0) return "there are no bytes";
  if (ceil_div(facts.domains.width, facts.domains.window) > kMostRounds) return "it would take too many rounds";
  if (!facts.is_write) return {};
  if (!facts.are_disjoint) return "views of ranks have bytes in common, or it is not known that they have none";
  Offset bytes = 0;
  for (const Share& share : facts.shares) bytes += share.bytes;
  if (bytes != facts.domains.file.to - facts.domains.file.from) return "there are gaps between the bytes written";
  return {};
}

}  // namespace

std::string_view to_text(Method method) {
  switch (method) {
    case Method::kAlone: return "alone";
    case Method::kTwoPhase: return "two-phase";
    case Method::kAuto: break;
  }
  return "auto";
}

Result<Method> parse_method(const std::string& text) {
  for (const Method method : {Method::kAuto, Method::kAlone, Method::kTwoPhase}) {
    if (text == to_text(method)) return method;
  }
  return invalid_argument(concat("unknown collective method '", text, "' (auto, alone, two-phase)"));
}

Range Domains::window_of(int owner, int round) const {
  if (owner >= owners) return {file.to, file.to};
  const Offset start = origin + Offset{owner} * width;
  const Offset end = std::min(start + width, file.to);
  const Offset from = std::min(start + Offset{round} * window, end);
  return {std::max(from, file.from), std::max(std::min(from + window, end), file.from)};
}

Domains divide(const std::vector<Share>& shares, const DomainOptions& options, const model::Io& costs) {
  Domains domains;
  domains.file = hull_of(shares);
  const Offset span = domains.file.to - domains.file.from;
  Offset owners = static_cast<Offset>(shares.size());
  if (options.most_owners > 0) owners = std::min<Offset>(owners, options.most_owners);
  owners = std::clamp<Offset>(span / costs.least_part(), 1, owners);  // less is not worth another owner
  const Offset window = options.window > 0 ? options.window : costs.message_window(kMostPerRound);
  // An alignment that is long makes parts unequal: then blocks will do.
  const Offset unit = options.alignment <= span / (4 * owners) ? options.alignment : kBlock;
  domains.origin = aligned_down(domains.file.from, unit);
  const Offset room = domains.file.to - domains.origin;
  domains.width = aligned_up(ceil_div(room, owners), unit);
  domains.owners = static_cast<int>(ceil_div(room, domains.width));
  domains.window = std::min(window, kMostPerRound / domains.owners);
  if (domains.window > unit) domains.window = aligned_down(domains.window, unit);
  domains.window = std::min(domains.window, domains.width);
  return domains;
}

CollectiveChoice choose(const CollectiveFacts& facts, Method wanted, const model::Io& costs) {
  CollectiveChoice choice;
  const std::string why_not = obstacle(facts);
  if (!why_not.empty()) {
    choice.why = why_not;
    return choice;
  }
  // Work is shared by as many as there are of those who are fewer.
  const auto hands = static_cast<double>(std::min<Offset>(static_cast<Offset>(facts.shares.size()), facts.targets));
  const double alone = alone_seconds(costs, facts) / hands;
  const double two_phase = two_phase_seconds(costs, facts) / hands;
  choice.alone_seconds = alone * facts.factors.first;
  choice.two_phase_seconds = two_phase * facts.factors.second;
  const bool pays = choice.two_phase_seconds < choice.alone_seconds;
  choice.method = wanted == Method::kTwoPhase || (wanted == Method::kAuto && pays) ? Method::kTwoPhase : Method::kAlone;
  choice.predicted_seconds = choice.method == Method::kTwoPhase ? two_phase : alone;
  choice.why =
      concat("predicted ", model::time_text(choice.two_phase_seconds), " in two phases, ",
             model::time_text(choice.alone_seconds), " each alone", wanted == Method::kAuto ? "" : "; asked for");
  return choice;
}

model::Kind kind_of(Method method, bool is_write) {
  if (method == Method::kTwoPhase) return is_write ? model::Kind::kTwoPhaseWrite : model::Kind::kTwoPhaseRead;
  return is_write ? model::Kind::kAloneWrite : model::Kind::kAloneRead;
}

}  // namespace weir::pario
