#pragma once

// The transports.  The version is a parameter for tests of what happens between releases.

#include <memory>

#include <weir/net/net.h>

namespace weir::net::internal {

std::unique_ptr<Caller> make_local_caller(std::uint32_t version);
Result<std::unique_ptr<Caller>> make_ucx_caller(std::uint32_t version);

Result<std::unique_ptr<Listener>> listen_local(const Address& address, const Key& key, Handler& handler);
Result<std::unique_ptr<Listener>> listen_ucx(const Address& address, const Key& key, Handler& handler);

}  // namespace weir::net::internal
