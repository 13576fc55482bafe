#pragma once

// A store and a key-value map that fail on demand, for tests: fail the n-th operation, for every n.
//
//   for (int n = 0;; ++n) {
//     const auto faults = std::make_shared<Faults>(FaultOptions{.fail_at = n});
//     FaultyStore store{std::move(real_store), faults};
//     ... use it; check that what failed says so, and that all else is whole
//     if (!faults->fired()) break;  // past the last operation
//   }
//
// One Faults may stand behind several stores and maps: their operations are counted together.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <weir/storage/key_value.h>
#include <weir/storage/label.h>
#include <weir/storage/shared_memory.h>
#include <weir/storage/store.h>

namespace weir::storage {

struct FaultOptions {
  enum class When { kBefore, kAfter };  ///< Instead of the operation; or once it is done, as if its answer were lost.
  static constexpr int kNever = -1;

  int fail_at = kNever;  ///< Number of the operation that fails, from 0.
  ErrorCode code = ErrorCode::kIoError;
  When when = When::kBefore;
  bool stays = false;  ///< All operations after it fail too: the disk is dead.
};

/// Counts operations, and says which fails.
/// \threadsafety Safe from any thread.
class Faults {
 public:
  explicit Faults(FaultOptions options) : options_(options) {}

  /// How many operations there were.
  [[nodiscard]] int count() const noexcept { return count_; }
  [[nodiscard]] bool fired() const noexcept { return fired_; }

  /// Runs the operation, or fails in its place.  `operation` returns a Status or a Result.
  template <typename Operation>
  auto run(std::string_view name, Operation operation) -> decltype(operation()) {
    const int number = count_++;
    const bool fails =
        options_.fail_at >= 0 && (options_.stays ? number >= options_.fail_at : number == options_.fail_at);
    if (!fails) return operation();
    fired_ = true;
    if (options_.when == FaultOptions::When::kAfter) (void)operation();
    return error(name, number);
  }

 private:
  [[nodiscard]] Status error(std::string_view name, int number) const;

  const FaultOptions options_;
  std::atomic<int> count_{0};
  std::atomic<bool> fired_{false};
};

class FaultyStore final : public Store {
 public:
  FaultyStore(std::shared_ptr<Store> store, std::shared_ptr<Faults> faults);

  Status read(SubfileId id, std::span<const ReadPiece> pieces) override;
  Status write(SubfileId id, std::span<const WritePiece> pieces, Offset file_end) override;
  Status truncate(SubfileId id, Offset length, Offset file_end) override;
  Status reserve(SubfileId id, Offset from, Offset to) override;
  Status sync(SubfileId id) override;
  Result<SubfileInfo> info(SubfileId id) override;
  Status remove(SubfileId id) override;
  Result<Usage> usage() override;
  Result<Offset> stored_bytes() override;
  Result<std::vector<SubfileId>> list() override;
  Result<std::optional<std::span<std::byte>>> map(SubfileId id, Offset from, Offset to, bool for_writing) override;
  void note_written(SubfileId id, Offset to, Offset file_end) override;  // cannot fail, is not counted
  void fence(SubfileId id, bool is_fenced) override;                     // likewise
  [[nodiscard]] std::uint64_t id() const override;                       // likewise
  [[nodiscard]] bool waits() const override;                             // likewise
  [[nodiscard]] bool keeps_about() const override;                       // likewise
  [[nodiscard]] Label label() const override;                            // likewise
  Status keep_about(SubfileId id, std::span<const std::byte> about) override;
  Result<std::optional<std::vector<std::byte>>> kept_about(SubfileId id) override;
  Result<std::vector<SubfileId>> list_abouts() override;
  Status set_label(const Label& label) override;
  Status keep_fences(std::span<const KeptFence> fences) override;
  Result<std::vector<KeptFence>> kept_fences() override;
  Result<std::optional<SharedMemory>> share(SubfileId id, bool for_writing, Offset expected_bytes,
                                            Peers peers) override;

 private:
  std::shared_ptr<Store> store_;
  std::shared_ptr<Faults> faults_;
};

class FaultyKeyValue final : public KeyValue {
 public:
  FaultyKeyValue(std::shared_ptr<KeyValue> map, std::shared_ptr<Faults> faults);

  Result<std::optional<std::string>> get(std::string_view key) override;
  Status scan(std::string_view prefix, std::string_view after,
              const std::function<bool(std::string_view key, std::string_view value)>& visit) override;
  Status apply(const Batch& batch, bool durable) override;
  void sync(Done done) override;

 private:
  std::shared_ptr<KeyValue> map_;
  std::shared_ptr<Faults> faults_;
};

}  // namespace weir::storage
