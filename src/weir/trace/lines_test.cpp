// What is written as a line of a trace is read as it was.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/trace/lines.h>

namespace weir::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

template <typename Line>
Line write_and_read(const Line& line) {
  std::string text = to_line(line);
  EXPECT_TRUE(text.ends_with('\n')) << text;
  text.pop_back();
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  const auto again = parse_line<Line>(text);
  EXPECT_TRUE(again) << text;
  EXPECT_EQ(to_line(again.value_or(Line{})), text + '\n') << "all of it is read";
  return again.value_or(Line{});
}

TEST(TraceLineTest, IsAWordAndValuesThatAreNotZero) {
  EXPECT_EQ(to_line(HeadLine{kVersion, "node1", 77, 0, 2, "mpich", 1000}),
            "weir-trace\tversion=1\thost=node1\tpid=77\tranks=2\tmpi=mpich\tat=1000\n");
  EXPECT_EQ(to_line(FailLine{"/a", "MPI_File_read", 1, ""}), "fail\tpath=/a\tcall=MPI_File_read\n");
  EXPECT_EQ(to_line(EndLine{5, 0}), "end\tat=5\n");
}

TEST(TraceLineTest, AnyTextIsReadAsItWasWritten) {
  std::string all;
  for (int code = 0; code < 256; ++code) all += static_cast<char>(code);
  EXPECT_EQ(write_and_read(FailLine{all, all, 3, all}).message, all);
  EXPECT_EQ(write_and_read(LayoutLine{1, all, all}).layout, all);
  EXPECT_EQ(write_and_read(LimitLine{all, 1}).what, all);
  const auto opening = write_and_read(OpenLine{.path = all, .hints = {{"cb_nodes", all}, {"striping_unit", ""}}});
  EXPECT_EQ(opening.path, all);
  EXPECT_THAT(opening.hints, ElementsAre(Pair("cb_nodes", all), Pair("striping_unit", "")));
}

TEST(TraceLineTest, EveryValueHasAKeyOfItsOwn) {
  const auto head = write_and_read(HeadLine{kVersion, "h", 1, 2, 3, "m", 4});
  EXPECT_EQ(std::tie(head.version, head.host, head.pid, head.rank, head.ranks, head.mpi, head.at),
            std::tuple(kVersion, "h", 1, 2, 3, "m", 4));
  const auto opening = write_and_read(OpenLine{1, "p", "l", "w", 2, 3, true, 4, 5, {}});
  EXPECT_EQ(std::tie(opening.file, opening.path, opening.layout, opening.why, opening.rank, opening.ranks),
            std::tuple(1, "p", "l", "w", 2, 3));
  EXPECT_EQ(std::tie(opening.can_write, opening.at, opening.took), std::tuple(true, 4, 5));
  const auto choice = write_and_read(ChoiceLine{1, "a", "b", "c"});
  EXPECT_EQ(std::tie(choice.file, choice.what, choice.chosen, choice.why), std::tuple(1, "a", "b", "c"));
  const auto view = write_and_read(ViewLine{1, 2, "e", 3, 4, 5, 6, 0.1, 7, 8, 9});
  EXPECT_EQ(std::tie(view.file, view.view, view.element, view.etype, view.size, view.period, view.disp),
            std::tuple(1, 2, "e", 3, 4, 5, 6));
  EXPECT_EQ(std::tie(view.degree, view.targets, view.breaks, view.matched), std::tuple(0.1, 7, 8, 9));
  const auto access =
      write_and_read(AccessLine{1, 2, "c", true, 3, 4, 5, 6, 7, 8, {9, 10, 11, 12}, 13, 14, 15, 16, 17});
  EXPECT_EQ(std::tie(access.file, access.view, access.call, access.is_write, access.count, access.at, access.took),
            std::tuple(1, 2, "c", true, 3, 4, 5));
  EXPECT_EQ(std::tie(access.bytes, access.first, access.last), std::tuple(6, 7, 8));
  EXPECT_THAT(access.phases, ElementsAre(9, 10, 11, 12));
  EXPECT_EQ(std::tie(access.messages, access.index_bytes, access.moved_bytes, access.direct_bytes),
            std::tuple(13, 14, 15, 16));
  EXPECT_EQ(access.gathered_bytes, 17);
  const auto failure = write_and_read(FailLine{"p", "c", 2, "m"});
  EXPECT_EQ(std::tie(failure.path, failure.call, failure.count, failure.message), std::tuple("p", "c", 2, "m"));
  const auto closing = write_and_read(CloseLine{1, 2, 3});
  EXPECT_EQ(std::tie(closing.file, closing.at, closing.io), std::tuple(1, 2, 3));
  const auto end = write_and_read(EndLine{1, 2});
  EXPECT_EQ(std::tie(end.at, end.io), std::tuple(1, 2));
}

TEST(TraceLineTest, OtherLinesAreNotTaken) {
  EXPECT_FALSE(parse_line<OpenLine>("access\tfile=0"));
  EXPECT_FALSE(parse_line<OpenLine>("open\tfile=0"));
  EXPECT_FALSE(parse_line<OpenLine>("open\tfile=x\tpath=/a"));
  EXPECT_FALSE(parse_line<OpenLine>("opening\tfile=0\tpath=/a"));
  const auto opening = parse_line<OpenLine>("open\tfile=3\tpath=/a%25\twrite=1\tnews=7");
  ASSERT_TRUE(opening);
  EXPECT_TRUE(opening->can_write);
  EXPECT_EQ(opening->path, "/a%");
  EXPECT_EQ(opening->file, 3);
  EXPECT_EQ(parse_line<CloseLine>("close\tfile=3\tat=1")->file, 3);
  EXPECT_FALSE(parse_line<CloseLine>("open\tfile=3\tpath=/a"));
}

TEST(LinesTest, EveryByteComesBack) {
  OpenLine line;
  for (int byte = 0; byte < 256; ++byte) line.path += static_cast<char>(byte);
  const std::string text = to_line(line);
  EXPECT_EQ(text.find_first_of(std::string_view("\0\r\x1b\x7f", 4)), std::string::npos);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  EXPECT_EQ(parse_line<OpenLine>(std::string_view(text).substr(0, text.size() - 1))->path, line.path);
}

TEST(LinesTest, CodesHaveTwoDigits) {
  for (const char* bad : {"/a%", "/a%2", "/a%zz", "/a%-1", "/a%+1", "/a%2x", "/a% 1"}) {
    EXPECT_FALSE(parse_line<OpenLine>(concat("open\tfile=3\tpath=", bad))) << bad;
  }
}

}  // namespace
}  // namespace weir::trace
