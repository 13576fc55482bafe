#include <weir/layout/language.h>

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using oracle::for_cases;
using oracle::Random;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using weir::testing::IsOk;
using weir::testing::IsOkAndHolds;
using weir::testing::StatusIs;

void expect_same(const Partition& a, const Partition& b) {
  EXPECT_EQ(a.description(), b.description());
  EXPECT_EQ(a.disp(), b.disp());
  EXPECT_EQ(a.period(), b.period());
  EXPECT_EQ(a.element_count(), b.element_count());
}

std::string canonical(std::string_view text) {
  const auto partition = parse(text);
  return partition.is_ok() ? print(*partition) : partition.status().message();
}

// Printing.

TEST(LanguageTest, PrintsCanonicalTextAsItIs) {
  for (const std::string_view text : {
           "stripe(unit=64K, over=4)",
           "stripe(disp=2, unit=1, over=1)",
           "hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4])",
           "hpf(disp=1M, shape=[7], elem=1K, dist=(CYCLIC(3)), grid=[2], order=F)",
           "hpf(shape=[8,8,8], elem=1, dist=(BLOCK(4),CYCLIC,*), grid=[2,2,1])",
           "tiles(shape=[4096,4096], elem=8, tile=[256,256], over=4)",
           "tiles(shape=[5,6], elem=1, tile=[2,3], over=4, order=F)",
           "falls({(0,1,-,1)} | {(2,3,-,1)} | {(4,5,-,1)})",
           "falls(disp=2, {(0,1,-,1)} | {(2,3,-,1)})",
           "falls(disp=2, period=64, {(0,1,-,1),(5,7,6,3,{(0,0,2,2)})} | {})",
           "falls(period=6, {(2,3,-,1)})",
           "falls({(0,7,16,2,{(0,1,-,1)})})",
           "falls({(0,12,1,4,{(0,0,4,4)})})",
       }) {
    EXPECT_EQ(canonical(text), text);
  }
}

TEST(LanguageTest, BringsEveryWayToWriteItToOneForm) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"stripe(over=4,unit=65536)", "stripe(unit=64K, over=4)"},
      {" \tstripe\n( unit = 64K ,\r\n over = 4 ) ", "stripe(unit=64K, over=4)"},
      {"stripe(unit=1024K, over=1K, disp=0)", "stripe(unit=1M, over=1024)"},
      {"stripe(unit=007, over=4)", "stripe(unit=7, over=4)"},
      {"stripe(unit=4T, over=4)", "stripe(unit=4T, over=4)"},
      {"hpf(grid=[1,4], dist=(*,block), shape=[4K,4K])", "hpf(shape=[4096,4096], elem=1, dist=(*,BLOCK), grid=[1,4])"},
      {"hpf(shape=[8], dist=(cyclic(2)), grid=[2], order=C)", "hpf(shape=[8], elem=1, dist=(CYCLIC(2)), grid=[2])"},
      {"tiles(over=4, tile=[2,2], shape=[4,4], order=F)", "tiles(shape=[4,4], elem=1, tile=[2,2], over=4, order=F)"},
      {"falls(disp=2, {(0,1,6,1)} | {(2,3,6,1)} | {(4,5,6,1)})",
       "falls(disp=2, {(0,1,-,1)} | {(2,3,-,1)} | {(4,5,-,1)})"},
      {"falls({(0,1,6,1)})", "falls({(0,1,-,1)})"},
      {"falls({(2,3,6,1)})", "falls(period=6, {(2,3,-,1)})"},
      {"falls(period=6, {(2,3,9,1)})", "falls(period=6, {(2,3,-,1)})"},
      {"falls(period=4, disp=1, {(2,3,-,1)})", "falls(disp=1, {(2,3,-,1)})"},
      {"falls( { ( 0 , 1 , - , 1 , { ( 0 , 0 , - , 1 ) } ) } )", "falls({(0,1,-,1,{(0,0,-,1)})})"},
      {"falls({(0,1K,1M,2)})", "falls({(0,1024,1048576,2)})"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(canonical(text), expected) << text;
    EXPECT_EQ(canonical(expected), expected);
  }
}

TEST(LanguageTest, ReadsSetsAndSingleFalls) {
  EXPECT_THAT(parse_falls("{(0,7,16,2,{(0,1,-,1)}),(40,41,-,1)}"),
              IsOkAndHolds(FallsSet{{0, 7, 16, 2, {{0, 1, 0, 1, {}}}}, {40, 41, 0, 1, {}}}));
  EXPECT_THAT(parse_falls(" (3,5,6,5) "), IsOkAndHolds(FallsSet{{3, 5, 6, 5, {}}}));
  EXPECT_THAT(parse_falls("{}"), IsOkAndHolds(FallsSet{}));
  EXPECT_EQ(print(FallsSet{}), "{}");
  EXPECT_EQ(print(Falls{1, 2, 0, 1, {}}), "(1,2,-,1)");
  EXPECT_EQ(print(FallsSet{{5, 7, 6, 3, {{0, 0, 2, 2, {}}}}, {1, 1, 0, 1, {}}}), "{(5,7,6,3,{(0,0,2,2)}),(1,1,-,1)}");
}

TEST(LanguageTest, KeepsTheTreeAsItIsWritten) {
  const std::string_view text = "{(0,15,32,2,{(1,3,-,1),(4,6,-,1)})}";
  const auto set = parse_falls(text);
  ASSERT_THAT(set, IsOk());
  EXPECT_EQ(print(*set), text);
}

TEST(LanguageTest, TakesNumbersUpToTheLimit) {
  EXPECT_THAT(parse("stripe(unit=4611686018427387904, over=1)"), IsOk());
  EXPECT_THAT(parse("stripe(unit=4194304T, over=1)"), IsOk());
  EXPECT_THAT(parse("stripe(unit=4611686018427387905, over=1)"),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("2^62")));
}

// Round trips.

/// Any partition, also explicit ones with gaps, overlaps, empty elements, nests and a period of their own.
Partition random_partition(Random& random) {
  for (;;) {
    Partition::Options options{.disp = random.chance(50) ? 0 : random.between(0, 5000)};
    Description description = oracle::random_description(random);
    if (random.chance(50)) {
      Explicit elements;
      const Offset count = random.between(1, 4);
      for (Offset i = 0; i < count; ++i) {
        elements.elements.push_back(random.chance(15) ? FallsSet{} : oracle::random_set(random));
      }
      if (random.chance(30)) options.period = random.between(1, 4000);
      description = std::move(elements);
    }
    auto partition = Partition::create(std::move(description), options);
    if (partition.is_ok()) return std::move(partition).value();
  }
}

TEST(LanguagePropertyTest, ParsingUndoesPrinting) {
  for_cases(20000, [](Random& random) {
    const Partition partition = random_partition(random);
    const std::string text = print(partition);
    SCOPED_TRACE(text);
    const auto again = parse(text);
    ASSERT_THAT(again, IsOk());
    expect_same(*again, partition);
    EXPECT_EQ(print(*again), text);
  });
}

TEST(LanguagePropertyTest, ParsingUndoesPrintingOfSets) {
  for_cases(10000, [](Random& random) {
    const FallsSet set = oracle::random_set(random, {.max_depth = 5});
    EXPECT_THAT(parse_falls(print(set)), IsOkAndHolds(set));
  });
}

TEST(LanguagePropertyTest, WhiteSpaceBetweenSymbolsMeansNothing) {
  for_cases(2000, [](Random& random) {
    const Partition partition = random_partition(random);
    std::string text;
    for (const char c : print(partition)) {
      const bool is_symbol = std::string_view("(){}[]=,|*").find(c) != std::string_view::npos;
      if (is_symbol && random.chance(30)) text += random.chance(50) ? " " : "\n\t";
      text += c;
      if (is_symbol && random.chance(30)) text += "  ";
    }
    SCOPED_TRACE(text);
    const auto again = parse(text);
    ASSERT_THAT(again, IsOk());
    expect_same(*again, partition);
  });
}

TEST(LanguagePropertyTest, DamagedTextIsRefusedAtAColumnOrMeansSomething) {
  constexpr std::string_view kAlphabet = "(){}[]=,|*-0159KMGTabCFxunitoverfalls \t\x01\xff";
  for_cases(50000, [&](Random& random) {
    std::string text = print(random_partition(random));
    for (Offset edits = random.between(1, 3); edits > 0 && !text.empty(); --edits) {
      const auto at = static_cast<std::size_t>(random.between(0, static_cast<Offset>(text.size()) - 1));
      const char c = kAlphabet[static_cast<std::size_t>(random.between(0, kAlphabet.size() - 1))];
      switch (random.between(0, 3)) {
        case 0: text[at] = c; break;
        case 1: text.insert(at, 1, c); break;
        case 2: text.erase(at, 1); break;
        default: text.resize(at); break;
      }
    }
    SCOPED_TRACE(text);
    const auto partition = parse(text);
    if (partition.is_ok()) {
      const auto again = parse(print(*partition));
      ASSERT_THAT(again, IsOk());
      expect_same(*again, *partition);
      return;
    }
    ASSERT_THAT(partition, StatusIs(ErrorCode::kInvalidArgument));
    const auto column = partition.status().location();
    ASSERT_TRUE(column.has_value());
    EXPECT_GE(*column, 1);
    EXPECT_LE(*column, static_cast<Offset>(text.size()) + 1);
    EXPECT_THAT(partition.status().message(), StartsWith("column " + std::to_string(*column) + ": "));
  });
}

// Errors.

struct BadText {
  std::string_view text;
  std::int64_t column;
  std::string_view fragment;
};

template <typename Parse>
void expect_refused(const BadText& bad, Parse parse_text) {
  SCOPED_TRACE(bad.text);
  const auto result = parse_text(bad.text);
  ASSERT_THAT(result, StatusIs(ErrorCode::kInvalidArgument, HasSubstr(std::string(bad.fragment))));
  EXPECT_EQ(result.status().location(), bad.column) << result.status().message();
  EXPECT_THAT(result.status().message(), StartsWith("column " + std::to_string(bad.column) + ": "));
}

TEST(LanguageTest, PointsAtTheErrorInALayout) {
  const BadText cases[] = {
      // What is not a layout at all.
      {"", 1, "expected a layout (stripe, hpf, tiles or falls), found the end of the text"},
      {"   ", 4, "found the end of the text"},
      {"(", 1, "expected a layout"},
      {"strip(unit=1, over=1)", 1, "there is no layout 'strip'; possible are stripe, hpf, tiles or falls"},
      {" STRIPE(unit=1, over=1)", 2, "there is no layout 'STRIPE'"},
      {"stripe", 7, "expected '(' after stripe, found the end of the text"},
      {"stripe(unit=1, over=1) x", 24, "expected the end of the text, found 'x'"},
      {"stripe(unit=1, over=1", 22, "expected ',' or ')', found the end of the text"},
      {"stripe(unit=1; over=1)", 14, "expected ',' or ')', found ';'"},
      {"stripe(unit=1, over=1\x01)", 22, "found byte 1"},
      // Arguments.
      {"stripe()", 8, "expected an argument (unit, over, disp), found ')'"},
      {"stripe(unit=1,)", 15, "expected an argument (over, disp), found ')'"},
      {"stripe(size=1, over=1)", 8, "stripe has no argument 'size'; possible are unit, over, disp"},
      {"stripe(unit=1, period=1, over=2)", 16, "stripe has no argument 'period'"},
      {"stripe(unit=1, over=2, unit=1)", 24, "argument 'unit' is given twice"},
      {"stripe(unit=1)", 1, "stripe needs over as well"},
      {" hpf(elem=4)", 2, "hpf needs shape, dist, grid as well"},
      {"tiles(shape=[1], over=1)", 1, "tiles needs tile as well"},
      {"stripe(unit 1, over=2)", 13, "expected '=' after unit, found '1'"},
      {"stripe(64K, over=2)", 8, "expected an argument (unit, over, disp), found '64K'"},
      // Numbers.
      {"stripe(unit=, over=2)", 13, "expected a number for unit, found ','"},
      {"stripe(unit=-5, over=2)", 13, "unit: negative values are not allowed"},
      {"stripe(unit=5, over=-2)", 21, "over: negative values are not allowed"},
      {"stripe(unit=5, over=2, disp=-1)", 29, "disp: negative values are not allowed"},
      {"stripe(unit=64k, over=2)", 15, "a number ends in a digit or in K, M, G or T, not in 'k'"},
      {"stripe(unit=64KB, over=2)", 16, "not in 'B'"},
      {"stripe(unit=0x40, over=2)", 14, "not in 'x40'"},
      {"stripe(unit=1.5, over=2)", 14, "expected ',' or ')', found '.'"},
      {"stripe(unit=99999999999999999999999, over=2)", 13, "unit is larger than 2^62"},
      {"stripe(unit=4194305T, over=1)", 13, "unit is larger than 2^62"},
      {"stripe(unit=18014398509481984T, over=1)", 13, "unit is larger than 2^62"},
      // Lists.
      {"hpf(shape=8, dist=(*), grid=[1])", 11, "expected '[' for shape, found '8'"},
      {"hpf(shape=[], dist=(*), grid=[1])", 12, "expected a number for shape, found ']'"},
      {"hpf(shape=[8,], dist=(*), grid=[1])", 14, "expected a number for shape, found ']'"},
      {"hpf(shape=[8;8], dist=(*), grid=[1])", 13, "expected ',' or ']' in shape, found ';'"},
      {"hpf(shape=[-8], dist=(*), grid=[1])", 12, "shape: negative values are not allowed"},
      {"hpf(shape=[8], dist=[*], grid=[1])", 21, "expected '(' for dist, found '['"},
      {"hpf(shape=[8], dist=(), grid=[1])", 22, "expected *, BLOCK, BLOCK(m), CYCLIC or CYCLIC(k), found ')'"},
      {"hpf(shape=[8], dist=(BLOK), grid=[1])", 22, "found 'BLOK'"},
      {"hpf(shape=[8], dist=(Block), grid=[1])", 22, "found 'Block'"},
      {"hpf(shape=[8], dist=(BLOCK(0)), grid=[1])", 28, "the width of BLOCK must be at least 1"},
      {"hpf(shape=[8], dist=(CYCLIC(-1)), grid=[1])", 29, "a width: negative values are not allowed"},
      {"hpf(shape=[8], dist=(CYCLIC(1), grid=[1])", 33, "found 'grid'"},
      {"hpf(shape=[8], dist=(BLOCK(2;)), grid=[4])", 29, "expected ')' after a width, found ';'"},
      {"hpf(shape=[8], dist=(*), grid=[1], order=f)", 42, "expected C or F for order, found 'f'"},
      {"hpf(shape=[8], dist=(*), grid=[1], order=)", 42, "expected C or F for order, found ')'"},
      // What only shows when the whole is known points at the argument, or else at the layout.
      {"stripe(over=4, unit=0)", 16, "unit must be at least 1"},
      {"stripe(unit=4, over=0)", 16, "over must be at least 1"},
      {"stripe(unit=4194304T, over=2)", 8, "2^62"},
      {"stripe(unit=4194304T, over=1, disp=1)", 31, "displacement 1"},
      {" hpf(shape=[8,0], dist=(*,*), grid=[1,1])", 6, "entry 1 of shape"},
      {"hpf(shape=[8], elem=0, dist=(*), grid=[1])", 16, "elem must be at least 1"},
      {"hpf(shape=[8,8], dist=(*), grid=[1,1])", 18, "dist has 1 entries, but shape has 2"},
      {"hpf(shape=[8,8], dist=(*,*), grid=[1])", 30, "grid has 1 entries, but shape has 2"},
      {"hpf(shape=[8], dist=(*), grid=[2])", 26, "grid entry must be 1"},
      {"hpf(shape=[8], dist=(BLOCK(3)), grid=[2])", 16, "BLOCK(3) over 2 processes"},
      {"tiles(shape=[8], tile=[0], over=1)", 18, "entry 0 of tile"},
      {"tiles(shape=[4G,4G], tile=[1,1], over=1)", 7, "2^62"},
      // falls.
      {"falls", 6, "expected '(' after falls, found the end of the text"},
      {"falls(", 7, "expected a set ('{'), found the end of the text"},
      {"falls()", 7, "expected a set ('{'), disp or period, found ')'"},
      {"falls((0,1,-,1))", 7, "expected a set ('{'), disp or period, found '('"},
      {"falls(unit=1, {})", 7, "falls has no argument 'unit'; possible are disp, period"},
      {"falls(disp=1, disp=1, {})", 15, "argument 'disp' is given twice"},
      {"falls(disp=1 {(0,1,-,1)})", 14, "expected ',' after a number, found '{'"},
      {"falls(disp=1)", 13, "expected ',' after a number, found ')'"},
      {"falls({(0,1,-,1)}, disp=1)", 18, "disp and period stand before the sets"},
      {"falls({(0,1,-,1)} {(2,3,-,1)})", 19, "expected '|' or ')' after a set, found '{'"},
      {"falls({(0,1,-,1)} | )", 21, "expected a set ('{'), found ')'"},
      {"falls({(0,1,-,1|})", 16, "expected ')' after the count, found '|'"},
      {"falls({(0,1,-,1)", 17, "expected ',' or '}' after a FALLS, found the end of the text"},
      {"falls({(0,1,-,1),})", 18, "expected a FALLS ('('), found '}'"},
      {"falls({0,1,-,1})", 8, "expected a FALLS ('('), found '0'"},
      {"falls({(0 1,-,1)})", 11, "expected ',' after the left end, found '1'"},
      {"falls({(0,1)})", 12, "expected ',' after the right end, found ')'"},
      {"falls({(0,1,6)})", 14, "expected ',' after the stride, found ')'"},
      {"falls({(-1,1,6,1)})", 9, "the left end: negative values are not allowed"},
      {"falls({(0,-1,6,1)})", 11, "the right end: negative values are not allowed"},
      {"falls({(0,1,-6,1)})", 13, "the stride: negative values are not allowed"},
      {"falls({(0,1,6,-1)})", 15, "a count must be at least 1"},
      {"falls({(0,1,6,0)})", 15, "a count must be at least 1"},
      {"falls({(5,3,-,1)})", 11, "the right end 3 lies before the left end 5"},
      {"falls({(0,1,-,2)})", 13, "'-' stands for the stride of a single block, but the count is 2"},
      {"falls({(0,7,16,2,{})})", 19, "expected a FALLS ('(') in the inner set, found '}'"},
      {"falls({(0,7,16,2,(0,0,-,1))})", 18, "expected a set ('{'), found '('"},
      {"falls({(0,7,16,2,{(0,1,-,1)}})", 29, "expected ')' after the inner set, found '}'"},
      {"falls({(0,1,-,1)} | {(4,5,-,1),(8,11,2,3)})", 32, "shorter than the block"},
      {"falls({(0,7,16,2,{(0,1,-,1)}),(0,3,8,2,{(0,8,-,1)})})", 31, "(0,8,-,1)"},
      {"falls({(0,1,4194304T,3)})", 8, "2^62"},
      {"falls(period=0, {(0,1,-,1)})", 14, "a period must be at least 1"},
      {"falls(period=5, {(0,1,-,1)} | {(3,5,-,1)})", 7, "too short for element 1"},
      {"falls({})", 1, "need a period"},
      {"falls({} | {})", 1, "need a period"},
  };
  for (const BadText& bad : cases) expect_refused(bad, [](std::string_view text) { return parse(text); });
}

TEST(LanguageTest, PointsAtTheErrorInASet) {
  const BadText cases[] = {
      {"", 1, "expected a set ('{'), found the end of the text"},
      {"{(0,1,-,1)} | {}", 13, "expected the end of the text, found '|'"},
      {"(0,1,-,0)", 8, "a count must be at least 1"},
      {"(0,3,2,2)", 1, "shorter than the block"},
      {" {(0,3,-,1),(9,12,2,2)}", 13, "shorter than the block"},
      {"{(0,3,-,1),(9,12,9,2,{(0,4,-,1)})}", 12, "(0,4,-,1)"},
      {"{(0,4611686018427387904,-,1)}", 2, "2^62"},
      {"{(0,0,4611686018427387904,4611686018427387904)}", 2, "2^62"},
  };
  for (const BadText& bad : cases) expect_refused(bad, [](std::string_view text) { return parse_falls(text); });
}

std::string nested(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += i == 0 ? "{(0,1,-,1" : ",{(0,1,-,1";
  for (int i = 0; i < depth; ++i) text += ")}";
  return text;
}

TEST(LanguageTest, LimitsTheDepthOfNesting) {
  const auto deepest = parse_falls(nested(kMaxDepth));
  ASSERT_THAT(deepest, IsOk());
  EXPECT_EQ(print(*deepest), nested(kMaxDepth));
  for (const int depth : {kMaxDepth + 1, 1000, 100000}) {
    const std::string text = nested(depth);
    const auto set = parse_falls(text);
    ASSERT_THAT(set, StatusIs(ErrorCode::kInvalidArgument, HasSubstr("nested more than 64 deep")));
    EXPECT_EQ(set.status().location(), 9 + 10 * (kMaxDepth - 1) + 2) << "the first brace that is too much";
    EXPECT_THAT(parse("falls(" + text + ")"), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("64 deep")));
    EXPECT_THAT(parse(text), StatusIs(ErrorCode::kInvalidArgument));
    EXPECT_THAT(parse(std::string(static_cast<std::size_t>(depth), '(')), StatusIs(ErrorCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace weir::layout
