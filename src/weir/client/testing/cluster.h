#pragma once

// Some servers inside the test, reached as a parameter says.  For tests and benchmarks only.

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/session.h>
#include <weir/server/server.h>

namespace weir::client::internal {

/// UCX is not built for the thread sanitizer, which would report races inside it.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kCanUseUcx = false;
#else
inline constexpr bool kCanUseUcx = true;
#endif
inline constexpr const char* kWhyNoUcx = "the thread sanitizer cannot see into UCX";

struct ClusterOptions {
  std::string transport = "local";  ///< or "tcp"
  std::string store = "memory";     ///< or "disk"
  bool direct = true;
  int servers = 3;
  bool verifies_memory = false;
  std::chrono::milliseconds timeout{10000};
  std::chrono::milliseconds fence_grace{15000};
  std::vector<std::uint32_t> target_servers = {};        ///< By target; empty: one target on each server.
  runtime::Runtime runtime = runtime::system_runtime();  ///< Of the servers.
};

class Cluster {
 public:
  /// Makes the store and the metadata of a server; null: those that the options say.
  struct Stores {
    std::unique_ptr<storage::Store> store;
    std::unique_ptr<storage::KeyValue> metadata;
  };
  using MakeStores = std::function<Stores(int server)>;

  explicit Cluster(ClusterOptions options, const MakeStores& make = {}) : options_(std::move(options)) {
    static std::atomic<int> number{0};
    name_ = concat("weir-client-test-", ::getpid(), "-", ++number);
    if (options_.store == "disk") {
      directory_ = (std::filesystem::temp_directory_path() / name_).string();
      std::filesystem::create_directories(directory_);
    }
    for (int i = 0; i < options_.servers; ++i) {
      servers_.push_back(nullptr);
      addresses_.push_back(
          {options_.transport == "tcp" ? std::string("tcp:127.0.0.1:0") : concat("local:", name_, "-", i)});
      start(i, make ? make(i) : Stores{});
    }
    for (const auto& server : servers_) {
      if (!server) continue;
      EXPECT_THAT(server->set_members(addresses_, options_.target_servers), weir::testing::IsOk());
    }
  }
  ~Cluster() {
    servers_.clear();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  [[nodiscard]] FileSystem connect() const {
    auto session = try_connect(key_);
    EXPECT_THAT(session, weir::testing::IsOk());
    return *session;
  }
  [[nodiscard]] Result<FileSystem> try_connect(const net::Key& key) const {
    ConnectOptions options;
    options.direct = options_.direct;
    options.timeout = options_.timeout;
    WEIR_TRY(auto session, Session::connect(addresses_, key, options));
    return FileSystem(std::move(session));
  }

  void stop(int server) { servers_[static_cast<std::size_t>(server)].reset(); }
  void start(int server, Stores stores = {}) {
    server::Options options;
    options.index = static_cast<std::uint32_t>(server);
    options.address = addresses_[static_cast<std::size_t>(server)];
    options.key = key_;
    options.store = options_.store == "disk" ? concat("disk:", directory_) : options_.store;
    options.capacity_bytes = Offset{1} << 30;
    options.fence_grace = options_.fence_grace;
    options.verifies_memory = options_.verifies_memory;
    options.runtime = options_.runtime;
    auto started = stores.store ? server::Server::start(options, std::move(stores.store), std::move(stores.metadata))
                                : server::Server::start(options);
    ASSERT_THAT(started, weir::testing::IsOk());
    addresses_[static_cast<std::size_t>(server)] = (*started)->address();
    servers_[static_cast<std::size_t>(server)] = std::move(started).value();
    // While the cluster is made, all are told at its end.
    if (std::cmp_less(addresses_.size(), options_.servers)) return;
    EXPECT_THAT(servers_[static_cast<std::size_t>(server)]->set_members(addresses_, options_.target_servers),
                weir::testing::IsOk());
  }
  /// The table of targets is another from now on.
  void set_targets(std::vector<std::uint32_t> target_servers) {
    options_.target_servers = std::move(target_servers);
    for (const auto& server : servers_) {
      EXPECT_THAT(server->set_members(addresses_, options_.target_servers), weir::testing::IsOk());
    }
  }
  [[nodiscard]] const std::vector<net::Address>& addresses() const { return addresses_; }
  [[nodiscard]] const net::Key& key() const { return key_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Of a store on disk.
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  ClusterOptions options_;
  std::string name_;
  std::string directory_;
  net::Key key_ = net::Key::random();
  std::vector<net::Address> addresses_;
  std::vector<std::unique_ptr<server::Server>> servers_;
};

}  // namespace weir::client::internal
