// Servers as processes: which ports they open, what is said when one has ended, and how it comes back.

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <weir/base/testing/listening_sockets.h>
#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/cli/internal/run_testing.h>
#include <weir/launch/daemons.h>
#include <weir/net/testing/munge_daemon.h>

namespace weir::cli {
namespace {

using launch::Process;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::weir;

class ServersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / concat("weir-servers-", ::getpid());
    std::filesystem::create_directories(folder_);
    fs_ = (folder_ / "fs.toml").string();
    std::ofstream(local("source")) << std::string(300'000, 'w');
  }
  void TearDown() override {
    weir({"down", "--connection", fs_});
    std::filesystem::remove_all(folder_);
  }

  void up(std::vector<std::string> more) {
    std::vector<std::string> all{"up", "--servers", "2", "--capacity", "64M", "--ahead", "0", "--connection", fs_};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = weir(all);
    ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  }
  Outcome run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--fs", fs_, "--timeout", "5"});
    return weir(arguments);
  }
  Outcome up_again(int server) { return weir({"up", "--server", std::to_string(server), "--connection", fs_}); }
  void kill_server(std::size_t server) {
    const Process process = launch::load_processes(fs_).at(server);
    ASSERT_TRUE(process.is_running());
    ::kill(static_cast<pid_t>(process.number), SIGKILL);
    while (process.is_running()) std::this_thread::yield();
  }
  [[nodiscard]] std::string local(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
  std::string fs_;
};

TEST_F(ServersTest, OneThatEndedIsStartedAgainWhereItWas) {
  up({"--store", concat("disk:", local("store"))});
  ASSERT_EQ(run({"put", local("source"), "/a", "--layout", "stripe(unit=1K, over=2)"}).code, kExitOk);
  ASSERT_EQ(run({"mkdir", "/d"}).code, kExitOk);
  const auto before = nlohmann::json::parse(run({"status", "--json"}).out);
  EXPECT_THAT(up_again(1).err, HasSubstr("server 1"));
  EXPECT_THAT(up_again(1).err, HasSubstr("up already"));
  EXPECT_THAT(up_again(2).err, HasSubstr("out of range (2 servers"));

  kill_server(1);
  const Outcome status = run({"status"});
  EXPECT_EQ(status.code, kExitNo);
  EXPECT_THAT(status.out,
              AllOf(HasSubstr("server 1 is down: 1 file has bytes on it that cannot be read or written: /a"),
                    HasSubstr("`weir up --server 1`"), Not(HasSubstr("server 0 is down"))));
  const auto told = nlohmann::json::parse(run({"status", "--json"}).out);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_TRUE(told[0]["alive"]);
  EXPECT_FALSE(told[0].contains("meaning"));
  EXPECT_FALSE(told[1]["alive"]);
  EXPECT_EQ(told[1]["unreachable_files"], 1);
  EXPECT_NE(run({"get", "/a", local("copy")}).code, kExitOk);
  EXPECT_THAT(weir({"up", "--connection", fs_}).err, HasSubstr("weir up --server 1"));

  const Outcome again = up_again(1);
  EXPECT_EQ(again.code, kExitOk) << again.err;
  const Outcome after = run({"status", "--json"});
  EXPECT_EQ(after.code, kExitOk) << after.out;
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(nlohmann::json::parse(after.out)[i]["address"], before[i]["address"]);
  }
  ASSERT_EQ(run({"get", "/a", local("copy"), "--verify"}).code, kExitOk);
  EXPECT_EQ(std::filesystem::file_size(local("copy")), 300'000u);
}

TEST_F(ServersTest, StatusWorksWhileServerZeroIsDown) {
  up({"--store", concat("disk:", local("store"))});
  ASSERT_EQ(run({"mkdir", "/d"}).code, kExitOk);
  kill_server(0);
  EXPECT_NE(run({"ls", "/"}).code, kExitOk);
  const Outcome status = run({"status"});
  EXPECT_EQ(status.code, kExitNo) << status.err;
  EXPECT_THAT(status.out, AllOf(HasSubstr("server 0 is down: names are not reachable"),
                                HasSubstr("`weir up --server 0`"), Not(HasSubstr("server 1 is down"))));
  const auto told = nlohmann::json::parse(run({"status", "--json"}).out);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_FALSE(told[0]["alive"]);
  EXPECT_THAT(told[0]["meaning"].get<std::string>(), HasSubstr("names are not reachable"));
  EXPECT_TRUE(told[1]["alive"]);
  kill_server(1);
  EXPECT_EQ(nlohmann::json::parse(run({"status", "--json"}).out).size(), 2u) << "all down, and still listed";
  for (const int server : {1, 0}) {
    const Outcome again = up_again(server);
    EXPECT_EQ(again.code, kExitOk) << again.err;
  }
  const Outcome listed = run({"ls", "/"});
  EXPECT_EQ(listed.code, kExitOk) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("d"));
}

TEST_F(ServersTest, TheAuditLogGoesOnWhenAServerIsStartedAgain) {
  const std::string file = local("audit");
  const auto lines_with = [&](int server, const std::string& event) {
    int found = 0;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line) && !in.eof();) {
      const auto json = nlohmann::json::parse(line);
      found += json["server"] == server && json["event"] == event ? 1 : 0;
    }
    return found;
  };
  up({"--audit", file});
  ASSERT_EQ(run({"mkdir", "/d"}).code, kExitOk);
  ASSERT_EQ(run({"chmod", "700", "/d"}).code, kExitOk);
  while (lines_with(0, "change") == 0) std::this_thread::yield();
  kill_server(1);
  std::filesystem::remove(file);
  ASSERT_EQ(up_again(1).code, kExitOk);
  ASSERT_EQ(run({"status"}).code, kExitOk);
  while (lines_with(1, "sign-on") == 0) std::this_thread::yield();
  EXPECT_THAT(weir({"up", "--server", "1", "--audit", file, "--connection", fs_}).err, HasSubstr("cannot be changed"));
}

TEST_F(ServersTest, QuotasAreSetShownAndCleared) {
  up({});
  EXPECT_THAT(run({"quota"}).out, HasSubstr("no quotas are set"));
  EXPECT_EQ(nlohmann::json::parse(run({"quota", "--json"}).out)["active"], false);
  const std::string user = std::to_string(::geteuid());
  ASSERT_EQ(run({"quota", "set", user, "--bytes", "1M", "--files", "10"}).code, kExitOk);
  ASSERT_EQ(run({"quota", "set", "--default", "--bytes", "1T", "--files", "none"}).code, kExitOk);
  ASSERT_EQ(run({"put", local("source"), "/a"}).code, kExitOk);
  const auto told = nlohmann::json::parse(run({"quota", "--all", "--json"}).out);
  ASSERT_EQ(told["users"].size(), 1u);
  EXPECT_EQ(told["users"][0]["uid"], ::geteuid());
  EXPECT_GE(told["users"][0]["used_bytes"], 300'000);
  EXPECT_EQ(told["users"][0]["used_files"], 1);
  EXPECT_EQ(told["users"][0]["bytes_limit"], 1 << 20);
  EXPECT_EQ(told["users"][0]["files_limit"], 10);
  EXPECT_EQ(told["users"][0]["own_limits"], true);
  EXPECT_EQ(told["default"]["bytes_limit"], Offset{1} << 40);
  EXPECT_TRUE(told["default"]["files_limit"].is_null());
  EXPECT_THAT(run({"quota"}).out, HasSubstr("1.0 MiB"));
  std::ofstream(local("large")) << std::string(2'000'000, 'w');
  const Outcome refused = run({"put", local("large"), "/b"});
  EXPECT_NE(refused.code, kExitOk);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("may have 1048576 bytes"), HasSubstr("`weir quota`")));
  EXPECT_THAT(run({"quota", "set", user}).err, HasSubstr("--bytes, --files or both"));
  EXPECT_THAT(run({"quota", "set", "--bytes", "1"}).err, HasSubstr("name a user"));
  EXPECT_THAT(run({"quota", "set", "nobody-of-this-name", "--bytes", "1"}).err, HasSubstr("knows no user"));
  ASSERT_EQ(run({"quota", "clear", user}).code, kExitOk);
  ASSERT_EQ(run({"quota", "clear", "--default"}).code, kExitOk);
  EXPECT_THAT(run({"quota"}).out, HasSubstr("no quotas are set"));
}

TEST_F(ServersTest, UpTellsInJsonWhatItStarted) {
  const Outcome started =
      weir({"up", "--servers", "2", "--capacity", "64M", "--ahead", "0", "--connection", fs_, "--json"});
  ASSERT_EQ(started.code, kExitOk) << started.err;
  const auto told = nlohmann::json::parse(started.out);
  EXPECT_EQ(told["connection"], fs_);
  EXPECT_EQ(told["store"], "memory");
  ASSERT_EQ(told["servers"].size(), 2u);
  const auto status = nlohmann::json::parse(run({"status", "--json"}).out);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(told["servers"][i]["server"], i);
    EXPECT_EQ(told["servers"][i]["address"], status[i]["address"]);
    EXPECT_EQ(told["servers"][i]["pid"], launch::load_processes(fs_)[i].number);
  }
  kill_server(1);
  const Outcome again = weir({"up", "--server", "1", "--connection", fs_, "--json"});
  ASSERT_EQ(again.code, kExitOk) << again.err;
  const auto one = nlohmann::json::parse(again.out);
  ASSERT_EQ(one["servers"].size(), 1u);
  EXPECT_EQ(one["servers"][0]["server"], 1);
  EXPECT_EQ(one["servers"][0]["address"], told["servers"][1]["address"]);
  EXPECT_EQ(one["servers"][0]["pid"], launch::load_processes(fs_)[1].number);
}

TEST_F(ServersTest, AServerIsStartedAgainAsItWas) {
  up({});
  kill_server(1);
  const Outcome changed = weir({"up", "--server", "1", "--store", "memory", "--connection", fs_});
  EXPECT_EQ(changed.code, kExitBad);
  EXPECT_THAT(changed.err, HasSubstr("--store cannot be changed"));
  EXPECT_EQ(up_again(1).code, kExitOk);
  EXPECT_EQ(run({"status"}).code, kExitOk);
}

TEST_F(ServersTest, OnlyTheSecretStartsAServerAgain) {
  up({});
  const std::string secret = launch::secret_path(fs_);
  EXPECT_EQ(std::filesystem::status(secret).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::string text;
  std::getline(std::ifstream(fs_) >> std::ws, text, '\0');
  net::Key bare = *net::Key::load(secret, net::Key::Holder::kServers);
  EXPECT_THAT(text, Not(HasSubstr(bare.to_hex())));
  EXPECT_THAT(text, HasSubstr(bare.for_clients().to_hex()));
  kill_server(1);
  std::filesystem::rename(secret, local("secret"));
  EXPECT_THAT(up_again(1).err, AllOf(HasSubstr(secret), HasSubstr("is missing")));
  ASSERT_THAT(net::Key::random().save(secret), weir::testing::IsOk());
  EXPECT_THAT(up_again(1).err, HasSubstr("is not the secret of the servers"));
  std::filesystem::rename(local("secret"), secret);
  const Outcome again = up_again(1);
  EXPECT_EQ(again.code, kExitOk) << again.err;
  EXPECT_EQ(weir({"down", "--connection", fs_}).code, kExitOk);
  EXPECT_FALSE(std::filesystem::exists(secret));
}

// ---------------------------------------------------------------- who calls

TEST_F(ServersTest, StatusTellsThatTheKernelVouches) {
  up({});
  EXPECT_THAT(run({"status"}).out, HasSubstr("callers: no network port; the kernel identifies callers\n"));
  const auto told = nlohmann::json::parse(run({"status", "--json"}).out);
  EXPECT_EQ(told[0]["remote_identity"], "kernel");
  EXPECT_EQ(told[0]["root_squash"], true);
  EXPECT_EQ(told[0]["encryption"], "auto");
}

TEST_F(ServersTest, StatusTellsTheLimits) {
  up({});
  EXPECT_THAT(run({"status"}).out,
              AllOf(HasSubstr("limits: "), HasSubstr("16384 requests"), HasSubstr("100000 locks")));
  const auto told = nlohmann::json::parse(run({"status", "--json"}).out);
  EXPECT_EQ(told[0]["limit_views"], 262144);
  EXPECT_EQ(told[0]["limit_stall_ms"], 10'000);
  EXPECT_EQ(told[0]["refused_requests"], 0);
}

/// Variables of the environment, as long as this exists.
class EnvironmentVariables {
 public:
  explicit EnvironmentVariables(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  EnvironmentVariables(const EnvironmentVariables&) = delete;
  EnvironmentVariables& operator=(const EnvironmentVariables&) = delete;
  ~EnvironmentVariables() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }

 private:
  const std::map<std::string, std::string> variables_;
};

TEST_F(ServersTest, RootOfAnotherHostIsNobody) {
  if (!net::internal::has_munge()) GTEST_SKIP() << net::internal::kWhyNoMunge;
  if (::geteuid() != 0) GTEST_SKIP() << "only root is squashed";
  const net::internal::MungeDaemon daemon;
  // Sockets within this host stand in for those from another one.
  const std::map<std::string, std::string> by_sockets{{"WEIR_TRANSPORT", "tcp"},
                                                      {"WEIR_MUNGE_SOCKET", daemon.socket()}};
  {
    const EnvironmentVariables sockets(by_sockets);
    up({});
    const Outcome made = run({"mkdir", "/d"});
    EXPECT_NE(made.code, kExitOk);
    EXPECT_THAT(made.err, HasSubstr("user 65534 may not"));
  }
  EXPECT_EQ(run({"mkdir", "/d"}).code, kExitOk) << "within this host root is root";
  EXPECT_THAT(run({"status"}).out, HasSubstr("MUNGE those on other hosts (root is nobody)"));
  EXPECT_EQ(nlohmann::json::parse(run({"status", "--json"}).out)[0]["remote_identity"], "munge");
  ASSERT_EQ(weir({"down", "--connection", fs_}).code, kExitOk);

  const EnvironmentVariables sockets(by_sockets);
  up({"--no-root-squash"});
  EXPECT_EQ(run({"mkdir", "/d"}).code, kExitOk);
  EXPECT_THAT(run({"status"}).out, HasSubstr("(root is root)"));
  kill_server(1);
  EXPECT_THAT(weir({"up", "--server", "1", "--no-root-squash", "--connection", fs_}).err,
              HasSubstr("cannot be changed"));
  ASSERT_EQ(up_again(1).code, kExitOk);
  EXPECT_EQ(nlohmann::json::parse(run({"status", "--json"}).out)[1]["root_squash"], false);
}

TEST_F(ServersTest, StatusTellsThatNothingNeedBeEncrypted) {
  const EnvironmentVariables sockets({{"WEIR_TRANSPORT", "tcp"}, {"WEIR_MUNGE", "off"}});
  const Outcome started =
      weir({"up", "--servers", "2", "--capacity", "64M", "--ahead", "0", "--connection", fs_, "--no-encryption"});
  ASSERT_EQ(started.code, kExitOk) << started.err;
  EXPECT_THAT(started.out, HasSubstr("export WEIR_ENCRYPTION=never\n"));
  EXPECT_THAT(run({"status"}).out,
              AllOf(HasSubstr("act as its owner by the key"), HasSubstr("encryption NOT required")));
  kill_server(1);
  ASSERT_EQ(up_again(1).code, kExitOk);
  for (const auto& server : nlohmann::json::parse(run({"status", "--json"}).out)) {
    EXPECT_EQ(server["remote_identity"], "key");
    EXPECT_EQ(server["encryption"], "never");
  }
}

TEST_F(ServersTest, MemoryIsVerifiedIfTheyWereStartedSoAlsoByAServerThatIsStartedAgain) {
  const auto are_verifying = [&] {
    std::vector<bool> verify;
    for (const auto& server : nlohmann::json::parse(run({"status", "--json"}).out)) {
      verify.push_back(server["verify_memory"]);
      EXPECT_EQ(server["damaged_blocks"], 0);
    }
    return verify;
  };
  up({"--verify-memory"});
  EXPECT_THAT(are_verifying(), ElementsAre(true, true));
  kill_server(1);
  EXPECT_THAT(weir({"up", "--server", "1", "--verify-memory", "--connection", fs_}).err,
              HasSubstr("--verify-memory cannot be changed"));
  ASSERT_EQ(up_again(1).code, kExitOk);
  EXPECT_THAT(are_verifying(), ElementsAre(true, true));
  ASSERT_EQ(weir({"down", "--connection", fs_}).code, kExitOk);
  const std::map<std::string, std::string> on{{"WEIR_VERIFY_MEMORY", "on"}};
  const EnvironmentVariables verifying(on);
  up({});
  EXPECT_THAT(are_verifying(), ElementsAre(true, true));
}

// ---------------------------------------------------------------- ports

TEST_F(ServersTest, WithoutListenNoPortIsOpen) {
  up({});
  ASSERT_EQ(run({"put", local("source"), "/a"}).code, kExitOk) << "clients of this host need none";
  for (const Process& process : launch::load_processes(fs_))
    EXPECT_TRUE(weir::testing::listening_sockets(process.number).empty());
}

/// An IPv4 address that others reach; empty if there is none.
std::string outside_address(std::string& as_in_proc) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> release(found, &::freeifaddrs);
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_LOOPBACK) != 0 ||
        (one->ifa_flags & IFF_UP) == 0)
      continue;
    const in_addr address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    char hex[16];
    std::snprintf(hex, sizeof hex, "%08X:", address.s_addr);
    as_in_proc = hex;
    char text[INET_ADDRSTRLEN];
    return ::inet_ntop(AF_INET, &address, text, sizeof text);
  }
  return "";
}

TEST_F(ServersTest, WithListenPortsAreOpenOnThatAddressOnly) {
  std::string in_proc;
  const std::string address = outside_address(in_proc);
  if (address.empty()) GTEST_SKIP() << "this machine has no address but loopback ones";
  up({"--listen", address});
  ASSERT_EQ(run({"put", local("source"), "/a"}).code, kExitOk);
  for (const Process& process : launch::load_processes(fs_)) {
    const auto sockets = weir::testing::listening_sockets(process.number);
    EXPECT_FALSE(sockets.empty());
    for (const std::string& one : sockets) EXPECT_TRUE(one.starts_with(in_proc)) << one;
  }
}

}  // namespace
}  // namespace weir::cli
