#include <weir/server/server.h>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <weir/base/hash.h>
#include <weir/base/scheduling.h>
#include <weir/base/task.h>
#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/server/internal/access.h>
#include <weir/server/internal/assembly.h>
#include <weir/server/internal/audit.h>
#include <weir/server/internal/io_service.h>
#include <weir/server/internal/metadata.h>
#include <weir/server/internal/metadata_service.h>
#include <weir/server/internal/peers.h>
#include <weir/server/internal/pull_service.h>
#include <weir/server/internal/quota_service.h>
#include <weir/server/internal/removals.h>
#include <weir/server/internal/space.h>
#include <weir/share/handover_server.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/memory_store.h>
#include <weir/storage/slow_store.h>
#include <weir/storage/store_spec.h>
#include <weir/wire/wire.h>

namespace weir::server {

namespace {

using internal::CallPtr;
using internal::ServerCall;

constexpr std::chrono::milliseconds kDefaultTimeout{60'000};
constexpr std::chrono::milliseconds kLongestTimeout{24 * 3600 * 1000};

net::Deadline deadline_of(net::Clock::time_point now, std::int64_t remaining_ms) {
  const std::chrono::milliseconds told(remaining_ms);
  return now + (told.count() <= 0 ? kDefaultTimeout : std::min(told, kLongestTimeout));
}

// Every subfile in memory, every file on disk and every connection takes a descriptor.  \returns how many there can be
std::size_t raise_open_file_limit() {
  constexpr std::size_t kUsual = 1024;
  constexpr rlim_t kEnough = 1 << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUsual;
  const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
  if (before == limit.rlim_max || setrlimit(RLIMIT_NOFILE, &limit) == 0) return std::min(limit.rlim_max, kEnough);
  WEIR_LOG_WARN("server: cannot raise the limit of open files to {}", limit.rlim_max);
  return std::min(before, kEnough);
}

bool is_in_memory(const Options& options) {
  const Result<storage::StoreSpec> spec = storage::StoreSpec::parse(options.store);
  return spec.is_ok() && spec->is_memory();
}

bool names_bytes(wire::Operation operation) {
  return operation == wire::Operation::RegisterView || operation == wire::Operation::ReadView ||
         operation == wire::Operation::WriteView || operation == wire::Operation::ReadPieces ||
         operation == wire::Operation::WritePieces;
}

/// The event loop, as stores see it.
class ListenerLoop final : public storage::Loop {
 public:
  explicit ListenerLoop(net::Listener& listener) : listener_(listener) {}
  void post(std::function<void()> task) override { listener_.post(std::move(task)); }
  void at(runtime::TimePoint time, std::function<void()> task) override { listener_.at(time, std::move(task)); }

 private:
  net::Listener& listener_;
};

Result<std::unique_ptr<storage::Store>> open_plain_store(const Options& options, const storage::StoreSpec& spec,
                                                         const storage::Label& label) {
  if (!spec.is_memory()) {
    return storage::open_disk_store(internal::store_path(spec.directory, options.index),
                                    {.label = label, .runtime = options.runtime});
  }
  storage::MemoryStoreOptions memory;
  memory.capacity_bytes = options.capacity_bytes;
  memory.is_eager = options.is_eager;
  memory.verifies = options.verifies_memory;
  memory.runtime = options.runtime;
  memory.pool_regions = storage::pool_regions_for(options.ahead_bytes, memory.pool_region_bytes);
  return storage::make_memory_store(memory);
}

Result<std::unique_ptr<storage::Store>> open_store(const Options& options, const storage::StoreSpec& spec,
                                                   const storage::Label& label) {
  WEIR_TRY(std::unique_ptr<storage::Store> store, open_plain_store(options, spec, label));
  return spec.slow ? storage::make_slow_store(std::move(store), *spec.slow, *options.runtime.clock) : std::move(store);
}

Result<std::unique_ptr<storage::KeyValue>> open_metadata(const Options& options, const storage::StoreSpec& spec) {
  if (options.index != 0) return std::unique_ptr<storage::KeyValue>();
  if (spec.is_memory()) return storage::make_memory_key_value();
  return storage::open_rocks_key_value(internal::metadata_path(spec.directory), options.runtime);
}

}  // namespace

struct Server::Impl final : net::Handler {
  Impl(Options with, std::unique_ptr<storage::Store> on, std::unique_ptr<storage::KeyValue> names)
      : options(std::move(with)),
        identity(net::Identity::of_this_process()),
        store(std::move(on)),
        key_value(std::move(names)) {}

  Status open();
  void open_services();
  void set_table(const std::vector<net::Address>& servers, std::vector<std::uint32_t> targets);
  void handle(net::Request request) override;
  void signed_on(const net::SignOn& caller) override {
    if (audit != nullptr) audit->signed_on(caller);
  }
  void disconnected(net::PeerId peer) override;
  [[nodiscard]] Status check(const ServerCall& call) const;
  void accept(const CallPtr& call);
  void dispatch(const CallPtr& call);
  void answer_members(const CallPtr& call) const;
  void answer_statistics(const CallPtr& call);
  void set_members(const std::vector<net::Address>& all, const std::vector<std::uint32_t>& targets,
                   std::function<void(const Status&)> done);
  void stop();

  // Set at the start.
  Options options;
  const std::uint64_t boot = options.runtime.random->id();
  net::Identity identity;
  std::unique_ptr<storage::Store> store;
  std::unique_ptr<storage::KeyValue> key_value;  // of server 0
  std::unique_ptr<share::HandoverServer> handover;

  // The thread's own, while there is one.
  std::vector<net::Address> members;
  std::vector<std::uint32_t> target_servers;  // by target
  std::uint64_t epoch = 0;                    // of both
  wire::CountersT counters;
  std::unordered_set<net::PeerId> clients;
  std::unique_ptr<internal::Metadata> metadata;
  std::optional<internal::AccessControl> access;
  std::unique_ptr<internal::Audit> audit;  // null: none is kept
  std::unique_ptr<internal::IoService> io;
  bool is_stopping = false;

  std::unique_ptr<net::Listener> listener;
  std::optional<ListenerLoop> loop;
  std::unique_ptr<internal::Peers> peers;  // uses the listener's caller
  std::unique_ptr<internal::PullService> pull_service;
  std::unique_ptr<internal::Space> space;
  std::unique_ptr<internal::Removals> removals;  // of server 0, as what follows
  std::unique_ptr<internal::MetadataService> metadata_service;
  std::unique_ptr<internal::QuotaService> quota_service;
  std::unique_ptr<runtime::Thread> thread;
};

Status Server::Impl::open() {
  options.limits.fit_connections(raise_open_file_limit());
  if (key_value != nullptr) {
    WEIR_TRY(metadata,
             internal::Metadata::open(
                 *key_value, {.uid = identity.uid,
                              .gid = identity.gid,
                              .now_ns = [clock = options.runtime.clock] { return clock->wall_ns(); },
                              .post = [this](std::function<void()> task) { listener->post(std::move(task)); }}));
  }
  if (options.share_memory) {
    WEIR_TRY(handover, share::HandoverServer::start(options.runtime));
  }
  WEIR_TRY(const internal::CapabilityKey key, internal::CapabilityKey::derive(options.key));
  access.emplace(internal::AccessControl::Options{.key = key, .uid = identity.uid, .clock = options.runtime.clock});
  std::string audit_file =
      options.audit_file.empty() ? options.runtime.settings->get("WEIR_AUDIT") : options.audit_file;
  if (!audit_file.empty()) {
    WEIR_TRY(audit, internal::Audit::open(
                        {.file = std::move(audit_file), .server = options.index, .runtime = options.runtime}, *access));
  }
  io = std::make_unique<internal::IoService>(
      *store, *access,
      internal::IoService::Options{.host = identity.host,
                                   .handover = handover.get(),
                                   .most_views = {options.limits.views, options.limits.view_bytes()},
                                   .boot = boot,
                                   .fence_grace = options.fence_grace,
                                   .runtime = options.runtime});
  WEIR_RETURN_IF_ERROR(io->restore_fences());
  WEIR_TRY(listener, options.network->listen(options.address, options.key, *this,
                                             {.stall_limit = options.limits.stall,
                                              .limits = options.limits.net,
                                              .squashes_root = options.squashes_root,
                                              .runtime = options.runtime}));
  loop.emplace(*listener);
  store->deliver_to(&*loop);
  open_services();
  set_table({listener->address()}, {0});
  thread = options.runtime.executor->start("weir-server", [this] {
    ask_for_short_slices();
    listener->run();
  });
  if (thread != nullptr) return Status::ok();
  return {ErrorCode::kIoError,
          concat("server ", options.index, ": no thread can be started: raise the limit (ulimit -u)")};
}

void Server::Impl::open_services() {
  const auto post = [this](std::function<void()> task) { listener->post(std::move(task)); };
  const auto at = [this](net::Deadline time, std::function<void()> task) { listener->at(time, std::move(task)); };
  const runtime::Clock* clock = options.runtime.clock;
  peers = std::make_unique<internal::Peers>(
      internal::Peers::Options{.self = options.index,
                               .key = options.key,
                               .clock = clock,
                               .boot = boot,
                               .post = post,
                               .handle = [this](const CallPtr& call) { accept(call); }},
      listener->caller());
  pull_service = std::make_unique<internal::PullService>(*peers, *access);
  const auto after = [clock, at](std::chrono::milliseconds pause, std::function<void()> task) {
    at(clock->now() + pause, std::move(task));
  };
  space = std::make_unique<internal::Space>(*store, *peers, internal::Space::Options{.boot = boot, .after = after});
  io->meter_by(space.get());
  if (metadata == nullptr) return;
  removals = std::make_unique<internal::Removals>(
      *metadata, *peers, internal::Removals::Options{.keeps_about = store->capabilities().keeps_about, .after = after});
  quota_service = std::make_unique<internal::QuotaService>(*metadata, *access, *peers, after, post);
  metadata_service = std::make_unique<internal::MetadataService>(*metadata, *removals, *access, *clock, at, post,
                                                                 options.limits.locks);
  listener->post([this] {
    if (const Status status = removals->load(); !status.is_ok()) {
      WEIR_LOG_ERROR("server {}: some subfiles of removed files stay: {}", options.index, status.message());
    }
  });
}

void Server::Impl::handle(net::Request request) {
  ++counters.requests;
  Result<wire::RequestHeadT> head = wire::decode_request(request.head());
  if (!head.is_ok()) return request.reply(wire::encode_failure(head.status()));
  if (!request.identity().is_server) clients.insert(request.peer());
  if (names_bytes(head->operation.type)) counters.index_bytes += request.head().size();
  const net::Deadline deadline = deadline_of(options.runtime.clock->now(), head->remaining_ms);
  const auto call = std::make_shared<ServerCall>(
      ServerCall{std::move(request), std::move(head).value(), deadline, counters, boot, audit.get()});
  accept(call);
}

void Server::Impl::accept(const CallPtr& call) {
  if (const Status status = check(*call); !status.is_ok()) return call->fail(status);
  dispatch(call);
}

Status Server::Impl::check(const ServerCall& call) const {
  const wire::RequestHeadT& head = call.head;
  if (is_stopping) return {ErrorCode::kUnavailable, concat("server ", options.index, " is stopping")};
  if (head.epoch != 0 && head.epoch != epoch) {
    return {ErrorCode::kStale,
            concat("server ", options.index, ": the table of targets is another by now: ask for it")};
  }
  if (head.store == 0 || head.store == store->id()) return Status::ok();
  return {ErrorCode::kIoError,
          concat("server ", options.index, " at ", listener->address().text, ": the store that had these bytes is lost",
                 is_in_memory(options) ? " (it was in memory, and the server was started again since)" : "",
                 "; remove the file, or put it there again")};
}

void Server::Impl::dispatch(const CallPtr& call) {
  const wire::Operation operation = call->head.operation.type;
  if (operation == wire::Operation::Membership) return answer_members(call);
  if (operation == wire::Operation::Statistics) return answer_statistics(call);
  if (io->handle(call) || pull_service->handle(call)) return;
  if (metadata_service != nullptr && metadata_service->handle(call)) return;
  if (quota_service != nullptr && quota_service->handle(call)) return;
  call->fail(invalid_argument(concat("server ", options.index, " does not know operation ",
                                     wire::EnumNameOperation(operation), ": the metadata service is on server 0")));
}

void Server::Impl::disconnected(net::PeerId peer) {
  clients.erase(peer);
  io->drop(peer);
  if (metadata_service != nullptr) metadata_service->drop(peer);
}

// The epoch is the same on all servers that were told the same.
void Server::Impl::set_table(const std::vector<net::Address>& servers, std::vector<std::uint32_t> targets) {
  std::string text;
  for (const net::Address& address : servers) text += concat(address.text, "\n");
  for (const std::uint32_t server : targets) text += concat(server, "\n");
  epoch = hash_of(text, servers.size());
  members = servers;
  target_servers = std::move(targets);
  peers->set_table(members, target_servers);
  if (metadata != nullptr) metadata->set_target_count(static_cast<std::uint32_t>(target_servers.size()));
  if (removals != nullptr) removals->retry();
  // Before the first request that comes from outside.
  if (quota_service != nullptr) listener->post([this] { quota_service->begin(); });
  if (quota_service == nullptr && options.index < members.size()) listener->post([this] { space->ask_server_zero(); });
}

// A server knows host and store of itself only: clients ask each.
void Server::Impl::answer_members(const CallPtr& call) const {
  wire::MembersT answer;
  answer.version = std::to_string(wire::kVersion);
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    auto server = std::make_unique<wire::ServerT>();
    server->index = i;
    server->address = members[i].text;
    if (members[i] == listener->address()) server->host = identity.host;
    answer.servers.push_back(std::move(server));
  }
  for (std::uint32_t i = 0; i < target_servers.size(); ++i) {
    auto target = std::make_unique<wire::TargetT>();
    target->index = i;
    target->server = target_servers[i];
    if (target->server < members.size() && members[target->server] == listener->address()) {
      target->store = options.store;
      target->store_id = store->id();
      target->keeps_about = store->capabilities().keeps_about;
      target->verifies = store->capabilities().verifies;
    }
    answer.targets.push_back(std::move(target));
  }
  answer.epoch = epoch;
  call->answer(std::move(answer));
}

// How callers are let in is for all of them; what others do is not.
void Server::Impl::answer_statistics(const CallPtr& call) {
  const bool may_see_counts = access->check_administrator(*call, "see the statistics of servers").is_ok();
  wire::CountersT answer = may_see_counts ? counters : wire::CountersT{};
  if (may_see_counts) {
    answer.views = io->view_count();
    answer.peers = clients.size();
    answer.damaged_blocks = store->damaged_blocks();
    const net::LimitCounters met = listener->limit_counters();
    answer.refused_connections = met.refused_connections;
    answer.refused_requests = met.refused_requests;
    answer.dropped_connections = met.dropped_connections;
  }
  answer.verifies = store->capabilities().verifies;
  const Limits& limits = options.limits;
  answer.limit_connections = limits.net.connections;
  answer.limit_user_connections = limits.net.user_connections;
  answer.limit_requests = limits.net.requests;
  answer.limit_memory = limits.net.request_bytes;
  answer.limit_views = limits.views;
  answer.limit_locks = limits.locks;
  answer.limit_stall_ms = static_cast<std::uint64_t>(limits.stall.count());
  const net::Admission admission = listener->admission();
  answer.identifies = static_cast<wire::Identifies>(admission.identifies);
  answer.encrypts = static_cast<wire::Encrypts>(admission.encrypts);
  answer.squashes_root = admission.squashes_root;
  call->answer(std::move(answer));
}

void Server::Impl::stop() {
  if (thread == nullptr) return;
  listener->post([this] {
    is_stopping = true;
    if (removals != nullptr) removals->stop();
    if (quota_service != nullptr) quota_service->stop();
    space->stop();
    peers->stop();
    if (metadata_service != nullptr) metadata_service->stop();
    listener->stop();
  });
  thread.reset();  // waits
  // Clients must stop writing to the memory before it is said to be safe.
  if (handover != nullptr) handover->stop();
  if (const Status status = io->sync_all(); !status.is_ok()) {
    WEIR_LOG_ERROR("server {}: not all that was written is safe: {}", options.index, status.message());
  }
  // What is left of calls whose callers are gone completes before the event loop is gone, too.
  store->stop();
  if (key_value == nullptr) return;
  // Also waits for what calls asked for that are answered by now: it must not come to the event loop when that is gone.
  if (const Status status = storage::sync_and_wait(*key_value); !status.is_ok()) {
    WEIR_LOG_ERROR("server {}: not all metadata is safe: {}", options.index, status.message());
  }
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { stop(); }

Result<std::unique_ptr<Server>> Server::start(const Options& options) {
  WEIR_TRY(const storage::StoreSpec spec, storage::StoreSpec::parse(options.store));
  storage::Label label;
  if (!spec.is_memory()) {
    WEIR_TRY(label, internal::label_for(spec.directory, options.index, options.file_system, *options.runtime.random));
  }
  WEIR_TRY(std::unique_ptr<storage::Store> store, open_store(options, spec, label));
  WEIR_TRY(std::unique_ptr<storage::KeyValue> metadata, open_metadata(options, spec));
  if (!spec.is_memory() && metadata != nullptr) {
    WEIR_RETURN_IF_ERROR(internal::label_metadata(*metadata, spec.directory, store->label()));
  }
  return start(options, std::move(store), std::move(metadata));
}

Result<std::unique_ptr<Server>> Server::start(const Options& options, std::unique_ptr<storage::Store> store,
                                              std::unique_ptr<storage::KeyValue> metadata) {
  Options with = options;
  WEIR_TRY(with.limits, Limits::from(*options.runtime.settings, options.limits));
  auto impl = std::make_unique<Impl>(std::move(with), std::move(store), std::move(metadata));
  WEIR_RETURN_IF_ERROR(impl->open());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

const net::Address& Server::address() const { return impl_->listener->address(); }

// In the event loop, which goes on meanwhile.
void Server::Impl::set_members(const std::vector<net::Address>& all, const std::vector<std::uint32_t>& targets,
                               std::function<void(const Status&)> done) {
  const auto count = static_cast<std::uint32_t>(all.size());
  const auto form_store = [this, all, targets, count, done](const Status& formed) {
    if (!formed.is_ok()) return done(formed);
    weir::start([this, count] { return io->form(count); },
                [this, all, targets, done](const Status& status) {
                  if (status.is_ok()) set_table(all, targets);
                  done(status);
                });
  };
  if (key_value == nullptr) return form_store(Status::ok());
  const Status status = internal::form_metadata(*key_value, count);
  if (!status.is_ok()) return done(status);
  key_value->sync(
      [this, form_store](const Status& synced) { listener->post([form_store, synced] { form_store(synced); }); });
}

Status Server::set_members(const std::vector<net::Address>& members, std::vector<std::uint32_t> target_servers) {
  const auto count = static_cast<std::uint32_t>(members.size());
  if (target_servers.empty()) {
    target_servers.resize(count);
    std::iota(target_servers.begin(), target_servers.end(), 0U);
  }
  for (std::size_t i = 0; i < target_servers.size(); ++i) {
    if (target_servers[i] < count) continue;
    return invalid_argument(
        concat("target ", i, ": server index ", target_servers[i], " is out of range (", count, " servers)"));
  }
  if (impl_->thread == nullptr) return {ErrorCode::kUnavailable, "the server is stopped"};
  const auto done = impl_->options.runtime.executor->make_event();
  Status result;
  impl_->listener->post([&] {
    impl_->set_members(members, target_servers, [&](const Status& status) {
      result = status;
      done->set();
    });
  });
  done->wait();
  return result;
}

Result<std::optional<std::uint32_t>> servers_of(const std::string& store) {
  WEIR_TRY(const storage::StoreSpec spec, storage::StoreSpec::parse(store));
  if (spec.is_memory()) return std::optional<std::uint32_t>{};
  WEIR_TRY(const std::vector<internal::LabelledStore> stores, internal::find_stores(spec.directory));
  for (const internal::LabelledStore& one : stores) {
    if (one.label.is_formed) return std::optional(one.label.servers);
  }
  return std::optional<std::uint32_t>{};
}

void Server::stop() { impl_->stop(); }

}  // namespace weir::server
