#pragma once

// Servers as ordinary processes in the background, started and stopped from here.
//
//   start: fork twice (so that nobody waits for them), a session of their own, output to a log file
//
//   parent                              server i
//     <────────── "tcp:HOST:PORT\n" ──────        it listens; or "error MESSAGE\n", and it ends
//     ── all addresses, one a line, "\n" ─>        who else there is
//     <────────── "ready\n" ──────────────        from now on it serves, until SIGTERM
//
// If one of them fails, all are stopped.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/net/net.h>

namespace weir::cli::internal {

struct DaemonOptions {
  int servers = 1;
  std::string store = "memory";
  Offset capacity_bytes = 0;  ///< Of each memory store; 0: an equal share of half of the machine's memory.
  std::string listen = "127.0.0.1";
  std::string log_file;  ///< Empty: nowhere.
};

/// A process, told apart from later ones with the same number by when it started.
struct Process {
  std::int64_t number = 0;
  std::int64_t started = 0;  ///< In ticks since the machine started.

  [[nodiscard]] static Process find(std::int64_t number);
  [[nodiscard]] bool is_running() const;
};

struct Daemon {
  Process process;
  net::Address address;
};

/// \pre No other thread runs in this process.
Result<std::vector<Daemon>> start_daemons(const DaemonOptions& options, const net::Key& key);

/// Asks them to stop (they answer what is under way and sync their stores), and kills those that have not after `patience`.
/// \returns how many had to be killed.
int stop_daemons(const std::vector<Process>& processes, std::chrono::milliseconds patience);

}  // namespace weir::cli::internal
