#include <weir/client/internal/session.h>

#include <algorithm>
#include <utility>

#include <weir/base/environment.h>
#include <weir/base/text.h>
#include <weir/client/connection_file.h>
#include <weir/storage/store_spec.h>

namespace weir::client::internal {

namespace {

// The slowest network that a deadline should allow for.
constexpr Offset kLeastBytesPerMs = 10000;
// How long a thread sleeps with the session locked before it lets others in.
constexpr std::chrono::microseconds kTurn{500};
constexpr std::chrono::milliseconds kProgressTurn{1};
constexpr std::size_t kMostUnderWay = 256;

bool is_address(const std::string& text) { return text.starts_with("tcp:") || text.starts_with("local:"); }

std::vector<net::Address> split(const std::string& list) {
  std::vector<net::Address> addresses;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    if (comma > at) addresses.push_back({list.substr(at, comma - at)});
    at = comma + 1;
  }
  return addresses;
}

Status renamed(const Status& status, const std::string& prefix) {
  return {status.code(), concat(prefix, ": ", status.message()), status.location()};
}

}  // namespace

// ---------------------------------------------------------------- small parts

void FairMutex::lock() {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = next_.fetch_add(1);
  turn_.wait(lock, [&] { return serving_.load() == ticket; });
}

void FairMutex::unlock() {
  {
    const std::lock_guard lock(mutex_);
    serving_.fetch_add(1);
  }
  if (next_.load() != serving_.load()) turn_.notify_all();
}

BufferPool::Buffer BufferPool::take(std::size_t bytes) {
  if (bytes > kBytes) return {nullptr, std::unique_ptr<std::byte[]>(new std::byte[bytes])};
  {
    const std::lock_guard lock(mutex_);
    if (!kept_.empty()) {
      auto memory = std::move(kept_.back());
      kept_.pop_back();
      return {this, std::move(memory)};
    }
  }
  return {this, std::unique_ptr<std::byte[]>(new std::byte[kBytes])};
}

BufferPool::Buffer::~Buffer() {
  if (pool_ == nullptr || memory_ == nullptr) return;
  const std::lock_guard lock(pool_->mutex_);
  if (pool_->kept_.size() < kMostKept) pool_->kept_.push_back(std::move(memory_));
}

BufferPool::Buffer& BufferPool::Buffer::operator=(Buffer&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(memory_, other.memory_);
  return *this;
}

// ---------------------------------------------------------------- making one

Session::Session(ConnectOptions options, net::Key key, std::unique_ptr<net::Caller> caller)
    : options_(std::move(options)), key_(std::move(key)), caller_(std::move(caller)) {}

Session::~Session() {
  progress_thread_.stop();
  const std::lock_guard lock(mutex_);
  links_.clear();
}

void Session::set_servers(const std::vector<net::Address>& servers) {
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (i < links_.size() && links_[i]->address == servers[i]) continue;
    auto link = std::make_unique<Link>();
    link->address = servers[i];
    if (i < links_.size()) {
      links_[i] = std::move(link);
    } else {
      links_.push_back(std::move(link));
    }
  }
}

Result<std::shared_ptr<Session>> Session::connect(const ConnectOptions& options) {
  std::string where = options.file_system.empty() ? environment("WEIR_FS") : options.file_system;
  const bool is_default = where.empty();
  if (is_default) {
    WEIR_TRY(where, default_connection_file());
  }
  if (!is_address(where)) {
    const Result<ConnectionFile> found = ConnectionFile::read(where);
    if (is_default && found.status().code() == ErrorCode::kNotFound) {
      return Status(ErrorCode::kNotFound, concat("connect: no file system named, and none at ", where,
                                                 ": start one with `weir up`, or set WEIR_FS"));
    }
    WEIR_TRY(const ConnectionFile file, found);
    auto session = connect(file.servers, file.key, options);
    if (!session.is_ok()) return renamed(session.status(), concat("connect by ", where));
    return session;
  }
  const std::string key_file = environment("WEIR_KEY_FILE");
  if (key_file.empty()) {
    return invalid_argument(concat("connect: ", where, " needs a key; set WEIR_KEY_FILE to the file that has it"));
  }
  WEIR_TRY(const net::Key key, net::Key::load(key_file));
  return connect(split(where), key, options);
}

Result<std::shared_ptr<Session>> Session::connect(const std::vector<net::Address>& servers, const net::Key& key,
                                                  const ConnectOptions& options) {
  if (servers.empty()) return invalid_argument("connect: no address given");
  WEIR_TRY(std::unique_ptr<net::Caller> caller, net::make_caller(servers.front()));
  std::shared_ptr<Session> session(new Session(options, key, std::move(caller)));
  session->set_servers(servers);
  // Server 0 knows all servers; asking it also shows whether the key fits, before anything else is tried.
  const Result<wire::MembersT> members = session->call<wire::MembersT>(0, wire::MembershipT{});
  const ErrorCode code = members.status().code();
  const bool is_down = code == ErrorCode::kUnavailable || code == ErrorCode::kTimedOut;
  if (is_down && options.without_names) return session;
  WEIR_RETURN_IF_ERROR(members.status());
  std::vector<net::Address> addresses(members->servers.size());
  for (const auto& server : members->servers) {
    if (server->index >= addresses.size())
      return corrupt(
          concat("connect: server index ", server->index, " is out of range (", addresses.size(), " servers)"));
    addresses[server->index] = {server->address};
    if (server->index == 0) session->keeps_about_ = server->keeps_about;
  }
  session->set_servers(addresses);
  return session;
}

// ---------------------------------------------------------------- calls

net::Deadline Session::deadline(Offset bytes) const {
  return net::Clock::now() + options_.timeout + std::chrono::milliseconds(bytes / kLeastBytesPerMs);
}

std::string Session::name_of(std::uint32_t server) const {
  if (server >= links_.size()) return concat("server ", server);
  return concat("server ", server, " at ", links_[server]->address.text);
}

std::uint64_t Session::generation(std::uint32_t server) const {
  return server < links_.size() ? links_[server]->generation.load(std::memory_order_acquire) : 0;
}

Result<net::Connection*> Session::connected(std::uint32_t server) {
  if (server >= links_.size()) {
    return Status(ErrorCode::kUnavailable, concat("there is no server ", server, "; there are ", links_.size()));
  }
  Link& link = *links_[server];
  // The lifeline tells at once what the connection may notice late.
  const bool is_gone = link.lifeline && !link.lifeline->is_alive();
  if (link.connection && link.connection->is_open() && !is_gone) return link.connection.get();
  link.connection.reset();
  link.lifeline.reset();
  WEIR_TRY(link.connection, caller_->connect(link.address, key_, net::Clock::now() + options_.timeout));
  link.self.reset();
  link.generation.fetch_add(1, std::memory_order_acq_rel);
  return link.connection.get();
}

Result<std::shared_ptr<wire::Lifeline>> Session::lifeline(std::uint32_t server, int descriptor) {
  const std::lock_guard lock(mutex_);
  Link& link = *links_[server];
  if (!link.lifeline || !link.lifeline->is_of(descriptor)) {
    WEIR_TRY(link.lifeline, wire::Lifeline::map(descriptor));
  }
  return link.lifeline;
}

bool Session::is_connected(std::uint32_t server) {
  const std::lock_guard lock(mutex_);
  return links_[server]->connection && links_[server]->connection->is_open();
}

std::vector<ServerSelf> Session::servers() {
  std::vector<std::optional<ServerSelf>> known;
  locked([&] {
    caller_->progress();  // tells which servers are gone
    for (const auto& link : links_) {
      const bool is_in_vain = link->self && link->self->store == 0;
      const bool is_open = link->connection && link->connection->is_open();
      known.push_back(is_in_vain || is_open ? link->self : std::nullopt);
    }
  });
  std::vector<ServerSelf> servers;
  for (std::uint32_t i = 0; i < known.size(); ++i) {
    servers.push_back(known[i] ? *std::move(known[i]) : ask_self(i));
  }
  return servers;
}

std::vector<std::uint64_t> Session::stores() {
  std::vector<std::uint64_t> stores;
  for (const ServerSelf& server : servers()) stores.push_back(server.store);
  return stores;
}

ServerSelf Session::ask_self(std::uint32_t server) {
  const Result<wire::MembersT> members = call<wire::MembersT>(server, wire::MembershipT{});
  ServerSelf self;
  if (members.is_ok() && server < members->servers.size()) {
    self.store = members->servers[server]->store_id;
    self.host = members->servers[server]->host;
    const Result<storage::StoreSpec> store = storage::StoreSpec::parse(members->servers[server]->store);
    self.is_memory = store.is_ok() && store->is_memory();
  }
  locked([&] { links_[server]->self = self; });
  return self;
}

Result<std::uint64_t> Session::reach(std::uint32_t server) {
  const std::lock_guard lock(mutex_);
  const auto connection = connected(server);
  if (!connection.is_ok()) return renamed(connection.status(), name_of(server));
  return generation(server);
}

void Session::start(std::uint32_t server, std::uint64_t expected, net::Call call) {
  const std::lock_guard lock(mutex_);
  ++under_way_;
  call.deadline = deadline();
  call.patience = options_.timeout;
  call.done = [this, done = std::move(call.done)](Result<net::Reply> reply) {
    --under_way_;
    done(std::move(reply));
  };
  const Result<net::Connection*> connection = connected(server);
  if (!connection.is_ok()) return call.done(connection.status());
  if (expected != 0 && expected != generation(server)) {
    return call.done(Status(ErrorCode::kUnavailable, "the connection was made again"));
  }
  (*connection)->call(std::move(call));
}

void Session::locked(const std::function<void()>& work) {
  const std::lock_guard lock(mutex_);
  work();
}

void Session::progress() {
  const std::lock_guard lock(mutex_);
  ++visits_;
  caller_->progress();
}

// As long as nobody else does.
bool Session::look_after_calls(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const std::lock_guard lock(mutex_);
    if (under_way_ == 0) return false;
    if (std::exchange(visits_looked_, visits_) != visits_) return true;
    caller_->progress();
    if (under_way_ > 0) caller_->wait(net::Clock::now() + kProgressTurn);
  }
  return false;
}

void Session::run_until(const std::function<bool()>& is_ready) {
  for (;;) {
    const std::lock_guard lock(mutex_);
    ++visits_;
    caller_->progress();
    if (is_ready()) return;
    caller_->wait(net::Clock::now() + kTurn);
    if (is_ready()) return;
  }
}

void Session::run_once(std::span<Outgoing*> calls) {
  std::size_t ended = 0;  // changed with the session locked
  std::size_t started = 0;
  for (Outgoing* outgoing : calls) {
    outgoing->result.reset();
    net::Call call;
    call.head = outgoing->head;
    call.body = outgoing->body;
    call.sink = outgoing->sink;
    call.done = [outgoing, &ended](Result<net::Reply> reply) {
      outgoing->result = std::move(reply);
      ++ended;
    };
    start(outgoing->server, 0, std::move(call));
    ++started;
    if (started >= kMostUnderWay) run_until([&] { return ended + kMostUnderWay > started; });
  }
  run_until([&] { return ended == started; });
}

void Session::run(std::span<Outgoing> calls, Repeat repeat) {
  std::vector<Outgoing*> all;
  for (Outgoing& outgoing : calls) all.push_back(&outgoing);
  run_once(all);
  if (repeat == Repeat::kNever) return;
  std::vector<Outgoing*> again;
  for (Outgoing* outgoing : all) {
    if (outgoing->result->status().code() == ErrorCode::kUnavailable) again.push_back(outgoing);
  }
  if (!again.empty()) run_once(again);
}

Status Session::run_all(std::span<Outgoing> calls, Repeat repeat) {
  run(calls, repeat);
  for (const Outgoing& outgoing : calls) {
    if (Status status = answer<wire::DoneT>(outgoing).status(); !status.is_ok()) return status;
  }
  return Status::ok();
}

Result<wire::ReplyHeadT> Session::decode(std::uint32_t server, const Result<net::Reply>& reply) const {
  if (!reply.is_ok()) return renamed(reply.status(), name_of(server));
  Result<wire::ReplyHeadT> head = wire::decode_reply(reply->head);
  if (!head.is_ok()) return renamed(head.status(), name_of(server));
  if (const wire::FailureT* failure = head->answer.AsFailure()) return wire::to_status(*failure);
  return head;
}

Status Session::unexpected(std::uint32_t server, const wire::ReplyHeadT& head) const {
  return corrupt(concat(name_of(server), ": unexpected answer of type ", static_cast<int>(head.answer.type)));
}

}  // namespace weir::client::internal
