#include <weir/trace/open_files.h>

#include <filesystem>
#include <fstream>

#include <weir/trace/lines.h>

namespace weir::trace {

void OpenFiles::update() {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".trace") continue;
    Tail& tail = tails_[entry->path().string()];
    if (!tail.is_old) read(entry->path().string(), tail);
  }
}

void OpenFiles::read(const std::string& file, Tail& tail) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(tail.offset);
  char buffer[1 << 16];
  while (in && !tail.is_old) {
    in.read(buffer, sizeof buffer);
    std::string_view text(buffer, static_cast<std::size_t>(in.gcount()));
    tail.offset += in.gcount();
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      tail.rest += text.substr(0, end);
      text.remove_prefix(end + 1);
      note(tail.rest, tail);
      tail.rest.clear();
    }
    tail.rest += text;
  }
}

void OpenFiles::note(const std::string& line, Tail& tail) {
  if (tail.is_old) return;
  if (!tail.has_begun) {
    tail.has_begun = true;
    const auto head = parse_line<HeadLine>(line);
    tail.is_old = !head || head->version != kVersion || head->at < since_;
  } else if (const auto opening = parse_line<OpenLine>(line)) {
    if (!opening->can_write) return;
    tail.open[opening->file] = opening->path;
    ++states_[opening->path].openings;
  } else if (const auto closing = parse_line<CloseLine>(line)) {
    const auto found = tail.open.find(closing->file);
    if (found == tail.open.end()) return;
    ++states_[found->second].closings;
    tail.open.erase(found);
  }
}

std::int64_t OpenFiles::version(const std::string& path) const {
  const auto found = states_.find(path);
  return found == states_.end() ? 0 : found->second.openings + found->second.closings;
}

bool OpenFiles::is_closed(const std::string& path) const {
  const auto found = states_.find(path);
  return found == states_.end() || found->second.openings == found->second.closings;
}

std::vector<std::string> OpenFiles::written() const {
  std::vector<std::string> paths;
  for (const auto& [path, state] : states_) paths.push_back(path);
  return paths;
}

}  // namespace weir::trace
