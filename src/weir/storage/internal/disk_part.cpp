#include <weir/storage/internal/disk_part.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <weir/log/log.h>

namespace weir::storage::internal {
namespace {

// What a page takes that holds few sums.
constexpr std::size_t kPageOverhead = sizeof(SumPage) + 64;

// What a part takes without pages, with its names and its places in lists.
constexpr std::size_t kPartOverhead = sizeof(DiskPart) + 512;

// Read by one request, at least, if there is so much.
constexpr Offset kJoinedBytes = Offset{1} << 20;

// Sums of so many pages more are cleared ahead of a writer that comes by page after page.
constexpr Offset kMostPagesAhead = 63;

std::size_t in_page(Offset block) { return static_cast<std::size_t>(block % kSumsPerPage); }

template <typename Piece>
Offset end_of(const Piece& piece) {
  return piece.offset + static_cast<Offset>(piece.memory.size());
}

// Of a subfile that is written from now on: if its data and checksums are gone one day, what is known of it tells that
// they were there.
Status note_written_about(const DiskContext& context, PartName name) {
  if (name.part != 0) return Status::ok();
  const std::string empty = path_of(context.directory, name, FileKind::kEmpty);
  const std::string about = path_of(context.directory, name, FileKind::kAbout);
  if (::rename(empty.c_str(), about.c_str()) != 0 && errno != ENOENT) return os_error("rename", empty, errno);
  return Status::ok();
}

}  // namespace

bool file_exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Status unlink_if_exists(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return os_error("remove", path, errno);
  return Status::ok();
}

Status make_folder(DiskContext& context, SubfileId id) {
  const std::string folder = folder_of(id);
  const std::string path = context.directory + "/" + folder;
  if (::mkdir(path.c_str(), 0700) == 0) {
    context.unsynced_folders.insert(folder);
  } else if (errno != EEXIST) {
    return os_error("make folder", path, errno);
  }
  return Status::ok();
}

Task<Status> sync_folder(DiskContext& context, SubfileId id) {
  const std::string folder = folder_of(id);
  const std::string path = context.directory + "/" + folder;
  WEIR_CO_RETURN_IF_ERROR(co_await context.io.sync_directory(path));
  if (context.unsynced_folders.count(folder) == 0) co_return Status::ok();
  WEIR_CO_RETURN_IF_ERROR(co_await context.io.sync_directory(context.directory));
  context.unsynced_folders.erase(folder);
  co_return Status::ok();
}

// A block and its sum, on the way into its page.
struct DiskPart::Change {
  SumPage* page;
  Offset block;
  std::uint64_t sum;
};

ScratchBlock DiskContext::take_scratch() {
  if (scratch.empty()) return ScratchBlock(static_cast<std::size_t>(kBlockBytes));
  ScratchBlock block = std::move(scratch.back());
  scratch.pop_back();
  return block;
}

namespace {

/// Scratch blocks of one operation, given back at its end.
class Scratch {
 public:
  explicit Scratch(DiskContext& context) : context_(context) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { clear(); }

  std::span<std::byte> add() { return blocks_.emplace_back(context_.take_scratch()); }
  [[nodiscard]] std::span<std::byte> operator[](std::size_t i) { return blocks_[i]; }
  [[nodiscard]] std::size_t size() const noexcept { return blocks_.size(); }
  void clear() {
    for (ScratchBlock& block : blocks_) {
      if (context_.scratch.size() < kScratchBlocks) context_.scratch.push_back(std::move(block));
    }
    blocks_.clear();
  }

 private:
  DiskContext& context_;
  std::vector<ScratchBlock> blocks_;
};

}  // namespace

// ---- coming and going

DiskPart::DiskPart(DiskContext& context, PartName name)
    : context_(context),
      name_(name),
      data_path_(path_of(context.directory, name, FileKind::kData)),
      sums_path_(path_of(context.directory, name, FileKind::kSums)) {
  count_sums();
}

DiskPart::~DiskPart() { context_.checksum_bytes -= counted_bytes_; }

Task<Result<std::unique_ptr<DiskPart>>> DiskPart::open(DiskContext& context, PartName name) {
  auto part = std::make_unique<DiskPart>(context, name);
  if (!file_exists(part->sums_path_)) {
    if (!file_exists(part->data_path_)) {
      if (name.part != 0 || !file_exists(path_of(context.directory, name, FileKind::kAbout))) {
        co_return std::unique_ptr<DiskPart>{};
      }
      co_return part->damaged(part->data_path_, "its data and its checksums are both gone");
    }
    if (!file_exists(path_of(context.directory, name, FileKind::kGone))) {
      co_return part->damaged(part->sums_path_, "the file with the checksums is missing");
    }
    WEIR_CO_RETURN_IF_ERROR(part->remove());
    co_return std::unique_ptr<DiskPart>{};
  }
  WEIR_CO_RETURN_IF_ERROR(co_await part->load());
  co_return part;
}

Result<std::unique_ptr<DiskPart>> DiskPart::create(DiskContext& context, PartName name) {
  auto part = std::make_unique<DiskPart>(context, name);
  WEIR_RETURN_IF_ERROR(make_folder(context, name.id));
  // The sums first: data without sums then always means damage, or an unfinished removal.
  WEIR_TRY(part->sums_, open_file(part->sums_path_, O_RDWR | O_CREAT | O_EXCL));
  Result<Descriptor> data = open_file(part->data_path_, O_RDWR | O_CREAT | O_EXCL);
  if (!data.is_ok()) {
    ::unlink(part->sums_path_.c_str());
    return data.status();
  }
  part->data_ = std::move(*data);
  WEIR_RETURN_IF_ERROR(note_written_about(context, name));
  part->is_dirty_ = true;
  part->has_changed_names_ = true;
  WEIR_RETURN_IF_ERROR(part->open_descriptors());
  return part;
}

Status DiskPart::remove() {
  const std::string gone = path_of(context_.directory, name_, FileKind::kGone);
  if (::rename(sums_path_.c_str(), gone.c_str()) != 0 && errno != ENOENT) return os_error("remove", sums_path_, errno);
  WEIR_RETURN_IF_ERROR(unlink_if_exists(data_path_));
  return unlink_if_exists(gone);
}

Status DiskPart::open_descriptors() {
  if (!sums_.is_open()) {
    WEIR_TRY(sums_, open_file(sums_path_, O_RDWR));
  }
  if (!data_.is_open()) {
    Result<Descriptor> data = open_file(data_path_, O_RDWR);
    if (!data.is_ok()) {
      sums_.reset();
      return data.status();
    }
    data_ = std::move(*data);
  }
  return Status::ok();
}

// The descriptor for direct I/O, if a piece of this size is to go that way and the file system knows it; -1 otherwise.
int DiskPart::direct_for(std::size_t size) {
  if (static_cast<Offset>(size) < context_.options.direct_from_bytes || is_direct_refused_) return -1;
  if (!direct_.is_open()) {
    Result<Descriptor> direct = open_file(data_path_, O_RDWR | O_DIRECT);
    is_direct_refused_ = !direct.is_ok();
    if (is_direct_refused_) return -1;
    direct_ = std::move(*direct);
  }
  return direct_.get();
}

void DiskPart::close_descriptors() noexcept {
  data_.reset();
  direct_.reset();
  sums_.reset();
}

Task<Status> DiskPart::load() {
  WEIR_CO_TRY(sums_, open_file(sums_path_, O_RDWR));
  WEIR_CO_TRY(const struct stat status, file_status(sums_.get(), sums_path_));
  WEIR_CO_RETURN_IF_ERROR(load_header(status.st_size));
  WEIR_CO_RETURN_IF_ERROR(note_written_about(context_, name_));  // a crash came before that
  if (!file_exists(data_path_)) {
    if (header_.data_length > 0) co_return damaged(data_path_, "the file with the data is missing");
    WEIR_CO_TRY(data_, open_file(data_path_, O_RDWR | O_CREAT));  // a crash came before it was made
    has_changed_names_ = true;
  }
  WEIR_CO_RETURN_IF_ERROR(open_descriptors());
  WEIR_CO_TRY(const struct stat data, file_status(data_.get(), data_path_));
  // Longer than what was synced: written later.  Shorter: zeros at the end were never written, or damage, which the
  // sums will tell.
  data_length_ = std::max<Offset>(header_.data_length, data.st_size);
  if (name_.part == 0) header_.subfile_length = std::max<Offset>(header_.subfile_length, data.st_size);
  co_return co_await recover_tail(status.st_size);
}

Status DiskPart::load_header(Offset sums_bytes) {
  std::array<std::byte, kSumsStart> bytes;
  WEIR_RETURN_IF_ERROR(read_or_zero(sums_.get(), sums_path_, bytes.data(), bytes.size(), 0));
  const std::optional<SumsHeader> header = decode_headers(bytes, name_);
  if (!header) return damaged(sums_path_, "the header of the file with the checksums is damaged");
  if (header->sequence > 0 && sums_bytes < sums_file_bytes(header->data_length)) {
    return damaged(sums_path_, "the file with the checksums is cut off");
  }
  header_ = *header;
  return Status::ok();
}

// Sums behind the synced length are left from a sync or a cut that a crash interrupted.  They must not count later,
// when the part has grown over them: clear them, durably, before anything else.
Task<Status> DiskPart::recover_tail(Offset sums_bytes) {
  sums_bytes_ = sums_file_bytes(header_.data_length);
  const Offset blocks = blocks_in(header_.data_length);
  bool is_clean = sums_bytes <= sums_bytes_;
  if (!is_clean && ::ftruncate(sums_.get(), sums_bytes_) != 0) co_return os_error("cut", sums_path_, errno);
  if (blocks % kSumsPerPage != 0) {
    const Offset index = blocks / kSumsPerPage;
    WEIR_CO_TRY(SumPage* const last, co_await page(index));
    if (last->sums.size() > in_page(blocks)) {
      last->sums.resize(in_page(blocks));
      is_clean = false;
      WEIR_CO_RETURN_IF_ERROR(write_page(index, image_of(*last, {})));
    }
  }
  if (is_clean) co_return Status::ok();
  co_return co_await sync_sums_file();
}

// ---- sums

Task<Result<SumPage*>> DiskPart::page(Offset index) {
  if (const auto known = pages_.find(index); known != pages_.end()) co_return known->second.get();
  auto fresh = std::make_unique<SumPage>();
  const Offset at = kSumsStart + index * kSumPageBytes;
  if (at < sums_bytes_) {
    SumPageImage image;
    std::vector<IoRequest> requests;
    requests.push_back(
        {IoRequest::Kind::kRead, sums_.get(), -1, at, reinterpret_cast<std::byte*>(image.data()), sizeof image});
    DiskIo::Requests read(context_.io, std::move(requests));
    const int error = co_await read;
    if (error != 0) co_return os_error("read from", sums_path_, error);
    const auto last = std::find_if(image.rbegin(), image.rend(), [](std::uint64_t sum) { return sum != kNoSum; });
    fresh->sums.assign(image.begin(), last.base());
  }
  // Another operation may have been faster: then its page counts, which may have changed since.
  co_return pages_.try_emplace(index, std::move(fresh)).first->second.get();
}

Status DiskPart::write_page(Offset index, const SumPageImage& image) {
  const Offset at = kSumsStart + index * kSumPageBytes;
  return write_all(sums_.get(), sums_path_, image.data(), sizeof image, at);
}

// To the slot of the older header.
Status DiskPart::write_header() {
  ++header_.sequence;
  const HeaderSlot slot = encode_header(header_, name_);
  const Offset at = header_.sequence % 2 == 0 ? kHeaderSlotBytes : 0;
  return write_all(sums_.get(), sums_path_, slot.data(), slot.size(), at);
}

void DiskPart::count_sums() {
  // Exact where it matters, for the many small subfiles; not a walk over all pages of a large one at each access.
  constexpr std::size_t kFewPages = 4;
  std::size_t bytes = pages_.size() * (kPageOverhead + static_cast<std::size_t>(kSumPageBytes));
  if (pages_.size() <= kFewPages) {
    bytes = 0;
    for (const auto& entry : pages_) bytes += kPageOverhead + entry.second->sums.capacity() * sizeof(std::uint64_t);
  }
  bytes += kPartOverhead;
  context_.checksum_bytes += bytes - counted_bytes_;
  counted_bytes_ = bytes;
}

// ---- reading

// Collects what to read, then reads and verifies it.  Blocks asked for as a whole are read in place; of one asked for
// in part, all is read into a scratch block.  Blocks without a sum are read in place in any case.
class DiskPart::Reader {
 public:
  explicit Reader(DiskPart& part) : part_(part), scratch_(part.context_) {}

  Task<Status> add(ReadPiece piece) {
    Offset offset = piece.offset;
    std::span<std::byte> memory = piece.memory;
    while (!memory.empty()) {
      const Offset start = offset % kBlockBytes;
      const auto size = std::min(memory.size(), static_cast<std::size_t>(kBlockBytes - start));
      WEIR_CO_RETURN_IF_ERROR(co_await prepare_block(offset / kBlockBytes));
      add_block(offset / kBlockBytes, start, memory.first(size));
      offset += static_cast<Offset>(size);
      memory = memory.subspan(size);
    }
    co_return Status::ok();
  }

  Task<Status> run() {
    for (IoRequest& request : requests_) request.direct = part_.direct_for(request.size);
    DiskIo::Requests reads(part_.context_.io, std::move(requests_), [this](std::size_t request) { verify(request); });
    const int error = co_await reads;
    if (error != 0) co_return os_error("read from", part_.data_path_, error);
    if (damaged_) co_return mismatch(*damaged_);
    for (const Copy& copy : copies_) {
      std::memcpy(copy.to.data(), scratch_[copy.scratch].data() + copy.start, copy.to.size());
    }
    requests_.clear(), first_checks_.clear(), checks_.clear(), copies_.clear();
    scratch_.clear();
    scratch_block_ = -1;
    co_return Status::ok();
  }

 private:
  struct Check {
    const std::byte* memory;
    Offset block;
    std::uint64_t sum;
  };
  struct Copy {
    std::size_t scratch;
    Offset start;
    std::span<std::byte> to;
  };

  // Has its page, and room for a scratch block.
  Task<Status> prepare_block(Offset block) {
    if (page_ == nullptr || block / kSumsPerPage != page_index_) {
      page_index_ = block / kSumsPerPage;
      WEIR_CO_TRY(page_, co_await part_.page(page_index_));
    }
    if (scratch_.size() == kScratchBlocks && block != scratch_block_) WEIR_CO_RETURN_IF_ERROR(co_await run());
    co_return Status::ok();
  }

  void add_block(Offset block, Offset start, std::span<std::byte> memory) {
    const std::uint64_t sum = page_->sum(in_page(block));
    const bool is_whole = memory.size() == static_cast<std::size_t>(kBlockBytes);
    if (sum == kNoSum || is_whole) {
      request(block * kBlockBytes + start, memory);
      if (sum != kNoSum) checks_.push_back({memory.data(), block, sum});
      return;
    }
    if (block != scratch_block_) {
      const std::span<std::byte> scratch = scratch_.add();
      scratch_block_ = block;
      request(block * kBlockBytes, scratch);
      checks_.push_back({scratch.data(), block, sum});
    }
    copies_.push_back({scratch_.size() - 1, start, memory});
  }

  // While others are being read.
  void verify(std::size_t request) {
    const std::size_t end = request + 1 < first_checks_.size() ? first_checks_[request + 1] : checks_.size();
    for (std::size_t i = first_checks_[request]; i < end; ++i) {
      const Check& check = checks_[i];
      if (sum_of({check.memory, kBlockBytes}) == check.sum) continue;
      damaged_ = std::min(damaged_.value_or(check.block), check.block);
    }
  }

  // Joins it with the request before if it goes on where that ends; not without end, so that some are verified while
  // others are read.
  void request(Offset offset, std::span<std::byte> memory) {
    if (!requests_.empty()) {
      IoRequest& last = requests_.back();
      const Offset enough = std::max(kJoinedBytes, part_.context_.options.direct_from_bytes);
      if (static_cast<Offset>(last.size) < enough && last.offset + static_cast<Offset>(last.size) == offset &&
          last.memory + last.size == memory.data()) {
        last.size += memory.size();
        return;
      }
    }
    first_checks_.push_back(checks_.size());
    requests_.push_back({IoRequest::Kind::kRead, part_.data_.get(), -1, offset, memory.data(), memory.size()});
  }

  [[nodiscard]] Status mismatch(Offset block) const {
    const Offset at = block * kBlockBytes;
    return {ErrorCode::kCorrupt,
            fmt::format("read {}: block {} (bytes {} to {} of {}) does not fit its checksum: the disk has damaged it; "
                        "restore the file from a copy, or write the block again",
                        describe(part_.name_.id), block, at, at + kBlockBytes - 1, part_.data_path_),
            at};
  }

  DiskPart& part_;
  std::vector<IoRequest> requests_;
  std::vector<std::size_t> first_checks_;  // of each request: from here on, up to those of the next one
  std::vector<Check> checks_;
  std::vector<Copy> copies_;
  Scratch scratch_;                // blocks that are read as a whole, though part of them was asked for
  std::optional<Offset> damaged_;  // the first block of those that do not fit their sums
  Offset scratch_block_ = -1;      // what the last of them holds
  SumPage* page_ = nullptr;
  Offset page_index_ = -1;
};

Task<Status> DiskPart::read(std::span<const ReadPiece> pieces) {
  WEIR_CO_RETURN_IF_ERROR(open_descriptors());
  Reader reader(*this);
  for (const ReadPiece& piece : pieces) WEIR_CO_RETURN_IF_ERROR(co_await reader.add(piece));
  WEIR_CO_RETURN_IF_ERROR(co_await reader.run());
  count_sums();
  co_return Status::ok();
}

// ---- writing

Task<Status> DiskPart::write(std::span<const WritePiece> pieces) {
  WEIR_CO_RETURN_IF_ERROR(open_descriptors());
  WEIR_CO_RETURN_IF_ERROR(co_await unmark(pieces));
  is_dirty_ = true;
  std::vector<Change> sums;
  ++writers_;
  const bool is_lengthened = lengthen(pieces);
  const Status status = co_await write_data(pieces, sums);
  const bool is_last = --writers_ == 0;
  if (status.is_ok()) {
    for (const Change& change : sums) change.page->set_sum(in_page(change.block), change.sum);
    for (const WritePiece& piece : pieces) data_length_ = std::max(data_length_, end_of(piece));
  } else if (!is_lengthened || !is_last || ::ftruncate(data_.get(), data_length_) != 0) {
    const Result<struct stat> data = file_status(data_.get(), data_path_);
    if (data.is_ok()) data_length_ = std::max<Offset>(data_length_, data->st_size);
  }
  if (is_last) lengthened_ = 0;
  count_sums();
  co_return status;
}

// Makes sure that the file holds no sum, durably, for any block that is about to change.  Where that takes a write, the
// blocks behind it are unmarked too, in the same page (8 MiB) and, each time more, in those that follow: who overwrites
// in sequence waits for the disk only a few times.
Task<Status> DiskPart::unmark(std::span<const WritePiece> pieces) {
  const TaskMutex::Guard guard = co_await unmarking_.lock();
  std::map<Offset, std::bitset<kSumsPerPage>> touched;
  for (const WritePiece& piece : pieces) {
    const Offset last = (end_of(piece) - 1) / kBlockBytes;
    for (Offset block = piece.offset / kBlockBytes; block <= last; ++block)
      touched[block / kSumsPerPage].set(in_page(block));
  }
  bool has_written = false;
  std::map<Offset, std::bitset<kSumsPerPage>> unmarked;
  for (const auto& [index, blocks] : touched) {
    WEIR_CO_TRY(SumPage* const page, co_await this->page(index));
    std::bitset<kSumsPerPage>& after = unmarked[index];
    after = page->unmarked | blocks;
    std::size_t i = 0;
    while (i < page->sums.size() && !(blocks[i] && page->is_marked(i))) ++i;
    if (i >= page->sums.size()) continue;
    WEIR_CO_RETURN_IF_ERROR(unmark_rest(index, i, after));
    has_written = true;
  }
  if (has_written) {
    const Offset next = touched.rbegin()->first + 1;
    const Offset end = std::min(next + pages_ahead_, (sums_bytes_ - kSumsStart) / kSumPageBytes);
    for (Offset index = next; index < end; ++index) {
      WEIR_CO_TRY(SumPage* const page, co_await this->page(index));
      unmarked[index] = page->unmarked;
      WEIR_CO_RETURN_IF_ERROR(unmark_rest(index, 0, unmarked[index]));
    }
    WEIR_CO_RETURN_IF_ERROR(co_await sync_sums_file());
    pages_ahead_ = std::min(2 * pages_ahead_ + 1, kMostPagesAhead);
  }
  for (const auto& [index, blocks] : unmarked) {
    pages_[index]->unmarked = blocks;
    pages_[index]->is_dirty = true;
  }
  for (const auto& [index, blocks] : touched) {
    SumPage& page = *pages_[index];
    for (std::size_t i = 0; i < page.sums.size(); ++i) {
      if (blocks[i]) page.sums[i] = kNoSum;
    }
  }
  co_return Status::ok();
}

// Writes the page without the sums that are unmarked already, and adds all marked ones from `first` on to those.
Status DiskPart::unmark_rest(Offset index, std::size_t first, std::bitset<kSumsPerPage>& unmarked) {
  const SumPage& page = *pages_[index];
  for (std::size_t i = first; i < page.sums.size(); ++i) {
    if (page.is_marked(i)) unmarked.set(i);
  }
  return write_page(index, image_of(page, unmarked));
}

// File systems let one direct write at a time make a file longer, and the others wait for it.  So it gets its length
// first, if there are direct writes behind its end.  If that fails, the writes will tell what is the matter.  Other
// writes may be in flight, so it must not get shorter here.
bool DiskPart::lengthen(std::span<const WritePiece> pieces) {
  const Offset before = std::max(data_length_, lengthened_);
  Offset end = before;
  bool is_direct = false;
  for (const WritePiece& piece : pieces) {
    is_direct = is_direct || (end_of(piece) > before && direct_for(piece.memory.size()) >= 0);
    end = std::max(end, end_of(piece));
  }
  if (writers_ > 1) {
    // Buffered writes in flight may have made it longer still.
    const Result<struct stat> data = file_status(data_.get(), data_path_);
    if (!data.is_ok() || data->st_size >= end) return false;
  }
  if (!is_direct || ::ftruncate(data_.get(), end) != 0) return false;
  lengthened_ = end;
  return true;
}

// Sums of whole blocks are taken from memory, while the disk writes.
Task<Status> DiskPart::write_data(std::span<const WritePiece> pieces, std::vector<Change>& sums) {
  std::vector<IoRequest> requests;
  requests.reserve(pieces.size());
  for (const WritePiece& piece : pieces) {
    requests.push_back({IoRequest::Kind::kWrite, data_.get(), direct_for(piece.memory.size()), piece.offset,
                        const_cast<std::byte*>(piece.memory.data()), piece.memory.size()});
  }
  DiskIo::Requests writes(context_.io, std::move(requests));
  writes.start();
  for (const WritePiece& piece : pieces) {
    const Offset end = end_of(piece) / kBlockBytes;
    for (Offset block = blocks_in(piece.offset); block < end; ++block) {
      const auto at = static_cast<std::size_t>(block * kBlockBytes - piece.offset);
      sums.push_back({pages_[block / kSumsPerPage].get(), block, sum_of(piece.memory.subspan(at, kBlockBytes))});
    }
  }
  const int error = co_await writes;
  if (error != 0) co_return os_error("write to", data_path_, error);
  co_return Status::ok();
}

void DiskPart::set_subfile(Offset length, Offset file_end) {
  if (length == header_.subfile_length && file_end == header_.file_end) return;
  header_.subfile_length = length;
  header_.file_end = file_end;
  is_dirty_ = true;
}

Task<Status> DiskPart::note_more_parts() {
  if (header_.has_more_parts) co_return Status::ok();
  WEIR_CO_RETURN_IF_ERROR(open_descriptors());
  WEIR_CO_TRY(const bool has_grown, grow_sums_file());
  if (has_grown) WEIR_CO_RETURN_IF_ERROR(co_await sync_sums_file());
  header_.has_more_parts = true;
  WEIR_CO_RETURN_IF_ERROR(write_header());
  WEIR_CO_RETURN_IF_ERROR(co_await sync_sums_file());
  co_return co_await sync_names();
}

// ---- cutting, reserving

Task<Status> DiskPart::cut(Offset length) {
  if (length >= data_length_) co_return Status::ok();
  WEIR_CO_RETURN_IF_ERROR(open_descriptors());
  const Offset block = length / kBlockBytes;
  WEIR_CO_TRY(SumPage* const last, co_await page(block / kSumsPerPage));
  std::bitset<kSumsPerPage> unmarked = last->unmarked;
  for (std::size_t i = in_page(block); i < static_cast<std::size_t>(kSumsPerPage); ++i) unmarked.set(i);
  is_dirty_ = true;
  bool is_marked = false;
  for (std::size_t i = in_page(block); i < last->sums.size(); ++i) is_marked = is_marked || last->is_marked(i);
  if (header_.data_length > length || is_marked) {
    header_.data_length = std::min(header_.data_length, length);
    WEIR_CO_RETURN_IF_ERROR(write_header());
    // Only if the page is there to stay: the file must not get shorter than its header says, nor have sums behind that.
    if ((block / kSumsPerPage) * kSumPageBytes + kSumsStart < sums_bytes_) {
      WEIR_CO_RETURN_IF_ERROR(write_page(block / kSumsPerPage, image_of(*last, unmarked)));
    }
    WEIR_CO_RETURN_IF_ERROR(co_await sync_sums_file());
  }
  last->unmarked = unmarked;
  last->is_dirty = true;
  last->sums.resize(std::min(last->sums.size(), in_page(block)));
  pages_.erase(pages_.upper_bound(block / kSumsPerPage), pages_.end());
  count_sums();
  co_return cut_files(length);
}

Status DiskPart::cut_files(Offset length) {
  if (::ftruncate(data_.get(), length) != 0) return os_error("cut", data_path_, errno);
  data_length_ = length;
  const Offset sums_bytes = std::max(sums_file_bytes(length), sums_file_bytes(header_.data_length));
  if (sums_bytes < sums_bytes_) {
    if (::ftruncate(sums_.get(), sums_bytes) != 0) return os_error("cut", sums_path_, errno);
    sums_bytes_ = sums_bytes;
  }
  return Status::ok();
}

Status DiskPart::reserve(Offset from, Offset to) {
  WEIR_RETURN_IF_ERROR(open_descriptors());
  if (::fallocate(data_.get(), FALLOC_FL_KEEP_SIZE, from, to - from) != 0)
    return os_error("reserve room in", data_path_, errno);
  const Offset sums_from = kSumsStart + from / kBlockBytes / kSumsPerPage * kSumPageBytes;
  if (::fallocate(sums_.get(), FALLOC_FL_KEEP_SIZE, sums_from, sums_file_bytes(to) - sums_from) != 0) {
    return os_error("reserve room in", sums_path_, errno);
  }
  is_dirty_ = true;
  return Status::ok();
}

Result<Offset> DiskPart::stored_bytes() {
  WEIR_RETURN_IF_ERROR(open_descriptors());
  WEIR_TRY(const struct stat status, file_status(data_.get(), data_path_));
  return Offset{status.st_blocks} * 512;
}

// ---- syncing

Task<Status> DiskPart::sync() {
  if (!is_dirty_) co_return Status::ok();
  WEIR_CO_RETURN_IF_ERROR(open_descriptors());
  WEIR_CO_RETURN_IF_ERROR(co_await compute_sums());
  // Before the data is synced: most file systems then make both lengths durable at once.
  WEIR_CO_TRY(const bool has_grown, grow_sums_file());
  WEIR_CO_RETURN_IF_ERROR(co_await sync_data());
  if (has_grown) WEIR_CO_RETURN_IF_ERROR(co_await sync_sums_file());
  // Before the header speaks of data: sums without data would look like damage.
  WEIR_CO_RETURN_IF_ERROR(co_await sync_names());
  WEIR_CO_RETURN_IF_ERROR(write_sums());
  WEIR_CO_RETURN_IF_ERROR(co_await sync_sums_file());
  co_return co_await sync_step(SyncStep::kDone);
}

Task<Status> DiskPart::sync_step(SyncStep step) {
  if (step != SyncStep::kDone) WEIR_CO_RETURN_IF_ERROR(open_descriptors());
  switch (step) {
    case SyncStep::kPrepare:
      if (is_lost_) co_return lost();
      WEIR_CO_RETURN_IF_ERROR(co_await compute_sums());
      co_return grow_sums_file().status();
    case SyncStep::kWriteSums: co_return write_sums();
    case SyncStep::kDone: break;
  }
  for (auto& entry : pages_) entry.second->is_dirty = false;
  pages_ahead_ = 0;
  is_dirty_ = false;
  has_changed_names_ = false;
  co_return Status::ok();
}

Status DiskPart::write_sums() {
  header_.data_length = data_length_;
  for (auto& [index, page] : pages_) {
    if (!page->is_dirty) continue;
    page->unmarked.reset();  // before the write: if it fails, nobody knows what the file holds
    WEIR_RETURN_IF_ERROR(write_page(index, image_of(*page, {})));
  }
  return write_header();
}

Task<Status> DiskPart::sync_data() {
  if (is_lost_) co_return lost();
  Status status = co_await context_.io.sync_file(data_.get(), data_path_);
  // The system gives up pages it could not write and reports that once: a second try would succeed and prove nothing.
  is_lost_ = !status.is_ok();
  co_return status;
}

Status DiskPart::lost() const {
  return {ErrorCode::kIoError,
          fmt::format("sync {}: an earlier sync failed and lost data of {}; remove the file and write it again",
                      describe(name_.id), data_path_)};
}

// The header must not speak of sums that the file is too short for: that is how damage looks.  Hence longer first.
Result<bool> DiskPart::grow_sums_file() {
  const Offset bytes = sums_file_bytes(data_length_);
  if (bytes <= sums_bytes_) return false;
  if (::ftruncate(sums_.get(), bytes) != 0) return os_error("extend", sums_path_, errno);
  sums_bytes_ = bytes;
  return true;
}

Task<Status> DiskPart::sync_names() {
  if (has_changed_names_ || context_.unsynced_folders.count(folder_of(name_.id)) != 0) {
    WEIR_CO_RETURN_IF_ERROR(co_await sync_folder(context_, name_.id));
  }
  has_changed_names_ = false;
  co_return Status::ok();
}

// Reads back the blocks that were written in part.
Task<Status> DiskPart::compute_sums() {
  std::vector<Change> unknown;
  for (auto& [index, page] : pages_) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(kSumsPerPage); ++i) {
      const Offset block = index * kSumsPerPage + static_cast<Offset>(i);
      if (!page->unmarked[i] || page->sum(i) != kNoSum || block >= blocks_in(data_length_)) continue;
      unknown.push_back({page.get(), block, kNoSum});
      if (unknown.size() < kScratchBlocks) continue;
      WEIR_CO_RETURN_IF_ERROR(co_await compute_sums(unknown));
      unknown.clear();
    }
  }
  co_return co_await compute_sums(unknown);
}

Task<Status> DiskPart::compute_sums(std::span<const Change> unknown) {
  Scratch blocks(context_);
  std::vector<IoRequest> requests;
  for (const Change& change : unknown) {
    requests.push_back({IoRequest::Kind::kRead, data_.get(), -1, change.block * kBlockBytes, blocks.add().data(),
                        static_cast<std::size_t>(kBlockBytes)});
  }
  DiskIo::Requests reads(context_.io, std::move(requests));
  const int error = co_await reads;
  if (error != 0) co_return os_error("read from", data_path_, error);
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    unknown[i].page->set_sum(in_page(unknown[i].block), sum_of(blocks[i]));
  }
  co_return Status::ok();
}

Status DiskPart::damaged(const std::string& path, std::string_view what) const {
  Status status = corrupt(fmt::format("{}: {} ({}); restore it from a copy, or remove the file and write it again",
                                      describe(name_.id), what, path));
  WEIR_LOG_ERROR("disk store: {}", status.message());
  return status;
}

}  // namespace weir::storage::internal
