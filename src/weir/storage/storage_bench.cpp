// The disk store against plain system calls that move the same bytes to and from the same disk, in one run:
//
//   storage_bench [--dir DIR] [--mb 128] [--repeats 5] [--case TEXT]
//
//   store     DiskStore: checksums kept and verified; one call moves several pieces
//   buffered  pwrite(2) or pread(2) of each piece through the page cache
//   direct    the same with O_DIRECT
//
// Writes end with sync() or fdatasync(2), reads start with nothing in the page cache.  Contenders take turns, and each
// turn another one begins.  A ratio is store / rival in bytes per second of the same turn: above 1, the store is
// faster.  Shown are the median and, in brackets, the least and the most.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/internal/disk_files.h>
#include <weir/storage/internal/disk_testing.h>

namespace weir::storage {
namespace {

using internal::FileKind;

struct Settings {
  std::string directory = "/tmp";
  Offset megabytes = 128;
  int repeats = 5;
  std::string cases;  // those whose name contains this
};

// A benchmark that cannot do what it claims to measure must not print numbers.
void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "storage_bench: %s\n", what.c_str());
  std::exit(1);
}

void require(const Status& status) { require(status.is_ok(), std::string(status.message())); }

constexpr Offset kCallBytes = Offset{8} << 20;  // moved by one call of the store
constexpr SubfileId kId{1, 0};

// Whole pages, written before anything is measured; not zero, and no two blocks alike.
class Memory {
 public:
  Memory() {
    void* memory = ::mmap(nullptr, kCallBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "no memory");
    data_ = static_cast<std::byte*>(memory);
    std::mt19937_64 random{1};
    for (Offset at = 0; at < kCallBytes; at += 8) {
      const std::uint64_t word = random();
      std::memcpy(data_ + at, &word, sizeof word);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::munmap(data_, kCallBytes); }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_;
};

struct Case {
  std::string name;
  bool is_write;
  bool is_new;  // the files are made again for each turn
  Offset piece_bytes;
  Offset stride_bytes;
};

/// Moves the bytes of one case; not timed: prepare().
class Contender {
 public:
  virtual ~Contender() = default;
  virtual void prepare(const Case& one) = 0;
  virtual void move(const Case& one, std::span<const Offset> offsets, std::byte* memory) = 0;
  virtual void finish() = 0;  // of writes: durable
};

void drop_cache(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file.is_open()) return;
  require(::fdatasync(file.get()) == 0 && ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0, path);
}

class StoreContender final : public Contender {
 public:
  explicit StoreContender(std::string directory) : directory_(std::move(directory)) {
    Result<std::unique_ptr<Store>> opened = open_disk_store(directory_);
    require(opened.status());
    store_ = std::move(*opened);
  }

  void prepare(const Case& one) override {
    if (one.is_new) require(Blocking(*store_).remove(kId));
    require(Blocking(*store_).sync(kId));
    drop_cache(path_of(directory_, {kId, 0}, FileKind::kData));
  }

  void move(const Case& one, std::span<const Offset> offsets, std::byte* memory) override {
    const auto size = static_cast<std::size_t>(one.piece_bytes);
    if (one.is_write) {
      std::vector<WritePiece> pieces;
      for (std::size_t i = 0; i < offsets.size(); ++i) pieces.push_back({offsets[i], {memory + i * size, size}});
      require(Blocking(*store_).write(kId, pieces, 0));
    } else {
      std::vector<ReadPiece> pieces;
      for (std::size_t i = 0; i < offsets.size(); ++i) pieces.push_back({offsets[i], {memory + i * size, size}});
      require(Blocking(*store_).read(kId, pieces));
    }
  }

  void finish() override { require(Blocking(*store_).sync(kId)); }

 private:
  std::string directory_;
  std::unique_ptr<Store> store_;
};

class PlainContender final : public Contender {
 public:
  PlainContender(std::string path, int flags) : path_(std::move(path)), flags_(flags) {}

  void prepare(const Case& one) override {
    file_.reset();
    if (one.is_new) ::unlink(path_.c_str());
    file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags_, 0600));
    require(file_.is_open(), path_);
    drop_cache(path_);
  }

  void move(const Case& one, std::span<const Offset> offsets, std::byte* memory) override {
    const auto size = static_cast<std::size_t>(one.piece_bytes);
    for (const Offset offset : offsets) {
      const ssize_t done =
          one.is_write ? ::pwrite(file_.get(), memory, size, offset) : ::pread(file_.get(), memory, size, offset);
      require(done == static_cast<ssize_t>(size), path_);
      memory += size;
    }
  }

  void finish() override { require(::fdatasync(file_.get()) == 0, path_); }

 private:
  std::string path_;
  int flags_;
  Descriptor file_;
};

double seconds_of(const Case& one, Offset bytes, Contender& contender, const Memory& memory) {
  contender.prepare(one);
  const auto start = std::chrono::steady_clock::now();
  std::vector<Offset> offsets;
  for (Offset done = 0; done < bytes;) {
    offsets.clear();
    for (Offset size = 0; size + one.piece_bytes <= kCallBytes && done < bytes; size += one.piece_bytes) {
      offsets.push_back(done / one.piece_bytes * one.stride_bytes);
      done += one.piece_bytes;
    }
    contender.move(one, offsets, memory.data());
  }
  if (one.is_write) contender.finish();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  explicit Bench(Settings settings)
      : settings_(std::move(settings)), directory_(settings_.directory), store_(directory_.path() + "/store") {}

  void run(const Case& one) {
    if (one.name.find(settings_.cases) == std::string::npos) return;
    Contender* const all[] = {&store_, &buffered_, &direct_};
    // Without alignment there is no plain direct I/O.
    const std::size_t count = one.piece_bytes % 4096 == 0 ? 3 : 2;
    if (!one.is_new) {
      for (std::size_t i = 0; i < count; ++i) fill(one, *all[i]);
    }
    std::vector<double> seconds[3];
    for (int turn = 0; turn < settings_.repeats; ++turn) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t which = (i + static_cast<std::size_t>(turn)) % count;
        seconds[which].push_back(seconds_of(one, bytes_of(one), *all[which], memory_));
      }
    }
    const auto megabytes = static_cast<double>(bytes_of(one)) / 1e6;
    std::printf("%-34s %6.0f MB/s", one.name.c_str(), megabytes / median_of(seconds[0]));
    for (std::size_t i = 1; i < count; ++i) print_ratio(seconds[0], seconds[i]);
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  [[nodiscard]] Offset bytes_of(const Case& one) const {
    return (settings_.megabytes << 20) / one.piece_bytes * one.piece_bytes;
  }

  // What is overwritten or read must be there.
  void fill(const Case& one, Contender& contender) {
    const Case whole{"", true, true, kCallBytes, kCallBytes};
    const Offset last = bytes_of(one) / one.piece_bytes * one.stride_bytes;
    (void)seconds_of(whole, (last / kCallBytes + 1) * kCallBytes, contender, memory_);
  }

  static void print_ratio(const std::vector<double>& ours, const std::vector<double>& theirs) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(theirs[i] / ours[i]);
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    std::printf("   %5.2f [%.2f, %.2f]", median_of(ratios), *least, *most);
  }

  Settings settings_;
  internal::TemporaryDirectory directory_;
  Memory memory_;
  StoreContender store_;
  PlainContender buffered_{directory_.path() + "/buffered", 0};
  PlainContender direct_{directory_.path() + "/direct", O_DIRECT};
};

Settings parse(int count, char** words) {
  Settings settings;
  for (int i = 1; i < count; i += 2) {
    const std::string name = words[i];
    require(i + 1 < count, name + " needs a value");
    const std::string value = words[i + 1];
    if (name == "--dir")
      settings.directory = value;
    else if (name == "--mb")
      settings.megabytes = std::max(16L, std::strtol(value.c_str(), nullptr, 10));
    else if (name == "--repeats")
      settings.repeats = std::max(1, std::atoi(value.c_str()));
    else if (name == "--case")
      settings.cases = value;
    else
      require(false, name + " is unknown; see the beginning of storage_bench.cpp");
  }
  return settings;
}

}  // namespace
}  // namespace weir::storage

int main(int count, char** words) {
  using weir::storage::Case;
  constexpr weir::Offset kKiB = 1024;
  constexpr weir::Offset kMiB = 1024 * kKiB;
  const Case cases[] = {
      {"write, sequential, new", true, true, 8 * kMiB, 8 * kMiB},
      {"write, sequential, over old", true, false, 8 * kMiB, 8 * kMiB},
      {"read, sequential", false, false, 8 * kMiB, 8 * kMiB},
      {"write, 1 MiB of every 2, new", true, true, kMiB, 2 * kMiB},
      {"write, 1 MiB of every 2, over old", true, false, kMiB, 2 * kMiB},
      {"read, 1 MiB of every 2", false, false, kMiB, 2 * kMiB},
      {"write, 64 KiB of every 256, over old", true, false, 64 * kKiB, 256 * kKiB},
      {"read, 64 KiB of every 256", false, false, 64 * kKiB, 256 * kKiB},
      {"write, 100000 of every 300000", true, false, 100000, 300000},
      {"read, 100000 of every 300000", false, false, 100000, 300000},
  };
  weir::storage::Bench bench(weir::storage::parse(count, words));
  std::printf("%-34s %11s   %18s   %18s\n", "", "store", "against buffered", "against direct");
  for (const Case& one : cases) bench.run(one);
  return 0;
}
