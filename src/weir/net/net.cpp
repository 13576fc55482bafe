#include <weir/net/net.h>

#include <utility>

#include <weir/base/text.h>
#include <weir/net/internal/transports.h>
#include <weir/net/request.h>

namespace weir::net {

namespace {

bool is_local(const Address& address) { return address.text.starts_with("local:"); }

Status unknown(const Address& address) {
  return invalid_argument(concat("address \"", address.text, "\" is neither tcp:HOST:PORT nor local:NAME"));
}

}  // namespace

Request::Request(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(Request&&) noexcept = default;
Request::~Request() = default;

std::span<const std::byte> Request::head() const { return impl_->head(); }
std::size_t Request::body_bytes() const { return impl_->body_bytes(); }
PeerId Request::peer() const { return impl_->peer(); }
const Identity& Request::identity() const { return impl_->identity(); }
std::shared_ptr<const std::atomic<bool>> Request::is_wanted() const { return impl_->is_wanted(); }
void Request::receive(std::span<std::byte> into, std::function<void(Status)> done) {
  impl_->receive(into, std::move(done));
}
void Request::reply(Bytes head, std::span<const std::byte> body, std::function<void()> sent) {
  impl_->reply(std::move(head), body, std::move(sent));
}

namespace {

class SystemNetwork final : public Network {
 public:
  Result<std::unique_ptr<Caller>> make_caller(const Address& address, const runtime::Runtime& runtime) override {
    if (is_local(address)) return internal::make_local_caller(kProtocolVersion, runtime);
    if (address.text.starts_with("tcp:")) {
      return internal::make_process_caller(kProtocolVersion, internal::rings_by(*runtime.settings), runtime);
    }
    return unknown(address);
  }

  Result<std::unique_ptr<Listener>> listen(const Address& address, const Key& secret, Handler& handler,
                                           const ListenOptions& options) override {
    if (secret.bytes.size() != 32 || secret.holder != Key::Holder::kServers)
      return invalid_argument(concat("listen on ", address.text, ": the key is not a servers' secret of 32 bytes"));
    if (is_local(address)) return internal::listen_local(address, secret, handler, options);
    if (address.text.starts_with("tcp:")) return internal::listen_process(address, secret, handler, options);
    return unknown(address);
  }
};

}  // namespace

Network& system_network() noexcept {
  static auto* const network = new SystemNetwork;  // never destroyed, as system_runtime()
  return *network;
}

}  // namespace weir::net
