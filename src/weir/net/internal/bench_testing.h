#pragma once

// What the benchmarks of this component share: the other process, the two ends of a call, times in turns.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/spread.h>
#include <weir/base/text.h>
#include <weir/net/net.h>

namespace weir::net::bench {

inline constexpr std::size_t kSmall = 64;

struct Options {
  int repeats = 15;
  std::size_t most_bytes = std::size_t{64} << 20;
  std::string only;                   ///< This part alone; empty: all.
  std::string cases;                  ///< Of sockets, only what has this in its name.
  std::string address = "127.0.0.1";  ///< Where servers of sockets listen.
  std::string server_namespace;       ///< A file that names their network namespace; empty: that of this process.

  [[nodiscard]] bool wants(std::string_view part) const { return only.empty() || only == part; }
  [[nodiscard]] bool wants_case(std::string_view name) const { return name.find(cases) != std::string_view::npos; }
};

/// Through sockets against plain sockets and OpenSSL, of which `part` is "plain" or "encrypted".
void measure_sockets(const Options& options, const std::string& part);

// A benchmark that cannot do what it claims to measure must not print numbers.
inline void require(bool condition, std::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "net_bench: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

template <typename T>
T take(Result<T> result) {
  require(result.is_ok(), result.status().message());
  return std::move(result).value();
}

inline void send_all(int fd, const void* bytes, std::size_t count) {
  require(::send(fd, bytes, count, 0) == static_cast<ssize_t>(count), "send to the other process failed");
}

inline void receive_all(int fd, void* bytes, std::size_t count) {
  require(::recv(fd, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count), "the other process is gone");
}

inline void send_text(int fd, std::string_view text) {
  const std::size_t size = text.size();
  send_all(fd, &size, sizeof size);
  send_all(fd, text.data(), size);
}

inline std::string receive_text(int fd) {
  std::size_t size = 0;
  receive_all(fd, &size, sizeof size);
  std::string text(size, '\0');
  receive_all(fd, text.data(), size);
  return text;
}

/// A process of its own, started before UCX is used in this one; ends with this one.
class OtherProcess {
 public:
  explicit OtherProcess(const std::function<void(int socket)>& run) {
    int ends[2] = {-1, -1};
    require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair failed");
    pid_ = ::fork();
    require(pid_ >= 0, "fork failed");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[0]);
      run(ends[1]);
      std::_Exit(0);
    }
    ::close(ends[1]);
    socket_ = ends[0];
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(socket_);
  }
  [[nodiscard]] int socket() const { return socket_; }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

// ---------------------------------------------------------------- Weir

inline Key bench_key() { return {Bytes(32, std::byte{7}), Key::Holder::kServers}; }

/// Takes bodies into memory of its own; answers as many bytes as the caller has asked for in the head.
class BenchHandler : public Handler {
 public:
  explicit BenchHandler(std::size_t most_bytes) : memory_(most_bytes, std::byte{1}) {}

  void handle(Request request) override {
    std::size_t wanted = 0;
    std::memcpy(&wanted, request.head().data(), sizeof wanted);
    auto shared = std::make_shared<Request>(std::move(request));
    shared->receive(std::span(memory_).first(shared->body_bytes()), [this, shared, wanted](const Status& status) {
      require(status.is_ok(), "receive failed");
      shared->reply(Bytes(16), std::span(memory_).first(wanted));
    });
  }

 private:
  Bytes memory_;
};

inline void serve(int socket, std::size_t most_bytes, const Address& address, const runtime::Runtime& runtime) {
  BenchHandler handler(most_bytes);
  ListenOptions options;
  options.runtime = runtime;
  const auto listener = take(system_network().listen(address, bench_key(), handler, options));
  send_text(socket, listener->address().text);
  listener->run();
}

class WeirClient {
 public:
  explicit WeirClient(const Address& address, const runtime::Runtime& runtime = runtime::system_runtime())
      : caller_(take(system_network().make_caller(address, runtime))),
        connection_(caller_->connect(address, bench_key(), Clock::now() + std::chrono::seconds(10))) {}

  void call(std::span<const std::byte> body, std::span<std::byte> sink) { calls(body, sink, 1, 1); }

  /// `count` calls, of which up to `most_in_flight` are under way at a time.
  void calls(std::span<const std::byte> body, std::span<std::byte> sink, std::size_t count,
             std::size_t most_in_flight) {
    Progress progress{body, sink, 0, 0};
    while (progress.done < count) {
      while (progress.started < count && progress.started - progress.done < most_in_flight) start(progress);
      caller_->wait(Clock::now() + std::chrono::seconds(1));
    }
  }

 private:
  struct Progress {
    std::span<const std::byte> body;
    std::span<std::byte> sink;
    std::size_t started;
    std::size_t done;
  };

  void start(Progress& progress) {
    Bytes head(sizeof(std::size_t));
    const std::size_t wanted = progress.sink.size();
    std::memcpy(head.data(), &wanted, sizeof wanted);
    ++progress.started;
    connection_->call({std::move(head), progress.body, progress.sink, Clock::now() + std::chrono::seconds(60),
                       [&progress, wanted](const Result<Reply>& reply) {
                         require(reply.is_ok() && reply->body_bytes == wanted, "call failed");
                         ++progress.done;
                       }});
  }

  std::unique_ptr<Caller> caller_;
  std::unique_ptr<Connection> connection_;
};

// ---------------------------------------------------------------- times

inline double seconds_of(const std::function<void()>& run) {
  const auto start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace weir::net::bench
