#include <weir/net/internal/tls.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sodium.h>
#include <sys/socket.h>

#include <weir/base/os_error.h>
#include <weir/base/text.h>
#include <weir/net/internal/dynamic_library.h>

namespace weir::net::internal {

namespace {

#define WEIR_TLS_CALLS(CALL)              \
  CALL(BIO_clear_flags)                   \
  CALL(BIO_get_data)                      \
  CALL(BIO_meth_new)                      \
  CALL(BIO_meth_set_create)               \
  CALL(BIO_meth_set_ctrl)                 \
  CALL(BIO_meth_set_read)                 \
  CALL(BIO_meth_set_write)                \
  CALL(BIO_new)                           \
  CALL(BIO_set_data)                      \
  CALL(BIO_set_flags)                     \
  CALL(BIO_set_init)                      \
  CALL(ERR_clear_error)                   \
  CALL(ERR_get_error)                     \
  CALL(ERR_peek_error)                    \
  CALL(ERR_reason_error_string)           \
  CALL(OPENSSL_init_crypto)               \
  CALL(SSL_CIPHER_find)                   \
  CALL(SSL_CTX_ctrl)                      \
  CALL(SSL_CTX_new)                       \
  CALL(SSL_CTX_set_ciphersuites)          \
  CALL(SSL_CTX_set_num_tickets)           \
  CALL(SSL_CTX_set_options)               \
  CALL(SSL_SESSION_free)                  \
  CALL(SSL_SESSION_new)                   \
  CALL(SSL_SESSION_set1_master_key)       \
  CALL(SSL_SESSION_set_cipher)            \
  CALL(SSL_SESSION_set_protocol_version)  \
  CALL(SSL_do_handshake)                  \
  CALL(SSL_export_keying_material)        \
  CALL(SSL_free)                          \
  CALL(SSL_get_error)                     \
  CALL(SSL_get_ex_data)                   \
  CALL(SSL_has_pending)                   \
  CALL(SSL_key_update)                    \
  CALL(SSL_new)                           \
  CALL(SSL_read)                          \
  CALL(SSL_set_accept_state)              \
  CALL(SSL_set_bio)                       \
  CALL(SSL_set_connect_state)             \
  CALL(SSL_set_default_read_buffer_len)   \
  CALL(SSL_set_ex_data)                   \
  CALL(SSL_set_psk_find_session_callback) \
  CALL(SSL_set_psk_use_session_callback)  \
  CALL(SSL_set_read_ahead)                \
  CALL(SSL_set_verify)                    \
  CALL(SSL_session_reused)                \
  CALL(SSL_write)                         \
  CALL(TLS_method)

struct OpenSsl {
#define WEIR_TLS_MEMBER(name) decltype(&::name) name = nullptr;
  WEIR_TLS_CALLS(WEIR_TLS_MEMBER)
#undef WEIR_TLS_MEMBER
  Status status;
  SSL_CTX* context = nullptr;
  BIO_METHOD* socket_method = nullptr;
};

const OpenSsl& openssl();

// AES-128-GCM: processors have instructions for it.
constexpr const char* kSuite = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kSuiteNumber{0x13, 0x01};
// What the caller tells: which pre-shared key it has, and what it wants.
struct PskName {
  std::string_view text;
  Key::Holder holder;
  Tls::Records records;
};
constexpr std::array<PskName, 4> kPskNames{{
    {"weir 2 client encrypted", Key::Holder::kClients, Tls::Records::kEncrypted},
    {"weir 2 client plain", Key::Holder::kClients, Tls::Records::kPlain},
    {"weir 2 server encrypted", Key::Holder::kServers, Tls::Records::kEncrypted},
    {"weir 2 server plain", Key::Holder::kServers, Tls::Records::kPlain},
}};
constexpr std::string_view kPurpose = "weir 1 tls pre-shared key";
// AES-GCM keys are good for 2^24.5 records of 16 KiB, which is six times as much (RFC 8446, section 5.5).
constexpr std::uint64_t kMostBytesPerKey = std::uint64_t{1} << 36;

constexpr std::size_t kReadAheadBytes = std::size_t{128} << 10;

int to_int(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

}  // namespace

/// What OpenSSL calls.
struct TlsCallbacks {
  static Tls& of(SSL* ssl) { return *static_cast<Tls*>(openssl().SSL_get_ex_data(ssl, 0)); }

  static SSL_SESSION* session_of(SSL* ssl) {
    const OpenSsl& calls = openssl();
    const Tls& tls = of(ssl);
    SSL_SESSION* session = calls.SSL_SESSION_new();
    if (session == nullptr) return nullptr;
    std::array<unsigned char, 32> psk{};
    crypto_generichash(psk.data(), psk.size(), reinterpret_cast<const unsigned char*>(kPurpose.data()), kPurpose.size(),
                       reinterpret_cast<const unsigned char*>(tls.key_.bytes.data()), tls.key_.bytes.size());
    const bool has_key = calls.SSL_SESSION_set1_master_key(session, psk.data(), psk.size()) == 1;
    sodium_memzero(psk.data(), psk.size());
    if (has_key && calls.SSL_SESSION_set_cipher(session, calls.SSL_CIPHER_find(ssl, kSuiteNumber.data())) == 1 &&
        calls.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
      return session;
    calls.SSL_SESSION_free(session);
    return nullptr;
  }

  // The caller offers the key.
  static int use_session(SSL* ssl, const EVP_MD*, const unsigned char** name, std::size_t* name_bytes,
                         SSL_SESSION** session) {
    const Tls& tls = of(ssl);
    const auto* const psk = std::find_if(kPskNames.begin(), kPskNames.end(), [&](const PskName& one) {
      return one.holder == tls.key_.holder && one.records == tls.records_;
    });
    const std::string_view text = psk->text;
    *name = reinterpret_cast<const unsigned char*>(text.data());
    *name_bytes = text.size();
    *session = session_of(ssl);
    return *session == nullptr ? 0 : 1;
  }

  // The listener looks for it.  Without one there is nothing to agree on, and the handshake fails.
  static int find_session(SSL* ssl, const unsigned char* name, std::size_t name_bytes, SSL_SESSION** session) {
    Tls& tls = of(ssl);
    const std::string_view text(reinterpret_cast<const char*>(name), name_bytes);
    const auto* const psk =
        std::find_if(kPskNames.begin(), kPskNames.end(), [&](const PskName& one) { return one.text == text; });
    *session = nullptr;
    if (psk == kPskNames.end() || (psk->records == Tls::Records::kPlain && tls.is_encrypted())) return 1;
    tls.records_ = psk->records;
    if (psk->holder == Key::Holder::kClients) tls.key_ = tls.key_.for_clients();
    *session = session_of(ssl);
    return *session == nullptr ? 0 : 1;
  }

  static int write(BIO* bio, const char* bytes, int length) {
    Tls& tls = *static_cast<Tls*>(openssl().BIO_get_data(bio));
    openssl().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    const ssize_t sent = ::send(tls.socket_, bytes, static_cast<std::size_t>(length), MSG_NOSIGNAL | MSG_DONTWAIT);
    return finish(tls, bio, sent, BIO_FLAGS_WRITE);
  }
  static int read(BIO* bio, char* into, int room) {
    Tls& tls = *static_cast<Tls*>(openssl().BIO_get_data(bio));
    openssl().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    const ssize_t received = ::recv(tls.socket_, into, static_cast<std::size_t>(room), MSG_DONTWAIT);
    tls.is_socket_drained_ = received < room;
    return finish(tls, bio, received, BIO_FLAGS_READ);
  }
  static int finish(Tls& tls, BIO* bio, ssize_t result, int direction) {
    if (result >= 0) return static_cast<int>(result);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      openssl().BIO_set_flags(bio, direction | BIO_FLAGS_SHOULD_RETRY);
    } else {
      tls.socket_error_ = errno;
    }
    return -1;
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }
  static int create(BIO* bio) {
    openssl().BIO_set_init(bio, 1);
    return 1;
  }
};

namespace {

void set_up(OpenSsl& calls) {
  // Connections may be closed by destructors of static objects, after what OpenSSL would do at exit.
  calls.OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  calls.context = calls.SSL_CTX_new(calls.TLS_method());
  calls.socket_method = calls.BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "weir socket");
  const bool is_set = calls.context != nullptr && calls.socket_method != nullptr &&
                      calls.SSL_CTX_ctrl(calls.context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
                      calls.SSL_CTX_ctrl(calls.context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
                      calls.SSL_CTX_set_ciphersuites(calls.context, kSuite) == 1 &&
                      calls.SSL_CTX_set_num_tickets(calls.context, 0) == 1 &&
                      calls.BIO_meth_set_write(calls.socket_method, &TlsCallbacks::write) == 1 &&
                      calls.BIO_meth_set_read(calls.socket_method, &TlsCallbacks::read) == 1 &&
                      calls.BIO_meth_set_ctrl(calls.socket_method, &TlsCallbacks::control) == 1 &&
                      calls.BIO_meth_set_create(calls.socket_method, &TlsCallbacks::create) == 1;
  if (!is_set) {
    calls.status = {ErrorCode::kUnavailable, "OpenSSL cannot be set up for TLS 1.3"};
    return;
  }
  calls.SSL_CTX_ctrl(calls.context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  calls.SSL_CTX_ctrl(calls.context, SSL_CTRL_MODE,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS,
                     nullptr);
  calls.SSL_CTX_set_options(calls.context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
}

OpenSsl load_openssl() {
  DynamicLibrary library("libssl.so.3", "protects messages between hosts", "libssl3");
  OpenSsl calls;
#define WEIR_TLS_FIND(name) library.find(#name, calls.name);
  WEIR_TLS_CALLS(WEIR_TLS_FIND)
#undef WEIR_TLS_FIND
  calls.status = library.status();
  return calls;
}

const OpenSsl& openssl() {
  static OpenSsl calls = load_openssl();
  return calls;
}

// The callbacks need the calls, so these are loaded first.
const Status& ready() {
  static const Status status = [] {
    auto& calls = const_cast<OpenSsl&>(openssl());  // nobody else uses it yet
    if (calls.status.is_ok()) set_up(calls);
    return calls.status;
  }();
  return status;
}

}  // namespace

Result<std::unique_ptr<Tls>> Tls::create(End end, int socket, const Key& key, Records records) {
  WEIR_RETURN_IF_ERROR(ready());
  const OpenSsl& calls = openssl();
  if (key.bytes.size() != 32) return invalid_argument("the key of the file system does not have 32 bytes");
  std::unique_ptr<Tls> self(new Tls(end, socket, key, records));
  self->ssl_ = calls.SSL_new(calls.context);
  BIO* const bio = calls.BIO_new(calls.socket_method);
  if (self->ssl_ == nullptr || bio == nullptr) return Status(ErrorCode::kUnavailable, "TLS: out of memory");
  calls.BIO_set_data(bio, self.get());
  calls.SSL_set_bio(self->ssl_, bio, bio);  // takes it
  calls.SSL_set_ex_data(self->ssl_, 0, self.get());
  if (end == End::kCaller) {
    calls.SSL_set_psk_use_session_callback(self->ssl_, &TlsCallbacks::use_session);
    // A server with a certificate instead of the key is not ours; there are no roots to trust.
    calls.SSL_set_verify(self->ssl_, SSL_VERIFY_PEER, nullptr);
    calls.SSL_set_connect_state(self->ssl_);
  } else {
    calls.SSL_set_psk_find_session_callback(self->ssl_, &TlsCallbacks::find_session);
    calls.SSL_set_accept_state(self->ssl_);
  }
  return self;
}

Tls::~Tls() {
  if (ssl_ != nullptr) openssl().SSL_free(ssl_);
  sodium_memzero(key_.bytes.data(), key_.bytes.size());
}

Status Tls::failure(std::string_view operation, int error) const {
  const OpenSsl& calls = openssl();
  const unsigned long code = calls.ERR_get_error();
  const char* const reason = code == 0 ? nullptr : calls.ERR_reason_error_string(code);
  if (socket_error_ != 0) return os_error(ErrorCode::kUnavailable, operation, socket_error_);
  if (error == SSL_ERROR_ZERO_RETURN || (error == SSL_ERROR_SYSCALL && code == 0) ||
      (code != 0 && ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING))
    return {ErrorCode::kUnavailable, concat(operation, ": the other end is gone")};
  return {ErrorCode::kUnavailable, concat(operation, ": ", reason == nullptr ? "TLS failed" : reason)};
}

Result<Tls::Progress> Tls::handshake() {
  const OpenSsl& calls = openssl();
  calls.ERR_clear_error();
  socket_error_ = 0;
  const int result = calls.SSL_do_handshake(ssl_);
  if (result == 1) {
    if (calls.SSL_session_reused(ssl_) == 1) return Progress::kDone;
    return Status(ErrorCode::kPermission, "TLS: the other end has not proven that it has the key");
  }
  const int error = calls.SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ) return Progress::kNeedsRead;
  if (error == SSL_ERROR_WANT_WRITE) return Progress::kNeedsWrite;
  const int reason = ERR_GET_REASON(calls.ERR_peek_error());
  Status why = failure("TLS handshake", error);
  const bool is_gone = socket_error_ != 0 || error != SSL_ERROR_SSL || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  if (is_gone || reason == SSL_R_WRONG_VERSION_NUMBER) return why;
  // Both ends speak TLS, and one has refused the other: the key is all that they can disagree on.
  return Status(ErrorCode::kPermission, concat("the keys of both ends differ (", why.message(), ")"));
}

Result<Bytes> Tls::channel() {
  constexpr std::string_view kLabel = "EXPERIMENTAL weir channel";  // RFC 5705 reserves names without that word
  Bytes bytes(32);
  if (openssl().SSL_export_keying_material(ssl_, reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(),
                                           kLabel.data(), kLabel.size(), nullptr, 0, 0) != 1) {
    return Status(ErrorCode::kUnavailable, "TLS: no channel binding");
  }
  return bytes;
}

void Tls::read_ahead() {
  openssl().SSL_set_read_ahead(ssl_, 1);
  openssl().SSL_set_default_read_buffer_len(ssl_, kReadAheadBytes);
}

bool Tls::is_drained() const { return is_socket_drained_ && openssl().SSL_has_pending(ssl_) == 0; }

Result<std::size_t> Tls::read(std::span<std::byte> into) {
  const OpenSsl& calls = openssl();
  calls.ERR_clear_error();
  socket_error_ = 0;
  const int result = calls.SSL_read(ssl_, into.data(), to_int(into.size()));
  if (result > 0) return static_cast<std::size_t>(result);
  const int error = calls.SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return std::size_t{0};
  return failure("connection", error);
}

Result<std::size_t> Tls::write(std::span<const std::byte> bytes) {
  const OpenSsl& calls = openssl();
  calls.ERR_clear_error();
  socket_error_ = 0;
  if (written_bytes_ >= kMostBytesPerKey && calls.SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
    written_bytes_ = 0;
  }
  const int result = calls.SSL_write(ssl_, bytes.data(), to_int(bytes.size()));
  if (result > 0) {
    written_bytes_ += static_cast<std::uint64_t>(result);
    return static_cast<std::size_t>(result);
  }
  const int error = calls.SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return std::size_t{0};
  return failure("connection", error);
}

}  // namespace weir::net::internal
