#pragma once

#include <memory>

#include <weir/redist/internal/agreement.h>
#include <weir/redist/internal/pipeline.h>
#include <weir/redist/redistribution.h>

namespace weir::redist::internal {

struct Labels;
struct Share;

struct PhasePlan {
  int number = 1;
  bool is_last = true;
  Offset max_buffer_bytes = 0;  ///< For messages; 0: no limit.
};

/// What a Redistribution and its requests share.
class RedistributionState {
 public:
  /// Collective; see Redistribution::create.
  static Result<std::shared_ptr<RedistributionState>> create(MPI_Comm comm, const layout::Partition& from,
                                                             const layout::Partition& to, const Options& options);

  Status start(std::span<const Arrays> arrays);
  Result<bool> test() { return advance(false); }
  Status wait();

  [[nodiscard]] const Report& report() const { return report_; }

 private:
  static constexpr std::size_t kKeptBytes = std::size_t{64} << 20;

  RedistributionState(Group group, Options options) : group_(std::move(group)), options_(options) {}

  Status build(const layout::Partition& from, const layout::Partition& to);
  Status prepare(std::span<const Arrays> arrays);
  Result<std::unique_ptr<ArrayExchange>> plan_phase(const layout::Partition& from, const layout::Partition& to,
                                                    Labels& labels, const PhasePlan& plan);
  Status survey(const std::vector<Share>& shares, Labels& labels, const PhasePlan& plan);
  Result<std::unique_ptr<ArrayExchange>> make_exchange(Traffic traffic, Offset max_buffer_bytes);
  void describe();
  Result<bool> advance(bool may_block);

  Group group_;
  Options options_;
  BufferPool pool_{kKeptBytes};
  std::unique_ptr<Pipeline> pipeline_;
  Report report_;
};

}  // namespace weir::redist::internal
