#pragma once

// Collective calls: all ranks make the same ones in the same order, or all of them get an error that says which ranks
// differ and how.
//
// A call that needs other ranks meets them: one small reduction if all is well.  A call that needs nothing of others is
// only noted, and does not wait: each rank keeps a digest of what it noted, and the next meeting compares the digests
// by the same reduction.  Only if they differ do ranks exchange their last calls, to name the first one that is not the
// same.  So a mistake is reported by the next call that meets: sync and close always do.
//
// After WEIR_MPIIO_TIMEOUT seconds (60) a missing rank is named (group/group.h), and every later call fails at once.

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <weir/group/group.h>
#include <weir/mpiio/internal/outcome.h>

namespace weir::mpiio::internal {

using group::RankBuffers;
using group::Term;

/// What an error of one rank means for the others.
enum class Together {
  kAllOrNone,  ///< All get it.
  kEach,       ///< Nothing.
};

class Meeting : public group::Group {
 public:
  /// Collective over `parent`, which is duplicated.  `quiet`: how long a rank waits before it tells the others.
  static Result<std::unique_ptr<Meeting>> convene(MPI_Comm parent, std::string_view call,
                                                  std::chrono::milliseconds quiet = group::Options().quiet);

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
    if (is_broken()) return broken(call);
    if (size() > 1) remember(number_of(call));
    return Outcome::ok();
  }

  /// After meeting for the last time: frees the communicator, unless ranks made different calls, or could not be met.
  void adjourn(const std::string& call);

 private:
  explicit Meeting(Group group) : Group(std::move(group)) {}
  std::uint8_t number_of(const char* call);
  void remember(std::uint8_t function);
  [[nodiscard]] Outcome broken(std::string_view call) const;
  [[nodiscard]] std::string last_calls() const;
  Result<std::string> compare_calls(const std::string& call);

  static constexpr std::size_t kRemembered = 32;                    // calls
  static constexpr std::uint64_t kHashStart = 0xcbf29ce484222325u;  // FNV-1a

  // Of this rank's calls on the file:
  std::uint64_t calls_ = 0;            // noted ones included
  std::uint64_t digest_ = kHashStart;  // of all since the last meeting
  std::array<std::uint8_t, kRemembered> recent_{};
  std::uint64_t forgotten_ = 0;  // calls before this one are not in `recent_`
  const char* last_name_ = nullptr;
  std::uint8_t last_number_ = 0;

  bool is_same_call_ = true;  // in the last meeting
};

/// WEIR_MPIIO_TIMEOUT
std::chrono::seconds longest_wait();

}  // namespace weir::mpiio::internal
