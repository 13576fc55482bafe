#include <weir/storage/internal/disk_about.h>

#include <bit>
#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

#include <weir/storage/internal/disk_files.h>

namespace weir::storage::internal {
namespace {

struct AboutHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t element;
  std::uint64_t file;
  std::uint64_t bytes;
};
static_assert(sizeof(AboutHeader) == 32 && std::endian::native == std::endian::little);

constexpr char kAboutMagic[8] = {'W', 'E', 'I', 'R', 'I', 'N', 'F', 'O'};
constexpr std::uint32_t kAboutVersion = 1;
constexpr Offset kMostAboutBytes = Offset{64} << 20;

}  // namespace

std::vector<std::byte> encode_about(SubfileId id, std::span<const std::byte> about) {
  AboutHeader header{{}, kAboutVersion, id.element, id.file, about.size()};
  std::memcpy(header.magic, kAboutMagic, sizeof kAboutMagic);
  std::vector<std::byte> file(sizeof header + about.size() + sizeof(std::uint64_t));
  std::memcpy(file.data(), &header, sizeof header);
  if (!about.empty()) std::memcpy(file.data() + sizeof header, about.data(), about.size());
  const std::uint64_t sum = XXH3_64bits(file.data(), file.size() - sizeof(std::uint64_t));
  std::memcpy(file.data() + file.size() - sizeof sum, &sum, sizeof sum);
  return file;
}

Result<std::vector<std::byte>> decode_about(SubfileId id, std::span<const std::byte> file) {
  AboutHeader header{};
  std::uint64_t sum = 0;
  if (file.size() < sizeof header + sizeof sum) return corrupt("it is too short");
  std::memcpy(&header, file.data(), sizeof header);
  std::memcpy(&sum, file.data() + file.size() - sizeof sum, sizeof sum);
  if (sum != XXH3_64bits(file.data(), file.size() - sizeof sum)) return corrupt("its checksum is wrong");
  const std::size_t bytes = file.size() - sizeof header - sizeof sum;
  if (std::memcmp(header.magic, kAboutMagic, sizeof kAboutMagic) != 0 || header.version != kAboutVersion ||
      header.bytes != bytes) {
    return corrupt("it is of another version");
  }
  if (SubfileId{header.file, header.element} != id) return corrupt("it is that of another subfile");
  const auto about = file.subspan(sizeof header, bytes);
  return std::vector<std::byte>(about.begin(), about.end());
}

Result<std::vector<std::byte>> read_about(SubfileId id, int descriptor, const std::string& path) {
  WEIR_TRY(const struct stat status, file_status(descriptor, path));
  if (status.st_size > kMostAboutBytes) return corrupt(fmt::format("{} is damaged: it is too long", path));
  std::vector<std::byte> file(static_cast<std::size_t>(status.st_size));
  WEIR_RETURN_IF_ERROR(read_or_zero(descriptor, path, file.data(), file.size(), 0));
  Result<std::vector<std::byte>> about = decode_about(id, file);
  if (about.is_ok()) return about;
  return corrupt(fmt::format("{} is damaged: {}", path, about.status().message()));
}

}  // namespace weir::storage::internal
