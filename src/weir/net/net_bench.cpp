// Calls between two processes of one host, against what UCX itself does, in one run:
//
//   net_bench [--repeats 15] [--most-mb 64]
//
//   latency     calls of 64 bytes, answered with 64 bytes.  "asleep": the server has slept before each call, as it does between the calls of
//               a program that computes.  "awake": call after call.  "raw": UCX active messages, both ends polling without end.
//   bandwidth   one transfer at a time, confirmed by a small message: "write" sends the body of a call, "read" gets the body of a reply.
//               "raw": one active message of that size through UCX as it comes (rendezvous, single copy where the system lets it),
//               both ends polling.  A ratio is raw / ours of the same turn, as times: 1 means as fast as UCX.
//
// Contenders take turns.  Shown are medians and, in brackets, quartiles.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <weir/base/spread.h>
#include <weir/base/text.h>
#include <weir/net/net.h>

namespace weir::net {
namespace {

constexpr std::size_t kSmall = 64;

struct Settings {
  int repeats = 15;
  std::size_t most_bytes = std::size_t{64} << 20;
};

// A benchmark that cannot do what it claims to measure must not print numbers.
void require(bool condition, std::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "net_bench: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

template <typename T>
T take(Result<T> result) {
  require(result.is_ok(), result.status().message());
  return std::move(result).value();
}

void send_all(int fd, const void* bytes, std::size_t count) {
  require(::send(fd, bytes, count, 0) == static_cast<ssize_t>(count), "send to the other process failed");
}

void receive_all(int fd, void* bytes, std::size_t count) {
  require(::recv(fd, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count), "the other process is gone");
}

void send_text(int fd, std::string_view text) {
  const std::size_t size = text.size();
  send_all(fd, &size, sizeof size);
  send_all(fd, text.data(), size);
}

std::string receive_text(int fd) {
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

Key bench_key() { return {Bytes(32, std::byte{7})}; }

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

void serve(int socket, std::size_t most_bytes) {
  BenchHandler handler(most_bytes);
  const auto listener = take(listen({"tcp:127.0.0.1:0"}, bench_key(), handler));
  send_text(socket, listener->address().text);
  listener->run();
}

class WeirClient {
 public:
  explicit WeirClient(const Address& address)
      : caller_(take(make_caller(address))),
        connection_(take(caller_->connect(address, bench_key(), Clock::now() + std::chrono::seconds(10)))) {}

  void call(std::span<const std::byte> body, std::span<std::byte> sink) {
    Bytes head(sizeof(std::size_t));
    const std::size_t wanted = sink.size();
    std::memcpy(head.data(), &wanted, sizeof wanted);
    bool is_done = false;
    connection_->call(
        {std::move(head), body, sink, Clock::now() + std::chrono::seconds(60), [&](const Result<Reply>& reply) {
           require(reply.is_ok() && reply->body_bytes == wanted, "call failed");
           is_done = true;
         }});
    while (!is_done) caller_->wait(Clock::now() + std::chrono::seconds(1));
  }

 private:
  std::unique_ptr<Caller> caller_;
  std::unique_ptr<Connection> connection_;
};

// ---------------------------------------------------------------- UCX as it comes

void check(ucs_status_t status, std::string_view what) {
  require(status == UCS_OK, concat(what, ": ", ucs_status_string(status)));
}

/// One end of a pair.  Messages go straight from and into memory of the user's.
class Raw {
 public:
  Raw(int socket, std::size_t most_bytes) : memory_(most_bytes, std::byte{1}) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    check(ucp_init(&params, nullptr, &context_), "ucp_init");
    ucp_worker_params_t worker_params{};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
    check(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create");
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = 0;
    handler.cb = &Raw::on_message;
    handler.arg = this;
    check(ucp_worker_set_am_recv_handler(worker_, &handler), "ucp_worker_set_am_recv_handler");
    connect(socket);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  ~Raw() {
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }

  void send(std::span<const std::byte> bytes) {
    const ucp_request_param_t param{};
    finish(ucp_am_send_nbx(endpoint_, 0, nullptr, 0, bytes.data(), bytes.size(), &param));
  }
  /// Waits for a message, which is then in memory().
  std::size_t receive() {
    while (!has_arrived_) ucp_worker_progress(worker_);
    has_arrived_ = false;
    if (descriptor_ != nullptr) {
      const ucp_request_param_t param{};
      finish(ucp_am_recv_data_nbx(worker_, std::exchange(descriptor_, nullptr), memory_.data(), bytes_, &param));
    }
    return bytes_;
  }
  [[nodiscard]] std::span<const std::byte> memory() const { return memory_; }

 private:
  void connect(int socket) {
    ucp_address_t* address = nullptr;
    std::size_t length = 0;
    check(ucp_worker_get_address(worker_, &address, &length), "ucp_worker_get_address");
    send_text(socket, {reinterpret_cast<const char*>(address), length});
    ucp_worker_release_address(worker_, address);
    const std::string other = receive_text(socket);
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(other.data());
    check(ucp_ep_create(worker_, &params, &endpoint_), "ucp_ep_create");
  }
  void finish(void* request) {
    if (request == nullptr) return;
    require(!UCS_PTR_IS_ERR(request), "a UCX operation failed");
    ucs_status_t status = UCS_INPROGRESS;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) ucp_worker_progress(worker_);
    check(status, "UCX operation");
    ucp_request_free(request);
  }
  static ucs_status_t on_message(void* user_data, const void*, size_t, void* data, size_t bytes,
                                 const ucp_am_recv_param_t* param) {
    auto* self = static_cast<Raw*>(user_data);
    self->bytes_ = bytes;
    self->has_arrived_ = true;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
      self->descriptor_ = data;
      return UCS_INPROGRESS;
    }
    if (bytes > 0) std::memcpy(self->memory_.data(), data, bytes);
    return UCS_OK;
  }

  Bytes memory_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  void* descriptor_ = nullptr;
  std::size_t bytes_ = 0;
  bool has_arrived_ = false;
};

/// Confirms each message with a small one.  It polls only for as many messages as it was told to expect, and sleeps
/// between turns.
void serve_raw(int socket, std::size_t most_bytes) {
  Raw raw(socket, most_bytes);
  char command = 0;
  while (::recv(socket, &command, 1, 0) == 1) {
    std::size_t messages = 0;
    receive_all(socket, &messages, sizeof messages);
    for (; messages > 0; --messages) {
      raw.receive();
      raw.send(raw.memory().first(kSmall));
    }
  }
}

class RawClient {
 public:
  RawClient(int socket, std::size_t most_bytes) : socket_(socket), raw_(socket, most_bytes) {}
  /// So many round trips follow.
  void expect(std::size_t messages) {
    send_all(socket_, "g", 1);
    send_all(socket_, &messages, sizeof messages);
  }
  void round_trip(std::span<const std::byte> bytes) {
    raw_.send(bytes);
    raw_.receive();
  }

 private:
  int socket_;
  Raw raw_;
};

// ---------------------------------------------------------------- measuring

double seconds_of(const std::function<void()>& run) {
  const auto start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void measure_latency(WeirClient& weir, RawClient& raw, int repeats) {
  const Bytes body(kSmall, std::byte{1});
  Bytes sink(kSmall);
  std::vector<double> asleep, awake, polled;
  for (int i = 0; i < 100; ++i) weir.call(body, sink);
  for (int i = 0; i < 20 * repeats; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    asleep.push_back(1e6 * seconds_of([&] { weir.call(body, sink); }));
  }
  for (int i = 0; i < 200 * repeats; ++i) awake.push_back(1e6 * seconds_of([&] { weir.call(body, sink); }));
  const auto count = static_cast<std::size_t>(200 * repeats);
  raw.expect(count);
  for (std::size_t i = 0; i < count; ++i) polled.push_back(1e6 * seconds_of([&] { raw.round_trip(body); }));
  const auto print = [](const char* name, const std::vector<double>& values) {
    const Spread spread = spread_of(values);
    std::printf("%-24s %8.2f us [%.2f, %.2f]\n", name, spread.median, spread.low, spread.high);
  };
  print("64 bytes, asleep", asleep);
  print("64 bytes, awake", awake);
  print("64 bytes, raw", polled);
}

void measure_bandwidth(WeirClient& weir, RawClient& raw, std::size_t bytes, int repeats) {
  const Bytes body(bytes, std::byte{1});
  Bytes sink(bytes);
  // Enough per turn that the clock does not matter, and that both ends are warm.
  const std::size_t count = std::max<std::size_t>(1, (std::size_t{16} << 20) / bytes);
  const auto times = [&](const std::function<void()>& once) {
    once();
    return seconds_of([&] {
             for (std::size_t i = 0; i < count; ++i) once();
           }) /
           double(count);
  };
  std::vector<double> raw_rate, write_rate, read_rate, write_ratio, read_ratio;
  for (int i = 0; i < repeats; ++i) {
    raw.expect(count + 1);
    const double raw_time = times([&] { raw.round_trip(body); });
    const double write_time = times([&] { weir.call(body, {}); });
    const double read_time = times([&] { weir.call({}, sink); });
    raw_rate.push_back(double(bytes) / raw_time / 1e9);
    write_rate.push_back(double(bytes) / write_time / 1e9);
    read_rate.push_back(double(bytes) / read_time / 1e9);
    write_ratio.push_back(raw_time / write_time);
    read_ratio.push_back(raw_time / read_time);
  }
  const Spread write = spread_of(write_ratio);
  const Spread read = spread_of(read_ratio);
  std::printf("%8zu KiB  raw %6.2f GB/s   write %6.2f GB/s, %.2f [%.2f, %.2f]   read %6.2f GB/s, %.2f [%.2f, %.2f]\n",
              bytes / 1024, spread_of(raw_rate).median, spread_of(write_rate).median, write.median, write.low,
              write.high, spread_of(read_rate).median, read.median, read.low, read.high);
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--repeats")
      settings.repeats = std::max(1, std::atoi(argv[i + 1]));
    else if (name == "--most-mb")
      settings.most_bytes = static_cast<std::size_t>(std::atoi(argv[i + 1])) << 20;
    else
      require(false, concat("unknown argument ", name, "; known are --repeats N, --most-mb N"));
  }
  require(argc % 2 == 1 && settings.most_bytes > 0, "every argument needs a value, and --most-mb a positive one");
  return settings;
}

void run(const Settings& settings) {
  const OtherProcess server([&](int socket) { serve(socket, settings.most_bytes); });
  const OtherProcess raw_server([&](int socket) { serve_raw(socket, settings.most_bytes); });
  RawClient raw(raw_server.socket(), settings.most_bytes);
  WeirClient weir({receive_text(server.socket())});
  measure_latency(weir, raw, settings.repeats);
  for (std::size_t bytes = std::size_t{64} << 10; bytes <= settings.most_bytes; bytes *= 4)
    measure_bandwidth(weir, raw, bytes, settings.repeats);
}

}  // namespace
}  // namespace weir::net

int main(int argc, char** argv) {
  weir::net::run(weir::net::parse(argc, argv));
  return 0;
}
