#include <weir/report/page.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include <weir/base/ranks.h>
#include <weir/base/text.h>
#include <weir/base/version.h>
#include <weir/base/xml.h>
#include <weir/report/internal/charts.h>
#include <weir/report/internal/layout_advice.h>
#include <weir/report/job_summary.h>

namespace weir::report {

using internal::Advice;
using internal::advise;
using internal::Candidate;
using trace::FileSummary;
using trace::IoSummary;

namespace {

// Of each file.
using Advices = std::vector<std::optional<Advice>>;

constexpr std::size_t kLongestLayout = 2000;  // characters of a layout or pattern that are shown
constexpr std::size_t kMostGroups = 20;
constexpr std::size_t kMostFiles = 20;  // in detail: some 100 KB each
constexpr std::size_t kMostFailures = 50;

constexpr char kStyle[] = R"(
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 960px; margin: 2.5em auto; padding: 0 1.2em; }
h1 { font-size: 1.6em; margin: 0 0 .2em; }
h2 { font-size: 1.25em; margin: 2.4em 0 .4em; padding-top: .8em; border-top: 2px solid #1a1a1a; overflow-wrap: anywhere; }
h3 { font-size: 1em; margin: 1.6em 0 .4em; color: #444; }
code, .code { font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.command { background: #f6f6f6; padding: .6em .9em; border-radius: 6px; margin: .8em 0; }
.tiles { display: flex; flex-wrap: wrap; gap: .6em; margin: 1em 0; }
.tile { border: 1px solid #ddd; border-radius: 6px; padding: .45em .9em; min-width: 6.5em; }
.tile b { display: block; font-size: 1.25em; font-weight: 600; }
.tile span { color: #666; font-size: .85em; }
.bad b { color: #b00020; }
table { border-collapse: collapse; width: 100%; margin: .5em 0; }
th, td { text-align: left; padding: .3em .6em; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
th { font-weight: 600; color: #555; font-size: .85em; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 2em; }
.advice { border-left: 4px solid #d55e00; background: #fdf3ec; padding: .6em 1em; margin: .8em 0; }
.failed { border-left: 4px solid #b00020; background: #fdecef; padding: .6em 1em; margin: .8em 0; }
.fits { border-left: 4px solid #009e73; background: #eef8f4; padding: .6em 1em; margin: .8em 0; }
.note { color: #666; font-size: .9em; }
svg { width: 100%; height: auto; display: block; }
footer { margin-top: 3em; color: #888; font-size: .85em; }
@media (max-width: 700px) { .pair { grid-template-columns: 1fr; } }
@media print { body { margin: 0; max-width: none; font-size: 11px; } h2 { break-before: auto; } svg, table, .advice { break-inside: avoid; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; } }
)";

std::string code(const std::string& text) {
  return concat("<code>", escape_xml(shorten(text, kLongestLayout)), "</code>");
}

std::string tile(const std::string& value, std::string_view name, bool is_bad = false) {
  return concat("<div class=\"tile", is_bad ? " bad" : "", "\"><b>", escape_xml(value), "</b><span>", name,
                "</span></div>\n");
}

// For a shell.
std::string quoted_layout(const std::string& layout) {
  return layout.find('(') == std::string::npos ? layout : concat("'", layout, "'");
}

std::string degree_text(double degree) { return fmt::format("{:.2f}", degree); }

std::string rate(double bytes, double seconds) {
  return seconds > 0 && bytes > 0 ? concat(human_bytes(bytes / seconds), "/s") : "";
}

// ---- the job

std::string job_part(const IoSummary& summary, const std::optional<JobFacts>& job) {
  Offset read = 0;
  Offset written = 0;
  for (const FileSummary& file : summary.files) {
    read += file.bytes[0];
    written += file.bytes[1];
  }
  std::string out = "<h1>I/O report</h1>\n";
  if (job) out += concat("<div class=\"command code\">", escape_xml(job->command), "</div>\n");
  out += "<div class=\"tiles\">\n";
  out += tile(concat(summary.world), summary.world == 1 ? "rank" : "ranks");
  if (job) {
    out += tile(summary.mpi.empty() ? job->mpi : summary.mpi, "MPI");
    out += tile(concat(job->servers), job->servers == 1 ? "server" : "servers");
    out += tile(job->store, "store");
    out += tile(human_seconds(job->seconds), "time");
    out += tile(concat(job->exit_code), "exit code", job->exit_code != 0);
  }
  out += tile(concat(summary.files.size()), summary.files.size() == 1 ? "file" : "files");
  out += tile(human_bytes(static_cast<double>(written)), "written");
  out += tile(human_bytes(static_cast<double>(read)), "read");
  return out + "</div>\n";
}

std::string failures_part(const IoSummary& summary) {
  if (summary.failed_calls == 0) return "";
  std::string out = concat(
      "<div class=\"failed\"><b>", failures_title(summary),
      "</b> A program that does not look at what functions return has not noticed.\n"
      "<table><tr><th>file</th><th>function</th><th>ranks</th><th class=\"n\">calls</th><th>one of them</th></tr>\n");
  for (std::size_t i = 0; i < std::min(summary.failures.size(), kMostFailures); ++i) {
    const trace::FailureSum& failure = summary.failures[i];
    out += concat("<tr><td>", code(failure.path), "</td><td>", code(failure.call), "</td><td>",
                  list_ranks(ranks_of(failure)), "</td><td class=\"n\">", failure.count, "</td><td>",
                  escape_xml(shorten(failure.message, kLongestLayout)), "</td></tr>\n");
  }
  return out + "</table></div>\n";
}

std::string notes_part(const IoSummary& summary) {
  std::string out;
  const auto note = [&](const std::string& text) { out += concat("<p class=\"note\">", text, "</p>\n"); };
  if (summary.cut_off > 0) {
    note(concat(
        "The traces of ", summary.cut_off,
        " ranks have no end: they were killed, or ended without closing their files. What they did last is missing."));
  }
  if (summary.summed > 0) {
    note(concat("On ", summary.summed,
                " ranks there were too many accesses or views to write down each; from some point on there are only "
                "sums. Their "
                "sizes and places are means."));
  }
  if (summary.unread > 0) note(concat(summary.unread, " lines of traces were not understood and left out."));
  return out;
}

std::string files_table(const IoSummary& summary, const Advices& advices) {
  std::string out =
      "<table><tr><th>file</th><th class=\"n\">written</th><th class=\"n\">read</th><th class=\"n\">accesses</th>"
      "<th class=\"n\">matching degree</th><th>better layout</th></tr>\n";
  for (std::size_t i = 0; i < summary.files.size(); ++i) {
    const FileSummary& file = summary.files[i];
    const bool has_better = advices[i] && advices[i]->better;
    out += concat("<tr><td>", code(file.path), "</td><td class=\"n\">", human_bytes(static_cast<double>(file.bytes[1])),
                  "</td><td class=\"n\">", human_bytes(static_cast<double>(file.bytes[0])), "</td><td class=\"n\">",
                  file.accesses[0] + file.accesses[1], "</td><td class=\"n\">",
                  file.degree ? degree_text(*file.degree) : std::string("&ndash;"), "</td><td>",
                  has_better ? code(advices[i]->better->layout) : std::string("&ndash;"), "</td></tr>\n");
  }
  return out + "</table>\n";
}

// ---- a file

std::string choice_part(const FileSummary& file) {
  std::string out = "<h3>What was chosen, and why</h3>\n<table>\n";
  const auto row = [&](std::string_view what, const std::string& value, const std::string& why) {
    out += concat("<tr><th>", what, "</th><td>", value, "</td><td class=\"note\">", why, "</td></tr>\n");
  };
  row("layout", code(file.layout), escape_xml(shorten(file.why, kLongestLayout)));
  if (file.moved_bytes > 0) {
    const bool is_all = file.direct_bytes >= file.moved_bytes;
    const auto by_message = human_bytes(static_cast<double>(file.moved_bytes - file.direct_bytes));
    row("way of bytes",
        is_all                   ? std::string("direct")
        : file.direct_bytes == 0 ? std::string("by message")
                                 : concat("direct, but ", by_message, " by message"),
        is_all ? "the servers' memory is on the ranks' host and was mapped: copied without asking a server"
               : "directly where a server's memory can be mapped; by message to other hosts, to disk stores, for few "
                 "bytes, and with "
                 "WEIR_DIRECT=off");
  }
  for (const trace::ChoiceLine& choice : file.choices) {
    row(escape_xml(choice.what), escape_xml(choice.chosen), escape_xml(choice.why));
  }
  row("messages", concat(file.messages),
      concat("with ", human_bytes(static_cast<double>(file.index_bytes)), " to say which bytes are meant"));
  if (file.gathered_bytes > 0) {
    row("copied once more", human_bytes(static_cast<double>(file.gathered_bytes)),
        "by ranks, since pieces were not in one");
  }
  for (const auto& [key, value] : file.hints)
    row(concat("hint ", escape_xml(key)), code(value), "given by the program");
  return out + "</table>\n";
}

std::string views_part(const FileSummary& file) {
  std::string out = "<h3>Views</h3>\n";
  if (file.views.empty() && file.unknown_views == 0) return out + "<p>Nothing was read or written.</p>\n";
  out +=
      "<table><tr><th>ranks</th><th>pattern</th><th>first byte</th><th class=\"n\">bytes moved</th>"
      "<th class=\"n\">matching degree</th></tr>\n";
  for (std::size_t i = 0; i < std::min(file.views.size(), kMostGroups); ++i) {
    const trace::ViewGroup& group = file.views[i];
    const std::string pattern = group.is_whole ? std::string("the whole file")
                                               : concat(code(group.pattern), "<br><span class=\"note\">",
                                                        human_bytes(static_cast<double>(group.size)), " of every ",
                                                        human_bytes(static_cast<double>(group.period)), "</span>");
    const std::string degree =
        group.highest_degree - group.lowest_degree < 0.005
            ? degree_text(group.highest_degree)
            : concat(degree_text(group.lowest_degree), "&ndash;", degree_text(group.highest_degree));
    out += concat("<tr><td>", list_ranks(group.ranks), "</td><td>", pattern, "</td><td>", group.place,
                  "</td><td class=\"n\">", human_bytes(static_cast<double>(group.bytes)), "</td><td class=\"n\">",
                  degree, "</td></tr>\n");
  }
  out += "</table>\n";
  if (file.views.size() > kMostGroups) {
    out += concat("<p class=\"note\">", file.views.size() - kMostGroups, " more patterns are not shown.</p>\n");
  }
  if (file.unknown_views > 0) {
    out += concat("<p class=\"note\">", file.unknown_views, " views have too many parts to be shown.</p>\n");
  }
  return out;
}

// That a layout was asked for already, and why the file does not have it.
std::string why_not_applied(const FileSummary& file, const Candidate& better) {
  if (better.layout != "view" || !file.why.starts_with("weir_layout=view did not apply")) return "";
  return concat(" It was tried in this run: ", escape_xml(file.why), ".");
}

std::string advice_part(const FileSummary& file, const std::optional<Advice>& advice) {
  std::string out = "<h3>The layout that would have fitted better</h3>\n";
  if (!advice) {
    return out + "<p>Ranks address the file as a whole, without views: there is nothing to fit a layout to.</p>\n";
  }
  if (advice->better) {
    out += concat("<div class=\"advice\">", escape_xml(advice->better->name), ": matching degree ",
                  degree_text(advice->better->degree), " instead of ", degree_text(advice->degree), ". Use ",
                  code(concat("weir run --layout ", quoted_layout(advice->better->layout))), " or the hint ",
                  code(concat("weir_layout=", advice->better->layout)), ".", why_not_applied(file, *advice->better),
                  "</div>\n");
  } else {
    out += concat("<div class=\"fits\">None of those that were tried is clearly better: the matching degree is ",
                  degree_text(advice->degree), ".</div>\n");
  }
  out += "<table><tr><th>tried</th><th>layout</th><th class=\"n\">matching degree</th></tr>\n";
  for (const Candidate& candidate : advice->candidates) {
    out += concat("<tr><td>", escape_xml(candidate.name), "</td><td>", code(candidate.layout), "</td><td class=\"n\">",
                  degree_text(candidate.degree), "</td></tr>\n");
  }
  return out + "</table>\n";
}

std::string calls_part(const FileSummary& file) {
  std::string out =
      "<h3>Calls</h3>\n<table><tr><th>function</th><th class=\"n\">calls</th><th class=\"n\">bytes</th>"
      "<th class=\"n\">mean size</th><th class=\"n\">time, all ranks</th><th class=\"n\">rate of a rank</th></tr>\n";
  for (const auto& [name, call] : file.calls) {
    const auto bytes = static_cast<double>(call.bytes);
    out +=
        concat("<tr><td>", code(name), "</td><td class=\"n\">", call.count, "</td><td class=\"n\">", human_bytes(bytes),
               "</td><td class=\"n\">", human_bytes(bytes / static_cast<double>(std::max<std::int64_t>(call.count, 1))),
               "</td><td class=\"n\">", human_seconds(call.seconds), "</td><td class=\"n\">", rate(bytes, call.seconds),
               "</td></tr>\n");
  }
  return out + "</table>\n";
}

std::string file_part(const FileSummary& file, const std::optional<Advice>& advice) {
  std::string out = concat("<h2>", escape_xml(file.path), "</h2>\n<div class=\"tiles\">\n");
  out += tile(concat(file.ranks), file.ranks == 1 ? "rank" : "ranks");
  out += tile(concat(file.openings), file.openings == 1 ? "opening" : "openings");
  out += tile(human_bytes(static_cast<double>(file.bytes[1])), "written");
  out += tile(human_bytes(static_cast<double>(file.bytes[0])), "read");
  out += tile(concat(file.accesses[0] + file.accesses[1]), "accesses");
  if (file.failed_calls > 0) out += tile(concat(file.failed_calls), "failed calls", true);
  if (file.degree) out += tile(degree_text(*file.degree), "matching degree");
  out += "</div>\n";
  out += choice_part(file) + views_part(file);
  if (file.accesses[0] + file.accesses[1] == 0) return out;
  out += advice_part(file, advice);
  out += concat("<h3>File offset against time</h3>\n", internal::heat_map_chart(file.heat));
  out += concat("<div class=\"pair\"><div><h3>Sizes of accesses</h3>\n", internal::request_size_chart(file),
                "</div><div><h3>Time, added up over ranks</h3>\n", internal::phase_chart(file),
                "<p class=\"note\">Opening it took ", human_seconds(file.opening_seconds), " more.</p></div></div>\n");
  return out + calls_part(file);
}

}  // namespace

std::string human_bytes(double bytes) {
  constexpr std::array<const char*, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  const int digits = bytes == std::floor(bytes) || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", bytes, digits, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 1e-3) return fmt::format("{:.3g} \xc2\xb5s", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return seconds < 1000 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string report_page(const IoSummary& summary, const std::optional<JobFacts>& job) {
  std::string out = concat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>I/O report",
      job ? concat(": ", escape_xml(shorten(job->command, 80))) : std::string(), "</title>\n<style>", kStyle,
      "</style></head>\n<body>\n");
  Advices advices;
  for (const FileSummary& file : summary.files) advices.push_back(advise(file));
  out += job_part(summary, job) + failures_part(summary) + notes_part(summary);
  if (summary.files.empty()) {
    out +=
        "<p>No file of Weir was opened by MPI-IO. Names of such files begin with <code>weir:/</code>, or are below "
        "<code>WEIR_PREFIX</code>; the program has to be an MPI program of Open MPI or MPICH (<code>weir run "
        "--explain</code> "
        "tells which was found).</p>\n";
  } else {
    out += files_table(summary, advices);
  }
  for (std::size_t i = 0; i < std::min(summary.files.size(), kMostFiles); ++i) {
    out += file_part(summary.files[i], advices[i]);
  }
  if (summary.files.size() > kMostFiles) {
    out += concat("<p class=\"note\">", summary.files.size() - kMostFiles,
                  " more files are only in the table above.</p>\n");
  }
  out += concat(
      "<footer>The matching degree says how well what a rank sees fits how a file is stored: 1 if all of it lies "
      "together in one "
      "subfile, less the more places it is in. weir ",
      version(), "</footer>\n</body></html>\n");
  return out;
}

}  // namespace weir::report
