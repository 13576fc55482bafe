#pragma once

// A server: one target (a store) with its I/O service, and on server 0 the metadata service too.  One event loop, one
// thread: state has one owner and needs no locks.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <weir/base/result.h>
#include <weir/net/net.h>
#include <weir/runtime/runtime.h>
#include <weir/server/limits.h>
#include <weir/storage/key_value.h>
#include <weir/storage/store.h>

namespace weir::server {

inline constexpr Offset kAheadBytes = Offset{164} << 20;

struct Options {
  std::uint32_t index = 0;  ///< Number of this server; 0 has the metadata service.
  net::Address address{"tcp:127.0.0.1:0"};
  net::Key key;                  ///< The secret of the servers (net::Key::random()); clients get key.for_clients().
  std::string store = "memory";  ///< A storage::StoreSpec; below its directory, server-<index> is this server's.
  std::uint64_t file_system =
      0;                      ///< Id of the file system if its store is new and nothing beside it has one; 0: random.
  Offset capacity_bytes = 0;  ///< Of a memory store; 0: half of the machine's memory.
  bool share_memory = true;   ///< Hand memory of the store to clients on this host.
  Offset ahead_bytes = kAheadBytes;  ///< Most memory that a memory store makes ready ahead of use; 0: none.
  bool is_eager = false;             ///< It does so from the start, for the first files too.
  /// How long a subfile stays fenced whose relayout has lost its client: that may come back.
  std::chrono::milliseconds fence_grace{15'000};
  Limits limits{};               ///< Settings that say otherwise come first.
  bool squashes_root = true;     ///< Callers that are root on another host act as nobody.
  bool verifies_memory = false;  ///< Memory that is shared has checksums: share/block_sums.h.
  /// Where sign-ons, refusals and changes of permissions are written, one JSON object per line; an absolute path.
  /// Empty: as WEIR_AUDIT says; nowhere if that is not set.
  std::string audit_file;
  runtime::Runtime runtime = runtime::system_runtime();
  net::Network* network = &net::system_network();
};

/// \threadsafety start(), stop() and the rest by one thread; the server has its own.
class Server {
 public:
  /// Opens the store and listens; serves from now on in a thread of its own.
  static Result<std::unique_ptr<Server>> start(const Options& options);
  /// For tests: with a store that they made.
  static Result<std::unique_ptr<Server>> start(const Options& options, std::unique_ptr<storage::Store> store,
                                               std::unique_ptr<storage::KeyValue> metadata);
  ~Server();  ///< stop()

  [[nodiscard]] const net::Address& address() const;
  /// All servers, this one among them, in the order of their indices, and the server that has each target: what clients
  /// are told.  Server 0 needs it before the first client comes.  On disk, the number of servers becomes part of the
  /// file system when it is first told.  All servers must be told the same.
  /// \param target_servers  by target; several targets of a server share its store.  Empty: target i is on server i
  /// \error kInvalidArgument if the file system has another number of servers, or a target is on none; what the store
  /// says
  Status set_members(const std::vector<net::Address>& members, std::vector<std::uint32_t> target_servers = {});
  /// Answers what is under way, syncs the store, then returns.
  void stop();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// How many servers the file system in `store` has: nothing if there is none yet, or it is in memory.
/// \error kCorrupt if folders there do not belong together, or cannot be read
Result<std::optional<std::uint32_t>> servers_of(const std::string& store);

}  // namespace weir::server
