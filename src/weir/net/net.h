#pragma once

// Transports behind one interface: sockets with TLS between hosts (UCX on fabrics that are named), rings in shared
// memory between processes of one host, and a channel inside one process.
//
// A client calls, a server answers.  A message is a head (a FlatBuffer, small, checked by its reader) and a body (bytes
// of files, as they are, any number).  Bodies are received straight into the memory that the receiver names once it has
// seen the head.
//
//   Caller ──connect──> Connection ──call(head, body)──────────> Listener ──> Handler::handle(Request)
//                                  <──reply(head) body to sink──                Request::receive, Request::reply
//
// Every call ends exactly once: with the reply, or with kUnavailable (the server cannot be reached, or is gone), or
// kTimedOut (its deadline passed).  Order between calls is not promised.
//
// Deadlines are about signs of life, not about total time.  A caller with patience asks a server that is silent for
// long whether it still works on the call, and waits on if it does.  A listener drops callers that stop in the middle
// of a body.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weir/base/result.h>
#include <weir/runtime/runtime.h>

namespace weir::net {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;
using Deadline = runtime::TimePoint;

/// The protocol: frames (docs/formats.md) and heads together.  Both ends must have the same number.
inline constexpr std::uint32_t kProtocolVersion = 5;
/// Longer heads and bodies are refused before they are read.
inline constexpr std::size_t kMostHeadBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMostBodyBytes = std::size_t{1} << 30;

/// "tcp:127.0.0.1:7001" (rings if that is on this host, unless WEIR_TRANSPORT=tcp; otherwise sockets; loopback addresses:
/// rings only), or "local:NAME" inside this process.
struct Address {
  std::string text;
  friend auto operator<=>(const Address&, const Address&) = default;
};

/// What both ends must know.  Neither ever sends it: they prove it to each other.
///
/// The servers of a file system have a secret, and clients get a key that is derived from it and does not lead back to
/// it.  A listener accepts both, and tells them apart, so no client can act as a server.
struct Key {
  enum class Holder : std::uint8_t { kClients, kServers };

  std::vector<std::byte> bytes;      ///< 32
  Holder holder = Holder::kClients;  ///< kServers: it is the secret.

  /// A secret for the servers of a new file system.
  static Key random();
  /// \error kPermission if others may read the file; kNotFound, kIoError, kCorrupt
  static Result<Key> load(const std::string& path, Holder holder);
  /// A new file, readable by its owner only.
  [[nodiscard]] Status save(const std::string& path) const;

  /// Of a secret: the key of its clients.  Of a clients' key: itself.
  [[nodiscard]] Key for_clients() const;
  /// What else is derived from the secret; known only to servers.  \pre holder is kServers
  enum class Purpose : std::uint8_t { kClients = 1, kCapabilities = 2 };
  [[nodiscard]] std::vector<std::byte> derive(Purpose purpose) const;

  /// Of a clients' key.
  [[nodiscard]] std::string to_hex() const;
  static std::optional<Key> from_hex(std::string_view text);
};

/// Who calls.  The listener finds out; what the caller says of itself counts for nothing, except its host.
struct Identity {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;
  std::string host;        ///< Of the caller: differs between machines, and between network namespaces of one.
  bool is_server = false;  ///< It has proven the secret of the servers.
  /// Who vouches for it.  Holders of the key act as the user that the listener runs as.
  enum class Voucher : std::uint8_t { kKernel, kMunge, kKey, kSecret };
  Voucher voucher = Voucher::kKernel;
  std::string origin = {};  ///< For logs: "process 4711", "tcp:10.0.0.7:40112".

  static Identity of_this_process();
  /// A user that owns nothing.
  static Identity nobody();
  /// Whether the caller can reach abstract Unix sockets of this process.
  [[nodiscard]] bool same_host() const;
};

// ---------------------------------------------------------------- the calling end

struct Reply {
  Bytes head;
  std::size_t body_bytes = 0;  ///< In Call::sink.
};

struct Call {
  Bytes head;
  std::span<const std::byte> body;  ///< Stays as it is until `done`.
  std::span<std::byte> sink;        ///< For the body of the reply; a longer one is an error.
  Deadline deadline;
  std::function<void(Result<Reply>)>
      done;  ///< Exactly once, from progress() or wait() of the Caller, or from the end of the Connection.
  /// If not 0, the deadline is only the first: every sign of life (bytes that move, or the server's answer that it
  /// works on the call, which it is asked for halfway) gives the call that much time again.
  Clock::duration patience{};
};

/// \threadsafety As its Caller.
class Connection {
 public:
  /// Calls under way end with kUnavailable.
  virtual ~Connection() = default;
  /// Starts a call; never waits.  Calls made while the connection is being established are sent once it is; if it
  /// cannot be, they end with the reason.
  virtual void call(Call call) = 0;
  /// False once the server is known to be gone, or cannot be reached; calls then fail at once.
  [[nodiscard]] virtual bool is_open() const = 0;
  [[nodiscard]] virtual const Address& address() const = 0;
};

/// The calling end: all connections of a client.  \threadsafety One thread at a time, for it and its connections
/// together; but for wake().
class Caller {
 public:
  virtual ~Caller() = default;
  /// Starts to connect; never waits: progress() does the rest.  If that fails, or is not done by the deadline, calls on
  /// the connection end with kUnavailable if nobody answers, kPermission if the keys differ, kInvalidArgument if the
  /// versions do; the message names the address.
  virtual std::unique_ptr<Connection> connect(const Address& address, const Key& key, Deadline deadline) = 0;
  /// Does what can be done now.
  virtual void progress() = 0;
  /// Sleeps until progress() would find something, wake(), or the deadline, whichever is first, and makes progress.  May
  /// return early.
  virtual void wait(Deadline deadline) = 0;
  /// Makes the wait() in progress, or the next one, return.  \threadsafety Safe from any thread.
  virtual void wake() = 0;
};

// ---------------------------------------------------------------- the answering end

using PeerId = std::uint64_t;

/// A call to answer.  Dropped without an answer, it gives the caller kUnavailable.  Used on the listener's thread only.
class Request {
 public:
  class Impl;
  explicit Request(std::unique_ptr<Impl> impl);
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  [[nodiscard]] std::span<const std::byte> head() const;
  [[nodiscard]] std::size_t body_bytes() const;
  [[nodiscard]] PeerId peer() const;
  [[nodiscard]] const Identity& identity() const;
  /// False once the caller is gone or has given up.  \threadsafety Safe to look at from any thread.
  [[nodiscard]] std::shared_ptr<const std::atomic<bool>> is_wanted() const;

  /// Receives the body into `into`, which must be just as long and stay until `done`.  At most once.  `done` may be
  /// called before it returns.  A request that is dropped or answered before `done` receives no more, and forgets
  /// `done`.
  void receive(std::span<std::byte> into, std::function<void(Status)> done);

  /// Answers; at most once.  `body` stays until `sent`, which also comes if the caller is gone.
  void reply(Bytes head, std::span<const std::byte> body = {}, std::function<void()> sent = {});

 private:
  std::unique_ptr<Impl> impl_;
};

/// An attempt of a caller to be let in, for logs.
struct SignOn {
  PeerId peer = 0;
  std::string origin;                ///< As in Identity.
  std::optional<Identity> identity;  ///< Nothing if nobody vouches for the caller.
  Status status = {};                ///< Why it was refused, or did not finish.
};

/// What a server does.  All calls come on the listener's thread.  They may take long: callers that ask are told
/// meanwhile that the server works.
class Handler {
 public:
  virtual ~Handler() = default;
  virtual void handle(Request request) = 0;
  /// A caller was let in, before its first request; or refused.
  virtual void signed_on(const SignOn& caller) { (void)caller; }
  /// A peer is gone: nothing of it comes any more.
  virtual void disconnected(PeerId peer) { (void)peer; }
};

/// How a listener lets callers in that come through its port.
struct Admission {
  enum class Identifies : std::uint8_t {
    kNone,     ///< There is no port: the kernel vouches for all callers.
    kByKey,    ///< They act as the user that the listener runs as.
    kByMunge,  ///< They act as the user that MUNGE names.
  };
  enum class Encrypts : std::uint8_t { kBeyondLoopback, kAlways, kOnRequest };

  Identifies identifies = Identifies::kNone;
  Encrypts encrypts = Encrypts::kBeyondLoopback;
  bool squashes_root = true;
};

/// What callers can make a listener hold.  Errors name the limit, and the variable by which server/limits.h sets it.
/// Servers are callers without limits.
struct Limits {
  std::size_t connections = 4096;                          ///< Of all users.
  std::size_t user_connections = 2048;                     ///< Of one user, other than the listener's own.
  std::size_t requests = 16384;                            ///< Under way on one connection.
  std::size_t request_bytes = std::size_t{256} << 20;      ///< Of those: heads, and bodies that came with them.
  std::size_t total_request_bytes = std::size_t{2} << 30;  ///< Of all connections.
  /// Answers, bodies aside, that wait because a caller does not read.  It is not read either, then.
  std::size_t unread_bytes = std::size_t{16} << 20;
  std::size_t total_unread_bytes = std::size_t{128} << 20;  ///< Of all connections.
};

/// How often limits were met.
struct LimitCounters {
  std::uint64_t refused_connections = 0;
  std::uint64_t refused_requests = 0;
  std::uint64_t dropped_connections = 0;  ///< That did not move for ListenOptions::stall_limit.
};

/// The answering end: an event loop.  Idle, it sleeps.
class Listener {
 public:
  virtual ~Listener() = default;
  [[nodiscard]] virtual Admission admission() const { return {}; }
  /// Listener's thread only.
  [[nodiscard]] virtual LimitCounters limit_counters() const { return {}; }
  /// As clients reach it; the port is filled in where 0 was asked for.
  [[nodiscard]] virtual const Address& address() const = 0;
  /// Serves until stop(); in the thread that calls it.
  virtual void run() = 0;
  /// Makes run() return once requests that were handed to the handler are answered or dropped.  \threadsafety Safe from
  /// any thread.
  virtual void stop() = 0;
  /// Runs `task` on the listener's thread, soon.  \threadsafety Safe from any thread.
  virtual void post(std::function<void()> task) = 0;
  /// Runs `task` on the listener's thread at `time`.  Listener's thread only.
  virtual void at(Deadline time, std::function<void()> task) = 0;
  /// For calls to other servers, driven by run(): completions come on the listener's thread, and its own progress() and
  /// wait() do nothing.  run() does not wait for calls in flight when it stops, except through the requests that wait
  /// for them; the end of a connection ends its calls.  Listener's thread only, or while nobody runs it.
  virtual Caller& caller() = 0;
};

struct ListenOptions {
  /// A caller of whose bodies, in either direction, no byte has moved for so long is dropped: others may wait for what
  /// it holds.  So is one that has not read any of the answers that wait for it.
  Clock::duration stall_limit = std::chrono::seconds(10);
  /// How long a caller may take to prove that it has the key.
  Clock::duration stranger_patience = std::chrono::seconds(5);
  Limits limits{};
  /// Open a port also on a loopback address.  Only this host reaches those, so shared memory alone serves them
  /// otherwise: a port that is not needed stays closed.
  bool opens_loopback_port = false;
  /// A caller that is root on its host, as MUNGE says, acts as nobody.
  bool squashes_root = true;
  runtime::Runtime runtime = runtime::system_runtime();
};

/// Where both ends come from: the machine's network, or a simulated one.  \threadsafety Safe from any thread.
class Network {
 public:
  virtual ~Network() = default;
  /// The one that `address` needs.  \error kInvalidArgument
  virtual Result<std::unique_ptr<Caller>> make_caller(const Address& address, const runtime::Runtime& runtime) = 0;
  /// `secret`: of the servers.  Accepts those who prove it, and those who prove the key of its clients.
  /// \error kIoError if the address cannot be listened on; kInvalidArgument if that is not a secret
  virtual Result<std::unique_ptr<Listener>> listen(const Address& address, const Key& secret, Handler& handler,
                                                   const ListenOptions& options) = 0;
};

/// The machine's.
Network& system_network() noexcept;

}  // namespace weir::net
