#include <weir/storage/slow_store.h>

#include <algorithm>
#include <thread>
#include <utility>

#include <weir/storage/label.h>

namespace weir::storage {

namespace {

class SlowStore final : public Store {
 public:
  SlowStore(std::unique_ptr<Store> store, const SlowDisk& disk, SlowTime time)
      : store_(std::move(store)), disk_(disk), time_(std::move(time)) {}

  Status read(SubfileId id, std::span<const ReadPiece> pieces) override {
    pass_head(id, pieces);
    return store_->read(id, pieces);
  }
  Status write(SubfileId id, std::span<const WritePiece> pieces, Offset file_end) override {
    pass_head(id, pieces);
    return store_->write(id, pieces, file_end);
  }

  [[nodiscard]] bool waits() const override { return true; }

  Status truncate(SubfileId id, Offset length, Offset file_end) override {
    return store_->truncate(id, length, file_end);
  }
  Status reserve(SubfileId id, Offset from, Offset to) override { return store_->reserve(id, from, to); }
  Status sync(SubfileId id) override { return store_->sync(id); }
  Result<SubfileInfo> info(SubfileId id) override { return store_->info(id); }
  Status remove(SubfileId id) override { return store_->remove(id); }
  Result<Usage> usage() override { return store_->usage(); }
  Result<Offset> stored_bytes() override { return store_->stored_bytes(); }
  Result<std::vector<SubfileId>> list() override { return store_->list(); }
  Status keep_fences(std::span<const KeptFence> fences) override { return store_->keep_fences(fences); }
  Result<std::vector<KeptFence>> kept_fences() override { return store_->kept_fences(); }
  [[nodiscard]] bool keeps_about() const override { return store_->keeps_about(); }
  Status keep_about(SubfileId id, std::span<const std::byte> about) override { return store_->keep_about(id, about); }
  Result<std::optional<std::vector<std::byte>>> kept_about(SubfileId id) override { return store_->kept_about(id); }
  Result<std::vector<SubfileId>> list_abouts() override { return store_->list_abouts(); }
  [[nodiscard]] Label label() const override { return store_->label(); }
  Status set_label(const Label& label) override { return store_->set_label(label); }
  [[nodiscard]] std::uint64_t id() const override { return store_->id(); }

 private:
  // Sleeps once for all pieces: short sleeps take longer than they should.
  template <typename Piece>
  void pass_head(SubfileId id, std::span<const Piece> pieces) {
    std::chrono::nanoseconds busy{0};
    for (const Piece& piece : pieces) {
      if (piece.memory.empty()) continue;
      if (id != at_ || piece.offset != next_) busy += disk_.seek;
      const double seconds = static_cast<double>(piece.memory.size()) / static_cast<double>(disk_.bytes_per_second);
      busy += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
      at_ = id;
      next_ = piece.offset + static_cast<Offset>(piece.memory.size());
    }
    if (busy.count() == 0) return;
    free_ = std::max(free_, time_.now()) + busy;
    time_.sleep_until(free_);
  }

  std::unique_ptr<Store> store_;
  SlowDisk disk_;
  SlowTime time_;
  SubfileId at_;  // where the head is; no subfile has this id
  Offset next_ = 0;
  SlowTime::Point free_{};
};

}  // namespace

SlowTime SlowTime::real() {
  return {[] { return std::chrono::steady_clock::now(); }, [](Point point) { std::this_thread::sleep_until(point); }};
}

std::unique_ptr<Store> make_slow_store(std::unique_ptr<Store> store, const SlowDisk& disk, SlowTime time) {
  return std::make_unique<SlowStore>(std::move(store), disk, std::move(time));
}

}  // namespace weir::storage
