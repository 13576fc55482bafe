#include <weir/base/json_text.h>

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace weir {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonTextTest, PlacesCommas) {
  std::string out;
  JsonWriter writer(out);
  writer.begin_object().field("a", 1).key("b").begin_array().value(1).begin_array().end_array().value("x").end_array();
  writer.field("c", true).key("d").null().key("e").begin_object().end_object().end_object();
  EXPECT_EQ(out, R"({"a":1,"b":[1,[],"x"],"c":true,"d":null,"e":{}})");
}

TEST(JsonTextTest, EscapesWhatJsonDoesNotAllow) {
  EXPECT_EQ(quoted("a\"b\\c\n\t\r\x01z\x7f"), R"("a\"b\\c\n\t\r\u0001z\u007f")");
}

TEST(JsonTextTest, KeepsUtf8AndReplacesWhatIsNot) {
  EXPECT_EQ(quoted("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
  EXPECT_EQ(quoted("\xc3"), R"("\ufffd")");
  EXPECT_EQ(quoted("\xc0\xaf"), R"("\ufffd\ufffd")");            // overlong
  EXPECT_EQ(quoted("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");  // surrogate
  EXPECT_EQ(quoted("\xf4\x90\x80\x80x"), R"("\ufffd\ufffd\ufffd\ufffdx")");
}

}  // namespace
}  // namespace weir
