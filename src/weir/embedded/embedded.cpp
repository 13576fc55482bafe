#include <weir/embedded/embedded.h>

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include <unistd.h>

#include <weir/base/text.h>
#include <weir/client/connection_file.h>
#include <weir/server/server.h>

namespace weir {

struct Embedded::State {
  std::vector<std::unique_ptr<server::Server>> servers;
  std::optional<client::FileSystem> file_system;  // gone before the servers are
};

namespace {

constexpr int kMostServers = 1024;

Offset share_of_memory(int servers) {
  return Offset{::sysconf(_SC_PHYS_PAGES)} / 2 * ::sysconf(_SC_PAGESIZE) / servers;
}

}  // namespace

const client::FileSystem& Embedded::file_system() const { return *state_->file_system; }

Result<Embedded> embedded(const EmbeddedOptions& options) {
  if (options.servers < 1 || options.servers > kMostServers) {
    return invalid_argument(concat("embedded: ", options.servers, " servers; 1 to ", kMostServers, " are possible"));
  }
  static std::atomic<std::uint64_t> number{0};
  const std::uint64_t instance = ++number;
  const net::Key key = net::Key::random();
  WEIR_TRY(const std::optional<std::uint32_t> made_by, server::servers_of(options.store));
  if (made_by && std::cmp_not_equal(*made_by, options.servers)) {
    return invalid_argument(concat("embedded: the file system in ", options.store, " has ", *made_by, " servers, not ",
                                   options.servers, ": start ", *made_by));
  }
  Embedded out;
  out.state_ = std::make_shared<Embedded::State>();
  std::vector<net::Address> addresses;
  for (int i = 0; i < options.servers; ++i) {
    server::Options server;
    server.index = static_cast<std::uint32_t>(i);
    server.address = {concat("local:embedded-", instance, "-", i)};
    server.key = key;
    server.store = options.store;
    server.verifies_memory = options.verifies_memory;
    server.capacity_bytes = options.capacity_bytes > 0 ? options.capacity_bytes : share_of_memory(options.servers);
    WEIR_TRY(auto started, server::Server::start(server));
    addresses.push_back(started->address());
    out.state_->servers.push_back(std::move(started));
  }
  for (const auto& server : out.state_->servers) WEIR_RETURN_IF_ERROR(server->set_members(addresses));
  client::ConnectOptions connect;
  connect.direct = options.direct;
  WEIR_TRY(out.state_->file_system, client::FileSystem::connect(client::ConnectionFile{key, addresses}, connect));
  return out;
}

}  // namespace weir
