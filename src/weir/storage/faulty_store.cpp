#include <weir/storage/faulty_store.h>

#include <utility>

#include <weir/base/text.h>

namespace weir::storage {

Status Faults::error(std::string_view name, int number) const {
  return {options_.code, concat(name, ": made to fail, as operation ", number)};
}

FaultyStore::FaultyStore(std::shared_ptr<Store> store, std::shared_ptr<Faults> faults)
    : store_(std::move(store)), faults_(std::move(faults)) {}

Status FaultyStore::read(SubfileId id, std::span<const ReadPiece> pieces) {
  return faults_->run("read", [&] { return store_->read(id, pieces); });
}

Status FaultyStore::write(SubfileId id, std::span<const WritePiece> pieces, Offset file_end) {
  return faults_->run("write", [&] { return store_->write(id, pieces, file_end); });
}

Status FaultyStore::truncate(SubfileId id, Offset length, Offset file_end) {
  return faults_->run("truncate", [&] { return store_->truncate(id, length, file_end); });
}

Status FaultyStore::reserve(SubfileId id, Offset from, Offset to) {
  return faults_->run("reserve", [&] { return store_->reserve(id, from, to); });
}

Status FaultyStore::sync(SubfileId id) {
  return faults_->run("sync", [&] { return store_->sync(id); });
}

Result<SubfileInfo> FaultyStore::info(SubfileId id) {
  return faults_->run("info", [&] { return store_->info(id); });
}

Status FaultyStore::remove(SubfileId id) {
  return faults_->run("remove", [&] { return store_->remove(id); });
}

Result<Usage> FaultyStore::usage() {
  return faults_->run("usage", [&] { return store_->usage(); });
}

Result<Offset> FaultyStore::stored_bytes() {
  return faults_->run("stored_bytes", [&] { return store_->stored_bytes(); });
}

Result<std::vector<SubfileId>> FaultyStore::list() {
  return faults_->run("list", [&] { return store_->list(); });
}

Result<std::optional<std::span<std::byte>>> FaultyStore::map(SubfileId id, Offset from, Offset to, bool for_writing) {
  return faults_->run("map", [&] { return store_->map(id, from, to, for_writing); });
}

void FaultyStore::note_written(SubfileId id, Offset to, Offset file_end) { store_->note_written(id, to, file_end); }

void FaultyStore::fence(SubfileId id, bool is_fenced) { store_->fence(id, is_fenced); }

std::uint64_t FaultyStore::id() const { return store_->id(); }

bool FaultyStore::waits() const { return store_->waits(); }

bool FaultyStore::keeps_about() const { return store_->keeps_about(); }

Label FaultyStore::label() const { return store_->label(); }

Status FaultyStore::keep_about(SubfileId id, std::span<const std::byte> about) {
  return faults_->run("keep_about", [&] { return store_->keep_about(id, about); });
}

Result<std::optional<std::vector<std::byte>>> FaultyStore::kept_about(SubfileId id) {
  return faults_->run("kept_about", [&] { return store_->kept_about(id); });
}

Result<std::vector<SubfileId>> FaultyStore::list_abouts() {
  return faults_->run("list_abouts", [&] { return store_->list_abouts(); });
}

Status FaultyStore::set_label(const Label& label) {
  return faults_->run("set_label", [&] { return store_->set_label(label); });
}

Status FaultyStore::keep_fences(std::span<const KeptFence> fences) {
  return faults_->run("keep_fences", [&] { return store_->keep_fences(fences); });
}

Result<std::vector<KeptFence>> FaultyStore::kept_fences() {
  return faults_->run("kept_fences", [&] { return store_->kept_fences(); });
}

Result<std::optional<SharedMemory>> FaultyStore::share(SubfileId id, bool for_writing, Offset expected_bytes,
                                                       Peers peers) {
  return faults_->run("share", [&] { return store_->share(id, for_writing, expected_bytes, peers); });
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
