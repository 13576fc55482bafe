#pragma once

// The phases of a redistribution, one after the other: exchanges between ranks, and the memory that lies between two of
// them.
//
//   source ──phase──> target                          one phase
//   source ──phase──> between ──phase──> target       two
//
// A rank that has all it gets in the first phase goes on to the second without asking the others.  Messages of both
// phases cannot be mistaken for each other: all sends and receives of the first are posted before any of the second,
// and messages of one pair do not overtake each other.

#include <weir/redist/internal/array_exchange.h>

namespace weir::redist::internal {

/// This rank's memory between two phases.
struct Between {
  Offset bytes = 0;  ///< Of one array: whole cache lines.
  Offset batch =
      0;  ///< So many arrays go through both phases at a time, the others after them; 0: all.  The same on all ranks.
};

class Pipeline {
 public:
  /// \pre One exchange or two, over the same communicator.
  Pipeline(const runtime::Clock& clock, BufferPool& pool, std::vector<std::unique_ptr<ArrayExchange>> phases,
           Between between);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// As those of ArrayExchange.
  Status reserve(std::size_t arrays);
  Status begin(std::span<const Arrays> arrays);
  Result<bool> advance(bool may_block);
  [[nodiscard]] bool is_active() const { return is_active_; }
  [[nodiscard]] bool is_broken() const { return is_broken_; }

  [[nodiscard]] const std::vector<std::unique_ptr<ArrayExchange>>& phases() const { return phases_; }
  /// Of the last execution: its arrays and, phase by phase, the time it took or has taken so far.
  [[nodiscard]] Offset arrays() const { return static_cast<Offset>(arrays_.size()); }
  [[nodiscard]] const std::vector<double>& seconds() const { return seconds_; }

 private:
  [[nodiscard]] std::size_t batch_of(std::size_t arrays) const;
  [[nodiscard]] std::byte* between_of(std::size_t index) const;
  Status begin_phase();
  Result<bool> finish_phase();

  const runtime::Clock& clock_;
  BufferPool& pool_;
  std::vector<std::unique_ptr<ArrayExchange>> phases_;
  Between between_;
  BufferPool::Buffer memory_;

  std::vector<Arrays> arrays_;
  std::vector<Arrays> batch_;  // what the phase under way moves
  std::size_t first_ = 0;      // array of the batch
  std::size_t phase_ = 0;
  runtime::TimePoint phase_start_;
  std::vector<double> seconds_;
  bool is_active_ = false;
  bool is_broken_ = false;
};

}  // namespace weir::redist::internal
