#include <weir/client/file_system.h>

#include <algorithm>
#include <map>

#include <weir/base/text.h>
#include <weir/client/connection_file.h>
#include <weir/client/internal/about.h>
#include <weir/client/internal/bound_view.h>
#include <weir/client/internal/relayout.h>
#include <weir/client/internal/session.h>
#include <weir/client/internal/watched_operation.h>
#include <weir/net/net.h>
#include <weir/storage/store.h>
#include <weir/wire/found_files.h>
#include <weir/wire/path.h>

namespace weir::client {

using internal::BoundView;
using internal::Incarnation;
using internal::look_up;
using internal::OpenFile;
using internal::Repeat;
using internal::Session;
using internal::ViewAccess;

namespace {

constexpr std::uint32_t kListAtOnce = 1000;

Result<std::shared_ptr<OpenFile>> open_with(const std::shared_ptr<Session>& session, const std::string& path,
                                            const wire::AttributesT& attributes) {
  auto unsynced = std::make_shared<internal::Unsynced>(session->server_count());
  WEIR_TRY(auto incarnation, Incarnation::create(*session, path, attributes, std::move(unsynced)));
  return std::make_shared<OpenFile>(session, path, std::move(incarnation));
}

Result<wire::AttributesT> read_description(const std::string& path, std::span<const std::byte> description) {
  WEIR_TRY(const wire::ReplyHeadT head, wire::decode_reply(description));
  if (head.answer.type != wire::Answer::Attributes) return corrupt(concat(path, ": not the description of a file"));
  return *head.answer.AsAttributes();
}

Status change_attributes(Session& session, const std::string& path, wire::SetAttributesT set) {
  WEIR_TRY(const wire::AttributesT now, session.call<wire::AttributesT>(0, std::move(set)));
  (void)internal::write_about(session, path, now);
  return Status::ok();
}

// Programs make local files of these names: none leads out of a directory, whatever a server says.  And a list ends.
Status check_listed(const std::string& path, const std::string& name, const std::string& before) {
  const std::string below = concat('/', name);
  const auto names = wire::split_path(below);
  if (names.is_ok() && names->size() == 1 && names->front() == name && name > before) return Status::ok();
  return corrupt(concat("list ", path, ": server 0 lists ", wire::quoted_path(name), " behind ",
                        wire::quoted_path(before), ", which is no name, or not in order"));
}

}  // namespace

// ---------------------------------------------------------------- names

FileSystem::FileSystem(std::shared_ptr<Session> session) : session_(std::move(session)) {}

Result<FileSystem> FileSystem::connect(const ConnectOptions& options) {
  WEIR_TRY(auto session, Session::connect(options));
  return FileSystem(std::move(session));
}

Result<FileSystem> FileSystem::connect(const ConnectionFile& servers, const ConnectOptions& options) {
  WEIR_TRY(auto session, Session::connect(servers.servers, servers.key, options));
  return FileSystem(std::move(session));
}

Result<File> FileSystem::create(const std::string& path, const layout::Partition& layout,
                                const CreateOptions& options) const {
  WEIR_RETURN_IF_ERROR(layout.validate());
  const auto create = [&] {
    wire::CreateT table;
    table.path = path;
    table.layout = wire::to_bytes(layout);
    table.mode = options.mode;
    table.exclusive = options.exclusive;
    table.targets = options.targets;
    table.stores = session_->stores();
    table.access = static_cast<std::uint8_t>(options.access);
    return table;
  };
  WEIR_TRY(const wire::AttributesT attributes,
           session_->call_by_table<wire::AttributesT>(create, options.exclusive ? Repeat::kNever : Repeat::kSafe));
  WEIR_TRY(auto open, open_with(session_, path, attributes));
  if (internal::write_about(*session_, path, attributes).is_ok() &&
      attributes.targets.size() <= wire::kDescribedAtOnce) {
    open->incarnation()->note_described();
  }
  return File(std::move(open));
}

Result<File> FileSystem::open(const std::string& path, Access access) const {
  WEIR_TRY(const wire::AttributesT attributes, look_up(*session_, path, static_cast<std::uint8_t>(access)));
  WEIR_TRY(auto open, open_with(session_, path, attributes));
  return File(std::move(open));
}

Result<File> FileSystem::open_described(const std::string& path, std::span<const std::byte> description) const {
  WEIR_TRY(const wire::AttributesT attributes, read_description(path, description));
  WEIR_TRY(auto open, open_with(session_, path, attributes));
  return File(std::move(open));
}

Result<Stat> FileSystem::stat(const std::string& path) const {
  WEIR_TRY(const wire::AttributesT attributes, look_up(*session_, path));
  Stat stat{.file = attributes.file,
            .is_directory = attributes.is_directory,
            .mode = attributes.mode,
            .uid = attributes.uid,
            .gid = attributes.gid,
            .created_ns = attributes.created_ns,
            .changed_ns = attributes.changed_ns,
            .size = 0,
            .layout = {},
            .subfiles = {}};
  if (stat.is_directory) return stat;
  WEIR_TRY(const auto file, Incarnation::create(*session_, path, attributes));
  stat.layout = file->layout();
  auto calls = internal::calls_to_subfiles(*session_, *file, [&](std::uint32_t element) {
    wire::InspectT inspect;
    inspect.subfile = internal::to_wire(file->subfile(element));
    return inspect;
  });
  session_->run(calls, Repeat::kSafe);
  for (const internal::Outgoing& call : calls) {
    WEIR_TRY(const wire::SubfileInfoT info, session_->answer<wire::SubfileInfoT>(call));
    stat.size = std::max(stat.size, info.file_end);
    stat.subfiles.push_back({file->targets()[stat.subfiles.size()], session_->address_of(call.server).text, info.length,
                             info.stored_bytes});
  }
  return stat;
}

Status FileSystem::remove(const std::string& path) const {
  wire::RemoveT remove;
  remove.path = path;
  return session_->call<wire::AttributesT>(0, std::move(remove), Repeat::kNever).status();
}

Status FileSystem::remove_directory(const std::string& path) const {
  wire::RemoveT remove;
  remove.path = path;
  remove.directory = true;
  return session_->call<wire::AttributesT>(0, std::move(remove), Repeat::kNever).status();
}

Status FileSystem::make_directory(const std::string& path, std::uint32_t mode) const {
  wire::MakeDirectoryT make;
  make.path = path;
  make.mode = mode;
  return session_->call<wire::AttributesT>(0, std::move(make), Repeat::kNever).status();
}

Status FileSystem::rename(const std::string& from, const std::string& to) const {
  wire::RenameT rename;
  rename.from = from;
  rename.to = to;
  WEIR_RETURN_IF_ERROR(session_->call<wire::AttributesT>(0, std::move(rename), Repeat::kNever).status());
  if (session_->keeps_about()) {
    const Result<wire::AttributesT> moved = look_up(*session_, to);
    if (moved.is_ok()) (void)internal::write_about(*session_, to, *moved);
  }
  return Status::ok();
}

Result<std::vector<Entry>> FileSystem::list(const std::string& path) const {
  std::vector<Entry> entries;
  for (bool is_complete = false; !is_complete;) {
    wire::ListT list;
    list.path = path;
    list.after = entries.empty() ? std::string() : entries.back().name;
    list.limit = kListAtOnce;
    WEIR_TRY(const wire::ListingT listing, session_->call<wire::ListingT>(0, std::move(list)));
    for (const auto& entry : listing.entries) {
      WEIR_RETURN_IF_ERROR(check_listed(path, entry->name, entries.empty() ? "" : entries.back().name));
      entries.push_back({entry->name, entry->attributes && entry->attributes->is_directory});
    }
    is_complete = listing.is_complete || listing.entries.empty();
  }
  return entries;
}

Status FileSystem::set_mode(const std::string& path, std::uint32_t mode) const {
  wire::SetAttributesT set;
  set.path = path;
  set.set_mode = true;
  set.mode = mode;
  return change_attributes(*session_, path, std::move(set));
}

Status FileSystem::set_owner(const std::string& path, std::uint32_t uid, std::uint32_t gid) const {
  wire::SetAttributesT set;
  set.path = path;
  set.set_owner = true;
  set.uid = uid;
  set.gid = gid;
  return change_attributes(*session_, path, std::move(set));
}

Status FileSystem::set_layout(const std::string& path, const layout::Partition& layout,
                              const std::vector<std::uint32_t>& targets) const {
  WEIR_RETURN_IF_ERROR(layout.validate());
  WEIR_TRY(const File file, open(path));
  WEIR_TRY(const Offset size, file.size());
  if (size > 0) {
    return invalid_argument(concat("set_layout of ", path, ": it has ", size, " bytes already; use relayout"));
  }
  const auto set = [&] {
    wire::SetAttributesT table;
    table.path = path;
    table.layout = wire::to_bytes(layout);
    table.targets = targets;
    table.stores = session_->stores();
    return table;
  };
  WEIR_TRY(const wire::AttributesT now, session_->call_by_table<wire::AttributesT>(set, Repeat::kSafe));
  (void)internal::write_about(*session_, path, now);
  return Status::ok();
}

Status FileSystem::relayout(const std::string& path, const layout::Partition& layout,
                            const RelayoutOptions& options) const {
  return internal::relayout(session_, path, layout, options);
}

Status FileSystem::sync() const {
  std::vector<internal::Outgoing> calls;
  for (std::uint32_t i = 0; i < session_->server_count(); ++i) {
    calls.push_back({i, wire::encode_request(wire::SyncSubfilesT{}, session_->timeout_ms()), {}, {}, {}});
  }
  calls.push_back({0, wire::encode_request(wire::SyncNamesT{}, session_->timeout_ms()), {}, {}, {}});
  return session_->run_all(calls);
}

Result<Counter> FileSystem::make_counter(Offset value) const { return Counter::make(session_, value); }
Result<Counter> FileSystem::counter(std::uint64_t id) const { return Counter::find(session_, id); }

const model::Io& FileSystem::costs() const { return session_->costs(); }

std::uint32_t FileSystem::target_count() const { return session_->target_count(); }

std::vector<std::string> FileSystem::target_hosts() const {
  std::vector<std::string> hosts;
  for (internal::TargetSelf& target : session_->targets()) hosts.push_back(std::move(target.host));
  return hosts;
}

std::string FileSystem::this_host() { return net::Identity::of_this_process().host; }

Result<std::vector<TargetUsage>> FileSystem::usage(bool counts_stored) const {
  std::vector<TargetUsage> out;
  std::map<std::uint64_t, int> targets_of_store;
  for (const std::uint64_t store : session_->stores()) ++targets_of_store[store];
  for (std::uint32_t i = 0; i < session_->target_count(); ++i) {
    const std::uint32_t server = session_->server_of(i);
    wire::UsageOfT request;
    request.counts_stored = counts_stored;
    WEIR_TRY(const wire::UsageT usage, session_->call<wire::UsageT>(server, request));
    // Every server knows its own stores only.
    WEIR_TRY(const wire::MembersT members, session_->call<wire::MembersT>(server, wire::MembershipT{}));
    for (const auto& target : members.targets) {
      if (target->index != i || server >= members.servers.size()) continue;
      std::string disk = usage.disk == 0 ? "" : concat(members.servers[server]->host, " ", usage.disk);
      if (disk.empty() && targets_of_store[target->store_id] > 1) disk = concat("store ", target->store_id);
      out.push_back({i, members.servers[server]->address, target->store, usage.capacity_bytes, usage.used_bytes,
                     usage.subfiles, std::move(disk), usage.stored_bytes});
    }
  }
  return out;
}

// ---------------------------------------------------------------- quotas

namespace {

constexpr std::uint32_t kEverybody = ~std::uint32_t{0};

std::optional<Offset> limit_of(std::int64_t number) {
  return number < 0 ? std::nullopt : std::optional<Offset>(number);
}

}  // namespace

Result<Quotas> FileSystem::quotas(bool all) const {
  wire::GetQuotasT request;
  request.all = all;
  WEIR_TRY(const wire::QuotasT answer, session_->call<wire::QuotasT>(0, request));
  Quotas quotas;
  quotas.is_active = answer.is_active;
  for (const auto& one : answer.quotas) {
    const QuotaLimits limits{limit_of(one->bytes_limit), limit_of(one->files_limit)};
    if (one->user == kEverybody) {
      quotas.of_everybody = limits;
    } else {
      quotas.users.push_back({one->user, limits, one->is_own, one->used_bytes, one->used_files});
    }
  }
  return quotas;
}

Status FileSystem::set_quota(std::optional<std::uint32_t> user, const QuotaChange& change) const {
  wire::SetQuotaT request;
  request.user = user.value_or(kEverybody);
  request.set_bytes = change.bytes.has_value();
  request.bytes = change.bytes.value_or(-1);
  request.set_files = change.files.has_value();
  request.files = change.files.value_or(-1);
  return session_->call<wire::DoneT>(0, request).status();
}

Status FileSystem::clear_quota(std::optional<std::uint32_t> user) const {
  wire::SetQuotaT request;
  request.user = user.value_or(kEverybody);
  request.clear = true;
  return session_->call<wire::DoneT>(0, request).status();
}

// ---------------------------------------------------------------- files

File::File(std::shared_ptr<OpenFile> open) : open_(std::move(open)) {}

const std::string& File::path() const { return open_->path(); }
layout::Partition File::layout() const { return open_->incarnation()->layout(); }
std::vector<std::uint32_t> File::targets() const { return open_->incarnation()->targets(); }

std::vector<std::byte> File::describe() const { return wire::encode_reply(open_->incarnation()->description()); }

Status File::refresh(std::span<const std::byte> description) const {
  WEIR_TRY(const wire::AttributesT attributes, read_description(path(), description));
  return open_->refresh(attributes);
}

Result<View> File::view(const layout::Element& element, const ViewOptions& options) const {
  WEIR_TRY(auto bound, BoundView::create(open_, element, options));
  return View(std::move(bound));
}

Result<View> File::linear() const {
  WEIR_TRY(const layout::Element bytes, internal::every_byte());
  return view(bytes);
}

Result<Offset> File::size() const { return open_->size(); }
Status File::truncate(Offset size) const { return open_->truncate(size); }
Status File::preallocate(Offset size) const { return open_->preallocate(size); }
Status File::sync() const { return open_->sync(); }
bool File::has_unsynced() const { return open_->incarnation()->unsynced()->has_any(); }
bool File::is_in_memory_here() const { return open_->is_in_memory_here(); }
Status File::refresh() const { return open_->refresh(); }
Status File::close() const { return open_->check_kept(); }

// ---------------------------------------------------------------- locks

struct FileLock::State {
  std::shared_ptr<Session> session;
  std::uint64_t file;
  Offset from;
  Offset to;
  std::uint64_t owner;
};

Result<FileLock> File::lock(Offset from, Offset to, bool exclusive) const {
  if (from < 0 || from >= to || to > kMaxBytes) {
    return out_of_range(concat("lock of ", path(), ": bytes ", from, " to ", to));
  }
  auto state =
      std::make_unique<FileLock::State>(FileLock::State{open_->shared_session(), open_->incarnation()->file(), from, to,
                                                        open_->session().options().runtime.random->id()});
  wire::LockT lock;
  lock.file = state->file;
  lock.range = std::make_unique<wire::Range>(from, to);
  lock.exclusive = exclusive;
  lock.owner = state->owner;
  lock.wait = true;
  lock.capability = open_->incarnation()->capability().bytes();
  const Status status = state->session->call<wire::DoneT>(0, std::move(lock)).status();
  if (status.is_ok()) return FileLock(std::move(state));
  if (status.code() == ErrorCode::kTimedOut) {
    // It may have been granted just then.
    (void)FileLock(std::move(state)).release();
  }
  return status;
}

FileLock::FileLock(std::unique_ptr<State> state) : state_(std::move(state)) {}
FileLock::FileLock(FileLock&&) noexcept = default;
FileLock& FileLock::operator=(FileLock&& other) noexcept {
  (void)release();
  state_ = std::move(other.state_);
  return *this;
}
FileLock::~FileLock() { (void)release(); }

Status FileLock::release() {
  if (!state_) return Status::ok();
  wire::UnlockT unlock;
  unlock.file = state_->file;
  unlock.range = std::make_unique<wire::Range>(state_->from, state_->to);
  unlock.owner = state_->owner;
  const std::unique_ptr<State> state = std::move(state_);
  return state->session->call<wire::DoneT>(0, std::move(unlock)).status();
}

// ---------------------------------------------------------------- views

View::View(std::shared_ptr<BoundView> bound) : bound_(std::move(bound)) {}

const layout::Element& View::element() const { return bound_->element(); }
Status View::read(Offset from, std::span<std::byte> memory) const { return bound_->read(from, memory); }
Status View::write(Offset from, std::span<const std::byte> memory) const { return bound_->write(from, memory); }
Status View::read(Offset from, Offset bytes, const Memory& memory) const { return bound_->read(from, bytes, memory); }
Status View::write(Offset from, Offset bytes, const ConstMemory& memory) const {
  return bound_->write(from, bytes, memory);
}

Status View::read(std::span<const ReadPart> parts) const {
  std::vector<ViewAccess> accesses;
  for (const ReadPart& part : parts) {
    accesses.push_back({false, part.from, static_cast<Offset>(part.memory.size()), part.memory.data()});
  }
  return bound_->run(accesses);
}

Status View::write(std::span<const WritePart> parts) const {
  std::vector<ViewAccess> accesses;
  for (const WritePart& part : parts) {
    accesses.push_back(
        {true, part.from, static_cast<Offset>(part.memory.size()), const_cast<std::byte*>(part.memory.data())});
  }
  return bound_->run(accesses);
}

Pending View::start_read(Offset from, std::span<std::byte> memory) const {
  return Pending(bound_->start({false, from, static_cast<Offset>(memory.size()), memory.data()}));
}

Pending View::start_write(Offset from, std::span<const std::byte> memory) const {
  return Pending(
      bound_->start({true, from, static_cast<Offset>(memory.size()), const_cast<std::byte*>(memory.data())}));
}

Pending View::start_read(Offset from, Offset bytes, const Memory& memory) const {
  return Pending(bound_->start_read(from, bytes, memory));
}

Pending View::start_write(Offset from, Offset bytes, const ConstMemory& memory) const {
  return Pending(bound_->start_write(from, bytes, memory));
}

Result<bool> View::goes_by_message(bool is_write, Offset from, Offset bytes) const {
  return bound_->goes_by_message(is_write, from, bytes);
}
Result<AccessShape> View::shape(Offset from, Offset bytes) const { return bound_->shape(from, bytes); }
AccessReport View::report() const { return bound_->report(); }
std::string View::explain() const { return bound_->explain(); }

// ---------------------------------------------------------------- operations under way

Pending::Pending() = default;
Pending::Pending(std::shared_ptr<internal::UnderWay> operation) : operation_(std::move(operation)) {}
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&& other) noexcept = default;
Pending::~Pending() = default;
bool Pending::test() { return !operation_ || operation_->test(); }
Status Pending::wait() { return operation_ ? operation_->wait() : Status::ok(); }

internal::WatchedOperation& Pending::watched() {
  if (!watched_) {
    if (!operation_) operation_ = std::make_shared<internal::Operation>(Status::ok());
    watched_ = std::make_shared<internal::WatchedOperation>(std::move(operation_));
    operation_ = watched_;
    watched_->start();
  }
  return *watched_;
}

void Pending::on_done(std::function<void(const Status&)> callback) { watched().on_done(std::move(callback)); }
Result<int> Pending::descriptor() { return watched().descriptor(); }

}  // namespace weir::client
