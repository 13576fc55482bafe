#pragma once

// Log lines to standard error:  WEIR_LOG_WARN("target {}: {}", name, status.message());
//
// The environment variable WEIR_LOG says which: error, warn (the default), info, debug, trace or off.  The code that
// first decides which error it is logs it, once.  Arguments are formatted by fmt, and evaluated only if the line is
// wanted.

#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace weir::log {

/// Ordered: a level includes all those above it.
enum class Level : std::uint8_t { kOff, kError, kWarn, kInfo, kDebug, kTrace };

/// "error", "warn", ... as WEIR_LOG takes them.
std::string_view to_string(Level level) noexcept;

/// The level with this name, whatever its case; nothing if there is none.
std::optional<Level> parse_level(std::string_view name) noexcept;

/// The level that lines are written up to.  First taken from WEIR_LOG.  \threadsafety Safe from any thread.
Level level() noexcept;
void set_level(Level level) noexcept;

inline bool is_enabled(Level line_level) noexcept { return line_level <= level(); }

/// Where to send log lines instead of standard error.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(Level level, std::string_view message) = 0;
};

/// Sends log lines to `sink` from now on; null: back to standard error.  The sink must outlive its use: no other thread
/// may be logging while it is taken away.  Calls of write() do not overlap.
void set_sink(Sink* sink) noexcept;

namespace internal {

/// Formats and writes one line.  Never throws and never fails its caller: a line that cannot be written is lost.
void write(Level level, fmt::string_view format, fmt::format_args arguments) noexcept;

template <typename... Arguments>
void write_checked(Level level, fmt::format_string<Arguments...> format, Arguments&&... arguments) noexcept {
  write(level, format, fmt::make_format_args(arguments...));
}

}  // namespace internal

}  // namespace weir::log

#define WEIR_LOG_AT(line_level, ...)                                                                        \
  do {                                                                                                      \
    if (::weir::log::is_enabled(line_level)) ::weir::log::internal::write_checked(line_level, __VA_ARGS__); \
  } while (false)

#define WEIR_LOG_ERROR(...) WEIR_LOG_AT(::weir::log::Level::kError, __VA_ARGS__)
#define WEIR_LOG_WARN(...) WEIR_LOG_AT(::weir::log::Level::kWarn, __VA_ARGS__)
#define WEIR_LOG_INFO(...) WEIR_LOG_AT(::weir::log::Level::kInfo, __VA_ARGS__)
#define WEIR_LOG_DEBUG(...) WEIR_LOG_AT(::weir::log::Level::kDebug, __VA_ARGS__)
#define WEIR_LOG_TRACE(...) WEIR_LOG_AT(::weir::log::Level::kTrace, __VA_ARGS__)
