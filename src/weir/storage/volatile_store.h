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

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <weir/runtime/runtime.h>
#include <weir/storage/internal/immediate_store.h>
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

  /// From now on.
  void cut();
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
  /// What is written as a whole or not at all when the power fails, and the unit in which space is taken.
  static constexpr std::size_t kSectorBytes = 512;
  struct Subfile {
    std::map<Offset, std::array<std::byte, kSectorBytes>> sectors;  ///< By number; missing ones are zero.
    Offset length = 0;
    Offset file_end = 0;

    [[nodiscard]] Offset stored_bytes() const { return static_cast<Offset>(sectors.size() * kSectorBytes); }
    /// Calls `visit(sector number, offset in the sector, bytes before, bytes in it)` for the sectors of a range.
    template <typename Visit>
    static void for_sectors(Offset offset, std::size_t size, Visit visit) {
      for (std::size_t done = 0; done < size;) {
        const auto at = static_cast<std::size_t>(offset) + done;
        const std::size_t count = std::min(kSectorBytes - at % kSectorBytes, size - done);
        visit(static_cast<Offset>(at / kSectorBytes), at % kSectorBytes, done, count);
        done += count;
      }
    }
  };
  static constexpr Offset kUnlimited = Offset{1} << 40;

  Offset capacity_bytes = kUnlimited;  ///< Writes that need more space fail with kNoSpace.
  std::map<SubfileId, Subfile> now;
  std::map<SubfileId, Subfile> durable;
  std::vector<KeptFence> fences;
  std::uint64_t id = 0;

  explicit VolatileDisk(runtime::Random& random = *runtime::system_runtime().random);
  /// What is left becomes all there is: of each subfile, sector by sector what was durable or what was there.
  void survive(Survival survival, std::mt19937_64& random);
  [[nodiscard]] Offset used_bytes() const;
};

class VolatileStore final : public internal::ImmediateStore {
 public:
  VolatileStore(std::shared_ptr<Power> power, std::shared_ptr<VolatileDisk> disk);

  [[nodiscard]] Capabilities capabilities() const override { return {.durable = true}; }
  [[nodiscard]] std::uint64_t id() const override { return disk_->id; }

 private:
  Status run(op::Any& operation) override;
  /// Space for one more sector; `used` counts it.
  Status take_sector(const char* operation, Offset& used) const;
  Status run(const op::Read& read);
  Status run(const op::Write& write);
  Status run(const op::Truncate& truncate);
  Status run(const op::Reserve& reserve);
  Status run(const op::Sync& sync);
  Status run(const op::Remove& remove);
  Status run(op::Info& info);
  Status run(op::GetUsage& usage);
  Status run(op::List& list);
  Status run(const op::KeepFences& keep);
  Status run(op::KeptFences& kept);
  template <typename Other>
  Status run(const Other&) {
    return Status::ok();
  }

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
