#pragma once

// Some servers on disks that lose what was not synced, and a network between them and their clients, all in one
// Simulation.  For tests only.

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <weir/base/text.h>
#include <weir/client/connection_file.h>
#include <weir/client/file_system.h>
#include <weir/server/server.h>
#include <weir/simulation/network.h>
#include <weir/simulation/simulation.h>
#include <weir/storage/faulty_store.h>
#include <weir/storage/volatile_store.h>

namespace weir::simulation {

struct WorldOptions {
  int servers = 3;
  std::chrono::milliseconds timeout{2000};             ///< Of clients.
  std::chrono::milliseconds fence_grace{3000};         ///< Of servers.
  Duration disk_delay = std::chrono::milliseconds(1);  ///< Operations of disks take up to so long, and overtake.
  bool disks_fail = false;                             ///< Now and then an operation of a disk does.
  Offset disk_bytes = storage::VolatileDisk::kUnlimited;
};

/// Functions that start or stop servers, and connect(), are called by fibers.
class World {
 public:
  explicit World(std::uint64_t seed, WorldOptions options = {})
      : options_(options), simulation_(seed), network_(simulation_) {
    std::mt19937_64 key_bytes(seed);
    key_ = {std::vector<std::byte>(32), net::Key::Holder::kServers};
    for (std::byte& byte : key_.bytes) byte = static_cast<std::byte>(key_bytes());
    for (int i = 0; i < options_.servers; ++i) addresses_.push_back({concat("sim:", name_of(i))});
    machines_.resize(static_cast<std::size_t>(options_.servers));
    for (Machine& machine : machines_) {
      machine.disk->id = simulation_.random(UINT64_MAX - 1) + 1;
      machine.disk->capacity_bytes = options_.disk_bytes;
    }
  }

  /// Servers that are still up, since a test has failed, cannot be stopped without a fiber: they are forgotten.
  ~World() {
    for (Machine& machine : machines_) (void)machine.server.release();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] Simulation& simulation() { return simulation_; }
  [[nodiscard]] Network& network() { return network_; }
  [[nodiscard]] int server_count() const { return options_.servers; }
  [[nodiscard]] static std::string name_of(int server) { return concat("server-", server); }
  [[nodiscard]] bool is_up(int server) const { return at(server).server != nullptr; }

  /// A disk that fails while its server starts works the next time.
  Status start(int server) {
    if (options_.disks_fail && start_once(server, true).is_ok()) return Status::ok();
    return start_once(server, false);
  }
  Status start_all() {
    for (int i = 0; i < options_.servers; ++i) {
      if (!is_up(i)) WEIR_RETURN_IF_ERROR(start(i));
    }
    return Status::ok();
  }

  /// From their next start on, disks do not fail any more.
  void mend_disks() { options_.disks_fail = false; }

  /// In an orderly way: everything is synced.
  void stop(int server) { at(server).server.reset(); }
  void stop_all() {
    for (int i = 0; i < options_.servers; ++i) stop(i);
  }

  /// The machine loses power: of what was not synced, some survives.
  void crash(int server) {
    Machine& machine = at(server);
    if (machine.server == nullptr) return;
    simulation_.note(concat("crash ", name_of(server)));
    network_.kill(name_of(server));
    machine.power->cut();
    machine.server.reset();
    std::mt19937_64 random(simulation_.random(UINT64_MAX));
    machine.disk->survive(storage::Survival::kRandom, random);
    machine.table->survive(storage::Survival::kRandom, random);
  }

  Result<client::FileSystem> connect(const std::string& process) {
    client::ConnectOptions options;
    options.direct = false;
    options.timeout = options_.timeout;
    options.runtime = simulation_.runtime();
    options.network = &network_.of(process);
    return client::FileSystem::connect(client::ConnectionFile{key_, addresses_}, options);
  }

 private:
  struct Machine {
    std::shared_ptr<storage::VolatileDisk> disk = std::make_shared<storage::VolatileDisk>();
    std::shared_ptr<storage::VolatileTable> table = std::make_shared<storage::VolatileTable>();
    std::shared_ptr<storage::Power> power;
    std::unique_ptr<server::Server> server;
  };
  Machine& at(int server) { return machines_[static_cast<std::size_t>(server)]; }
  [[nodiscard]] const Machine& at(int server) const { return machines_[static_cast<std::size_t>(server)]; }

  Status start_once(int server, bool disk_fails) {
    Machine& machine = at(server);
    machine.server.reset();
    network_.revive(name_of(server));
    machine.power = std::make_shared<storage::Power>();
    server::Options options;
    options.index = static_cast<std::uint32_t>(server);
    options.address = addresses_[static_cast<std::size_t>(server)];
    options.key = key_;
    options.store = "disk:/simulated";
    options.share_memory = false;
    options.fence_grace = options_.fence_grace;
    options.runtime = simulation_.runtime();
    options.network = &network_.of(name_of(server));
    storage::FaultOptions fault;
    if (disk_fails) {
      fault.fail_at = static_cast<int>(simulation_.random(400));
      fault.code = simulation_.one_in(2) ? ErrorCode::kNoSpace : ErrorCode::kIoError;
    }
    auto store = std::make_unique<storage::FaultyStore>(
        std::make_shared<storage::VolatileStore>(machine.power, machine.disk), std::make_shared<storage::Faults>(fault),
        storage::FaultyTimes{.most = options_.disk_delay, .seed = simulation_.random(UINT64_MAX)},
        *simulation_.runtime().clock);
    std::unique_ptr<storage::KeyValue> names;
    if (server == 0) names = std::make_unique<storage::VolatileKeyValue>(machine.power, machine.table);
    WEIR_TRY(machine.server, server::Server::start(options, std::move(store), std::move(names)));
    return machine.server->set_members(addresses_);
  }

  WorldOptions options_;
  Simulation simulation_;
  Network network_;
  net::Key key_;
  std::vector<net::Address> addresses_;
  std::vector<Machine> machines_;
};

}  // namespace weir::simulation
