#pragma once

// The audit log: who signed on or was refused, and who changed permissions.  One JSON object per line.
//
//   event loop ── a line ──> queue, bounded ──> thread ── append ──> file
//
// The event loop never waits for the file.  Lines that find the queue full, or that cannot be written, are lost, and a
// line says how many.  Refusals are what strangers can cause at will, so only the first of each source are written in a
// window of time; the others are counted, and the count is written when the window ends.
//
//   event      when
//   sign-on    a caller was accepted or refused
//   refusal    an operation was refused for lack of permission, or by a quota
//   change     mode or owner of a file was changed
//   quota      limits of a user were changed
//   administer an operation was allowed only because the caller is the owner of the file system or root: fsck
//   summary    `count` more refusals of this source
//   lost       `count` lines could not be written
//
// Before each write, the thread looks whether the file is still the one at its path, and opens it again if not: a log
// rotator moves it away and needs to tell nobody.  Servers of one host may share a file: each write appends whole
// lines.

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <weir/base/descriptor.h>
#include <weir/base/result.h>
#include <weir/net/net.h>
#include <weir/runtime/runtime.h>
#include <weir/server/internal/access.h>
#include <weir/server/internal/call.h>

namespace weir::server::internal {

/// \threadsafety signed_on() and ended() from one thread; lines are written by another.
class Audit final : public CallObserver {
 public:
  struct Options {
    std::string file;          ///< An absolute path.
    std::uint32_t server = 0;  ///< Index of this server.
    std::chrono::seconds window{60};
    std::uint64_t most_refusals_of_source = 20;  ///< Written in a window.
    std::uint64_t most_refusals = 500;           ///< The same, of all sources.
    std::size_t most_sources = 256;              ///< Told apart in a window.
    std::size_t most_queued_bytes = std::size_t{4} << 20;
    runtime::Runtime runtime = runtime::system_runtime();
  };

  /// \pre `access` outlives it.
  /// \error kInvalidArgument if the path is not absolute or names no regular file; kIoError
  static Result<std::unique_ptr<Audit>> open(Options options, const AccessControl& access);
  ~Audit() override;  ///< Writes what is queued.

  void signed_on(const net::SignOn& caller);
  void ended(const ServerCall& call, const Status& status) override;

 private:
  /// Refusals of one source in the current window.
  struct Source {
    std::uint64_t written = 0;
    std::uint64_t counted = 0;  ///< Beyond those.
  };

  Audit(Options options, const AccessControl& access);
  void add_call(std::string_view event, const ServerCall& call, const Status& status);
  /// Whether a refusal of this source is written; counts it.
  bool admits(const std::string& source);
  void queue(std::string line);
  void end_window();

  void run();
  struct Batch {
    std::string lines;
    std::uint64_t count = 0;
    std::uint64_t lost = 0;  ///< Lines before these.
  };
  void write(Batch batch);
  Status reopen_if_moved();

  const Options options_;
  const AccessControl& access_;
  Descriptor file_;          // the thread's, as the next two
  bool is_torn_ = false;     // the last line in the file lacks its end
  bool has_failed_ = false;  // the last write

  std::mutex mutex_;  // guards what follows
  std::string queue_;
  std::uint64_t queued_ = 0;
  std::uint64_t lost_ = 0;
  std::map<std::string, Source> sources_;
  std::uint64_t refusals_ = 0;                                 // written in this window
  runtime::TimePoint window_end_ = runtime::TimePoint::max();  // max: no window is open
  bool is_ending_ = false;

  std::unique_ptr<runtime::Event> has_news_;
  std::unique_ptr<runtime::Thread> thread_;  // last member: ends first
};

/// "2026-11-19T23:03:40.000000123Z"
std::string utc_text(std::int64_t wall_ns);

}  // namespace weir::server::internal
