#pragma once

// Redistribution of distributed arrays, memory to memory over MPI.
//
//   auto redistribution = Redistribution::create(comm, from, to);     collective, once
//   redistribution->execute(source, target);                          collective, as often as you like
//
// `from` and `to` describe the same array, one period long, as two partitions: any kinds, any element counts up to the
// size of the communicator, C or Fortran order.  Rank r holds element r of `from` in its source memory and gets element
// r of `to` into its target memory, packed in element order; ranks beyond the number of elements hold nothing.
//
// A byte is known by its offset in the file.  An hpf in Fortran order is of a file in that order, so redistributing
// from C to Fortran order, entry (i, j) to entry (i, j), goes between partitions over the same file: create(comm, from,
// *in_c_order(to)),
// see <weir/layout/array_order.h>.  What moves then is a transpose.
//
// No thread is started and MPI_THREAD_MULTIPLE is not needed: MPI is called by the thread that calls us.  Messages
// travel on a communicator of our own.

#include <memory>
#include <span>

#include <mpi.h>

#include <weir/layout/partition.h>
#include <weir/model/model.h>
#include <weir/redist/arrays.h>
#include <weir/redist/report.h>
#include <weir/runtime/runtime.h>

namespace weir::redist {

/// Straight from source to target, or through model::layout_between(): block-cyclic with blocks of the least common
/// multiple.  Two phases move everything twice, but in longer pieces and to fewer peers.
using model::Phases;

/// The same on all ranks.
struct Options {
  /// Most bytes of buffers on a rank, memory between two phases among them; 0: as many as are fastest (512 KiB to a
  /// peer on the same host, 4 MiB per message to or from others, never more than its bytes but for a few pages).
  /// Transfers that do not fit take several rounds.
  Offset max_buffer_bytes = 0;
  /// Every execution compares the number of arrays and errors between ranks, in one small reduction.  Without it, a
  /// rank that calls with other arguments than the rest lets them hang.  create() always compares.
  bool check_arguments = true;
  /// Give target elements to the ranks that hold most of their bytes already; see Redistribution::target_element().
  bool relabel = false;
  /// Up to so many ranks, create() collects who sends what to whom, for the report.  `relabel` collects it always.
  int survey_ranks = 256;
  /// kAuto: what the model of rank 0's machine predicts to be faster; one phase if there is none ('weir model
  /// calibrate' makes it).  The variable WEIR_REDIST_PHASES (auto, one, two) in the environment of rank 0 overrides
  /// this.
  Phases phases = Phases::kAuto;
  /// Ranks on the same host exchange through slots in shared memory instead of messages, where there is any.  With the
  /// variable WEIR_REDIST_SHARED=0 in its environment, a rank keeps to messages.
  bool share_memory = true;
  runtime::Runtime runtime = runtime::system_runtime();
};

namespace internal {
class RedistributionState;
}

/// An execution under way.  Source and target memory must stay, the one unchanged and the other untouched, until it is
/// done.
///
/// Dropping a request that is not done waits for it.
class Request {
 public:
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  /// Does what can be done now.  \returns true when all is done.
  Result<bool> test();
  /// Returns when all is done.
  Status wait();

 private:
  friend class Redistribution;
  explicit Request(std::shared_ptr<internal::RedistributionState> state) : state_(std::move(state)) {}
  std::shared_ptr<internal::RedistributionState> state_;  // null: done
};

/// A plan for all ranks, each holding its part.  \threadsafety One thread at a time.
class Redistribution {
 public:
  /// Collective over `comm`, which may be freed afterwards.  Every rank returns ok, or every rank an error that names
  /// the ranks and what is wrong.  `from` must be a layout; elements of `to` may overlap and leave gaps.
  /// \error kInvalidArgument if ranks pass different arguments, displacements or periods differ, or there are more
  /// elements than ranks, or two phases are asked for and cannot be; kTooComplex as layout::intersect(); kIoError if
  /// MPI or memory fails.
  static Result<Redistribution> create(MPI_Comm comm, const layout::Partition& from, const layout::Partition& to,
                                       const Options& options = {});

  Redistribution(Redistribution&&) noexcept;
  Redistribution& operator=(Redistribution&&) noexcept;
  /// Frees the communicator, unless MPI has been finalized.  A request under way keeps what it needs.
  ~Redistribution();

  /// Collective.  Moves one array.  \pre Source and target do not overlap.
  Status execute(const void* source, void* target);
  /// Moves several arrays of the same partitions; messages to the same peer are merged.
  Status execute(std::span<const Arrays> arrays);

  /// The same without waiting.  Returns when the first messages are packed; one execution can be under way at a time.
  Result<Request> start(const void* source, void* target);
  Result<Request> start(std::span<const Arrays> arrays);

  /// Element of `to` that this rank gets: its own number, unless Options::relabel; nothing if it gets none.
  [[nodiscard]] std::optional<Offset> target_element() const;

  [[nodiscard]] const Report& report() const;
  [[nodiscard]] std::string explain() const;

 private:
  explicit Redistribution(std::shared_ptr<internal::RedistributionState> state);
  std::shared_ptr<internal::RedistributionState> state_;
};

}  // namespace weir::redist
