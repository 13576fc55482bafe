#pragma once

// Removes subfiles that metadata has taken from files, wherever they are.  Part of server 0.
//
//   Metadata, one batch:  the name goes, a record of the subfiles to be removed comes
//   durable               only now may bytes go: the name must not come back without them
//   Removals              RemoveSubfile at each target; those that fail are tried again, with backoff
//   Metadata              the record goes
//
// Records outlive server 0, so a crash at any step leaves a record and subfiles that the next life removes.  Removing
// twice is harmless.  After a relayout, the sidecars of the new subfiles are written before the first old subfile goes:
// from then on they are all that a rebuild of the metadata has.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <weir/server/internal/metadata.h>
#include <weir/server/internal/peers.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time: that of the event loop.
class Removals {
 public:
  struct Options {
    bool keeps_about = false;  ///< Stores have sidecars.
    std::chrono::milliseconds first_pause{100};
    std::chrono::milliseconds longest_pause{5'000};
    /// Runs a task in the event loop after a time.
    std::function<void(std::chrono::milliseconds, std::function<void()>)> after = {};
  };
  using Tried = std::function<void(const Status&)>;

  Removals(Metadata& metadata, Peers& peers, Options options);

  /// What earlier lives of the server have left, all of it or the rest.  \error what metadata says
  Status load();
  /// Removes what `Metadata::take_new_removals()` gave, once that is durable.  `tried` is called when each subfile is
  /// removed, or could not be removed for now: with the first error.
  void add(std::vector<wire::AttributesT> removals, const Tried& tried);
  /// Tries again now: servers may be there that were not.
  void retry();
  /// Starts nothing any more.
  void stop() { is_stopped_ = true; }
  /// Data of which subfiles are left.
  [[nodiscard]] std::size_t size() const { return jobs_.size(); }

 private:
  struct Job {
    wire::AttributesT removal;
    std::vector<std::uint32_t> left;  // elements
    bool is_running = false;
    bool has_failed = false;  // before
    std::size_t in_flight = 0;
    Status status;  // of this attempt
    std::vector<Tried> tried;
  };
  using JobPtr = std::shared_ptr<Job>;

  JobPtr make_job(wire::AttributesT removal);
  void run(const JobPtr& job);
  void describe(const JobPtr& job);
  void remove(const JobPtr& job);
  void finish(const JobPtr& job);
  void retry_later();

  Metadata& metadata_;
  Peers& peers_;
  Options options_;
  std::map<FileNumber, JobPtr> jobs_;  // by data
  std::chrono::milliseconds pause_;
  bool is_waiting_ = false;  // for the next attempt
  bool is_stopped_ = false;
};

}  // namespace weir::server::internal
