#include <weir/cli/run.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <weir/cli/internal/command.h>
#include <weir/cli/internal/run_testing.h>

namespace weir::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::layout;
using ::testing::Not;
using testing::Outcome;
using ::testing::StartsWith;
using testing::weir;

const std::string kFigure4 = "falls(disp=2, {(0,1,6,1)} | {(2,3,6,1)} | {(4,5,6,1)})";

TEST(RunTest, HelpAndVersion) {
  EXPECT_THAT(weir({"--version"}).out, StartsWith("weir "));
  EXPECT_EQ(weir({"--version"}).code, 0);
  EXPECT_THAT(weir({"--help"}).out, HasSubstr("layout"));
  for (const char* command : {"show", "map", "unmap", "segments", "intersect", "match", "validate", "batch", "print",
                              "size", "simplify", "cut", "cost"}) {
    const Outcome outcome = layout({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("Example")) << command;
    EXPECT_THAT(outcome.out, HasSubstr("--json")) << command;
    EXPECT_EQ(outcome.err, "") << command;
  }
}

TEST(RunTest, BadUsageIsNamedAndGivesTwo) {
  const auto expect_usage = [](const std::vector<std::string>& arguments, const std::string& message) {
    const Outcome outcome = weir(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith(message));
  };
  expect_usage({}, "weir: A subcommand is required");
  expect_usage({"layuot"}, "weir: there is no command 'layuot'");
  expect_usage({"layout"}, "weir layout: A subcommand is required");
  expect_usage({"layout", "mop"}, "weir layout: there is no command 'mop'");
  expect_usage({"layout", "show"}, "weir layout show: LAYOUT is required");
  expect_usage({"layout", "map", kFigure4}, "weir layout map: X is required");
  expect_usage({"layout", "map", kFigure4, "5x"}, "weir layout map: X: '5x' is no size");
  expect_usage({"layout", "map", kFigure4, "-5"}, "weir layout map: ");
  expect_usage({"layout", "map", kFigure4, "5", "--mode", "near"}, "weir layout map: --mode: near not in");
  expect_usage({"layout", "unmap", kFigure4, "5"}, "weir layout unmap: --element is required");
  expect_usage({"layout", "map", kFigure4, "5", "--nonsense"}, "weir layout map: there is no option '--nonsense'\n");
}

TEST(RunTest, UnknownWordsAreAnsweredWithTheNearestKnownOnes) {
  const auto expect_hint = [](const std::vector<std::string>& arguments, const std::string& message) {
    const Outcome outcome = weir(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  expect_hint({"layuot"}, "weir: there is no command 'layuot'; did you mean 'layout'?");
  expect_hint({"layout", "mop", "x"}, "weir layout: there is no command 'mop'; did you mean 'map'?");
  expect_hint({"up", "--sevrers", "3"}, "weir up: there is no option '--sevrers'; did you mean '--servers'?");
  expect_hint({"up", "--sevrers=3"}, "did you mean '--servers'?");
  expect_hint({"ls", "--recursve"}, "weir ls: there is no option '--recursve'; did you mean '--recursive'?");
  expect_hint({"--versio"}, "weir: there is no option '--versio'; did you mean '--version'?");
  expect_hint({"run", "--servrs", "1", "--", "true"}, "did you mean '--servers'?");
  expect_hint({"run", "mpirun"}, "the command to run comes after --");
  expect_hint({"stat", "a", "b"}, "weir stat: unexpected argument 'b'");
  expect_hint({"frobnicate\x1b[2J"}, "weir: there is no command 'frobnicate\\x1b[2J'\n");
}

TEST(RunTest, HelpIsACommandToo) {
  EXPECT_EQ(weir({"help", "put"}).out, weir({"put", "--help"}).out);
  EXPECT_EQ(weir({"help", "layout", "show"}).out, weir({"layout", "show", "--help"}).out);
  EXPECT_EQ(weir({"help"}).out, weir({"--help"}).out);
  EXPECT_THAT(weir({"help"}).out, HasSubstr("Exit codes:"));
  const Outcome wrong = weir({"help", "putt"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("there is no command 'putt'; did you mean 'put'?"));
}

TEST(RunTest, NumbersOutOfRangeAreRefusedWithTheRange) {
  const auto expect_range = [](const std::vector<std::string>& arguments, const std::string& range) {
    const Outcome outcome = weir(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments[0];
    EXPECT_THAT(outcome.err, HasSubstr(arguments[arguments.size() - 2]));
    EXPECT_THAT(outcome.err, HasSubstr(range)) << arguments[0] << " " << arguments.back();
  };
  for (const char* command : {"up", "run"}) {
    for (const char* number : {"0", "-1", "1025", "100000", "99999999999999999999", "1.5", "many", ""}) {
      expect_range({command, "--servers", number}, "from 1 to 1024");
    }
    for (const char* size : {"0", "1K", "1048575"}) {
      expect_range({command, "--capacity", size}, "1048576 to 4611686018427387904 bytes");
    }
    expect_range({command, "--capacity", "9999999999T"}, "2^62");
    expect_range({command, "--capacity", "-1"}, "digits");
    expect_range({command, "--ahead", "2T"}, "0 to 1099511627776 bytes");
  }
  for (const char* time : {"0", "-1", "1e300", "nan", "inf", "86401", "x"}) {
    expect_range({"ls", "--timeout", time}, "from 0.001 to 86400");
  }
  expect_range({"down", "--patience", "1e300"}, "from 0 to 86400");
  expect_range({"put", "a", "/a", "--jobs", "0"}, "from 1 to 64");
  expect_range({"get", "/a", "--view", "stripe(unit=1, over=2)", "--element", "-1"}, "from 0 to");
  expect_range({"relayout", "/a", "stripe(unit=1, over=2)", "--buffer", "1"}, "65536 to");
}

TEST(RunTest, ConfigFilesKeepToTheRanges) {
  const std::string path = ::testing::TempDir() + "weir-config-" + std::to_string(::getpid()) + ".toml";
  for (const char* text :
       {"servers = 0", "servers = 4294967297", "servers = -1", "capacity = \"1K\"", "ahead = \"2T\""}) {
    std::ofstream(path) << text << '\n';
    const Outcome outcome = weir({"up", "--config", path, "--connection", path + ".none"});
    EXPECT_EQ(outcome.code, 2) << text;
    EXPECT_THAT(outcome.err, HasSubstr("allowed are")) << text;
  }
  std::filesystem::resize_file(path, std::uintmax_t{1} << 42);
  EXPECT_THAT(weir({"up", "--config", path}).err, HasSubstr("more than 1048576 bytes"));
  std::filesystem::remove(path);
}

TEST(RunTest, SyntaxErrorsPointAtTheColumn) {
  const Outcome outcome = layout({"show", "strip(unit=4)"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("weir layout show: column 1: "));
  EXPECT_THAT(outcome.err, HasSubstr("\n  strip(unit=4)\n  ^\n"));
  EXPECT_THAT(layout({"validate", "stripe(unit=4, over=!)"}).err,
              HasSubstr("\n  stripe(unit=4, over=!)\n                      ^\n"));
}

TEST(RunTest, TheCaretFollowsIntoLongTexts) {
  const std::string text(500, 'x');
  const Status status = internal::point_at(invalid_argument("bad", 300), text);
  const std::string expected = "bad\n  ..." + std::string(72, 'x') + "...\n" + std::string(5 + 36, ' ') + "^";
  EXPECT_EQ(status.message(), expected);
  EXPECT_EQ(internal::point_at(invalid_argument("end", 4), "\xc3\xa4\xc3").message(), "end\n  \xc3\xa4\xc3\n    ^");
}

TEST(RunTest, SizesTakeUnits) {
  EXPECT_EQ(*internal::parse_size("0"), 0);
  EXPECT_EQ(*internal::parse_size("3K"), 3072);
  EXPECT_EQ(*internal::parse_size("2M"), 2 << 20);
  EXPECT_EQ(*internal::parse_size("1G"), 1 << 30);
  EXPECT_EQ(*internal::parse_size("4194304T"), kMaxBytes);
  for (const char* bad : {"", "K", "-1", "1.5", "1k", "1KK", " 1", "0x1", "4194305T", "99999999999999999999"}) {
    EXPECT_FALSE(internal::parse_size(bad).is_ok()) << bad;
  }
}

TEST(MapCommandTest, TellsWhereBytesLive) {
  EXPECT_EQ(layout({"map", kFigure4, "10", "2K"}).out,
            "file 10  element 1  offset 2\nfile 2048  element 0  offset 682\n");
  EXPECT_EQ(layout({"map", kFigure4, "5", "--element", "0", "--mode", "previous"}).out,
            "file 5  element 0  offset 1\n");
  EXPECT_EQ(layout({"map", kFigure4, "5", "--element", "0", "--mode", "next", "--json"}).out,
            "{\"x\":5,\"element\":0,\"y\":2}\n");
}

TEST(MapCommandTest, AByteOnNoElementGivesOne) {
  const Outcome before = layout({"map", kFigure4, "1", "3"});
  EXPECT_EQ(before.code, 1);
  EXPECT_EQ(before.out, "file 1  on no element\nfile 3  element 0  offset 1\n");
  const Outcome other = layout({"map", kFigure4, "5", "-e", "0"});
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(other.out, "file 5  not on element 0\n");
  EXPECT_EQ(layout({"map", kFigure4, "1", "--json"}).out, "{\"x\":1,\"element\":null,\"y\":null}\n");
}

TEST(MapCommandTest, TheClosestByteNeedsAnElement) {
  const Outcome outcome = layout({"map", kFigure4, "1", "--mode", "next"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, StartsWith("weir layout map: mode next needs --element"));
}

TEST(MapCommandTest, Unmap) {
  EXPECT_EQ(layout({"unmap", kFigure4, "2", "--element", "1"}).out, "element 1  offset 2  file 10\n");
  EXPECT_EQ(layout({"unmap", kFigure4, "2", "--element", "1", "--json"}).out, "{\"element\":1,\"y\":2,\"x\":10}\n");
  EXPECT_THAT(layout({"unmap", kFigure4, "2", "--element", "3"}).err, StartsWith("weir layout unmap: "));
}

TEST(SegmentsCommandTest, ListsOnePeriodByDefault) {
  const Outcome outcome =
      layout({"segments", "tiles(shape=[4,4], tile=[2,2], over=2)", "--element", "1", "--limit", "3"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out,
            "element 1 of tiles(shape=[4,4], elem=1, tile=[2,2], over=2), bytes [0, 8)\n"
            "        offset            file          length\n"
            "             0               2               2\n"
            "             2               6               2\n"
            "             4              10               2\n"
            "... and more: --limit shows more, --from and --to choose others\n");
  EXPECT_EQ(layout({"segments", "stripe(unit=4,over=3)", "-e", "1", "--from", "2", "--to", "9", "--json"}).out,
            "{\"from\":2,\"to\":9,\"segments\":[[6,2],[16,4],[28,1]],\"complete\":true}\n");
  EXPECT_THAT(layout({"segments", "stripe(unit=4,over=3)", "-e", "1", "--from", "9", "--to", "2"}).err,
              HasSubstr("range [9, 2) ends before it begins"));
}

TEST(IntersectCommandTest, WorkedExample) {
  const std::vector<std::string> arguments{"intersect", "falls(period=32, {(0,7,16,2,{(0,1,-,1)})})",
                                           "falls({(0,3,8,4,{(0,0,2,2)})})", "--pieces"};
  const std::string out = layout(arguments).out;
  EXPECT_THAT(out, StartsWith("a       element 0 of falls(period=32, {(0,7,16,2,{(0,1,-,1)})})\n"
                              "b       element 0 of falls({(0,3,8,4,{(0,0,2,2)})})\n"
                              "a n b   {(0,0,16,2)}\n"
                              "on a    {(0,0,2,2)}\n"
                              "on b    {(0,0,4,2)}\n"
                              "period  32 bytes of the file; a advances by 4, b by 8\n"
                              "bytes   2\n"
                              "pieces  2\n"
                              "nodes   "));
  EXPECT_THAT(out, ::testing::EndsWith("      a offset        b offset            file          length\n"
                                       "             0               0               0               1\n"
                                       "             2               4              16               1\n"));
}

TEST(IntersectCommandTest, RangesAndElements) {
  const Outcome outcome = layout({"intersect", "stripe(unit=4, over=2)", "stripe(unit=6, over=2)", "--a-element", "1",
                                  "--b-element", "1", "--from", "5", "--to", "24", "--pieces", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json reply = json::parse(outcome.out);
  EXPECT_EQ(reply["pieces"], json::parse("[[2,0,2],[8,8,4]]"));
  EXPECT_EQ(reply["bytes"], 6);
  EXPECT_EQ(reply["piece_count"], 2);
  EXPECT_EQ(reply["from"], 5);
  EXPECT_EQ(reply["to"], 24);
}

TEST(IntersectCommandTest, PeriodsThatDoNotFitNeedARange) {
  const std::string a = "stripe(unit=1000000007, over=2)";
  const std::string b = "stripe(unit=1000000009, over=2)";
  const Outcome all = layout({"intersect", a, b});
  EXPECT_EQ(all.code, 2);
  EXPECT_THAT(all.err, HasSubstr("--from and --to"));
  const Outcome part = layout({"intersect", a, b, "--from", "0", "--to", "1000000100"});
  EXPECT_EQ(part.code, 0) << part.err;
  EXPECT_THAT(part.out, HasSubstr("bytes   1000000007\npieces  1\n"));
}

TEST(MatchCommandTest, ExplainsTheNumber) {
  const std::string view = "hpf(shape=[64,64], elem=8, dist=(BLOCK,*), grid=[4,1])";
  const Outcome good = layout({"match", view, "stripe(unit=8K, over=4)"});
  EXPECT_EQ(good.code, 0);
  EXPECT_THAT(good.out, HasSubstr("       3  1.000000          8192             0         1"));
  EXPECT_THAT(good.out, HasSubstr("degree = 1 / (1 + break cost + spread)"));
  const json one = json::parse(layout({"match", view, "stripe(unit=512, over=4)", "-e", "1", "--json"}).out);
  EXPECT_EQ(one["element"], 1);
  EXPECT_LT(one["degree"], 1.0);
  EXPECT_EQ(one["targets"], 4);
}

TEST(ValidateCommandTest, AnswersByExitCode) {
  const Outcome good = layout({"validate", kFigure4});
  EXPECT_EQ(good.code, 0);
  EXPECT_THAT(good.out, StartsWith("ok: 3 elements"));
  const Outcome gap = layout({"validate", "falls({(0,1,6,1)} | {(3,5,6,1)})"});
  EXPECT_EQ(gap.code, 1);
  EXPECT_THAT(gap.out, HasSubstr("byte 2"));
  const json reply = json::parse(layout({"validate", "falls({(0,3,-,1)} | {(3,5,-,1)})", "--json"}).out);
  EXPECT_EQ(reply["ok"], false);
  EXPECT_EQ(reply["byte"], 3);
  EXPECT_EQ(layout({"validate", "falls({"}).code, 2);
}

TEST(TextCommandsTest, PrintSizeSimplifyCutCost) {
  EXPECT_EQ(layout({"print", "stripe( over=4, unit=65536 )"}).out, "stripe(unit=64K, over=4)\n");
  EXPECT_EQ(layout({"print", "stripe(over=4,unit=1)", "--json"}).out, "{\"layout\":\"stripe(unit=1, over=4)\"}\n");
  EXPECT_EQ(layout({"size", "hpf(shape=[10,10], dist=(BLOCK,*), grid=[4,1])", "--limit", "2"}).out,
            "element 0  30 of 100 bytes\nelement 1  30 of 100 bytes\n... and 2 more elements (--limit shows more)\n");
  EXPECT_EQ(layout({"size", "stripe(unit=4,over=3)", "-e", "2", "--json"}).out,
            "{\"element\":2,\"size\":4,\"period\":12}\n");
  EXPECT_EQ(layout({"simplify", "{(1,16,32,1,{(0,0,4,2),(8,9,4,2)})}"}).out, "{(1,1,4,2),(9,10,4,2)}\n");
  EXPECT_EQ(layout({"cut", "(3,5,6,5)", "4", "28"}).out, "{(0,1,-,1),(5,7,6,3),(23,24,-,1)}\n");
  EXPECT_EQ(layout({"cut", "(3,5,6,5)", "4", "28", "--json"}).out,
            "{\"falls\":\"{(0,1,-,1),(5,7,6,3),(23,24,-,1)}\"}\n");
  EXPECT_EQ(layout({"cut", "(3,5,6,5)", "4", "3"}).code, 2);
  EXPECT_GT(json::parse(layout({"cost", "falls({(4,7,12,1)})", "stripe(unit=64K, over=4)", "--json"}).out)["nodes"], 0);
}

TEST(ShowCommandTest, HeaderTreePicture) {
  EXPECT_EQ(layout({"show", kFigure4, "--ascii"}).out,
            "falls(disp=2, {(0,1,-,1)} | {(2,3,-,1)} | {(4,5,-,1)})\n"
            "falls: 3 elements, period 6 bytes, disp 2\n"
            "\n"
            "element 0  2 bytes a period\n"
            "`- (0,1,-,1)  2 bytes at 0\n"
            "\n"
            "element 1  2 bytes a period\n"
            "`- (2,3,-,1)  2 bytes at 2\n"
            "\n"
            "element 2  2 bytes a period\n"
            "`- (4,5,-,1)  2 bytes at 4\n"
            "\n"
            "   0  ..001122001122\n"
            "(file bytes 0 to 13; a cell is one byte; . on no element)\n");
}

TEST(ShowCommandTest, ManyElementsAreCut) {
  const Outcome outcome = layout({"show", "stripe(unit=1, over=100)"});
  EXPECT_THAT(outcome.out, HasSubstr("element 7  "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("element 8  ")));
  EXPECT_THAT(outcome.out, HasSubstr("... and 92 more elements"));
}

TEST(ShowCommandTest, Json) {
  const json reply = json::parse(layout({"show", "tiles(shape=[4,4], tile=[2,2], over=2)", "--json", "-e", "1"}).out);
  EXPECT_EQ(reply["kind"], "tiles");
  EXPECT_EQ(reply["period"], 16);
  EXPECT_EQ(reply["element_count"], 2);
  ASSERT_EQ(reply["elements"].size(), 1U);
  EXPECT_EQ(reply["elements"][0]["element"], 1);
  EXPECT_EQ(reply["elements"][0]["size"], 8);
}

TEST(ShowCommandTest, ColorsFollowTheTerminal) {
  const Terminal terminal{.is_terminal = true, .columns = 80};
  const auto has_color = [&](std::vector<std::string> more, const Terminal& place) {
    more.insert(more.begin(), {"show", "stripe(unit=1, over=2)"});
    return layout(more, "", place).out.find('\x1b') != std::string::npos;
  };
  ::unsetenv("NO_COLOR");
  EXPECT_TRUE(has_color({}, terminal));
  EXPECT_FALSE(has_color({}, {}));
  EXPECT_TRUE(has_color({"--color", "always"}, {}));
  EXPECT_FALSE(has_color({"--color", "never"}, terminal));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(has_color({}, terminal));
  EXPECT_TRUE(has_color({"--color", "always"}, terminal));
  ::unsetenv("NO_COLOR");
}

TEST(ShowCommandTest, PicturesFitTheWidth) {
  for (const char* text :
       {"hpf(shape=[100000,100000], elem=8, dist=(BLOCK,CYCLIC(3)), grid=[4,4])", "stripe(unit=4G, over=7)",
        "hpf(shape=[30,41], dist=(*,BLOCK), grid=[1,4])", "stripe(unit=1, over=1000, disp=123456789)"}) {
    for (const int width : {40, 80, 133}) {
      const std::string out = layout({"show", text, "--no-tree", "--width", std::to_string(width)}).out;
      std::istringstream lines(out.substr(out.find("\n\n") + 2));  // behind the header
      std::string line;
      int rows = 0;
      while (std::getline(lines, line) && line[0] != '(') {
        EXPECT_LE(static_cast<int>(line.size()), width) << text << '\n' << line;
        ++rows;
      }
      EXPECT_GT(rows, 0) << text;
    }
  }
}

TEST(ShowCommandTest, ErrorsComeBeforeAnyOutput) {
  for (const Outcome& outcome :
       {layout({"show", kFigure4, "-e", "7"}), layout({"show", kFigure4, "--slice", "3"}),
        layout({"show", "hpf(shape=[4,4,4], dist=(*,*,*), grid=[1,1,1])", "--slice", "9,*,*"})}) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("weir layout show: "));
  }
}

TEST(LayoutArgumentTest, ComesFromAFileOrStandardInput) {
  EXPECT_EQ(layout({"print", "@-"}, "stripe(over=4,\n unit=1)\n").out, "stripe(unit=1, over=4)\n");
  const std::string name = ::testing::TempDir() + std::to_string(::getpid()) + "_layout_argument_test.txt";
  std::ofstream(name) << "stripe(over=4, unit=2)\n";
  EXPECT_EQ(layout({"print", "@" + name}).out, "stripe(unit=2, over=4)\n");
  std::remove(name.c_str());
  const Outcome missing = layout({"print", "@" + name});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("cannot read a layout from file"));
  const Outcome folder = layout({"print", "@/"});  // can be opened, but not read
  EXPECT_EQ(folder.code, 2);
  EXPECT_THAT(folder.err, HasSubstr("cannot read a layout from file"));
}

TEST(RunTest, AnswersThatCannotBeWrittenAreAnError) {
  const char* argv[] = {"weir", "layout", "print", "stripe(unit=1,over=1)"};
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(run(4, argv, in, out, err), 2);
  EXPECT_THAT(err.str(), HasSubstr("weir layout print: cannot write"));
}

}  // namespace
}  // namespace weir::cli
