#pragma once

// What users may have and what they have, as server 0 knows it.  docs/decisions/021-quotas.md tells the whole.
//
// Limits are records of the metadata.  What users have is never stored: it follows from the records of files and from
// what servers say of their subfiles, so it cannot differ from them.
//
//   files   Files and directories by owner, counted when the first limit is set, or at the start if there is one.
//           Every change of names passes examine() as the batch that it is, and accept() once that was applied.
//   bytes   Each server holds a lease for the subfiles of a file that it has, at least as large as these, and asks for
//           more before they grow.  Leases are of files, so a change of owner moves them without a word to anybody.
//
// As long as nobody has a limit, nothing is counted and nothing is asked.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/server/internal/records.h>
#include <weir/storage/key_value.h>

namespace weir::server::internal {

using UserId = std::uint32_t;
/// Not a user: whose limits those have who have none of their own.
inline constexpr UserId kEverybody = ~UserId{0};

struct QuotaLimits {
  std::optional<Offset> bytes{};  ///< Nothing: any number.
  std::optional<Offset> files{};
  friend bool operator==(const QuotaLimits&, const QuotaLimits&) = default;
};

struct QuotaUse {
  Offset bytes = 0;  ///< Of leases.
  Offset files = 0;
  friend bool operator==(const QuotaUse&, const QuotaUse&) = default;
};

/// \threadsafety One thread at a time.
class Quotas {
 public:
  /// `owner`: the user that servers run as.  The limits for everybody are not for this user and for root.
  explicit Quotas(UserId owner) : owner_(owner) {}

  /// \pre `store` outlives the object.  \error what the store says; kCorrupt
  Status load(storage::KeyValue& store);
  /// Somebody has a limit.
  [[nodiscard]] bool is_active() const { return !limits_.empty(); }

  /// Durable when the store is synced.  No limits at all: as if none had been set for this user.
  Status set_limits(UserId user, const std::optional<QuotaLimits>& limits);
  [[nodiscard]] std::optional<QuotaLimits> limits_set_for(UserId user) const;
  /// Those that hold for the user.
  [[nodiscard]] QuotaLimits limits_of(UserId user) const;
  [[nodiscard]] QuotaUse use_of(UserId user) const;
  /// Who has a limit or something else.
  [[nodiscard]] std::set<UserId> users() const;

  // ---- names

  /// What a batch of changes means for owners.
  struct Change {
    std::map<UserId, Offset> files;  ///< More or, if negative, fewer.
    std::vector<FileNumber> dropped;
    std::map<FileNumber, UserId> owners;  ///< Of data.
  };
  /// \param enforces  whether a user who would have more files than allowed is refused
  /// \error kQuota; what the store says
  Result<Change> examine(const storage::Batch& batch, bool enforces);
  /// The batch was applied.
  void accept(const Change& change);
  /// Whether the batch was applied is not known: everything is counted again before the next answer.
  void doubt() { is_counted_ = false; }

  // ---- bytes

  /// A server's lease for the subfiles that it has of a file, which is `bytes` now.  Servers number what they say:
  /// what is older than what is known counts for nothing, and what is said twice counts once.
  struct Held {
    FileNumber data = 0;
    Offset bytes = 0;
    std::uint64_t boot = 0;  ///< Of the server; its numbers begin anew with each.
    std::uint64_t sequence = 0;
  };
  void note_held(std::uint32_t server, const Held& held);
  /// The server has said all that it holds: leases of its earlier lives are void.
  void forget_earlier(std::uint32_t server, std::uint64_t boot);
  /// Gives the server `want` more bytes, or fewer down to `need`.  \pre note_held()
  /// \error kQuota: says who has how much; kStale if the file is gone
  Result<Offset> lease(std::uint32_t server, FileNumber data, Offset need, Offset want);
  /// What servers may hold beyond what they need.  They give it back when it is needed elsewhere.
  [[nodiscard]] std::vector<std::pair<std::uint32_t, FileNumber>> slack_of(std::optional<UserId> user) const;
  /// The server has given back what it did not need of `data`.
  void forget_slack(std::uint32_t server, FileNumber data) { slack_.erase({data, server}); }

 private:
  struct Lease {
    Offset bytes = 0;
    std::uint64_t boot = 0;
    std::uint64_t sequence = 0;
  };
  struct Data {
    std::optional<UserId> owner;  // nothing: not a file's any more
    std::map<std::uint32_t, Lease> leases;
    [[nodiscard]] Offset bytes() const;
  };

  Status ensure_counted();
  Status count();
  void own(FileNumber data, UserId owner);
  void disown(FileNumber data);
  [[nodiscard]] Status refusal(UserId user, std::string_view what, Offset limit, Offset use) const;

  const UserId owner_;
  storage::KeyValue* store_ = nullptr;
  std::map<UserId, QuotaLimits> limits_;
  bool is_counted_ = false;
  std::unordered_map<UserId, QuotaUse> use_;
  std::unordered_map<FileNumber, Data> data_;
  std::set<std::pair<FileNumber, std::uint32_t>> slack_;
  std::map<std::uint32_t, std::uint64_t> boots_;  // of servers, of whose earlier lives nothing is left
};

}  // namespace weir::server::internal
