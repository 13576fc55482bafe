// Which thread drives a session's calls: see session.h.

#include <algorithm>
#include <utility>

#include <weir/base/text.h>
#include <weir/client/internal/session.h>

namespace weir::client::internal {

// ---------------------------------------------------------------- what only the driver does

net::Connection& Session::connected(std::uint32_t server) {
  Link& link = *links_[server];
  // The lifeline tells at once what the connection may notice late.
  bool is_gone = false;
  locked([&] { is_gone = link.lifeline && !link.lifeline->is_alive(); });
  if (link.connection && link.connection->is_open() && !is_gone) return *link.connection;
  locked([&] { link.lifeline.reset(); });
  link.connection.reset();
  link.connection = caller_->connect(link.address, key_, deadline());
  link.generation.fetch_add(1, std::memory_order_acq_rel);
  return *link.connection;
}

void Session::begin(Start start) {
  net::Connection& connection = connected(start.server);
  const std::uint64_t now = generation(start.server);
  if (start.generation != 0 && start.generation != now) {
    return start.call.done(Status(ErrorCode::kUnavailable, "the connection was made again"));
  }
  const auto call_first = [&](std::optional<net::Call> first) {
    if (!first) return;
    first->deadline = deadline();
    first->patience = options_.timeout;
    connection.call(std::move(*first));
  };
  if (start.capability != nullptr) call_first(start.capability->presentation(start.server, now, timeout_ms()));
  if (start.prelude) call_first(start.prelude(now));
  connection.call(std::move(start.call));
}

// ---------------------------------------------------------------- any thread

void Session::start(Start start) {
  start.call.deadline = deadline();
  start.call.patience = options_.timeout;
  const std::uint32_t server = start.server;
  start.call.done = [this, server, done = std::move(start.call.done)](Result<net::Reply> reply) {
    locked([&] {
      is_asleep_ = false;  // this is the driver
      --under_way_;
      // A server that did not answer before is there again: it may be asked who it is.
      if (server < links_.size() && reply.is_ok() && links_[server]->self_generation != generation(server)) {
        links_[server]->self.reset();
      }
    });
    done(std::move(reply));
  };
  Lock lock(mutex_);
  ++under_way_;
  if (server >= links_.size()) {
    lock.unlock();
    return start.call.done(Status(ErrorCode::kUnavailable,
                                  concat("server index ", server, " is out of range (", links_.size(), " servers)")));
  }
  if (is_driven_) {
    return leave_to_driver(lock, [this, waiting = std::move(start)]() mutable { begin(std::move(waiting)); });
  }
  is_driven_ = true;
  lock.unlock();
  begin(std::move(start));
  lock.lock();
  stop_driving(lock);
}

void Session::run_in_driver(const std::function<void()>& task) {
  Signal done;
  {
    Lock lock(mutex_);
    if (!is_driven_) {
      is_driven_ = true;
      lock.unlock();
      task();
      lock.lock();
      return stop_driving(lock);
    }
    leave_to_driver(lock, [&] {
      task();
      tell(done, [] { return true; });
    });
  }
  wait(done);
}

void Session::leave_to_driver(Lock& lock, std::function<void()> task) {
  inbox_.push_back(std::move(task));
  wake_driver(lock);
}

void Session::wake_driver(Lock& lock) {
  if (!std::exchange(is_asleep_, false)) return;
  lock.unlock();
  caller_->wake();
  lock.lock();
}

void Session::set(Lock& lock, Signal& signal) {
  signal.is_set_ = true;
  if (signal.sleeper_ != nullptr) {
    signal.sleeper_->set();
  } else {
    wake_driver(lock);  // which may be the thread that waits for it
  }
}

void Session::progress() {
  Lock lock(mutex_);
  ++visits_;
  if (is_driven_) return;
  is_driven_ = true;
  lock.unlock();
  caller_->progress();
  lock.lock();
  stop_driving(lock);
}

void Session::wait(Signal& signal) {
  Lock lock(mutex_);
  ++visits_;
  bool drives = false;
  if (!signal.is_set_ && is_driven_) {
    drives = sleep(lock, signal);
  } else if (!signal.is_set_) {
    is_driven_ = drives = true;
  }
  if (drives) drive(lock, [&] { return signal.is_set_; });
  signal.is_set_ = false;
  if (drives) stop_driving(lock);
}

// ---------------------------------------------------------------- driving

bool Session::sleep(Lock& lock, Signal& signal) {
  Sleeper sleeper{&signal, nullptr};
  if (spare_events_.empty()) {
    sleeper.event = options_.runtime.executor->make_event();
  } else {
    sleeper.event = std::move(spare_events_.back());
    spare_events_.pop_back();
  }
  signal.sleeper_ = sleeper.event.get();
  sleepers_.push_back(&sleeper);
  if (gives_way_) wake_driver(lock);
  while (!signal.is_set_ && !sleeper.drives) {
    lock.unlock();
    sleeper.event->wait();
    lock.lock();
  }
  std::erase(sleepers_, &sleeper);
  signal.sleeper_ = nullptr;
  spare_events_.push_back(std::move(sleeper.event));
  return sleeper.drives;
}

template <typename IsOver>
void Session::drive(Lock& lock, IsOver is_over) {
  lock.unlock();
  caller_->progress();
  lock.lock();
  while (!is_over()) {
    if (!inbox_.empty()) {
      run_inbox(lock);
      continue;
    }
    is_asleep_ = true;
    lock.unlock();
    caller_->wait(net::Deadline::max());
    lock.lock();
    is_asleep_ = false;
  }
}

void Session::run_inbox(Lock& lock) {
  while (!inbox_.empty()) {
    const std::vector<std::function<void()>> tasks = std::exchange(inbox_, {});
    lock.unlock();
    for (const auto& task : tasks) task();
    lock.lock();
  }
}

void Session::stop_driving(Lock& lock) {
  run_inbox(lock);
  const auto next =
      std::find_if(sleepers_.begin(), sleepers_.end(), [](const Sleeper* one) { return !one->signal->is_set_; });
  if (next != sleepers_.end()) {
    (*next)->drives = true;
    return (*next)->event->set();
  }
  is_driven_ = false;
  if (watched_ > 0) {
    lock.unlock();
    progress_thread_.wake(ProgressThread::When::kNow);
    lock.lock();
  }
}

// ---------------------------------------------------------------- the progress thread

bool Session::watch(Watcher& watcher) {
  const bool has_thread = progress_thread_.wake(ProgressThread::When::kNow);
  Lock lock(mutex_);
  ++watched_;
  if (!has_thread) return false;
  queue(watcher);
  if (gives_way_) wake_driver(lock);
  lock.unlock();
  progress_thread_.wake(ProgressThread::When::kNow);
  return true;
}

void Session::do_work(Lock& lock) {
  while (!work_.empty()) {
    Watcher& watcher = *work_.front();
    work_.pop_front();
    watcher.is_queued = false;
    lock.unlock();
    watcher.advance();
    lock.lock();
  }
}

bool Session::look_after_calls() {
  Lock lock(mutex_);
  do_work(lock);
  if (under_way_ == 0 || is_ending_) return false;
  // Other threads do it: the last of them wakes this one if operations are watched.
  const bool is_visited = std::exchange(visits_looked_, visits_) != visits_;
  if (watched_ == 0 && is_visited) return true;
  if (is_driven_) return watched_ == 0;
  is_driven_ = gives_way_ = true;
  drive(lock, [&] { return under_way_ == 0 || is_ending_ || !sleepers_.empty() || !work_.empty(); });
  gives_way_ = false;
  stop_driving(lock);
  return under_way_ > 0 || !work_.empty();
}

}  // namespace weir::client::internal
