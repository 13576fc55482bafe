#pragma once

// The system calls by which this test program (and RocksDB in it) changes files and makes them durable: recorded in
// order, and failed on demand.  They are defined in interposed_calls_test.cpp under the names of the C library's; what
// io_uring does is not seen.

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace weir::storage::internal {

/// A call that was made, or is about to be.
struct FileCall {
  std::string
      name;  ///< "fsync", "fdatasync", "syncfs", "open" (that makes a file), "mkdir", "rename", "unlink", "ftruncate", "pwrite", ...
  std::string path;  ///< Of a rename: from.
  std::string to;    ///< Of a rename.
};

/// While it lives, it sees the calls about files below a directory, of all threads.  One at a time.
class InterposedCalls {
 public:
  /// Called before a call: the errno that it fails with instead, or 0.
  using Before = std::function<int(const FileCall&)>;
  /// Called after one that succeeded.
  using After = std::function<void(const FileCall&)>;

  explicit InterposedCalls(std::string directory, Before before = {}, After after = {});
  ~InterposedCalls();
  InterposedCalls(const InterposedCalls&) = delete;
  InterposedCalls& operator=(const InterposedCalls&) = delete;

  /// That succeeded, so far; "name path" with the path below the directory.
  [[nodiscard]] std::vector<std::string> done() const;
  void clear();
  /// How many of `done` begin so.
  [[nodiscard]] int count(std::string_view beginning) const;

  // For the interposed calls.
  static InterposedCalls* watching(const std::string& path);
  int begin(const FileCall& call);
  void end(const FileCall& call);

 private:
  [[nodiscard]] std::string below(const std::string& path) const;

  const std::string directory_;
  const Before before_;
  const After after_;
  mutable std::mutex mutex_;
  std::vector<std::string> done_;
};

}  // namespace weir::storage::internal
