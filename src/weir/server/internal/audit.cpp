#include <weir/server/internal/audit.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <weir/base/json_text.h>
#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>
#include <weir/log/log.h>

namespace weir::server::internal {

namespace {

// Of a text that comes from outside.
constexpr std::size_t kMostTextBytes = 1024;

std::string limited(std::string_view text) {
  return shorten(std::string(text.substr(0, kMostTextBytes + 1)), kMostTextBytes);
}

template <typename Integer>
Offset number(Integer value) {
  return static_cast<Offset>(value);
}

std::string_view name_of(net::Identity::Voucher voucher) {
  switch (voucher) {
    case net::Identity::Voucher::kKernel: return "kernel";
    case net::Identity::Voucher::kMunge: return "munge";
    case net::Identity::Voucher::kKey: return "key";
    case net::Identity::Voucher::kSecret: return "secret";
  }
  return "kernel";
}

// Callers that count together: those of a user, as far as somebody vouches for it, or else those of an address.
std::string source_of(const net::Identity* who, const std::string& origin) {
  if (who != nullptr && who->voucher != net::Identity::Voucher::kKey) return concat("user ", who->uid);
  return origin.substr(0, origin.rfind(':'));
}

void add_path(JsonWriter& json, const std::string& path) { json.field("path", std::string_view(limited(path))); }

void add_subfile(JsonWriter& json, const wire::Subfile* subfile) {
  if (subfile == nullptr) return;
  json.field("data", number(subfile->file())).field("subfile", number(subfile->element()));
}

template <typename Request>
void add_object_of(JsonWriter& json, const Request& request) {
  if constexpr (requires { request.path; }) add_path(json, request.path);
  if constexpr (requires { request.from.substr(0); }) {
    json.field("path", std::string_view(limited(request.from))).field("to", std::string_view(limited(request.to)));
  }
  if constexpr (requires { number(request.file); }) {
    if (request.file != 0) json.field("file", number(request.file));
  }
  if constexpr (requires { request.subfile.get(); }) add_subfile(json, request.subfile.get());
}

// What the operation is about.
void add_object(JsonWriter& json, const wire::OperationUnion& operation) {
  using wire::Operation;
  switch (operation.type) {
    case Operation::Lookup: return add_object_of(json, *operation.AsLookup());
    case Operation::Create: return add_object_of(json, *operation.AsCreate());
    case Operation::MakeDirectory: return add_object_of(json, *operation.AsMakeDirectory());
    case Operation::Remove: return add_object_of(json, *operation.AsRemove());
    case Operation::Rename: return add_object_of(json, *operation.AsRename());
    case Operation::List: return add_object_of(json, *operation.AsList());
    case Operation::SetAttributes: return add_object_of(json, *operation.AsSetAttributes());
    case Operation::BeginRelayout: return add_object_of(json, *operation.AsBeginRelayout());
    case Operation::EndRelayout: return add_object_of(json, *operation.AsEndRelayout());
    case Operation::Adopt: return add_object_of(json, *operation.AsAdopt());
    case Operation::Lock: return add_object_of(json, *operation.AsLock());
    case Operation::RegisterView: return add_object_of(json, *operation.AsRegisterView());
    case Operation::ReadPieces: return add_object_of(json, *operation.AsReadPieces());
    case Operation::WritePieces: return add_object_of(json, *operation.AsWritePieces());
    case Operation::Truncate: return add_object_of(json, *operation.AsTruncate());
    case Operation::Reserve: return add_object_of(json, *operation.AsReserve());
    case Operation::Sync: return add_object_of(json, *operation.AsSync());
    case Operation::RemoveSubfile: return add_object_of(json, *operation.AsRemoveSubfile());
    case Operation::Inspect: return add_object_of(json, *operation.AsInspect());
    case Operation::Share: return add_object_of(json, *operation.AsShare());
    case Operation::Describe: return add_object_of(json, *operation.AsDescribe());
    case Operation::Fence: return add_object_of(json, *operation.AsFence());
    default: return;
  }
}

// The subfile of an operation that fsck does with the rights of an administrator; null: it is no such operation.
const wire::Subfile* repaired_subfile(const wire::OperationUnion& operation) {
  switch (operation.type) {
    case wire::Operation::RemoveSubfile: return operation.AsRemoveSubfile()->subfile.get();
    case wire::Operation::Fence: return operation.AsFence()->subfile.get();
    case wire::Operation::Truncate: return operation.AsTruncate()->subfile.get();
    case wire::Operation::Describe: return operation.AsDescribe()->subfile.get();
    default: return nullptr;
  }
}

/// \returns how many bytes could be written
std::size_t append_all(int file, std::string_view text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = uninterrupted([&] { return ::write(file, text.data() + written, text.size() - written); });
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  return written;
}

Result<Descriptor> open_for_appending(const std::string& path) {
  // Not a FIFO or a device, which could block; nor a symbolic link to what somebody else chose.
  Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
  if (!file.is_open()) return os_error(ErrorCode::kIoError, concat("audit log ", path));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return os_error(ErrorCode::kIoError, concat("audit log ", path));
  if (!S_ISREG(info.st_mode)) return invalid_argument(concat("audit log ", path, ": it is not a regular file"));
  return file;
}

/// One object, from its first members on.
class AuditLine {
 public:
  AuditLine(const runtime::Clock& clock, std::uint32_t server, std::string_view event) {
    json_.begin_object()
        .field("time", std::string_view(utc_text(clock.wall_ns())))
        .field("server", number(server))
        .field("event", event);
  }
  AuditLine(const AuditLine&) = delete;
  AuditLine& operator=(const AuditLine&) = delete;

  [[nodiscard]] JsonWriter& json() { return json_; }
  void add_origin(net::PeerId peer, const std::string& origin) {
    json_.field("peer", number(peer)).field("origin", std::string_view(limited(origin)));
  }
  void add_identity(const net::Identity& who) {
    json_.field("uid", number(who.uid)).field("gid", number(who.gid));
    json_.field("host", std::string_view(limited(who.host))).field("by", name_of(who.voucher));
    json_.field("is_server", who.is_server);
  }
  void add_outcome(std::string_view outcome, const Status& status) {
    json_.field("outcome", outcome);
    if (!status.is_ok()) json_.field("reason", std::string_view(limited(status.message())));
  }
  std::string finish() {
    json_.end_object();
    text_ += '\n';
    return std::move(text_);
  }

 private:
  std::string text_;
  JsonWriter json_{text_};
};

}  // namespace

std::string utc_text(std::int64_t wall_ns) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t ns = ((wall_ns % kSecond) + kSecond) % kSecond;
  const std::chrono::sys_seconds time{std::chrono::seconds((wall_ns - ns) / kSecond)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count(), ns);
}

// ---------------------------------------------------------------- start and end

Audit::Audit(Options options, const AccessControl& access)
    : options_(std::move(options)), access_(access), has_news_(options_.runtime.executor->make_event()) {}

Result<std::unique_ptr<Audit>> Audit::open(Options options, const AccessControl& access) {
  if (!options.file.starts_with('/'))
    return invalid_argument(concat("audit log '", options.file, "': name it by an absolute path"));
  std::unique_ptr<Audit> audit(new Audit(std::move(options), access));
  WEIR_TRY(audit->file_, open_for_appending(audit->options_.file));
  audit->thread_ = audit->options_.runtime.executor->start("weir-audit", [self = audit.get()] { self->run(); });
  if (audit->thread_ != nullptr) return audit;
  return Status(ErrorCode::kIoError, "audit log: no thread can be started: raise the limit (ulimit -u)");
}

Audit::~Audit() {
  if (thread_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  has_news_->set();
  thread_.reset();
}

// ---------------------------------------------------------------- lines

void Audit::signed_on(const net::SignOn& caller) {
  const net::Identity* who = caller.identity ? &*caller.identity : nullptr;
  if (!caller.status.is_ok() && !admits(source_of(who, caller.origin))) return;
  AuditLine line(*options_.runtime.clock, options_.server, "sign-on");
  line.add_origin(caller.peer, caller.origin);
  if (who != nullptr) line.add_identity(*who);
  line.add_outcome(caller.status.is_ok() ? "accepted" : "refused", caller.status);
  queue(line.finish());
}

void Audit::ended(const ServerCall& call, const Status& status) {
  const net::Identity& who = call.request.identity();
  if (status.code() == ErrorCode::kPermission || status.code() == ErrorCode::kQuota) {
    if (admits(source_of(&who, who.origin))) add_call("refusal", call, status);
    return;
  }
  if (who.is_server) return;
  const wire::OperationUnion& operation = call.head.operation;
  if (const auto* change = operation.AsSetAttributes()) {
    if (status.is_ok() && (change->set_mode || change->set_owner)) add_call("change", call, status);
  } else if (operation.type == wire::Operation::SetQuota) {
    add_call("quota", call, status);
  } else if (operation.type == wire::Operation::Adopt) {
    add_call("administer", call, status);
  } else if (const wire::Subfile* subfile = repaired_subfile(operation)) {
    if (access_.acts_as_administrator(call, subfile->file())) add_call("administer", call, status);
  }
}

void Audit::add_call(std::string_view event, const ServerCall& call, const Status& status) {
  const wire::OperationUnion& operation = call.head.operation;
  AuditLine line(*options_.runtime.clock, options_.server, event);
  line.add_origin(call.request.peer(), call.request.identity().origin);
  line.add_identity(call.request.identity());
  JsonWriter& json = line.json();
  json.field("operation", wire::EnumNameOperation(operation.type));
  add_object(json, operation);
  if (const auto* change = operation.AsSetAttributes()) {
    if (change->set_mode) json.field("mode", std::string_view(fmt::format("{:04o}", change->mode)));
    if (change->set_owner) json.field("owner", number(change->uid)).field("group", number(change->gid));
  }
  if (const auto* quota = operation.AsSetQuota()) {
    json.field("user", number(quota->user)).field("clear", quota->clear);
    if (quota->set_bytes) json.field("bytes", quota->bytes);
    if (quota->set_files) json.field("files", quota->files);
  }
  if (const auto* fence = operation.AsFence()) json.field("action", wire::EnumNameFenceAction(fence->action));
  line.add_outcome(status.is_ok() ? "done" : event == "refusal" ? "refused" : "failed", status);
  queue(line.finish());
}

bool Audit::admits(const std::string& source) {
  const std::lock_guard lock(mutex_);
  if (window_end_ == runtime::TimePoint::max()) window_end_ = options_.runtime.clock->now() + options_.window;
  // What does not fit into the table counts together.
  const bool is_told_apart = sources_.contains(source) || sources_.size() < options_.most_sources;
  Source& refused = sources_[is_told_apart ? source : "others"];
  if (refused.written < options_.most_refusals_of_source && refusals_ < options_.most_refusals) {
    ++refused.written;
    ++refusals_;
    return true;
  }
  if (refused.counted++ == 0) has_news_->set();  // the thread writes the count when the window ends
  return false;
}

void Audit::queue(std::string line) {
  const std::lock_guard lock(mutex_);
  if (queue_.size() + line.size() > options_.most_queued_bytes) {
    ++lost_;
    return;
  }
  queue_ += line;
  if (queued_++ == 0) has_news_->set();
}

// With the lock.
void Audit::end_window() {
  for (const auto& [source, refused] : std::exchange(sources_, {})) {
    if (refused.counted == 0) continue;
    AuditLine line(*options_.runtime.clock, options_.server, "summary");
    line.json().field("source", std::string_view(limited(source))).field("count", number(refused.counted));
    line.json().field("outcome", "refused");
    queue_ += line.finish();
    ++queued_;
  }
  refusals_ = 0;
  window_end_ = runtime::TimePoint::max();
}

// ---------------------------------------------------------------- the thread

void Audit::run() {
  for (;;) {
    Batch batch;
    bool is_last = false;
    runtime::TimePoint next;
    {
      const std::lock_guard lock(mutex_);
      is_last = is_ending_;
      if (is_last || options_.runtime.clock->now() >= window_end_) end_window();
      batch = {std::exchange(queue_, {}), std::exchange(queued_, 0), 0};
      if (batch.count > 0 || is_last) batch.lost = std::exchange(lost_, 0);
      next = window_end_;
    }
    const bool is_empty = batch.count == 0 && batch.lost == 0;
    if (!is_empty) write(std::move(batch));
    if (is_last) return;
    if (is_empty) (void)has_news_->wait_until(next);
  }
}

void Audit::write(Batch batch) {
  if (batch.lost > 0) {
    AuditLine line(*options_.runtime.clock, options_.server, "lost");
    line.json().field("count", number(batch.lost));
    batch.lines.insert(0, line.finish());
  }
  if (std::exchange(is_torn_, false)) batch.lines.insert(0, "\n");
  Status status = reopen_if_moved();
  const std::size_t written = status.is_ok() ? append_all(file_.get(), batch.lines) : 0;
  if (status.is_ok() && written < batch.lines.size())
    status = os_error(ErrorCode::kIoError, concat("audit log ", options_.file));
  const bool had_failed = std::exchange(has_failed_, !status.is_ok());
  if (!status.is_ok() && !had_failed)
    WEIR_LOG_ERROR("server {}: {}; lines are lost until it can be written again", options_.server, status.message());
  if (status.is_ok()) return;
  is_torn_ = written > 0 && batch.lines[written - 1] != '\n';
  const std::lock_guard lock(mutex_);
  // Those that were written count as lost, too: too many rather than too few.
  lost_ += batch.lost + batch.count;
}

Status Audit::reopen_if_moved() {
  struct stat open {};
  struct stat there {};
  const bool is_there = ::stat(options_.file.c_str(), &there) == 0;
  if (file_.is_open() && is_there && ::fstat(file_.get(), &open) == 0 && open.st_dev == there.st_dev &&
      open.st_ino == there.st_ino) {
    return Status::ok();
  }
  WEIR_TRY(file_, open_for_appending(options_.file));
  return Status::ok();
}

}  // namespace weir::server::internal
