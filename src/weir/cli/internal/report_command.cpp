// weir report: a page about I/O, from the traces that ranks wrote.

#include <weir/base/os_error.h>
#include <weir/cli/internal/report_command.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include <unistd.h>

#include <weir/base/text.h>

namespace weir::cli::internal {
namespace {

struct ReportOptions {
  std::string traces;
  std::string output;
  bool json = false;
};

Status write_file(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (out) return Status::ok();
  return os_error(ErrorCode::kIoError, concat("cannot write the report to ", file));
}

Result<int> report(const ReportOptions& options, Console& console) {
  WEIR_TRY(const std::vector<trace::Trace> traces, trace::read_traces(options.traces));
  if (traces.empty()) {
    return Status(ErrorCode::kNotFound,
                  concat("no traces in ", options.traces, ": set WEIR_TRACE to a directory before the program runs"));
  }
  const trace::IoSummary summary = trace::summarize(traces);
  const std::string text =
      options.json ? report::report_json(summary, std::nullopt) : report::report_page(summary, std::nullopt);
  if (options.output.empty()) {
    console.out << text;
    return kExitOk;
  }
  WEIR_RETURN_IF_ERROR(write_file(options.output, text));
  return kExitOk;
}

}  // namespace

Status write_report(const trace::IoSummary& summary, const std::string& file, const report::JobFacts& job) {
  return write_file(file, report::report_page(summary, job));
}

Status check_report_file(const std::string& file) {
  const bool was_there = ::access(file.c_str(), F_OK) == 0;
  const bool is_good = static_cast<bool>(std::ofstream(file, std::ios::binary | std::ios::app));
  const int code = errno;
  if (is_good && !was_there) ::unlink(file.c_str());
  if (is_good) return Status::ok();
  return os_error(ErrorCode::kIoError, concat("--report ", file, ": cannot be written"), code);
}

void add_report(CLI::App& app, Selection& selection) {
  add_command<ReportOptions>(
      app, selection, "report", "Make a page about the I/O of an MPI program from the traces of its ranks",
      "`weir run --report FILE` does all of this for one job.\n\n"
      "Example:\n"
      "  mkdir traces; eval \"$(weir env)\"; WEIR_TRACE=$PWD/traces mpirun -n 8 ./simulation weir:/out.dat\n"
      "  weir report traces --output io.html\n",
      [](CLI::App& command, ReportOptions& options) {
        command.add_option("traces", options.traces, "The directory that WEIR_TRACE named")
            ->required()
            ->type_name("TRACE_DIR");
        command.add_option("--output", options.output, "Where the page goes [standard output]")->type_name("FILE");
        add_json(command, options.json);
      },
      report);
}

}  // namespace weir::cli::internal
