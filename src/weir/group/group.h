#pragma once

// Ranks that agree before they go on, and wait for each other no longer than a limit.
//
// Agreement is one small reduction if all is well (greatest).  Only if it shows that ranks differ, or that one failed,
// do they tell each other more.
//
// A wait for a missing rank is bounded, if the group has a limit: then the others get an error that names it.  To know
// which ranks are there, a rank that has waited for a while sends a notice to all others; ranks that sent none are
// missing.  After that the communicator is not used again.
//
// All notices must have arrived before the communicator is freed: Open MPI gives its number to the next one, and what
// arrives late would be taken for a message of that one.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/group/wait.h>

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

/// An error of a rank.
struct Failure {
  int code = 0;
  std::string message;
};

struct Options {
  std::chrono::seconds limit{0};         ///< How long a rank waits for others; 0: for ever.
  std::string_view limit_name = "";      ///< The variable that sets it, for messages.
  std::chrono::milliseconds quiet{500};  ///< How long a rank waits before it tells the others.
  std::chrono::microseconds awake = Backoff::kBytes;
  Test test = PMPI_Test;
};

/// A communicator of our own, so that our messages never meet the user's, and errors come back instead of ending the
/// program.  All functions that take the name of a `call` are collective: all ranks make the same ones in the same
/// order.
/// \threadsafety One thread at a time, as MPI demands of collective calls.
class Group {
 public:
  /// Collective over `parent`, which is duplicated.
  /// \error kInvalidArgument if MPI is not running or `parent` is no communicator of one group.
  static Result<Group> duplicate(MPI_Comm parent, std::string_view call, const Options& options = {});
  Group(Group&&) noexcept;
  Group& operator=(Group&&) = delete;
  /// Frees the communicator of a group without a limit, unless MPI has been finalized; with one, leave() does.
  ~Group();

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_ ? *comm_ : MPI_COMM_NULL; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Whether ranks can no longer be met, and why.
  [[nodiscard]] bool is_broken() const noexcept { return !why_broken_.empty(); }
  [[nodiscard]] const std::string& why_broken() const noexcept { return why_broken_; }

  /// group::await() with the limit of the group.  \error kTimedOut names the ranks that did not come
  Status await(std::string_view call, int code, MPI_Request& request) {
    return await(call, code, request, options_.awake);
  }

  static constexpr std::size_t kMaxWords = 8;
  /// In: of this rank; out: the greatest of each word of all ranks.  The greatest of a value and of its complement are
  /// complements only if all ranks have the same value.
  Status greatest(std::string_view call, std::span<std::uint64_t> words);
  /// A word of an agreement: its greatest is that of the lowest rank that failed, or 0.
  [[nodiscard]] std::uint64_t blame(bool has_failed) const noexcept {
    return has_failed ? static_cast<std::uint64_t>(size_ - rank_) : 0;
  }
  /// The error of the rank that has the greatest blame: "on rank 3: ...".
  Result<Failure> failure_of(std::string_view call, std::uint64_t greatest_blame, const Failure& mine);
  /// Which ranks have which value, for each term that is not the same: " path: rank 1: /x; ranks 0,2: /y."
  Result<std::string> differences(std::string_view call, const std::vector<Term>& terms);

  /// The sum of the values of all lower ranks, and the value of `root`.
  Result<Offset> sum_below(std::string_view call, Offset value);
  Result<Offset> value_of(std::string_view call, int root, Offset value);
  /// The bytes of `root`.
  Result<std::string> bytes_of(std::string_view call, int root, std::string mine);
  /// Everybody's bytes.
  Result<std::vector<std::string>> gather(std::string_view call, const std::string& mine);
  /// Everybody's numbers, as many on each rank: those of rank 0, then those of rank 1, ...
  Result<std::vector<Offset>> gather(std::string_view call, std::span<const Offset> mine);
  /// `out` of each rank becomes `in` of the others; both ends know the counts.  On error MPI may use the memory for
  /// ever.
  Status exchange(std::string_view call, const RankBuffers& out, const RankBuffers& in);

  /// At the end: frees the communicator, unless some rank does not come.
  void leave(std::string_view call);

 private:
  struct Notice;
  struct Words;
  struct Waiting;

  explicit Group(const Options& options);
  Status await(std::string_view call, int code, MPI_Request& request, std::chrono::microseconds awake);
  bool is_too_long(Waiting& waiting);
  void announce();
  void listen();
  bool has_received(const std::vector<Offset>& announced);
  [[nodiscard]] std::string missing() const;

  Options options_;
  std::unique_ptr<MPI_Comm> comm_;
  int rank_ = 0;
  int size_ = 1;
  std::unique_ptr<Words> words_;
  std::uint64_t round_ = 1;           // agreements so far, and one
  std::vector<std::uint64_t> heard_;  // by rank: the last round that it told to be waiting in
  std::vector<Offset> received_;      // by rank: how often it told
  Offset announced_ = 0;              // how often this one told all others
  bool is_leaving_ = false;           // tells no more
  std::vector<std::unique_ptr<Notice>> notices_;
  std::string why_broken_;
};

}  // namespace weir::group
