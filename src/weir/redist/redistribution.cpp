#include <weir/redist/redistribution.h>

#include <weir/redist/internal/session.h>

namespace weir::redist {

Request::Request(Request&&) noexcept = default;

Request& Request::operator=(Request&& other) noexcept {
  std::swap(session_, other.session_);
  return *this;
}

Request::~Request() {
  // A caller that drops a request is not interested in its outcome; the session remembers an error.
  if (session_) static_cast<void>(session_->wait());
}

Result<bool> Request::test() {
  if (!session_) return true;
  Result<bool> is_done = session_->test();
  if (!is_done.is_ok() || *is_done) session_.reset();
  return is_done;
}

Status Request::wait() {
  if (!session_) return Status::ok();
  Status status = session_->wait();
  session_.reset();
  return status;
}

Redistribution::Redistribution(std::shared_ptr<internal::Session> session) : session_(std::move(session)) {}
Redistribution::Redistribution(Redistribution&&) noexcept = default;
Redistribution& Redistribution::operator=(Redistribution&&) noexcept = default;
Redistribution::~Redistribution() = default;

Result<Redistribution> Redistribution::create(MPI_Comm comm, const layout::Partition& from, const layout::Partition& to,
                                              const Options& options) {
  WEIR_TRY(std::shared_ptr<internal::Session> session, internal::Session::create(comm, from, to, options));
  return Redistribution(std::move(session));
}

Result<Request> Redistribution::start(std::span<const Arrays> arrays) {
  WEIR_RETURN_IF_ERROR(session_->start(arrays));
  return Request(session_);
}

Result<Request> Redistribution::start(const void* source, void* target) {
  const Arrays arrays{source, target};
  return start(std::span(&arrays, 1));
}

Status Redistribution::execute(std::span<const Arrays> arrays) {
  WEIR_RETURN_IF_ERROR(session_->start(arrays));
  return session_->wait();
}

Status Redistribution::execute(const void* source, void* target) {
  const Arrays arrays{source, target};
  return execute(std::span(&arrays, 1));
}

std::optional<Offset> Redistribution::target_element() const { return session_->report().target_element; }
const Report& Redistribution::report() const { return session_->report(); }
std::string Redistribution::explain() const { return redist::explain(session_->report()); }

}  // namespace weir::redist
