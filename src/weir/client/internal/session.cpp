#include <weir/client/internal/session.h>

#include <algorithm>
#include <utility>

#include <weir/base/text.h>
#include <weir/client/connection_file.h>
#include <weir/log/log.h>
#include <weir/storage/store_spec.h>

namespace weir::client::internal {

namespace {

// The slowest network that a deadline should allow for.
constexpr Offset kLeastBytesPerMs = 10000;
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

// ---------------------------------------------------------------- making one

Session::Session(ConnectOptions options, const net::Key& key, std::unique_ptr<net::Caller> caller)
    : options_(std::move(options)),
      key_(key.for_clients()),
      caller_(std::move(caller)),
      progress_thread_(options_.runtime, [this] { return look_after_calls(); }) {
  if (!options_.costs) options_.costs.emplace();
}

Session::~Session() {
  locked([&] { is_ending_ = true; });
  caller_->wake();
  progress_thread_.stop();
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

Status Session::set_table(const wire::MembersT& members) {
  auto fresh = std::make_shared<TargetTable>();
  fresh->epoch = members.epoch;
  fresh->servers.resize(members.targets.size());
  for (const auto& target : members.targets) {
    if (target->index >= fresh->servers.size() || target->server >= members.servers.size()) {
      return corrupt(concat("connect: target ", target->index, " on server ", target->server, " is out of range (",
                            fresh->servers.size(), " targets, ", members.servers.size(), " servers)"));
    }
    fresh->servers[target->index] = target->server;
  }
  const std::lock_guard lock(table_mutex_);
  table_ = std::move(fresh);
  return Status::ok();
}

Status Session::refresh_table() {
  WEIR_TRY(const wire::MembersT members, call<wire::MembersT>(0, wire::MembershipT{}));
  bool is_same = members.servers.size() == links_.size();
  for (const auto& server : members.servers) {
    is_same = is_same && server->index < links_.size() && links_[server->index]->address.text == server->address;
  }
  if (!is_same) return {ErrorCode::kUnavailable, "the servers of the file system are others by now: connect again"};
  return set_table(members);
}

Result<std::shared_ptr<Session>> Session::connect(const ConnectOptions& given) {
  ConnectOptions options = given;
  if (!options.costs) {
    const Result<model::Io> costs = model::calibrated_io(*options.runtime.settings);
    if (!costs.is_ok()) WEIR_LOG_WARN("{}; built-in costs are assumed", costs.status().message());
    options.costs = costs.is_ok() ? *costs : model::Io{};
  }
  std::string where = options.file_system.empty() ? options.runtime.settings->get("WEIR_FS") : options.file_system;
  const bool is_default = where.empty();
  if (is_default) {
    WEIR_TRY(where, default_connection_file(*options.runtime.settings));
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
  const std::string key_file = options.runtime.settings->get("WEIR_KEY_FILE");
  if (key_file.empty()) {
    return invalid_argument(concat("connect: ", where, " needs a key; set WEIR_KEY_FILE to the file that has it"));
  }
  WEIR_TRY(const net::Key key, net::Key::load(key_file, net::Key::Holder::kClients));
  return connect(split(where), key, options);
}

Result<std::shared_ptr<Session>> Session::connect(const std::vector<net::Address>& servers, const net::Key& key,
                                                  const ConnectOptions& options) {
  if (servers.empty()) return invalid_argument("connect: no address given");
  net::Network& network = options.network != nullptr ? *options.network : net::system_network();
  WEIR_TRY(std::unique_ptr<net::Caller> caller, network.make_caller(servers.front(), options.runtime));
  std::shared_ptr<Session> session(new Session(options, key, std::move(caller)));
  session->set_servers(servers);
  auto assumed = std::make_shared<TargetTable>();  // as long as nobody has told
  for (std::uint32_t i = 0; i < servers.size(); ++i) assumed->servers.push_back(i);
  session->table_ = std::move(assumed);
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
  }
  session->set_servers(addresses);
  for (const auto& target : members->targets) {
    if (target->server == 0) session->keeps_about_ = target->keeps_about;
  }
  WEIR_RETURN_IF_ERROR(session->set_table(*members));
  return session;
}

// ---------------------------------------------------------------- calls

net::Deadline Session::deadline(Offset bytes) const {
  return options_.runtime.clock->now() + options_.timeout + std::chrono::milliseconds(bytes / kLeastBytesPerMs);
}

std::string Session::name_of(std::uint32_t server) const {
  if (server >= links_.size()) return concat("server ", server);
  return concat("server ", server, " at ", links_[server]->address.text);
}

std::uint64_t Session::generation(std::uint32_t server) const {
  return server < links_.size() ? links_[server]->generation.load(std::memory_order_acquire) : 0;
}

Result<std::shared_ptr<share::Lifeline>> Session::lifeline(std::uint32_t server, int descriptor) {
  const std::lock_guard lock(mutex_);
  Link& link = *links_[server];
  if (!link.lifeline || !link.lifeline->is_of(descriptor)) {
    WEIR_TRY(link.lifeline, share::Lifeline::map(descriptor));
  }
  return link.lifeline;
}

bool Session::is_connected(std::uint32_t server) {
  bool is_open = false;
  run_in_driver([&] { is_open = links_[server]->connection && links_[server]->connection->is_open(); });
  return is_open;
}

std::vector<TargetSelf> Session::targets() {
  std::vector<std::optional<ServerSelf>> known;
  run_in_driver([&] {
    caller_->progress();  // tells which servers are gone
    const std::lock_guard lock(mutex_);
    for (const auto& link : links_) {
      const bool is_in_vain = link->self && !link->self->has_answered;
      const bool is_current =
          link->connection && link->connection->is_open() && link->self_generation == link->generation;
      known.push_back(is_in_vain || is_current ? link->self : std::nullopt);
    }
  });
  for (std::uint32_t i = 0; i < known.size(); ++i) {
    if (!known[i]) known[i] = ask_self(i);
  }
  const auto now = table();
  std::vector<TargetSelf> targets(now->servers.size());
  for (std::uint32_t i = 0; i < targets.size(); ++i) {
    targets[i].server = now->servers[i];
    if (targets[i].server >= known.size()) continue;
    const auto& told = known[targets[i].server]->targets;
    if (const auto found = told.find(i); found != told.end()) targets[i] = found->second;
  }
  return targets;
}

std::vector<std::uint64_t> Session::stores() {
  std::vector<std::uint64_t> stores;
  for (const TargetSelf& target : targets()) stores.push_back(target.store);
  return stores;
}

Session::ServerSelf Session::ask_self(std::uint32_t server) {
  const Result<wire::MembersT> members = call<wire::MembersT>(server, wire::MembershipT{});
  ServerSelf self;
  if (members.is_ok() && server < members->servers.size()) {
    self.has_answered = true;
    for (const auto& target : members->targets) {
      if (target->server != server) continue;
      if (target->verifies) note_verified_memory();
      const Result<storage::StoreSpec> store = storage::StoreSpec::parse(target->store);
      self.targets[target->index] = {server, target->store_id, members->servers[server]->host,
                                     store.is_ok() && store->is_memory()};
    }
  }
  locked([&] {
    links_[server]->self = self;
    links_[server]->self_generation = generation(server);
  });
  return self;
}

void Session::run_once(std::span<Outgoing*> calls) {
  struct Batch {  // with the session locked
    Session& session;
    Signal signal{};
    std::size_t ended = 0;
    std::size_t wanted = 0;
  } batch{*this};
  const auto wait_for = [&](std::size_t count) {
    for (;;) {
      bool is_there = false;
      locked([&] {
        batch.wanted = count;
        is_there = batch.ended >= count;
      });
      if (is_there) return;
      wait(batch.signal);
    }
  };
  std::size_t started = 0;
  for (Outgoing* outgoing : calls) {
    outgoing->result.reset();
    net::Call call;
    call.head = outgoing->head;
    call.body = outgoing->body;
    call.sink = outgoing->sink;
    call.done = [outgoing, &batch](Result<net::Reply> reply) {
      outgoing->result = std::move(reply);
      batch.session.tell(batch.signal, [&] { return ++batch.ended >= batch.wanted; });
    };
    start({outgoing->server, std::move(call), 0, {}, outgoing->capability});
    if (++started >= kMostUnderWay) wait_for(started + 1 - kMostUnderWay);
  }
  wait_for(started);
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
  if (const wire::SubfileInfoT* info = head->answer.AsSubfileInfo()) {
    for (const Offset bytes : {info->length, info->file_end, info->stored_bytes}) {
      if (bytes < 0 || bytes > kMaxBytes) return corrupt(concat(name_of(server), ": a subfile of ", bytes, " bytes"));
    }
  }
  return head;
}

Status Session::unexpected(std::uint32_t server, const wire::ReplyHeadT& head) const {
  return corrupt(concat(name_of(server), ": unexpected answer of type ", static_cast<int>(head.answer.type)));
}

}  // namespace weir::client::internal
