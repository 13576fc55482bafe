#pragma once

// Where the subfiles of an open file are, and which of them are mapped: the client's cache of share::MappedSubfile.

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include <weir/client/internal/session.h>
#include <weir/share/mapped_subfile.h>
#include <weir/storage/store.h>

namespace weir::client::internal {

using share::MappedSubfile;

/// Where a subfile is.
struct Target {
  std::uint32_t server = 0;
  std::uint64_t store = 0;  ///< 0: not known
  storage::SubfileId subfile;
  Capability* capability = nullptr;
};

/// A subfile as all views of a file share it: mapped when it pays.
class SubfileSlot {
 public:
  /// The memory with room for `end` bytes; null if it must go by message: another host, a store without memory to
  /// share, or not worth it yet.  `bytes` are to be moved now; `expected`: so many the subfile will soon have, 0 if
  /// that is not known.
  struct Fetched {
    std::shared_ptr<MappedSubfile> memory;
    std::int64_t messages = 0;  ///< Sent for it.
    std::int64_t index_bytes = 0;
  };
  Fetched memory(Session& session, const Target& target, Offset end, Offset bytes, Offset expected);
  /// Several that an access of many bytes needs, asked for at once: memory() has them then.
  struct Wanted {
    SubfileSlot* slot = nullptr;
    Target target;
    Offset expected = 0;
  };
  static Fetched fetch(Session& session, std::span<const Wanted> wanted);
  /// True once: small writes to memory that must be reserved first go by message until there were some.
  bool is_worth_reserving(const model::Io& costs, Offset bytes);
  /// The memory if it is mapped.
  std::shared_ptr<MappedSubfile> mapped();
  /// Of memory with checksums: this process has written there.
  void note_unsealed(Offset from, Offset to);
  /// Seals what it has written.
  void seal();
  [[nodiscard]] bool is_impossible() const { return is_impossible_.load(std::memory_order_relaxed); }

 private:
  /// Maps what the server answered to a request for it.
  void take(Session& session, const Wanted& wanted, const Outgoing& call, Fetched& cost);

  // Not held while a server is asked: threads that ask at the same time all do, and the first answer is kept.
  std::mutex mutex_;
  std::shared_ptr<MappedSubfile> mapped_;
  Offset unsealed_from_ = kMaxBytes;
  Offset unsealed_to_ = 0;
  std::atomic<bool> is_impossible_{false};
  std::atomic<int> small_uses_{0};
  std::atomic<int> small_writes_{0};
};

}  // namespace weir::client::internal
