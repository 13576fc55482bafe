#include <weir/storage/internal/disk_sums.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include <xxhash.h>

namespace weir::storage::internal {
namespace {

// As it lies in the file, little endian.
struct RawHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t block_bytes;
  std::uint64_t file;
  std::uint32_t element;
  std::uint32_t has_more_parts;
  std::int64_t part;
  std::uint64_t sequence;
  std::int64_t data_length;
  std::int64_t subfile_length;
  std::int64_t file_end;
  std::uint64_t checksum;  // XXH3 of all before it
};
static_assert(sizeof(RawHeader) == 80 && std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'W', 'E', 'I', 'R', 'S', 'U', 'M', 'S'};
constexpr std::uint32_t kVersion = 1;

std::uint64_t checksum_of(const RawHeader& raw) { return XXH3_64bits(&raw, offsetof(RawHeader, checksum)); }

bool is_length(Offset value) { return value >= 0 && value <= kMaxBytes; }

std::optional<SumsHeader> decode_slot(const std::byte* bytes, PartName part) {
  RawHeader raw;
  std::memcpy(&raw, bytes, sizeof raw);
  const bool is_ours = std::memcmp(raw.magic, kMagic, sizeof kMagic) == 0 && raw.checksum == checksum_of(raw) &&
                       raw.version == kVersion && raw.block_bytes == kBlockBytes && raw.sequence > 0 &&
                       PartName{{raw.file, raw.element}, raw.part} == part;
  if (!is_ours || !is_length(raw.data_length) || !is_length(raw.subfile_length) || !is_length(raw.file_end)) return {};
  return SumsHeader{raw.sequence, raw.data_length, raw.subfile_length, raw.file_end, raw.has_more_parts != 0};
}

}  // namespace

std::uint64_t sum_of(std::span<const std::byte> block) noexcept {
  assert(block.size() == kBlockBytes);
  const std::uint64_t sum = XXH3_64bits(block.data(), block.size());
  return sum == kNoSum ? 1 : sum;
}

HeaderSlot encode_header(const SumsHeader& header, PartName part) {
  RawHeader raw{};
  std::memcpy(raw.magic, kMagic, sizeof kMagic);
  raw.version = kVersion;
  raw.block_bytes = kBlockBytes;
  raw.file = part.id.file;
  raw.element = part.id.element;
  raw.part = part.part;
  raw.has_more_parts = header.has_more_parts ? 1 : 0;
  raw.sequence = header.sequence;
  raw.data_length = header.data_length;
  raw.subfile_length = header.subfile_length;
  raw.file_end = header.file_end;
  raw.checksum = checksum_of(raw);
  HeaderSlot slot{};
  std::memcpy(slot.data(), &raw, sizeof raw);
  return slot;
}

std::optional<SumsHeader> decode_headers(std::span<const std::byte, kSumsStart> bytes, PartName part) {
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; })) return SumsHeader{};
  const std::optional<SumsHeader> first = decode_slot(bytes.data(), part);
  const std::optional<SumsHeader> second = decode_slot(bytes.data() + kHeaderSlotBytes, part);
  if (!first || !second) return first ? first : second;
  return first->sequence > second->sequence ? first : second;
}

void SumPage::set_sum(std::size_t i, std::uint64_t sum) {
  if (i >= sums.size() && sum == kNoSum) return;
  if (i >= sums.size()) sums.resize(i + 1, kNoSum);
  sums[i] = sum;
}

SumPageImage image_of(const SumPage& page, const std::bitset<kSumsPerPage>& without) {
  SumPageImage image{};
  for (std::size_t i = 0; i < page.sums.size(); ++i) image[i] = without[i] ? kNoSum : page.sums[i];
  return image;
}

}  // namespace weir::storage::internal
