#pragma once

// Copies out while the command runs (--drain).
//
//   weir run                              drain process
//     ──────────── fork ────────────────>   every 100 ms: reads what ranks added to their traces; a file that all of them have closed, and that may
//        runs the command                   have changed since its last copy, is copied; the manifest says which version of it
//     ──────── end of the pipe ──────────>  finishes the copy under way, and ends
//        stages out what the manifest does not hold

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <weir/cli/internal/job_stage.h>
#include <weir/launch/daemons.h>
#include <weir/trace/open_files.h>

namespace weir::cli::internal {

struct DrainOptions {
  std::string connection;
  std::vector<StageOut> stages;
  std::string traces;
  std::int64_t since = 0;
  std::string manifest;
};

/// \threadsafety One thread.
class Drain {
 public:
  /// \pre No other thread runs in this process.
  static Result<Drain> start(const DrainOptions& options, Console& console);
  Drain(Drain&& other) noexcept
      : process_(std::exchange(other.process_, -1)), to_(std::move(other.to_)), from_(std::move(other.from_)) {}
  Drain& operator=(Drain&&) = delete;
  /// Interrupts a copy that is under way.
  ~Drain();

  /// From now on nothing new is begun.
  void finish() { to_ = launch::Pipe(); }
  /// Waits until the copy under way is done.
  void wait() const { static_cast<void>(from_.read_line()); }

 private:
  Drain(pid_t process, launch::Pipe to, launch::Pipe from)
      : process_(process), to_(std::move(to)), from_(std::move(from)) {}
  pid_t process_;
  launch::Pipe to_;
  launch::Pipe from_;  // ends with the process
};

}  // namespace weir::cli::internal
