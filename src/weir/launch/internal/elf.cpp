#include <weir/launch/internal/elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>

#include <elf.h>

namespace weir::launch::internal {

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 26;  // of a table: more is no table

class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : file_(path, std::ios::binary) {}

  template <typename Record>
  std::optional<Record> at(std::uint64_t offset) {
    Record record;
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    if (!file_.read(reinterpret_cast<char*>(&record), sizeof record)) return std::nullopt;
    return record;
  }

  std::string text(std::uint64_t offset) {
    std::string text;
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    std::getline(file_, text, '\0');
    return text;
  }

 private:
  std::ifstream file_;
};

std::vector<Elf64_Phdr> segments_of(ElfFile& file) {
  std::vector<Elf64_Phdr> segments;
  const auto head = file.at<Elf64_Ehdr>(0);
  constexpr unsigned char kOrder = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return segments;
  if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != kOrder) return segments;
  for (std::uint64_t i = 0; i < head->e_phnum; ++i) {
    const auto segment = file.at<Elf64_Phdr>(head->e_phoff + i * head->e_phentsize);
    if (segment) segments.push_back(*segment);
  }
  return segments;
}

// Where in the file the byte is that is loaded at this address.
std::optional<std::uint64_t> offset_of(const std::vector<Elf64_Phdr>& segments, std::uint64_t address) {
  for (const Elf64_Phdr& one : segments) {
    if (one.p_type != PT_LOAD || address < one.p_vaddr || address - one.p_vaddr >= one.p_filesz) continue;
    return address - one.p_vaddr + one.p_offset;
  }
  return std::nullopt;
}

std::vector<Elf64_Dyn> dynamic_entries(ElfFile& file, const std::vector<Elf64_Phdr>& segments) {
  std::vector<Elf64_Dyn> entries;
  for (const Elf64_Phdr& one : segments) {
    if (one.p_type != PT_DYNAMIC || one.p_filesz > kMostBytes) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= one.p_filesz; at += sizeof(Elf64_Dyn)) {
      const auto entry = file.at<Elf64_Dyn>(one.p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) break;
      entries.push_back(*entry);
    }
  }
  return entries;
}

}  // namespace

std::vector<std::string> needed_libraries(const std::string& path) {
  ElfFile file(path);
  const std::vector<Elf64_Phdr> segments = segments_of(file);
  const std::vector<Elf64_Dyn> entries = dynamic_entries(file, segments);
  std::optional<std::uint64_t> names;
  for (const Elf64_Dyn& one : entries) {
    if (one.d_tag == DT_STRTAB) names = offset_of(segments, one.d_un.d_ptr);
  }
  std::vector<std::string> needed;
  for (const Elf64_Dyn& one : entries) {
    if (one.d_tag == DT_NEEDED && names) needed.push_back(file.text(*names + one.d_un.d_val));
  }
  return needed;
}

}  // namespace weir::launch::internal
