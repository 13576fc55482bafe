#pragma once

// The memory of a subfile on this host, mapped: see storage/shared_memory.h for the rules.

#include <atomic>
#include <memory>
#include <mutex>

#include <weir/base/descriptor.h>
#include <weir/client/internal/session.h>
#include <weir/storage/shared_memory.h>
#include <weir/storage/store.h>
#include <weir/wire/lifeline.h>

namespace weir::client::internal {

/// Where a subfile is.
struct Target {
  std::uint32_t server = 0;
  std::uint64_t store = 0;  ///< 0: not known
  storage::SubfileId subfile;
};

/// One mapping of it.  Mapped longer than the file is, so that growing seldom needs another.
class MappedSubfile {
 public:
  /// For reading only if the descriptor is.  \error kIoError, kCorrupt
  static Result<std::shared_ptr<MappedSubfile>> map(int descriptor, std::shared_ptr<wire::Lifeline> lifeline,
                                                    std::uint64_t generation, std::uint64_t boot = 0);
  /// The same memory, with room for `bytes`.
  [[nodiscard]] Result<std::shared_ptr<MappedSubfile>> longer(Offset bytes) const;
  ~MappedSubfile();
  MappedSubfile(const MappedSubfile&) = delete;
  MappedSubfile& operator=(const MappedSubfile&) = delete;

  [[nodiscard]] storage::Control& control() const { return *reinterpret_cast<storage::Control*>(base_); }
  [[nodiscard]] std::byte* data() const { return base_ + storage::kDataStart; }
  [[nodiscard]] Offset room() const { return room_; }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }  ///< Of the connection that it came by.
  /// False if the server is gone: the memory is nobody's then.
  [[nodiscard]] bool is_alive() const { return lifeline_->is_alive(); }
  [[nodiscard]] std::uint64_t boot() const { return boot_; }  ///< Of the server.
  /// Where in [from, to) this client begins, so that those who write neighbouring pieces at the same time do not meet
  /// in the same cache lines.
  [[nodiscard]] Offset begin_of(Offset from, Offset to) const;
  /// May still be read, but not written: its file gets another layout.
  [[nodiscard]] bool is_fenced() const { return state() == storage::Control::kFenced; }
  [[nodiscard]] bool is_gone() const { return state() != storage::Control::kServing && !is_fenced(); }

  /// Every page of [from, to) exists, and may be written.
  [[nodiscard]] bool is_full(Offset from, Offset to) const;

  enum class Touched { kNone, kSome, kAll };
  [[nodiscard]] Touched touched(Offset from, Offset to) const;

  /// Enters pages of full chunks of [from, to) into this process's tables, at once instead of one by one.  False if the
  /// system has no memory for those that do not exist: touching them would end this process.
  [[nodiscard]] bool prepare(Offset from, Offset to);
  /// The same of what is to be written: makes pages that are missing before.
  [[nodiscard]] bool prepare_to_write(Offset from, Offset to);
  /// Whether new chunks are better written by write_new(): a system call takes half the time of making small pages,
  /// entering them and copying to them.  Huge pages that come fast are faster still.
  [[nodiscard]] bool prefers_calls() const;
  /// Writes a chunk of which nothing exists yet by a system call; false if it is none, or that failed.  \pre is_full
  [[nodiscard]] bool write_new(Offset from, std::span<const std::byte> bytes);

 private:
  MappedSubfile(std::byte* base, Offset room, bool is_writable, std::shared_ptr<wire::Lifeline> lifeline,
                std::uint64_t generation, std::uint64_t boot);
  /// Of a new mapping: keeps a descriptor of its own, if there are few of them.
  void keep(int descriptor);
  [[nodiscard]] bool has_huge_pages() const;
  [[nodiscard]] bool make(Offset chunk, bool may_be_huge);
  bool enter(Offset chunk);
  void touch(Offset chunk);
  [[nodiscard]] std::uint32_t state() const { return control().state.load(std::memory_order_acquire); }
  std::byte* base_;
  Offset room_;
  bool is_writable_;
  Descriptor file_;  // not open if this process has many of them
  std::shared_ptr<wire::Lifeline> lifeline_;
  std::uint64_t generation_;
  std::uint64_t boot_;
  std::uint32_t place_ = 0;  // 0, 1/2, 1/4, 3/4, ... of 2^32: different for each that mapped it
  std::mutex mutex_;
  std::vector<bool> prepared_;  // by chunk
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
  /// Whether an access of so many bytes is a reason to ask.
  [[nodiscard]] static bool is_worth_fetching(Offset bytes);
  /// True once: small writes to memory that must be reserved first go by message until there were some.
  bool is_worth_reserving(Offset bytes);
  /// The memory if it is mapped.
  std::shared_ptr<MappedSubfile> mapped();
  [[nodiscard]] bool is_impossible() const { return is_impossible_.load(std::memory_order_relaxed); }

 private:
  /// What the server answered to the first request for it.
  void take(Session& session, const Wanted& wanted, const Outgoing& call, Fetched& cost);

  std::mutex mutex_;
  std::shared_ptr<MappedSubfile> mapped_;
  std::atomic<bool> is_impossible_{false};
  std::atomic<int> small_uses_{0};
  std::atomic<int> small_writes_{0};
};

}  // namespace weir::client::internal
