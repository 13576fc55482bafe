#pragma once

// Which seeds the simulations run, and what each of them has to show.  For tests only.
//
// SIMULATION_SEEDS=FROM:COUNT runs other seeds than the default.

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace weir::simulation {

// A run takes thirty times as long there.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// `kept`: seeds that found a bug once; they come first.
inline std::vector<std::uint64_t> chosen_seeds(std::vector<std::uint64_t> kept = {}) {
  std::uint64_t from = 1;
  std::uint64_t count = kIsSanitized ? 2 : 8;
  if (const char* text = std::getenv("SIMULATION_SEEDS"); text != nullptr) {
    char colon = 0;
    std::istringstream(text) >> from >> colon >> count;
  }
  for (std::uint64_t i = 0; i < count; ++i) kept.push_back(from + i);
  return kept;
}

/// Runs each seed until one shows a problem.  Up to a hundred seeds are run twice: the trace must be the same.
/// `make_run(seed)` gives something with run(), which returns its problems, trace_hash() and trace().
/// `is_costly`: the sanitizer leaves out the second run.
template <typename MakeRun>
void run_seeds(const std::vector<std::uint64_t>& seeds, bool is_costly, MakeRun make_run) {
  const bool twice = seeds.size() <= 100 && !(is_costly && kIsSanitized);
  for (const std::uint64_t seed : seeds) {
    auto run = make_run(seed);
    const std::string problems = run->run();
    if (!problems.empty()) {
      ADD_FAILURE() << "seed " << seed << ":\n" << problems << run->trace();
      return;
    }
    if (!twice) continue;
    auto again = make_run(seed);
    EXPECT_EQ(again->run(), problems) << "seed " << seed << ", run again";
    EXPECT_EQ(again->trace_hash(), run->trace_hash()) << "seed " << seed << ", run again";
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace weir::simulation
