#pragma once

// What carries frames between two ends, whatever it is made of: a Worker (one thread's links and what wakes it), its
// Links (one for each peer), and bodies on their way out.

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weir/base/result.h>
#include <weir/net/internal/frame.h>
#include <weir/net/net.h>

namespace weir::net::internal {

class Link;
class Worker;

/// How soon to look again where no event tells that a peer has taken something in.
inline constexpr auto kRestless = std::chrono::microseconds(200);

/// A body on its way out, piece by piece.
class Outgoing {
 public:
  Outgoing(Link& link, std::uint64_t call, std::span<const std::byte> body, std::function<void()> finished);
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;
  virtual ~Outgoing() = default;

  /// Sends no further piece.  `finished` comes once nobody reads the body any more.
  void stop() { is_stopped_ = true; }
  /// Of the body, as far as the link knows: whether they still become more tells whether the other end takes them in.
  [[nodiscard]] virtual std::size_t sent_bytes() const { return next_; }
  /// Whether somebody may still read the body.
  [[nodiscard]] virtual bool is_held() const = 0;

 protected:
  static constexpr std::size_t kMostAtOnce = 32;  // pieces, so that one long body does not keep all others waiting

  /// True if it sent something.
  virtual bool pump() = 0;
  [[nodiscard]] bool has_more() const { return !is_stopped_ && next_ < body_.size(); }
  /// The frame of the next piece, of `length` bytes; it counts as sent.
  Frame next_frame(std::size_t length);
  [[nodiscard]] Link& link() const { return *link_; }

  std::span<const std::byte> body_;
  std::size_t next_ = 0;

 private:
  friend class Worker;
  friend class Link;
  std::shared_ptr<Link> link_;
  std::uint64_t call_;
  std::function<void()> finished_;
  bool is_stopped_ = false;
};

/// One end of a connection.
class Link : public std::enable_shared_from_this<Link> {
 public:
  explicit Link(Worker& worker) : worker_(&worker) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  [[nodiscard]] bool is_open() const { return is_open_; }
  /// What frames carry from now on.
  void set_session(std::uint64_t session) { session_ = session; }
  [[nodiscard]] std::uint64_t session() const { return session_; }
  /// Who the kernel says is at the other end, if it does.
  [[nodiscard]] const std::optional<Identity>& vouched() const { return vouched_; }
  /// Tells strangers of different sources apart: the user within a host, otherwise (a hash of) the address.
  [[nodiscard]] std::uint64_t source() const { return source_; }
  /// Where the other end is, as far as the kernel says: Identity::origin.
  [[nodiscard]] const std::string& origin() const { return origin_; }
  /// Bytes that both ends of this connection know and no other connection has, if it has such.
  [[nodiscard]] std::span<const std::byte> channel() const { return channel_; }
  /// Called once, from Worker::progress(), if the other end is gone.
  void set_on_failure(std::function<void(const Status&)> on_failure) { on_failure_ = std::move(on_failure); }

  /// Nothing if the link is closed: that has been told.
  void send(Frame frame, Bytes payload = {});
  /// `finished` once nobody reads the body any more, sent or not; from Worker::progress().
  std::shared_ptr<Outgoing> send_body(std::uint64_t call, std::span<const std::byte> body,
                                      std::function<void()> finished);
  /// A frame, and the body of its call after it.
  std::shared_ptr<Outgoing> send_with_body(const Frame& frame, Bytes payload, std::span<const std::byte> body,
                                           std::function<void()> finished);
  /// Bytes of frames that wait here because the other end does not read.  Bodies are not counted: they stay with those
  /// who sent them.
  [[nodiscard]] std::size_t unsent_bytes() const { return unsent_bytes_; }
  /// Bytes of frames that have left, ever: whether they become more tells whether the other end reads.
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }

  /// Tells the other end that this one goes; abort() comes next.
  void say_goodbye();
  /// The same, and why, to one that may not be reading: what waits here for it is given up, and nothing that it sends is
  /// taken in any more.  \returns whether the link has to stay until the other end closes it, to tell that; abort() ends
  /// it in any case
  bool dismiss(const std::string& why);
  /// The other end is gone: on_failure is called soon, after what it sent before.
  void fail(Status why);
  /// Closes at once: what has not been sent is given up.  on_failure is not called any more.
  void abort();

 protected:
  friend class Worker;
  virtual void send_frame(const Frame& frame, Bytes payload) = 0;
  virtual std::shared_ptr<Outgoing> make_outgoing(std::uint64_t call, std::span<const std::byte> body,
                                                  std::function<void()> finished) = 0;
  virtual void close() = 0;
  /// Gives up frames that wait, as far as the other end can do without them, and tells it `why`.  \returns whether that
  /// needs the link to stay
  virtual bool tell_dismissal(const std::string& why) = 0;
  /// The other end has to read before more is taken in from it.  It may have a lot to say that has to be answered.
  [[nodiscard]] inline bool is_choked() const;
  inline void note_unsent(std::size_t bytes);
  inline void note_sent(std::size_t bytes);
  /// They never will be.
  inline void forget_unsent();
  /// During send_frame(): a body comes next, and may travel together with the frame.
  [[nodiscard]] bool is_followed_by_body() const { return is_followed_by_body_; }

  Worker* worker_;
  bool is_open_ = false;
  bool is_dismissed_ = false;
  std::optional<Identity> vouched_;
  std::uint64_t source_ = 0;
  std::string origin_;
  Bytes channel_;

 private:
  void stop_streams();

  std::uint64_t session_ = 0;
  bool is_followed_by_body_ = false;
  std::size_t unsent_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::function<void(const Status&)> on_failure_;
};

/// \threadsafety One thread at a time.
class Worker {
 public:
  /// A frame has come; `from` may be null but in the handshake.  It must not begin or end links, but may fail() them.
  using OnFrame = std::function<void(const Frame&, std::span<const std::byte> payload, Link* from)>;

  explicit Worker(OnFrame on_frame) : on_frame_(std::move(on_frame)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  virtual ~Worker() = default;

  /// Does what can be done now; true if there was something.
  bool progress();
  /// Takes in frames, and nothing else; true if there was something.
  virtual bool take_in() = 0;
  /// To be called before sleeping on event_fd(): the longest that may be slept, 0 if there is something to do at once.
  virtual Clock::duration arm() = 0;
  [[nodiscard]] virtual int event_fd() const = 0;

  /// Nothing is taken in from a link while more bytes of frames wait for its other end; nor from any for which some
  /// wait, while those of all links are more than `together`.
  void set_most_unsent(std::size_t bytes, std::size_t together) {
    most_unsent_ = bytes;
    most_unsent_together_ = together;
  }
  [[nodiscard]] std::size_t unsent_bytes() const { return unsent_bytes_; }
  [[nodiscard]] bool has_streams() const { return !streams_.empty(); }
  [[nodiscard]] bool has_failures() const { return !failures_.empty(); }
  /// Lets what was sent leave this process.
  virtual void flush(Deadline deadline) = 0;
  /// Lets links that were closed end; only then may the other end notice.
  virtual void finish_closing(Deadline deadline) = 0;

 protected:
  friend class Link;
  /// Forgets what is over.
  virtual void collect() = 0;

  OnFrame on_frame_;

 private:
  struct Failure {
    std::shared_ptr<Link> link;
    Status why;
  };
  bool pump_streams();
  bool tell_failures();

  std::list<std::shared_ptr<Outgoing>> streams_;
  std::vector<Failure> failures_;
  std::size_t most_unsent_ = SIZE_MAX;
  std::size_t most_unsent_together_ = SIZE_MAX;
  std::size_t unsent_bytes_ = 0;  // of all links
};

bool Link::is_choked() const {
  return unsent_bytes_ > 0 &&
         (unsent_bytes_ > worker_->most_unsent_ || worker_->unsent_bytes_ > worker_->most_unsent_together_);
}

void Link::note_unsent(std::size_t bytes) {
  unsent_bytes_ += bytes;
  worker_->unsent_bytes_ += bytes;
}

void Link::note_sent(std::size_t bytes) {
  unsent_bytes_ -= bytes;
  worker_->unsent_bytes_ -= bytes;
  sent_bytes_ += bytes;
}

void Link::forget_unsent() { worker_->unsent_bytes_ -= std::exchange(unsent_bytes_, 0); }

}  // namespace weir::net::internal
