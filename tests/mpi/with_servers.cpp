// with_servers N command...: a file system of N servers in memory for as long as the command runs, which finds it by WEIR_FS.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/client/connection_file.h>
#include <weir/server/server.h>

extern char** environ;

namespace {

int complain(const std::string& text) {
  std::fprintf(stderr, "with_servers: %s\n", text.c_str());
  return 125;
}

int run(char** command) {
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, command[0], nullptr, nullptr, command, environ);
  if (error != 0) return complain(weir::os_error(command[0], error).message());
  int status = 0;
  weir::uninterrupted([&] { return ::waitpid(child, &status, 0); });
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return complain("usage: with_servers N command...");
  weir::client::ConnectionFile connection;
  connection.key = weir::net::Key::random();
  std::vector<std::unique_ptr<weir::server::Server>> servers;
  const auto count = static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10));
  for (std::uint32_t i = 0; i < count; ++i) {
    weir::server::Options options;
    options.index = i;
    options.key = connection.key;
    options.capacity_bytes = weir::Offset{256} << 20;
    auto server = weir::server::Server::start(options);
    if (!server.is_ok()) return complain(server.status().message());
    connection.servers.push_back((*server)->address());
    servers.push_back(std::move(server).value());
  }
  for (auto& server : servers) {
    const weir::Status status = server->set_members(connection.servers);
    if (!status.is_ok()) return complain(status.message());
  }
  const auto path =
      std::filesystem::temp_directory_path() / ("weir-with-servers-" + std::to_string(::getpid()) + ".toml");
  if (const weir::Status status = connection.write(path.string()); !status.is_ok()) return complain(status.message());
  ::setenv("WEIR_FS", path.c_str(), 1);
  const int code = run(argv + 2);
  std::filesystem::remove(path);
  return code;
}
