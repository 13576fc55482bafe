// What JsonWriter writes, as another library reads it.

#include <weir/base/json_text.h>

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace weir::cli {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonTextParseTest, NumbersReadBackAsTheyWere) {
  for (const double number : {1.0, 0.1, 1.0 / 3, 1e-9, 0.02962962962962963}) {
    std::string out;
    JsonWriter(out).value(number);
    EXPECT_EQ(nlohmann::json::parse(out).get<double>(), number) << out;
  }
  std::string out;
  JsonWriter(out).value(std::numeric_limits<Offset>::min());
  EXPECT_EQ(out, "-9223372036854775808");
}

TEST(JsonTextParseTest, EveryPairOfBytesGivesJson) {
  for (int i = 0; i < 256 * 256; ++i) {
    const char bytes[] = {static_cast<char>(i / 256), static_cast<char>(i % 256)};
    ASSERT_TRUE(nlohmann::json::accept(quoted({bytes, 2}))) << i;
  }
}

}  // namespace
}  // namespace weir::cli
