#include <weir/server/server.h>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>

#include <weir/base/random_id.h>
#include <weir/base/scheduling.h>
#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/server/internal/assembly.h>
#include <weir/server/internal/handover_server.h>
#include <weir/server/internal/io_service.h>
#include <weir/server/internal/metadata.h>
#include <weir/server/internal/metadata_service.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/memory_store.h>
#include <weir/storage/slow_store.h>
#include <weir/storage/store_spec.h>
#include <weir/wire/wire.h>

namespace weir::server {

namespace {

using internal::Call;
using internal::CallPtr;

constexpr std::chrono::milliseconds kDefaultTimeout{60'000};
constexpr std::chrono::milliseconds kLongestTimeout{24 * 3600 * 1000};

net::Deadline deadline_of(std::int64_t remaining_ms) {
  const std::chrono::milliseconds told(remaining_ms);
  return net::Clock::now() + (told.count() <= 0 ? kDefaultTimeout : std::min(told, kLongestTimeout));
}

// Every subfile in memory, every file on disk and every connection takes a descriptor.
void raise_open_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    WEIR_LOG_WARN("server: cannot raise the limit of open files to {}", limit.rlim_max);
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

Result<std::unique_ptr<storage::Store>> open_plain_store(const Options& options, const storage::StoreSpec& spec,
                                                         const storage::Label& label) {
  if (!spec.is_memory()) {
    return storage::open_disk_store(internal::store_path(spec.directory, options.index), {.label = label});
  }
  storage::MemoryStoreOptions memory;
  memory.capacity_bytes = options.capacity_bytes;
  memory.is_eager = options.is_eager;
  memory.pool_regions = storage::pool_regions_for(options.ahead_bytes, memory.pool_region_bytes);
  return storage::make_memory_store(memory);
}

Result<std::unique_ptr<storage::Store>> open_store(const Options& options, const storage::StoreSpec& spec,
                                                   const storage::Label& label) {
  WEIR_TRY(std::unique_ptr<storage::Store> store, open_plain_store(options, spec, label));
  return spec.slow ? storage::make_slow_store(std::move(store), *spec.slow) : std::move(store);
}

Result<std::unique_ptr<storage::KeyValue>> open_metadata(const Options& options, const storage::StoreSpec& spec) {
  if (options.index != 0) return std::unique_ptr<storage::KeyValue>();
  if (spec.is_memory()) return storage::make_memory_key_value();
  return storage::open_rocks_key_value(internal::metadata_path(spec.directory));
}

}  // namespace

struct Server::Impl final : net::Handler {
  Impl(Options with, std::unique_ptr<storage::Store> on, std::unique_ptr<storage::KeyValue> names)
      : options(std::move(with)),
        identity(net::Identity::of_this_process()),
        store(std::move(on)),
        key_value(std::move(names)) {}

  Status open();
  void handle(net::Request request) override;
  void disconnected(net::PeerId peer) override;
  [[nodiscard]] Status check(const wire::RequestHeadT& head) const;
  void dispatch(const CallPtr& call);
  void answer_members(const CallPtr& call) const;
  void answer_statistics(const CallPtr& call);
  void stop();

  // Set at the start.
  const std::uint64_t boot = random_id();
  Options options;
  net::Identity identity;
  std::unique_ptr<storage::Store> store;
  std::unique_ptr<storage::KeyValue> key_value;  // of server 0
  std::unique_ptr<internal::HandoverServer> handover;

  // The thread's own, while there is one.
  std::vector<net::Address> members;
  wire::CountersT counters;
  std::unordered_set<net::PeerId> peers;
  std::unique_ptr<internal::Metadata> metadata;
  std::unique_ptr<internal::MetadataService> metadata_service;
  std::unique_ptr<internal::IoService> io;
  bool is_stopping = false;

  std::unique_ptr<net::Listener> listener;
  std::thread thread;
};

Status Server::Impl::open() {
  raise_open_file_limit();
  if (key_value != nullptr) {
    WEIR_TRY(metadata, internal::Metadata::open(*key_value, {.uid = identity.uid, .gid = identity.gid, .now_ns = {}}));
    metadata_service = std::make_unique<internal::MetadataService>(
        *metadata,
        [this](net::Clock::time_point time, std::function<void()> task) { listener->at(time, std::move(task)); },
        [this](std::function<void()> task) { listener->post(std::move(task)); });
  }
  if (options.share_memory) {
    WEIR_TRY(handover, internal::HandoverServer::start());
  }
  io = std::make_unique<internal::IoService>(
      *store, internal::IoService::Options{.host = identity.host,
                                           .handover = handover.get(),
                                           .boot = boot,
                                           .post = [this](auto task) { listener->post(std::move(task)); },
                                           .fence_grace = options.fence_grace});
  WEIR_RETURN_IF_ERROR(io->restore_fences());
  WEIR_TRY(listener, net::listen(options.address, options.key, *this, {.stall_limit = options.stall_limit}));
  members = {listener->address()};
  thread = std::thread([this] {
    ask_for_short_slices();
    listener->run();
  });
  return Status::ok();
}

void Server::Impl::handle(net::Request request) {
  ++counters.requests;
  peers.insert(request.peer());
  Result<wire::RequestHeadT> head = wire::decode_request(request.head());
  if (!head.is_ok()) return request.reply(wire::encode_failure(head.status()));
  if (names_bytes(head->operation.type)) counters.index_bytes += request.head().size();
  const net::Deadline deadline = deadline_of(head->remaining_ms);
  const auto call = std::make_shared<Call>(Call{std::move(request), std::move(head).value(), deadline, counters, boot});
  if (const Status status = check(call->head); !status.is_ok()) return call->fail(status);
  dispatch(call);
}

Status Server::Impl::check(const wire::RequestHeadT& head) const {
  if (is_stopping) return {ErrorCode::kUnavailable, concat("server ", options.index, " is stopping")};
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
  if (io->handle(call)) return;
  if (metadata_service != nullptr && metadata_service->handle(call)) return;
  call->fail(invalid_argument(concat("server ", options.index, " does not know operation ",
                                     wire::EnumNameOperation(operation), ": the metadata service is on server 0")));
}

void Server::Impl::disconnected(net::PeerId peer) {
  peers.erase(peer);
  io->drop(peer);
  if (metadata_service != nullptr) metadata_service->drop(peer);
}

// A server knows host and store of itself only: clients ask each.
void Server::Impl::answer_members(const CallPtr& call) const {
  wire::MembersT answer;
  answer.version = std::to_string(wire::kVersion);
  for (std::uint32_t i = 0; i < members.size(); ++i) {
    auto server = std::make_unique<wire::ServerT>();
    server->index = i;
    server->address = members[i].text;
    if (members[i] == listener->address()) {
      server->host = identity.host;
      server->store = options.store;
      server->store_id = store->id();
      server->keeps_about = store->keeps_about();
    }
    answer.servers.push_back(std::move(server));
  }
  call->answer(std::move(answer));
}

void Server::Impl::answer_statistics(const CallPtr& call) {
  counters.views = io->view_count();
  counters.peers = peers.size();
  call->answer(counters);
}

void Server::Impl::stop() {
  if (!thread.joinable()) return;
  listener->post([this] {
    is_stopping = true;
    if (metadata_service != nullptr) metadata_service->stop();
    listener->stop();
  });
  thread.join();
  // Clients must stop writing to the memory before it is said to be safe.
  if (handover != nullptr) handover->stop();
  if (const Status status = io->sync_all(); !status.is_ok()) {
    WEIR_LOG_ERROR("server {}: not all that was written is safe: {}", options.index, status.message());
  }
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
    WEIR_TRY(label, internal::label_for(spec.directory, options.index, options.file_system));
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
  auto impl = std::make_unique<Impl>(options, std::move(store), std::move(metadata));
  WEIR_RETURN_IF_ERROR(impl->open());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

const net::Address& Server::address() const { return impl_->listener->address(); }

Status Server::set_members(const std::vector<net::Address>& members) {
  const auto set = [this, members]() -> Status {
    const auto count = static_cast<std::uint32_t>(members.size());
    if (impl_->key_value != nullptr) WEIR_RETURN_IF_ERROR(internal::form_metadata(*impl_->key_value, count));
    WEIR_RETURN_IF_ERROR(impl_->io->form(count));
    impl_->members = members;
    if (impl_->metadata != nullptr) impl_->metadata->set_target_count(count);
    return Status::ok();
  };
  if (!impl_->thread.joinable()) return set();
  std::promise<Status> done;
  impl_->listener->post([&] { done.set_value(set()); });
  return done.get_future().get();
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
