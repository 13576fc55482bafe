// From what a job did to the report.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/layout/language.h>
#include <weir/report/internal/layout_advice.h>
#include <weir/report/job_summary.h>
#include <weir/report/page.h>
#include <weir/trace/testing/sample_traces.h>

namespace weir::report {
namespace {

using internal::advise;
using internal::Candidate;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using trace::FileSummary;
using trace::IoSummary;
using trace::summarize;
using trace::Trace;
using trace::testing::columns;
using trace::testing::columns_of;
using trace::testing::head;
using trace::testing::read;
using weir::testing::IsOk;

TEST(JobSummaryTest, ListsFailures) {
  const IoSummary summary = summarize(trace::testing::with_failures());
  EXPECT_THAT(failure_lines(summary),
              ElementsAre("4 I/O calls failed.", "  /out: MPI_File_write_all, 3 times on ranks 0,2: full",
                          "  /other: MPI_File_open, 1 time on rank 2: no"));
  const auto shown = nlohmann::json::parse(report_json(summary, std::nullopt));
  EXPECT_EQ(shown["failed_calls"], 4);
  EXPECT_EQ(shown["failures"][0]["by_rank"]["2"], 1);
  EXPECT_EQ(shown["files"][0]["failed_calls"], 3);
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
  const auto advice = advise(summarize(columns(4)).files.at(0));
  ASSERT_TRUE(advice);
  ASSERT_TRUE(advice->better);
  EXPECT_EQ(advice->better->layout, "view");
  EXPECT_DOUBLE_EQ(advice->better->degree, 1);
  EXPECT_TRUE(std::any_of(advice->candidates.begin(), advice->candidates.end(), [](const Candidate& one) {
    return one.layout.find("dist=(*,BLOCK)") != std::string::npos && one.degree == 1;
  }));
}

TEST(LayoutAdviceTest, IsContentWithWhatFits) {
  const std::string fitting = "hpf(shape=[64,4096], dist=(*,BLOCK), grid=[1,4])";
  const auto advice = advise(summarize(columns(4, fitting)).files.at(0));
  ASSERT_TRUE(advice);
  EXPECT_DOUBLE_EQ(advice->degree, 1);
  EXPECT_FALSE(advice->better);
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

}  // namespace
}  // namespace weir::report
