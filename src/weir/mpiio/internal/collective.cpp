#include <weir/mpiio/internal/collective.h>

#include <algorithm>
#include <cstdio>

#include <weir/base/environment.h>
#include <weir/base/text.h>
#include <weir/log/log.h>

namespace weir::mpiio::internal {

namespace {

constexpr Offset kWindow = Offset{4} << 20;
constexpr Offset kLeastWidth = Offset{1} << 20;    // of a part: less is not worth another owner
constexpr Offset kMostPerRound = Offset{1} << 30;  // MPI counts bytes by int
constexpr Offset kBlock = Offset{16} << 10;

// What things cost, in seconds of somebody's work; fitted to docs/performance.md, "Collective accesses".  Only ratios
// matter for the choice.
struct Costs {
  double send = 0.5e-9;       // a byte between a rank and a server, both sides
  double message = 14e-6;     // the same of a message
  double piece = 2.5e-9;      // put in place, by any rank
  double exchange = 1.15e-9;  // a byte that goes to another rank, with all of its copies
  double meet = 40e-6;        // all that ranks tell each other beforehand
  double round = 25e-6;       // one more exchange
  double disk_write = 0.45e-9;
  double disk_read = 0.95e-9;
  double disk_change = 2.4e-9;  // a byte that is read and written, to change some between
};

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

double disk_seconds(const Costs& costs, const CollectiveFacts& facts, Offset bytes, Offset touched) {
  if (!facts.is_on_disk) return 0;
  const double write = touched > bytes ? costs.disk_change : costs.disk_write;
  return static_cast<double>(touched) * (facts.is_write ? write : costs.disk_read);
}

double alone_seconds(const Costs& costs, const CollectiveFacts& facts) {
  double sum = 0;
  for (const Share& share : facts.shares) {
    sum += static_cast<double>(share.bytes) * costs.send + static_cast<double>(share.messages) * costs.message +
           static_cast<double>(share.pieces) * costs.piece +
           disk_seconds(costs, facts, share.bytes, share.touched_bytes);
  }
  return sum;
}

double two_phase_seconds(const Costs& costs, const CollectiveFacts& facts) {
  const Domains& domains = facts.domains;
  const Offset span = domains.file.to - domains.file.from;
  const double messages = static_cast<double>(facts.targets) * domains.owners * domains.rounds();
  const auto ranks = static_cast<double>(facts.shares.size());
  double sum = static_cast<double>(span) * costs.send + messages * costs.message +
               ranks * (costs.meet + domains.rounds() * costs.round) + disk_seconds(costs, facts, span, span);
  for (const Share& share : facts.shares) {
    sum += static_cast<double>(share.bytes) * (1 - 1 / ranks) * costs.exchange +
           static_cast<double>(share.pieces) * costs.piece;
  }
  return sum;
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  return text;
}

// Why two phases cannot be; nothing if they can.
std::string obstacle(const CollectiveFacts& facts) {
  if (facts.shares.size() < 2) return "there is one rank";
  if (facts.domains.owners == 0) return "there are no bytes";
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

Method wanted_method(const std::optional<std::string>& hint) {
  static const Method by_environment = [] {
    const std::string text = environment("WEIR_COLLECTIVE");
    if (text.empty()) return Method::kAuto;
    const Result<Method> method = parse_method(text);
    if (!method.is_ok()) WEIR_LOG_WARN("WEIR_COLLECTIVE: {}; auto is assumed", method.status().message());
    return method.is_ok() ? *method : Method::kAuto;
  }();
  if (!hint) return by_environment;
  const Result<Method> method = parse_method(*hint);
  return method.is_ok() ? *method : by_environment;
}

Range Domains::window_of(int owner, int round) const {
  if (owner >= owners) return {file.to, file.to};
  const Offset start = origin + Offset{owner} * width;
  const Offset end = std::min(start + width, file.to);
  const Offset from = std::min(start + Offset{round} * window, end);
  return {std::max(from, file.from), std::max(std::min(from + window, end), file.from)};
}

Domains divide(const std::vector<Share>& shares, const DomainOptions& options) {
  Domains domains;
  domains.file = hull_of(shares);
  const Offset span = domains.file.to - domains.file.from;
  Offset owners = static_cast<Offset>(shares.size());
  if (options.most_owners > 0) owners = std::min<Offset>(owners, options.most_owners);
  owners = std::clamp<Offset>(span / kLeastWidth, 1, owners);
  const Offset window = options.window > 0 ? options.window : kWindow;
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

CollectiveChoice choose(const CollectiveFacts& facts, Method wanted) {
  CollectiveChoice choice;
  const std::string why_not = obstacle(facts);
  if (!why_not.empty()) {
    choice.why = why_not;
    return choice;
  }
  // Work is shared by as many as there are of those who are fewer.
  const auto hands = static_cast<double>(std::min<Offset>(static_cast<Offset>(facts.shares.size()), facts.targets));
  const Costs costs;
  choice.alone_seconds = alone_seconds(costs, facts) / hands;
  choice.two_phase_seconds = two_phase_seconds(costs, facts) / hands;
  const bool pays = choice.two_phase_seconds < choice.alone_seconds;
  choice.method = wanted == Method::kTwoPhase || (wanted == Method::kAuto && pays) ? Method::kTwoPhase : Method::kAlone;
  choice.why = concat("predicted ", milliseconds(choice.two_phase_seconds), " in two phases, ",
                      milliseconds(choice.alone_seconds), " each alone", wanted == Method::kAuto ? "" : "; asked for");
  return choice;
}

}  // namespace weir::mpiio::internal
