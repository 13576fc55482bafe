#include <weir/net/internal/links.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include <poll.h>

#include <weir/base/environment.h>
#include <weir/base/scheduling.h>
#include <weir/base/text.h>
#include <weir/log/log.h>

namespace weir::net::internal {

namespace {

constexpr auto kSpin = std::chrono::microseconds(50);
// A yield that takes longer has let somebody else run.
constexpr auto kLongYield = std::chrono::microseconds(3);

bool has_several_cores() {
  static const bool several = std::thread::hardware_concurrency() > 1;
  return several;
}

timespec to_timespec(Clock::duration time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {seconds.count(), std::chrono::duration_cast<std::chrono::nanoseconds>(time - seconds).count()};
}

}  // namespace

Rings rings_by_environment() { return environment("WEIR_TRANSPORT") == "ucx" ? Rings::kOff : Rings::kOn; }

std::string ring_name(const Address& address) { return concat("weir-ring-", address.text); }

Links::Links(Worker::OnFrame on_frame, Rings rings) : on_frame_(std::move(on_frame)) {
  if (rings == Rings::kOff) return;
  auto worker = RingWorker::create(on_frame_);
  if (worker.is_ok()) {
    rings_ = std::move(*worker);
  } else {
    WEIR_LOG_WARN("net: {}; messages within this host go through UCX", worker.status().message());
  }
}

Result<UcxWorker*> Links::ucx(const sockaddr_storage& address) {
  if (ucx_ == nullptr) {
    WEIR_TRY(ucx_, UcxWorker::create(on_frame_, address));
  }
  return ucx_.get();
}

Result<std::shared_ptr<Link>> Links::connect(const Address& address, Deadline deadline) {
  WEIR_TRY(const SocketAddress socket, resolve(address));
  if (rings_ != nullptr) {
    if (auto link = rings_->connect(ring_name(to_address(socket.storage)), deadline)) return link;
    if (is_loopback(socket.storage)) {
      return Status(
          ErrorCode::kUnavailable,
          "no server of this user (or root) listens there; servers on loopback addresses serve one user of this "
          "host: for others, start them with --listen ADDRESS");
    }
  }
  WEIR_TRY(UcxWorker * worker, ucx(socket.storage));
  return worker->connect(reinterpret_cast<const sockaddr*>(&socket.storage), socket.length);
}

bool Links::progress() {
  bool has_progressed = rings_ != nullptr && rings_->progress();
  if (ucx_ != nullptr) has_progressed |= ucx_->progress();
  if (has_progressed) note_activity();
  return has_progressed;
}

void Links::take_in() {
  for (Worker* worker : {static_cast<Worker*>(rings_.get()), static_cast<Worker*>(ucx_.get())}) {
    if (worker == nullptr) continue;
    worker->arm();  // as after a sleep: sockets are looked at, too
    worker->take_in();
  }
}

bool Links::has_streams() const {
  return (rings_ != nullptr && rings_->has_streams()) || (ucx_ != nullptr && ucx_->has_streams());
}

void Links::flush(Deadline deadline) {
  if (rings_ != nullptr) rings_->flush(deadline);
  if (ucx_ != nullptr) ucx_->flush(deadline);
}

void Links::finish_closing(Deadline deadline) {
  if (ucx_ != nullptr) ucx_->finish_closing(deadline);
}

void Links::sleep(Deadline deadline, int wake_fd) {
  const Clock::time_point now = Clock::now();
  if (deadline <= now) return;
  auto most = std::min<Clock::duration>(deadline - now, std::chrono::hours(1));
  pollfd descriptors[3] = {{wake_fd, POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}};  // those below 0 are skipped
  std::size_t next = 1;
  for (Worker* worker : {static_cast<Worker*>(rings_.get()), static_cast<Worker*>(ucx_.get())}) {
    if (worker == nullptr) continue;
    if (worker->has_failures()) return;
    most = std::min(most, worker->arm());
    descriptors[next++].fd = worker->event_fd();
  }
  if (most <= kRestless && now - last_activity_ < kRestless) return;
  const timespec timeout = to_timespec(most);
  ::ppoll(descriptors, 3, &timeout, nullptr);
}

bool Links::linger() {
  const Clock::time_point now = Clock::now();
  if (!has_several_cores() || now - last_activity_ >= kSpin || !yield_if_cheap()) return false;
  // Of several servers on a core, those that linger would keep the one that is asked from answering.
  if (Clock::now() - now > kLongYield) last_activity_ = now - kSpin;
  return true;
}

void Links::spin_then_sleep(Deadline deadline) {
  const auto until = std::min(last_activity_ + kSpin, deadline);
  while (has_several_cores() && Clock::now() < until) {
    if (progress()) return;
    if (!yield_if_cheap()) break;  // there may be more threads than cores, and the one that answers among them
  }
  sleep(deadline);
}

}  // namespace weir::net::internal
