#pragma once

// Collective calls: all ranks make the same ones in the same order, or all of them get an error that says which ranks
// differ and how.
//
// A call that needs other ranks meets them: one small reduction if all is well.  A call that needs nothing of others is
// only noted, and does not wait: each rank keeps a digest of what it noted, and the next meeting compares the digests
// by the same reduction.  Only if they differ do ranks exchange their last calls, to name the first one that is not the
// same.  So a mistake is reported by the next call that meets: sync and close always do.
//
// A wait for a missing rank is bounded: after WEIR_MPIIO_TIMEOUT seconds (60) the others get an error that names it.
// To know which ranks are there, a rank that has waited for a while sends a notice to all others; ranks that sent none
// are missing.  After that the communicator is not used again, and every later call fails at once.
//
// All notices must have arrived before the communicator is freed: Open MPI gives its number to the next one, and what
// arrives late would be taken for a message of that one.

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <weir/base/backoff.h>
#include <weir/base/checked.h>
#include <weir/mpiio/internal/outcome.h>

namespace weir::mpiio::internal {

/// An argument that must be the same on all ranks.
struct Term {
  std::string name;
  std::string value;
};

/// What an error of one rank means for the others.
enum class Together {
  kAllOrNone,  ///< All get it.
  kEach,       ///< Nothing.
};

/// Bytes for every rank, or from every rank.
struct Parcels {
  std::byte* data = nullptr;
  std::vector<int> counts;  ///< By rank.
  std::vector<int> starts;
};

/// \threadsafety One thread at a time, as MPI demands of collective calls.
class Meeting {
 public:
  static constexpr std::chrono::milliseconds kQuiet{500};

  /// Collective over `parent`, which is duplicated.  `quiet`: how long a rank waits before it tells the others.  \error
  /// MPI_ERR_COMM
  static Result<std::unique_ptr<Meeting>> convene(MPI_Comm parent, std::string_view call,
                                                  std::chrono::milliseconds quiet = kQuiet);
  /// Does not free the communicator: adjourn() does.
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// What any rank tells the others in a meeting: in, of this rank; out, whether any rank has set it.
  struct Flags {
    bool first = false;
    bool second = false;
  };
  /// All ranks call this with the same call and terms.  `mine` says whether this rank can do its part.
  Outcome meet(const std::string& call, const std::vector<Term>& terms, const Outcome& mine, Together together,
               Flags* flags = nullptr);
  /// A collective call that needs nothing of other ranks.  `call` must stay.  \error if ranks can no longer be met
  Outcome note(const char* call) {
    if (is_broken_) return broken(call);
    if (size_ > 1) remember(number_of(call));
    return Outcome::ok();
  }

  /// After meeting for the last time: frees the communicator, unless ranks made different calls, or could not be met.
  void adjourn(const std::string& call);

  /// After meeting: the sum of the values of all lower ranks, and the value of `root`.
  Result<Offset> sum_below(const std::string& call, Offset value);
  Result<Offset> value_of(const std::string& call, int root, Offset value);
  /// The bytes of `root`.
  Result<std::string> bytes_of(const std::string& call, int root, std::string mine);
  /// Everybody's bytes.
  Result<std::vector<std::string>> gather(const std::string& call, const std::string& mine);
  /// Everybody's numbers, as many on each rank: those of rank 0, then those of rank 1, ...
  Result<std::vector<Offset>> gather(const std::string& call, std::span<const Offset> mine);
  /// `out` of each rank becomes `in` of the others; both ends know the counts.  On error MPI may use the memory for
  /// ever.
  Status exchange(const std::string& call, const Parcels& out, const Parcels& in);

 private:
  Meeting() = default;
  struct Notice;
  struct Exchange;
  struct Waiting;
  std::uint8_t number_of(const char* call);
  void remember(std::uint8_t function);
  [[nodiscard]] Outcome broken(std::string_view call) const;
  Status await(const std::string& call, int code, MPI_Request& request, Backoff backoff = Backoff());
  bool is_too_long(Waiting& waiting);
  void announce();
  void listen();
  bool has_received(const std::vector<Offset>& announced);
  [[nodiscard]] std::string missing() const;
  [[nodiscard]] std::string last_calls() const;
  Result<std::string> compare_calls(const std::string& call);
  Outcome explain_difference(const std::string& call, const std::vector<Term>& terms);
  Outcome share_error(const std::string& call, const Outcome& mine);

  static constexpr std::size_t kRemembered = 32;  // calls

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::chrono::milliseconds quiet_ = kQuiet;

  // Of this rank's calls on the file:
  std::uint64_t calls_ = 0;   // noted ones included
  std::uint64_t digest_ = 0;  // of all since the last meeting
  std::array<std::uint8_t, kRemembered> recent_{};
  std::uint64_t forgotten_ = 0;  // calls before this one are not in `recent_`
  const char* last_name_ = nullptr;
  std::uint8_t last_number_ = 0;

  std::uint64_t meetings_ = 0;
  bool is_same_call_ = true;          // in the last meeting
  std::vector<std::uint64_t> heard_;  // by rank: the last meeting that it told to be waiting in
  std::vector<Offset> received_;      // by rank: how often it told
  Offset announced_ = 0;              // how often this one told all others
  bool is_adjourning_ = false;        // tells no more
  std::vector<std::unique_ptr<Notice>> notices_;
  bool is_broken_ = false;  // ranks can no longer be met
  std::string why_broken_;
};

/// WEIR_MPIIO_TIMEOUT
std::chrono::seconds longest_wait();

}  // namespace weir::mpiio::internal
