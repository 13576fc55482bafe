// A client that writes anything into the memory it was given, the control page above all, while the server works on the
// subfile.  The server keeps to what it knows itself: its answers can be true, another subfile stays as it is, and the
// room of the store is given back when the subfiles are removed.
//
// Input: commands of the server and of the client in turn.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/base/testing/fuzz_input.h>
#include <weir/share/shared_memory.h>
#include <weir/storage/blocking.h>
#include <weir/storage/memory_store.h>

namespace {

using namespace weir;
using storage::SubfileId;
using testing::FuzzInput;
using testing::require;

constexpr SubfileId kShared{17, 0};
constexpr SubfileId kOther{18, 0};
constexpr Offset kMostOffset = Offset{6} << 20;
constexpr std::size_t kMostBytes = 100'000;

/// The subfile as a client has it mapped: page and first bytes.
class Hostile {
 public:
  ~Hostile() { drop(); }
  Hostile() = default;
  Hostile(const Hostile&) = delete;
  Hostile& operator=(const Hostile&) = delete;

  void map(int descriptor) {
    drop();
    struct stat info {};
    if (fstat(descriptor, &info) != 0) return;
    bytes_ = static_cast<std::size_t>(std::min<Offset>(info.st_size, share::kDataStart + kMostOffset));
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) return;
    memory_ = static_cast<std::byte*>(memory);
    descriptor_ = dup(descriptor);
  }
  void write(FuzzInput& in) {
    if (memory_ == nullptr) return;
    auto& control = *reinterpret_cast<share::Control*>(memory_);
    switch (in.below(12)) {
      case 0: control.state = static_cast<std::uint32_t>(in.number()); break;
      case 1: control.turns = static_cast<std::uint32_t>(in.number()); break;
      case 2: control.mappings = static_cast<std::uint32_t>(in.number()); break;
      case 3: control.huge = static_cast<std::uint32_t>(in.number()); break;
      case 4: control.mapped_bytes = in.number(); break;
      case 5: control.length = in.number(); break;
      case 6: control.file_end = in.number(); break;
      case 7: control.claimed[in.byte() % std::size(control.claimed)] = in.u64(); break;
      case 8: control.touched[in.byte()] = in.u64(); break;
      case 9: control.full[in.byte()] = in.u64(); break;
      // Others than those of its own may not make it shorter (its seals); those could stop the server as well.
      case 10: (void)ftruncate(descriptor_, length() + in.u16() * 4096L); break;
      default: {
        const std::size_t at = static_cast<std::size_t>(in.number()) % (bytes_ - 300);
        const std::vector<std::uint8_t> any = in.bytes(255);
        if (!any.empty()) std::memcpy(memory_ + at, any.data(), any.size());
      }
    }
  }

 private:
  /// Now: the server may have made it longer since it was mapped.
  [[nodiscard]] off_t length() const {
    struct stat file {};
    return fstat(descriptor_, &file) == 0 ? file.st_size : static_cast<off_t>(bytes_);
  }
  void drop() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
    if (descriptor_ >= 0) close(descriptor_);
    memory_ = nullptr;
    descriptor_ = -1;
  }
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  int descriptor_ = -1;
};

class ServerEnd {
 public:
  ServerEnd() : blocking_(*store_) {
    const std::vector<std::byte> bytes(100, std::byte{9});
    const storage::WritePiece piece{0, bytes};
    require(blocking_.write(kOther, {&piece, 1}, 100).is_ok(), "write the other");
  }

  void step(FuzzInput& in, Hostile& hostile) {
    switch (in.below(10)) {
      case 0:
      case 1: {
        const Offset expected = offset(in);
        const auto shared =
            store_->share(kShared, true, expected, in.flag() ? share::Peers::kOwn : share::Peers::kOthers);
        if (shared.is_ok() && *shared) hostile.map((*shared)->descriptor);
        return;
      }
      case 2: {
        const std::vector<std::byte> bytes(in.u16() % kMostBytes, std::byte{1});
        const storage::WritePiece piece{offset(in), bytes};
        return (void)blocking_.write(kShared, {&piece, 1}, in.number() & (kMaxBytes - 1));
      }
      case 3: {
        std::vector<std::byte> bytes(in.u16() % kMostBytes);
        const storage::ReadPiece piece{offset(in), bytes};
        return require(blocking_.read(kShared, {&piece, 1}).is_ok(), "read");
      }
      case 4: {
        const Offset length = offset(in);
        return (void)blocking_.truncate(kShared, length, offset(in));
      }
      case 5: {
        const Offset from = offset(in);
        return (void)blocking_.reserve(kShared, from, from + in.u16() * 16);
      }
      case 6: return store_->fence(kShared, in.flag());
      case 7: {
        const Offset from = offset(in);
        const auto memory = store_->map(kShared, from, from + in.u16(), in.flag());
        // As a body is received there.
        if (memory.is_ok() && *memory) std::fill((*memory)->begin(), (*memory)->end(), std::byte{3});
        return;
      }
      case 8: {
        const Offset to = offset(in);
        return store_->note_written(kShared, to, offset(in));
      }
      default: return (void)blocking_.remove(kShared);
    }
  }
  void check() {
    const auto info = blocking_.info(kShared);
    require(info.is_ok() && 0 <= info->length && info->length <= kMaxBytes && 0 <= info->file_end &&
                info->file_end <= kMaxBytes && 0 <= info->stored_bytes,
            "lengths are possible");
    const auto usage = blocking_.usage();
    require(usage.is_ok() && 0 <= usage->used_bytes && usage->used_bytes <= usage->capacity_bytes, "use is possible");
    std::vector<std::byte> bytes(100);
    const storage::ReadPiece piece{0, bytes};
    require(blocking_.read(kOther, {&piece, 1}).is_ok() && bytes == std::vector<std::byte>(100, std::byte{9}),
            "the other subfile is as it was");
  }
  void finish() {
    require(blocking_.remove(kShared).is_ok() && blocking_.remove(kOther).is_ok(), "remove");
    require(blocking_.usage()->used_bytes == 0, "all room is given back");
  }

 private:
  static Offset offset(FuzzInput& in) {
    const Offset drawn = in.number();
    return drawn < 200 ? (drawn & 0xff) * 30'000 : drawn % kMostOffset;
  }
  static std::unique_ptr<storage::Store> make() {
    auto made = storage::make_memory_store({.capacity_bytes = Offset{16} << 20, .pool_regions = 0});
    require(made.is_ok(), "a store can be made");
    return std::move(*made);
  }

  std::unique_ptr<storage::Store> store_ = make();
  storage::Blocking blocking_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput in(data, size);
  Hostile hostile;
  ServerEnd server;
  for (int i = 0; i < 100 && !in.empty(); ++i) {
    server.step(in, hostile);
    for (std::size_t writes = in.below(4); writes > 0; --writes) hostile.write(in);
  }
  server.check();
  server.finish();
  return 0;
}
