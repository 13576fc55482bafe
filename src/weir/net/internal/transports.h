#pragma once

// The transports.  The version is a parameter for tests of what happens between releases.

#include <memory>

#include <weir/net/net.h>

namespace weir::net::internal {

/// Whether messages within this host may take the short way, through rings in shared memory; otherwise all go through
/// sockets.
enum class Rings { kOff, kOn };
/// kOn unless the settings say WEIR_TRANSPORT=tcp.
Rings rings_by(const runtime::Settings& settings);

std::unique_ptr<Caller> make_local_caller(std::uint32_t version, const runtime::Runtime& runtime);
Result<std::unique_ptr<Caller>> make_process_caller(std::uint32_t version, Rings rings,
                                                    const runtime::Runtime& runtime);

Result<std::unique_ptr<Listener>> listen_local(const Address& address, const Key& key, Handler& handler,
                                               const ListenOptions& options);
Result<std::unique_ptr<Listener>> listen_process(const Address& address, const Key& key, Handler& handler,
                                                 const ListenOptions& options);

}  // namespace weir::net::internal
