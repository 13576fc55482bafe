#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <weir/storage/key_value.h>

namespace weir::storage {
namespace {

class MemoryKeyValue final : public KeyValue {
 public:
  Result<std::optional<std::string>> get(std::string_view key) override {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::optional<std::string>{};
    return std::optional{found->second};
  }

  Status scan(std::string_view prefix, std::string_view after,
              const std::function<bool(std::string_view, std::string_view)>& visit) override {
    auto at = after < prefix ? entries_.lower_bound(prefix) : entries_.upper_bound(after);
    for (; at != entries_.end() && at->first.starts_with(prefix); ++at) {
      if (!visit(at->first, at->second)) break;
    }
    return Status::ok();
  }

  Status apply(const Batch& batch, bool durable) override {
    (void)durable;  // memory lasts as long as the process
    for (const Batch::Change& change : batch.changes) {
      if (change.value) {
        entries_.insert_or_assign(change.key, *change.value);
      } else {
        entries_.erase(change.key);
      }
    }
    return Status::ok();
  }

  void sync(Done done) override { done(Status::ok()); }

 private:
  std::map<std::string, std::string, std::less<>> entries_;
};

}  // namespace

Status sync_and_wait(KeyValue& map) {
  std::promise<Status> result;
  map.sync([&](const Status& status) { result.set_value(status); });
  return result.get_future().get();
}

std::unique_ptr<KeyValue> make_memory_key_value() { return std::make_unique<MemoryKeyValue>(); }

}  // namespace weir::storage
