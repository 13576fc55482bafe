#include <weir/net/internal/links.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <thread>

#include <poll.h>
#include <unistd.h>

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

timespec to_timespec(runtime::Duration time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {seconds.count(), std::chrono::duration_cast<std::chrono::nanoseconds>(time - seconds).count()};
}

}  // namespace

Rings rings_by(const runtime::Settings& settings) {
  return settings.get("WEIR_TRANSPORT") == "tcp" ? Rings::kOff : Rings::kOn;
}

void drain(int event_fd) noexcept {
  std::uint64_t count = 0;
  static_cast<void>(!::read(event_fd, &count, sizeof count));
}

std::string ring_name(const Address& address) { return concat("weir-ring-", address.text); }

Links::Links(Worker::OnFrame on_frame, SocketWorker::Place place, Rings rings, const runtime::Runtime& runtime)
    : runtime_(runtime),
      fabric_(runtime.settings->get("WEIR_FABRIC")),
      on_frame_(std::move(on_frame)),
      place_(std::move(place)) {
  if (rings == Rings::kOff) return;
  auto worker = RingWorker::create(on_frame_, *runtime_.clock);
  if (worker.is_ok()) {
    rings_ = std::move(*worker);
  } else {
    WEIR_LOG_WARN("net: {}; messages within this host go through sockets", worker.status().message());
  }
}

Result<SocketWorker*> Links::sockets() {
  if (sockets_ == nullptr) {
    WEIR_TRY(sockets_, SocketWorker::create(on_frame_, place_, runtime_));
    sockets_->set_most_unsent(most_unsent_, most_unsent_together_);
  }
  return sockets_.get();
}

Result<UcxWorker*> Links::ucx() {
  if (ucx_ == nullptr) {
    WEIR_TRY(ucx_, UcxWorker::create(on_frame_, fabric_, runtime_));
  }
  return ucx_.get();
}

Result<std::shared_ptr<Link>> Links::connect(const SocketAddress& socket, const Key& key) {
  if (rings_ != nullptr) {
    RingWorker::Attempt attempt = rings_->connect(ring_name(to_address(socket.storage)));
    if (attempt.link != nullptr || attempt.is_busy) return std::move(attempt.link);
    if (is_loopback(socket.storage)) {
      return Status(
          ErrorCode::kUnavailable,
          "no server of this user (or root) listens there; servers on loopback addresses serve one user of this "
          "host: for others, start them with --listen ADDRESS");
    }
  }
  if (has_fabric()) {
    WEIR_TRY(UcxWorker * worker, ucx());
    return worker->connect(socket.get(), socket.length);
  }
  WEIR_TRY(SocketWorker * worker, sockets());
  return worker->connect(socket, key);
}

bool Links::progress() {
  bool has_progressed = false;
  for (Worker* worker : workers()) has_progressed |= worker != nullptr && worker->progress();
  if (has_progressed) note_activity();
  return has_progressed;
}

void Links::take_in() {
  for (Worker* worker : workers()) {
    if (worker == nullptr) continue;
    worker->arm();  // as after a sleep: sockets are looked at, too
    worker->take_in();
  }
}

void Links::stop_listening() {
  if (rings_ != nullptr) rings_->stop_listening();
  if (sockets_ != nullptr) sockets_->stop_listening();
}

void Links::set_most_unsent(std::size_t bytes, std::size_t together) {
  most_unsent_ = bytes;
  most_unsent_together_ = together;
  for (Worker* worker : workers()) {
    if (worker != nullptr) worker->set_most_unsent(bytes, together);
  }
}

bool Links::has_unsent() const {
  return std::ranges::any_of(workers(),
                             [](const Worker* worker) { return worker != nullptr && worker->unsent_bytes() > 0; });
}

bool Links::has_streams() const {
  return std::ranges::any_of(workers(),
                             [](const Worker* worker) { return worker != nullptr && worker->has_streams(); });
}

void Links::flush(Deadline deadline) {
  for (Worker* worker : workers()) {
    if (worker != nullptr) worker->flush(deadline);
  }
}

void Links::finish_closing(Deadline deadline) {
  for (Worker* worker : workers()) {
    if (worker != nullptr) worker->finish_closing(deadline);
  }
}

void Links::sleep(Links& links, Links* others, Deadline deadline, int wake_fd) {
  const Deadline now = links.now();
  if (deadline <= now) return;
  auto most = std::min<runtime::Duration>(deadline - now, std::chrono::hours(1));
  std::array<pollfd, 7> descriptors{{{wake_fd, POLLIN, 0}}};
  nfds_t count = 1;
  Deadline last_activity = links.last_activity_;
  for (Links* one : {&links, others}) {
    if (one == nullptr) continue;
    last_activity = std::max(last_activity, one->last_activity_);
    for (Worker* worker : one->workers()) {
      if (worker == nullptr) continue;
      if (worker->has_failures()) return;
      most = std::min(most, worker->arm());
      descriptors.at(count++) = {worker->event_fd(), POLLIN, 0};
    }
  }
  if (most <= kRestless && now - last_activity < kRestless) return;
  const timespec timeout = to_timespec(most);
  if (::ppoll(descriptors.data(), count, &timeout, nullptr) > 0 && descriptors[0].revents != 0) drain(wake_fd);
}

bool Links::linger() {
  const Deadline before = now();
  if (!has_several_cores() || before - last_activity_ >= kSpin || !yield_if_cheap()) return false;
  // Of several servers on a core, those that linger would keep the one that is asked from answering.
  if (now() - before > kLongYield) last_activity_ = before - kSpin;
  return true;
}

bool Links::spin_then_sleep(Deadline deadline, int wake_fd, const std::atomic<bool>& is_woken) {
  const auto until = std::min(last_activity_ + kSpin, deadline);
  while (has_several_cores() && now() < until) {
    if (is_woken.load(std::memory_order_relaxed)) return false;
    if (progress()) return true;
    if (!yield_if_cheap()) break;  // there may be more threads than cores, and the one that answers among them
  }
  sleep(*this, nullptr, deadline, wake_fd);
  return false;
}

}  // namespace weir::net::internal
