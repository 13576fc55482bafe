#include <weir/log/log.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::log {
struct Unprintable {};
}  // namespace weir::log

template <>
struct fmt::formatter<weir::log::Unprintable> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  template <typename Context>
  auto format(const weir::log::Unprintable&, Context& context) const -> decltype(context.out()) {
    throw std::runtime_error("no text for this value");
  }
};

namespace weir::log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Capture final : public Sink {
 public:
  Capture() : level_before_(level()) { set_sink(this); }
  ~Capture() override {
    set_sink(nullptr);
    set_level(level_before_);
  }
  void write(Level level, std::string_view message) override {
    lines.push_back(std::string(to_string(level)) + ": " + std::string(message));
  }

  std::vector<std::string> lines;  // write() calls do not overlap: no lock

 private:
  Level level_before_;
};

TEST(LogTest, FormatsAndKeepsOrder) {
  Capture capture;
  set_level(Level::kTrace);
  WEIR_LOG_ERROR("plain");
  WEIR_LOG_WARN("{} and {}", 1, "two");
  WEIR_LOG_INFO("{:#x}", 255);
  WEIR_LOG_DEBUG("d");
  WEIR_LOG_TRACE("t");
  EXPECT_THAT(capture.lines, ElementsAre("error: plain", "warn: 1 and two", "info: 0xff", "debug: d", "trace: t"));
}

TEST(LogTest, LevelHidesLowerLevels) {
  Capture capture;
  set_level(Level::kInfo);
  WEIR_LOG_INFO("seen");
  WEIR_LOG_DEBUG("hidden");
  EXPECT_THAT(capture.lines, ElementsAre("info: seen"));
  EXPECT_TRUE(is_enabled(Level::kWarn));
  EXPECT_FALSE(is_enabled(Level::kDebug));
}

TEST(LogTest, OffHidesErrors) {
  Capture capture;
  set_level(Level::kOff);
  WEIR_LOG_ERROR("hidden");
  EXPECT_THAT(capture.lines, IsEmpty());
}

TEST(LogTest, ArgumentsOfHiddenLinesAreNotEvaluated) {
  Capture capture;
  set_level(Level::kWarn);
  int evaluated = 0;
  WEIR_LOG_DEBUG("{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  WEIR_LOG_WARN("{}", ++evaluated);
  EXPECT_EQ(evaluated, 1);
}

TEST(LogTest, IsOneStatement) {
  Capture capture;
  set_level(Level::kWarn);
  for (const bool first : {true, false}) {
    if (first)
      WEIR_LOG_ERROR("first");
    else
      WEIR_LOG_ERROR("second");
  }
  EXPECT_THAT(capture.lines, ElementsAre("error: first", "error: second"));
}

TEST(LogTest, MessageTextIsNotAFormat) {
  Capture capture;
  set_level(Level::kWarn);
  WEIR_LOG_WARN("{}", "{} %s {0}");
  EXPECT_THAT(capture.lines, ElementsAre("warn: {} %s {0}"));
}

TEST(LogTest, FormatterThatThrowsDoesNotReachTheCaller) {
  Capture capture;
  set_level(Level::kWarn);
  WEIR_LOG_WARN("{}", Unprintable{});
  EXPECT_THAT(capture.lines, ElementsAre("error: no text for this value"));
}

TEST(LogTest, LevelNames) {
  for (const Level level : {Level::kOff, Level::kError, Level::kWarn, Level::kInfo, Level::kDebug, Level::kTrace}) {
    EXPECT_EQ(parse_level(to_string(level)), level);
  }
  EXPECT_EQ(parse_level("DeBuG"), Level::kDebug);
  EXPECT_EQ(parse_level(""), std::nullopt);
  EXPECT_EQ(parse_level("warning"), std::nullopt);
}

TEST(LogTest, WritesToStandardError) {
  const Level before = level();
  set_level(Level::kWarn);
  ::testing::internal::CaptureStderr();
  WEIR_LOG_WARN("target {} is {} % full", "{t0}", 97);
  WEIR_LOG_INFO("hidden");
  const std::string text = ::testing::internal::GetCapturedStderr();
  set_level(before);
  EXPECT_THAT(text, HasSubstr("warning: target {t0} is 97 % full\n"));
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
}

struct EnvironmentCase {
  const char* value;  // null: not set
  Level level;
  const char* complaint;  // a regular expression for what standard error shows
};

class LogEnvironmentDeathTest : public ::testing::TestWithParam<EnvironmentCase> {};

TEST_P(LogEnvironmentDeathTest, SetsTheFirstLevel) {
  // The level is read once per process: this style of death test starts a fresh one.
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const EnvironmentCase& test = GetParam();
  EXPECT_EXIT(
      {
        if (test.value == nullptr)
          unsetenv("WEIR_LOG");
        else
          setenv("WEIR_LOG", test.value, 1);
        std::exit(level() == test.level ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), test.complaint);
}

INSTANTIATE_TEST_SUITE_P(Values, LogEnvironmentDeathTest,
                         ::testing::Values(EnvironmentCase{nullptr, Level::kWarn, "^$"},
                                           EnvironmentCase{"", Level::kWarn, "^$"},
                                           EnvironmentCase{"trace", Level::kTrace, "^$"},
                                           EnvironmentCase{"ERROR", Level::kError, "^$"},
                                           EnvironmentCase{"off", Level::kOff, "^$"},
                                           EnvironmentCase{"loud", Level::kWarn, "WEIR_LOG=loud is no level"}));

TEST(LogTest, ManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kLines = 500;
  Capture capture;
  set_level(Level::kInfo);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kLines; ++i) {
          WEIR_LOG_INFO("thread {} line {}", t, i);
          if (i % 100 == 0) set_level(Level::kInfo);  // a level may change while others log
        }
      });
    }
  }
  ASSERT_EQ(capture.lines.size(), static_cast<std::size_t>(kThreads * kLines));
  for (int t = 0; t < kThreads; ++t) {
    int next = 0;  // the lines of one thread keep their order
    for (const std::string& line : capture.lines) {
      if (line == fmt::format("info: thread {} line {}", t, next)) ++next;
    }
    EXPECT_EQ(next, kLines) << "thread " << t;
  }
}

}  // namespace
}  // namespace weir::log
