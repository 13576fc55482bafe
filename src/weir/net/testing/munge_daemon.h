#pragma once

// A MUNGE daemon of its own for a test, with a key of its own.  For tests only; not installed.

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/base/testing/temporary_directory.h>

namespace weir::net::internal {

inline constexpr const char* kMunged = "/usr/sbin/munged";
inline constexpr const char* kWhyNoMunge = "munged is not installed (Debian: munge)";
inline bool has_munge() { return ::access(kMunged, X_OK) == 0; }

class MungeDaemon {
 public:
  explicit MungeDaemon(char key = 'k') {
    ::chmod(folder_.path().c_str(), 0755);  // callers of all users reach its socket
    std::ofstream(in("key")) << std::string(64, key);
    ::chmod(in("key").c_str(), 0600);
    std::string options[] = {kMunged,
                             "--foreground",
                             "--force",
                             "--key-file=" + in("key"),
                             "--socket=" + socket(),
                             "--pid-file=" + in("pid"),
                             "--log-file=" + in("log"),
                             "--seed-file=" + in("seed")};
    char* words[std::size(options) + 1] = {};
    for (std::size_t i = 0; i < std::size(options); ++i) words[i] = options[i].data();
    posix_spawn_file_actions_t quiet;
    ::posix_spawn_file_actions_init(&quiet);
    for (const int output : {1, 2})
      ::posix_spawn_file_actions_addopen(&quiet, output, in("out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    EXPECT_EQ(::posix_spawn(&process_, kMunged, &quiet, nullptr, words, environ), 0);
    ::posix_spawn_file_actions_destroy(&quiet);
    while (process_ > 0 && !is_listening()) {
      if (::waitpid(process_, nullptr, WNOHANG) == 0) continue;
      process_ = 0;
      std::ifstream out(in("out"));
      ADD_FAILURE() << "munged has ended: " << std::string(std::istreambuf_iterator<char>(out), {});
    }
  }
  ~MungeDaemon() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);  // munged overlooks a SIGTERM that comes just before it waits for the next caller
    ::waitpid(process_, nullptr, 0);
  }
  MungeDaemon(const MungeDaemon&) = delete;
  MungeDaemon& operator=(const MungeDaemon&) = delete;

  [[nodiscard]] std::string socket() const { return in("socket"); }

 private:
  [[nodiscard]] std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  [[nodiscard]] bool is_listening() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket().copy(address.sun_path, sizeof address.sun_path - 1);
    const int one = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_open = ::connect(one, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(one);
    return is_open;
  }

  weir::testing::TemporaryDirectory folder_;
  pid_t process_ = 0;
};

}  // namespace weir::net::internal
