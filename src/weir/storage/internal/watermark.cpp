#include <weir/storage/internal/watermark.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <fmt/format.h>

#include <weir/storage/internal/disk_files.h>

namespace weir::storage::internal {
namespace {

constexpr Offset kWatermarkSlotBytes = 4096;  // apart from each other on any disk
constexpr std::size_t kWatermarkTextBytes = 256;
constexpr std::string_view kNoBoot = "-";

std::string watermark_body(std::uint64_t turn, std::uint64_t sequence, const std::string& boot) {
  return fmt::format("weir metadata, version 1: turn {:016x} durable {:016x} boot {}", turn, sequence,
                     boot.empty() ? kNoBoot : std::string_view(boot));
}

std::string with_checksum(const std::string& body) {
  return fmt::format("{} sum {:016x}\n", body, XXH3_64bits(body.data(), body.size()));
}

}  // namespace

std::string boot_of_system() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  return boot.size() <= 64 ? boot : std::string();
}

Result<Watermark> Watermark::open(const std::string& path, std::string this_boot) {
  Watermark watermark(path, std::move(this_boot));
  WEIR_TRY(watermark.file_, open_file(path, O_RDWR | O_CREAT));
  if (::flock(watermark.file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return os_error("lock", path, errno);
    return Status{ErrorCode::kUnavailable, fmt::format("metadata is in use: another server has locked {}", path)};
  }
  bool is_known = false;
  for (const Offset slot : {Offset{0}, kWatermarkSlotBytes}) {
    std::array<char, kWatermarkTextBytes + 1> text{};
    WEIR_RETURN_IF_ERROR(read_or_zero(watermark.file_.get(), path, text.data(), kWatermarkTextBytes, slot));
    is_known = watermark.take_slot(text.data()) || is_known;
  }
  WEIR_TRY(const struct stat status, file_status(watermark.file_.get(), path));
  // Empty: a crash came before it was first written.
  if (!is_known && status.st_size > 0) {
    return corrupt(
        fmt::format("{} is damaged: neither of its two copies can be read; restore the directory from a copy, "
                    "or rebuild it from the stores (weir fsck --rebuild)",
                    path));
  }
  return watermark;
}

// The later one counts.
bool Watermark::take_slot(std::string_view text) {
  std::uint64_t turn = 0;
  std::uint64_t sequence = 0;
  std::array<char, 65> boot{};
  const std::string copy(text);
  if (std::sscanf(copy.c_str(), "weir metadata, version 1: turn %16" SCNx64 " durable %16" SCNx64 " boot %64s", &turn,
                  &sequence, boot.data()) != 3) {
    return false;
  }
  const std::string found = boot.data() == kNoBoot ? std::string() : std::string(boot.data());
  if (with_checksum(watermark_body(turn, sequence, found)) != text) return false;
  if (turn < turn_) return true;
  turn_ = turn;
  sequence_ = sequence;
  boot_ = found;
  return true;
}

Status Watermark::write(std::uint64_t sequence) {
  if (turn_ == 0) WEIR_RETURN_IF_ERROR(sync_directory(std::filesystem::path(path_).parent_path()));
  const std::uint64_t turn = turn_ + 1;
  std::string text = with_checksum(watermark_body(turn, sequence, this_boot_));
  text.resize(kWatermarkTextBytes, '\0');
  WEIR_RETURN_IF_ERROR(
      write_all(file_.get(), path_, text.data(), text.size(), turn % 2 == 0 ? kWatermarkSlotBytes : 0));
  WEIR_RETURN_IF_ERROR(sync_file(file_.get(), path_));
  turn_ = turn;
  sequence_ = sequence;
  boot_ = this_boot_;
  return Status::ok();
}

}  // namespace weir::storage::internal
