#include <weir/share/lifeline.h>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include <weir/base/os_error.h>
#include <weir/base/text.h>

namespace weir::share {

Lifeline::Lifeline(const std::atomic<std::uint32_t>* word, dev_t device, ino_t file)
    : word_(word), device_(device), file_(file) {}

Lifeline::~Lifeline() { munmap(const_cast<std::atomic<std::uint32_t>*>(word_), sizeof *word_); }

Result<std::shared_ptr<Lifeline>> Lifeline::map(int descriptor) {
  const auto error = [](const char* step) {
    return os_error(ErrorCode::kIoError, concat("lifeline of a server: ", step));
  };
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return error("fstat");
  using Word = std::atomic<std::uint32_t>;
  if (info.st_size < static_cast<off_t>(sizeof(Word))) return corrupt("lifeline of a server: too short");
  void* memory = mmap(nullptr, sizeof(Word), PROT_READ, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return error("mmap");
  return std::shared_ptr<Lifeline>(new Lifeline(static_cast<const Word*>(memory), info.st_dev, info.st_ino));
}

bool Lifeline::is_alive() const noexcept { return (word_->load(std::memory_order_acquire) & FUTEX_TID_MASK) != 0; }

bool Lifeline::is_of(int descriptor) const noexcept {
  struct stat info {};
  return fstat(descriptor, &info) == 0 && info.st_dev == device_ && info.st_ino == file_;
}

}  // namespace weir::share
