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

#include <weir/mpi/communicator.h>
#include <weir/runtime/runtime.h>
#include <weir/scalapack/internal/copy_arguments.h>
#include <weir/scalapack/internal/planning.h>

namespace weir::scalapack::internal {

/// What became of a call.
enum class Outcome {
  kDone,
  kPassOn,  ///< On every process: the pattern is beyond the algebra; let ScaLAPACK do it.
};

class PlanCache {
 public:
  static constexpr std::size_t kPlans = 16;

  /// The cache of a communicator; made by the first call, collectively, and gone when the communicator is freed.
  static Result<PlanCache*> of(MPI_Comm comm, const runtime::Runtime& with = runtime::system_runtime());

  /// Collective.  \error The same on every process if arguments are wrong.
  Result<Outcome> run(const CopyArguments& call, const void* a, void* b);

  /// Plans made so far.
  [[nodiscard]] std::size_t plans_made() const { return plans_made_; }

 private:
  static constexpr std::size_t kKeptBytes = std::size_t{160} << 20;

  struct Plan {
    CopyArguments call;
    std::unique_ptr<MatrixExchange> exchange;  // null: to be passed on
    Touched a;
    Touched b;
  };

  PlanCache(mpi::Communicator group, const runtime::Runtime& with);

  Result<Plan*> find(const CopyArguments& call);
  Result<Plan*> make(const CopyArguments& call);
  Status execute(Plan& plan, const std::byte* a, std::byte* b);
  [[nodiscard]] Result<std::vector<int>> world_ranks() const;
  void explain(const Plan& plan, const Side& a, const Side& b, runtime::Duration time) const;

  mpi::Communicator group_;
  const runtime::Clock& clock_;
  bool is_explained_;            // on standard error
  BufferPool pool_{kKeptBytes};  // one exchange runs at a time
  std::array<std::unique_ptr<Plan>, kPlans> plans_;
  std::size_t plans_made_ = 0;
};

}  // namespace weir::scalapack::internal
