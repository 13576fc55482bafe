#include <weir/server/internal/quotas.h>

#include <algorithm>
#include <utility>

#include <weir/base/text.h>

namespace weir::server::internal {

namespace {

constexpr std::string_view kLimitsPrefix = "q";
constexpr FileNumber kUnlimited = ~FileNumber{0};
constexpr std::size_t kLimitBytes = 8;

std::string limits_key(UserId user) { return concat(kLimitsPrefix, encode_number(user)); }

std::string encode_limits(const QuotaLimits& limits) {
  const auto encode = [](const std::optional<Offset>& limit) {
    return encode_number(limit ? static_cast<FileNumber>(*limit) : kUnlimited);
  };
  return encode(limits.bytes) + encode(limits.files);
}

Result<std::optional<Offset>> decode_limit(std::string_view bytes) {
  WEIR_TRY(const FileNumber number, decode_number(bytes));
  if (number == kUnlimited) return std::optional<Offset>{};
  if (number > static_cast<FileNumber>(kMaxBytes)) return corrupt("metadata: a limit of a user is out of range");
  return std::optional<Offset>(static_cast<Offset>(number));
}

Result<QuotaLimits> decode_limits(std::string_view bytes) {
  if (bytes.size() != 2 * kLimitBytes) return corrupt("metadata: the limits of a user are damaged");
  QuotaLimits limits;
  WEIR_TRY(limits.bytes, decode_limit(bytes.substr(0, kLimitBytes)));
  WEIR_TRY(limits.files, decode_limit(bytes.substr(kLimitBytes)));
  return limits;
}

bool is_key_of(std::string_view key, std::string_view prefix) {
  return key.size() == prefix.size() + kLimitBytes && key.starts_with(prefix);
}

// The attributes under a key of a batch, before (or after) it is applied; nothing if there are none.
Result<std::optional<wire::AttributesT>> attributes_of(const std::optional<std::string>& bytes) {
  if (!bytes) return std::optional<wire::AttributesT>{};
  WEIR_TRY(Record record, decode_record(*bytes));
  return std::optional<wire::AttributesT>(std::move(record.attributes));
}

Result<std::optional<wire::AttributesT>> pending_in(const std::optional<std::string>& bytes) {
  if (!bytes) return std::optional<wire::AttributesT>{};
  WEIR_TRY(wire::AttributesT pending, decode_attributes(*bytes));
  return std::optional<wire::AttributesT>(std::move(pending));
}

}  // namespace

// ---------------------------------------------------------------- limits

Status Quotas::load(storage::KeyValue& store) {
  store_ = &store;
  Status status;
  WEIR_RETURN_IF_ERROR(store.scan(kLimitsPrefix, "", [&](std::string_view key, std::string_view value) {
    const Result<FileNumber> user = decode_number(key.substr(kLimitsPrefix.size()));
    const Result<QuotaLimits> limits = decode_limits(value);
    if (!user.is_ok()) status = user.status();
    if (!limits.is_ok()) status = limits.status();
    if (status.is_ok()) limits_[static_cast<UserId>(*user)] = *limits;
    return status.is_ok();
  }));
  WEIR_RETURN_IF_ERROR(std::move(status));
  return is_active() ? ensure_counted() : Status::ok();
}

Status Quotas::set_limits(UserId user, const std::optional<QuotaLimits>& limits) {
  storage::Batch batch;
  limits ? batch.put(limits_key(user), encode_limits(*limits)) : batch.erase(limits_key(user));
  const bool was_active = is_active();
  if (limits && !was_active) WEIR_RETURN_IF_ERROR(count());
  WEIR_RETURN_IF_ERROR(store_->apply(batch, false));
  if (limits) {
    limits_[user] = *limits;
  } else {
    limits_.erase(user);
  }
  if (is_active()) return Status::ok();
  is_counted_ = false;
  use_.clear();
  data_.clear();
  slack_.clear();
  return Status::ok();
}

std::optional<QuotaLimits> Quotas::limits_set_for(UserId user) const {
  const auto found = limits_.find(user);
  return found == limits_.end() ? std::nullopt : std::optional(found->second);
}

QuotaLimits Quotas::limits_of(UserId user) const {
  if (const auto own = limits_set_for(user)) return *own;
  if (user == 0 || user == owner_) return {};
  return limits_set_for(kEverybody).value_or(QuotaLimits{});
}

QuotaUse Quotas::use_of(UserId user) const {
  const auto found = use_.find(user);
  return found == use_.end() ? QuotaUse{} : found->second;
}

std::set<UserId> Quotas::users() const {
  std::set<UserId> users;
  for (const auto& [user, limits] : limits_) {
    if (user != kEverybody) users.insert(user);
  }
  for (const auto& [user, use] : use_) {
    if (use != QuotaUse{}) users.insert(user);
  }
  return users;
}

Status Quotas::refusal(UserId user, std::string_view what, Offset limit, Offset use) const {
  return {ErrorCode::kQuota, concat("user ", user, " may have ", limit, " ", what, " and has ", use,
                                    ": remove some, or ask for more; `weir quota` shows limits and use")};
}

// ---------------------------------------------------------------- files

Status Quotas::ensure_counted() { return is_counted_ ? Status::ok() : count(); }

// Leases stay: they are what servers hold, whoever owns the files.
Status Quotas::count() {
  use_.clear();
  for (auto& [number, data] : data_) data.owner.reset();
  Status status;
  std::unordered_map<FileNumber, UserId> owners;  // of files
  WEIR_RETURN_IF_ERROR(store_->scan(kRecordPrefix, "", [&](std::string_view, std::string_view value) {
    const Result<Record> record = decode_record(value);
    if (!record.is_ok()) {
      status = record.status();
      return false;
    }
    const wire::AttributesT& attributes = record->attributes;
    if (attributes.file != kRoot) ++use_[attributes.uid].files;
    if (!attributes.is_directory) {
      owners[attributes.file] = attributes.uid;
      own(attributes.data, attributes.uid);
    }
    return true;
  }));
  WEIR_RETURN_IF_ERROR(store_->scan("r", "", [&](std::string_view, std::string_view value) {
    const Result<wire::AttributesT> pending = decode_attributes(value);
    if (!pending.is_ok()) status = pending.status();
    const auto owner = pending.is_ok() ? owners.find(pending->file) : owners.end();
    if (owner != owners.end()) own(pending->data, owner->second);
    return status.is_ok();
  }));
  WEIR_RETURN_IF_ERROR(std::move(status));
  std::erase_if(data_, [](const auto& entry) { return !entry.second.owner; });
  is_counted_ = true;
  return Status::ok();
}

// A record and the relayout of its file are the only records that say who owns what.
Result<Quotas::Change> Quotas::examine(const storage::Batch& batch, bool enforces) {
  WEIR_RETURN_IF_ERROR(ensure_counted());
  Change change;
  std::set<UserId> growing;
  for (const storage::Batch::Change& one : batch.changes) {
    if (is_key_of(one.key, kRecordPrefix)) {
      WEIR_TRY(const std::optional<std::string> stored, store_->get(one.key));
      WEIR_TRY(const std::optional<wire::AttributesT> before, attributes_of(stored));
      WEIR_TRY(const std::optional<wire::AttributesT> after, attributes_of(one.value));
      if (one.key == record_key(kRoot)) continue;
      if (before) --change.files[before->uid];
      if (after) ++change.files[after->uid];
      if (after && !before) growing.insert(after->uid);
      if (before && !before->is_directory) change.dropped.push_back(before->data);
      if (after && !after->is_directory) change.owners[after->data] = after->uid;
      if (!before || !after || before->uid == after->uid) continue;
      WEIR_TRY(const std::optional<std::string> relayout, store_->get(relayout_key(after->file)));
      WEIR_TRY(const std::optional<wire::AttributesT> pending, pending_in(relayout));
      if (pending) change.owners[pending->data] = after->uid;
    } else if (is_key_of(one.key, "r")) {
      WEIR_TRY(const std::optional<std::string> stored, store_->get(one.key));
      WEIR_TRY(const std::optional<wire::AttributesT> before, pending_in(stored));
      WEIR_TRY(const std::optional<wire::AttributesT> after, pending_in(one.value));
      if (before) change.dropped.push_back(before->data);
      if (after) change.owners[after->data] = after->uid;
    }
  }
  std::erase_if(change.files, [](const auto& entry) { return entry.second == 0; });
  for (const UserId user : growing) {
    const std::optional<Offset> limit = limits_of(user).files;
    const Offset more = change.files.contains(user) ? change.files[user] : 0;
    const Offset use = use_of(user).files;
    if (enforces && limit && more > 0 && use + more > *limit)
      return refusal(user, "files and directories", *limit, use);
  }
  return change;
}

void Quotas::accept(const Change& change) {
  for (const auto& [user, more] : change.files) use_[user].files += more;
  for (const FileNumber data : change.dropped) {
    if (!change.owners.contains(data)) disown(data);
  }
  for (const auto& [data, owner] : change.owners) own(data, owner);
}

// ---------------------------------------------------------------- bytes

Offset Quotas::Data::bytes() const {
  Offset sum = 0;
  for (const auto& [server, lease] : leases) sum += lease.bytes;
  return sum;
}

void Quotas::own(FileNumber number, UserId owner) {
  Data& data = data_[number];
  const Offset bytes = data.bytes();
  if (data.owner) use_[*data.owner].bytes -= bytes;
  data.owner = owner;
  use_[owner].bytes += bytes;
}

void Quotas::disown(FileNumber number) {
  const auto found = data_.find(number);
  if (found == data_.end()) return;
  use_[*found->second.owner].bytes -= found->second.bytes();
  for (const auto& [server, lease] : found->second.leases) slack_.erase({number, server});
  data_.erase(found);
}

// Subfiles that are no file's any more are nobody's.
void Quotas::note_held(std::uint32_t server, const Held& held) {
  if (!is_counted_ || held.bytes < 0 || held.bytes > kMaxBytes) return;
  const auto found = data_.find(held.data);
  if (found == data_.end()) return;
  Lease& lease = found->second.leases[server];
  if (held.boot == lease.boot && held.sequence < lease.sequence) return;
  use_[*found->second.owner].bytes += held.bytes - lease.bytes;
  lease = {held.bytes, held.boot, held.sequence};
}

void Quotas::forget_earlier(std::uint32_t server, std::uint64_t boot) {
  if (std::exchange(boots_[server], boot) == boot) return;
  for (auto& [number, data] : data_) {
    const auto found = data.leases.find(server);
    if (found == data.leases.end() || found->second.boot == boot) continue;
    if (data.owner) use_[*data.owner].bytes -= found->second.bytes;
    data.leases.erase(found);
    slack_.erase({number, server});
  }
}

Result<Offset> Quotas::lease(std::uint32_t server, FileNumber number, Offset need, Offset want) {
  WEIR_RETURN_IF_ERROR(ensure_counted());
  const auto found = data_.find(number);
  if (found == data_.end())
    return Status(ErrorCode::kStale, concat("data ", number, " is no file's any more: open the file again"));
  const UserId user = *found->second.owner;
  QuotaUse& use = use_[user];
  const Offset limit = limits_of(user).bytes.value_or(kMaxBytes);
  const Offset room = limit - use.bytes;
  if (need > room) return refusal(user, "bytes", limit, use.bytes);
  const Offset granted = std::min(want, room);
  found->second.leases[server].bytes += granted;
  use.bytes += granted;
  if (granted > need) slack_.insert({number, server});
  return granted;
}

std::vector<std::pair<std::uint32_t, FileNumber>> Quotas::slack_of(std::optional<UserId> user) const {
  std::vector<std::pair<std::uint32_t, FileNumber>> found;
  for (const auto& [data, server] : slack_) {
    const auto at = data_.find(data);
    if (at != data_.end() && (!user || at->second.owner == user)) found.emplace_back(server, data);
  }
  return found;
}

}  // namespace weir::server::internal
