#pragma once

// Ranks that meet before a collective call: all of them make the same call, or all of them get an error that says who differs and how.
//
// One small reduction if all is well.  A rank that does not come is no reason to wait for ever: after WEIR_MPIIO_TIMEOUT seconds (60) the
// others get an error that names it.  To know who has come, a rank that has waited for a while tells all others that it is there; those
// who never tell are missing.  After that the communicator is of no more use, and every later call fails at once.
//
// All that was told must have arrived before the communicator is freed: Open MPI gives its number to the next one, and what arrives late would be
// taken for a message of that one.
//
// A call that does not block joins the same sequence of reductions and goes on; whether the others came shows when the program waits for its
// request.  Since it may have joined several by then, ranks that differ cannot meet once more to tell each other how: the reduction itself
// carries two calls that differ and who made them, and that is the end of the communicator too.

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
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

/// A collective call that did not wait for the others.
struct Arrival {
  std::optional<Outcome> outcome;  ///< Once it is known: ok if all ranks made the call.
};

/// Bytes for every rank, or from every rank.
struct Parcels {
  std::byte* data = nullptr;
  std::vector<int> counts;  ///< By rank.
  std::vector<int> starts;
};

/// \threadsafety Collective calls by one thread at a time, as MPI demands; test() by any.
class Meeting {
 public:
  static constexpr std::chrono::milliseconds kQuiet{500};

  /// Collective over `parent`, which is duplicated.  `quiet`: how long a rank waits before it tells the others.  \error MPI_ERR_COMM
  static Result<std::unique_ptr<Meeting>> convene(MPI_Comm parent, std::string_view call,
                                                  std::chrono::milliseconds quiet = kQuiet);
  /// Does not free the communicator: adjourn() does.
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// All ranks call this with the same call and terms.  `mine` says whether this rank can do its part.
  /// `flag`: in and out, whether any rank has set it.
  Outcome meet(const std::string& call, const std::vector<Term>& terms, const Outcome& mine, Together together,
               bool* flag = nullptr);
  /// The same for a call that does not wait; its arguments are this rank's own business.  `arrival`: to be tested.
  Outcome arrive(const std::string& call, std::shared_ptr<Arrival>& arrival);
  /// True as soon as the arrival has an outcome.  From the first look on, others have as long to come as to other calls.
  bool test(const Arrival& arrival);

  /// After meeting for the last time: frees the communicator, unless ranks made different calls, or could not be met.
  void adjourn(const std::string& call);

  /// After meeting: the sum of the values of all lower ranks, and the value of `root`.
  Result<Offset> sum_below(const std::string& call, Offset value);
  Result<Offset> value_of(const std::string& call, int root, Offset value);
  /// Everybody's bytes.
  Result<std::vector<std::string>> gather(const std::string& call, const std::string& mine);
  /// Everybody's numbers, as many on each rank: those of rank 0, then those of rank 1, ...
  Result<std::vector<Offset>> gather(const std::string& call, std::span<const Offset> mine);
  /// `out` of each rank becomes `in` of the others; both ends know the counts.  On error MPI may use the memory for ever.
  Status exchange(const std::string& call, const Parcels& out, const Parcels& in);

 private:
  Meeting() = default;
  struct Notice;
  struct Exchange;
  struct Waiting;
  struct Pending;
  std::unique_ptr<Exchange> exchange_of(const std::string& call, const std::vector<Term>& terms) const;
  Status await(const std::string& call, int code, MPI_Request& request, Backoff backoff = Backoff());
  // With the mutex held:
  void look_after_pending();
  void end_pending();
  bool look_after(Pending& pending);
  bool is_too_long(Waiting& waiting, std::uint64_t call);
  void give_up(Outcome why);
  void announce(std::uint64_t call);
  void listen();
  bool has_received(const std::vector<Offset>& announced);
  [[nodiscard]] std::string missing(std::uint64_t call) const;
  // Of ranks that did not make the same call, and of which some do not wait.
  [[nodiscard]] Outcome tell_difference(const Exchange& exchange) const;
  Outcome explain_difference(const std::string& call, const std::vector<Term>& terms);
  Outcome share_error(const std::string& call, const Outcome& mine);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::chrono::milliseconds quiet_ = kQuiet;
  // Only collective calls touch these:
  std::uint64_t calls_ = 0;
  bool is_same_call_ = true;  // that all ranks made the last time

  std::mutex mutex_;                  // for what follows
  std::vector<std::uint64_t> heard_;  // by rank: the last call that it told to be waiting in
  std::vector<Offset> received_;      // by rank: how often it told
  Offset announced_ = 0;              // how often this one told all others
  bool is_adjourning_ = false;        // tells no more
  std::vector<std::unique_ptr<Notice>> notices_;
  std::deque<std::unique_ptr<Pending>> pending_;  // calls that did not wait, in their order
  std::optional<Outcome> broken_;                 // why no rank can be met any more
};

/// WEIR_MPIIO_TIMEOUT
std::chrono::seconds longest_wait();

}  // namespace weir::mpiio::internal
