#include <weir/redist/report.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

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

void append_flows(std::string& out, const std::vector<Flow>& all, int phase, int phases) {
  std::vector<Flow> flows;
  std::copy_if(all.begin(), all.end(), std::back_inserter(flows),
               [&](const Flow& flow) { return flow.phase == phase; });
  Offset messages = 0;
  Offset moved = 0;
  Offset stays = 0;
  for (const Flow& flow : flows) {
    messages += flow.from == flow.to ? 0 : 1;
    (flow.from == flow.to ? stays : moved) += flow.bytes;
  }
  out += concat("all ranks", phases > 1 ? concat(" in phase ", phase) : std::string(), ": ", messages,
                messages == 1 ? " pair exchanges " : " pairs exchange ", moved, " bytes, ", stays, " bytes stay\n");
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
                  right(transfer.messages, 10), transfer.is_direct ? "  direct" : "  packed",
                  transfer.is_shared ? "  shared memory" : "", transfer.phase > 1 ? "  second phase" : "", '\n');
  }
  append_rest(out, transfers.size());
}

Offset shared_routes(const Report& report) {
  const auto is_shared = [](const Transfer& transfer) { return transfer.is_shared; };
  return std::count_if(report.sends.begin(), report.sends.end(), is_shared) +
         std::count_if(report.receives.begin(), report.receives.end(), is_shared);
}

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%12.3f", seconds * 1e3);
  return text;
}

double total_of(const std::vector<PhaseSeconds>& phases) {
  double seconds = 0;
  for (const PhaseSeconds& phase : phases) seconds += phase.total();
  return seconds;
}

void append_measured(std::string& out, const Execution& last, std::size_t phase) {
  out += concat(milliseconds(last.phase_seconds[phase] / static_cast<double>(last.arrays)), '\n');
}

void append_seconds(std::string& out, const Report& report) {
  const Prediction& prediction = report.prediction;
  const std::size_t phases = report.between.empty() ? 1 : 2;
  if (!prediction.phases.empty()) {
    out += concat("  predicted, ms   slowest rank        pack    messages       local      unpack       total",
                  report.last ? "    measured on this rank\n" : "\n");
  } else if (report.last) {
    out += "  measured on this rank, ms\n";
  }
  for (std::size_t i = 0; i < phases; ++i) {
    if (prediction.phases.empty() && !report.last) break;
    out += concat("    phase ", i + 1);
    if (!prediction.phases.empty()) {
      const PhaseSeconds& phase = prediction.phases[i];
      out += concat(right(phase.rank, 17), milliseconds(phase.pack),
                    prediction.knows_messages ? milliseconds(phase.messages) : std::string("           ?"),
                    milliseconds(phase.local), milliseconds(phase.unpack), milliseconds(phase.total()));
    }
    if (report.last) {
      append_measured(out, *report.last, i);
    } else {
      out += '\n';
    }
  }
  if (report.last && report.last->arrays > 1) out += concat("    measured: mean of ", report.last->arrays, " arrays\n");
  if (!prediction.knows_messages && !prediction.phases.empty()) {
    out += "    messages are not counted: weir model calibrate with --mpi or --mpi-probe adds them\n";
  }
  if (report.is_relabelled && !prediction.phases.empty()) out += "    predicted without relabelling\n";
}

// Which way, why, what it was predicted to take and took, what the other way was predicted to take, and how to get it.
void append_phases(std::string& out, const Report& report) {
  const Prediction& prediction = report.prediction;
  const bool is_two = !report.between.empty();
  out += prediction.why;
  if (is_two) out += concat(", through ", clipped(report.between), " (", report.between_bytes, " bytes on this rank)");
  out += '\n';
  append_seconds(out, report);
  if (!prediction.alternative.empty()) {
    out +=
        concat("  ", is_two ? "one phase" : "two phases", ": predicted", milliseconds(total_of(prediction.alternative)),
               " ms instead of", milliseconds(total_of(prediction.phases)), '\n');
  }
  out += "  to override: Options::phases, WEIR_REDIST_PHASES=auto|one|two\n";
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
  append_phases(out, report);
  const int phases = report.between.empty() ? 1 : 2;
  for (int phase = 1; phase <= phases && report.flows; ++phase) append_flows(out, *report.flows, phase, phases);
  append_relabelling(out, report);
  out += concat("rank ", report.rank, " of ", report.ranks, ": holds ",
                element_text(report.source_element, report.source_bytes), ", gets ",
                element_text(report.target_element, report.target_bytes), '\n');
  append_transfers(out, "sends   ", report.sends);
  append_transfers(out, "receives", report.receives);
  if (report.local_bytes > 0)
    out += concat("  copies ", report.local_bytes, " bytes in ", report.local_pieces, " pieces\n");
  out += concat("  ", shared_routes(report), " of ", report.sends.size() + report.receives.size(),
                " transfers through shared memory, the others by messages\n");
  out += concat("  buffers ", report.buffer_bytes, " bytes, messages up to ", report.message_bytes, " bytes, ",
                report.rounds, report.rounds == 1 ? " round\n" : " rounds\n");
  return out;
}

}  // namespace weir::redist
