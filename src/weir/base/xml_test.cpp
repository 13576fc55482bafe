#include <weir/base/xml.h>

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(XmlTest, EscapesWhatHasAMeaning) {
  EXPECT_EQ(escape_xml("<a href=\"x\" b='y'> & c"), "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt; &amp; c");
}

TEST(XmlTest, ControlCharactersBecomeBlanks) {
  EXPECT_EQ(escape_xml("a\nb\tc\x01"), "a b c ");
  EXPECT_EQ(escape_xml(std::string_view("a\0b", 3)), "a b");
}

TEST(XmlTest, OtherTextStays) {
  EXPECT_EQ(escape_xml(""), "");
  EXPECT_EQ(escape_xml("stripe(unit=64K, over=4) \xc3\xa4"), "stripe(unit=64K, over=4) \xc3\xa4");
}

}  // namespace
}  // namespace weir
