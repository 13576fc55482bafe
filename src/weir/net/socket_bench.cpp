// Calls through sockets, against a hand-written loop over a plain socket, or over OpenSSL with the cipher that Weir uses:
//
//   stream      64 bodies of 1 MiB, four in flight, against 64 MiB by send and recv (SSL_write, SSL_read) of 1 MiB into
//               one buffer, confirmed once.  "write" sends bodies of calls, "read" gets bodies of replies.
//   one         one transfer at a time, confirmed by a small message, against the same by hand
//   64 bytes    and 64 bytes back: "awake": call after call; "asleep": the server has slept before each call
//
// The rival waits as Weir does: it spins for 50 us, then sleeps.  Both ends of it are processes of their own, as Weir's
// are, with TCP_NODELAY, and on loopback addresses with a congestion control that does not pace, if that is allowed.  A
// ratio is the rival's time over ours of the same turn: 1 means as fast as the rival.

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <thread>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sched.h>

#include <weir/base/scheduling.h>
#include <weir/net/internal/bench_testing.h>
#include <weir/net/internal/socket_address.h>

namespace weir::net::bench {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kStreamed = 64;  // pieces
constexpr std::size_t kInFlight = 4;
constexpr auto kSpin = std::chrono::microseconds(50);

/// Sockets also within this host.
class SocketSettings : public runtime::Settings {
 public:
  explicit SocketSettings(bool is_encrypted) : is_encrypted_(is_encrypted) {}
  [[nodiscard]] std::string get(const char* name) const override {
    if (std::string_view(name) == "WEIR_TRANSPORT") return "tcp";
    if (std::string_view(name) == "WEIR_ENCRYPTION") return is_encrypted_ ? "always" : "never";
    return runtime::system_runtime().settings->get(name);
  }

 private:
  bool is_encrypted_;
};

runtime::Runtime runtime_with(const SocketSettings& settings) {
  runtime::Runtime runtime = runtime::system_runtime();
  runtime.settings = &settings;
  return runtime;
}

// ---------------------------------------------------------------- the rival

constexpr std::array<unsigned char, 32> kRivalKey{7};
constexpr std::array<unsigned char, 2> kRivalSuite{0x13, 0x01};  // TLS_AES_128_GCM_SHA256

SSL_SESSION* rival_session(SSL* ssl) {
  SSL_SESSION* const session = SSL_SESSION_new();
  const bool is_made = SSL_SESSION_set1_master_key(session, kRivalKey.data(), kRivalKey.size()) == 1 &&
                       SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kRivalSuite.data())) == 1 &&
                       SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  require(is_made, "OpenSSL does not take the key");
  return session;
}

int offer_rival_key(SSL* ssl, const EVP_MD*, const unsigned char** name, std::size_t* bytes, SSL_SESSION** session) {
  *name = kRivalKey.data();
  *bytes = 1;
  *session = rival_session(ssl);
  return 1;
}

int find_rival_key(SSL* ssl, const unsigned char*, std::size_t, SSL_SESSION** session) {
  *session = rival_session(ssl);
  return 1;
}

/// One end of a connection.
class RivalEnd {
 public:
  RivalEnd(int socket, bool is_encrypted, bool is_server) : socket_(socket) {
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (is_encrypted) encrypt(is_server);
  }
  RivalEnd(const RivalEnd&) = delete;
  RivalEnd& operator=(const RivalEnd&) = delete;
  ~RivalEnd() {
    SSL_free(ssl_);
    ::close(socket_);
  }

  void send(std::span<const std::byte> bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const auto piece = bytes.subspan(done, std::min(kPiece, bytes.size() - done));
      done += ssl_ == nullptr ? counted(::send(socket_, piece.data(), piece.size(), MSG_NOSIGNAL)) : write(piece);
    }
  }
  /// `bytes` of them, into `memory` from its beginning, again and again.
  void receive(std::size_t bytes, std::span<std::byte> memory) {
    const Deadline until = bytes <= kSmall ? Clock::now() + kSpin : Deadline::min();
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t at = done % memory.size();
      const auto into = memory.subspan(at, std::min({kPiece, memory.size() - at, bytes - done}));
      done += ssl_ == nullptr ? read_plain(into, until) : read(into, until);
    }
  }

 private:
  static std::size_t counted(ssize_t result) {
    require(result > 0, "the rival's other end is gone");
    return static_cast<std::size_t>(result);
  }

  void encrypt(bool is_server) {
    SSL_CTX* const context = SSL_CTX_new(TLS_method());
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, std::size_t{128} << 10);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    ssl_ = SSL_new(context);
    SSL_CTX_free(context);
    require(ssl_ != nullptr && SSL_set_fd(ssl_, socket_) == 1, "OpenSSL cannot be set up");
    SSL_set_psk_use_session_callback(ssl_, &offer_rival_key);
    SSL_set_psk_find_session_callback(ssl_, &find_rival_key);
    require((is_server ? SSL_accept(ssl_) : SSL_connect(ssl_)) == 1, "the rival's handshake failed");
    ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
  }

  void sleep(short events) const {
    pollfd descriptor{socket_, events, 0};
    ::poll(&descriptor, 1, -1);
  }

  std::size_t read_plain(std::span<std::byte> into, Deadline until) {
    while (Clock::now() < until) {
      const ssize_t received = ::recv(socket_, into.data(), into.size(), MSG_DONTWAIT);
      if (received >= 0 || errno != EAGAIN) return counted(received);
      if (!yield_if_cheap()) break;
    }
    return counted(::recv(socket_, into.data(), into.size(), 0));
  }
  std::size_t read(std::span<std::byte> into, Deadline until) {
    while (true) {
      const int result = SSL_read(ssl_, into.data(), static_cast<int>(into.size()));
      if (result > 0) return static_cast<std::size_t>(result);
      require(SSL_get_error(ssl_, result) == SSL_ERROR_WANT_READ, "SSL_read failed");
      if (Clock::now() >= until || !yield_if_cheap()) sleep(POLLIN);
    }
  }
  std::size_t write(std::span<const std::byte> piece) {
    while (true) {
      const int result = SSL_write(ssl_, piece.data(), static_cast<int>(piece.size()));
      if (result > 0) return static_cast<std::size_t>(result);
      require(SSL_get_error(ssl_, result) == SSL_ERROR_WANT_WRITE, "SSL_write failed");
      sleep(POLLOUT);
    }
  }

  int socket_;
  SSL* ssl_ = nullptr;
};

internal::SocketAddress to_socket_address(const std::string& text) { return take(internal::resolve({"tcp:" + text})); }

int new_socket(const internal::SocketAddress& address) {
  const int socket = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(socket >= 0, "socket failed");
  const std::string_view unpaced = "reno";
  if (internal::is_loopback(address.storage))
    static_cast<void>(
        ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, unpaced.data(), static_cast<socklen_t>(unpaced.size())));
  return socket;
}

/// What the server is to do: `count` times, receive and answer.
struct Order {
  std::size_t count = 0;
  std::size_t received_bytes = 0;
  std::size_t answered_bytes = 0;
  std::size_t memory_bytes = 0;  ///< Of what is received, and of what is answered.
};

void serve_rival(int control, const Options& options, bool is_encrypted) {
  const internal::SocketAddress address = to_socket_address(options.address + ":0");
  const int listening = new_socket(address);
  require(::bind(listening, address.get(), address.length) == 0 && ::listen(listening, 1) == 0, "listen failed");
  internal::SocketAddress bound;
  bound.length = sizeof bound.storage;
  ::getsockname(listening, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length);
  send_text(control, internal::to_address(bound.storage).text);
  RivalEnd end(::accept(listening, nullptr, nullptr), is_encrypted, true);
  Bytes memory(options.most_bytes, std::byte{1});
  Order order;
  while (::recv(control, &order, sizeof order, MSG_WAITALL) == static_cast<ssize_t>(sizeof order)) {
    const auto used = std::span(memory).first(order.memory_bytes);
    for (; order.count > 0; --order.count) {
      end.receive(order.received_bytes, used);
      for (std::size_t sent = 0; sent < order.answered_bytes; sent += used.size())
        end.send(used.first(std::min(used.size(), order.answered_bytes - sent)));
    }
  }
}

class RivalClient {
 public:
  RivalClient(int control, bool is_encrypted)
      : control_(control), end_(connect_to(receive_text(control)), is_encrypted, false) {}

  /// So many round trips follow.
  void expect(const Order& order) { send_all(control_, &order, sizeof order); }
  void round_trip(std::size_t sent_bytes, std::size_t answered_bytes, std::span<std::byte> memory) {
    for (std::size_t sent = 0; sent < sent_bytes; sent += memory.size())
      end_.send(memory.first(std::min(memory.size(), sent_bytes - sent)));
    end_.receive(answered_bytes, memory);
  }

 private:
  static int connect_to(const std::string& text) {
    const internal::SocketAddress address = take(internal::resolve({text}));
    const int socket = new_socket(address);
    require(::connect(socket, address.get(), address.length) == 0, "connect failed");
    return socket;
  }

  int control_;
  RivalEnd end_;
};

// ---------------------------------------------------------------- measuring

void enter(const std::string& network_namespace) {
  if (network_namespace.empty()) return;
  const int file = ::open(network_namespace.c_str(), O_RDONLY | O_CLOEXEC);
  require(file >= 0 && ::setns(file, CLONE_NEWNET) == 0, "the network namespace cannot be entered");
  ::close(file);
}

class SocketBench {
 public:
  SocketBench(const Options& options, const std::string& part)
      : options_(options),
        part_(part),
        settings_(part == "encrypted"),
        server_([this](int socket) {
          enter(options_.server_namespace);
          serve(socket, options_.most_bytes, {"tcp:" + options_.address + ":0"}, runtime_with(settings_));
        }),
        rival_server_([this](int socket) {
          enter(options_.server_namespace);
          serve_rival(socket, options_, part_ == "encrypted");
        }),
        rival_(rival_server_.socket(), part == "encrypted"),
        weir_({receive_text(server_.socket())}, runtime_with(settings_)),
        memory_(options.most_bytes, std::byte{1}) {}

  void run() {
    std::printf("%s, server at %s\n", part_.c_str(), options_.address.c_str());
    if (options_.wants_case("awake")) round_trips(false, 200);
    if (options_.wants_case("asleep")) round_trips(true, 10);
    if (options_.wants_case("stream")) stream();
    if (!options_.wants_case("one")) return;
    for (std::size_t bytes = std::size_t{64} << 10; bytes <= options_.most_bytes; bytes *= 4) one_at_a_time(bytes);
  }

 private:
  struct Times {
    std::vector<double> rival, ours;
  };

  void round_trips(bool is_asleep, std::size_t count) {
    const auto small = std::span(memory_).first(kSmall);
    const auto median_of = [&](const std::function<void()>& once) {
      std::vector<double> seconds;
      for (std::size_t i = 0; i < count; ++i) {
        if (is_asleep) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        seconds.push_back(seconds_of(once));
      }
      return spread_of(seconds).median;
    };
    Times times;
    for (int i = 0; i < options_.repeats; ++i) {
      rival_.expect({count, kSmall, kSmall, kSmall});
      times.rival.push_back(median_of([&] { rival_.round_trip(kSmall, kSmall, small); }));
      times.ours.push_back(median_of([&] { weir_.call(small, small); }));
    }
    print(is_asleep ? "64 bytes, asleep" : "64 bytes, awake", times, 0, is_asleep ? 1 / 1.5 : 0.8);
  }

  void stream() {
    const auto piece = std::span(memory_).first(kPiece);
    const std::size_t bytes = kStreamed * kPiece;
    Times write, read;
    for (int i = 0; i < options_.repeats; ++i) {
      rival_.expect({1, bytes, kSmall, kPiece});
      write.rival.push_back(seconds_of([&] { rival_.round_trip(bytes, kSmall, piece); }));
      write.ours.push_back(seconds_of([&] { weir_.calls(piece, {}, kStreamed, kInFlight); }));
      rival_.expect({1, kSmall, bytes, kPiece});
      read.rival.push_back(seconds_of([&] { rival_.round_trip(kSmall, bytes, piece); }));
      read.ours.push_back(seconds_of([&] { weir_.calls({}, piece, kStreamed, kInFlight); }));
    }
    const double wanted = part_ == "encrypted" ? 0.8 : 0.9;
    print("stream write", write, bytes, wanted);
    print("stream read", read, bytes, wanted);
  }

  void one_at_a_time(std::size_t bytes) {
    const auto body = std::span(memory_).first(bytes);
    // Enough per turn that the clock does not matter, and that both ends are warm.
    const std::size_t count = std::max<std::size_t>(1, (std::size_t{16} << 20) / bytes);
    const auto time_of = [&](const std::function<void()>& once) {
      once();
      return seconds_of([&] {
               for (std::size_t i = 0; i < count; ++i) once();
             }) /
             double(count);
    };
    Times write, read;
    for (int i = 0; i < options_.repeats; ++i) {
      rival_.expect({count + 1, bytes, kSmall, bytes});
      write.rival.push_back(time_of([&] { rival_.round_trip(bytes, kSmall, body); }));
      write.ours.push_back(time_of([&] { weir_.call(body, {}); }));
      rival_.expect({count + 1, kSmall, bytes, bytes});
      read.rival.push_back(time_of([&] { rival_.round_trip(kSmall, bytes, body); }));
      read.ours.push_back(time_of([&] { weir_.call({}, body); }));
    }
    const std::string size = bytes < kPiece ? concat(bytes >> 10, " KiB") : concat(bytes >> 20, " MiB");
    print("one write, " + size, write, bytes, 0);
    print("one read, " + size, read, bytes, 0);
  }

  // `bytes`: 0 for round trips; `wanted`: 0 if nothing is.
  static void print(const std::string& name, const Times& times, std::size_t bytes, double wanted) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < times.ours.size(); ++i) ratios.push_back(times.rival[i] / times.ours[i]);
    const Spread ratio = spread_of(ratios);
    const auto value = [&](const std::vector<double>& seconds) {
      const double median = spread_of(seconds).median;
      return bytes == 0 ? 1e6 * median : double(bytes) / median / 1e9;
    };
    std::printf("  %-20s  rival %7.2f %-4s  ours %7.2f %-4s  %.2f [%.2f, %.2f]", name.c_str(), value(times.rival),
                bytes == 0 ? "us" : "GB/s", value(times.ours), bytes == 0 ? "us" : "GB/s", ratio.median, ratio.low,
                ratio.high);
    if (wanted > 0) std::printf("  wanted %.2f%s", wanted, ratio.median < wanted ? ": missed" : "");
    std::printf("\n");
    std::fflush(stdout);
  }

  const Options& options_;
  const std::string part_;
  const SocketSettings settings_;
  const OtherProcess server_;
  const OtherProcess rival_server_;
  RivalClient rival_;
  WeirClient weir_;
  Bytes memory_;
};

}  // namespace

void measure_sockets(const Options& options, const std::string& part) { SocketBench(options, part).run(); }

}  // namespace weir::net::bench
