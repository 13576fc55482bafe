#pragma once

// How threads share processors with programs that compute.

#include <chrono>

namespace weir {

/// Whether programs that compute kept a thread of this process from running not long ago.  Then a short sleep costs
/// less than a yield, which may last as long as their time slices, and than spinning, which uses up this process's
/// share.  \threadsafety Safe.
[[nodiscard]] bool is_crowded() noexcept;

/// A thread that wanted to run was away for so long between two looks at the clock.
void note_absence(std::chrono::nanoseconds time) noexcept;

/// Lets those run that wait for this processor.  False, at once, if it is crowded.
bool yield_if_cheap() noexcept;

/// Sleeps for little longer than `time`, which is below a second; less if a signal comes.
void sleep_shortly(std::chrono::nanoseconds time) noexcept;

/// Asks that this thread run as soon as it wakes up, also where others compute (Linux 6.12 and later; others know
/// nothing of it).  For threads that never work for long, and that others wait for.
void ask_for_short_slices() noexcept;

}  // namespace weir
