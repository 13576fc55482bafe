#include <weir/base/unix_socket.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <iterator>

#include <fcntl.h>
#include <gtest/gtest.h>

namespace weir {
namespace {

struct UnixSocketTest : ::testing::Test {
  UnixSocketTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    ours = Descriptor(ends[0]);
    theirs = Descriptor(ends[1]);
  }
  Descriptor ours;
  Descriptor theirs;
  Descriptor null{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
};

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST_F(UnixSocketTest, DescriptorsArriveIfThereAreJustAsMany) {
  const std::array sent{null.get(), null.get()};
  std::array<Descriptor, 2> came;
  ASSERT_TRUE(send_descriptors(theirs.get(), sent));
  EXPECT_TRUE(receive_descriptors(ours.get(), came));
  EXPECT_TRUE(came[0].is_open() && came[1].is_open());
  ASSERT_TRUE(send_descriptors(theirs.get(), sent));
  std::array<Descriptor, 1> one;
  EXPECT_FALSE(receive_descriptors(ours.get(), one));
  EXPECT_FALSE(one[0].is_open());
}

// Whoever can reach the socket can send those, again and again.
TEST_F(UnixSocketTest, DescriptorsOfAMessageWithoutBytesAreClosed) {
  const std::array sent{null.get(), null.get()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof sent)> room{};
  msghdr message{};
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof sent);
  std::memcpy(CMSG_DATA(control), sent.data(), sizeof sent);
  const std::ptrdiff_t before = open_descriptors();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(::sendmsg(theirs.get(), &message, 0), 0);
    std::array<Descriptor, 2> came;
    EXPECT_FALSE(receive_descriptors(ours.get(), came));
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace weir
