#pragma once

// Servers as ordinary processes in the background, started and stopped from here.
//
//   start: fork twice (so that nobody waits for them), a session of their own, output to a log file
//
//   parent                              server i
//     <─────── "I tcp:HOST:PORT\n" ───────        it listens; or "I error MESSAGE\n", and it ends
//     ── all addresses, one a line, "\n" ─>        who else there is
//     <─────────── "I ready\n" ───────────        from now on it serves, until SIGTERM
//     ─────────── "keep\n" ───────────────>        only to servers that follow their parent: it may end now.  They stop at the end
//                                                  of all lines otherwise, which comes when the parent ends, however it ends
//
// If one of them fails, all are stopped.  Beside the connection file, NAME.servers says which processes there are, and
// how they were started, and NAME.secret has the secret of the servers: one that has ended can be started again, with
// its old address and secret.  The connection file has only the key of the clients.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/descriptor.h>
#include <weir/base/result.h>
#include <weir/net/net.h>

namespace weir::launch {

/// As WEIR_VERIFY_MEMORY says.
[[nodiscard]] bool wants_verified_memory();

struct DaemonOptions {
  int servers = 1;
  std::string store = "memory";
  std::uint64_t file_system = 0;      ///< Id of a new file system; 0: server 0 chooses one.
  Offset capacity_bytes = 0;          ///< Of each memory store; 0: an equal share of half of the machine's memory.
  std::optional<Offset> ahead_bytes;  ///< Most memory that each memory store makes ready ahead of use.
  std::string listen = "127.0.0.1";
  std::string address;          ///< If not empty, used instead: of a server that is started again where it was.
  std::string log_file;         ///< Empty: nowhere.
  bool follows_parent = false;  ///< Servers end with the process that started them.
  bool squashes_root = true;    ///< Callers that are root on another host act as nobody.
  std::string audit_file;       ///< As server::Options::audit_file.
  bool encrypts = true;         ///< false: as with WEIR_ENCRYPTION=never.
  bool verifies_memory = wants_verified_memory();  ///< Memory that clients map has checksums.
};

/// A process, told apart from later ones with the same number by when it started.
struct Process {
  std::int64_t number = 0;
  std::int64_t started = 0;  ///< In ticks since the machine started.
  std::int64_t parent = 0;   ///< When it was found.

  [[nodiscard]] static Process find(std::int64_t number);  ///< `started` is 0 if there is none, or a dead one.
  [[nodiscard]] bool is_running() const;
};

/// One end of a pipe that carries lines.
class Pipe {
 public:
  Pipe() = default;
  explicit Pipe(int descriptor) : descriptor_(descriptor) {}
  [[nodiscard]] int get() const { return descriptor_.get(); }
  /// A line without its end; empty at the end of all.
  [[nodiscard]] std::string read_line() const;
  void write_line(const std::string& line) const;

 private:
  Descriptor descriptor_;
};

struct PipeEnds {
  Pipe read;
  Pipe write;
};
/// Not for programs that are started.  \error kIoError
Result<PipeEnds> make_pipe();

struct Daemon {
  Process process;
  net::Address address;
  Pipe to;  ///< Of servers that follow their parent.
};

/// `secret`: of the servers.
/// \pre No other thread runs in this process.
Result<std::vector<Daemon>> start_daemons(const DaemonOptions& options, const net::Key& secret);

/// Of a process in the background.
enum class ProcessSession : std::uint8_t {
  kOwn,  ///< It outlives the process that started it.
  /// With a process group of its own, so that signals of the terminal do not reach it.  Linux deals processors to
  /// sessions (autogroup), and yielding gives way within one only: ranks that wait for each other must give way to
  /// their servers.
  kCallers,
};

/// For a process that goes on in the background: standard input from nowhere, output to the log, everything else that
/// was open closed but two descriptors.
void settle_in_background(ProcessSession session, const std::string& log_file, int keep_in, int keep_out);

/// The server that this process is, from now on: says and hears on the two pipes what the picture above shows.
/// \returns its exit code.
int serve(const DaemonOptions& options, std::uint32_t index, const net::Key& secret, const Pipe& from_parent,
          Pipe to_parent);

/// Writes the connection file, for clients, and the list of processes.
Status write_files(const DaemonOptions& options, const std::string& connection, const net::Key& secret,
                   const std::vector<net::Address>& servers, const std::vector<Process>& processes);
/// Starts a server of a file system again that has ended, where it was and with the secret that it had.
/// \error kExists if it runs; kNotFound if the file with the secret is missing
Result<Daemon> restart_server(const std::string& connection, std::uint32_t index);
/// Starts servers and writes the files: what `weir up` leaves.
Result<std::vector<Daemon>> start_file_system(const DaemonOptions& options, const std::string& connection);
[[nodiscard]] std::string processes_path(const std::string& connection);
[[nodiscard]] std::string secret_path(const std::string& connection);
[[nodiscard]] std::vector<Process> load_processes(const std::string& connection);
[[nodiscard]] std::vector<Process> processes_of(const std::vector<Daemon>& daemons);

/// Asks them to stop (they answer what is under way and sync their stores), and kills those that have not after
/// `patience`.
/// \returns how many had to be killed.
int stop_daemons(const std::vector<Process>& processes, std::chrono::milliseconds patience);

}  // namespace weir::launch
