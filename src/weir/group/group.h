#pragma once

// Ranks that agree before they go on, and wait for each other no longer than a limit.  What a rank is, the
// implementation knows: a process of MPI (component mpi), or a thread (thread_group.h).
//
// Agreement is one small reduction if all is well (greatest).  Only if it shows that ranks differ, or that one failed,
// do they tell each other more.
//
// A wait for a missing rank is bounded, if the group has a limit: then the others get an error that names it, and the
// group is broken: all later calls fail at once.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>

namespace weir::group {

/// An argument that must be the same on all ranks.
struct Term {
  std::string name;
  std::string value;
};

/// Of the values.  A clash would let a mistake pass that nobody makes on purpose.
std::uint64_t hash_of(const std::vector<Term>& terms) noexcept;

/// Bytes for every rank, or from every rank.
struct RankBuffers {
  std::byte* data = nullptr;
  std::vector<int> counts;  ///< By rank.
  std::vector<int> starts;
};

/// How long a rank waits for others.
struct Limit {
  std::chrono::milliseconds time{0};  ///< 0: without limit.
  std::string_view name = "";         ///< The variable that sets it, for messages.
};

/// All functions that take the name of a `call` are collective: all ranks make the same ones in the same order.  The
/// name is for messages.
/// \threadsafety One thread at a time.
class Group {
 public:
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Whether ranks can no longer be met, and why.
  [[nodiscard]] bool is_broken() const noexcept { return !why_broken_.empty(); }
  [[nodiscard]] const std::string& why_broken() const noexcept { return why_broken_; }

  static constexpr std::size_t kMaxWords = 8;
  /// In: of this rank; out: the greatest of each word of all ranks.  The greatest of a value and of its complement are
  /// complements only if all ranks have the same value.
  /// \error kTimedOut names the ranks that did not come
  virtual Status greatest(std::string_view call, std::span<std::uint64_t> words) = 0;
  /// A word of an agreement: its greatest is that of the lowest rank that failed, or 0.
  [[nodiscard]] std::uint64_t blame(bool has_failed) const noexcept {
    return has_failed ? static_cast<std::uint64_t>(size_ - rank_) : 0;
  }
  /// The error of the rank that has the greatest blame, as it is there: "on rank 3: ...".
  Status failure_of(std::string_view call, std::uint64_t greatest_blame, const Status& mine);
  /// Which ranks have which value, for each term that is not the same: " path: rank 1: /x; ranks 0,2: /y."
  Result<std::string> differences(std::string_view call, const std::vector<Term>& terms);

  /// The sum of the values of all lower ranks.
  virtual Result<Offset> sum_below(std::string_view call, Offset value) = 0;
  /// The value of `root`.
  virtual Result<Offset> value_of(std::string_view call, int root, Offset value) = 0;
  /// The bytes of `root`.
  virtual Result<std::string> bytes_of(std::string_view call, int root, std::string mine) = 0;
  /// Everybody's bytes.
  virtual Result<std::vector<std::string>> gather(std::string_view call, const std::string& mine) = 0;
  /// Everybody's numbers, as many on each rank: those of rank 0, then those of rank 1, ...
  virtual Result<std::vector<Offset>> gather(std::string_view call, std::span<const Offset> mine) = 0;
  /// `out` of each rank becomes `in` of the others; both ends know the counts.  On error other ranks, or MPI, may use
  /// the memory forever.
  virtual Status exchange(std::string_view call, const RankBuffers& out, const RankBuffers& in) = 0;

  /// The last call: gives back what the group holds, unless some rank does not come.
  virtual void leave(std::string_view call) = 0;

 protected:
  Group() = default;
  Group(Group&&) noexcept = default;

  /// The error of a wait that took too long, which breaks the group.
  Status break_by(std::string_view call, const std::string& missing, const Limit& limit);
  /// Of a call on a broken group.
  [[nodiscard]] Status broken(std::string_view call) const;

  int rank_ = 0;
  int size_ = 1;
  std::string why_broken_;
};

/// "rank 3", "ranks 0,2-4".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace weir::group
