#pragma once

// The client's end of a memory file: shared_memory.h has the protocol.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/descriptor.h>
#include <weir/base/result.h>
#include <weir/share/block_sums.h>
#include <weir/share/lifeline.h>
#include <weir/share/shared_memory.h>

namespace weir::share {

/// One mapping of a subfile, longer than the file is, so that growth seldom needs another.  \threadsafety Safe.
class MappedSubfile {
 public:
  /// For reading only if the descriptor is.  \error kIoError, kCorrupt
  static Result<std::shared_ptr<MappedSubfile>> map(int descriptor, std::shared_ptr<Lifeline> lifeline,
                                                    std::uint64_t generation, std::uint64_t boot = 0,
                                                    bool is_verified = false);
  /// The same memory, with room for `bytes`.
  [[nodiscard]] Result<std::shared_ptr<MappedSubfile>> longer(Offset bytes) const;
  ~MappedSubfile();
  MappedSubfile(const MappedSubfile&) = delete;
  MappedSubfile& operator=(const MappedSubfile&) = delete;

  [[nodiscard]] Control& control() const { return *reinterpret_cast<Control*>(base_); }
  [[nodiscard]] std::byte* data() const { return base_ + kDataStart; }
  [[nodiscard]] Offset room() const { return room_; }
  /// The server keeps checksums: writes are declared to sums(), and what was read is verified.
  [[nodiscard]] bool is_verified() const { return is_verified_; }
  [[nodiscard]] BlockSums sums() const { return {base_, room_}; }
  /// Seals blocks of [from, to) that were written; those first that other clients seal last.
  void seal(Offset from, Offset to);
  [[nodiscard]] std::uint64_t generation() const { return generation_; }  ///< Of the connection that it came by.
  /// False if the server is gone: what is written to the memory then is lost.
  [[nodiscard]] bool is_alive() const { return lifeline_->is_alive(); }
  [[nodiscard]] std::uint64_t boot() const { return boot_; }  ///< Of the server.
  /// Where in [from, to) this client begins, so that those who write neighbouring pieces at the same time do not meet
  /// in the same cache lines.
  [[nodiscard]] Offset begin_of(Offset from, Offset to) const;
  /// May still be read, but not written: its file gets another layout.
  [[nodiscard]] bool is_fenced() const { return state() == Control::kFenced; }
  [[nodiscard]] bool is_gone() const { return state() != Control::kServing && !is_fenced(); }

  /// Every chunk of [from, to) is full: may be written without asking the server.
  [[nodiscard]] bool is_full(Offset from, Offset to) const;

  enum class Touched { kNone, kSome, kAll };
  [[nodiscard]] Touched touched(Offset from, Offset to) const;

  /// Step 6 of the protocol, after a write that ends at `to`; then look at is_alive(), is_gone() and is_fenced().
  void publish(Offset to, Offset file_end);

  /// Makes missing pages of full chunks of [from, to) before they are written, except those that another client makes.
  /// False if the system has no memory for them: touching them would kill this process.
  [[nodiscard]] bool make_pages(Offset from, Offset to);
  /// Enters pages of full chunks of [from, to) into this process's page tables, all at once instead of one by one.
  /// False as make_pages().
  [[nodiscard]] bool enter_pages(Offset from, Offset to);
  /// Whether new chunks are better written by write_new(): a system call takes half the time of making small pages,
  /// entering them and copying to them.  Huge pages that come fast are faster still.
  [[nodiscard]] bool prefers_calls() const;
  /// Writes a chunk of which nothing exists yet by a system call; false if it is none, or that failed.  \pre is_full
  [[nodiscard]] bool write_new(Offset from, std::span<const std::byte> bytes);

 private:
  MappedSubfile(std::byte* base, Offset room, bool is_writable, std::shared_ptr<Lifeline> lifeline,
                std::uint64_t generation, std::uint64_t boot, bool is_verified);
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
  std::shared_ptr<Lifeline> lifeline_;
  std::uint64_t generation_;
  std::uint64_t boot_;
  bool is_verified_;
  std::uint32_t place_ = 0;  // 0, 1/2, 1/4, 3/4, ... of 2^32: different for each that mapped it
  std::mutex mutex_;
  std::vector<bool> entered_;  // by chunk; guarded by mutex_
};

}  // namespace weir::share
