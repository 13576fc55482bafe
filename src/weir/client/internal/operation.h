#pragma once

// A read or write by message: cut into slices, several under way to every target, each unpacked as it comes.
//
// The range of the access is cut per part so that no message is longer than a buffer.  A slice whose bytes lie in one
// in the user's memory is sent from there (received there); others are gathered into (scattered from) a buffer of the
// session.

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <weir/client/internal/binding.h>

namespace weir::client::internal {

class BoundView;

/// A read or write that was started.
class UnderWay {
 public:
  virtual ~UnderWay() = default;
  /// Does what can be done now.  \returns true when done
  virtual bool test() = 0;
  /// Until done; an access that met a stale layout is done again with the new one.
  virtual Status wait() = 0;
  /// Null: done from the start.
  [[nodiscard]] virtual Session* session() const = 0;
  /// Whenever test() may get further, the watcher's work is queued.  `watcher` stays until it is done.
  virtual void set_watcher(Watcher& watcher) = 0;
};

/// \threadsafety One thread at a time.
class Operation final : public UnderWay {
 public:
  /// Done already.
  explicit Operation(Status status) : status_(std::move(status)) {}
  /// Moves the bytes that `parts` have of `access`; others were moved before.
  Operation(std::shared_ptr<BoundView> view, std::shared_ptr<Binding> binding, const ViewAccess& access,
            std::vector<BoundSubfile*> parts, Offset moved);
  ~Operation() override;  ///< Waits.
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  void start();
  bool test() override;
  Status wait() override;
  [[nodiscard]] Session* session() const override { return binding_ ? &binding_->session() : nullptr; }
  void set_watcher(Watcher& watcher) override;
  /// The same, but tells of the stale layout.
  Status finish();
  /// As far as answers were let in.
  [[nodiscard]] bool is_done() const { return under_way_ == 0 && waiting_.empty(); }

 private:
  struct Slice {
    BoundSubfile* part;
    Range range;
    Offset bytes;
    std::optional<Offset> direct;  // where in the view the bytes lie in one
    BufferPool::Buffer buffer;
    int attempts = 0;
  };
  struct Ended {
    std::size_t slice;
    Result<net::Reply> result;
  };

  void cut(BoundSubfile& part, Range range);
  void start_slices();
  void start_slice(std::size_t index);
  void collect();
  void end(Slice& slice, std::size_t index, const Result<net::Reply>& result);
  void fail(Status status);
  [[nodiscard]] Counters& counters() const;

  std::shared_ptr<BoundView> view_;
  std::shared_ptr<Binding> binding_;
  ViewAccess access_;
  std::vector<BoundSubfile*> parts_;
  Offset moved_ = 0;  // wasted if the layout turns out to be stale
  std::vector<Slice> slices_;
  std::deque<std::size_t> waiting_;
  std::map<std::uint32_t, int> busy_;  // slices under way by server
  std::size_t under_way_ = 0;
  Status status_;
  // With the session locked:
  Signal has_ended_;
  std::vector<Ended> ended_;
  Watcher* watcher_ = nullptr;
};

/// Several accesses piece by piece, all those of one subfile in as few messages as they fit in: for many small ones,
/// and for patterns that are too complex to be kept.
Status move_pieces(Binding& binding, std::span<const ViewAccess> accesses, std::span<BoundSubfile* const> parts,
                   Counters& counters);

}  // namespace weir::client::internal
