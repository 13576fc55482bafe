#pragma once

// The views that peers have registered: which bytes of a subfile a range of a view means.

#include <cstdint>
#include <memory>
#include <unordered_map>

#include <weir/base/result.h>
#include <weir/net/net.h>
#include <weir/storage/store.h>
#include <weir/transfer/route.h>
#include <weir/wire/wire.h>

namespace weir::server::internal {

struct RegisteredView {
  storage::SubfileId subfile;
  transfer::Route packing;  ///< a: the view, b: the subfile.
};

/// \threadsafety One thread at a time.
class Views {
 public:
  static constexpr std::size_t kMostViews = std::size_t{1} << 20;    ///< Of all peers together.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;  ///< Of their descriptions, as they came.

  /// Of one peer.
  struct Most {
    std::size_t views = kMostViews;
    std::size_t bytes = kMostBytes;
  };

  /// Makes, or replaces, the peer's view of that number.
  /// \error kInvalidArgument if it is no description of bytes; kNoSpace if there are too many views
  Status add(net::PeerId peer, const wire::RegisterViewT& request, const Most& most);
  /// One that is not there is forgotten already.
  void forget(net::PeerId peer, std::uint64_t view);
  void drop(net::PeerId peer);

  /// \error kNotFound
  Result<std::shared_ptr<const RegisteredView>> find(net::PeerId peer, std::uint64_t view) const;

  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  struct Entry {
    std::shared_ptr<const RegisteredView> view;
    std::size_t bytes = 0;
  };
  struct PeerViews {
    std::unordered_map<std::uint64_t, Entry> views;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Status check_room(net::PeerId peer, std::uint64_t view, std::size_t bytes, const Most& most) const;

  std::unordered_map<net::PeerId, PeerViews> peers_;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace weir::server::internal
