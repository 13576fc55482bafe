#pragma once

// A small ordered map from bytes to bytes, the ground that metadata stands on: in memory (MemoryKeyValue) or in RocksDB (RocksKeyValue).

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weir/base/result.h>

namespace weir::storage {

/// Changes that happen all or not at all.
struct Batch {
  struct Change {
    std::string key;
    std::optional<std::string> value;  ///< Nothing: the key goes.
  };
  std::vector<Change> changes;

  void put(std::string key, std::string value) { changes.push_back({std::move(key), std::move(value)}); }
  void erase(std::string key) { changes.push_back({std::move(key), std::nullopt}); }
};

/// \threadsafety One thread at a time.
class KeyValue {
 public:
  virtual ~KeyValue() = default;

  virtual Result<std::optional<std::string>> get(std::string_view key) = 0;

  /// Calls `visit(key, value)` for keys that start with `prefix` and are greater than `after`, ascending, until it returns false.
  virtual Status scan(std::string_view prefix, std::string_view after,
                      const std::function<bool(std::string_view key, std::string_view value)>& visit) = 0;

  /// Survives the crash of the process when it returns; with `durable`, that of the machine too, and so does all that was
  /// applied before.  An empty batch changes nothing.
  virtual Status apply(const Batch& batch, bool durable) = 0;
};

std::unique_ptr<KeyValue> make_memory_key_value();

/// Opens or makes a database in `directory`.  \error kIoError with RocksDB's words
Result<std::unique_ptr<KeyValue>> open_rocks_key_value(const std::string& directory);

}  // namespace weir::storage
