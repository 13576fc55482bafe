#include <weir/storage/faulty_store.h>

#include <utility>

#include <weir/base/text.h>

namespace weir::storage {

Status Faults::count(std::string_view name) {
  const int number = count_++;
  const bool fails =
      options_.fail_at >= 0 && (options_.stays ? number >= options_.fail_at : number == options_.fail_at);
  if (!fails) return Status::ok();
  fired_ = true;
  return {options_.code, concat(name, ": made to fail, as operation ", number)};
}

FaultyStore::FaultyStore(std::shared_ptr<Store> store, std::shared_ptr<Faults> faults, FaultyTimes times,
                         const runtime::Clock& clock)
    : DelayedStore(std::move(store), clock), faults_(std::move(faults)), times_(times), random_(times.seed) {}

Capabilities FaultyStore::capabilities() const {
  Capabilities all = inner().capabilities();
  if (times_.most > runtime::Duration{}) all.mappable = all.shareable = false;
  return all;
}

runtime::TimePoint FaultyStore::due(const Operation&, runtime::TimePoint now) {
  if (times_.most <= runtime::Duration{}) return now;
  return now + runtime::Duration(static_cast<runtime::Duration::rep>(
                   random_() % static_cast<std::uint64_t>(times_.most.count() + 1)));
}

FaultyStore::Failure FaultyStore::failure(const Operation& operation) {
  return {faults_->count(op::name_of(operation.what)), faults_->is_before()};
}

Result<std::optional<std::span<std::byte>>> FaultyStore::map(SubfileId id, Offset from, Offset to, bool for_writing) {
  if (!capabilities().mappable) return std::optional<std::span<std::byte>>{};
  return faults_->run("map", [&] { return inner().map(id, from, to, for_writing); });
}

Status FaultyStore::begin_write(SubfileId id, Offset from, Offset to, bool is_covered) {
  return inner().begin_write(id, from, to, is_covered);
}

void FaultyStore::note_written(SubfileId id, Offset to, Offset file_end) { inner().note_written(id, to, file_end); }

void FaultyStore::fence(SubfileId id, bool is_fenced) { inner().fence(id, is_fenced); }

Result<std::optional<share::SharedMemory>> FaultyStore::share(SubfileId id, bool for_writing, Offset expected_bytes,
                                                              share::Peers peers) {
  if (!capabilities().shareable) return std::optional<share::SharedMemory>{};
  return faults_->run("share", [&] { return inner().share(id, for_writing, expected_bytes, peers); });
}

FaultyKeyValue::FaultyKeyValue(std::shared_ptr<KeyValue> map, std::shared_ptr<Faults> faults)
    : map_(std::move(map)), faults_(std::move(faults)) {}

Result<std::optional<std::string>> FaultyKeyValue::get(std::string_view key) {
  return faults_->run("get", [&] { return map_->get(key); });
}

Status FaultyKeyValue::scan(std::string_view prefix, std::string_view after,
                            const std::function<bool(std::string_view, std::string_view)>& visit) {
  return faults_->run("scan", [&] { return map_->scan(prefix, after, visit); });
}

Status FaultyKeyValue::apply(const Batch& batch, bool durable) {
  return faults_->run("apply", [&] { return map_->apply(batch, durable); });
}

void FaultyKeyValue::sync(Done done) {
  done(faults_->run("sync", [&] { return sync_and_wait(*map_); }));
}

}  // namespace weir::storage
