// Servers that nobody calls sleep.

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/base/text.h>
#include <weir/client/file_system.h>
#include <weir/launch/daemons.h>
#include <weir/layout/language.h>

namespace weir::launch {
namespace {

using std::chrono::milliseconds;
using weir::testing::IsOk;

struct IdleCase {
  const char* name;
  bool is_on_disk;
  bool has_port;
};
class IdleTest : public ::testing::TestWithParam<IdleCase> {};

/// Processor time of a process, in user and system mode.
std::chrono::nanoseconds processor_time(const Process& process) {
  clockid_t clock{};
  timespec used{};
  EXPECT_EQ(::clock_getcpuclockid(static_cast<pid_t>(process.number), &clock), 0);
  EXPECT_EQ(::clock_gettime(clock, &used), 0);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

/// So that every thread of a server has had something to do.
Status use(const std::string& connection) {
  client::ConnectOptions options;
  options.file_system = connection;
  options.direct = false;
  WEIR_TRY(const client::FileSystem fs, client::FileSystem::connect(options));
  WEIR_TRY(const layout::Partition layout, layout::parse("stripe(unit=1K, over=3)"));
  WEIR_TRY(const client::File file, fs.create("/file", layout));
  WEIR_TRY(const client::View view, file.linear());
  WEIR_RETURN_IF_ERROR(view.write(0, std::vector<std::byte>(300'000)));
  WEIR_RETURN_IF_ERROR(file.sync());
  WEIR_RETURN_IF_ERROR(fs.relayout("/file", *layout::parse("stripe(unit=5K, over=2)")));
  return fs.remove("/file");
}

// Over two seconds, each server uses less processor time than a tick of the system's clock.
TEST_P(IdleTest, ServersUseNoProcessorTime) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer has a thread of its own, which wakes again and again";
#endif
  const testing::TemporaryDirectory directory;
  const std::string connection = concat(directory.path(), "/fs.toml");
  DaemonOptions options;
  options.servers = 3;
  options.capacity_bytes = Offset{64} << 20;
  options.ahead_bytes = 0;
  if (GetParam().is_on_disk) options.store = concat("disk:", directory.path(), "/store");
  // Rings serve those on this host; without them, a port on the loopback address does.
  if (GetParam().has_port) ::setenv("WEIR_TRANSPORT", "tcp", 1);
  const auto daemons = start_file_system(options, connection);
  ASSERT_THAT(daemons, IsOk());
  const std::vector<Process> servers = processes_of(*daemons);
  EXPECT_THAT(use(connection), IsOk());
  ::unsetenv("WEIR_TRANSPORT");

  std::this_thread::sleep_for(milliseconds(500));  // what follows a removal is done, and pollers sleep
  std::vector<std::chrono::nanoseconds> before;
  for (const Process& server : servers) before.push_back(processor_time(server));
  std::this_thread::sleep_for(milliseconds(2000));
  for (std::size_t i = 0; i < servers.size(); ++i) {
    EXPECT_LT(processor_time(servers[i]) - before[i], milliseconds(10)) << "server " << i;
  }
  EXPECT_EQ(stop_daemons(servers, milliseconds(60'000)), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, IdleTest,
                         ::testing::Values(IdleCase{"Memory", false, false}, IdleCase{"Disk", true, false},
                                           IdleCase{"Port", false, true}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace weir::launch
