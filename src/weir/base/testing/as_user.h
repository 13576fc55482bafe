#pragma once

// For tests that run as root: this thread alone acts as another user.

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weir::testing {

/// Whether this process may act as others.
inline bool can_act_as_others() { return ::geteuid() == 0; }

/// Until it ends, this thread has the rights of a user, as the kernel and other processes see it, and so have threads
/// that it starts.  The C library's calls would change all threads.  \pre can_act_as_others()
class AsUser {
 public:
  explicit AsUser(unsigned id) {
    const int count = ::getgroups(0, nullptr);
    groups_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    (void)::getgroups(count, groups_.data());
    EXPECT_EQ(::syscall(SYS_setgroups, 0, nullptr), 0);
    EXPECT_EQ(::syscall(SYS_setresgid, -1, id, -1), 0);
    EXPECT_EQ(::syscall(SYS_setresuid, -1, id, -1), 0);
    (void)::prctl(PR_SET_DUMPABLE, 1);  // or else the files of this process in /proc are root's only
  }
  ~AsUser() {
    EXPECT_EQ(::syscall(SYS_setresuid, -1, 0, -1), 0);
    EXPECT_EQ(::syscall(SYS_setresgid, -1, ::getgid(), -1), 0);
    EXPECT_EQ(::syscall(SYS_setgroups, groups_.size(), groups_.data()), 0);
    (void)::prctl(PR_SET_DUMPABLE, 1);
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;

 private:
  std::vector<gid_t> groups_;
};

}  // namespace weir::testing
