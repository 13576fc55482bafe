#include <weir/launch/manifest.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include <weir/base/os_error.h>
#include <weir/base/text.h>

namespace weir::launch {

// A record: four numbers, a blank, the name, and a zero byte, which no name has.
Manifest::Manifest(std::string file) : file_(std::move(file)) {
  std::ifstream in(file_, std::ios::binary);
  Entry entry;
  while (in >> entry.file >> entry.size >> entry.changed_ns >> entry.version && in.get() == ' ') {
    std::string path;
    if (!std::getline(in, path, '\0') || in.eof()) return;  // cut off: the copy may be, too
    entries_[path] = entry;
  }
}

Status Manifest::add(const std::string& path, const client::Stat& found, std::int64_t version) {
  entries_[path] = {found.file, found.size, found.changed_ns, version};
  std::ofstream out(file_, std::ios::binary | std::ios::app);
  out << found.file << ' ' << found.size << ' ' << found.changed_ns << ' ' << version << ' ' << path << '\0';
  out.close();
  if (out) return Status::ok();
  return os_error(ErrorCode::kIoError, concat("cannot write ", file_));
}

bool Manifest::holds(const std::string& path, const client::Stat& found, std::int64_t version) const {
  const auto entry = entries_.find(path);
  return entry != entries_.end() && entry->second == Entry{found.file, found.size, found.changed_ns, version};
}

}  // namespace weir::launch
