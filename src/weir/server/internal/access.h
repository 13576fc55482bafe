#pragma once

// Who may do what with the bytes of files.
//
// Server 0 looks at mode, owner and group when a file is opened, and gives the caller a capability (capability.h).  The
// caller presents it to each server on whose subfiles it works, once for each connection; requests that follow on that
// connection are looked up in a table.  So a file that is open stays usable whatever its mode becomes, as POSIX says,
// and no request waits for server 0, or for a MAC.
//
// A capability expires.  While the file exists, its user gets another one for it from server 0, with the same rights.
//
//   who calls                       reads and writes          what fsck does (looks, cuts, fences, describes)
//   a server                        always                    always
//   user 0                          always, unless it has presented a capability that says less
//   the user that servers run as    as others                 always, with the same exception
//   others                          as far as the capabilities go that they have presented

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <unordered_map>

#include <weir/server/internal/call.h>
#include <weir/server/internal/capability.h>

namespace weir::server::internal {

inline constexpr std::chrono::hours kCapabilityLifetime{24};

/// \threadsafety One thread at a time: that of the event loop.
class AccessControl {
 public:
  /// What a peer has presented beyond this is forgotten, the oldest first: it presents that again.
  static constexpr std::size_t kMostPresented = 16384;

  struct Options {
    CapabilityKey key;
    std::uint32_t uid = 0;  ///< That servers run as.
    const runtime::Clock* clock = nullptr;
  };
  explicit AccessControl(const Options& options) : options_(options) {}

  // ---- server 0 gives them

  /// \param rights  attributes.rights is what it is for, attributes.data too
  void give(wire::AttributesT& attributes, std::uint32_t uid, std::uint64_t source = 0) const;
  /// That of a file which the caller has open, whether it has expired or not; nothing if it is not good.
  [[nodiscard]] std::optional<Capability> open(const net::Identity& who, std::span<const std::uint8_t> bytes) const;

  // ---- every server checks them

  /// \error kPermission if it is not good, or another user's
  Status present(const ServerCall& call, std::span<const std::uint8_t> bytes);
  /// Whether the caller may do with the subfiles of `data` what takes these rights; 0: any capability for it will do.
  /// \error kPermission; kStale if the capability has expired: names file and remedy
  [[nodiscard]] Status check(const ServerCall& call, std::uint64_t data, std::uint32_t rights) const;
  /// The same, for what fsck does too.
  [[nodiscard]] Status check_repair(const ServerCall& call, std::uint64_t data, std::uint32_t rights) const;
  /// Whether the caller may have `data` pulled from `source`.
  [[nodiscard]] Status check_pull(const ServerCall& call, std::uint64_t data, std::uint64_t source) const;
  /// Whether the caller is a server, user 0 or the user that servers run as.  \error kPermission
  [[nodiscard]] Status check_administrator(const ServerCall& call, std::string_view what) const;
  /// Whether what check_repair() allowed this caller was allowed for who it is, not for a capability.
  [[nodiscard]] bool acts_as_administrator(const ServerCall& call, std::uint64_t data) const {
    return !call.request.identity().is_server && grant(call, data) == nullptr;
  }
  /// The peer is gone.
  void drop(net::PeerId peer) { peers_.erase(peer); }

 private:
  struct Grant {
    std::uint8_t rights = 0;
    std::uint64_t source = 0;
    std::int64_t expires_ns = 0;
  };
  struct Presented {
    std::unordered_map<std::uint64_t, Grant> grants;  // by data
    std::deque<std::uint64_t> order;                  // in which they came
    bool has_forgotten = false;
    bool is_reported = false;  // that it presented one that is not good
  };

  [[nodiscard]] const Presented* presented_by(net::PeerId peer) const;
  [[nodiscard]] Status refusal(const ServerCall& call, std::uint64_t data, std::uint32_t rights) const;
  /// Of a caller that has presented something for `data`; null: it has not.
  [[nodiscard]] const Grant* grant(const ServerCall& call, std::uint64_t data) const;
  [[nodiscard]] Status check_grant(const Grant& grant, const ServerCall& call, std::uint64_t data,
                                   std::uint32_t rights) const;
  [[nodiscard]] bool is_administrator(const net::Identity& who) const {
    return is_superuser(who) || who.uid == options_.uid;
  }

  Options options_;
  std::unordered_map<net::PeerId, Presented> peers_;
};

}  // namespace weir::server::internal
