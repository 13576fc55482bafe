#include <weir/share/internal/memory_files.h>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include <gtest/gtest.h>

#include <weir/base/aligned_memory.h>
#include <weir/base/huge_pages.h>

namespace weir::share::internal {
namespace {

constexpr Offset kHuge = kHugePageBytes;

/// Room that the system really has taken for an anonymous file.
Offset real_bytes(int descriptor) {
  struct stat now {};
  EXPECT_EQ(fstat(descriptor, &now), 0);
  return Offset{now.st_blocks} * 512;
}

TEST(MemoryFilesTest, HaveHugePagesWhereTheyAreAskedFor) {
  const MemoryFile file = make_memory_file(Peers::kOwn);
  if (!file.is_huge) GTEST_SKIP() << "no huge pages are to be had here";
  ASSERT_EQ(ftruncate(file.descriptor.get(), 2 * kHuge), 0);
  const char byte = 1;
  ASSERT_EQ(pwrite(file.descriptor.get(), &byte, 1, 0), 1);
  constexpr auto kPage = static_cast<Offset>(weir::kPageBytes);
  EXPECT_EQ(real_bytes(file.descriptor.get()), kPage) << "what nobody asked for";
  HugePages pages;
  EXPECT_TRUE(pages.make(file.descriptor.get(), kHuge));
  EXPECT_EQ(real_bytes(file.descriptor.get()), kHuge + kPage);
}

// In a process of its own, since that gives its rights away.
TEST(MemoryFilesTest, WhoIsNotRootHasHugePagesInAUserNamespace) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr unsigned kNobody = 65534;
    if (geteuid() == 0 && (setresgid(kNobody, kNobody, kNobody) != 0 || setresuid(kNobody, kNobody, kNobody) != 0))
      _exit(3);
    (void)prctl(PR_SET_DUMPABLE, 1);  // or else its files in /proc are still root's
    const Descriptor directory = make_tmpfs_in_namespace();
    // 2: nobody can do that here.
    constexpr const char* kByHand = "unshare --user --map-root-user --mount mount -t tmpfs none /tmp 2>/dev/null";
    if (!directory.is_open()) _exit(std::system(kByHand) == 0 ? 4 : 2);
    const Descriptor file(openat(directory.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file.is_open() || ftruncate(file.get(), 2 * kHuge) != 0 || !HugePages::here().make(file.get(), 0)) _exit(5);
    _exit(real_bytes(file.get()) == kHuge ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "mounting in user namespaces is not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace weir::share::internal
