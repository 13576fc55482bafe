#include <weir/redist/report.h>

#include <algorithm>

#include <weir/base/text.h>

namespace weir::redist {

namespace {

constexpr std::size_t kMaxLines = 64;  // of one table
constexpr std::size_t kMaxLayout = 400;

std::string right(Offset value, std::size_t width) {
  std::string text = concat(value);
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string clipped(const std::string& text) {
  return text.size() <= kMaxLayout ? text : concat(std::string_view(text).substr(0, kMaxLayout), "...");
}

std::string element_text(const std::optional<Offset>& element, Offset bytes) {
  return element ? concat("element ", *element, " (", bytes, " bytes)") : std::string("nothing");
}

void append_rest(std::string& out, std::size_t lines) {
  if (lines > kMaxLines) out += concat("  ... ", lines - kMaxLines, " more\n");
}

void append_flows(std::string& out, const std::vector<Flow>& flows) {
  Offset messages = 0;
  Offset moved = 0;
  Offset stays = 0;
  for (const Flow& flow : flows) {
    messages += flow.from == flow.to ? 0 : 1;
    (flow.from == flow.to ? stays : moved) += flow.bytes;
  }
  out += concat("all ranks: ", messages, messages == 1 ? " pair exchanges " : " pairs exchange ", moved, " bytes, ",
                stays, " bytes stay\n");
  out += "    from      to           bytes\n";
  for (std::size_t i = 0; i < std::min(flows.size(), kMaxLines); ++i) {
    const Flow& flow = flows[i];
    out += concat(right(flow.from, 8), right(flow.to, 8), right(flow.bytes, 16), flow.from == flow.to ? "  stays" : "",
                  '\n');
  }
  append_rest(out, flows.size());
}

void append_transfers(std::string& out, std::string_view title, const std::vector<Transfer>& transfers) {
  if (transfers.empty()) return;
  out += concat("  ", title, "  peer           bytes          pieces  messages\n");
  for (std::size_t i = 0; i < std::min(transfers.size(), kMaxLines); ++i) {
    const Transfer& transfer = transfers[i];
    out += concat(right(transfer.peer, title.size() + 8), right(transfer.bytes, 16), right(transfer.pieces, 16),
                  right(transfer.messages, 10), transfer.is_direct ? "  direct" : "  packed", '\n');
  }
  append_rest(out, transfers.size());
}

void append_relabelling(std::string& out, const Report& report) {
  if (!report.relabelling_saves) return;
  if (report.is_relabelled) {
    out += concat("relabelling of target elements applied: saves ", *report.relabelling_saves, " bytes\n");
  } else {
    out += concat("relabelling of target elements would save ", *report.relabelling_saves, " bytes\n");
  }
}

}  // namespace

std::string explain(const Report& report) {
  std::string out = concat("from ", clipped(report.from), "\n  to ", clipped(report.to), '\n');
  if (report.flows) append_flows(out, *report.flows);
  append_relabelling(out, report);
  out += concat("rank ", report.rank, " of ", report.ranks, ": holds ",
                element_text(report.source_element, report.source_bytes), ", gets ",
                element_text(report.target_element, report.target_bytes), '\n');
  append_transfers(out, "sends   ", report.sends);
  append_transfers(out, "receives", report.receives);
  if (report.local_bytes > 0)
    out += concat("  copies ", report.local_bytes, " bytes in ", report.local_pieces, " pieces\n");
  out += concat("  buffers ", report.buffer_bytes, " bytes, messages up to ", report.message_bytes, " bytes, ",
                report.rounds, report.rounds == 1 ? " round\n" : " rounds\n");
  return out;
}

}  // namespace weir::redist
