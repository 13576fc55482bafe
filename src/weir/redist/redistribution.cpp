#include <weir/redist/redistribution.h>

#include <weir/redist/internal/redistribution_state.h>

namespace weir::redist {

Request::Request(Request&&) noexcept = default;

Request& Request::operator=(Request&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

Request::~Request() {
  // A caller that drops a request is not interested in its outcome; the state remembers an error.
  if (state_) static_cast<void>(state_->wait());
}

Result<bool> Request::test() {
  if (!state_) return true;
  Result<bool> is_done = state_->test();
  if (!is_done.is_ok() || *is_done) state_.reset();
  return is_done;
}

Status Request::wait() {
  if (!state_) return Status::ok();
  Status status = state_->wait();
  state_.reset();
  return status;
}

Redistribution::Redistribution(std::shared_ptr<internal::RedistributionState> state) : state_(std::move(state)) {}
Redistribution::Redistribution(Redistribution&&) noexcept = default;
Redistribution& Redistribution::operator=(Redistribution&&) noexcept = default;
Redistribution::~Redistribution() = default;

Result<Redistribution> Redistribution::create(MPI_Comm comm, const layout::Partition& from, const layout::Partition& to,
                                              const Options& options) {
  WEIR_TRY(std::shared_ptr<internal::RedistributionState> state,
           internal::RedistributionState::create(comm, from, to, options));
  return Redistribution(std::move(state));
}

Result<Request> Redistribution::start(std::span<const Arrays> arrays) {
  WEIR_RETURN_IF_ERROR(state_->start(arrays));
  return Request(state_);
}

Result<Request> Redistribution::start(const void* source, void* target) {
  const Arrays arrays{source, target};
  return start(std::span(&arrays, 1));
}

Status Redistribution::execute(std::span<const Arrays> arrays) {
  WEIR_RETURN_IF_ERROR(state_->start(arrays));
  return state_->wait();
}

Status Redistribution::execute(const void* source, void* target) {
  const Arrays arrays{source, target};
  return execute(std::span(&arrays, 1));
}

std::optional<Offset> Redistribution::target_element() const { return state_->report().target_element; }
const Report& Redistribution::report() const { return state_->report(); }
std::string Redistribution::explain() const { return redist::explain(state_->report()); }

}  // namespace weir::redist
