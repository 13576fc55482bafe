#include <weir/cli/internal/svg.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/cli/internal/palette.h>
#include <weir/cli/internal/run_testing.h>
#include <weir/cli/internal/svg_writer.h>

namespace weir::cli::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A small check of well-formedness: tags nest, attributes are quoted, no bare `<` or `&`.  Returns what is wrong.
std::string check_xml(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '&') {
      const std::size_t end = text.find(';', at);
      if (end == std::string::npos || end - at > 6) return "bare & at " + std::to_string(at);
    }
    if (text[at] == '>') return "bare > at " + std::to_string(at);
    if (text[at] != '<') {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    bool is_quoted = false;
    for (; end < text.size() && (is_quoted || text[end] != '>'); ++end) {
      if (text[end] == '<') return "< in a tag at " + std::to_string(end);
      if (text[end] == '"') is_quoted = !is_quoted;
    }
    if (end == text.size()) return "unfinished tag at " + std::to_string(at);
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "unexpected </" + tag.substr(1) + ">";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "unclosed <" + open.back() + ">";
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string svg_of(const std::string& layout, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"show", layout, "--svg", "-"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto outcome = testing::layout(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.out;
}

TEST(SvgTest, TheCheckOfXmlFindsErrors) {
  EXPECT_EQ(check_xml("<a b=\"1>2\"><c/>x &lt; y</a>"), "");
  EXPECT_NE(check_xml("<a><b></a>"), "");
  EXPECT_NE(check_xml("<a>"), "");
  EXPECT_NE(check_xml("<a>&</a>"), "");
}

TEST(SvgTest, AllKindsAreWellFormed) {
  for (const char* layout :
       {"stripe(unit=64K, over=4)", "stripe(unit=3, over=100, disp=7)", "hpf(shape=[7], dist=(CYCLIC(2)), grid=[2])",
        "hpf(shape=[100,200], elem=8, dist=(CYCLIC(7),BLOCK), grid=[4,5])", "tiles(shape=[40,30], tile=[7,8], over=3)",
        "tiles(shape=[4096,4096], elem=8, tile=[256,512], over=5)", "falls(period=9, {(0,2,-,1)} | {(2,4,-,1)})",
        "hpf(shape=[4,5,6], dist=(BLOCK,*,CYCLIC), grid=[2,1,2], order=F)",
        "hpf(shape=[1073741824,536870912], elem=8, dist=(BLOCK,CYCLIC(3)), grid=[4,4])"}) {
    const std::string svg = svg_of(layout);
    EXPECT_EQ(check_xml(svg), "") << layout;
    EXPECT_THAT(svg, ::testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << layout;
    EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 ")) << layout;
    EXPECT_LT(svg.size(), 300'000U) << layout;
  }
}

TEST(SvgTest, EqualNeighboursAreOneShape) {
  const std::string svg = svg_of("hpf(shape=[4096,4096], dist=(*,BLOCK), grid=[1,4])");
  // Four columns of the array: a path with one rectangle each.
  for (Offset i = 0; i < 4; ++i) {
    const std::string start = "<path fill=\"" + to_hex(element_color(i, 4)) + "\" stroke=\"#ffffff\"";
    const std::size_t at = svg.find(start);
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(count(svg.substr(at, svg.find("/>", at) - at), "M"), 1U);
  }
}

TEST(SvgTest, ShowsTitleLegendAndOrder) {
  const std::string svg = svg_of("falls({(4,5,-,1),(0,1,-,1)} | {(2,3,-,1)})", {"--periods", "1"});
  EXPECT_THAT(svg, HasSubstr("falls({(4,5,-,1),(0,1,-,1)} | {(2,3,-,1)})</text>"));
  EXPECT_THAT(svg, HasSubstr(">element 0: 4 bytes</text>"));
  EXPECT_THAT(svg, HasSubstr(">element 1: 2 bytes</text>"));
  // Bytes 0 to 5 are at places 2 3 | 0 1 | 0 1 of their elements.
  std::string places;
  for (std::size_t at = svg.find("text-anchor=\"middle\""); at != std::string::npos;
       at = svg.find("text-anchor=\"middle\"", at + 1)) {
    const std::size_t begin = svg.find('>', at) + 1;
    if (svg.substr(at, begin - at).find("#444444") == std::string::npos)
      places += svg.substr(begin, svg.find('<', begin) - begin);
  }
  EXPECT_EQ(places, "230101");
}

TEST(SvgTest, OneElementHasOneLegend) {
  const std::string svg = svg_of("tiles(shape=[4096,4096], elem=8, tile=[256,512], over=5)", {"--element", "3"});
  EXPECT_THAT(svg, HasSubstr(">element 3: "));
  EXPECT_THAT(svg, Not(HasSubstr(">element 1: ")));
}

TEST(SvgTest, IntersectionConnectsPieces) {
  const auto outcome = testing::layout(
      {"intersect", "hpf(shape=[8,8], dist=(*,BLOCK), grid=[1,4])", "stripe(unit=16, over=4)", "--svg", "-"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(check_xml(outcome.out), "");
  EXPECT_EQ(count(outcome.out, "fill-opacity"), 4U);  // two pieces, each to the file and from it
}

TEST(SvgTest, TooManyPiecesAreNotDrawn) {
  const auto outcome =
      testing::layout({"intersect", "stripe(unit=1, over=2)", "stripe(unit=1000, over=3)", "--svg", "-"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--from and --to"));
}

TEST(SvgTest, AFileThatCannotBeWrittenIsAnError) {
  const auto outcome = testing::layout({"show", "stripe(unit=4, over=2)", "--svg", "/no/such/folder/x.svg"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("'/no/such/folder/x.svg'"));
}

TEST(PaletteTest, ElementsDiffer) {
  for (const Offset elements : {2, 8, 9, 24}) {
    for (Offset i = 0; i < elements; ++i) {
      for (Offset j = 0; j < i; ++j) EXPECT_FALSE(element_color(i, elements) == element_color(j, elements));
    }
  }
  EXPECT_EQ(to_hex(element_color(0, 4)), "#e69f00");
  EXPECT_EQ(element_character(9), '9');
  EXPECT_EQ(element_character(10), 'a');
  EXPECT_EQ(element_character(61), 'Z');
  EXPECT_EQ(element_character(62), '0');
}

}  // namespace
}  // namespace weir::cli::internal
