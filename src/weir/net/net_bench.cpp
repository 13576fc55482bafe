// Calls between two processes, against what is possible without Weir, in one run:
//
//   net_bench [--only rings|plain|encrypted] [--case TEXT] [--repeats 15] [--most-mb 64] [--address A --server-namespace FILE]
//
// `rings` is within a host, against what UCX itself does:
//
//   latency     calls of 64 bytes, answered with 64 bytes.  "asleep": the server has slept before each call, as it does between the calls of
//               a program that computes.  "awake": call after call.  "raw": UCX active messages, both ends polling without end.
//   bandwidth   one transfer at a time, confirmed by a small message: "write" sends the body of a call, "read" gets the body of a reply.
//               "raw": one active message of that size through UCX as it comes (rendezvous, single copy where the system lets it),
//               both ends polling.  A ratio is raw / ours of the same turn, as times: 1 means as fast as UCX.
//
// `plain` and `encrypted` are socket_bench.cpp.
//
// Contenders take turns.  Shown are medians and, in brackets, quartiles.

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <ucp/api/ucp.h>

#include <weir/net/internal/bench_testing.h>

namespace weir::net::bench {
namespace {

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

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* const value = argv[i + 1];
    if (name == "--repeats")
      options.repeats = std::max(1, std::atoi(value));
    else if (name == "--most-mb")
      options.most_bytes = static_cast<std::size_t>(std::atoi(value)) << 20;
    else if (name == "--only")
      options.only = value;
    else if (name == "--case")
      options.cases = value;
    else if (name == "--address")
      options.address = value;
    else if (name == "--server-namespace")
      options.server_namespace = value;
    else
      require(
          false,
          concat("unknown argument ", name,
                 "; known are --only rings|plain|encrypted, --case TEXT, --repeats N, --most-mb N, --address ADDRESS, "
                 "--server-namespace FILE"));
  }
  require(argc % 2 == 1 && options.most_bytes > 0, "every argument needs a value, and --most-mb a positive one");
  return options;
}

void measure_rings(const Options& options) {
  const OtherProcess server(
      [&](int socket) { serve(socket, options.most_bytes, {"tcp:127.0.0.1:0"}, runtime::system_runtime()); });
  const OtherProcess raw_server([&](int socket) { serve_raw(socket, options.most_bytes); });
  RawClient raw(raw_server.socket(), options.most_bytes);
  WeirClient weir({receive_text(server.socket())});
  measure_latency(weir, raw, options.repeats);
  for (std::size_t bytes = std::size_t{64} << 10; bytes <= options.most_bytes; bytes *= 4)
    measure_bandwidth(weir, raw, bytes, options.repeats);
}

// UCX comes last: it leaves threads behind, and the others fork.
void run(const Options& options) {
  for (const char* part : {"plain", "encrypted"}) {
    if (options.wants(part)) measure_sockets(options, part);
  }
  if (options.wants("rings") && options.server_namespace.empty()) measure_rings(options);
}

}  // namespace
}  // namespace weir::net::bench

int main(int argc, char** argv) {
  weir::net::bench::run(weir::net::bench::parse(argc, argv));
  return 0;
}
