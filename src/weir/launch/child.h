#pragma once

// A part of a job that runs in a process of its own, as a shell would run it: in its own process group, with the
// terminal if this process has it.
//
//   signals to this process      go on to the group (INT, TERM, HUP, QUIT, USR1, USR2, TSTP, CONT)
//   the child stops (Ctrl-Z)     this process stops too; continued, it continues the child
//   too late                     SIGTERM to the group; SIGKILL if it is still there after a grace
//   this process is killed       the child gets a signal from the kernel, if it should

#include <chrono>
#include <csignal>
#include <functional>
#include <optional>

#include <weir/base/result.h>

namespace weir::launch {

struct ChildOptions {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::chrono::milliseconds grace{5000};  ///< From SIGTERM to SIGKILL.
  int orphan_signal = 0;                  ///< What the child gets if this process is killed; 0: nothing.
};

struct ChildEnd {
  int code = 0;  ///< As a shell says it: 128 + the signal that ended it.
  bool is_late = false;
};

/// Runs `body` in a child and waits for its end.  What `body` returns is its exit code, unless it becomes another
/// program.
/// \pre No other thread runs in this process.  \error kIoError
Result<ChildEnd> run_child(const ChildOptions& options, const std::function<int()>& body);

}  // namespace weir::launch
