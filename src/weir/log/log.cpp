#include <weir/log/log.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <weir/base/environment.h>

namespace weir::log {
namespace {

constexpr std::array kLevels = {Level::kOff, Level::kError, Level::kWarn, Level::kInfo, Level::kDebug, Level::kTrace};

spdlog::level::level_enum to_spdlog(Level level) noexcept {
  switch (level) {
    case Level::kOff: return spdlog::level::off;
    case Level::kError: return spdlog::level::err;
    case Level::kWarn: return spdlog::level::warn;
    case Level::kInfo: return spdlog::level::info;
    case Level::kDebug: return spdlog::level::debug;
    case Level::kTrace: return spdlog::level::trace;
  }
  return spdlog::level::err;
}

class StandardErrorSink final : public Sink {
 public:
  StandardErrorSink() : logger_("weir", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_level(spdlog::level::trace);  // lines are filtered before they get here
    logger_.set_pattern("%Y-%m-%d %H:%M:%S.%e weir[%P] %l: %v");
  }

  void write(Level level, std::string_view message) override {
    logger_.log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
  }

 private:
  spdlog::logger logger_;
};

/// Where lines go.  Never destroyed, so that destructors of static objects can still log.
class Output {
 public:
  static Output& instance() {
    static Output* const output = new Output;
    return *output;
  }

  void set_sink(Sink* sink) {
    const std::lock_guard lock(mutex_);
    sink_ = sink;
  }

  void write(Level level, std::string_view message) {
    const std::lock_guard lock(mutex_);
    (sink_ != nullptr ? *sink_ : standard_error_).write(level, message);
  }

 private:
  std::mutex mutex_;
  StandardErrorSink standard_error_;
  Sink* sink_ = nullptr;
};

void write_line(Level level, std::string_view message) noexcept {
  try {
    Output::instance().write(level, message);
  } catch (...) {
    // Nothing sensible is left to do: the log is where failures are told.
  }
}

Level level_from_environment() noexcept {
  const std::string name = environment("WEIR_LOG");
  if (name.empty()) return Level::kWarn;
  if (const auto level = parse_level(name)) return *level;
  write_line(Level::kWarn, std::string("WEIR_LOG=") + name +
                               " is no level; using warn (known: off, error, warn, info, debug, trace)");
  return Level::kWarn;
}

std::atomic<Level>& current_level() noexcept {
  static std::atomic<Level> level{level_from_environment()};
  return level;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::string_view to_string(Level level) noexcept {
  switch (level) {
    case Level::kOff: return "off";
    case Level::kError: return "error";
    case Level::kWarn: return "warn";
    case Level::kInfo: return "info";
    case Level::kDebug: return "debug";
    case Level::kTrace: return "trace";
  }
  return "unknown level";
}

std::optional<Level> parse_level(std::string_view name) noexcept {
  for (const Level level : kLevels) {
    if (equals_ignoring_case(name, to_string(level))) return level;
  }
  return std::nullopt;
}

Level level() noexcept { return current_level().load(std::memory_order_relaxed); }

void set_level(Level level) noexcept { current_level().store(level, std::memory_order_relaxed); }

void set_sink(Sink* sink) noexcept { Output::instance().set_sink(sink); }

namespace internal {

void write(Level level, fmt::string_view format, fmt::format_args arguments) noexcept {
  try {
    fmt::memory_buffer line;
    fmt::vformat_to(std::back_inserter(line), format, arguments);
    write_line(level, std::string_view(line.data(), line.size()));
  } catch (const std::exception& error) {
    write_line(Level::kError, error.what());  // e.g. an argument whose formatter throws
  } catch (...) {
    write_line(Level::kError, "a log line could not be formatted");
  }
}

}  // namespace internal

}  // namespace weir::log
