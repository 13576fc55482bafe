#include <weir/storage/volatile_store.h>

#include <algorithm>
#include <utility>

#include <weir/base/random_id.h>
#include <weir/base/text.h>

namespace weir::storage {
namespace {

constexpr std::size_t kSectorBytes = 512;

void apply_to(VolatileTable::Entries& entries, const Batch& batch) {
  for (const Batch::Change& change : batch.changes) {
    if (change.value) {
      entries.insert_or_assign(change.key, *change.value);
    } else {
      entries.erase(change.key);
    }
  }
}

}  // namespace

// ---------------------------------------------------------------- power

bool Power::was_cut() const {
  const std::lock_guard lock(mutex_);
  return was_cut_;
}

int Power::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

Status Power::off(std::string_view operation) const {
  return {ErrorCode::kIoError, concat(operation, ": the power was cut before change ", count_)};
}

Status Power::take(std::string_view operation) {
  const std::lock_guard lock(mutex_);
  was_cut_ = was_cut_ || count_ == cut_at_;
  if (was_cut_) return off(operation);
  ++count_;
  return Status::ok();
}

Status Power::check(std::string_view operation) const {
  const std::lock_guard lock(mutex_);
  return was_cut_ ? off(operation) : Status::ok();
}

// ---------------------------------------------------------------- bytes

VolatileDisk::VolatileDisk() : id(random_id()) {}

void VolatileDisk::survive(Survival survival, std::mt19937_64& random) {
  const auto is_new = [&] {
    return survival == Survival::kEverything || (survival == Survival::kRandom && random() % 2 == 0);
  };
  const auto find_in = [](const std::map<SubfileId, Subfile>& subfiles, SubfileId wanted) {
    const auto found = subfiles.find(wanted);
    return found == subfiles.end() ? nullptr : &found->second;
  };
  std::map<SubfileId, Subfile> left;
  std::map<SubfileId, Subfile> all = durable;
  all.insert(now.begin(), now.end());
  for (const auto& entry : all) {
    const Subfile* before = find_in(durable, entry.first);
    const Subfile* after = find_in(now, entry.first);
    const Subfile* shape = is_new() ? after : before;
    if (shape == nullptr) continue;
    Subfile subfile{std::vector<std::byte>(shape->bytes.size()), shape->file_end};
    for (std::size_t at = 0; at < subfile.bytes.size(); at += kSectorBytes) {
      const Subfile* from = is_new() ? after : before;
      if (from == nullptr) continue;
      const std::size_t end = std::min({at + kSectorBytes, subfile.bytes.size(), from->bytes.size()});
      for (std::size_t i = at; i < end; ++i) subfile.bytes[i] = from->bytes[i];
    }
    left.emplace(entry.first, std::move(subfile));
  }
  now = durable = std::move(left);
}

VolatileStore::VolatileStore(std::shared_ptr<Power> power, std::shared_ptr<VolatileDisk> disk)
    : power_(std::move(power)), disk_(std::move(disk)) {}

Status VolatileStore::read(SubfileId id, std::span<const ReadPiece> pieces) {
  WEIR_RETURN_IF_ERROR(power_->check("read"));
  const auto found = disk_->now.find(id);
  for (const ReadPiece& piece : pieces) {
    std::fill(piece.memory.begin(), piece.memory.end(), std::byte{0});
    if (found == disk_->now.end()) continue;
    const std::vector<std::byte>& bytes = found->second.bytes;
    for (std::size_t i = 0; i < piece.memory.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(piece.offset) + i;
      if (at < bytes.size()) piece.memory[i] = bytes[at];
    }
  }
  return Status::ok();
}

Status VolatileStore::write(SubfileId id, std::span<const WritePiece> pieces, Offset file_end) {
  WEIR_RETURN_IF_ERROR(power_->take("write"));
  VolatileDisk::Subfile& subfile = disk_->now[id];
  for (const WritePiece& piece : pieces) {
    const auto from = static_cast<std::size_t>(piece.offset);
    if (subfile.bytes.size() < from + piece.memory.size()) subfile.bytes.resize(from + piece.memory.size());
    std::copy(piece.memory.begin(), piece.memory.end(), subfile.bytes.begin() + piece.offset);
  }
  subfile.file_end = std::max(subfile.file_end, file_end);
  return Status::ok();
}

Status VolatileStore::truncate(SubfileId id, Offset length, Offset file_end) {
  WEIR_RETURN_IF_ERROR(power_->take("truncate"));
  VolatileDisk::Subfile& subfile = disk_->now[id];
  subfile.bytes.resize(static_cast<std::size_t>(length));
  subfile.file_end = file_end;
  return Status::ok();
}

Status VolatileStore::reserve(SubfileId, Offset, Offset) { return power_->check("reserve"); }

Status VolatileStore::sync(SubfileId id) {
  WEIR_RETURN_IF_ERROR(power_->take("sync"));
  if (const auto found = disk_->now.find(id); found != disk_->now.end()) disk_->durable[id] = found->second;
  return Status::ok();
}

Result<SubfileInfo> VolatileStore::info(SubfileId id) {
  WEIR_RETURN_IF_ERROR(power_->check("info"));
  const auto found = disk_->now.find(id);
  if (found == disk_->now.end()) return SubfileInfo{};
  const auto length = static_cast<Offset>(found->second.bytes.size());
  return SubfileInfo{length, found->second.file_end, length};
}

Status VolatileStore::remove(SubfileId id) {
  WEIR_RETURN_IF_ERROR(power_->take("remove"));
  disk_->now.erase(id);
  return Status::ok();
}

Result<Usage> VolatileStore::usage() {
  WEIR_RETURN_IF_ERROR(power_->check("usage"));
  return Usage{Offset{1} << 40, 0, static_cast<Offset>(disk_->now.size())};
}

Result<std::vector<SubfileId>> VolatileStore::list() {
  WEIR_RETURN_IF_ERROR(power_->check("list"));
  std::vector<SubfileId> ids;
  for (const auto& entry : disk_->now) ids.push_back(entry.first);
  return ids;
}

Status VolatileStore::keep_fences(std::span<const KeptFence> fences) {
  WEIR_RETURN_IF_ERROR(power_->take("keep_fences"));
  disk_->fences.assign(fences.begin(), fences.end());
  return Status::ok();
}

Result<std::vector<KeptFence>> VolatileStore::kept_fences() {
  WEIR_RETURN_IF_ERROR(power_->check("kept_fences"));
  return disk_->fences;
}

// ---------------------------------------------------------------- names

void VolatileTable::survive(Survival survival, std::mt19937_64& random) {
  std::size_t count = 0;
  if (survival == Survival::kEverything) count = since.size();
  if (survival == Survival::kRandom) count = random() % (since.size() + 1);
  for (std::size_t i = 0; i < count; ++i) apply_to(durable, since[i]);
  since.clear();
  now = durable;
}

VolatileKeyValue::VolatileKeyValue(std::shared_ptr<Power> power, std::shared_ptr<VolatileTable> table)
    : power_(std::move(power)), table_(std::move(table)) {}

Result<std::optional<std::string>> VolatileKeyValue::get(std::string_view key) {
  WEIR_RETURN_IF_ERROR(power_->check("get"));
  const auto found = table_->now.find(key);
  if (found == table_->now.end()) return std::optional<std::string>{};
  return std::optional{found->second};
}

Status VolatileKeyValue::scan(std::string_view prefix, std::string_view after,
                              const std::function<bool(std::string_view, std::string_view)>& visit) {
  WEIR_RETURN_IF_ERROR(power_->check("scan"));
  auto at = after < prefix ? table_->now.lower_bound(prefix) : table_->now.upper_bound(after);
  for (; at != table_->now.end() && at->first.starts_with(prefix); ++at) {
    if (!visit(at->first, at->second)) break;
  }
  return Status::ok();
}

Status VolatileKeyValue::apply(const Batch& batch, bool durable) {
  WEIR_RETURN_IF_ERROR(power_->take("apply"));
  apply_to(table_->now, batch);
  table_->since.push_back(batch);
  return durable ? sync_and_wait(*this) : Status::ok();
}

void VolatileKeyValue::sync(Done done) {
  const Status status = power_->take("sync");
  if (status.is_ok()) {
    table_->durable = table_->now;
    table_->since.clear();
  }
  done(status);
}

}  // namespace weir::storage
