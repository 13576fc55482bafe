#include <weir/net/internal/ring_worker.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/base/os_error.h>
#include <weir/base/text.h>
#include <weir/base/unix_socket.h>
#include <weir/log/log.h>
#include <weir/net/internal/errors.h>
#include <weir/net/internal/ring.h>

namespace weir::net::internal {

namespace {

constexpr std::size_t kMostPieceBytes = kMostRecordBytes - kFrameBytes;
constexpr std::size_t kMostMessageBytes = kFrameBytes + kMostHeadBytes + kMostInlineCall;
constexpr int kMostRingsAcceptedAtOnce = 64;
constexpr int kMostRecordsAtOnce = 64;       // of one link, so that no link starves
constexpr unsigned kTurnsBetweenLooks = 64;  // at the sockets, which cost a system call

/// Who has connected to the socket, as the kernel noted then.  Groups that cannot be told are none.
std::optional<Identity> caller_of(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return std::nullopt;
  Identity identity;
  identity.uid = peer.uid;
  identity.gid = peer.gid;
  identity.origin = concat("process ", peer.pid);
  identity.groups.resize(NGROUPS_MAX);
  bytes = static_cast<socklen_t>(identity.groups.size() * sizeof(gid_t));
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, identity.groups.data(), &bytes) != 0) bytes = 0;
  identity.groups.resize(bytes / sizeof(gid_t));
  identity.groups.shrink_to_fit();
  return identity;
}

}  // namespace

// ---------------------------------------------------------------- links

class RingLink : public Link {
 public:
  RingLink(RingWorker& worker, Descriptor socket, std::optional<Identity> caller = {})
      : Link(worker), socket_(std::move(socket)) {
    is_open_ = true;
    vouched_ = std::move(caller);
    if (!vouched_) return;
    source_ = vouched_->uid;
    origin_ = vouched_->origin;
  }

  [[nodiscard]] bool has_memory() const { return memory_.has_value(); }
  /// The memory has come; this end writes to ring `out`.
  void begin(RingMemory memory, std::size_t out) {
    memory_ = std::move(memory);
    writer_.emplace(memory_->control(out), memory_->bytes(out));
    reader_.emplace(memory_->control(1 - out), memory_->bytes(1 - out));
  }

  /// Takes in some frames; true if there were any.
  bool take_in(const Worker::OnFrame& on_frame);
  /// Sends what had no room before; true if that was something.
  bool push();
  /// One piece of a body; false if there is no room.
  bool send_piece(const Frame& frame, std::span<const std::byte> piece);
  /// Whether a body may be sent: messages go first.
  [[nodiscard]] bool is_clear() const { return backlog_.empty(); }
  /// False if there is something to do.
  bool sleep();
  void wake() {
    if (reader_) reader_->wake();
  }
  [[nodiscard]] int socket() const { return socket_.get(); }

 private:
  struct Message {
    FrameHeader header;
    Bytes payload;
    std::size_t sent = 0;  // of both together
  };

  void send_frame(const Frame& frame, Bytes payload) override;
  std::shared_ptr<Outgoing> make_outgoing(std::uint64_t call, std::span<const std::byte> body,
                                          std::function<void()> finished) override;
  void close() override { socket_.reset(); }
  bool tell_dismissal(const std::string& why) override;
  bool send_part(Message& message);
  void deliver(std::span<const std::byte> message, const Worker::OnFrame& on_frame);
  void wake_peer() const {
    const char byte = 1;
    // Fails if the peer is gone, which its socket tells, or has many of them to read, and then is awake.
    static_cast<void>(::send(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
  }

  Descriptor socket_;
  std::optional<RingMemory> memory_;
  std::optional<RingWriter> writer_;
  std::optional<RingReader> reader_;
  std::deque<Message> backlog_;
  bool is_blocked_ = false;  // had no room for the next piece of a body: frames that are shorter may still have
  Bytes partial_;            // of a message that comes in several records
};

namespace {

class RingOutgoing : public Outgoing {
 public:
  RingOutgoing(RingLink& link, std::uint64_t call, std::span<const std::byte> body, std::function<void()> finished)
      : Outgoing(link, call, body, std::move(finished)) {}
  [[nodiscard]] bool is_held() const override { return false; }

 private:
  bool pump() override {
    auto& link = static_cast<RingLink&>(this->link());
    std::size_t sent = 0;
    while (has_more() && sent < kMostAtOnce && link.is_clear()) {
      const std::span<const std::byte> piece = body_.subspan(next_, std::min(kMostPieceBytes, body_.size() - next_));
      const std::size_t before = next_;
      if (!link.send_piece(next_frame(piece.size()), piece)) {
        next_ = before;
        break;
      }
      ++sent;
    }
    return sent > 0;
  }
};

}  // namespace

void RingLink::send_frame(const Frame& frame, Bytes payload) {
  note_unsent(kFrameBytes + payload.size());
  backlog_.push_back({encode(frame), std::move(payload)});
  push();
}

// The ring may be full, but beside it there is always room in the socket.
bool RingLink::tell_dismissal(const std::string& why) {
  backlog_.clear();
  forget_unsent();
  // One byte only wakes.
  if (why.size() > 1) static_cast<void>(::send(socket_.get(), why.data(), why.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  return false;
}

bool RingLink::push() {
  if (!writer_ || backlog_.empty()) return false;
  bool has_sent = false;
  while (!backlog_.empty() && send_part(backlog_.front())) {
    has_sent = true;
    if (backlog_.front().sent == kFrameBytes + backlog_.front().payload.size()) backlog_.pop_front();
  }
  if (has_sent && writer_->takes_sleep()) wake_peer();
  return has_sent;
}

bool RingLink::send_part(Message& message) {
  const std::size_t whole = kFrameBytes + message.payload.size();
  const std::size_t length = std::min(kMostRecordBytes, whole - message.sent);
  std::byte* to = writer_->reserve(length);
  if (to == nullptr) return false;
  std::size_t from = message.sent;
  message.sent += length;
  note_sent(length);
  if (from == 0) {
    std::memcpy(to, message.header.data(), kFrameBytes);
    to += kFrameBytes;
    from = kFrameBytes;
  }
  if (message.sent > from) std::memcpy(to, message.payload.data() + (from - kFrameBytes), message.sent - from);
  writer_->publish(length, message.sent == whole);
  return true;
}

bool RingLink::send_piece(const Frame& frame, std::span<const std::byte> piece) {
  std::byte* to = writer_->reserve(kFrameBytes + piece.size());
  is_blocked_ = to == nullptr;
  if (to == nullptr) return false;
  const FrameHeader header = encode(frame);
  std::memcpy(to, header.data(), header.size());
  std::memcpy(to + kFrameBytes, piece.data(), piece.size());
  writer_->publish(kFrameBytes + piece.size(), true);
  if (writer_->takes_sleep()) wake_peer();
  return true;
}

std::shared_ptr<Outgoing> RingLink::make_outgoing(std::uint64_t call, std::span<const std::byte> body,
                                                  std::function<void()> finished) {
  return std::make_shared<RingOutgoing>(*this, call, body, std::move(finished));
}

bool RingLink::take_in(const Worker::OnFrame& on_frame) {
  if (!reader_ || is_choked() || is_dismissed_) return false;
  int taken = 0;
  for (; taken < kMostRecordsAtOnce && is_open(); ++taken) {
    const auto record = reader_->next();
    if (!record.is_ok()) {
      fail(record.status());
      reader_.reset();  // nothing more can be made of it
      return false;
    }
    if (!record->has_value()) break;
    const RingReader::Record& part = **record;
    if (partial_.empty() && part.is_last) {
      deliver(part.bytes, on_frame);
    } else if (partial_.size() + part.bytes.size() > kMostMessageBytes) {
      fail(corrupt("shared memory for messages: a message without end"));
      reader_.reset();
      return false;
    } else {
      partial_.insert(partial_.end(), part.bytes.begin(), part.bytes.end());
      if (part.is_last) deliver(std::exchange(partial_, {}), on_frame);
    }
    reader_->release();
  }
  if (taken > 0 && reader_->takes_wait()) wake_peer();
  return taken > 0;
}

void RingLink::deliver(std::span<const std::byte> message, const Worker::OnFrame& on_frame) {
  if (message.size() < kFrameBytes) return;
  FrameHeader header;
  std::memcpy(header.data(), message.data(), header.size());
  const std::span<const std::byte> payload = message.subspan(kFrameBytes);
  const auto frame = decode_frame(header, payload.size());
  if (!frame.is_ok()) {
    WEIR_LOG_DEBUG("net: ignored a {}", frame.status().message());
    return;
  }
  if (!on_frame) return;
  // Those that have not proven the key must not change what is being looked at; all other payloads are copied before
  // anybody looks.
  const Bytes kept = is_handshake(frame->kind) ? Bytes(payload.begin(), payload.end()) : Bytes();
  on_frame(*frame, is_handshake(frame->kind) ? std::span<const std::byte>(kept) : payload, this);
}

bool RingLink::sleep() {
  if (!reader_ || is_dismissed_) return true;
  if (!is_choked() && !reader_->sleep()) return false;
  const bool has_room = backlog_.empty() && !is_blocked_;
  return has_room || writer_->wait_for_room();
}

// ---------------------------------------------------------------- worker

RingWorker::RingWorker(OnFrame on_frame, const runtime::Clock& clock) : Worker(std::move(on_frame)), clock_(clock) {}

RingWorker::~RingWorker() {
  on_frame_ = nullptr;
  for (const auto& link : links_) link->abort();
  while (has_streams()) progress();  // rings hold no bodies: all end at once
}

Result<std::unique_ptr<RingWorker>> RingWorker::create(OnFrame on_frame, const runtime::Clock& clock) {
  std::unique_ptr<RingWorker> self(new RingWorker(std::move(on_frame), clock));
  self->events_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!self->events_.is_open()) return os_error(ErrorCode::kIoError, "epoll_create1");
  return self;
}

bool RingWorker::watch(int descriptor, RingLink* link) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.ptr = link;
  return ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

Status RingWorker::listen(std::string_view name, std::function<bool(const std::shared_ptr<Link>&)> on_link) {
  WEIR_TRY(Descriptor listener, listen_abstract(name));
  if (!acceptor_.begin(std::move(listener), events_.get())) {
    return os_error(ErrorCode::kIoError, concat("socket @", name, ": epoll_ctl"));
  }
  on_link_ = std::move(on_link);
  return Status::ok();
}

RingWorker::Attempt RingWorker::connect(std::string_view name) {
  UnixAddress address;
  if (!make_abstract(name, address)) return {};
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return {};
  if (::connect(socket.get(), address.get(), address.bytes) != 0) return {nullptr, errno == EAGAIN};
  ucred peer{};
  socklen_t peer_bytes = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) != 0 ||
      (peer.uid != ::geteuid() && peer.uid != 0))
    return {};
  Result<RingMemory> memory = RingMemory::create();
  if (!memory.is_ok()) {
    WEIR_LOG_WARN("net: {}; messages take the long way", memory.status().message());
    return {};
  }
  const int descriptor = memory->descriptor();
  if (!send_descriptors(socket.get(), {&descriptor, 1})) return {};
  const int number = socket.get();
  auto link = std::make_shared<RingLink>(*this, std::move(socket));
  link->begin(std::move(*memory), 0);
  if (!watch(number, link.get())) return {};
  links_.push_back(link);
  return {link, false};
}

void RingWorker::accept_all() {
  for (int accepted = 0; accepted < kMostRingsAcceptedAtOnce; ++accepted) {
    Descriptor socket = acceptor_.accept();
    if (!socket.is_open()) return;
    const int number = socket.get();
    std::optional<Identity> caller = caller_of(number);
    if (!caller) continue;
    auto link = std::make_shared<RingLink>(*this, std::move(socket), std::move(caller));
    if (!watch(number, link.get())) continue;
    links_.push_back(link);
    if (!on_link_(link)) link->abort();
  }
}

void RingWorker::look_at(RingLink& link) {
  if (!link.is_open()) return;
  if (!link.has_memory()) {
    Descriptor descriptor;
    if (!receive_descriptors(link.socket(), {&descriptor, 1})) {
      return link.fail({ErrorCode::kUnavailable, "connection: the other end has sent no memory"});
    }
    Result<RingMemory> memory = RingMemory::adopt(std::move(descriptor));
    if (!memory.is_ok()) {
      WEIR_LOG_INFO("net: a caller was refused: {}", memory.status().message());
      return link.fail(memory.status());
    }
    return link.begin(std::move(*memory), 1);
  }
  std::array<std::byte, kMostReasonBytes> bytes;
  const ssize_t received = ::recv(link.socket(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (received > 1) link.fail(left(printable(std::span(bytes).first(static_cast<std::size_t>(received)))));
  if (received == 0) link.fail({ErrorCode::kUnavailable, "connection: the other end is gone"});
  if (received < 0 && errno != EAGAIN && errno != EINTR) link.fail(os_error(ErrorCode::kUnavailable, "connection"));
}

bool RingWorker::look_at_sockets() {
  epoll_event events[64];
  acceptor_.resume();
  const int count = ::epoll_wait(events_.get(), events, 64, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == nullptr) {
      accept_all();
    } else {
      look_at(*static_cast<RingLink*>(events[i].data.ptr));  // links that are closed go in collect() only
    }
  }
  return count > 0;
}

bool RingWorker::take_in() {
  bool has_progressed = false;
  if (std::exchange(has_slept_, false)) {
    for (const auto& link : links_) link->wake();
    has_progressed = look_at_sockets();
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {  // grows if somebody connects
    RingLink& link = *links_[i];
    if (!link.is_open()) continue;
    has_progressed |= link.push();
    has_progressed |= link.take_in(on_frame_);
  }
  if (++turns_ % kTurnsBetweenLooks == 0) has_progressed |= look_at_sockets();
  return has_progressed;
}

void RingWorker::collect() {
  std::erase_if(links_, [](const auto& link) { return !link->is_open(); });
}

Clock::duration RingWorker::arm() {
  has_slept_ = true;
  for (const auto& link : links_) {
    if (!link->sleep()) return Clock::duration::zero();
  }
  return acceptor_.patience();
}

void RingWorker::flush(Deadline deadline) {
  const auto is_waiting = [](const auto& link) { return link->is_open() && !link->is_clear(); };
  while (std::any_of(links_.begin(), links_.end(), is_waiting) && clock_.now() < deadline) {
    if (!progress()) std::this_thread::yield();
  }
}

}  // namespace weir::net::internal
