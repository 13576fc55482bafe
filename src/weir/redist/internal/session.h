#pragma once

#include <memory>

#include <weir/redist/internal/comm.h>
#include <weir/redist/internal/exchange.h>
#include <weir/redist/redistribution.h>

namespace weir::redist::internal {

/// What a Redistribution and its requests share.
class Session {
 public:
  /// Collective; see Redistribution::create.
  static Result<std::shared_ptr<Session>> create(MPI_Comm comm, const layout::Partition& from,
                                                 const layout::Partition& to, const Options& options);

  Status start(std::span<const Arrays> arrays);
  Result<bool> test() { return exchange_->advance(false); }
  Status wait();

  [[nodiscard]] const Report& report() const { return report_; }

 private:
  Session(Comm comm, Options options) : comm_(std::move(comm)), options_(options) {}

  Status build(const layout::Partition& from, const layout::Partition& to);
  Status prepare(std::span<const Arrays> arrays);
  Status survey(const std::vector<struct Share>& shares, struct Labels& labels);
  Status set_pace(Traffic traffic);
  void describe();

  Comm comm_;
  Options options_;
  std::unique_ptr<Exchange> exchange_;
  Report report_;
};

}  // namespace weir::redist::internal
