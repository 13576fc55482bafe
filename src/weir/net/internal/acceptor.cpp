#include <weir/net/internal/acceptor.h>

#include <bit>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>

#include <weir/log/log.h>

namespace weir::net::internal {

namespace {

constexpr auto kPause = std::chrono::milliseconds(50);
constexpr int kMostTurnedAwayAtOnce = 64;

Descriptor open_spare() { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool is_out_of_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

bool Acceptor::begin(Descriptor listener, int events) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  if (::epoll_ctl(events, EPOLL_CTL_ADD, listener.get(), &event) != 0) return false;
  listener_ = std::move(listener);
  events_ = events;
  spare_ = open_spare();
  return true;
}

Descriptor Acceptor::accept(sockaddr* from, socklen_t* length) {
  for (int turned_away = 0; listener_.is_open() && turned_away < kMostTurnedAwayAtOnce;) {
    Descriptor socket(::accept4(listener_.get(), from, length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.is_open()) return socket;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (!is_out_of_descriptors(errno)) break;
    if (!turn_away()) {
      is_paused_ = watch(false);
      break;
    }
    ++turned_away;
  }
  return {};
}

bool Acceptor::turn_away() {
  if (!spare_.is_open()) return false;
  spare_.reset();
  const bool has_accepted = Descriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)).is_open();
  spare_ = open_spare();
  // The first, the second, the fourth and so on: strangers must not fill the log.
  if (std::has_single_bit(++turned_away_)) {
    WEIR_LOG_WARN("net: {} connections were closed: too many descriptors are open; raise the limit (ulimit -n)",
                  turned_away_);
  }
  return has_accepted;
}

bool Acceptor::watch(bool is_watched) {
  epoll_event event{};
  event.events = is_watched ? EPOLLIN : 0U;
  event.data.ptr = nullptr;
  return ::epoll_ctl(events_, EPOLL_CTL_MOD, listener_.get(), &event) == 0;
}

void Acceptor::resume() {
  if (!is_paused_ || !listener_.is_open()) return;
  if (!spare_.is_open()) spare_ = open_spare();
  if (spare_.is_open() && watch(true)) is_paused_ = false;
}

Clock::duration Acceptor::patience() const {
  return is_paused_ && listener_.is_open() ? Clock::duration(kPause) : Clock::duration::max();
}

}  // namespace weir::net::internal
