#pragma once

// Ranks that meet before a collective call: all of them make the same call, or all of them get an error that says who differs and how.
//
// One small reduction if all is well.  A rank that does not come is no reason to wait for ever: after WEIR_MPIIO_TIMEOUT seconds (60) the
// others get an error that names it.  To know who has come, a rank that has waited for a while tells all others that it is there; those
// who never tell are missing.  After that the communicator is of no more use, and every later call fails at once.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

/// \threadsafety One thread at a time, as MPI demands of collective calls.
class Meeting {
 public:
  /// Collective over `parent`, which is duplicated.  \error MPI_ERR_COMM
  static Result<std::unique_ptr<Meeting>> convene(MPI_Comm parent, std::string_view call);
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
  /// A call that cannot wait here is counted, so that ranks which made another number of them find out when they meet next.
  void pass() { ++calls_; }

  /// After meeting: the sum of the values of all lower ranks, and the value of `root`.
  Result<Offset> sum_below(const std::string& call, Offset value);
  Result<Offset> value_of(const std::string& call, int root, Offset value);
  /// Everybody's bytes.
  Result<std::vector<std::string>> gather(const std::string& call, const std::string& mine);

 private:
  Meeting() = default;
  struct Notice;
  Status await(const std::string& call, int code, MPI_Request& request);
  void announce();
  void listen();
  [[nodiscard]] std::string missing() const;
  Outcome explain_difference(const std::string& call, const std::vector<Term>& terms);
  Outcome share_error(const std::string& call, const Outcome& mine);

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::uint64_t calls_ = 0;
  std::vector<std::uint64_t> heard_;  // by rank: the last call that it told to be waiting in
  std::vector<std::unique_ptr<Notice>> notices_;
  std::string broken_;  // why no rank can be met any more
};

/// WEIR_MPIIO_TIMEOUT
std::chrono::seconds longest_wait();

}  // namespace weir::mpiio::internal
