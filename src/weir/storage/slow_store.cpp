#include <weir/storage/slow_store.h>

#include <algorithm>
#include <utility>

#include <weir/storage/internal/delayed_store.h>

namespace weir::storage {

namespace {

class SlowStore final : public internal::DelayedStore {
 public:
  SlowStore(std::unique_ptr<Store> store, const SlowDisk& disk, const runtime::Clock& clock)
      : DelayedStore(std::move(store), clock), disk_(disk) {}
  ~SlowStore() override { stop(); }

  [[nodiscard]] Capabilities capabilities() const override {
    Capabilities all = inner().capabilities();
    all.mappable = all.shareable = false;
    return all;
  }

 private:
  [[nodiscard]] bool may_begin(std::size_t waiting) const override { return waiting == 0; }

  runtime::TimePoint due(const Operation& operation, runtime::TimePoint now) override {
    std::chrono::nanoseconds busy{0};
    if (const auto* read = std::get_if<op::Read>(&operation.what)) busy = pass_head(read->id, read->pieces);
    if (const auto* write = std::get_if<op::Write>(&operation.what)) busy = pass_head(write->id, write->pieces);
    if (busy.count() == 0) return now;
    free_ = std::max(free_, now) + busy;
    return free_;
  }

  template <typename Piece>
  std::chrono::nanoseconds pass_head(SubfileId id, const std::vector<Piece>& pieces) {
    std::chrono::nanoseconds busy{0};
    for (const Piece& piece : pieces) {
      if (piece.memory.empty()) continue;
      if (id != at_ || piece.offset != next_) busy += disk_.seek;
      const double seconds = static_cast<double>(piece.memory.size()) / static_cast<double>(disk_.bytes_per_second);
      busy += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
      at_ = id;
      next_ = piece.offset + static_cast<Offset>(piece.memory.size());
    }
    return busy;
  }

  SlowDisk disk_;
  SubfileId at_;  // where the head is; no subfile has this id
  Offset next_ = 0;
  runtime::TimePoint free_{};
};

}  // namespace

std::unique_ptr<Store> make_slow_store(std::unique_ptr<Store> store, const SlowDisk& disk,
                                       const runtime::Clock& clock) {
  return std::make_unique<SlowStore>(std::move(store), disk, clock);
}

}  // namespace weir::storage
