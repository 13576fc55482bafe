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
// One Faults may stand behind several stores and maps: their operations are counted together.  A store can also delay
// its operations by random times, so that they complete out of order.

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>

#include <weir/runtime/runtime.h>
#include <weir/storage/internal/delayed_store.h>
#include <weir/storage/key_value.h>
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
    Status error = count(name);
    if (error.is_ok()) return operation();
    if (!is_before()) (void)operation();
    return error;
  }
  /// Counts an operation.  \returns the error that it is to fail with
  Status count(std::string_view name);
  /// It fails in place of the operation; otherwise once that is done.
  [[nodiscard]] bool is_before() const noexcept { return options_.when == FaultOptions::When::kBefore; }

 private:
  const FaultOptions options_;
  std::atomic<int> count_{0};
  std::atomic<bool> fired_{false};
};

/// How long operations take, at random: those that do not conflict overtake each other and complete in any order.
struct FaultyTimes {
  runtime::Duration most{};  ///< 0: no delay.
  std::uint64_t seed = 1;
};

class FaultyStore final : public internal::DelayedStore {
 public:
  FaultyStore(std::shared_ptr<Store> store, std::shared_ptr<Faults> faults, FaultyTimes times = {},
              const runtime::Clock& clock = *runtime::system_runtime().clock);
  ~FaultyStore() override { stop(); }

  /// Those of the store, but memory cannot be mapped where operations are delayed.
  [[nodiscard]] Capabilities capabilities() const override;
  Result<std::optional<std::span<std::byte>>> map(SubfileId id, Offset from, Offset to, bool for_writing) override;
  Status begin_write(SubfileId id, Offset from, Offset to, bool is_covered) override;  // is not counted
  void note_written(SubfileId id, Offset to, Offset file_end) override;                // cannot fail, is not counted
  void allow_ahead(bool is_allowed) override { inner().allow_ahead(is_allowed); }
  void fence(SubfileId id, bool is_fenced) override;  // likewise
  Result<std::optional<share::SharedMemory>> share(SubfileId id, bool for_writing, Offset expected_bytes,
                                                   share::Peers peers) override;

 private:
  runtime::TimePoint due(const Operation& operation, runtime::TimePoint now) override;
  [[nodiscard]] bool may_begin(std::size_t) const override { return true; }
  Failure failure(const Operation& operation) override;

  std::shared_ptr<Faults> faults_;
  FaultyTimes times_;
  std::mt19937_64 random_;
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
