// What callers of other users may not do.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/server/internal/peer_testing.h>
#include <weir/server/server.h>

namespace weir::server {
namespace {

wire::RemoveSubfileT removal() {
  wire::RemoveSubfileT request;
  request.subfile = internal::subfile(9);
  return request;
}

TEST(WhoCallsTest, OtherUsersDoNotRemoveSubfiles) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as other users";
  Options options;
  options.address = {"tcp:127.0.0.1:0"};
  options.key = net::Key::random();
  options.capacity_bytes = Offset{64} << 20;
  int to[2];
  int from[2];
  ASSERT_EQ(::pipe(to), 0);
  ASSERT_EQ(::pipe(from), 0);
  const pid_t other = ::fork();  // while no other thread runs
  if (other == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    char address[200]{};
    if (::setresuid(12345, 12345, 12345) != 0 || ::read(to[0], address, sizeof address - 1) <= 0) ::_exit(1);
    internal::Peer peer({address}, options.key);
    const auto code = static_cast<char>(peer.call(removal()).status.code());
    ::_exit(::write(from[1], &code, 1) == 1 ? 0 : 1);
  }
  auto server = Server::start(options);
  ASSERT_THAT(server, testing::IsOk());
  const std::string address = (*server)->address().text;
  ASSERT_GT(::write(to[1], address.data(), address.size()), 0);
  char code = -1;
  EXPECT_EQ(::read(from[0], &code, 1), 1);
  EXPECT_EQ(static_cast<ErrorCode>(code), ErrorCode::kPermission);
  ::waitpid(other, nullptr, 0);
  for (const int end : {to[0], to[1], from[0], from[1]}) ::close(end);
  // The user that the server runs as may: fsck does.
  EXPECT_THAT(internal::Peer((*server)->address(), options.key).call(removal()).status, testing::IsOk());
}

}  // namespace
}  // namespace weir::server
