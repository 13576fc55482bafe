#pragma once

// A small ordered map from bytes to bytes, the ground that metadata stands on: in memory (MemoryKeyValue) or in RocksDB
// (RocksKeyValue).

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weir/base/result.h>
#include <weir/runtime/runtime.h>

namespace weir::storage {

/// Changes that happen all or not at all.
struct Batch {
  struct Change {
    std::string key;
    std::optional<std::string> value;  ///< Nothing: the key goes.
  };
  std::vector<Change> changes;
  bool frees_room = false;  ///< A removal: it may use what a map keeps in reserve for the time when its disk is full.

  void put(std::string key, std::string value) { changes.push_back({std::move(key), std::move(value)}); }
  void erase(std::string key) { changes.push_back({std::move(key), std::nullopt}); }
};

/// \threadsafety One thread at a time; what sync() was asked for happens beside it.
class KeyValue {
 public:
  virtual ~KeyValue() = default;

  virtual Result<std::optional<std::string>> get(std::string_view key) = 0;

  /// Calls `visit(key, value)` for keys that start with `prefix` and are greater than `after`, ascending, until it
  /// returns false.
  virtual Status scan(std::string_view prefix, std::string_view after,
                      const std::function<bool(std::string_view key, std::string_view value)>& visit) = 0;

  /// Survives the crash of the process when it returns; with `durable`, that of the machine too, and so does all that
  /// was applied before.  An empty batch changes nothing.
  /// \error kNoSpace: nothing was changed; works again when there is space
  virtual Status apply(const Batch& batch, bool durable) = 0;

  using Done = std::function<void(const Status&)>;
  /// Calls `done` once all that was applied before survives a crash of the machine, or with the error that prevents it.
  /// On any thread, maybe before this returns; never waits.  Calls that come together share one wait for the disk, and
  /// end in the order in which they came.
  virtual void sync(Done done) = 0;
};

/// Waits for KeyValue::sync().
Status sync_and_wait(KeyValue& map);

std::unique_ptr<KeyValue> make_memory_key_value();

/// Opens or makes a database in `directory`; docs/formats.md says what is in it.
/// \error kCorrupt if part of what was made durable cannot be read any more: nothing is changed then; kNoSpace;
/// kIoError with RocksDB's words
Result<std::unique_ptr<KeyValue>> open_rocks_key_value(const std::string& directory,
                                                       const runtime::Runtime& with = runtime::system_runtime());

}  // namespace weir::storage
