#include <weir/storage/disk_store.h>

// check_disk_store(): reads everything, changes nothing.

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <weir/storage/internal/disk_about.h>
#include <weir/storage/internal/disk_directory.h>
#include <weir/storage/internal/disk_files.h>
#include <weir/storage/internal/disk_sums.h>

namespace weir::storage {
namespace {

using internal::DiskDirectory;
using internal::FileKind;
using internal::FileName;
using internal::kBlockBytes;
using internal::kNoSum;
using internal::kSumsPerPage;
using internal::kSumsStart;
using internal::PartName;
using internal::SumPageImage;
using internal::SumsHeader;
using Kind = DiskFinding::Kind;

// The files there are of one part.
struct Files {
  bool data = false;
  bool sums = false;
  bool gone = false;
  bool about = false;
  bool empty = false;
};

class PartCheck {
 public:
  PartCheck(const DiskDirectory& directory, PartName name, DiskCheck& report)
      : name_(name),
        directory_(directory.path()),
        start_(name.part * directory.part_bytes()),
        data_path_(path_of(directory.path(), name, FileKind::kData)),
        sums_path_(path_of(directory.path(), name, FileKind::kSums)),
        report_(report) {}

  Status run(const Files& files) {
    if (files.about) WEIR_RETURN_IF_ERROR(check_about(FileKind::kAbout));
    if (files.empty) WEIR_RETURN_IF_ERROR(check_about(FileKind::kEmpty));
    if (!files.sums && !files.data && !files.gone) {
      if (!files.about) return Status::ok();
      return find(Kind::kMissingData, 0, 0, fmt::format("{}: its data and its checksums are both gone", data_path_));
    }
    if (!files.sums && files.gone) {
      return find(Kind::kUnfinishedRemove, 0, 0, fmt::format("{}: its removal was interrupted", data_path_));
    }
    if (!files.sums) return find(Kind::kDamagedChecksums, 0, 0, fmt::format("{} is missing", sums_path_));
    WEIR_TRY(sums_, internal::open_file(sums_path_, O_RDONLY));
    WEIR_TRY(const bool is_sound, check_header());
    if (!is_sound) return Status::ok();
    if (!files.data) {
      if (header_.data_length == 0) return Status::ok();  // a crash came when the part was made
      return find(Kind::kMissingData, 0, header_.data_length, fmt::format("{} is missing", data_path_));
    }
    WEIR_TRY(data_, internal::open_file(data_path_, O_RDONLY));
    return check_blocks();
  }

 private:
  Status find(Kind kind, Offset from, Offset to, std::string message) {
    report_.findings.push_back({kind, name_.id, start_ + from, start_ + to, std::move(message)});
    return Status::ok();
  }

  Status check_about(FileKind kind) {
    const std::string path = path_of(directory_, name_, kind);
    WEIR_TRY(const Descriptor file, internal::open_file(path, O_RDONLY));
    const Status status = internal::read_about(name_.id, file.get(), path).status();
    return status.code() == ErrorCode::kCorrupt ? find(Kind::kDamagedAbout, 0, 0, status.message()) : status;
  }

  Result<bool> check_header() {
    std::array<std::byte, kSumsStart> bytes;
    WEIR_RETURN_IF_ERROR(internal::read_or_zero(sums_.get(), sums_path_, bytes.data(), bytes.size(), 0));
    WEIR_TRY(const struct stat status, internal::file_status(sums_.get(), sums_path_));
    const std::optional<SumsHeader> header = internal::decode_headers(bytes, name_);
    if (!header) {
      WEIR_RETURN_IF_ERROR(find(Kind::kDamagedChecksums, 0, 0, fmt::format("{}: the header is damaged", sums_path_)));
      return false;
    }
    header_ = *header;
    if (header_.sequence > 0 && status.st_size < internal::sums_file_bytes(header_.data_length)) {
      WEIR_RETURN_IF_ERROR(find(Kind::kDamagedChecksums, 0, header_.data_length,
                                fmt::format("{}: cut off at byte {}", sums_path_, Offset{status.st_size})));
      return false;
    }
    return true;
  }

  Status check_blocks() {
    WEIR_TRY(const struct stat status, internal::file_status(data_.get(), data_path_));
    const Offset synced = internal::blocks_in(header_.data_length);
    const Offset blocks = std::max(synced, internal::blocks_in(status.st_size));
    SumPageImage page{};
    for (Offset block = 0; block < blocks; ++block) {
      if (block % kSumsPerPage == 0) {
        const Offset at = kSumsStart + block / kSumsPerPage * internal::kSumPageBytes;
        WEIR_RETURN_IF_ERROR(internal::read_or_zero(sums_.get(), sums_path_, page.data(), sizeof page, at));
      }
      const std::uint64_t sum = block < synced ? page[static_cast<std::size_t>(block % kSumsPerPage)] : kNoSum;
      WEIR_RETURN_IF_ERROR(sum == kNoSum ? check_unverified(block, status.st_size) : check_block(block, sum));
    }
    return Status::ok();
  }

  Status check_block(Offset block, std::uint64_t sum) {
    WEIR_RETURN_IF_ERROR(
        internal::read_or_zero(data_.get(), data_path_, block_.data(), block_.size(), block * kBlockBytes));
    if (internal::sum_of(block_) == sum) {
      ++report_.verified_blocks;
      return Status::ok();
    }
    return find(Kind::kDamagedBlock, block * kBlockBytes, (block + 1) * kBlockBytes,
                fmt::format("{}: block {} does not fit its checksum", data_path_, block));
  }

  // A hole needs no sum.  Neighbours are one finding.
  Status check_unverified(Offset block, Offset size) {
    const Offset from = block * kBlockBytes;
    const Offset to = std::min(from + kBlockBytes, size);
    if (from >= size) return Status::ok();
    const off_t data = ::lseek(data_.get(), from, SEEK_DATA);
    if (data < 0 || data >= to) return Status::ok();
    if (!report_.findings.empty()) {
      DiskFinding& last = report_.findings.back();
      if (last.kind == Kind::kUnverifiedBlocks && last.id == name_.id && last.to == start_ + from) {
        last.to = start_ + to;
        return Status::ok();
      }
    }
    return find(Kind::kUnverifiedBlocks, from, to,
                fmt::format("{}: written from byte {} on, but not synced before a crash", data_path_, from));
  }

  PartName name_;
  std::string directory_;
  Offset start_;
  std::string data_path_;
  std::string sums_path_;
  DiskCheck& report_;
  Descriptor data_;
  Descriptor sums_;
  SumsHeader header_;
  std::vector<std::byte> block_ = std::vector<std::byte>(kBlockBytes);
};

void note(Files& files, FileKind kind) {
  switch (kind) {
    case FileKind::kData: files.data = true; break;
    case FileKind::kSums: files.sums = true; break;
    case FileKind::kGone: files.gone = true; break;
    case FileKind::kAbout: files.about = true; break;
    case FileKind::kEmpty: files.empty = true; break;
    case FileKind::kDraft: break;
  }
}

}  // namespace

Result<DiskCheck> check_disk_store(const std::string& directory) {
  WEIR_TRY(const DiskDirectory opened, DiskDirectory::open(directory));
  DiskCheck report;
  std::map<PartName, Files> parts;
  WEIR_RETURN_IF_ERROR(opened.visit_files([&](const std::string& path, const std::optional<FileName>& name) {
    if (name) return note(parts[name->part], name->kind);
    report.findings.push_back({Kind::kForeignFile, {}, 0, 0, fmt::format("{} is no file of the store", path)});
  }));
  for (const auto& [name, files] : parts) {
    if (name.part == 0 && files.sums) ++report.subfiles;
    WEIR_RETURN_IF_ERROR(PartCheck(opened, name, report).run(files));
  }
  return report;
}

}  // namespace weir::storage
