#pragma once

// A store and a key-value map in memory that lose what is not durable when the power fails, for tests: cut the power
// before the n-th change, for every n, and see what is left.
//
//   for (int n = 0;; ++n) {
//     const auto power = std::make_shared<Power>(n);
//     VolatileStore store{power, disk};  VolatileKeyValue map{power, table};
//     ... use them, and note what was reported done
//     disk->survive(...), table->survive(...);  // what the next server finds
//     if (!power->was_cut()) break;             // past the last change
//   }

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <weir/storage/key_value.h>
#include <weir/storage/store.h>

namespace weir::storage {

/// Of what was not durable when the power failed.
enum class Survival { kNothing, kEverything, kRandom };

/// Counts changes and syncs of stores and maps together; from one of them on, all operations fail.
/// \threadsafety Safe from any thread.
class Power {
 public:
  static constexpr int kNever = -1;
  explicit Power(int cut_at = kNever) : cut_at_(cut_at) {}

  [[nodiscard]] bool was_cut() const;
  [[nodiscard]] int count() const;
  /// Whether there is power for one more change.
  Status take(std::string_view operation);
  /// The same for what changes nothing.
  Status check(std::string_view operation) const;

 private:
  [[nodiscard]] Status off(std::string_view operation) const;

  const int cut_at_;
  mutable std::mutex mutex_;
  int count_ = 0;
  bool was_cut_ = false;
};

/// What a VolatileStore keeps.
struct VolatileDisk {
  struct Subfile {
    std::vector<std::byte> bytes;
    Offset file_end = 0;
  };
  std::map<SubfileId, Subfile> now;
  std::map<SubfileId, Subfile> durable;
  std::vector<KeptFence> fences;
  std::uint64_t id = 0;

  VolatileDisk();
  /// What is left becomes all there is: of each subfile, sector by sector what was durable or what was there.
  void survive(Survival survival, std::mt19937_64& random);
};

class VolatileStore final : public Store {
 public:
  VolatileStore(std::shared_ptr<Power> power, std::shared_ptr<VolatileDisk> disk);

  Status read(SubfileId id, std::span<const ReadPiece> pieces) override;
  Status write(SubfileId id, std::span<const WritePiece> pieces, Offset file_end) override;
  Status truncate(SubfileId id, Offset length, Offset file_end) override;
  Status reserve(SubfileId id, Offset from, Offset to) override;
  Status sync(SubfileId id) override;
  Result<SubfileInfo> info(SubfileId id) override;
  Status remove(SubfileId id) override;
  Result<Usage> usage() override;
  Result<std::vector<SubfileId>> list() override;
  Status keep_fences(std::span<const KeptFence> fences) override;
  Result<std::vector<KeptFence>> kept_fences() override;
  [[nodiscard]] std::uint64_t id() const override { return disk_->id; }
  [[nodiscard]] bool waits() const override { return true; }

 private:
  std::shared_ptr<Power> power_;
  std::shared_ptr<VolatileDisk> disk_;
};

/// What a VolatileKeyValue keeps: batches in order, of which the first ones are durable.
struct VolatileTable {
  using Entries = std::map<std::string, std::string, std::less<>>;
  Entries now;
  Entries durable;
  std::vector<Batch> since;

  /// What is left becomes all there is: the durable batches, and the first ones of those behind them.
  void survive(Survival survival, std::mt19937_64& random);
};

class VolatileKeyValue final : public KeyValue {
 public:
  VolatileKeyValue(std::shared_ptr<Power> power, std::shared_ptr<VolatileTable> table);

  Result<std::optional<std::string>> get(std::string_view key) override;
  Status scan(std::string_view prefix, std::string_view after,
              const std::function<bool(std::string_view key, std::string_view value)>& visit) override;
  Status apply(const Batch& batch, bool durable) override;
  void sync(Done done) override;

 private:
  std::shared_ptr<Power> power_;
  std::shared_ptr<VolatileTable> table_;
};

}  // namespace weir::storage
