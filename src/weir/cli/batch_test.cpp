#include <weir/cli/internal/batch.h>

#include <streambuf>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <weir/base/testing/matchers.h>
#include <weir/cli/internal/run_testing.h>

namespace weir::cli::internal {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::weir::testing::StatusIs;

std::string answer(const std::string& line, const BatchLimits& limits = {}) {
  BatchEngine engine(limits);
  std::string out;
  engine.answer(line, out);
  EXPECT_EQ(out.back(), '\n');
  out.pop_back();
  return out;
}

std::string error_of(const std::string& line, const BatchLimits& limits = {}) {
  const json reply = json::parse(answer(line, limits));
  EXPECT_EQ(reply.size(), 1U) << reply;
  return reply.value("error", "");
}

// Figure 4 of the source document: displacement 2, three elements of two bytes.
const std::string kFigure4 = "falls(disp=2, {(0,1,6,1)} | {(2,3,6,1)} | {(4,5,6,1)})";

TEST(BatchTest, PrintsCanonically) {
  EXPECT_EQ(answer(R"~({"op":"print","layout":" stripe( over = 4,unit=65536)"})~"),
            R"~({"layout":"stripe(unit=64K, over=4)"})~");
}

TEST(BatchTest, Size) {
  EXPECT_EQ(answer(R"~({"op":"size","layout":"hpf(shape=[10,10],dist=(BLOCK,*),grid=[4,1])","element":3})~"),
            R"({"size":10,"period":100})");
}

TEST(BatchTest, MapInAllModes) {
  const std::string ask = R"({"op":"map","layout":")" + kFigure4 + R"(","element":)";
  EXPECT_EQ(answer(ask + R"(1,"x":10})"), R"({"y":2})");
  EXPECT_EQ(answer(ask + R"(1,"x":10,"mode":"exact"})"), R"({"y":2})");
  EXPECT_EQ(answer(ask + R"(0,"x":5})"), R"({"y":null})");
  EXPECT_EQ(answer(ask + R"(0,"x":5,"mode":"previous"})"), R"({"y":1})");
  EXPECT_EQ(answer(ask + R"(0,"x":5,"mode":"next"})"), R"({"y":2})");
  EXPECT_EQ(answer(ask + R"(0,"x":0,"mode":"previous"})"), R"({"y":null})");
  EXPECT_THAT(error_of(ask + R"(0,"x":0,"mode":"nearest"})"), HasSubstr("exact, next and previous"));
}

TEST(BatchTest, Unmap) {
  EXPECT_EQ(answer(R"({"op":"unmap","layout":")" + kFigure4 + R"(","element":1,"y":2})"), R"({"x":10})");
  EXPECT_THAT(error_of(R"~({"op":"unmap","layout":"hpf(shape=[3],dist=(BLOCK),grid=[5])","element":4,"y":0})~"),
              HasSubstr("empty"));
  EXPECT_THAT(error_of(R"~({"op":"unmap","layout":"stripe(unit=4,over=4)","element":1,"y":4611686018427387904})~"),
              HasSubstr("no byte 4611686018427387904"));
}

TEST(BatchTest, SegmentsAreMaximalAndInElementOrder) {
  EXPECT_EQ(answer(R"~({"op":"segments","layout":"stripe(unit=4,over=3)","element":1,"from":2,"to":9})~"),
            R"({"segments":[[6,2],[16,4],[28,1]]})");
  EXPECT_EQ(
      answer(R"~({"op":"segments","layout":"falls({(4,5,-,1),(0,1,-,1)}|{(2,3,-,1)})","element":0,"from":0,"to":4})~"),
      R"({"segments":[[4,2],[0,2]]})");
  EXPECT_EQ(
      answer(R"~({"op":"segments","layout":"stripe(unit=4,over=1)","element":0,"from":0,"to":4611686018427387904})~"),
      R"({"segments":[[0,4611686018427387904]]})");
  EXPECT_EQ(
      answer(R"~({"op":"segments","layout":"hpf(shape=[3],dist=(BLOCK),grid=[5])","element":4,"from":0,"to":9})~"),
      R"({"segments":[]})");
}

TEST(BatchTest, IntersectListsPiecesInTheOrderOfA) {
  EXPECT_EQ(answer(R"~({"op":"intersect","a":"hpf(shape=[8,8],dist=(*,BLOCK),grid=[1,4])","ai":0,)~"
                   R"~("b":"stripe(unit=16,over=4)","bi":0,"from":0,"to":64})~"),
            R"({"pieces":[[0,0,2],[2,8,2]]})");
  EXPECT_EQ(answer(R"~({"op":"intersect","a":"falls({(4,7,-,1),(0,3,-,1)})","ai":0,)~"
                   R"~("b":"stripe(unit=8,over=1)","bi":0,"from":2,"to":7})~"),
            R"({"pieces":[[0,4,3],[6,2,2]]})");
  EXPECT_THAT(error_of(R"~({"op":"intersect","a":"stripe(unit=8,over=1)","ai":0,"b":"stripe(unit=8,over=1)","bi":0})~"),
              HasSubstr("\"to\" is missing"));
}

TEST(BatchTest, ProjectGivesTheWorkedExample) {
  const json reply = json::parse(answer(R"~({"op":"project","a":"falls(period=32,{(0,7,16,2,{(0,1,-,1)})})","ai":0,)~"
                                        R"~("b":"falls({(0,3,8,4,{(0,0,2,2)})})","bi":0})~"));
  EXPECT_EQ(reply["falls"], "{(0,0,16,2)}");
  EXPECT_EQ(reply["proj_a"], "{(0,0,2,2)}");
  EXPECT_EQ(reply["proj_b"], "{(0,0,4,2)}");
  EXPECT_EQ(reply["period"], 32);
  EXPECT_EQ(reply["period_a"], 4);
  EXPECT_EQ(reply["period_b"], 8);
}

TEST(BatchTest, SimplifyAndCutGiveTheWorkedExamples) {
  EXPECT_EQ(answer(R"({"op":"simplify","falls":"{(0,15,32,2,{(1,3,-,1),(4,6,-,1)})}"})"),
            R"({"falls":"{(1,6,32,2)}"})");
  EXPECT_EQ(answer(R"~({"op":"cut","falls":"(3,5,6,5)","l":4,"r":28})~"),
            R"({"falls":"{(0,1,-,1),(5,7,6,3),(23,24,-,1)}"})");
  EXPECT_THAT(error_of(R"~({"op":"cut","falls":"(3,5,6,5)","l":5,"r":4})~"), HasSubstr("ends before it begins"));
}

TEST(BatchTest, MatchOfALayoutWithItselfIsOne) {
  const json reply = json::parse(
      answer(R"~({"op":"match","layout":"stripe(unit=4,over=3)","view":"stripe(unit=4,over=3)","element":2})~"));
  EXPECT_EQ(reply["degree"], 1.0);
  EXPECT_EQ(reply["breaks"], 0);
  EXPECT_EQ(reply["targets"], 1);
}

TEST(BatchTest, ValidateNamesTheByte) {
  EXPECT_EQ(answer(R"({"op":"validate","layout":")" + kFigure4 + R"("})"), R"({"ok":true})");
  const json gap = json::parse(answer(R"~({"op":"validate","layout":"falls(disp=10,{(0,1,6,1)} | {(3,5,6,1)})"})~"));
  EXPECT_EQ(gap["ok"], false);
  EXPECT_EQ(gap["byte"], 12);
  EXPECT_FALSE(gap["error"].get<std::string>().empty());
  const json twice = json::parse(answer(R"~({"op":"validate","layout":"falls({(0,3,-,1)} | {(3,5,-,1)})"})~"));
  EXPECT_EQ(twice["ok"], false);
  EXPECT_EQ(twice["byte"], 3);
  const json broken = json::parse(answer(R"({"op":"validate","layout":"falls({"})"));
  EXPECT_EQ(broken["ok"], false);
  EXPECT_EQ(broken["byte"], nullptr);
  EXPECT_FALSE(broken["error"].get<std::string>().empty());
  EXPECT_FALSE(error_of(R"({"op":"validate"})").empty());
}

TEST(BatchTest, CostCountsNodes) {
  const json reply =
      json::parse(answer(R"~({"op":"cost","a":"falls({(4,7,12,1)})","ai":0,"b":"stripe(unit=64K,over=4)","bi":0})~"));
  EXPECT_GT(reply["nodes"], 0);
  EXPECT_LT(reply["nodes"], 100);
  EXPECT_GT(reply["nanoseconds"], 0);
}

TEST(BatchTest, BadRequestsAreExplained) {
  EXPECT_THAT(error_of("{\"op\":"), HasSubstr("not JSON at column"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of("7"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of(""), HasSubstr("empty line"));
  EXPECT_THAT(error_of("{}"), HasSubstr("\"op\" is missing"));
  EXPECT_THAT(error_of(R"({"op":3})"), HasSubstr("\"op\" must be a string"));
  EXPECT_THAT(error_of(R"({"op":"mop"})"), HasSubstr("unknown op \"mop\": there are print, size, map"));
  EXPECT_THAT(error_of(R"({"op":"print"})"), HasSubstr("\"layout\" is missing"));
  EXPECT_THAT(error_of(R"({"op":"print","layout":"stripe(unit=4"})"), HasSubstr("column 14"));
  EXPECT_THAT(error_of(R"~({"op":"size","layout":"stripe(unit=4,over=2)","element":2})~"), HasSubstr("no element 2"));
  EXPECT_THAT(error_of("{\"op\":\"print\",\"layout\":\"\xff\"}"), HasSubstr("not JSON"));
}

TEST(BatchTest, NumbersMustBeOffsets) {
  const auto error_with_x = [](const std::string& x) {
    return error_of(R"~({"op":"map","layout":"stripe(unit=4,over=2)","element":0,"x":)~" + x + "}");
  };
  EXPECT_THAT(error_with_x("1.5"), HasSubstr("\"x\" must be an integer"));
  EXPECT_THAT(error_with_x("1e3"), HasSubstr("\"x\" must be an integer"));
  EXPECT_THAT(error_with_x("\"1\""), HasSubstr("\"x\" must be an integer"));
  EXPECT_THAT(error_with_x("null"), HasSubstr("\"x\" must be an integer"));
  EXPECT_THAT(error_with_x("[1]"), HasSubstr("\"x\" must be an integer"));
  EXPECT_THAT(error_with_x("{\"x\":1}"), HasSubstr("\"x\" must be an integer"));
  EXPECT_THAT(error_with_x("-1"), HasSubstr("must not be negative, but is -1"));
  EXPECT_THAT(error_with_x("4611686018427387905"), HasSubstr("2^62"));
  EXPECT_THAT(error_with_x("18446744073709551615"), HasSubstr("2^62"));
  EXPECT_THAT(error_with_x("99999999999999999999999"), HasSubstr("2^62"));
}

TEST(BatchTest, ExtraKeysAreIgnoredAndTheLastOfTwoCounts) {
  EXPECT_EQ(
      answer(R"~({"id":[{"x":9}],"op":"map","layout":"stripe(unit=4,over=2)","element":0,"x":4,"x":8,"q":{"x":1}})~"),
      R"({"y":4})");
}

TEST(BatchTest, LongAnswersAreRefused) {
  BatchLimits limits;
  limits.pieces = 3;
  const std::string ask = R"~({"op":"segments","layout":"stripe(unit=1,over=2)","element":0,"from":0,"to":)~";
  EXPECT_EQ(answer(ask + "3}", limits), R"({"segments":[[0,1],[2,1],[4,1]]})");
  EXPECT_THAT(error_of(ask + "4}", limits), HasSubstr("more than 3 parts: ask for a smaller range"));
}

TEST(BatchTest, AFullCacheForgetsAndStillAnswers) {
  BatchLimits limits;
  limits.cached = 2;
  BatchEngine engine(limits);
  for (int round = 0; round < 3; ++round) {
    for (int unit = 1; unit <= 5; ++unit) {
      std::string out;
      engine.answer(R"({"op":"intersect","a":"stripe(unit=)" + std::to_string(unit) +
                        R"~(,over=9)","ai":2,"b":"stripe(unit=100,over=1)","bi":0,"to":)~" + std::to_string(3 * unit) +
                        "}",
                    out);
      EXPECT_EQ(out, "{\"pieces\":[[0," + std::to_string(2 * unit) + "," + std::to_string(unit) + "]]}\n");
    }
  }
}

TEST(BatchTest, EveryLineIsAnsweredInOrder) {
  std::string input;
  for (int i = 0; i < 20000; ++i) {
    input += i % 7 == 3
                 ? "nonsense\n"
                 : R"~({"op":"unmap","layout":"stripe(unit=1,over=2)","element":1,"y":)~" + std::to_string(i) + "}\n";
  }
  std::istringstream in(input);
  std::ostringstream out;
  ASSERT_TRUE(run_batch(in, out).is_ok());
  std::istringstream answers(out.str());
  std::string line;
  for (int i = 0; i < 20000; ++i) {
    ASSERT_TRUE(std::getline(answers, line));
    const json reply = json::parse(line);
    if (i % 7 == 3) {
      ASSERT_TRUE(reply.contains("error")) << i;
    } else {
      ASSERT_EQ(reply["x"], 2 * i + 1);
    }
  }
  EXPECT_FALSE(std::getline(answers, line));
}

TEST(BatchTest, LinesThatAreTooLongAreRefusedAndTheNextIsAnswered) {
  BatchLimits limits;
  limits.line_bytes = 100;
  const std::string good = R"~({"op":"print","layout":"stripe(unit=4,over=2)"})~";
  std::istringstream in(std::string(101, ' ') + "\n" + good + "\n" + std::string(5000, 'x') + "\n" + good);
  std::ostringstream out;
  ASSERT_TRUE(run_batch(in, out, limits).is_ok());
  const std::string refusal = R"({"error":"line is longer than 100 bytes"})";
  const std::string reply = R"~({"layout":"stripe(unit=4, over=2)"})~";
  EXPECT_EQ(out.str(), refusal + "\n" + reply + "\n" + refusal + "\n" + reply + "\n");
}

/// Hands out its parts one by one, and checks each time that all complete lines so far were answered.
class Dialogue : public std::streambuf {
 public:
  Dialogue(std::vector<std::string> parts, const std::ostringstream& out) : parts_(std::move(parts)), out_(out) {}
  std::vector<std::ptrdiff_t> answered;  ///< Answers written when the next part was asked for.

 protected:
  int_type underflow() override {
    const std::string so_far = out_.str();
    answered.push_back(std::count(so_far.begin(), so_far.end(), '\n'));
    if (next_ == parts_.size()) return traits_type::eof();
    std::string& part = parts_[next_++];
    setg(part.data(), part.data(), part.data() + part.size());
    return traits_type::to_int_type(part[0]);
  }

 private:
  std::vector<std::string> parts_;
  const std::ostringstream& out_;
  std::size_t next_ = 0;
};

TEST(BatchTest, AnswersBeforeWaitingForMore) {
  const std::string line = R"~({"op":"print","layout":"stripe(unit=4,over=2)"})~";
  std::ostringstream out;
  Dialogue dialogue({line + "\n", line.substr(0, 20), line.substr(20) + "\n" + line + "\n", line}, out);
  std::istream in(&dialogue);
  ASSERT_TRUE(run_batch(in, out).is_ok());
  EXPECT_THAT(dialogue.answered, ::testing::ElementsAre(0, 1, 1, 3, 3));
  EXPECT_EQ(out.str(), R"~({"layout":"stripe(unit=4, over=2)"})~"
                       "\n"
                       R"~({"layout":"stripe(unit=4, over=2)"})~"
                       "\n"
                       R"~({"layout":"stripe(unit=4, over=2)"})~"
                       "\n"
                       R"~({"layout":"stripe(unit=4, over=2)"})~"
                       "\n");
}

TEST(BatchTest, AFailingOutputIsAnError) {
  std::istringstream in("{}\n");
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_THAT(run_batch(in, out), StatusIs(ErrorCode::kIoError, HasSubstr("standard output")));
}

TEST(BatchTest, RunsAsACommand) {
  const auto outcome = testing::layout({"batch"}, "{\"op\":\"cut\",\"falls\":\"(0,9,-,1)\",\"l\":3,\"r\":4}\n\n");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, "{\"falls\":\"{(0,1,-,1)}\"}\n{\"error\":\"empty line: a request is {\\\"op\\\":...}\"}\n");
}

}  // namespace
}  // namespace weir::cli::internal
