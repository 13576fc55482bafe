#include <weir/cli/internal/progress.h>

#include <algorithm>

#include <fmt/format.h>

#include <weir/cli/internal/printable.h>

namespace weir::cli::internal {

namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);

}  // namespace

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string progress_line(const std::string& what, Offset done, Offset all, double seconds, int columns) {
  if (all < 0) {
    const double per_second = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    return fmt::format("{} {}  {}/s", what, bytes_text(static_cast<double>(done)), bytes_text(per_second));
  }
  const double part = all > 0 ? static_cast<double>(done) / static_cast<double>(all) : 1.0;
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string numbers = fmt::format(" {:3.0f} %  {} of {}", 100 * part, bytes_text(static_cast<double>(done)),
                                    bytes_text(static_cast<double>(all)));
  if (rate > 0) {
    const double left = static_cast<double>(all - done) / rate;
    numbers += fmt::format("  {}/s  {:.0f} s left", bytes_text(rate), left);
  }
  const int room = std::clamp(columns - static_cast<int>(what.size() + numbers.size()) - 4, 0, 40);
  if (room < 8) return what + numbers;
  const int filled = static_cast<int>(part * room);
  return fmt::format("{} [{}{}]{}", what, std::string(static_cast<std::size_t>(filled), '='),
                     std::string(static_cast<std::size_t>(room - filled), ' '), numbers);
}

ProgressBar::ProgressBar(std::ostream& out, const Terminal& terminal, const std::string& what)
    : out_(out), terminal_(terminal), what_(printable(what)) {}

ProgressBar::~ProgressBar() {
  if (is_shown_) out_ << '\n';
}

void ProgressBar::show(Offset done, Offset all) {
  if (!terminal_.is_error_terminal) return;
  const auto now = Clock::now();
  if (is_shown_ && done != all && now - last_ < kInterval) return;
  last_ = now;
  is_shown_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  out_ << "\r\x1b[K" << progress_line(what_, done, all, seconds, terminal_.columns) << std::flush;
}

}  // namespace weir::cli::internal
