#pragma once

// What the drop-in keeps for a context: a communicator of its own and the plans of the last calls.
//
// A call, on every process of the context:
//
//   1. Each process looks which plans it has met with the very same arguments, and all take the intersection: one reduction of
//      eight bytes.  A process outside of one matrix knows nothing of it and may find several; those inside decide.
//   2. If none is left, all tell each other their arguments, check them, and each plans its own part.
//   3. Each runs its part.
//
// Slots for plans are used in turn, by all processes alike, so that a number means the same plan everywhere.

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <weir/group/group.h>
#include <weir/scalapack/internal/call.h>
#include <weir/scalapack/internal/planning.h>

namespace weir::scalapack::internal {

/// What became of a call.
enum class Outcome {
  kDone,
  kPassOn,  ///< On every process: the pattern is beyond the algebra; let ScaLAPACK do it.
};

class Session {
 public:
  static constexpr std::size_t kPlans = 16;

  /// The session of a communicator; made by the first call, collectively, and gone when the communicator is freed.
  static Result<Session*> of(MPI_Comm comm);

  /// Collective.  \error The same on every process if arguments are wrong.
  Result<Outcome> run(const Call& call, const void* a, void* b);

  /// Plans made so far.
  [[nodiscard]] std::size_t plans_made() const { return plans_made_; }

 private:
  struct Plan {
    Call call;
    std::unique_ptr<Exchange> exchange;  // null: to be passed on
    Touched a;
    Touched b;
  };

  explicit Session(group::Group group) : group_(std::move(group)) {}

  Result<Plan*> find(const Call& call);
  Result<Plan*> make(const Call& call);
  Status reserve(std::size_t bytes);
  Status execute(Plan& plan, const std::byte* a, std::byte* b);
  [[nodiscard]] Result<std::vector<int>> world_ranks() const;
  void explain(const Plan& plan, const Side& a, const Side& b, double seconds) const;

  group::Group group_;
  std::array<std::unique_ptr<Plan>, kPlans> plans_;
  std::size_t plans_made_ = 0;
  std::unique_ptr<std::byte[]> buffer_;  // one exchange runs at a time
  std::size_t buffer_bytes_ = 0;
};

}  // namespace weir::scalapack::internal
