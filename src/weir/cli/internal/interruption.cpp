#include <weir/cli/internal/interruption.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weir/base/system_call.h>

namespace weir::cli::internal {

namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

struct InterruptionState {
  int guards = 0;
  std::array<struct sigaction, kSignals.size()> old{};
};

InterruptionState interruption_state;
std::atomic<bool> has_signal{false};
// Readable once a signal came: a signal just before a wait ends the wait, too.
std::atomic<int> signal_event{-1};

void note_interruption(int) {
  const int error = errno;
  has_signal.store(true);
  const std::uint64_t one = 1;
  static_cast<void>(!::write(signal_event.load(), &one, sizeof one));
  errno = error;
}

}  // namespace

InterruptionGuard::InterruptionGuard() {
  if (interruption_state.guards++ > 0) return;
  has_signal.store(false);
  signal_event.store(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction& old = interruption_state.old[i];
    ::sigaction(kSignals[i], nullptr, &old);
    if (old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = note_interruption;
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one ends the process, whatever it waits for
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptionGuard::~InterruptionGuard() {
  if (--interruption_state.guards > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &interruption_state.old[i], nullptr);
  ::close(signal_event.exchange(-1));
  has_signal.store(false);
}

bool InterruptionGuard::is_interrupted() { return has_signal.load(); }

bool InterruptionGuard::wait_readable(int descriptor) {
  if (signal_event.load() < 0) return true;
  pollfd events[2] = {{descriptor, POLLIN, 0}, {signal_event.load(), POLLIN, 0}};
  uninterrupted([&] { return ::poll(events, 2, -1); });
  return events[1].revents == 0;
}

}  // namespace weir::cli::internal
