#include <istream>
#include <ostream>
#include <vector>

#include <weir/cli/internal/batch.h>
#include <weir/cli/internal/command.h>

namespace weir::cli::internal {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 18;
constexpr std::size_t kAnswerBytes = std::size_t{1} << 20;  // written out at the latest when so many have gathered

/// Cuts the input into lines and has them answered.
class LineFeeder {
 public:
  LineFeeder(const BatchLimits& limits, std::ostream& out) : limits_(limits), engine_(limits), out_(out) {}

  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t newline = bytes.find('\n');
      if (newline == std::string_view::npos) return keep(bytes);
      end_line(bytes.substr(0, newline));
      bytes.remove_prefix(newline + 1);
    }
  }

  /// The last line may lack its newline.
  void finish() {
    if (is_inside_line_) end_line({});
    flush();
  }

  void flush() {
    write();
    out_.flush();
  }

 private:
  void keep(std::string_view part) {
    is_inside_line_ = true;
    if (is_too_long_ || held_.size() + part.size() > limits_.line_bytes) {
      is_too_long_ = true;
      held_ = std::string();  // give the memory back
    } else {
      held_.append(part);
    }
  }

  void end_line(std::string_view part) {
    if (is_inside_line_) keep(part);
    if (is_too_long_ || part.size() > limits_.line_bytes) {
      BatchEngine::refuse(invalid_argument(concat("line is longer than ", limits_.line_bytes, " bytes")), answers_);
    } else {
      engine_.answer(is_inside_line_ ? std::string_view(held_) : part, answers_);
    }
    held_.clear();
    is_inside_line_ = false;
    is_too_long_ = false;
    if (answers_.size() >= kAnswerBytes) write();
  }

  void write() {
    out_.write(answers_.data(), static_cast<std::streamsize>(answers_.size()));
    answers_.clear();
  }

  const BatchLimits limits_;
  BatchEngine engine_;
  std::ostream& out_;
  std::string held_;  // the beginning of a line whose end has not been read yet
  std::string answers_;
  bool is_inside_line_ = false;
  bool is_too_long_ = false;
};

/// What `in` has ready; waits only if that is nothing.  Empty at the end.
std::string_view read_some(std::istream& in, std::vector<char>& chunk) {
  if (in.peek() == std::istream::traits_type::eof()) return {};
  std::streamsize count = in.readsome(chunk.data(), static_cast<std::streamsize>(chunk.size()));
  if (count <= 0) {  // a stream without a buffer
    chunk[0] = static_cast<char>(in.get());
    count = 1;
  }
  return {chunk.data(), static_cast<std::size_t>(count)};
}

struct BatchOptions {
  bool json = true;
};

constexpr char kBatchExamples[] =
    "Each line of standard input is a JSON object; each is answered by one line, in order:\n"
    "  {\"op\":\"print\",\"layout\":L}                          {\"layout\":canonical text}\n"
    "  {\"op\":\"size\",\"layout\":L,\"element\":i}               {\"size\":bytes per period,\"period\":bytes}\n"
    "  {\"op\":\"map\",\"layout\":L,\"element\":i,\"x\":x,\"mode\":\"exact\"|\"next\"|\"previous\"}   {\"y\":y or "
    "null}\n"
    "  {\"op\":\"unmap\",\"layout\":L,\"element\":i,\"y\":y}        {\"x\":x}\n"
    "  {\"op\":\"segments\",\"layout\":L,\"element\":i,\"from\":y0,\"to\":y1}       {\"segments\":[[x,length],...]}\n"
    "  {\"op\":\"intersect\",\"a\":L,\"ai\":i,\"b\":M,\"bi\":j,\"from\":x0,\"to\":x1}  "
    "{\"pieces\":[[ya,yb,length],...]}\n"
    "  {\"op\":\"project\",\"a\":L,\"ai\":i,\"b\":M,\"bi\":j}   "
    "{\"falls\":F,\"proj_a\":F,\"proj_b\":F,\"period\":bytes,...}\n"
    "  {\"op\":\"simplify\",\"falls\":F}                      {\"falls\":F}\n"
    "  {\"op\":\"cut\",\"falls\":F,\"l\":first,\"r\":last}        {\"falls\":F}, relative to first\n"
    "  {\"op\":\"match\",\"layout\":L,\"view\":M,\"element\":i}   "
    "{\"degree\":d,\"bytes\":..,\"breaks\":..,\"targets\":..,...}\n"
    "  {\"op\":\"validate\",\"layout\":L}                     {\"ok\":true} or "
    "{\"ok\":false,\"error\":text,\"byte\":x}\n"
    "  {\"op\":\"cost\",\"a\":L,\"ai\":i,\"b\":M,\"bi\":j}          {\"nodes\":n,\"nanoseconds\":median}\n"
    "Whatever cannot be answered gives {\"error\":text}; the exit code is 0 all the same.\n"
    "\n"
    "Example:\n"
    "  echo '{\"op\":\"map\",\"layout\":\"stripe(unit=4,over=3)\",\"element\":1,\"x\":5}' | weir layout batch\n";

}  // namespace

Status run_batch(std::istream& in, std::ostream& out, const BatchLimits& limits) {
  LineFeeder feeder(limits, out);
  std::vector<char> chunk(kChunkBytes);
  while (out) {
    const std::string_view bytes = read_some(in, chunk);
    if (bytes.empty()) break;
    feeder.feed(bytes);
    feeder.flush();
  }
  feeder.finish();
  if (in.bad()) return Status{ErrorCode::kIoError, "cannot read standard input"};
  if (!out) return Status{ErrorCode::kIoError, "cannot write answers to standard output"};
  return Status::ok();
}

void add_batch(CLI::App& layout, Selection& selection) {
  add_command<BatchOptions>(
      layout, selection, "batch", "Answer requests, one JSON object a line, from standard input", kBatchExamples,
      [](CLI::App& command, BatchOptions& options) {
        command.add_flag("--json", options.json, "Accepted for symmetry: batch always answers in JSON");
      },
      [](const BatchOptions&, Console& console) -> Result<int> {
        WEIR_RETURN_IF_ERROR(run_batch(console.in, console.out));
        return kExitOk;
      });
}

}  // namespace weir::cli::internal
