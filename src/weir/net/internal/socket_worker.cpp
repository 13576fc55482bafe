#include <weir/net/internal/socket_worker.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <weir/base/os_error.h>
#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/net/internal/bytes.h>
#include <weir/net/internal/tls.h>

namespace weir::net::internal {

namespace {

constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kStreamHeaderBytes = kPrefixBytes + kFrameBytes;
/// For frames that are short.  What of a body is read into it has to be copied once more.
constexpr std::size_t kBufferBytes = std::size_t{16} << 10;
constexpr std::size_t kDiscardedBytes = std::size_t{64} << 10;
/// What is read beyond a piece of a body: the header of the next one, and few bytes that have to be copied to their place.
constexpr std::size_t kReadBeyondPiece = std::size_t{2} << 10;
/// As much as a system call moves at best.  Other frames of the link wait for two of them; that is less than the system
/// keeps for a fast connection anyway.
constexpr std::size_t kSocketPieceBytes = std::size_t{1} << 20;
constexpr std::size_t kRecordBytes = std::size_t{16} << 10;    // of TLS
constexpr std::size_t kMostReadAtOnce = std::size_t{1} << 20;  // from one link, so that no link starves
constexpr std::size_t kMostPayloadBytes = kMostHeadBytes + kMostInlineCall;
constexpr int kMostFramesAtOnce = 128;  // likewise; each may cause a long answer, and they are not read ahead of those
constexpr int kMostAcceptedAtOnce = 64;
/// The link that frames came from last is read without asking which have something to read, so many times in a row.
constexpr int kMostGuesses = 8;
constexpr int kBacklog = 1024;

using StreamHeader = std::array<std::byte, kStreamHeaderBytes>;

StreamHeader header_of(const Frame& frame, std::size_t payload_bytes) {
  StreamHeader out{};
  put(out.data(), static_cast<std::uint32_t>(payload_bytes));
  const FrameHeader header = encode(frame);
  std::copy(header.begin(), header.end(), out.begin() + kPrefixBytes);
  return out;
}

/// Congestion controls that pace (BBR) halve what a loopback device carries, where nothing can be congested.  This one is
/// in every kernel and free for everybody.
void do_not_pace(int socket) {
  constexpr std::string_view kName = "reno";
  static_cast<void>(
      ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kName.data(), static_cast<socklen_t>(kName.size())));
}

void set_options(int socket) {
  const auto set = [socket](int level, int option, int value) {
    static_cast<void>(::setsockopt(socket, level, option, &value, sizeof value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that falls silent is noticed in tens of seconds instead of hours.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

Status other_end_gone() { return {ErrorCode::kUnavailable, "connection: the other end is gone"}; }

Tls::Records records_for(Encryption encryption, const sockaddr_storage& peer) {
  const bool may_be_plain =
      encryption == Encryption::kNever || (encryption == Encryption::kBeyondLoopback && is_loopback(peer));
  return may_be_plain ? Tls::Records::kPlain : Tls::Records::kEncrypted;
}

/// Of IPv6, the network: its owner has all addresses there.
std::uint64_t source_of(const sockaddr_storage& address) {
  std::uint64_t source = 0;
  if (address.ss_family == AF_INET6) {
    std::memcpy(&source, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, sizeof source);
  } else {
    source = reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr;
  }
  return source;
}

class SocketOutgoing;

}  // namespace

// ---------------------------------------------------------------- links

class SocketLink : public Link {
 public:
  SocketLink(SocketWorker& worker, Descriptor socket) : Link(worker), socket_(std::move(socket)) { is_open_ = true; }

  /// `records`: what a caller wants, or what a listener allows.
  Status begin(Tls::End end, const Key& key, Tls::Records records, bool is_connecting) {
    WEIR_TRY(tls_, Tls::create(end, socket_.get(), key, records));
    is_connecting_ = is_connecting;
    if (end == Tls::End::kCaller) watch_for_room(true);  // callers speak first
    return Status::ok();
  }
  void come_from(const sockaddr_storage& address) {
    source_ = source_of(address);
    origin_ = to_address(address).text;
  }
  [[nodiscard]] int socket() const { return socket_.get(); }

  /// The socket may be read or written.  \returns whether something happened
  bool advance(std::uint32_t events);
  /// Takes in frames that have come; true if there were any.
  bool take_in();
  /// Whether take_in() stopped before it had taken in all.
  [[nodiscard]] bool is_unfinished() const { return is_unfinished_; }
  /// Whether reading it without being told that it has something is worth while, and takes nothing from other links.
  [[nodiscard]] bool is_talkative() const {
    return is_open() && is_established_ && !is_watched_for_room_ && taken_bytes_ <= kBufferBytes;
  }

  /// A piece of a body, which stays until the owner is told.
  void send_piece(const Frame& frame, std::span<const std::byte> piece, std::shared_ptr<SocketOutgoing> owner);
  [[nodiscard]] bool has_room() const { return is_established_ && !is_dismissed_ && queue_.size() < kMostQueued; }
  [[nodiscard]] bool is_clear() const { return queue_.empty(); }

 private:
  static constexpr std::uint32_t kReading = EPOLLIN | EPOLLRDHUP;
  static constexpr std::size_t kMostQueued = 2;  // pieces of bodies; frames are not counted when they are sent

  /// What is left to send of a frame.
  struct Message {
    StreamHeader header;
    Bytes payload;
    std::span<const std::byte> piece;       // instead of a payload
    std::shared_ptr<SocketOutgoing> owner;  // of the piece
    std::size_t sent = 0;

    [[nodiscard]] std::span<const std::byte> rest() const {
      return owner ? piece : std::span<const std::byte>(payload);
    }
    [[nodiscard]] std::size_t bytes() const { return header.size() + rest().size(); }
  };

  void send_frame(const Frame& frame, Bytes payload) override;
  std::shared_ptr<Outgoing> make_outgoing(std::uint64_t call, std::span<const std::byte> body,
                                          std::function<void()> finished) override;
  void close() override;
  bool tell_dismissal(const std::string& why) override;

  void connect_and_shake_hands();
  void give_up(const Status& why) {
    if (!std::exchange(has_failed_, true)) fail(why);
  }
  void push();
  Result<std::size_t> write_plain();
  Result<std::size_t> write_records();
  void count_sent(std::size_t bytes);
  void watch_for_room(bool is_wanted);
  /// What the socket is watched for now.
  [[nodiscard]] std::uint32_t wanted_events(bool wants_room) const {
    const std::uint32_t room = wants_room ? std::uint32_t{EPOLLOUT} : 0U;
    if (is_dismissed_) return room | EPOLLRDHUP;
    return is_choked() ? room : room | kReading;
  }

  Result<std::size_t> read_some(std::span<std::byte> into, std::span<std::byte> then = {});
  Result<std::size_t> read_payload();
  Result<std::size_t> read_buffer();
  void parse_buffer();
  Status begin_frame();
  void deliver(std::span<const std::byte> payload);
  void deliver_piece(std::span<const std::byte> piece);

  [[nodiscard]] SocketWorker& worker() { return *static_cast<SocketWorker*>(worker_); }

  Descriptor socket_;
  std::unique_ptr<Tls> tls_;
  bool is_connecting_ = false;
  bool is_established_ = false;
  bool is_watched_for_room_ = false;
  std::uint32_t watched_events_ = kReading;
  bool is_held_back_ = false;  // was not read because the other end does not read
  bool is_unfinished_ = false;
  bool is_drained_ = false;  // the last read got less than it had room for
  bool is_in_body_ = false;  // the last frame was a piece of one, and the next is likely to be
  bool has_failed_ = false;  // nothing more comes or goes

  std::deque<Message> queue_;

  Bytes buffer_;  // what was read ahead is [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::optional<Frame> frame_;   // being taken in
  std::size_t left_bytes_ = 0;   // of its payload
  Bytes payload_;                // of it, if it is longer than the buffer
  std::size_t taken_bytes_ = 0;  // by the last take_in()
  int taken_frames_ = 0;
};

namespace {

class SocketOutgoing : public Outgoing {
 public:
  SocketOutgoing(SocketLink& link, std::uint64_t call, std::span<const std::byte> body, std::function<void()> finished)
      : Outgoing(link, call, body, std::move(finished)) {}
  [[nodiscard]] bool is_held() const override { return pieces_ > 0; }
  [[nodiscard]] std::size_t sent_bytes() const override { return sent_bytes_; }
  void note_sent(std::size_t bytes) { sent_bytes_ += bytes; }
  void let_go() { --pieces_; }
  void set_self(const std::shared_ptr<SocketOutgoing>& self) { self_ = self; }
  bool pump() override {
    auto& link = static_cast<SocketLink&>(this->link());
    bool has_sent = false;
    while (has_more() && link.is_open() && link.has_room()) {
      const auto piece = body_.subspan(next_, std::min(kSocketPieceBytes, body_.size() - next_));
      ++pieces_;
      link.send_piece(next_frame(piece.size()), piece, self_.lock());
      has_sent = true;
    }
    return has_sent;
  }

 private:
  std::weak_ptr<SocketOutgoing> self_;
  std::size_t pieces_ = 0;      // that the link has
  std::size_t sent_bytes_ = 0;  // headers included
};

}  // namespace

// ---- connecting

void SocketLink::connect_and_shake_hands() {
  if (is_connecting_) {
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) return give_up(os_error(ErrorCode::kUnavailable, "connect", error));
    is_connecting_ = false;
  }
  const Result<Tls::Progress> progress = tls_->handshake();
  if (!progress.is_ok()) return give_up(progress.status());
  watch_for_room(*progress == Tls::Progress::kNeedsWrite);
  if (*progress != Tls::Progress::kDone) return;
  Result<Bytes> channel = tls_->channel();
  if (!channel.is_ok()) return give_up(channel.status());
  channel_ = std::move(*channel);
  is_established_ = true;
  if (tls_->is_encrypted()) {
    tls_->read_ahead();
  } else {
    tls_.reset();
  }
  push();
}

bool SocketLink::advance(std::uint32_t events) {
  if (!is_open() || has_failed_) return false;
  if (!is_established_) {
    if (is_connecting_ && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0) return false;
    connect_and_shake_hands();
    if (!is_established_) return true;
    take_in();
    return true;
  }
  const bool is_over = (events & (EPOLLERR | EPOLLHUP)) != 0 || (is_dismissed_ && (events & EPOLLRDHUP) != 0);
  if (is_over && (is_dismissed_ || is_choked())) {
    give_up(other_end_gone());  // reading would tell, but it is not read
    return true;
  }
  if ((events & EPOLLOUT) != 0) push();
  return take_in() || (events & EPOLLOUT) != 0;
}

void SocketLink::close() {
  for (const Message& message : std::exchange(queue_, {})) {
    if (message.owner) message.owner->let_go();
  }
  tls_.reset();
  socket_.reset();
  buffer_ = {};
  payload_ = {};
  worker().has_closed_ = true;
  if (worker().latest_ == this) worker().latest_ = nullptr;
}

void SocketLink::watch_for_room(bool is_wanted) {
  epoll_event event{};
  event.events = wanted_events(is_wanted);
  event.data.ptr = this;
  if (event.events == watched_events_ || ::epoll_ctl(worker().events_.get(), EPOLL_CTL_MOD, socket_.get(), &event) != 0)
    return;
  watched_events_ = event.events;
  is_watched_for_room_ = is_wanted;
}

// ---- sending

void SocketLink::send_frame(const Frame& frame, Bytes payload) {
  note_unsent(kStreamHeaderBytes + payload.size());
  queue_.push_back({header_of(frame, payload.size()), std::move(payload), {}, nullptr});
  if (is_established_ && !is_followed_by_body()) push();
}

// What has begun must be finished: the stream goes on behind it.  Of a body, that is copied, so that its owner is free.
bool SocketLink::tell_dismissal(const std::string& why) {
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    if (queue_[i].owner == nullptr) continue;
    if (i == 0) queue_[i].payload.assign(queue_[i].piece.begin(), queue_[i].piece.end());
    std::exchange(queue_[i].owner, nullptr)->let_go();
  }
  if (queue_.size() > 1) queue_.resize(1);
  forget_unsent();
  if (!queue_.empty()) note_unsent(queue_.front().bytes() - queue_.front().sent);
  Frame frame;
  frame.kind = FrameKind::kGoodbye;
  frame.session = session();
  const auto text = std::as_bytes(std::span(why));
  send_frame(frame, {text.begin(), text.end()});
  return true;
}

void SocketLink::send_piece(const Frame& frame, std::span<const std::byte> piece,
                            std::shared_ptr<SocketOutgoing> owner) {
  queue_.push_back({header_of(frame, piece.size()), {}, piece, std::move(owner)});
  push();
}

std::shared_ptr<Outgoing> SocketLink::make_outgoing(std::uint64_t call, std::span<const std::byte> body,
                                                    std::function<void()> finished) {
  auto outgoing = std::make_shared<SocketOutgoing>(*this, call, body, std::move(finished));
  outgoing->set_self(outgoing);
  if (is_established_ && !outgoing->pump()) push();
  return outgoing;
}

void SocketLink::push() {
  while (!queue_.empty() && !has_failed_) {
    const Result<std::size_t> sent = tls_ ? write_records() : write_plain();
    if (!sent.is_ok()) return give_up(sent.status());
    if (*sent == 0) break;
    count_sent(*sent);
  }
  watch_for_room(!queue_.empty());
  if (!is_held_back_ || is_choked()) return;
  is_held_back_ = false;
  // Bytes that OpenSSL has read already do not wake anybody.
  worker().unfinished_.push_back(std::static_pointer_cast<SocketLink>(shared_from_this()));
}

// Several frames by one system call.
Result<std::size_t> SocketLink::write_plain() {
  std::array<iovec, 16> parts{};
  std::size_t count = 0;
  const auto add = [&](std::span<const std::byte> bytes) {
    if (!bytes.empty()) parts.at(count++) = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  };
  for (const Message& message : queue_) {
    if (count + 2 > parts.size()) break;
    const std::size_t of_header = std::min(message.sent, message.header.size());
    add(std::span(message.header).subspan(of_header));
    add(message.rest().subspan(message.sent - of_header));
  }
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = count;
  const ssize_t sent = ::sendmsg(socket_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (would_block(errno)) return std::size_t{0};
  return os_error(ErrorCode::kUnavailable, "connection");
}

// The header goes into the record with the bytes that follow it.
Result<std::size_t> SocketLink::write_records() {
  const Message& message = queue_.front();
  if (message.sent >= message.header.size()) {
    return tls_->write(message.rest().subspan(message.sent - message.header.size()));
  }
  Bytes& record = worker().record_;
  const auto some = message.rest().first(std::min(message.rest().size(), kRecordBytes - message.header.size()));
  record.resize(message.header.size() + some.size());
  std::copy(message.header.begin(), message.header.end(), record.begin());
  std::copy(some.begin(), some.end(), record.begin() + static_cast<std::ptrdiff_t>(message.header.size()));
  return tls_->write(std::span(record).subspan(message.sent));
}

void SocketLink::count_sent(std::size_t bytes) {
  while (bytes > 0) {
    Message& message = queue_.front();
    const std::size_t some = std::min(bytes, message.bytes() - message.sent);
    message.sent += some;
    bytes -= some;
    message.owner ? message.owner->note_sent(some) : note_sent(some);
    if (message.sent < message.bytes()) return;
    if (message.owner) message.owner->let_go();
    queue_.pop_front();
  }
}

// ---- receiving

// Fills `into`, and on sockets that are not encrypted also `then`.
Result<std::size_t> SocketLink::read_some(std::span<std::byte> into, std::span<std::byte> then) {
  if (tls_) {
    const Result<std::size_t> read = tls_->read(into);
    is_drained_ = tls_->is_drained();
    return read;
  }
  std::array<iovec, 2> parts{{{into.data(), into.size()}, {then.data(), then.size()}}};
  msghdr header{};
  header.msg_iov = parts.data();
  header.msg_iovlen = then.empty() ? 1 : 2;
  const ssize_t received = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT);
  is_drained_ = received < static_cast<ssize_t>(into.size() + then.size());
  if (received > 0) return static_cast<std::size_t>(received);
  if (received < 0 && would_block(errno)) return std::size_t{0};
  return received == 0 ? other_end_gone() : os_error(ErrorCode::kUnavailable, "connection");
}

bool SocketLink::take_in() {
  is_unfinished_ = false;
  taken_bytes_ = 0;
  if (is_choked() || is_dismissed_) {
    is_held_back_ = true;
    return false;
  }
  taken_frames_ = 0;
  if (buffer_.empty()) buffer_.resize(kBufferBytes);
  if (begin_ != end_) parse_buffer();
  while (is_open() && !has_failed_) {
    if (taken_bytes_ >= kMostReadAtOnce || taken_frames_ >= kMostFramesAtOnce) {
      is_unfinished_ = true;
      return true;
    }
    const Result<std::size_t> read = frame_ && begin_ == end_ ? read_payload() : read_buffer();
    if (!read.is_ok()) {
      give_up(read.status());
      return true;
    }
    taken_bytes_ += *read;
    if (taken_frames_ < kMostFramesAtOnce && (*read == 0 || is_drained_)) break;
  }
  return taken_bytes_ > 0 || taken_frames_ > 0;
}

// The rest of a long payload goes where it belongs; the header of the next piece comes along.
Result<std::size_t> SocketLink::read_payload() {
  if (frame_->kind != FrameKind::kBody) {
    WEIR_TRY(const std::size_t read, read_some(std::span(payload_).last(left_bytes_)));
    left_bytes_ -= read;
    if (left_bytes_ == 0) deliver(std::exchange(payload_, {}));
    return read;
  }
  std::span<std::byte> into = worker().place_ ? worker().place_(*frame_, this) : std::span<std::byte>();
  if (into.empty()) into = worker().discarded_;
  into = into.first(std::min(into.size(), left_bytes_));
  WEIR_TRY(const std::size_t read, read_some(into, std::span(buffer_).first(kReadBeyondPiece)));
  begin_ = 0;
  end_ = read - std::min(read, into.size());
  if (read > 0) deliver_piece(into.first(read - end_));
  if (end_ > 0) parse_buffer();
  return read;
}

// What is left of the last read begins the buffer.
Result<std::size_t> SocketLink::read_buffer() {
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_), buffer_.begin() + static_cast<std::ptrdiff_t>(end_),
            buffer_.begin());
  end_ -= std::exchange(begin_, 0);
  std::span<std::byte> room = std::span(buffer_).subspan(end_);
  if (is_in_body_) room = room.first(std::min(room.size(), kReadBeyondPiece));
  WEIR_TRY(const std::size_t read, read_some(room));
  end_ += read;
  if (read > 0) parse_buffer();
  return read;
}

// Takes frames out of the buffer.
void SocketLink::parse_buffer() {
  while (is_open() && taken_frames_ < kMostFramesAtOnce) {
    if (!frame_) {
      if (end_ - begin_ < kStreamHeaderBytes) return;
      if (const Status status = begin_frame(); !status.is_ok()) return give_up(status);
    }
    const std::size_t here = end_ - begin_;
    const std::span<const std::byte> bytes = std::span(buffer_).subspan(begin_, std::min(here, left_bytes_));
    if (frame_->kind == FrameKind::kBody) {
      if (bytes.empty()) return;
      begin_ += bytes.size();
      deliver_piece(bytes);
    } else if (bytes.size() == left_bytes_) {
      begin_ += bytes.size();
      deliver(bytes);
    } else if (left_bytes_ <= buffer_.size() - kStreamHeaderBytes) {
      // The whole payload will be in the buffer: the header is taken in again then.
      begin_ -= kStreamHeaderBytes;
      frame_.reset();
      return;
    } else {
      payload_.resize(left_bytes_);
      std::copy(bytes.begin(), bytes.end(), payload_.begin());
      left_bytes_ -= bytes.size();
      begin_ = end_ = 0;
      return;
    }
  }
}

Status SocketLink::begin_frame() {
  Reader reader{std::span<const std::byte>(buffer_).subspan(begin_, kStreamHeaderBytes)};
  const auto payload_bytes = reader.number<std::uint32_t>();
  const auto zeros = reader.number<std::uint32_t>();
  WEIR_TRY(const Frame frame, decode_frame(reader.rest(), payload_bytes));
  if (zeros != 0 || (frame.kind != FrameKind::kBody && payload_bytes > kMostPayloadBytes)) {
    return corrupt(concat("frame with ", payload_bytes, " bytes of payload"));
  }
  frame_ = frame;
  is_in_body_ = frame.kind == FrameKind::kBody;
  left_bytes_ = payload_bytes;
  begin_ += kStreamHeaderBytes;
  return Status::ok();
}

void SocketLink::deliver(std::span<const std::byte> payload) {
  const Frame frame = *std::exchange(frame_, std::nullopt);
  ++taken_frames_;
  if (worker().on_frame_) worker().on_frame_(frame, payload, this);
}

// Each read of a body is told of as a frame of its own.
void SocketLink::deliver_piece(std::span<const std::byte> piece) {
  const Frame frame = *frame_;
  left_bytes_ -= piece.size();
  if (left_bytes_ == 0) {
    frame_.reset();
  } else {
    frame_->number += piece.size();
  }
  if (worker().on_frame_) worker().on_frame_(frame, piece, this);
}

// ---------------------------------------------------------------- worker

Result<Encryption> encryption_by(const runtime::Settings& settings) {
  const std::string text = settings.get("WEIR_ENCRYPTION");
  if (text.empty() || text == "auto") return Encryption::kBeyondLoopback;
  if (text == "always") return Encryption::kAlways;
  if (text == "never") return Encryption::kNever;
  return invalid_argument(concat("WEIR_ENCRYPTION: unknown value '", text, "' (auto, always, never)"));
}

SocketWorker::SocketWorker(OnFrame on_frame, Place place, const runtime::Clock& clock, Encryption encryption)
    : Worker(std::move(on_frame)),
      clock_(clock),
      encryption_(encryption),
      place_(std::move(place)),
      discarded_(kDiscardedBytes) {}

Result<std::unique_ptr<SocketWorker>> SocketWorker::create(OnFrame on_frame, Place place,
                                                           const runtime::Runtime& runtime) {
  WEIR_TRY(const Encryption encryption, encryption_by(*runtime.settings));
  std::unique_ptr<SocketWorker> self(
      new SocketWorker(std::move(on_frame), std::move(place), *runtime.clock, encryption));
  self->events_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!self->events_.is_open()) return os_error(ErrorCode::kIoError, "epoll_create1");
  return self;
}

SocketWorker::~SocketWorker() {
  on_frame_ = nullptr;
  for (const auto& link : links_) link->abort();
  while (has_streams()) progress();  // links that are closed hold no bodies: all end at once
}

std::shared_ptr<SocketLink> SocketWorker::add(Descriptor socket) {
  const int number = socket.get();
  set_options(number);
  auto link = std::make_shared<SocketLink>(*this, std::move(socket));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.ptr = link.get();
  if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, number, &event) != 0) return nullptr;
  links_.push_back(link);
  return link;
}

Result<SocketAddress> SocketWorker::listen(const SocketAddress& address, const Key& key,
                                           std::function<bool(const std::shared_ptr<Link>&)> on_link) {
  Descriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  if (!socket.is_open() || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), address.get(), address.length) != 0 || ::listen(socket.get(), kBacklog) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) != 0 ||
      !acceptor_.begin(std::move(socket), events_.get()))
    return os_error(ErrorCode::kIoError, "socket");
  listener_key_ = key;
  on_link_ = std::move(on_link);
  return bound;
}

Result<std::shared_ptr<Link>> SocketWorker::connect(const SocketAddress& address, const Key& key) {
  Descriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return os_error(ErrorCode::kUnavailable, "socket");
  const bool is_connected = ::connect(socket.get(), address.get(), address.length) == 0;
  if (!is_connected && errno != EINPROGRESS) return os_error(ErrorCode::kUnavailable, "connect");
  if (is_loopback(address.storage)) do_not_pace(socket.get());
  const std::shared_ptr<SocketLink> link = add(std::move(socket));
  if (link == nullptr) return os_error(ErrorCode::kUnavailable, "epoll_ctl");
  const Tls::Records records = records_for(encryption_, address.storage);
  if (Status status = link->begin(Tls::End::kCaller, key, records, !is_connected); !status.is_ok()) {
    link->abort();
    return status;
  }
  return std::shared_ptr<Link>(link);
}

void SocketWorker::accept_some() {
  for (int accepted = 0; accepted < kMostAcceptedAtOnce; ++accepted) {
    SocketAddress from;
    from.length = sizeof from.storage;
    Descriptor socket = acceptor_.accept(reinterpret_cast<sockaddr*>(&from.storage), &from.length);
    if (!socket.is_open()) return;
    if (is_loopback(from.storage)) do_not_pace(socket.get());
    const std::shared_ptr<SocketLink> link = add(std::move(socket));
    if (link == nullptr) continue;
    link->come_from(from.storage);
    const Tls::Records records = records_for(encryption_, from.storage);
    const Status status = link->begin(Tls::End::kListener, listener_key_, records, false);
    if (!status.is_ok()) WEIR_LOG_WARN("net: a connection failed: {}", status.message());
    if (!status.is_ok() || !on_link_(link)) link->abort();
  }
}

// A caller that waits for its answer, and a server that is asked again and again, save the question of who has something.
bool SocketWorker::take_in_from_latest() {
  --guesses_left_;
  SocketLink& link = *latest_;
  if (!link.take_in()) return false;
  note(link);
  return true;
}

void SocketWorker::note(SocketLink& link) {
  if (link.is_unfinished()) unfinished_.push_back(std::static_pointer_cast<SocketLink>(link.shared_from_this()));
  latest_ = link.is_talkative() ? &link : nullptr;
}

bool SocketWorker::take_in() {
  bool has_progressed = false;
  for (const std::shared_ptr<SocketLink>& link : std::exchange(unfinished_, {})) {
    has_progressed |= link->take_in();
    if (link->is_unfinished()) unfinished_.push_back(link);
  }
  if (latest_ != nullptr && guesses_left_ > 0) {
    if (take_in_from_latest()) return true;
    if (!must_ask_) return has_progressed;
  }
  must_ask_ = false;
  guesses_left_ = kMostGuesses;
  acceptor_.resume();
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events.at(static_cast<std::size_t>(i));
    if (event.data.ptr == nullptr) {
      accept_some();
      has_progressed = true;
      continue;
    }
    auto& link = *static_cast<SocketLink*>(event.data.ptr);  // links that are closed go in collect() only
    if (!link.advance(event.events)) continue;
    has_progressed = true;
    note(link);
  }
  return has_progressed;
}

void SocketWorker::collect() {
  if (!std::exchange(has_closed_, false)) return;
  std::erase_if(links_, [](const auto& link) { return !link->is_open(); });
}

Clock::duration SocketWorker::arm() {
  must_ask_ = true;
  return unfinished_.empty() ? acceptor_.patience() : Clock::duration::zero();
}

void SocketWorker::flush(Deadline deadline) {
  const auto is_waiting = [](const auto& link) { return link->is_open() && !link->is_clear(); };
  while (std::any_of(links_.begin(), links_.end(), is_waiting) && clock_.now() < deadline) progress();
}

}  // namespace weir::net::internal
