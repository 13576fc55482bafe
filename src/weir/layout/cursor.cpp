#include <weir/layout/mapping.h>

// How the cursor walks: the range is intersected symbolically, as one window if the budget allows, else window by
// window of adaptive size.  Runs that continue each other are joined, and each of what is left becomes a track: an
// odometer that yields its pieces in the order asked for.  A heap merges the tracks, and neighbours that continue each
// other leave as one piece.

#include <algorithm>
#include <queue>

#include <weir/layout/band.h>

namespace weir::layout {

namespace {

// Yields the pieces of one band in the order asked for.
class Track {
 public:
  explicit Track(Band band) : piece_(band.piece), loops_(std::move(band.loops)), turns_(loops_.size(), 0) {}

  [[nodiscard]] const Piece& piece() const { return piece_; }

  bool advance() {
    for (std::size_t i = loops_.size(); i-- > 0;) {
      if (++turns_[i] < loops_[i].count) {
        move(piece_, loops_[i], 1);
        return true;
      }
      turns_[i] = 0;
      move(piece_, loops_[i], -(loops_[i].count - 1));
    }
    return false;
  }

 private:
  Piece piece_;
  std::vector<Loop> loops_;  // slowest first
  std::vector<Offset> turns_;
};

struct Head {
  Offset key;
  std::size_t track;
  friend bool operator>(const Head& a, const Head& b) { return a.key > b.key; }
};

}  // namespace

class PieceCursor::Impl {
 public:
  Impl(const Element& a, const Element& b, Order order, const Window& window, const Budget& budget)
      : a_(a), b_(b), order_(order), window_(window), budget_(budget) {
    left_ = {std::max<Offset>(range().from, 0), range().to};
    window_length_ = left_.to - left_.from;
  }

  std::optional<Piece> next() {
    for (;;) {
      std::optional<Piece> piece = next_unmerged();
      if (!piece) return std::exchange(held_, std::nullopt);
      if (!held_) {
        held_ = piece;
      } else if (continues(*held_, *piece, order_)) {
        held_->length += piece->length;
      } else {
        return std::exchange(held_, piece);
      }
    }
  }

 private:
  Range& range() { return order_ == Order::kFile ? window_.file : order_ == Order::kA ? window_.a : window_.b; }

  std::optional<Piece> next_unmerged() {
    while (heads_.empty()) {
      if (left_.from >= left_.to) return std::nullopt;
      refill();
    }
    const Head head = heads_.top();
    heads_.pop();
    Track& track = tracks_[head.track];
    const Piece piece = track.piece();
    if (track.advance()) heads_.push({key_of(track.piece(), order_), head.track});
    return piece;
  }

  // Loads the tracks of the next window, the largest that the budget allows.
  void refill() {
    window_length_ = std::min(window_length_, left_.to - left_.from);
    for (;;) {
      range() = {left_.from, left_.from + window_length_};
      const bool is_smallest = window_length_ == 1;  // one byte always fits, whatever the budget says
      const Result<Mapping> mapping = intersect(a_, b_, window_, is_smallest ? Budget{} : budget_);
      if (mapping.is_ok() && load(*mapping)) break;
      if (is_smallest) break;
      window_length_ = std::max<Offset>(1, window_length_ / 2);
    }
    left_.from += window_length_;
    window_length_ = window_length_ > kMaxBytes / 2 ? kMaxBytes : window_length_ * 2;
  }

  bool load(const Mapping& mapping) {
    tracks_.clear();
    for (Band& band : bands_of(mapping, order_)) {
      if (!is_nested(band, order_)) return false;
      tracks_.emplace_back(std::move(band));
    }
    for (std::size_t i = 0; i < tracks_.size(); ++i) heads_.push({key_of(tracks_[i].piece(), order_), i});
    return true;
  }

  Element a_;
  Element b_;
  Order order_;
  Window window_;
  Budget budget_;
  Range left_;            // what no window has covered yet
  Offset window_length_;  // to try next
  std::vector<Track> tracks_;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
  std::optional<Piece> held_;  // may still grow
};

PieceCursor::PieceCursor(const Element& a, const Element& b, Order order, const Window& window, const Budget& budget)
    : impl_(std::make_unique<Impl>(a, b, order, window, budget)) {}
PieceCursor::~PieceCursor() = default;
PieceCursor::PieceCursor(PieceCursor&&) noexcept = default;
PieceCursor& PieceCursor::operator=(PieceCursor&&) noexcept = default;

std::optional<Piece> PieceCursor::next() { return impl_->next(); }

}  // namespace weir::layout
