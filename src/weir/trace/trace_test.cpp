// From the traces of ranks to what a job did with each file.

#include <numeric>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/ranks.h>
#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/layout/language.h>
#include <weir/trace/summary.h>
#include <weir/trace/testing/sample_traces.h>

namespace weir::trace {
namespace {

using testing::columns;
using testing::columns_of;
using ::testing::ElementsAre;
using testing::head;
using testing::read;
using ::testing::SizeIs;
using weir::testing::IsOk;
using weir::testing::StatusIs;

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
  const TracedFile& file = trace.files[0];
  EXPECT_EQ(file.path, "/out");
  EXPECT_EQ(file.layout, "stripe(unit=64K, over=4)");
  EXPECT_EQ(file.hints.at("cb_nodes"), "2");
  ASSERT_THAT(file.views, SizeIs(2));
  EXPECT_EQ(file.views[1].element, "0 262144 {(1024,2047,4096,64)}");
  EXPECT_DOUBLE_EQ(file.views[1].degree, 0.2);
  ASSERT_THAT(file.accesses, SizeIs(2));
  const AccessLine& write = file.accesses[0];
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
  EXPECT_NEAR(file.phases[kPhases], 4 * 0.25 + 4 * 0.000999, 1e-9);
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
  const IoSummary summary = summarize(testing::with_failures());
  EXPECT_EQ(summary.failed_calls, 4);
  EXPECT_EQ(summary.files.at(0).failed_calls, 3);
  ASSERT_THAT(summary.failures, SizeIs(2));
  EXPECT_EQ(summary.failures[0].message, "full");
  EXPECT_THAT(summary.failures[0].by_rank, ElementsAre(std::pair(0, 2), std::pair(2, 1)));
}

}  // namespace
}  // namespace weir::trace
