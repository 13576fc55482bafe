// Requests to two servers, in any order, from users, a server and root: as a client would send them, with fields
// drawn at random, damaged, or any bytes.  Every call ends, every answer can be decoded, and afterwards the servers
// still serve a client that behaves, unless somebody who may do anything was among the callers.
//
// Input: one byte of settings, then commands: command, session, server, and what Drawer makes of the rest.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weir/base/testing/fuzz_input.h>
#include <weir/base/text.h>
#include <weir/client/connection_file.h>
#include <weir/client/file_system.h>
#include <weir/layout/language.h>
#include <weir/log/log.h>
#include <weir/server/server.h>
#include <weir/simulation/network.h>
#include <weir/simulation/simulation.h>
#include <weir/storage/memory_store.h>
#include <weir/storage/volatile_store.h>
#include <weir/wire/testing/drawn_messages.h>
#include <weir/wire/wire.h>

namespace {

using namespace weir;
using testing::FuzzInput;
using testing::require;
using wire::testing::Drawer;
using wire::testing::Known;

constexpr std::size_t kServers = 2;
constexpr int kMostCommands = 64;
constexpr std::chrono::seconds kPatience{3};
// Root, too, has an identity of its own here, so that runs are alike whoever starts them.
constexpr std::uint32_t kUsers[] = {1000, 1001, 0};

struct Settings {
  bool on_disk = false;
  bool with_privileged = false;  // root and a server among the callers
};

void require_ok(const Status& status, std::string_view what) {
  require(status.is_ok(), concat(what, ": ", status.message()));
}

class Servers {
 public:
  explicit Servers(Settings settings) : simulation_(1), network_(simulation_) {
    key_ = {std::vector<std::byte>(32, std::byte{7}), net::Key::Holder::kServers};
    for (std::size_t i = 0; i < kServers; ++i) {
      addresses_.push_back({concat("sim:server-", i)});
      server::Options options;
      options.index = static_cast<std::uint32_t>(i);
      options.address = addresses_.back();
      options.key = key_;
      options.share_memory = false;
      options.runtime = simulation_.runtime();
      options.network = &network_.of(concat("server-", i));
      options_.push_back(options);
    }
    on_disk_ = settings.on_disk;
  }

  void start() {
    for (server::Options& options : options_) {
      auto started = server::Server::start(options, make_store(), options.index == 0 ? make_names() : nullptr);
      require_ok(started.status(), "start");
      servers_.push_back(std::move(*started));
    }
    for (const auto& server : servers_) require_ok(server->set_members(addresses_), "set_members");
  }
  void stop() { servers_.clear(); }

  [[nodiscard]] simulation::Simulation& simulation() { return simulation_; }
  [[nodiscard]] simulation::Network& network() { return network_; }
  [[nodiscard]] const net::Key& key() const { return key_; }
  [[nodiscard]] const net::Address& address(std::size_t server) const { return addresses_[server]; }

  [[nodiscard]] client::FileSystem connect() {
    client::ConnectOptions options;
    options.direct = false;
    options.timeout = std::chrono::seconds(20);
    options.runtime = simulation_.runtime();
    options.network = &network_.of("well-behaved");
    auto connected = client::FileSystem::connect(client::ConnectionFile{key_, addresses_}, options);
    require_ok(connected.status(), "connect");
    return *connected;
  }

 private:
  std::unique_ptr<storage::Store> make_store() {
    if (on_disk_) {
      return std::make_unique<storage::VolatileStore>(
          std::make_shared<storage::Power>(), std::make_shared<storage::VolatileDisk>(*simulation_.runtime().random));
    }
    storage::MemoryStoreOptions options;
    options.capacity_bytes = Offset{256} << 20;
    options.pool_regions = 0;
    options.runtime = simulation_.runtime();
    auto made = storage::make_memory_store(options);
    require_ok(made.status(), "store");
    return std::move(*made);
  }
  std::unique_ptr<storage::KeyValue> make_names() {
    if (!on_disk_) return storage::make_memory_key_value();
    return std::make_unique<storage::VolatileKeyValue>(std::make_shared<storage::Power>(),
                                                       std::make_shared<storage::VolatileTable>());
  }

  simulation::Simulation simulation_;
  simulation::Network network_;
  net::Key key_;
  bool on_disk_ = false;
  std::vector<net::Address> addresses_;
  std::vector<server::Options> options_;
  std::vector<std::unique_ptr<server::Server>> servers_;
};

/// Somebody with a connection to each server.
class Session {
 public:
  Session(Servers& servers, std::string name, bool is_server, Known& known)
      : servers_(servers), name_(std::move(name)), is_server_(is_server), known_(known) {
    open();
  }
  ~Session() { close(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void call(std::size_t server, net::Bytes head, std::vector<std::uint8_t> body, std::size_t sink_bytes) {
    struct Memory {
      std::vector<std::uint8_t> body;
      std::vector<std::byte> sink;
    };
    auto memory = std::make_shared<Memory>(Memory{std::move(body), std::vector<std::byte>(sink_bytes)});
    ++under_way_;
    net::Call call;
    call.head = std::move(head);
    call.body = std::as_bytes(std::span(memory->body));
    call.sink = memory->sink;
    call.deadline = now() + kPatience;
    call.done = [this, memory](const Result<net::Reply>& reply) {
      --under_way_;
      if (!reply.is_ok()) return;
      const auto decoded = wire::decode_reply(reply->head);
      require_ok(decoded.status(), "an answer cannot be decoded");
      known_.learn(*decoded);
    };
    connections_[server]->call(std::move(call));
    caller_->progress();
  }
  void progress() { caller_->progress(); }
  void finish() {
    while (under_way_ > 0) caller_->wait(now() + kPatience);
  }
  void reopen() {
    close();
    open();
  }

 private:
  void open() {
    caller_ =
        std::move(*servers_.network().of(name_).make_caller(servers_.address(0), servers_.simulation().runtime()));
    for (std::size_t i = 0; i < kServers; ++i) {
      connections_[i] = caller_->connect(servers_.address(i),
                                         is_server_ ? servers_.key() : servers_.key().for_clients(), now() + kPatience);
    }
  }
  void close() {
    for (auto& connection : connections_) connection.reset();
    require(under_way_ == 0, "calls end with their connection");
    caller_.reset();
  }
  [[nodiscard]] runtime::TimePoint now() { return servers_.simulation().now(); }

  Servers& servers_;
  std::string name_;
  bool is_server_;
  Known& known_;
  int under_way_ = 0;
  std::unique_ptr<net::Caller> caller_;
  std::unique_ptr<net::Connection> connections_[kServers];
};

class Attack {
 public:
  Attack(Servers& servers, Settings settings, FuzzInput& in) : servers_(servers), in_(in) {
    for (const std::uint32_t uid : kUsers) {
      if (uid == 0 && !settings.with_privileged) continue;
      net::Identity who = net::Identity::of_this_process();
      who.uid = who.gid = uid;
      who.groups.clear();
      const std::string name = concat("user-", uid);
      servers.network().set_identity(name, who);
      sessions_.push_back(std::make_unique<Session>(servers, name, false, known_));
    }
    if (settings.with_privileged) sessions_.push_back(std::make_unique<Session>(servers, "other-server", true, known_));
  }

  void run() {
    for (int i = 0; i < kMostCommands && !in_.empty(); ++i) {
      step();
      // Mostly, answers come before the next request.
      if (in_.below(8) != 7) pause(std::chrono::milliseconds(2));
      for (const auto& session : sessions_) session->progress();
    }
    for (const auto& session : sessions_) session->finish();
  }

 private:
  void step() {
    const std::size_t command = in_.below(16);
    Session& session = *sessions_[in_.below(sessions_.size())];
    const std::size_t server = in_.below(kServers);
    if (command == 15) return session.reopen();
    if (command == 14) return pause(std::chrono::milliseconds(std::uint64_t{1} << in_.below(28)));
    net::Bytes head;
    if (command == 13) {
      const std::vector<std::uint8_t> any = in_.bytes(2000);
      const auto bytes = std::as_bytes(std::span(any));
      head.assign(bytes.begin(), bytes.end());
    } else {
      head = wire::encode(Drawer(in_, known_).request());
    }
    if (command == 12) head[in_.u16() % head.size()] ^= std::byte{in_.byte()};
    if (command == 11) head.resize(in_.u16() % (head.size() + 1));
    const std::uint64_t body_bytes = static_cast<std::uint64_t>(in_.number()) % 70'000;
    session.call(server, std::move(head), std::vector<std::uint8_t>(body_bytes, 0xab), in_.below(4) == 3 ? 10 : 70'000);
  }
  void pause(std::chrono::milliseconds time) {
    servers_.simulation().runtime().executor->sleep_until(servers_.simulation().now() + time);
  }

  Servers& servers_;
  FuzzInput& in_;
  Known known_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

// What users did in their directory is no concern of a file elsewhere.
void use_well_behaved(const client::FileSystem& fs) {
  const auto layout = layout::parse("stripe(unit=16, over=2)");
  const auto file = fs.create("/theirs", *layout, {.exclusive = true});
  require_ok(file.status(), "create");
  const auto view = file->linear();
  require_ok(view.status(), "view");
  std::vector<std::byte> bytes(100, std::byte{5});
  const Status written = view->write(3, bytes);
  if (written.code() == ErrorCode::kNoSpace) return;  // users may fill a store
  require_ok(written, "write");
  std::vector<std::byte> again(100);
  require_ok(view->read(3, again), "read");
  require(again == bytes, "what is read is what was written");
  require(*file->size() == 103, "the file is as long as it was written");
  require_ok(file->close(), "close");
  require_ok(fs.remove("/theirs"), "remove");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::set_level(log::Level::kOff);
  FuzzInput in(data, size);
  const std::uint8_t bits = in.byte();
  const Settings settings{.on_disk = (bits & 1) != 0, .with_privileged = (bits & 2) != 0};
  Servers servers(settings);
  servers.simulation().spawn("attack", [&] {
    servers.start();
    {
      const client::FileSystem fs = servers.connect();
      require_ok(fs.make_directory("/d"), "mkdir");
      require_ok(fs.set_mode("/d", 0777), "chmod");
      Attack(servers, settings, in).run();
      if (!settings.with_privileged) use_well_behaved(fs);
    }
    servers.stop();
  });
  require_ok(servers.simulation().run(std::chrono::hours(100'000)), "the servers hang");
  return 0;
}
