// From the traces of ranks to the report.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <weir/base/ranks.h>
#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/cli/internal/job_summary.h>
#include <weir/cli/internal/report_page.h>
#include <weir/cli/internal/run_testing.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using weir::testing::IsOk;
using weir::testing::StatusIs;

std::string head(int rank, int ranks) {
  return concat("weir-trace\tversion=1\thost=here\tpid=", 100 + rank, "\trank=", rank, "\tranks=", ranks,
                "\tat=1000\n");
}

// Column blocks of a 64 x 4096 array: rank r sees bytes [1024 r, 1024 r + 1023] of every row.
std::string columns_of(int rank, int ranks, const std::string& layout = "stripe(unit=64K, over=4)") {
  return concat(
      head(rank, ranks), "open\tfile=0\tpath=/out\tlayout=", layout, "\twhy=", rank == 0 ? "no hint" : "",
      "\trank=", rank, "\tranks=", ranks, "\tat=1000\ttook=10\thint.cb_nodes=2\n",
      rank == 0 ? "choice\tfile=0\twhat=collective writes\tchosen=two-phase\twhy=predicted <less>\n" : "",
      "view\tfile=0\tview=0\telement=0 1 {(0,0,-,1)}\tetype=1\tsize=1\tperiod=1\tdisp=0\tdegree=0.9\n",
      "view\tfile=0\tview=1\telement=0 262144 {(", 1024 * rank, ",", 1024 * rank + 1023,
      ",4096,64)}\tetype=1\tsize=65536\tperiod=262144\tdisp=0\tdegree=0.2\n",
      "access\tfile=0\tview=1\tcall=MPI_File_write_all\twrite=1\tat=2000000000\ttook=1000000000\tbytes=65536\tfirst=",
      1024 * rank, "\tlast=", 1024 * rank + 4096 * 63 + 1023,
      "\tmeet=250000000\tmove=500000000\tmessages=4\tindex=100\tmoved=65536\tdirect=65536\tgathered=0\n",
      "access\tfile=0\tview=1\tcall=MPI_File_read\twrite=0\tat=4000000000\ttook=1000000\tbytes=1000\tfirst=0"
      "\tlast=1023\tmove=1000\tmessages=0\tindex=0\tmoved=1000\tdirect=0\tgathered=0\n",
      "close\tfile=0\tat=5000000000\nend\tat=6000000000\n");
}

Trace read(const std::string& text) {
  std::istringstream in(text);
  const auto trace = read_trace(in);
  EXPECT_THAT(trace, IsOk());
  return *trace;
}

std::vector<Trace> columns(int ranks, const std::string& layout = "stripe(unit=64K, over=4)") {
  std::vector<Trace> traces;
  for (int rank = 0; rank < ranks; ++rank) traces.push_back(read(columns_of(rank, ranks, layout)));
  return traces;
}

// ---- reading -------------------------------------------------------------------------------------------------------

TEST(TraceReaderTest, ReadsAllThatIsThere) {
  const Trace trace = read(columns_of(1, 4));
  EXPECT_EQ(trace.host, "here");
  EXPECT_EQ(trace.rank, 1);
  EXPECT_EQ(trace.ranks, 4);
  EXPECT_TRUE(trace.is_whole);
  EXPECT_FALSE(trace.is_summed);
  EXPECT_EQ(trace.unread, 0);
  ASSERT_THAT(trace.files, SizeIs(1));
  const TraceFile& file = trace.files[0];
  EXPECT_EQ(file.path, "/out");
  EXPECT_EQ(file.layout, "stripe(unit=64K, over=4)");
  EXPECT_EQ(file.hints.at("cb_nodes"), "2");
  ASSERT_THAT(file.views, SizeIs(2));
  EXPECT_EQ(file.views[1].element, "0 262144 {(1024,2047,4096,64)}");
  EXPECT_DOUBLE_EQ(file.views[1].degree, 0.2);
  ASSERT_THAT(file.accesses, SizeIs(2));
  const TraceAccess& write = file.accesses[0];
  EXPECT_TRUE(write.is_write);
  EXPECT_EQ(write.call, "MPI_File_write_all");
  EXPECT_EQ(write.at, 2000000000);
  EXPECT_EQ(write.took, 1000000000);
  EXPECT_THAT(write.phases, ElementsAre(250000000, 0, 0, 500000000));
  EXPECT_EQ(write.bytes, 65536);
  EXPECT_EQ(write.first, 1024);
  EXPECT_EQ(write.messages, 4);
  EXPECT_EQ(write.direct_bytes, 65536);
}

TEST(TraceReaderTest, ATraceMayEndAnywhere) {
  const std::string whole = columns_of(0, 1);
  const std::size_t first_line = whole.find('\n') + 1;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::istringstream in(whole.substr(0, length));
    const auto trace = read_trace(in);
    if (length < first_line) {
      EXPECT_THAT(trace, StatusIs(ErrorCode::kInvalidArgument)) << length;
      continue;
    }
    ASSERT_THAT(trace, IsOk()) << length;
    EXPECT_EQ(trace->unread, 0) << length << ": a part of a line is no line";
    EXPECT_FALSE(trace->is_whole) << length;
  }
}

TEST(TraceReaderTest, DecodesWhatWasEncoded) {
  const Trace trace = read(head(0, 1) + "open\tfile=0\tpath=/a%09b%25c%0a=d\tranks=1\n");
  ASSERT_THAT(trace.files, SizeIs(1));
  EXPECT_EQ(trace.files[0].path, "/a\tb%c\n=d");
}

TEST(TraceReaderTest, LeavesOutWhatItDoesNotUnderstand) {
  for (const char* const line :
       {"news\tx=1", "open\tfile=0", "open\tfile=zero\tpath=/a", "open\tfile=0\tpath=/%9", "open\tfile=0\tpath=/%zz",
        "view\tfile=3\tview=0", "access\tfile=0", "access", "open\tfile=-1\tpath=/a", "open\tfile=0\tpath=/a\tnonsense",
        "open\tfile=0\tpath=/a\tat=99999999999999999999"}) {
    EXPECT_EQ(read(concat(head(0, 1), line, '\n')).unread, 1) << line;
  }
}

TEST(TraceReaderTest, AddsUpFailures) {
  const Trace trace = read(concat(head(0, 1), "fail\tpath=/a\tcall=MPI_File_read\tmessage=x\n",
                                  "fail\tpath=/a\tcall=MPI_File_read\tcount=7\tmessage=y\n",
                                  "fail\tpath=/b\tcall=MPI_File_open\tmessage=z\nclose\tfile=0\tio=5\nend\tio=9\n"));
  EXPECT_EQ(trace.unread, 0);
  EXPECT_EQ(trace.io_ns, 9);
  ASSERT_THAT(trace.failures, SizeIs(2));
  EXPECT_EQ(trace.failures[0].count, 8);
  EXPECT_EQ(trace.failures[0].message, "y");
  EXPECT_EQ(trace.failures[1].count, 1);
}

TEST(TraceReaderTest, KnowsLinesThatOpenAndClose) {
  EXPECT_FALSE(read_trace_event("access\tfile=0"));
  EXPECT_FALSE(read_trace_event("open\tfile=0"));
  EXPECT_FALSE(read_trace_event("open\tfile=x\tpath=/a"));
  const auto opening = read_trace_event("open\tfile=3\tpath=/a%25\twrite=1");
  ASSERT_TRUE(opening);
  EXPECT_TRUE(opening->is_opening);
  EXPECT_TRUE(opening->can_write);
  EXPECT_EQ(opening->path, "/a%");
  EXPECT_EQ(opening->file, 3);
  EXPECT_FALSE(read_trace_event("close\tfile=3\tat=1")->is_opening);
}

TEST(TraceReaderTest, RefusesWhatIsNoTrace) {
  for (const char* const text : {"", "\n", "hello\n", "weir-trace\tversion=2\n", "weir-trace\n"}) {
    std::istringstream in(text);
    EXPECT_THAT(read_trace(in), StatusIs(ErrorCode::kInvalidArgument)) << text;
  }
}

// ---- summing up ----------------------------------------------------------------------------------------------------

TEST(IoSummaryTest, AddsUpRanks) {
  const IoSummary summary = summarize(columns(4));
  EXPECT_EQ(summary.ranks, 4);
  EXPECT_EQ(summary.world, 4);
  EXPECT_EQ(summary.cut_off, 0);
  ASSERT_THAT(summary.files, SizeIs(1));
  const FileSummary& file = summary.files[0];
  EXPECT_EQ(file.openings, 1);
  EXPECT_EQ(file.why, "no hint");
  ASSERT_THAT(file.choices, SizeIs(1));
  EXPECT_EQ(file.choices.front().chosen, "two-phase");
  EXPECT_THAT(file.bytes, ElementsAre(4000, 4 * 65536));
  EXPECT_THAT(file.accesses, ElementsAre(4, 4));
  EXPECT_EQ(file.sizes[1][16], 4);
  EXPECT_EQ(file.sizes[0][9], 4);
  EXPECT_DOUBLE_EQ(file.phases[kMeet], 1);
  EXPECT_NEAR(file.phases[kTracePhases], 4 * 0.25 + 4 * 0.000999, 1e-9);
  EXPECT_EQ(file.messages, 16);
  EXPECT_EQ(file.calls.at("MPI_File_read").count, 4);
  ASSERT_TRUE(file.degree);
  EXPECT_NEAR(*file.degree, 0.2, 1e-12);
}

TEST(IoSummaryTest, TheHeatMapHoldsEveryByte) {
  const FileSummary file = summarize(columns(4)).files.at(0);
  for (std::size_t way = 0; way < 2; ++way) {
    const auto& cells = file.heat.bytes[way];
    EXPECT_NEAR(std::accumulate(cells.begin(), cells.end(), 0.0), static_cast<double>(file.bytes[way]), 1e-3);
  }
  EXPECT_EQ(file.heat.file_end, 262144);
  EXPECT_DOUBLE_EQ(file.heat.seconds, 2.001);
  EXPECT_GT(file.heat.bytes[1][0], 0);                      // writes come first
  EXPECT_EQ(file.heat.bytes[1][HeatMap::kColumns - 1], 0);  // and are over in the end
  EXPECT_GT(file.heat.bytes[0][HeatMap::kColumns - 1], 0);
}

TEST(IoSummaryTest, RanksWithTheSamePatternAreOneGroup) {
  const FileSummary file = summarize(columns(4)).files.at(0);
  ASSERT_THAT(file.views, SizeIs(1));  // nothing went through the first view
  EXPECT_EQ(list_ranks(file.views[0].ranks), "0-3");
  EXPECT_EQ(file.views[0].pattern, "{(0,1023,4096,64)}");
  EXPECT_EQ(file.views[0].place, "byte 0 + 1024 x rank");
}

TEST(IoSummaryTest, NestedPatternsAreComparedLevelByLevel) {
  std::vector<RankView> views;
  for (int rank = 0; rank < 4; ++rank) {  // blocks of a 8 x 8 x 8 array of bytes, 2 x 2 of them in the last dimensions
    const int y = rank / 2 * 4;
    const int z = rank % 2 * 4;
    const auto falls =
        layout::parse_falls(concat("{(0,63,64,8,{(", 8 * y, ",", 8 * y + 31, ",-,1,{(", z, ",", z + 3, ",8,4)})})}"));
    ASSERT_THAT(falls, IsOk());
    const auto element = layout::Element::create(*falls, {0, 512});
    ASSERT_THAT(element, IsOk());
    views.push_back({rank, *element, 0.5, 1});
  }
  const auto groups = group_views(views);
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].place, "bytes 0, 4, 32, 36");
}

TEST(IoSummaryTest, PatternsOfSeveralPartsKeepTheirDistances) {
  const auto view = [](int rank, const std::string& falls) {
    return RankView{rank, layout::Element::create(*layout::parse_falls(falls), {0, 64}).value(), 0.5, 1};
  };
  const auto groups = group_views({view(0, "{(0,9,-,1,{(2,3,-,1)}),(20,29,-,1,{(5,6,-,1)})}"),
                                   view(1, "{(1,10,-,1,{(2,3,-,1)}),(21,30,-,1,{(5,6,-,1)})}"),
                                   view(2, "{(0,9,-,1,{(2,3,-,1)}),(20,29,-,1,{(6,7,-,1)})}")});
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(list_ranks(groups[0].ranks), "0,1");
  EXPECT_EQ(groups[0].place, "byte 2 + 1 x rank");
}

TEST(IoSummaryTest, CountsFailuresByFileFunctionAndRank) {
  std::vector<Trace> traces = columns(3);
  traces[0].failures = {{"/out", "MPI_File_write_all", 2, "MPI_File_write_all /out: full"}};
  traces[2].failures = {{"/out", "MPI_File_write_all", 1, "full"}, {"/other", "MPI_File_open", 1, "no"}};
  const IoSummary summary = summarize(traces);
  EXPECT_EQ(summary.failed_calls, 4);
  EXPECT_EQ(summary.files.at(0).failed_calls, 3);
  ASSERT_THAT(summary.failures, SizeIs(2));
  EXPECT_EQ(summary.failures[0].message, "full");
  EXPECT_THAT(summary.failures[0].by_rank, ElementsAre(std::pair(0, 2), std::pair(2, 1)));
  EXPECT_THAT(failure_lines(summary),
              ElementsAre("4 I/O calls failed.", "  /out: MPI_File_write_all, 3 times on ranks 0,2: full",
                          "  /other: MPI_File_open, 1 time on rank 2: no"));
  const auto json = nlohmann::json::parse(report_json(summary, std::nullopt));
  EXPECT_EQ(json["failed_calls"], 4);
  EXPECT_EQ(json["failures"][0]["by_rank"]["2"], 1);
  EXPECT_EQ(json["files"][0]["failed_calls"], 3);
}

TEST(JobLineTest, IsOneLineWithAllThatMatters) {
  std::vector<Trace> traces = columns(4);
  for (Trace& trace : traces) trace.io_ns = 500'000'000;  // each: they work side by side
  EXPECT_EQ(job_line(summarize(traces), 2),
            "wrote 256 KiB and read 3.91 KiB of 1 file at 0.000532 GB/s; I/O took 25 % of 2 s; no failed calls");
  // A second program after the first.
  std::vector<Trace> two = columns(2);
  for (Trace& trace : two) trace.io_ns = 250'000'000;
  two.insert(two.end(), traces.begin(), traces.end());
  two.insert(two.end(), traces.begin(), traces.end());
  EXPECT_THAT(job_line(summarize(two), 5), HasSubstr("I/O took 25 % of 5 s")) << "0.25 + 0.5 + 0.5";
  traces[0].is_whole = false;
  traces[0].failures = {{"/out", "c", 2, ""}};
  EXPECT_THAT(job_line(summarize(traces), 2), HasSubstr("; 2 failed calls; 1 rank did not end normally"));
  traces[0].failures[0].count = 1;
  EXPECT_THAT(job_line(summarize(traces), 2), HasSubstr("; 1 failed call; "));
}

TEST(LayoutAdviceTest, NamesTheLayoutThatFits) {
  const FileSummary file = summarize(columns(4)).files.at(0);
  ASSERT_TRUE(file.advice);
  ASSERT_TRUE(file.advice->better);
  EXPECT_EQ(file.advice->better->layout, "view");
  EXPECT_DOUBLE_EQ(file.advice->better->degree, 1);
  EXPECT_TRUE(std::any_of(file.advice->candidates.begin(), file.advice->candidates.end(), [](const Candidate& one) {
    return one.layout.find("dist=(*,BLOCK)") != std::string::npos && one.degree == 1;
  }));
}

TEST(LayoutAdviceTest, IsContentWithWhatFits) {
  const FileSummary file = summarize(columns(4, "hpf(shape=[64,4096], dist=(*,BLOCK), grid=[1,4])")).files.at(0);
  ASSERT_TRUE(file.advice);
  EXPECT_DOUBLE_EQ(file.advice->degree, 1);
  EXPECT_FALSE(file.advice->better);
}

TEST(LayoutAdviceTest, HasNothingToSayAboutWholeFiles) {
  const auto whole = layout::Element::create(*layout::parse_falls("{(0,0,-,1)}"), {0, 1});
  ASSERT_THAT(whole, IsOk());
  EXPECT_FALSE(advise({{0, *whole, 1, 100}}, *layout::parse("stripe(unit=64K, over=4)")));
  EXPECT_FALSE(advise({}, *layout::parse("stripe(unit=64K, over=4)")));
}

// ---- pages ---------------------------------------------------------------------------------------------------------

JobFacts facts() { return {"mpirun -n 4 ./x <out> & \"y\"", "openmpi", 3, "memory", 0, 1.5}; }

TEST(ReportPageTest, TellsAllThatMatters) {
  const std::string page = report_page(summarize(columns(4)), facts());
  for (const char* const text :
       {"<!DOCTYPE html>", "mpirun -n 4 ./x &lt;out&gt; &amp; &quot;y&quot;", "openmpi", "/out",
        "stripe(unit=64K, over=4)", "no hint", "collective writes", "two-phase", "predicted &lt;less&gt;",
        "hint cb_nodes", "{(0,1023,4096,64)}", "byte 0 + 1024 x rank", "weir run --layout view", "weir_layout=view",
        "MPI_File_write_all", "meeting other ranks", "1.5 s", "256 KiB"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, Not(HasSubstr("href=")));
}

TEST(ReportPageTest, SaysWhyWhatWasTriedDidNotApply) {
  std::vector<Trace> traces = columns(4);
  EXPECT_THAT(report_page(summarize(traces), facts()), Not(HasSubstr("It was tried")));
  traces[0].files[0].why = "weir_layout=view did not apply: the file had 8 <bytes>";
  EXPECT_THAT(report_page(summarize(traces), facts()),
              HasSubstr("It was tried in this run: weir_layout=view did not apply: the file had 8 &lt;bytes&gt;."));
}

// Every tag is closed, so nothing from outside has become markup.
void expect_balanced(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<', page.find("<body>")); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    if (tag == "br" || tag.ends_with('/')) continue;
    if (tag.starts_with('/')) {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ(open.back(), tag.substr(1));
      open.pop_back();
      if (open.empty()) break;  // </body>
    } else {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  EXPECT_THAT(open, SizeIs(0));
}

TEST(ReportPageTest, TextsFromOutsideStayTexts) {
  expect_balanced(report_page(summarize(columns(4)), facts()));
  const std::string evil = "<b>\"&'</b><script>x</script>";
  const std::string text =
      concat(head(0, 1), "open\tfile=0\tpath=/", evil, "\tlayout=", evil, "\twhy=", evil, "\tranks=1\thint.",
             evil.substr(0, 3), "=", evil, "\nview\tfile=0\tview=0\telement=", evil, "\n",
             "access\tfile=0\tview=0\tcall=", evil, "\tbytes=3\tlast=2\n");
  JobFacts job = facts();
  job.command = job.mpi = job.store = evil;
  const std::string page = report_page(summarize({read(text)}), job);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<b>\"")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
  expect_balanced(page);
}

TEST(ReportPageTest, SaysThatThereWasNoMpiIo) {
  const std::string page = report_page(summarize({}), facts());
  EXPECT_THAT(page, HasSubstr("No file of Weir was opened by MPI-IO"));
  expect_balanced(page);
}

TEST(ReportPageTest, SaysWhatIsMissing) {
  Trace cut = read(columns_of(0, 1));
  cut.is_whole = false;
  cut.is_summed = true;
  cut.unread = 3;
  const std::string page = report_page(summarize({cut}), std::nullopt);
  EXPECT_THAT(page, HasSubstr("have no end"));
  EXPECT_THAT(page, HasSubstr("only sums"));
  EXPECT_THAT(page, HasSubstr("3 lines"));
}

TEST(ReportPageTest, NumbersForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(1 << 20), "1 MiB");
  EXPECT_EQ(human_seconds(0), "0 s");
  EXPECT_EQ(human_seconds(0.00125), "1.25 ms");
  EXPECT_EQ(human_seconds(7200), "7200 s");
}

// ---- the command ---------------------------------------------------------------------------------------------------

class ReportCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("weir-report-test-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void add(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  fs::path folder_;
};

TEST_F(ReportCommandTest, WritesAPage) {
  add("a.1.trace", columns_of(1, 2));
  add("a.0.trace", columns_of(0, 2));
  add("a.2.trace", "");  // killed at once
  add("notes.txt", "something else");
  const auto outcome = testing::weir({"report", folder_.string(), "--output", (folder_ / "x.html").string()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::ifstream in(folder_ / "x.html");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(page, HasSubstr("/out"));
  EXPECT_THAT(page, HasSubstr("</html>"));
}

TEST_F(ReportCommandTest, WritesJson) {
  add("a.0.trace", columns_of(0, 1));
  const auto outcome = testing::weir({"report", folder_.string(), "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(answer["files"][0]["path"], "/out");
  EXPECT_EQ(answer["files"][0]["write"]["bytes"], 65536);
  EXPECT_EQ(answer["files"][0]["write"]["sizes"]["65536"], 1);
  EXPECT_EQ(answer["files"][0]["phases"]["meet"], 0.25);
}

TEST_F(ReportCommandTest, SaysWhatIsWrong) {
  auto outcome = testing::weir({"report", folder_.string()});
  EXPECT_EQ(outcome.code, kExitBad);
  EXPECT_THAT(outcome.err, HasSubstr("no traces in"));
  EXPECT_THAT(outcome.err, HasSubstr("WEIR_TRACE"));
  outcome = testing::weir({"report", (folder_ / "none").string()});
  EXPECT_THAT(outcome.err, HasSubstr("none"));
  add("bad.trace", "hello\n");
  outcome = testing::weir({"report", folder_.string()});
  EXPECT_EQ(outcome.code, kExitBad);
  EXPECT_THAT(outcome.err, HasSubstr("bad.trace: this is no trace of Weir"));
}

}  // namespace
}  // namespace weir::cli::internal
