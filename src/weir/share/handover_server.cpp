#include <weir/share/handover_server.h>

#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>
#include <weir/base/unix_socket.h>
#include <weir/log/log.h>
#include <weir/share/handover.h>

namespace weir::share {

namespace {

// Those that connect and say nothing must not keep others waiting: so many at a time, the oldest goes, and for so long.
constexpr std::size_t kMostVisitors = 64;
constexpr std::chrono::milliseconds kVisitorPatience{1000};
// How long connections wait if there is no descriptor for them.
constexpr std::chrono::milliseconds kPause{50};

Status io_error(const char* step) { return os_error(ErrorCode::kIoError, concat("handover of memory: ", step)); }

std::string random_name() {
  unsigned char bytes[16];
  randombytes_buf(bytes, sizeof bytes);
  char text[2 * sizeof bytes + 1];
  sodium_bin2hex(text, sizeof text, bytes, sizeof bytes);
  return concat("weir-", std::string_view(text));
}

}  // namespace

Result<std::unique_ptr<HandoverServer>> HandoverServer::start(const runtime::Runtime& with,
                                                              runtime::Duration lifetime) {
  if (sodium_init() < 0) return Status{ErrorCode::kIoError, "handover of memory: libsodium cannot be initialised"};
  std::unique_ptr<HandoverServer> server(new HandoverServer(with));
  server->lifetime_ = lifetime;
  server->name_ = random_name();
  WEIR_TRY(server->listener_, listen_abstract(server->name_));
  server->wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->wake_.is_open()) return io_error("eventfd");
  WEIR_TRY(server->life_, Life::create());
  const std::unique_ptr<runtime::Event> begun = with.executor->make_event();
  Status status;
  server->thread_ = with.executor->start("weir-handover", [it = server.get(), &begun, &status] {
    status = it->life_->begin();
    const bool is_alive = status.is_ok();
    begun->set();
    if (!is_alive) return;
    it->run();
    it->life_->end();
  });
  if (server->thread_ == nullptr) return Status{ErrorCode::kIoError, "handover of memory: no thread can be started"};
  begun->wait();
  WEIR_RETURN_IF_ERROR(status);
  return server;
}

HandoverServer::~HandoverServer() { stop(); }

void HandoverServer::stop() {
  if (thread_ == nullptr) return;
  stopping_ = true;
  wake();
  thread_.reset();
}

// Fails only if the counter of the descriptor is full, and then the thread is awake.
void HandoverServer::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

Result<HandoverServer::Token> HandoverServer::offer(int descriptor, bool for_writing, uid_t uid) {
  Descriptor kept = for_writing ? Descriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) : reopen_for_reading(descriptor);
  if (!kept.is_open()) return io_error(for_writing ? "duplicate the descriptor" : "open the descriptor for reading");
  Token token(kTokenBytes);
  randombytes_buf(token.data(), token.size());
  const std::lock_guard guard(mutex_);
  expire(now());
  if (offers_.size() == kMostOffers) offers_.pop_front();
  offers_.push_back({token, std::move(kept), uid, now() + lifetime_});
  if (offers_.size() == 1) wake();  // the thread sleeps without a timeout: it has something to expire now
  return token;
}

void HandoverServer::expire(runtime::TimePoint time) {
  while (!offers_.empty() && offers_.front().expires <= time) offers_.pop_front();
}

// The offer for the token, which is gone then.  Compares all of them in constant time: how long it takes tells nothing
// of any token.
Descriptor HandoverServer::take(const std::uint8_t* token, uid_t uid) {
  const std::lock_guard guard(mutex_);
  expire(now());
  auto found = offers_.end();
  for (auto offer = offers_.begin(); offer != offers_.end(); ++offer) {
    if (sodium_memcmp(offer->token.data(), token, kTokenBytes) == 0) found = offer;
  }
  if (found == offers_.end() || found->uid != uid) return {};
  Descriptor descriptor = std::move(found->descriptor);
  offers_.erase(found);
  return descriptor;
}

void HandoverServer::serve(int connection) {
  std::uint8_t token[kTokenBytes + 1];
  const ssize_t bytes = recv(connection, token, sizeof token, MSG_DONTWAIT);
  ucred peer{};
  socklen_t peer_bytes = sizeof peer;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) != 0) return;
  Descriptor descriptor;
  if (bytes == static_cast<ssize_t>(kTokenBytes)) descriptor = take(token, peer.uid);
  if (!descriptor.is_open())
    WEIR_LOG_WARN("handover of memory: process {} of user {} came with a token that is not good", peer.pid, peer.uid);
  const int handed[] = {descriptor.get(), life_->descriptor()};
  send_descriptors(connection, descriptor.is_open() ? std::span(handed) : std::span<const int>());
}

int HandoverServer::poll_timeout_ms(runtime::TimePoint accept_again) {
  const std::lock_guard guard(mutex_);
  runtime::TimePoint next = accept_again > now() ? accept_again : runtime::TimePoint::max();
  if (!offers_.empty()) next = std::min(next, offers_.front().expires);
  if (!visitors_.empty()) next = std::min(next, visitors_.front().expires);
  if (next == runtime::TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

// False: there is no descriptor for it.
bool HandoverServer::accept() {
  Descriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.is_open()) return errno != EMFILE && errno != ENFILE;
  if (visitors_.size() == kMostVisitors) visitors_.pop_front();
  visitors_.push_back({std::move(connection), now() + kVisitorPatience});
  return true;
}

void HandoverServer::run() {
  runtime::TimePoint accept_again{};
  std::vector<pollfd> events;
  while (!stopping_) {
    const short accepts = now() >= accept_again ? POLLIN : 0;
    events = {{wake_.get(), POLLIN, 0}, {listener_.get(), accepts, 0}};
    for (const Visitor& one : visitors_) events.push_back({one.connection.get(), POLLIN, 0});
    poll(events.data(), events.size(), poll_timeout_ms(accept_again));
    if (events[0].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t bytes = read(wake_.get(), &count, sizeof count);
    }
    for (std::size_t i = 0; i < visitors_.size(); ++i) {
      if (events[i + 2].revents == 0) continue;
      serve(visitors_[i].connection.get());
      visitors_[i].connection.reset();
    }
    const runtime::TimePoint time = now();
    std::erase_if(visitors_, [&](const Visitor& one) { return !one.connection.is_open() || one.expires <= time; });
    if (events[1].revents != 0 && !accept()) accept_again = time + kPause;
    const std::lock_guard guard(mutex_);
    expire(time);
  }
  visitors_.clear();
}

}  // namespace weir::share
