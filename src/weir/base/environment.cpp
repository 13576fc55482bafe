#include <weir/base/environment.h>

#include <cstdlib>
#include <string_view>

#include <weir/base/text.h>

namespace weir {

namespace {

constexpr Variable kVariables[] = {
    {"WEIR_AUDIT", "A file where servers write sign-ons, refusals and changes of permissions; an absolute path.", ""},
    {"WEIR_COLLECTIVE", "How collective accesses of MPI programs go: alone, two-phase or auto.", "auto"},
    {"WEIR_DIRECT", "off: MPI programs send messages also to servers whose memory they could map.", "on"},
    {"WEIR_ENCRYPTION", "Which connections between processes are encrypted: auto, always or never.",
     "auto: beyond loopback"},
    {"WEIR_EXPLAIN", "1: the ScaLAPACK drop-in prints a line about each new plan.", "0"},
    {"WEIR_FABRIC", "Devices of an RDMA fabric (mlx5_0:1), by which other hosts are reached with UCX, not by sockets.",
     ""},
    {"WEIR_FS", "The file system: a connection file, or addresses tcp:HOST:PORT, separated by commas.",
     "$XDG_RUNTIME_DIR/weir/fs.toml or ~/.weir/fs.toml"},
    {"WEIR_HUGE_PAGES", "off: servers with memory stores use small pages only.", "on"},
    {"WEIR_JOB", "Set by weir run for its command: the folder of the job.", ""},
    {"WEIR_JOB_DIR", "Where weir run makes folders of jobs.", "$TMPDIR, /dev/shm or /tmp; with Slurm ~/.weir"},
    {"WEIR_KEY_FILE", "The file with the key, if WEIR_FS has addresses.", ""},
    {"WEIR_LAYOUT", "How files are stored that an MPI program makes, in the layout language, or view.",
     "stripes over all targets"},
    {"WEIR_LIBRARY_DIR", "Where to look for libweir_mpiio_*.so.", "beside the weir command"},
    {"WEIR_LIMIT_CONNECTIONS", "Connections that a server accepts from all clients.", "a quarter of ulimit -n"},
    {"WEIR_LIMIT_LOCKS", "Locks that a connection to a server holds and waits for.", "100000"},
    {"WEIR_LIMIT_MEMORY",
     "MiB of requests under way on a connection to a server; a sixteenth of it for unread answers.", "256"},
    {"WEIR_LIMIT_REQUESTS", "Requests under way on a connection to a server.", "16384"},
    {"WEIR_LIMIT_STALL", "Seconds after which a server drops clients that stop in a transfer, or read no answers.",
     "10"},
    {"WEIR_LIMIT_USER_CONNECTIONS", "Connections that a server accepts from a user other than its own.",
     "half of those from all"},
    {"WEIR_LIMIT_VIEWS", "Views registered on a connection to a server.", "262144"},
    {"WEIR_LOG", "What is written to standard error and to the log of servers: off, error, warn, info, debug or trace.",
     "warn"},
    {"WEIR_MODEL", "The machine model, as weir model calibrate writes it.",
     "$XDG_CONFIG_HOME/weir/model.toml or ~/.config/weir/model.toml"},
    {"WEIR_MPIIO_TIMEOUT", "Seconds that a collective call waits for a rank.", "60"},
    {"WEIR_MUNGE", "Whether servers identify callers from other hosts by MUNGE: auto, require or off.",
     "auto: if its daemon answers"},
    {"WEIR_MUNGE_SOCKET", "The socket of the MUNGE daemon, for servers and clients.", "that of libmunge"},
    {"WEIR_PREFIX", "Local names below this path are files of Weir as well as weir:/, for MPI programs.", ""},
    {"WEIR_REDIST_PHASES", "In how many phases arrays are redistributed: one, two or auto.", "auto"},
    {"WEIR_REDIST_SHARED", "0: ranks of one host exchange parts of arrays by MPI, not by shared memory.", "1"},
    {"WEIR_SCALAPACK", "off: calls of p?gemr2d go to ScaLAPACK's own routine.", "on"},
    {"WEIR_SCALAPACK_LIBRARY", "Where ScaLAPACK is, if a plug-in loaded it and others cannot see it.", ""},
    {"WEIR_TRACE", "A directory where each rank writes what it did, for weir report.", ""},
    {"WEIR_TRACE_LIMIT", "How many accesses a rank records one by one.", "200000"},
    {"WEIR_TRANSPORT", "tcp: messages within a host take sockets as well, not rings in shared memory.", "rings"},
    {"WEIR_UCX_TLS", "Transports for UCX on the devices of WEIR_FABRIC.", "^sm,tcp"},
    {"WEIR_VERIFY_MEMORY", "on: weir up and weir run start servers as with --verify-memory.", "off"},
};

}  // namespace

std::string environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): never set by us
  return value == nullptr ? std::string() : std::string(value);
}

std::span<const Variable> variables() noexcept { return kVariables; }

std::string meaning_and_default(const Variable& variable) {
  const std::string_view by_default = variable.by_default;
  return by_default.empty() ? variable.meaning : concat(variable.meaning, " [", by_default, "]");
}

}  // namespace weir
