#pragma once

// A file system as a program sees it.
//
//   auto fs = FileSystem::connect();                                   the one that WEIR_FS names
//   auto file = fs->create("/out", *parse_layout("stripe(unit=64K, over=4)"));
//   auto view = file->view(element);                                   the part of the file that this process owns
//   view->write(0, bytes);                                             from its own offset 0 on
//
// Handles are small values that share what they stand for.  \threadsafety All of them safe from any thread.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <weir/base/result.h>
#include <weir/client/counter.h>
#include <weir/layout/element.h>
#include <weir/layout/partition.h>
#include <weir/model/io.h>
#include <weir/runtime/runtime.h>

namespace weir::net {
class Network;
}  // namespace weir::net

namespace weir::client {

namespace internal {
class Session;
class OpenFile;
class BoundView;
class UnderWay;
class WatchedOperation;
}  // namespace internal

struct ConnectionFile;

struct ConnectOptions {
  /// A connection file, or addresses "tcp:HOST:PORT,..." (then the key is the file that WEIR_KEY_FILE names).  Empty:
  /// what WEIR_FS says, or else the file that `weir up` writes.
  std::string file_system;
  /// How long a server may give no sign of life before a call to it ends with kTimedOut.  Bytes that move are signs of
  /// life, and so is a server's answer that it works on the call (a slow disk is no error).  Also how long to wait for
  /// locks, and for layout changes by others.
  std::chrono::milliseconds timeout{10000};
  /// Map memory of servers on the same host instead of sending messages, where the store allows it.
  bool direct = true;
  /// What accesses cost, from which follows how they are made.  Nothing: as `weir model calibrate` measured it, if the
  /// file system is found by name; otherwise the built-in costs.
  std::optional<model::Io> costs;
  /// Connect also while server 0 is down: server_status() works, whatever needs names fails.
  bool without_names = false;
  runtime::Runtime runtime = runtime::system_runtime();
  net::Network* network = nullptr;  ///< Null: that of the machine.
};

struct Stat {
  std::uint64_t file = 0;
  bool is_directory = false;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int64_t created_ns = 0;
  std::int64_t changed_ns = 0;
  Offset size = 0;
  std::optional<layout::Partition> layout;  ///< Of files.
  struct Subfile {
    std::uint32_t target = 0;
    std::string address;  ///< Of the target's server.
    Offset length = 0;
    Offset stored_bytes = 0;
  };
  std::vector<Subfile> subfiles;
};

struct Entry {
  std::string name;
  bool is_directory = false;
};

struct TargetUsage {
  std::uint32_t target = 0;
  std::string address;
  std::string store;
  Offset capacity_bytes = 0;  ///< Of a disk store: of its disk.
  Offset used_bytes = 0;      ///< The same, by others too.
  Offset subfiles = 0;
  std::string disk;  ///< Targets with the same one share a disk, its capacity and its use.  Empty: memory of its own.
  Offset stored_bytes = -1;  ///< Of this target alone; -1: not asked for.
};

/// What owner, group and mode of a file must allow at least when it is opened.  It can then be used for all that they
/// allow, as long as it is open, whatever becomes of its mode.
enum class Access : std::uint8_t {
  kAllowed = 0,  ///< Nothing: accesses that they do not allow fail.
  kWrite = 2,
  kRead = 4,
  kReadWrite = 6,
};

struct CreateOptions {
  std::uint32_t mode = 0644;
  bool exclusive = false;                ///< kExists if it is there; otherwise it is opened as it is, its layout too.
  std::vector<std::uint32_t> targets{};  ///< Of each subfile; empty: round robin from a start of the file's own.
  Access access = Access::kAllowed;      ///< To a file that is there; who makes a file may read and write it.
};

/// What an access cost, counted: the table of the View I/O paper.
struct AccessReport {
  std::int64_t calls = 0;           ///< Reads and writes asked for.
  std::int64_t messages = 0;        ///< Sent to targets for them, to register views, to map and reserve memory.
  std::int64_t index_bytes = 0;     ///< Sent to say which bytes are meant, views included.
  std::int64_t moved_bytes = 0;     ///< Moved between memory of the program and targets.
  std::int64_t extra_bytes = 0;     ///< Of these, moved again because a server or the layout was gone.
  std::int64_t direct_bytes = 0;    ///< Of these, copied without any message.
  std::int64_t gathered_bytes = 0;  ///< Copied once more on the client's side, since its pieces were not in one.
};

/// What servers would have to do for an access by message; estimated, so that it takes no longer than a few pieces.
struct AccessShape {
  Offset messages = 0;
  Offset pieces = 0;         ///< Contiguous ranges of subfiles.
  Offset touched_bytes = 0;  ///< That a disk would have to move: more than asked for, if pieces are short.
};

/// Memory of the program that is not in one piece: byte k of what is read or written is at data + layout.unmap(k).
struct Memory {
  void* data = nullptr;
  layout::Element layout;
};
struct ConstMemory {
  const void* data = nullptr;
  layout::Element layout;
};

/// A read or write under way.  Memory must stay until it is done; dropping it waits.
class Pending {
 public:
  Pending();
  explicit Pending(std::shared_ptr<internal::UnderWay> operation);
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();
  /// Does what can be done now.  \returns true when done; then wait() tells how it went.
  bool test();
  Status wait();
  /// Calls back when it is done, from a thread of the file system, or at once if it is done already.  `callback` must not
  /// wait, call the file system, or drop the Pending.  For programs with event loops of their own.
  void on_done(std::function<void(const Status&)> callback);
  /// The same as an eventfd: can be read from (poll, epoll, asyncio) when it is done.  Of the Pending, which closes it.
  /// \error kIoError
  Result<int> descriptor();

 private:
  internal::WatchedOperation& watched();

  std::shared_ptr<internal::UnderWay> operation_;
  std::shared_ptr<internal::WatchedOperation> watched_;  // the same, if it is watched
};

struct WritePart {
  Offset from = 0;
  std::span<const std::byte> memory;
};
struct ReadPart {
  Offset from = 0;
  std::span<std::byte> memory;
};

/// A window on a file: an element, and the maps between it and every subfile.
class View {
 public:
  explicit View(std::shared_ptr<internal::BoundView> bound);

  [[nodiscard]] const layout::Element& element() const;

  /// Bytes [from, from + memory.size()) of the view.  Beyond the end of the file: zeros; `File::size` tells where that
  /// is.
  Status read(Offset from, std::span<std::byte> memory) const;
  Status write(Offset from, std::span<const std::byte> memory) const;
  /// `bytes` of it, to and from memory in pieces.
  Status read(Offset from, Offset bytes, const Memory& memory) const;
  Status write(Offset from, Offset bytes, const ConstMemory& memory) const;
  /// Several ranges in one go.
  Status read(std::span<const ReadPart> parts) const;
  Status write(std::span<const WritePart> parts) const;

  [[nodiscard]] Pending start_read(Offset from, std::span<std::byte> memory) const;
  [[nodiscard]] Pending start_write(Offset from, std::span<const std::byte> memory) const;
  /// The same with memory in pieces, through a few buffers of 4 MiB: what does not fit there follows as test() and
  /// wait() are called.
  [[nodiscard]] Pending start_read(Offset from, Offset bytes, const Memory& memory) const;
  [[nodiscard]] Pending start_write(Offset from, Offset bytes, const ConstMemory& memory) const;

  /// Whether an access would be sent to servers, rather than copied straight to or from their memory on this host.  May
  /// ask one of them.
  Result<bool> goes_by_message(bool is_write, Offset from, Offset bytes) const;
  [[nodiscard]] Result<AccessShape> shape(Offset from, Offset bytes) const;

  /// Of all accesses since the view was made.
  [[nodiscard]] AccessReport report() const;
  /// What the view is to each subfile, and which way its bytes go and why.
  [[nodiscard]] std::string explain() const;

 private:
  std::shared_ptr<internal::BoundView> bound_;
};

/// Held until dropped.
class FileLock;

struct ViewOptions {
  /// Clients that write the file together, each about as much as this one: room for all of them is made ready at once.
  /// A hint.
  int writers = 1;
};

class File {
 public:
  explicit File(std::shared_ptr<internal::OpenFile> open);

  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] layout::Partition layout() const;
  /// Of each subfile.
  [[nodiscard]] std::vector<std::uint32_t> targets() const;

  /// Binds a view: intersects it with every subfile and tells the targets.
  /// \error kTooComplex never: a pattern that does not fit is worked on range by range.
  Result<View> view(const layout::Element& element, const ViewOptions& options = {}) const;
  /// The file as it is: byte x at offset x.
  Result<View> linear() const;

  Result<Offset> size() const;
  Status truncate(Offset size) const;
  /// Takes room for the first `size` bytes, and makes the file at least so long.
  Status preallocate(Offset size) const;
  /// When it returns, what was written through this file and its views is safe from crashes, as far as the stores can
  /// promise that, and so is the file's name.
  /// \error kIoError if a server was started again since: what was written to it and not synced before may be lost.
  /// Told once.
  Status sync() const;
  /// Something was written through this file or its views since the last sync.
  [[nodiscard]] bool has_unsynced() const;
  /// All of its bytes are in memory of this host that this process may map: accesses need no messages, but for the
  /// first few.  Asks the servers once.
  [[nodiscard]] bool is_in_memory_here() const;
  /// Looks whether another client has changed its layout; accesses find that out by themselves.  \error kStale if it
  /// was removed
  Status refresh() const;
  /// What the file is, for other processes: they open it (FileSystem::open_described) or refresh it by that, and ask
  /// nobody.
  [[nodiscard]] std::vector<std::byte> describe() const;
  /// As another process has found and described it.  \error kCorrupt, kStale if that is another file
  Status refresh(std::span<const std::byte> description) const;
  /// Only tells that error, of bytes that were not synced; asks the servers that have some.  The file stays usable.
  Status close() const;
  /// Waits until no other holder's lock on the range conflicts, at most as long as calls may take.
  Result<FileLock> lock(Offset from, Offset to, bool exclusive) const;

 private:
  friend class FileSystem;
  std::shared_ptr<internal::OpenFile> open_;
};

class FileLock {
 public:
  FileLock(FileLock&&) noexcept;
  FileLock& operator=(FileLock&&) noexcept;
  ~FileLock();
  Status release();

 private:
  friend class File;
  struct State;
  explicit FileLock(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct RelayoutOptions {
  std::vector<std::uint32_t> targets;
  Offset max_buffer_bytes = Offset{64} << 20;
  std::function<void(Offset done, Offset all)> progress;
};

/// How a server is.
struct ServerStatus {
  std::uint32_t server = 0;
  std::string address;
  Status error;  ///< Why it did not answer.
  std::int64_t requests = 0;
  std::int64_t bytes_in = 0;
  std::int64_t bytes_out = 0;
  std::int64_t views = 0;
  std::int64_t clients = 0;
  /// How it identifies callers from other hosts.
  enum class Identifies : std::uint8_t {
    kByKernel,  ///< It has no port, so there are none.
    kByKey,     ///< They act as the user that it runs as.
    kByMunge,
  } identifies = Identifies::kByKernel;
  enum class Encrypts : std::uint8_t { kBeyondLoopback, kAlways, kOnRequest } encrypts = Encrypts::kBeyondLoopback;
  bool squashes_root = true;        ///< Callers that are root on another host act as nobody.
  bool verifies_memory = false;     ///< Its mapped memory has checksums.
  std::int64_t damaged_blocks = 0;  ///< Of mapped memory, found by them.
  /// How often it met its limits, and what they are.
  std::int64_t refused_connections = 0;
  std::int64_t refused_requests = 0;
  std::int64_t dropped_connections = 0;  ///< That did not move.
  struct Limits {
    std::int64_t connections = 0;
    std::int64_t user_connections = 0;
    std::int64_t requests = 0;
    std::int64_t memory_bytes = 0;
    std::int64_t views = 0;
    std::int64_t locks = 0;
    std::int64_t stall_ms = 0;
  } limits{};
  /// Of a server that did not answer: how many files have bytes there, and some of their paths; nothing if server 0
  /// does not tell.
  std::optional<std::int64_t> unreachable_files{};
  std::vector<std::string> unreachable_paths{};
};

/// What a user may have.  Nothing: any number.
struct QuotaLimits {
  std::optional<Offset> bytes{};
  std::optional<Offset> files{};
};

struct Quota {
  std::uint32_t user = 0;
  QuotaLimits limits;
  bool has_own_limits = false;  ///< Not those of everybody.
  Offset used_bytes = 0;        ///< Lengths of subfiles, holes included.
  Offset used_files = 0;        ///< Files and directories.
};

struct Quotas {
  bool is_active = false;  ///< Somebody has a limit; otherwise nothing is counted.
  std::vector<Quota> users;
  std::optional<QuotaLimits> of_everybody;  ///< Told with those of all users.
};

/// Limits to set; -1: none.
struct QuotaChange {
  std::optional<Offset> bytes{};
  std::optional<Offset> files{};
};

struct CheckOptions {
  bool repair = false;     ///< Deletes nothing that might be data: moves it to /lost+found.
  bool read_data = false;  ///< Read every byte, so that every checksum is checked.
  std::function<void(Offset done, Offset all)> progress;  ///< Bytes read.
};

/// Something that `check` found wrong.
struct Finding {
  enum class Kind {
    kOrphan,      ///< Subfiles that no file has.  Repaired: they have a name in /lost+found.
    kRelayout,    ///< A relayout that did not end: the old layout serves.
    kUnreadable,  ///< Bytes that cannot be read, or fail their checksum.
    kMissing,     ///< A server or a store that a file has bytes on is not there.
    kSidecar,     ///< What is kept beside a subfile, for a rebuild, is damaged.
    kUnknown,     ///< A server did not answer.
  };
  Kind kind = Kind::kOrphan;
  std::string what;
  bool is_repaired = false;
};

struct CheckReport {
  Offset files = 0;
  Offset directories = 0;
  Offset subfiles = 0;
  Offset stored_bytes = 0;
  /// Subfiles beside which something else is kept than what is true of their file now, or nothing: a directory was
  /// renamed, say.  No fault: only a rebuild would notice.
  Offset stale_sidecars = 0;
  Offset refreshed_sidecars = 0;  ///< Those that repair brought up to date.
  /// Sets of subfiles, of files that were removed or have another layout, that server 0 is about to remove: a server is
  /// down, say.  No fault.
  Offset pending_removals = 0;
  std::vector<Finding> findings;
};

class FileSystem {
 public:
  /// \error kUnavailable, kPermission, kInvalidArgument: each names the connection file or the address
  static Result<FileSystem> connect(const ConnectOptions& options = {});
  /// To the servers that are named there, whatever options.file_system says.
  static Result<FileSystem> connect(const ConnectionFile& servers, const ConnectOptions& options = {});
  explicit FileSystem(std::shared_ptr<internal::Session> session);

  Result<File> create(const std::string& path, const layout::Partition& layout,
                      const CreateOptions& options = {}) const;
  /// \error kPermission if the mode does not allow the access
  Result<File> open(const std::string& path, Access access = Access::kAllowed) const;
  /// A file that another process of this user has open, as File::describe() tells of it.  \error kCorrupt
  Result<File> open_described(const std::string& path, std::span<const std::byte> description) const;
  Result<Stat> stat(const std::string& path) const;
  Status remove(const std::string& path) const;
  Status remove_directory(const std::string& path) const;
  Status make_directory(const std::string& path, std::uint32_t mode = 0755) const;
  /// Replaces a file of that name.
  Status rename(const std::string& from, const std::string& to) const;
  Result<std::vector<Entry>> list(const std::string& path) const;
  Status set_mode(const std::string& path, std::uint32_t mode) const;
  Status set_owner(const std::string& path, std::uint32_t uid, std::uint32_t gid) const;
  /// Of a file that has no bytes yet.  `targets`: of each subfile; empty: as for new files.
  /// \error kInvalidArgument if it has bytes: names relayout(); or if there is no such target.  Nothing is changed then
  Status set_layout(const std::string& path, const layout::Partition& layout,
                    const std::vector<std::uint32_t>& targets = {}) const;
  /// Moves the bytes target to target by plan; all or nothing.  Readers go on meanwhile; writers wait, as long as calls
  /// may take.
  Status relayout(const std::string& path, const layout::Partition& layout, const RelayoutOptions& options = {}) const;
  /// When it returns, all that was done before, by anybody, is safe from crashes, as far as the stores can promise
  /// that: bytes and names.
  /// \error the first of any server
  Status sync() const;
  /// A number that clients share; others find it by its id.  \error kNotFound if it is gone
  Result<Counter> make_counter(Offset value = 0) const;
  Result<Counter> counter(std::uint64_t id) const;
  /// At least 1; asks nobody.
  [[nodiscard]] std::uint32_t target_count() const;
  /// See ConnectOptions.
  [[nodiscard]] const model::Io& costs() const;
  /// The host that each target is on; empty: not known, since its server does not answer.  Asks each server once.
  [[nodiscard]] std::vector<std::string> target_hosts() const;
  /// The host of this process: memory of targets that have the same can be mapped.
  [[nodiscard]] static std::string this_host();
  /// `counts_stored`: stored_bytes too, for which disk stores look at every file.
  Result<std::vector<TargetUsage>> usage(bool counts_stored = false) const;
  /// Of the caller's user, or, for root and the user that servers run as, of all users that have a limit or files.
  Result<Quotas> quotas(bool all = false) const;
  /// For root and the user that servers run as.  What is not given stays.  No user: for all without limits of their
  /// own, but root and the user that servers run as.  \error kPermission
  Status set_quota(std::optional<std::uint32_t> user, const QuotaChange& change) const;
  /// Takes away the limits of a user's own.
  Status clear_quota(std::optional<std::uint32_t> user) const;
  /// Of every server, whether it answers or not.  Counts are told to root and the user that servers run as; others see 0.
  [[nodiscard]] std::vector<ServerStatus> server_status() const;
  /// Compares names with subfiles.  A file that is written meanwhile is no error.
  Result<CheckReport> check(const CheckOptions& options = {}) const;

 private:
  std::shared_ptr<internal::Session> session_;
};

}  // namespace weir::client
