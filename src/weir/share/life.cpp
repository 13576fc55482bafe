#include <weir/share/life.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include <weir/base/os_error.h>
#include <weir/base/text.h>
#include <weir/share/handover.h>

namespace weir::share {

namespace {

using Word = std::atomic<std::uint32_t>;

Status error(const char* step) { return os_error(ErrorCode::kIoError, concat("lifeline of a server: ", step)); }

}  // namespace

Result<std::unique_ptr<Life>> Life::create() {
  std::unique_ptr<Life> life(new Life);
  const Descriptor file(memfd_create("weir-lifeline", MFD_CLOEXEC));
  if (!file.is_open()) return error("memfd_create");
  if (ftruncate(file.get(), sizeof(Word)) != 0) return error("ftruncate");
  void* memory = mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return error("mmap");
  life->word_ = new (memory) Word(0);
  life->shown_ = reopen_for_reading(file.get());
  if (!life->shown_.is_open()) return error("open for reading");
  return life;
}

Life::~Life() {
  if (word_ != nullptr) munmap(word_, sizeof *word_);
}

Status Life::begin() {
  // A list of one: back to its head.  The kernel finds the word by its distance from the entry.
  entry_.next = &list_.list;
  list_.list.next = &entry_;
  list_.futex_offset =
      static_cast<long>(reinterpret_cast<std::uintptr_t>(word_) - reinterpret_cast<std::uintptr_t>(&entry_));
  list_.list_op_pending = nullptr;
  if (syscall(SYS_set_robust_list, &list_, sizeof list_) != 0) return error("set_robust_list");
  word_->store(static_cast<std::uint32_t>(syscall(SYS_gettid)), std::memory_order_release);
  return Status::ok();
}

void Life::end() {
  word_->store(0, std::memory_order_seq_cst);
  // The kernel must not look at this object once it is gone.
  syscall(SYS_set_robust_list, nullptr, sizeof list_);
}

}  // namespace weir::share
