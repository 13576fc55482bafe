#include <weir/storage/volatile_store.h>

#include <algorithm>
#include <utility>

#include <weir/base/text.h>

namespace weir::storage {
namespace {

template <typename Piece>
Status check_inside(const char* operation, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    const auto size = static_cast<Offset>(piece.memory.size());
    if (0 <= piece.offset && piece.offset <= kMaxBytes && size <= kMaxBytes - piece.offset) continue;
    return out_of_range(concat(operation, ": ", size, " bytes at ", piece.offset, " are not within 0 and 2^62"));
  }
  return Status::ok();
}

Status check_inside(const char* operation, Offset from, Offset to) {
  if (0 <= from && from <= to && to <= kMaxBytes) return Status::ok();
  return out_of_range(concat(operation, ": bytes ", from, " to ", to, " are not within 0 and 2^62"));
}

void clear_behind(VolatileDisk::Subfile& subfile, Offset length) {
  constexpr auto kSector = static_cast<Offset>(VolatileDisk::kSectorBytes);
  subfile.sectors.erase(subfile.sectors.lower_bound(ceil_div(length, kSector)), subfile.sectors.end());
  if (const auto last = subfile.sectors.find(length / kSector); last != subfile.sectors.end()) {
    std::fill(last->second.begin() + length % kSector, last->second.end(), std::byte{0});
  }
}

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

void Power::cut() {
  const std::lock_guard lock(mutex_);
  was_cut_ = true;
}

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

VolatileDisk::VolatileDisk(runtime::Random& random) : id(random.id()) {}

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
    Subfile subfile{{}, shape->length, shape->file_end};
    for (const Subfile* source : {before, after}) {
      if (source == nullptr) continue;
      for (const auto& sector : source->sectors) {
        if (sector.first * static_cast<Offset>(kSectorBytes) < shape->length) subfile.sectors.try_emplace(sector.first);
      }
    }
    for (auto& [number, sector] : subfile.sectors) {
      const Subfile* from = is_new() ? after : before;
      if (from == nullptr) continue;
      if (const auto found = from->sectors.find(number); found != from->sectors.end()) sector = found->second;
    }
    clear_behind(subfile, subfile.length);
    left.emplace(entry.first, std::move(subfile));
  }
  now = durable = std::move(left);
}

Offset VolatileDisk::used_bytes() const {
  Offset used = 0;
  for (const auto& entry : now) used += entry.second.stored_bytes();
  return used;
}

VolatileStore::VolatileStore(std::shared_ptr<Power> power, std::shared_ptr<VolatileDisk> disk)
    : power_(std::move(power)), disk_(std::move(disk)) {}

Status VolatileStore::run(op::Any& operation) {
  const bool changes = std::visit(
                           [](const auto& what) {
                             return !requires { what.result; };
                           },
                           operation) &&
                       !std::holds_alternative<op::Read>(operation) && !std::holds_alternative<op::Reserve>(operation);
  const char* name = op::name_of(operation);
  WEIR_RETURN_IF_ERROR(changes ? power_->take(name) : power_->check(name));
  return std::visit([this](auto& what) { return run(what); }, operation);
}

Status VolatileStore::take_sector(const char* operation, Offset& used) const {
  constexpr auto kSector = static_cast<Offset>(VolatileDisk::kSectorBytes);
  if (used + kSector > disk_->capacity_bytes) {
    return {ErrorCode::kNoSpace,
            concat(operation, ": the simulated disk is full: ", used, " bytes used of ", disk_->capacity_bytes)};
  }
  used += kSector;
  return Status::ok();
}

Status VolatileStore::run(const op::Read& read) {
  WEIR_RETURN_IF_ERROR(check_inside("read", read.pieces));
  const auto found = disk_->now.find(read.id);
  for (const ReadPiece& piece : read.pieces) {
    std::fill(piece.memory.begin(), piece.memory.end(), std::byte{0});
    if (found == disk_->now.end()) continue;
    VolatileDisk::Subfile::for_sectors(piece.offset, piece.memory.size(),
                                       [&](Offset number, std::size_t at, std::size_t done, std::size_t count) {
                                         const auto sector = found->second.sectors.find(number);
                                         if (sector == found->second.sectors.end()) return;
                                         std::copy_n(sector->second.data() + at, count, piece.memory.data() + done);
                                       });
  }
  return Status::ok();
}

// As on any disk, a write that finds the disk full has written its first part.
Status VolatileStore::run(const op::Write& write) {
  WEIR_RETURN_IF_ERROR(check_inside("write", write.pieces));
  WEIR_RETURN_IF_ERROR(check_inside("write", 0, write.file_end));
  VolatileDisk::Subfile& subfile = disk_->now[write.id];
  Offset used = disk_->used_bytes();
  Status status;
  for (const WritePiece& piece : write.pieces) {
    VolatileDisk::Subfile::for_sectors(
        piece.offset, piece.memory.size(), [&](Offset number, std::size_t at, std::size_t done, std::size_t count) {
          if (status.is_ok() && !subfile.sectors.contains(number)) status = take_sector("write", used);
          if (!status.is_ok()) return;
          std::copy_n(piece.memory.data() + done, count, subfile.sectors[number].data() + at);
          subfile.length = std::max(subfile.length, piece.offset + static_cast<Offset>(done + count));
        });
    if (!status.is_ok()) return status;
  }
  subfile.file_end = std::max(subfile.file_end, write.file_end);
  return Status::ok();
}

Status VolatileStore::run(const op::Truncate& truncate) {
  WEIR_RETURN_IF_ERROR(check_inside("truncate", 0, truncate.length));
  WEIR_RETURN_IF_ERROR(check_inside("truncate", 0, truncate.file_end));
  VolatileDisk::Subfile& subfile = disk_->now[truncate.id];
  clear_behind(subfile, truncate.length);
  subfile.length = truncate.length;
  subfile.file_end = truncate.file_end;
  return Status::ok();
}

Status VolatileStore::run(const op::Reserve& reserve) {
  WEIR_RETURN_IF_ERROR(check_inside("reserve", reserve.from, reserve.to));
  if (reserve.from == reserve.to) return Status::ok();
  constexpr Offset kMostReserved = Offset{64} << 20;  // as a disk would: pages that are reserved are there
  if (reserve.to - reserve.from > kMostReserved)
    return {ErrorCode::kNoSpace, concat("reserve: only ", kMostReserved, " bytes are free")};
  const auto bytes = static_cast<std::size_t>(reserve.to - reserve.from);
  const auto found = disk_->now.find(reserve.id);
  Offset used = disk_->used_bytes();
  Status status;
  VolatileDisk::Subfile::for_sectors(reserve.from, bytes, [&](Offset number, std::size_t, std::size_t, std::size_t) {
    const bool is_there = found != disk_->now.end() && found->second.sectors.contains(number);
    if (status.is_ok() && !is_there) status = take_sector("reserve", used);
  });
  WEIR_RETURN_IF_ERROR(status);
  VolatileDisk::Subfile& subfile = disk_->now[reserve.id];
  VolatileDisk::Subfile::for_sectors(reserve.from, bytes, [&](Offset number, std::size_t, std::size_t, std::size_t) {
    subfile.sectors.try_emplace(number);
  });
  return Status::ok();
}

Status VolatileStore::run(const op::Sync& sync) {
  if (const auto found = disk_->now.find(sync.id); found != disk_->now.end()) disk_->durable[sync.id] = found->second;
  return Status::ok();
}

Status VolatileStore::run(op::Info& info) {
  const auto found = disk_->now.find(info.id);
  if (found == disk_->now.end()) return Status::ok();
  info.result = {found->second.length, found->second.file_end, found->second.stored_bytes()};
  return Status::ok();
}

Status VolatileStore::run(const op::Remove& remove) {
  disk_->now.erase(remove.id);
  return Status::ok();
}

Status VolatileStore::run(op::GetUsage& usage) {
  usage.result = {disk_->capacity_bytes, disk_->used_bytes(), static_cast<Offset>(disk_->now.size())};
  return Status::ok();
}

Status VolatileStore::run(op::List& list) {
  for (const auto& entry : disk_->now) list.result.push_back(entry.first);
  return Status::ok();
}

Status VolatileStore::run(const op::KeepFences& keep) {
  disk_->fences = keep.fences;
  return Status::ok();
}

Status VolatileStore::run(op::KeptFences& kept) {
  kept.result = disk_->fences;
  return Status::ok();
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
