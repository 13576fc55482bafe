#pragma once

// What clients can make a server hold or keep busy.  Settings raise and lower it, for all servers of a command; docs/security.md
// has the table.

#include <chrono>
#include <cstddef>

#include <weir/base/result.h>
#include <weir/net/net.h>
#include <weir/runtime/runtime.h>

namespace weir::server {

struct Limits {
  /// The same as these, but for what is set.  \error kInvalidArgument
  static Result<Limits> from(const runtime::Settings& settings, Limits by_default);

  net::Limits net{.connections = 0, .user_connections = 0};  ///< 0: by the limit of open files.
  std::size_t views = std::size_t{1} << 18;                  ///< Registered on one connection.
  std::size_t locks = 100'000;                               ///< Held and waited for on one connection.
  /// A client that stops in the middle of a transfer, or does not read its answers, for so long is dropped.
  std::chrono::milliseconds stall{10'000};

  /// Of the descriptions of views on one connection.
  [[nodiscard]] std::size_t view_bytes() const { return net.request_bytes / 4; }
  /// Sets the numbers of connections that are 0.  A connection takes up to two descriptors: they get half of them.
  void fit_connections(std::size_t open_files);
};

}  // namespace weir::server
