#pragma once

// How the bytes that two elements share are moved: between two memories, or as messages; for any range of the first
// element, again and again.
//
//   a ──copy_to_b──> b                    one copy, by a plan
//   a ──pack_a──> message ──unpack_b──> b   and back; both ends know the order of the message without telling each other
//
// What is used for it is decided here:
//
//   bands   Families of pieces whose loops are nested in a, each moved by plans.  Byte k of a band's sequence `a` is byte
//           k of its sequence `b`; a range of a is one range of k.  The message for a range of a is the bytes of the
//           first band in it, then those of the second, ...  So two offsets say which bytes are meant.
//   list    Elements that fit so irregularly that bands would be too many: pieces are listed, range by range, and the
//           last lists are kept.  why_listed() says what was too much.
//   walk    A band whose sequence is too irregular for a plan is walked segment by segment.
//
// Plans are compiled when first used: a server never needs those of a, a client never those of b.

#include <memory>
#include <optional>
#include <vector>

#include <weir/transfer/plan.h>

namespace weir::transfer {

namespace internal {
class PieceList;
}

/// Copies share.  \threadsafety Safe from any thread.
class Route {
 public:
  /// Two sequences of the same bytes: `a` in offsets of a, ascending; `b` in offsets of b, in the same order.
  struct Band {
    layout::Element a;
    layout::Element b;
  };

  /// Patterns that need more are listed: no route has so many bands.
  static constexpr layout::Budget kBudget{.runs = 2048, .steps = 32768};

  Route();  ///< No bytes.

  /// \error as layout::intersect(), but never kTooComplex: then it is a list
  static Result<Route> between(const layout::Element& a, const layout::Element& b,
                               const layout::Budget& budget = kBudget);
  /// a: the bytes of the element packed, in its order; b: where they lie.  So pack_b() gathers and unpack_b() scatters.
  static Route of(const layout::Element& element);
  /// From the wire; it has no copies.  \error kInvalidArgument if a band's sequences differ in size, or its `a` does not
  /// ascend, or its `b` ends before its `a` does.
  static Result<Route> create(std::vector<Band> bands);
  /// For messages only.  \error kTooComplex if the mapping needs more bands than are sensible: use a window.
  static Result<Route> create(const layout::Mapping& a_to_b);

  [[nodiscard]] bool is_empty() const;  ///< The elements share no byte.
  [[nodiscard]] bool is_listed() const;
  [[nodiscard]] const Status& why_listed() const;  ///< kTooComplex; ok if it is not.
  [[nodiscard]] const std::vector<Band>& bands() const;

  // ---- what a range of a has.  Of a list, these list it.

  /// Bytes of the message for [range.from, range.to) of a.
  [[nodiscard]] Offset bytes(Range range) const;
  /// The smallest range of b that holds all of them; empty if there are none.
  [[nodiscard]] Range extent_b(Range range) const;
  /// The message is bytes [*, * + bytes) of a (of b), in order: no plan, no buffer.  \pre not a list
  [[nodiscard]] std::optional<Offset> direct_a(Range range) const;
  [[nodiscard]] std::optional<Offset> direct_b(Range range) const;
  /// About how many pieces they are in b, judged by the first ones.  Of a list: in a, with those that b does not have.
  [[nodiscard]] Offset estimate_pieces(Range range) const;
  /// All of them, in the order of a.  \pre made by between()
  [[nodiscard]] layout::PieceCursor pieces(Range range) const;

  // ---- messages.  `a.data` is the byte of a with offset `a.origin`, and so for b.

  void pack_a(Source a, Range range, std::byte* message) const;
  void unpack_a(const std::byte* message, Range range, Target a) const;
  /// `message` is that of `whole`, of which `part` is moved.  \pre not a list
  void pack_b(Source b, Range part, std::byte* message, Range whole) const;
  void unpack_b(const std::byte* message, Range part, Target b, Range whole) const;
  void pack_b(Source b, Range range, std::byte* message) const { pack_b(b, range, message, range); }
  void unpack_b(const std::byte* message, Range range, Target b) const { unpack_b(message, range, b, range); }

  /// Bytes [b, b + length) of b are bytes [message, message + length) of the message.
  struct MessagePiece {
    Offset b = 0;
    Offset length = 0;
    Offset message = 0;
  };
  /// Walks the pieces of `part` in b in the order of the message, which is that of `whole`.  \pre not a list
  class MessageCursor {
   public:
    MessageCursor(const Route& route, Range part, Range whole) : route_(route), part_(part), whole_(whole) {}
    std::optional<MessagePiece> next();

   private:
    const Route& route_;
    Range part_;
    Range whole_;
    std::size_t band_ = 0;  // next one
    Offset start_ = 0;      // of its bytes in the message
    Offset at_ = 0;         // in the message
    std::optional<layout::SegmentCursor> segments_;
  };

  // ---- copies between two memories.  \pre made by between()

  /// The beginning of a range of a that one copy moves: all of it, unless a list has too many pieces.
  struct Step {
    Range range;                                      ///< Of a.
    Offset bytes = 0;                                 ///< That b has of it.
    Range extent_b{0, 0};                             ///< That holds them.
    Range keys;                                       ///< By which it is cut: of a, or of the plan.
    Offset shift_b = 0;                               ///< Added to the plan's offsets of b.
    std::optional<Offset> piece_a;                    ///< The bytes are one short piece, which begins here in a.
    std::shared_ptr<const internal::PieceList> list;  ///< Cannot be cut.
    std::optional<Plan> plan;                         ///< Of memory in pieces; nothing: that of the route.
  };
  enum class Direction { kToB, kToA };
  /// When to make the plan for memory in pieces: making it costs more than a short copy.
  enum class Compose { kAtOnce, kWhenUsedAgain };

  [[nodiscard]] Step step(Range range) const;
  /// The same if the memory of a is in pieces: byte range.from + k at data + memory.unmap(k).  Nothing: by way of a
  /// buffer, since there is no such plan or it is not worth making yet.  The plan is kept for the next access with the
  /// same memory.
  [[nodiscard]] std::optional<Step> step(Range range, const layout::Element& memory, Direction direction,
                                         Compose when) const;
  /// A part of a step that is no list.
  [[nodiscard]] Step cut(const Step& step, Range keys) const;
  /// \pre a.origin is step.range.from if memory is in pieces
  void copy_to_b(const Step& step, Source a, Target b) const;
  void copy_to_a(const Step& step, Source b, Target a) const;
  /// Zeros for the bytes of the step.  \pre memory is not in pieces
  void clear_a(const Step& step, Target a) const;

 private:
  struct State;
  explicit Route(std::shared_ptr<State> state) : state_(std::move(state)) {}
  template <typename Visit>
  void for_steps(Range range, Visit visit) const;
  template <typename Move>
  void move_bands(Range part, Range whole, Move move) const;

  std::shared_ptr<State> state_;
};

}  // namespace weir::transfer
