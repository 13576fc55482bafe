#pragma once

// For tests only, not installed.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <weir/base/text.h>

namespace weir::testing {

/// Local addresses of TCP sockets on which a process listens, as /proc has them: "0100007F:1F90".  Of none if the
/// process is gone.
inline std::multiset<std::string> listening_sockets(std::int64_t process) {
  const std::string proc = concat("/proc/", process);
  std::error_code error;
  std::set<std::string> open;
  for (std::filesystem::directory_iterator entry(proc + "/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code closed;
    open.insert(std::filesystem::read_symlink(entry->path(), closed).string());
  }
  std::multiset<std::string> found;
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream file(proc + table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::vector<std::string> field(10);
      for (std::string& one : field) fields >> one;
      constexpr const char* kListens = "0A";
      if (field[3] == kListens && open.contains(concat("socket:[", field[9], "]"))) found.insert(field[1]);
    }
  }
  return found;
}

}  // namespace weir::testing
