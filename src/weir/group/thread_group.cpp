#include <weir/group/thread_group.h>

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <cstring>
#include <mutex>

namespace weir::group {

// Where ranks show each other what they have.  A round has two steps: all ranks come and show something, then all of
// them have looked.  Only the first can take too long: after it, ranks do nothing but copy.
class ThreadGroup::Board {
 public:
  Board(int ranks, const Limit& limit) : shown_(static_cast<std::size_t>(ranks)), limit_(limit) {}

  /// False: not all ranks came in time, now or in an earlier round; `missing` are those.
  bool come(int rank, const void* mine, std::vector<int>& missing) {
    std::unique_lock lock(mutex_);
    if (is_broken_) {
      missing = missing_;
      return false;
    }
    shown_[static_cast<std::size_t>(rank)] = mine;
    if (++here_ == shown_.size()) {
      gone_ = 0;
      here_ = 0;
      ++round_;
      all_here_.notify_all();
      return true;
    }
    const auto is_over = [this, round = round_] { return round_ != round || is_broken_; };
    if (limit_.time.count() == 0) {
      all_here_.wait(lock, is_over);
    } else if (!all_here_.wait_for(lock, limit_.time, is_over)) {
      is_broken_ = true;
      for (std::size_t i = 0; i < shown_.size(); ++i) {
        if (shown_[i] == nullptr) missing_.push_back(static_cast<int>(i));
      }
      all_here_.notify_all();
    }
    missing = missing_;
    return !is_broken_;
  }

  /// \pre all have come
  [[nodiscard]] const void* shown_by(int rank) const { return shown_[static_cast<std::size_t>(rank)]; }

  /// Returns when all ranks have looked.
  void go() {
    std::unique_lock lock(mutex_);
    if (++gone_ == shown_.size()) {
      std::fill(shown_.begin(), shown_.end(), nullptr);
      ++looked_;
      all_gone_.notify_all();
      return;
    }
    all_gone_.wait(lock, [this, looked = looked_] { return looked_ != looked; });
  }

  [[nodiscard]] const Limit& limit() const { return limit_; }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::condition_variable all_gone_;
  std::vector<const void*> shown_;  // by rank; null: it has not come
  std::size_t here_ = 0;
  std::size_t gone_ = 0;
  std::uint64_t round_ = 0;
  std::uint64_t looked_ = 0;
  bool is_broken_ = false;
  std::vector<int> missing_;
  const Limit limit_;
};

ThreadGroup::ThreadGroup(std::shared_ptr<Board> board, int rank, int size) : board_(std::move(board)) {
  rank_ = rank;
  size_ = size;
}

ThreadGroup::~ThreadGroup() = default;

std::vector<std::unique_ptr<ThreadGroup>> ThreadGroup::create(int ranks, const Limit& limit) {
  assert(ranks >= 1);
  const auto board = std::make_shared<Board>(ranks, limit);
  std::vector<std::unique_ptr<ThreadGroup>> members;
  for (int rank = 0; rank < ranks; ++rank) {
    members.push_back(std::unique_ptr<ThreadGroup>(new ThreadGroup(board, rank, ranks)));
  }
  return members;
}

template <typename Shown, typename Read>
Status ThreadGroup::show(std::string_view call, const Shown& mine, Read read) {
  if (is_broken()) return broken(call);
  std::vector<int> missing;
  if (!board_->come(rank_, &mine, missing)) return break_by(call, name_ranks(missing), board_->limit());
  for (int rank = 0; rank < size_; ++rank) read(rank, *static_cast<const Shown*>(board_->shown_by(rank)));
  board_->go();
  return Status::ok();
}

Status ThreadGroup::greatest(std::string_view call, std::span<std::uint64_t> words) {
  std::vector<std::uint64_t> most(words.size());
  WEIR_RETURN_IF_ERROR(show(call, words, [&](int, std::span<const std::uint64_t> theirs) {
    assert(theirs.size() == most.size());
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], theirs[i]);
  }));
  std::copy(most.begin(), most.end(), words.begin());
  return Status::ok();
}

Result<Offset> ThreadGroup::sum_below(std::string_view call, Offset value) {
  Offset sum = 0;
  WEIR_RETURN_IF_ERROR(show(call, value, [&](int rank, Offset theirs) { sum += rank < rank_ ? theirs : 0; }));
  return sum;
}

Result<Offset> ThreadGroup::value_of(std::string_view call, int root, Offset value) {
  Offset found = value;
  WEIR_RETURN_IF_ERROR(show(call, value, [&](int rank, Offset theirs) {
    if (rank == root) found = theirs;
  }));
  return found;
}

Result<std::string> ThreadGroup::bytes_of(std::string_view call, int root, std::string mine) {
  std::string found;
  WEIR_RETURN_IF_ERROR(show(call, mine, [&](int rank, const std::string& theirs) {
    if (rank == root) found = theirs;
  }));
  return found;
}

Result<std::vector<std::string>> ThreadGroup::gather(std::string_view call, const std::string& mine) {
  std::vector<std::string> all;
  WEIR_RETURN_IF_ERROR(show(call, mine, [&](int, const std::string& theirs) { all.push_back(theirs); }));
  return all;
}

Result<std::vector<Offset>> ThreadGroup::gather(std::string_view call, std::span<const Offset> mine) {
  std::vector<Offset> all;
  WEIR_RETURN_IF_ERROR(show(
      call, mine, [&](int, std::span<const Offset> theirs) { all.insert(all.end(), theirs.begin(), theirs.end()); }));
  return all;
}

Status ThreadGroup::exchange(std::string_view call, const RankBuffers& out, const RankBuffers& in) {
  const auto me = static_cast<std::size_t>(rank_);
  return show(call, out, [&](int rank, const RankBuffers& theirs) {
    const auto other = static_cast<std::size_t>(rank);
    assert(theirs.counts[me] == in.counts[other]);
    if (in.counts[other] == 0) return;
    std::memcpy(in.data + in.starts[other], theirs.data + theirs.starts[me],
                static_cast<std::size_t>(in.counts[other]));
  });
}

void ThreadGroup::leave(std::string_view /*call*/) {}

}  // namespace weir::group
