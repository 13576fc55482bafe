#pragma once

// Ranks of an MPI communicator as a group.
//
// To know which ranks are missing when the limit is over, a rank that has waited for a while sends a notice to all
// others; ranks that sent none are missing.  After that the communicator is not used again.
//
// All notices must have arrived before the communicator is freed: Open MPI gives its number to the next one, and what
// arrives late would be taken for a message of that one.

#include <memory>

#include <weir/group/group.h>
#include <weir/mpi/wait.h>
#include <weir/runtime/runtime.h>

namespace weir::mpi {

struct CommunicatorOptions {
  group::Limit limit{};
  std::chrono::milliseconds quiet{500};  ///< How long a rank waits before it tells the others.
  std::chrono::microseconds awake = Backoff::kBytes;
  Test test = PMPI_Test;
  const runtime::Clock* clock = runtime::system_runtime().clock;
};

/// A communicator of our own, so that our messages never meet the user's, and errors come back instead of ending the
/// program.
/// \threadsafety One thread at a time, as MPI demands of collective calls.
class Communicator final : public group::Group {
  struct Waiting;

 public:
  /// Collective over `parent`, which is duplicated.
  /// \error kInvalidArgument if MPI is not running or `parent` is no communicator of one group.
  static Result<Communicator> duplicate(MPI_Comm parent, std::string_view call,
                                        const CommunicatorOptions& options = {});
  Communicator(Communicator&&) noexcept;
  /// Frees the communicator of a group without a limit, unless MPI has been finalized; with one, leave() does.
  ~Communicator() override;

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_ ? *comm_ : MPI_COMM_NULL; }

  /// mpi::await() with the limit of the group.  \error kTimedOut names the ranks that did not come
  Status await(std::string_view call, int code, MPI_Request& request) {
    return await(call, code, request, options_.awake);
  }

  Status greatest(std::string_view call, std::span<std::uint64_t> words) override;
  Result<Offset> sum_below(std::string_view call, Offset value) override;
  Result<Offset> value_of(std::string_view call, int root, Offset value) override;
  Result<std::string> bytes_of(std::string_view call, int root, std::string mine) override;
  Result<std::vector<std::string>> gather(std::string_view call, const std::string& mine) override;
  Result<std::vector<Offset>> gather(std::string_view call, std::span<const Offset> mine) override;
  Status exchange(std::string_view call, const group::RankBuffers& out, const group::RankBuffers& in) override;
  void leave(std::string_view call) override;

  /// A wait of the caller's own for messages on the communicator, bounded by the limit of the group.
  class Watch {
   public:
    Watch(Communicator& communicator, std::string_view call);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    /// Asked now and then; the first time starts it.  \error kTimedOut names the ranks that did not come: MPI may use
    /// the memory of requests under way for ever
    Status look();

   private:
    Communicator& communicator_;
    std::string_view call_;
    std::unique_ptr<Waiting> waiting_;
  };

 private:
  struct Notice;
  struct Words;

  explicit Communicator(const CommunicatorOptions& options);
  Status await(std::string_view call, int code, MPI_Request& request, std::chrono::microseconds awake);
  bool is_too_long(Waiting& waiting);
  void announce();
  void listen();
  bool has_received(const std::vector<Offset>& announced);
  [[nodiscard]] std::string missing() const;

  CommunicatorOptions options_;
  std::unique_ptr<MPI_Comm> comm_;
  std::unique_ptr<Words> words_;
  std::uint64_t round_ = 1;           // agreements so far, and one
  std::vector<std::uint64_t> heard_;  // by rank: the last round that it told to be waiting in
  std::vector<Offset> received_;      // by rank: how often it told
  Offset announced_ = 0;              // how often this one told all others
  bool is_leaving_ = false;           // tells no more
  std::vector<std::unique_ptr<Notice>> notices_;
};

}  // namespace weir::mpi
