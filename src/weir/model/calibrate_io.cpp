#include <weir/model/calibrate_io.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/base/aligned_memory.h>
#include <weir/base/descriptor.h>
#include <weir/base/madvise.h>
#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>
#include <weir/layout/mapping.h>
#include <weir/transfer/plan.h>

namespace weir::model {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr double kShortest = 1e-12;  // seconds: a cost of nothing would decide everything

class Stopwatch {
 public:
  explicit Stopwatch(const Effort& effort) : clock_(*effort.clock) {}
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(clock_.now() - start_).count(); }

 private:
  const runtime::Clock& clock_;
  runtime::TimePoint start_ = clock_.now();
};

// ---- memory

class SharedMapping {
 public:
  SharedMapping(int descriptor, std::size_t bytes)
      : bytes_(bytes), base_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)) {}
  ~SharedMapping() {
    if (is_mapped()) ::munmap(base_, bytes_);
  }
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  [[nodiscard]] bool is_mapped() const { return base_ != MAP_FAILED; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(base_); }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* base_;
};

// Pages that exist, entered one by one and at once.
Status calibrate_pages(const Machine& machine, const Effort& effort, Memory& memory) {
  constexpr std::size_t kChunks = 4;
  const Descriptor file(::memfd_create("weir-model", MFD_CLOEXEC));
  if (!file.is_open()) return os_error(ErrorCode::kIoError, "calibrate: memfd_create");
  if (::ftruncate(file.get(), kChunks * kChunk) != 0) return os_error(ErrorCode::kIoError, "calibrate: ftruncate");
  const SharedMapping first(file.get(), kChunks * kChunk);
  if (!first.is_mapped()) return os_error(ErrorCode::kIoError, "calibrate: mmap");
  std::memset(first.data(), 1, first.size());
  WEIR_TRY(const double faults, median_seconds(effort, [&]() -> Result<double> {
             const SharedMapping other(file.get(), kChunks * kChunk);
             if (!other.is_mapped()) return os_error(ErrorCode::kIoError, "calibrate: mmap");
             const Stopwatch watch(effort);
             for (std::size_t at = 0; at < other.size(); at += static_cast<std::size_t>(machine.page_bytes)) {
               *const_cast<volatile std::byte*>(other.data() + at) = std::byte{2};
             }
             return watch.seconds();
           }));
  memory.fault_byte_seconds = std::max(faults / (kChunks * kChunk), kShortest);
  const auto entered = median_seconds(effort, [&]() -> Result<double> {
    const SharedMapping other(file.get(), kChunks * kChunk);
    if (!other.is_mapped()) return os_error(ErrorCode::kIoError, "calibrate: mmap");
    const Stopwatch watch(effort);
    for (std::size_t i = 0; i < kChunks; ++i) {
      if (::madvise(other.data() + i * kChunk, kChunk, MADV_POPULATE_READ) != 0) return os_error("calibrate: madvise");
    }
    return watch.seconds();
  });
  // Older kernels cannot: what is built in stays.
  if (entered.is_ok()) memory.enter_seconds = std::max(*entered / kChunks, kShortest);
  return Status::ok();
}

// A copy by way of a buffer that stays in the cache.
Status calibrate_gather(const Effort& effort, Memory& memory) {
  const auto bytes = static_cast<std::size_t>(memory.window_bytes);
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes, std::byte{2});
  WEIR_TRY(const double copied, median_seconds(effort, [&]() -> Result<double> {
             constexpr int kRepeat = 16;
             const Stopwatch watch(effort);
             for (int i = 0; i < kRepeat; ++i) {
               std::memcpy(i % 2 == 0 ? to.data() : from.data(), i % 2 == 0 ? from.data() : to.data(), bytes);
             }
             return watch.seconds() / kRepeat;
           }));
  memory.gather_byte_seconds = std::max(copied / static_cast<double>(bytes), kShortest);
  return Status::ok();
}

// A plan from rows of a matrix in memory to a file striped over two.
Status calibrate_plans(const Effort& effort, Memory& memory) {
  constexpr Offset kRow = 1000;
  WEIR_TRY(const layout::Element rows,
           layout::Element::create({{0, kRow - 1, 0, 1, {}}}, {.disp = 0, .period = kRow + 24}));
  WEIR_TRY(const layout::Element file,
           layout::Element::create({{0, kRow * kRow - 1, 0, 1, {}}}, {.disp = 0, .period = kRow * kRow}));
  WEIR_TRY(const layout::Element stripe, layout::Element::create({{0, 4095, 0, 1, {}}}, {.disp = 0, .period = 8192}));
  WEIR_TRY(memory.compose_seconds, median_seconds(effort, [&]() -> Result<double> {
             const Stopwatch watch(effort);
             WEIR_TRY(const layout::Mapping mapping,
                      layout::intersect(file, stripe, {.file = {0, kRow * kRow}, .a = {}, .b = {}}));
             WEIR_TRY(const layout::Mapping composed, layout::compose_a(mapping, rows));
             WEIR_TRY(const transfer::Plan plan, transfer::Plan::copy(composed));
             return watch.seconds();
           }));
  return Status::ok();
}

// ---- disk

Status disk_error(const char* call, const std::string& folder) {
  return os_error(concat("calibrate: ", call, " in ", folder));
}

// A file that nobody else sees, of which any part can be written and read.
class DiskFile {
 public:
  static constexpr std::size_t kBytes = 16 * kChunk;

  static Result<DiskFile> create(const std::string& folder) {
    DiskFile out(folder);
    std::string path = folder + "/weir-model-XXXXXX";
    out.file_ = Descriptor(::mkostemp(path.data(), O_CLOEXEC));
    if (!out.file_.is_open()) return disk_error("make a file", folder);
    // Not every file system can do without the page cache.
    out.direct_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    ::unlink(path.c_str());
    return out;
  }

  Status write(std::size_t at, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t put = uninterrupted([&] {
        return ::pwrite(file_.get(), buffer_.get(), std::min(bytes - done, kChunk), static_cast<off_t>(at + done));
      });
      if (put <= 0) return disk_error("write", folder_);
      done += static_cast<std::size_t>(put);
    }
    return Status::ok();
  }
  Status sync() { return ::fdatasync(file_.get()) == 0 ? Status::ok() : disk_error("sync", folder_); }
  Status read(std::size_t at, std::size_t bytes) {
    if (!direct_.is_open())
      ::posix_fadvise(file_.get(), static_cast<off_t>(at), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
    const int descriptor = direct_.is_open() ? direct_.get() : file_.get();
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t got = uninterrupted([&] {
        return ::pread(descriptor, buffer_.get(), std::min(bytes - done, kChunk), static_cast<off_t>(at + done));
      });
      if (got <= 0) return disk_error("read", folder_);
      done += static_cast<std::size_t>(got);
    }
    return Status::ok();
  }

 private:
  explicit DiskFile(std::string folder) : folder_(std::move(folder)), buffer_(make_aligned_memory(2 * kChunk)) {
    std::memset(buffer_.get(), 1, 2 * kChunk);
  }
  std::string folder_;
  AlignedMemory buffer_;
  Descriptor file_;
  Descriptor direct_;
};

}  // namespace

Result<double> median_seconds(const Effort& effort, const std::function<Result<double>()>& once) {
  std::vector<double> times;
  for (int round = 0; round < effort.rounds && (round == 0 || effort.clock->now() < effort.end); ++round) {
    WEIR_TRY(const double seconds, once());
    times.push_back(seconds);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

Status calibrate_memory(const Machine& machine, const Effort& effort, Memory& memory) {
  constexpr Offset kLeast = Offset{64} << 10;
  constexpr Offset kMost = Offset{4} << 20;
  if (machine.caches.size() > 1) {
    const Offset half = std::clamp(machine.caches[1].bytes / 2, kLeast, kMost);
    memory.window_bytes = static_cast<Offset>(std::bit_floor(static_cast<std::uint64_t>(half)));
  }
  WEIR_RETURN_IF_ERROR(calibrate_pages(machine, effort, memory));
  WEIR_RETURN_IF_ERROR(calibrate_gather(effort, memory));
  return calibrate_plans(effort, memory);
}

Result<Disk> calibrate_disk(const std::string& folder, const Effort& effort) {
  constexpr std::size_t kBlock = 4096;
  WEIR_TRY(DiskFile file, DiskFile::create(folder));
  const auto timed = [&](const std::function<Status()>& work) {
    return median_seconds(effort, [&]() -> Result<double> {
      const Stopwatch watch(effort);
      WEIR_RETURN_IF_ERROR(work());
      return watch.seconds();
    });
  };
  std::mt19937_64 random(1);
  const auto somewhere = [&] { return random() % (DiskFile::kBytes / kBlock) * kBlock; };
  Disk disk;
  WEIR_TRY(const double written, timed([&]() -> Status {
             WEIR_RETURN_IF_ERROR(file.write(0, DiskFile::kBytes));
             return file.sync();
           }));
  WEIR_TRY(disk.sync_seconds, timed([&]() -> Status {
             WEIR_RETURN_IF_ERROR(file.write(somewhere(), kBlock));
             return file.sync();
           }));
  WEIR_TRY(const double read, timed([&] { return file.read(0, DiskFile::kBytes); }));
  WEIR_TRY(const double block, timed([&] { return file.read(somewhere(), kBlock); }));
  const auto per_byte = [](double seconds) { return std::max(seconds / DiskFile::kBytes, kShortest); };
  disk.write_byte_seconds = per_byte(written - disk.sync_seconds);
  disk.read_byte_seconds = per_byte(read);
  disk.position_seconds = std::max(block - kBlock * disk.read_byte_seconds, 0.0);
  // Checking and merging come in addition, as in the built-in costs.
  const Disk built_in;
  disk.change_byte_seconds = (disk.read_byte_seconds + disk.write_byte_seconds) * built_in.change_byte_seconds /
                             (built_in.read_byte_seconds + built_in.write_byte_seconds);
  return disk;
}

}  // namespace weir::model
