#include <weir/mpiio/internal/registry.h>

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

namespace weir::mpiio::internal {

namespace {

constexpr MPI_Fint kFirstNumber = 0x40000000;

struct Entry {
  std::shared_ptr<File> file;
  MPI_Fint number = 0;
};

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<MPI_File, Entry> files;
  std::map<MPI_Fint, MPI_File> by_number;
  MPI_Fint next_number = kFirstNumber;
  std::atomic<std::size_t> count{0};
  std::unordered_set<MPI_File> closed;
  std::atomic<std::size_t> closed_count{0};
};

// Never destroyed: destructors of the program may still use files.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

}  // namespace

std::shared_ptr<File> find_file(MPI_File handle) {
  Registry& all = registry();
  if (all.count.load(std::memory_order_acquire) == 0) return nullptr;
  const std::shared_lock lock(all.mutex);
  const auto found = all.files.find(handle);
  return found == all.files.end() ? nullptr : found->second.file;
}

MPI_File add_file(std::shared_ptr<File> file) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const MPI_File handle = file->handle();
  const MPI_Fint number = all.next_number++;
  all.by_number[number] = handle;
  all.files[handle] = {std::move(file), number};
  all.closed.erase(handle);
  all.closed_count = all.closed.size();
  all.count = all.files.size();
  return handle;
}

void drop_file(MPI_File handle) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.files.find(handle);
  if (found == all.files.end()) return;
  all.by_number.erase(found->second.number);
  all.files.erase(found);
  all.count = all.files.size();
  all.closed.insert(handle);
  all.closed_count = all.closed.size();
}

bool is_closed_file(MPI_File handle) {
  Registry& all = registry();
  if (all.closed_count.load(std::memory_order_acquire) == 0) return false;
  const std::shared_lock lock(all.mutex);
  return all.closed.contains(handle);
}

void reopened(MPI_File handle) {
  Registry& all = registry();
  if (all.closed_count.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(all.mutex);
  all.closed.erase(handle);
  all.closed_count = all.closed.size();
}

MPI_Fint number_of(const File& file) {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  const auto found = all.files.find(const_cast<File&>(file).handle());
  return found == all.files.end() ? 0 : found->second.number;
}

MPI_File handle_of(MPI_Fint number) {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  const auto found = all.by_number.find(number);
  return found == all.by_number.end() ? MPI_FILE_NULL : found->second;
}

bool is_our_number(MPI_Fint number) { return number >= kFirstNumber; }

}  // namespace weir::mpiio::internal
