#include <weir/base/json_text.h>
#include <weir/base/ranks.h>
#include <weir/report/internal/layout_advice.h>
#include <weir/report/page.h>

namespace weir::report {

using trace::FileSummary;
using trace::IoSummary;

namespace {

constexpr const char* kWays[] = {"read", "write"};
constexpr const char* kPhaseKeys[] = {"meet", "lock", "pack", "move", "rest"};

void write_ways(const FileSummary& file, JsonWriter& json) {
  for (std::size_t way = 0; way < 2; ++way) {
    json.key(kWays[way]).begin_object();
    json.field("bytes", file.bytes[way]).field("accesses", Offset{file.accesses[way]});
    json.field("seconds", file.seconds[way]).key("sizes").begin_object();
    for (std::size_t k = 0; k < trace::kSizeClasses; ++k) {
      if (file.sizes[way][k] > 0) json.field(concat(Offset{1} << k), Offset{file.sizes[way][k]});
    }
    json.end_object().end_object();
  }
}

void write_views(const FileSummary& file, JsonWriter& json) {
  json.key("views").begin_array();
  for (const trace::ViewGroup& group : file.views) {
    json.begin_object().field("ranks", list_ranks(group.ranks)).field("pattern", group.pattern);
    json.field("place", group.place).field("size", group.size).field("period", group.period);
    json.field("bytes", group.bytes).field("lowest_degree", group.lowest_degree);
    json.field("highest_degree", group.highest_degree).end_object();
  }
  json.end_array();
}

void write_advice(const FileSummary& file, JsonWriter& json) {
  json.key("better_layout");
  if (const auto advice = internal::advise(file); advice && advice->better) {
    json.begin_object().field("layout", advice->better->layout).field("degree", advice->better->degree);
    json.field("instead_of", advice->degree).end_object();
  } else {
    json.null();
  }
}

void write_file(const FileSummary& file, JsonWriter& json) {
  json.begin_object().field("path", file.path).field("layout", file.layout).field("why", file.why);
  json.field("ranks", file.ranks).field("openings", Offset{file.openings});
  json.field("failed_calls", Offset{file.failed_calls});
  json.field("opening_seconds", file.opening_seconds);
  json.key("hints").begin_object();
  for (const auto& [key, value] : file.hints) json.field(key, value);
  json.end_object();
  json.key("choices").begin_array();
  for (const trace::ChoiceLine& choice : file.choices) {
    json.begin_object().field("what", choice.what).field("chosen", choice.chosen).field("why", choice.why).end_object();
  }
  json.end_array();
  write_ways(file, json);
  json.key("phases").begin_object();
  for (std::size_t i = 0; i < file.phases.size(); ++i) json.field(kPhaseKeys[i], file.phases[i]);
  json.end_object();
  json.field("messages", Offset{file.messages}).field("index_bytes", Offset{file.index_bytes});
  json.field("moved_bytes", Offset{file.moved_bytes}).field("direct_bytes", Offset{file.direct_bytes});
  json.field("gathered_bytes", Offset{file.gathered_bytes}).key("degree");
  file.degree ? json.value(*file.degree) : json.null();
  write_views(file, json);
  write_advice(file, json);
  json.end_object();
}

void write_failures(const IoSummary& summary, JsonWriter& json) {
  json.field("failed_calls", Offset{summary.failed_calls}).key("failures").begin_array();
  for (const trace::FailureSum& failure : summary.failures) {
    json.begin_object().field("path", failure.path).field("call", failure.call).field("count", Offset{failure.count});
    json.field("message", failure.message).key("by_rank").begin_object();
    for (const auto& [rank, count] : failure.by_rank) json.field(concat(rank), Offset{count});
    json.end_object().end_object();
  }
  json.end_array();
}

}  // namespace

std::string report_json(const IoSummary& summary, const std::optional<JobFacts>& job) {
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  if (job) {
    json.key("job").begin_object().field("command", job->command).field("mpi", job->mpi);
    json.field("servers", job->servers).field("store", job->store).field("exit_code", job->exit_code);
    json.field("seconds", job->seconds).end_object();
  }
  json.field("ranks", summary.world).field("traces", summary.ranks).field("cut_off", Offset{summary.cut_off});
  json.field("summed", Offset{summary.summed}).field("unread_lines", Offset{summary.unread});
  json.field("io_seconds", summary.io_seconds);
  write_failures(summary, json);
  json.key("files").begin_array();
  for (const FileSummary& file : summary.files) write_file(file, json);
  json.end_array().end_object();
  return out + '\n';
}

}  // namespace weir::report
