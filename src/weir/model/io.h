#pragma once

// What input and output cost on this machine, and the choices that follow from it.
//
// Every automatic choice of the client and of collective accesses is a question to Io, answered from its parameters.
// The built-in values reproduce what was fitted to docs/performance.md; `weir model calibrate` measures this machine.
// A cost is seconds of work of all who take part: what matters for a choice is which is smaller.

#include <string>

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/runtime/runtime.h>

namespace weir::model {

/// Requests to a server by message, the work of both ends included.
struct Requests {
  double request_seconds = 14e-6;
  double byte_seconds = 0.5e-9;
  friend bool operator==(const Requests&, const Requests&) = default;
};

struct Disk {
  double position_seconds = 0;  ///< To come to another place of the disk.
  double read_byte_seconds = 0.95e-9;
  double write_byte_seconds = 0.45e-9;
  double change_byte_seconds = 2.4e-9;  ///< Read, changed in part and written back.
  double sync_seconds = 2e-3;
  Offset block_bytes = 4096;  ///< Shorter pieces are read and written with what lies between them.
  friend bool operator==(const Disk&, const Disk&) = default;
};

/// Memory of a server on this host that this process maps, and memory of its own.
struct Memory {
  double map_seconds = 42.5e-6;              ///< To ask a server for the memory of a subfile, and to map it.
  double warm_byte_seconds = 0.0651212e-9;   ///< A copy to pages that this process has used before.
  double first_touch_byte_seconds = 1e-9;    ///< What a copy costs in addition where pages must be made.
  double fault_byte_seconds = 0.1e-9;        ///< The same where pages exist and must be entered, one by one.
  double enter_seconds = 13.10715e-6;        ///< To enter the pages of a chunk of 1 MiB at once.
  double idle_byte_seconds = 0.03125e-9;     ///< A byte that is reserved and not used.
  double gather_byte_seconds = 0.213624e-9;  ///< One more copy, by way of a buffer.
  double compose_seconds = 224.0009e-6;      ///< To compile a plan from memory in pieces to a subfile.
  double piece_seconds = 2.5e-9;             ///< A piece that is put in place.
  Offset window_bytes = Offset{256} << 10;   ///< A buffer of this size stays in the cache.
  friend bool operator==(const Memory&, const Memory&) = default;
};

/// Ranks that exchange bytes.
struct Ranks {
  double exchange_byte_seconds = 1.15e-9;  ///< A byte that goes to another rank, with all of its copies.
  double meet_seconds = 40e-6;             ///< What each rank spends to agree with the others.
  double round_seconds = 25e-6;            ///< What each rank spends on one exchange.
  friend bool operator==(const Ranks&, const Ranks&) = default;
};

/// Where a server is.
enum class Place { kThisHost, kOtherHost };

/// What one rank, or one access, asks of servers.
struct AccessWork {
  bool is_write = false;
  bool is_on_disk = false;
  Place place = Place::kThisHost;
  Offset bytes = 0;
  Offset messages = 1;
  Offset pieces = 1;
  Offset touched_bytes = 0;  ///< By a disk: with what lies between short pieces.
};

/// A collective access in two phases: ranks exchange bytes, owners send contiguous parts of the file.
struct TwoPhaseWork {
  bool is_write = false;
  bool is_on_disk = false;
  Place place = Place::kThisHost;
  Offset span_bytes = 0;  ///< Of the file, sent by owners.
  Offset bytes = 0;       ///< Of all ranks.
  Offset pieces = 0;
  Offset ranks = 1;
  Offset owners = 1;
  Offset rounds = 1;
  Offset targets = 1;
};

struct Io {
  Requests server;  ///< On this host.
  Requests remote;  ///< On another host.
  Disk disk;
  Memory memory;
  Ranks ranks;
  friend bool operator==(const Io&, const Io&) = default;

  // ---- predictions, in seconds

  [[nodiscard]] const Requests& requests(Place place) const noexcept {
    return place == Place::kThisHost ? server : remote;
  }
  /// A contiguous or scattered access by one message.
  [[nodiscard]] double by_message(Offset bytes, Offset pieces = 1, Place place = Place::kThisHost) const noexcept;
  /// The same to memory that is mapped and warm.
  [[nodiscard]] double mapped(Offset bytes, Offset pieces = 1) const noexcept;
  /// One rank goes to the servers by itself.
  [[nodiscard]] double alone(const AccessWork& work) const noexcept;
  /// All ranks together.
  [[nodiscard]] double two_phase(const TwoPhaseWork& work) const noexcept;
  /// A disk reads or writes `touched` bytes of which `bytes` are asked for.
  [[nodiscard]] double disk_access(bool is_write, Offset bytes, Offset touched, Offset positions) const noexcept;

  // ---- choices

  /// Whether one access of so many bytes pays for mapping the memory, or for reserving room in it.
  [[nodiscard]] bool is_worth_mapping(Offset bytes) const noexcept;
  /// After so many small accesses by message, mapping has paid: they have cost what a mapping costs.
  [[nodiscard]] int uses_before_mapping() const noexcept;
  /// Whether memory of `hull` bytes is too much to map and reserve for the `bytes` that are used.
  [[nodiscard]] bool is_sparse(Offset hull, Offset bytes) const noexcept;
  /// Whether to enter pages at once before a copy of so many bytes, rather than one by one in its course.
  [[nodiscard]] bool is_worth_entering(Offset bytes) const noexcept;
  /// Whether to compile a plan for memory in pieces when it is first used, rather than when it is used again.
  [[nodiscard]] bool is_worth_composing(Offset bytes) const noexcept;
  /// Whether to merge several accesses of so many bytes each to one message: one copy more, one request less.
  [[nodiscard]] bool is_worth_merging(Offset bytes) const noexcept;
  /// What a disk reads or writes for `bytes` in `pieces`, which lie within `hull`.
  [[nodiscard]] Offset touched_on_disk(Offset bytes, Offset pieces, Offset hull) const noexcept;
  /// The length of messages at which requests themselves cost less than 1 %; a power of two, at most `most`.
  [[nodiscard]] Offset message_window(Offset most) const noexcept;
  /// Parts of a file below this length are not worth another owner; a power of two.
  [[nodiscard]] Offset least_part() const noexcept;

  // ---- reasons

  /// "a mapping costs 42.5 us, a message 14 us: by message until 65536 bytes at once, or 5 accesses"
  [[nodiscard]] std::string why_by_message() const;
};

/// "12.3 us", with three digits.
std::string time_text(double seconds);

/// Calls visit(table, name, value, meaning) for every parameter of `io`; `value` is a double& or an Offset&.
template <typename SomeIo, typename Visitor>
void each_parameter(SomeIo& io, Visitor&& visit) {
  visit("server", "request_seconds", io.server.request_seconds, "a request to a server on this host");
  visit("server", "byte_seconds", io.server.byte_seconds, "a byte by message");
  visit("remote", "request_seconds", io.remote.request_seconds, "a request to a server on another host");
  visit("remote", "byte_seconds", io.remote.byte_seconds, "a byte over the network");
  visit("disk", "position_seconds", io.disk.position_seconds, "another place of the disk");
  visit("disk", "read_byte_seconds", io.disk.read_byte_seconds, "a byte read from the disk");
  visit("disk", "write_byte_seconds", io.disk.write_byte_seconds, "a byte written to the disk");
  visit("disk", "change_byte_seconds", io.disk.change_byte_seconds, "a byte read, changed and written back");
  visit("disk", "sync_seconds", io.disk.sync_seconds, "a sync");
  visit("disk", "block_bytes", io.disk.block_bytes, "shorter pieces touch what lies between them");
  visit("memory", "map_seconds", io.memory.map_seconds, "asking for memory and mapping it");
  visit("memory", "warm_byte_seconds", io.memory.warm_byte_seconds, "a byte copied to pages used before");
  visit("memory", "first_touch_byte_seconds", io.memory.first_touch_byte_seconds, "in addition, where pages are made");
  visit("memory", "fault_byte_seconds", io.memory.fault_byte_seconds, "in addition, where pages are entered singly");
  visit("memory", "enter_seconds", io.memory.enter_seconds, "entering 1 MiB of pages at once");
  visit("memory", "idle_byte_seconds", io.memory.idle_byte_seconds, "a byte reserved and not used");
  visit("memory", "gather_byte_seconds", io.memory.gather_byte_seconds, "one more copy of a byte");
  visit("memory", "compose_seconds", io.memory.compose_seconds, "compiling a plan for memory in pieces");
  visit("memory", "piece_seconds", io.memory.piece_seconds, "a piece put in place");
  visit("memory", "window_bytes", io.memory.window_bytes, "a buffer that stays in the cache");
  visit("ranks", "exchange_byte_seconds", io.ranks.exchange_byte_seconds, "a byte to another rank");
  visit("ranks", "meet_seconds", io.ranks.meet_seconds, "agreeing with other ranks");
  visit("ranks", "round_seconds", io.ranks.round_seconds, "one exchange between ranks");
}

/// The costs in the file at default_path(); the built-in ones if there is no such file.
/// \error What load() says of a file that exists.
Result<Io> calibrated_io(const runtime::Settings& settings = *runtime::system_runtime().settings);

}  // namespace weir::model
