#pragma once

// Speed as a ratio: both sides measured in one run, turn by turn, so that whatever else the machine does hits both.
// For benchmarks only, not installed.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <time.h>

#include <weir/base/spread.h>

namespace weir::transfer::internal {

/// How often ours is faster than the rival: rival's time / our time, of neighbouring turns.
using Ratio = Spread;

struct RatioOptions {
  int turns = 31;
  double batch_seconds = 4e-4;  ///< One turn repeats the work until it takes about so long.
};

struct Rival {
  std::string name;
  std::function<void()> run;
};

/// Keeps the compiler from looking across: what was written counts as read.
inline void clobber() { asm volatile("" ::: "memory"); }

/// Of this thread on a processor: time that others were given does not count.
inline double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double seconds_of(const std::function<void()>& work, int repeats) {
  const double start = processor_seconds();
  for (int i = 0; i < repeats; ++i) {
    work();
    clobber();
  }
  return processor_seconds() - start;
}

/// Repeats that make one turn about as long as asked for.
inline int repeats_for(const std::function<void()>& work, double batch_seconds) {
  work();  // pages and caches are warm from here on
  int repeats = 1;
  while (repeats < (1 << 20) && seconds_of(work, repeats) < batch_seconds) repeats *= 2;
  return repeats;
}

inline Ratio compare(const std::function<void()>& ours, const std::function<void()>& rival,
                     const RatioOptions& options) {
  const int repeats = std::max(repeats_for(ours, options.batch_seconds), repeats_for(rival, options.batch_seconds));
  std::vector<double> ratios;
  for (int i = 0; i < options.turns; ++i) {
    const bool ours_first = i % 2 == 0;
    const double first = seconds_of(ours_first ? ours : rival, repeats);
    const double second = seconds_of(ours_first ? rival : ours, repeats);
    ratios.push_back(ours_first ? second / first : first / second);
  }
  return spread_of(std::move(ratios));
}

/// The rival with the smallest median time.
inline const Rival& best_of(const std::vector<Rival>& rivals, const RatioOptions& options) {
  if (rivals.size() == 1) return rivals.front();
  const int rounds = std::max(5, options.turns / 3);
  int repeats = 1;
  for (const Rival& rival : rivals) repeats = std::max(repeats, repeats_for(rival.run, options.batch_seconds));
  std::vector<std::vector<double>> times(rivals.size());
  for (int i = 0; i < rounds; ++i) {
    for (std::size_t j = 0; j < rivals.size(); ++j) times[j].push_back(seconds_of(rivals[j].run, repeats));
  }
  std::vector<double> medians;
  for (auto& list : times) medians.push_back(spread_of(std::move(list)).median);
  return rivals[static_cast<std::size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin())];
}

/// One line of the table.
struct Line {
  std::string name;
  std::string rival;
  Ratio ratio;
  double wanted = 0;  ///< The least ratio that is good enough; 0: none.
};

inline void print_table(const std::vector<Line>& lines) {
  std::printf("%-44s %-26s %7s  %-15s %6s\n", "case", "rival", "ratio", "quartiles", "wanted");
  for (const Line& line : lines) {
    std::printf("%-44s %-26s %7.2f  %6.2f .. %5.2f", line.name.c_str(), line.rival.c_str(), line.ratio.median,
                line.ratio.low, line.ratio.high);
    if (line.wanted > 0) std::printf(" %6.2f%s", line.wanted, line.ratio.median < line.wanted ? "  MISSED" : "");
    std::printf("\n");
  }
}

inline void print_json(const std::vector<Line>& lines) {
  std::printf("[");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    std::printf(
        "%s\n  {\"case\": \"%s\", \"rival\": \"%s\", \"ratio\": %.4f, \"low\": %.4f, \"high\": %.4f, \"wanted\": %.2f}",
        i == 0 ? "" : ",", line.name.c_str(), line.rival.c_str(), line.ratio.median, line.ratio.low, line.ratio.high,
        line.wanted);
  }
  std::printf("\n]\n");
}

}  // namespace weir::transfer::internal
