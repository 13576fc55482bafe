#include <weir/share/internal/memory_files.h>

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include <weir/base/environment.h>
#include <weir/base/system_call.h>
#include <weir/base/unix_socket.h>
#include <weir/log/log.h>

namespace weir::share::internal {
namespace {

// The C library knows these calls only from 2.36 on.
int open_file_system(const char* type) { return static_cast<int>(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC)); }
bool configure(int file_system, unsigned command, const char* key, const char* value) {
  return syscall(SYS_fsconfig, file_system, command, key, value, 0) == 0;
}
int mount_nowhere(int file_system) {
  constexpr unsigned kAttributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  return static_cast<int>(syscall(SYS_fsmount, file_system, FSMOUNT_CLOEXEC, kAttributes));
}

/// The root of a new tmpfs; -1 and errno.  Only system calls: it may run in the child of a process with many threads.
int make_tmpfs() {
  const int file_system = open_file_system("tmpfs");
  if (file_system < 0) return -1;
  int mount = -1;
  // Room is counted by the store, and may be more than the half of memory that tmpfs would allow.
  if (configure(file_system, FSCONFIG_SET_STRING, "huge", "advise") &&
      configure(file_system, FSCONFIG_SET_STRING, "size", "0") &&
      configure(file_system, FSCONFIG_SET_STRING, "mode", "0700") &&
      configure(file_system, FSCONFIG_CMD_CREATE, nullptr, nullptr)) {
    mount = mount_nowhere(file_system);
  }
  const int error = errno;
  close(file_system);
  errno = error;
  return mount;
}

bool write_all(const char* path, std::string_view text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return is_written;
}

/// "ID ID 1": this id is the same in the namespace.
bool map_id(const char* path, unsigned id) {
  char text[32];
  char* at = text;
  for (int i = 0; i < 2; ++i) {
    at = std::to_chars(at, std::end(text), id).ptr;
    *at++ = ' ';
  }
  *at++ = '1';
  return write_all(path, {text, static_cast<std::size_t>(at - text)});
}

/// Of a process in a new user namespace.
bool keep_ids(unsigned user, unsigned group) {
  return map_id("/proc/self/uid_map", user) && write_all("/proc/self/setgroups", "deny") &&
         map_id("/proc/self/gid_map", group);
}

/// A child in namespaces of its own, whose end is told by no signal: the program may have a handler that knows nothing
/// of it.  As fork() otherwise, but without what libraries do then: a thread that a sanitizer starts would be in the
/// way.
pid_t fork_into_namespace() {
  return static_cast<pid_t>(syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS, nullptr, nullptr, nullptr, nullptr));
}

int make_huge_files() {
  if (environment("WEIR_HUGE_PAGES") == "off") return -1;
  int mount = make_tmpfs();
  if (mount < 0 && errno == EPERM) mount = make_tmpfs_in_namespace().release();
  if (mount >= 0) {
    WEIR_LOG_DEBUG("memory store: has huge pages, in a tmpfs of its own (WEIR_HUGE_PAGES=off: none)");
  } else {
    WEIR_LOG_INFO(
        "memory store: no huge pages, since a tmpfs can be mounted neither by this user nor in a user namespace: new "
        "memory takes longer to make, unless /sys/kernel/mm/transparent_hugepage/shmem_enabled is `advise`");
  }
  return mount;
}

/// For as long as the process lives; -1: none.
int huge_files() {
  static const int directory = make_huge_files();
  return directory;
}

Descriptor make_sealed() {
  Descriptor file(memfd_create("weir-subfile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Only the owner can reopen it through /proc, e.g. for writing a file that was handed over for reading.
  if (!file.is_open() || fchmod(file.get(), 0600) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return {};
  return file;
}

}  // namespace

Descriptor make_tmpfs_in_namespace() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {};
  const Descriptor ours(ends[0]);
  Descriptor childs(ends[1]);
  const unsigned user = geteuid();
  const unsigned group = getegid();
  const pid_t child = fork_into_namespace();
  if (child < 0) return {};
  if (child == 0) {
    const int mount = keep_ids(user, group) ? make_tmpfs() : -1;
    if (mount >= 0) send_descriptors(childs.get(), {&mount, 1});
    _exit(0);
  }
  childs.reset();  // so that the end of the child is seen
  Descriptor mount;
  const bool has_come = receive_descriptors(ours.get(), {&mount, 1});
  uninterrupted([&] { return waitpid(child, nullptr, __WALL); });
  return has_come ? std::move(mount) : Descriptor();
}

MemoryFile make_memory_file(Peers peers) {
  const int directory = peers == Peers::kOwn ? huge_files() : -1;
  if (directory >= 0) {
    Descriptor file(openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file.is_open()) return {std::move(file), false, true};
  }
  return {make_sealed(), true, false};
}

}  // namespace weir::share::internal
