#pragma once

// Two rings in memory that two processes share, one for each direction.  One end writes records, the other reads them;
// neither ever waits for the other while it does, so that a process may be killed at any instruction and leaves nothing
// half done that anybody sees.
//
//   record   length (4), 1 if more of the same message follows (4), bytes; padded to 64
//
// A ring is mapped twice in a row, so that every record is contiguous.  Each end counts its own position itself and
// takes nothing from the shared memory on trust: positions and lengths that cannot be are errors.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <weir/base/descriptor.h>
#include <weir/base/result.h>

namespace weir::net::internal {

inline constexpr std::size_t kRingBytes = std::size_t{256} << 10;
/// Several fit into a ring, so that both ends work at the same time.
inline constexpr std::size_t kMostRecordBytes = std::size_t{32} << 10;

/// Positions only grow; a byte at position p is at p % kRingBytes.
struct RingControl {
  alignas(64) std::atomic<std::uint64_t> written = 0;
  alignas(64) std::atomic<std::uint64_t> read = 0;
  alignas(64) std::atomic<std::uint32_t> reader_sleeps = 0;  // wants to be woken when something is written
  alignas(64) std::atomic<std::uint32_t> writer_waits = 0;   // wants to be woken when something is read
};

class RingWriter {
 public:
  /// `bytes`: kRingBytes, mapped twice in a row.
  RingWriter(RingControl& control, std::byte* bytes) : control_(&control), bytes_(bytes) {}

  /// Where the next record goes; null if there is no room for it now.  \pre bytes <= kMostRecordBytes
  std::byte* reserve(std::size_t bytes);
  /// The reader may have what was reserved.
  void publish(std::size_t bytes, bool is_last);
  /// True if the reader has to be woken; once.
  bool takes_sleep() { return control_->reader_sleeps.load() != 0 && control_->reader_sleeps.exchange(0) != 0; }
  /// To be woken when there is more room; false if there already is enough for any record.
  bool wait_for_room();

 private:
  [[nodiscard]] bool has_room(std::size_t bytes);

  RingControl* control_;
  std::byte* bytes_;
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;  // as last seen
};

class RingReader {
 public:
  struct Record {
    std::span<const std::byte> bytes;  ///< Shared: the other end may change them at any time.
    bool is_last;
  };

  RingReader(RingControl& control, const std::byte* bytes) : control_(&control), bytes_(bytes) {}

  /// The next record, if there is one.  \error kCorrupt
  Result<std::optional<Record>> next();
  /// The record that next() gave is no longer needed.
  void release();
  /// True if the writer has to be woken; once.
  bool takes_wait() { return control_->writer_waits.load() != 0 && control_->writer_waits.exchange(0) != 0; }
  /// To be woken when something comes; false if something has.
  bool sleep();
  void wake() { control_->reader_sleeps.store(0, std::memory_order_relaxed); }

 private:
  RingControl* control_;
  const std::byte* bytes_;
  std::uint64_t written_ = 0;  // as last seen
  std::uint64_t read_ = 0;
  std::size_t record_bytes_ = 0;  // of the one that next() gave, with all around it
};

/// The memory of both rings.
class RingMemory {
 public:
  /// New memory, whose size nobody can change any more.  \error kIoError
  static Result<RingMemory> create();
  /// Of another process.  \error kCorrupt if it is not what create() makes
  static Result<RingMemory> adopt(Descriptor descriptor);

  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// Ring 0 leads from the process that created it, ring 1 to it.
  [[nodiscard]] RingControl& control(std::size_t ring) const;
  [[nodiscard]] std::byte* bytes(std::size_t ring) const;

 private:
  struct Unmap {
    void operator()(std::byte* memory) const;
  };
  static Result<RingMemory> map(Descriptor descriptor);

  Descriptor descriptor_;
  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace weir::net::internal
