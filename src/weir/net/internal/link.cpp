#include <weir/net/internal/link.h>

#include <utility>

namespace weir::net::internal {

Outgoing::Outgoing(Link& link, std::uint64_t call, std::span<const std::byte> body, std::function<void()> finished)
    : body_(body), link_(link.shared_from_this()), call_(call), finished_(std::move(finished)) {}

Frame Outgoing::next_frame(std::size_t length) {
  Frame frame;
  frame.kind = FrameKind::kBody;
  frame.session = link_->session();
  frame.call = call_;
  frame.number = next_;
  next_ += length;
  return frame;
}

// ---------------------------------------------------------------- links

void Link::send(Frame frame, Bytes payload) {
  if (!is_open_ || is_dismissed_) return;
  if (!is_handshake(frame.kind)) frame.session = session_;
  send_frame(frame, std::move(payload));
}

std::shared_ptr<Outgoing> Link::send_body(std::uint64_t call, std::span<const std::byte> body,
                                          std::function<void()> finished) {
  std::shared_ptr<Outgoing> outgoing = make_outgoing(call, body, std::move(finished));
  if (!is_open_ || is_dismissed_) outgoing->stop();
  worker_->streams_.push_back(outgoing);
  return outgoing;
}

std::shared_ptr<Outgoing> Link::send_with_body(const Frame& frame, Bytes payload, std::span<const std::byte> body,
                                               std::function<void()> finished) {
  is_followed_by_body_ = true;
  send(frame, std::move(payload));
  is_followed_by_body_ = false;
  return send_body(frame.call, body, std::move(finished));
}

void Link::say_goodbye() {
  Frame frame;
  frame.kind = FrameKind::kGoodbye;
  send(frame);
}

bool Link::dismiss(const std::string& why) {
  if (!is_open_ || is_dismissed_) return is_open_;
  is_dismissed_ = true;
  stop_streams();
  return tell_dismissal(why.substr(0, kMostReasonBytes));
}

void Link::stop_streams() {
  for (const auto& stream : worker_->streams_) {
    if (stream->link_.get() == this) stream->stop();
  }
}

void Link::fail(Status why) {
  if (is_open_) worker_->failures_.push_back({shared_from_this(), std::move(why)});
}

void Link::abort() {
  if (!is_open_) return;
  is_open_ = false;
  on_failure_ = nullptr;
  stop_streams();
  close();
  forget_unsent();
}

// ---------------------------------------------------------------- worker

bool Worker::progress() {
  bool has_progressed = take_in();
  has_progressed |= tell_failures();
  has_progressed |= pump_streams();
  collect();
  return has_progressed;
}

bool Worker::pump_streams() {
  bool has_progressed = false;
  for (auto it = streams_.begin(); it != streams_.end();) {
    const std::shared_ptr<Outgoing> stream = *it;
    has_progressed |= stream->pump();
    if (stream->has_more() || stream->is_held()) {
      ++it;
      continue;
    }
    it = streams_.erase(it);
    if (stream->finished_) stream->finished_();
    has_progressed = true;
  }
  return has_progressed;
}

bool Worker::tell_failures() {
  if (failures_.empty()) return false;
  // What the peer sent before it went comes first.
  for (int turn = 0; turn < 1000 && (arm(), take_in()); ++turn) {
  }
  const std::vector<Failure> failures = std::exchange(failures_, {});
  for (const Failure& failure : failures) {
    if (!failure.link->is_open_) continue;
    const auto on_failure = std::move(failure.link->on_failure_);
    failure.link->abort();
    if (on_failure) on_failure(failure.why);
  }
  return true;
}

}  // namespace weir::net::internal
