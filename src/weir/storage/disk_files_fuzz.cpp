// What a disk store finds in its files: headers of checksum files, labels, settings, fences, what is kept beside
// subfiles, names, and a whole store some of whose files are damaged.  It is refused, or means what it is written as
// again.
//
// Input: one byte that says which of them, then its bytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <weir/base/testing/fuzz_input.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/runtime/runtime.h>
#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/internal/checked_text.h>
#include <weir/storage/internal/disk_about.h>
#include <weir/storage/internal/disk_directory.h>
#include <weir/storage/internal/disk_files.h>
#include <weir/storage/internal/disk_sums.h>
#include <weir/storage/label.h>

namespace {

namespace fs = std::filesystem;
using namespace weir;
using namespace weir::storage;
using namespace weir::storage::internal;
using weir::testing::FuzzInput;
using weir::testing::require;
using weir::testing::TemporaryDirectory;

constexpr SubfileId kId{0x2a, 3};
using HeaderBytes = std::array<std::byte, static_cast<std::size_t>(kSumsStart)>;

// ---- one after the other

void any_header(FuzzInput& in) {
  HeaderBytes bytes{};
  const std::vector<std::uint8_t> any = in.rest();
  for (std::size_t i = 0; i < any.size() && i < 200; ++i) {
    bytes[i < 100 ? i : static_cast<std::size_t>(kHeaderSlotBytes) + i - 100] = std::byte{any[i]};
  }
  const auto header = decode_headers(bytes, {kId, 0});
  if (header) require(header->data_length >= 0 && header->file_end >= 0, "lengths of a header");
}

// With right checksums, which no fuzzer finds.
void drawn_headers(FuzzInput& in) {
  HeaderBytes bytes{};
  for (const Offset slot : {Offset{0}, kHeaderSlotBytes}) {
    const SumsHeader header{in.u64(), in.number(), in.number(), in.number(), in.flag()};
    const PartName part{{kId.file, static_cast<std::uint32_t>(2 + in.below(3))}, static_cast<Offset>(in.below(2))};
    const HeaderSlot encoded = encode_header(header, part);
    std::memcpy(bytes.data() + slot, encoded.data(), encoded.size());
  }
  const auto header = decode_headers(bytes, {kId, 0});
  if (!header) return;
  for (const Offset length : {header->data_length, header->subfile_length, header->file_end}) {
    require(length >= 0 && length <= kMaxBytes, "lengths of a header");
  }
}

void label(FuzzInput& in) {
  const bool is_checked = in.flag();
  const std::string any = in.text(4096);
  const auto decoded = decode_label(is_checked ? add_checksum(any) : any);
  if (!decoded.is_ok()) return;
  const auto again = decode_label(encode_label(*decoded));
  require(again.is_ok() && encode_label(*again) == encode_label(*decoded), "a label is what it is written as");
}

void about(FuzzInput& in) {
  const std::vector<std::uint8_t> any = in.rest();
  const auto bytes = std::as_bytes(std::span(any));
  const auto decoded = decode_about(kId, bytes);
  if (decoded.is_ok()) require(encode_about(kId, *decoded).size() == bytes.size(), "what is kept has one form");
  const auto kept = decode_about(kId, encode_about(kId, bytes));
  require(kept.is_ok() && std::ranges::equal(*kept, bytes), "what was kept is found");
  require(!decode_about({kId.file, kId.element + 1}, encode_about(kId, bytes)).is_ok(), "of another subfile");
}

void file_name(FuzzInput& in) {
  const std::string name = in.text(200);
  const auto parsed = parse_file_name(name);
  if (parsed) require(path_of("x", parsed->part, parsed->kind).ends_with(concat("/", name)), "a name has one form");
}

// ---- files in a directory

// Memory, where there is some: a disk would make most of the time waiting.
TemporaryDirectory make_directory() {
  return fs::exists("/dev/shm") ? TemporaryDirectory("/dev/shm") : TemporaryDirectory();
}

void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

void settings(FuzzInput& in) {
  static const TemporaryDirectory directory = make_directory();
  const bool is_checked = in.flag();
  const std::string any = in.text(4096);
  put(directory.path() + "/settings", is_checked ? add_checksum(any) : any);
  const auto label = read_disk_label(directory.path());
  if (label.is_ok() && *label && (*label)->is_formed) require((*label)->server < (*label)->servers, "a label");
}

void fences(FuzzInput& in) {
  static const TemporaryDirectory home = make_directory();
  static const DiskDirectory directory = [] {
    auto made = DiskDirectory::open_or_create(home.path(), Offset{1} << 20, {}, *runtime::system_runtime().random);
    require(made.is_ok(), "a directory");
    return std::move(*made);
  }();
  put(home.path() + "/fences", in.text(4096));
  const auto kept = directory.load_fences();
  if (!kept.is_ok()) return;
  require(directory.save_fences(*kept).is_ok(), "fences can be kept");
  const auto again = directory.load_fences();
  require(again.is_ok() && *again == *kept, "fences mean what they are written as");
}

// ---- a whole store

/// Files by their path in the store.
using Files = std::map<std::string, std::string>;

Files load(const std::string& directory) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), directory)] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

void save(const Files& files, const std::string& directory) {
  for (const auto& [name, bytes] : files) {
    fs::create_directories((fs::path(directory) / name).parent_path());
    std::ofstream(fs::path(directory) / name, std::ios::binary) << bytes;
  }
}

DiskStoreOptions options() {
  DiskStoreOptions options;
  options.use_uring = false;
  options.part_bytes = Offset{1} << 20;
  options.label = {.file_system = 5, .server = 0, .servers = 2, .is_formed = true};
  return options;
}

const Files& whole_store() {
  static const Files files = [] {
    const TemporaryDirectory directory = make_directory();
    {
      auto store = open_disk_store(directory.path(), options());
      require(store.is_ok(), "a new store");
      Blocking blocking(**store);
      const std::vector<std::byte> bytes(40'000, std::byte{3});
      const WritePiece pieces[] = {{0, bytes}, {(Offset{1} << 20) - 5000, bytes}};
      require(blocking.write(kId, pieces, 7).is_ok() && blocking.sync(kId).is_ok(), "write");
      require(blocking.keep_about(kId, std::as_bytes(std::span("what is known"))).is_ok(), "keep");
      require(blocking.keep_fences(std::vector<KeptFence>{{kId, 9}}).is_ok(), "fence");
    }
    return load(directory.path());
  }();
  return files;
}

void damage(Files& files, FuzzInput& in) {
  auto file = files.begin();
  std::advance(file, in.below(files.size()));
  std::string& bytes = file->second;
  switch (in.below(5)) {
    case 0: bytes.resize(in.u16() % (bytes.size() + 4096)); break;
    case 1: bytes = in.text(300); break;
    case 2: files.erase(file); break;
    case 3: {
      auto other = files.begin();
      std::advance(other, in.below(files.size()));
      std::swap(bytes, other->second);
      break;
    }
    default: {
      const std::string any = in.text(40);
      if (any.size() < bytes.size()) bytes.replace(in.u16() % (bytes.size() - any.size()), any.size(), any);
    }
  }
}

void damaged_store(FuzzInput& in) {
  Files files = whole_store();
  for (std::size_t count = 1 + in.below(3); count > 0 && !files.empty(); --count) damage(files, in);
  const TemporaryDirectory directory = make_directory();
  save(files, directory.path());
  (void)check_disk_store(directory.path());
  (void)read_disk_label(directory.path());
  auto store = open_disk_store(directory.path(), options());
  if (!store.is_ok()) return;
  Blocking blocking(**store);
  (void)blocking.kept_fences();
  (void)blocking.list();
  (void)blocking.list_abouts();
  (void)blocking.kept_about(kId);
  const auto info = blocking.info(kId);
  if (info.is_ok()) require(info->length >= 0 && info->file_end >= 0, "lengths of a subfile");
  std::vector<std::byte> bytes(50'000);
  const ReadPiece read{(Offset{1} << 20) - 8000, bytes};
  (void)blocking.read(kId, {&read, 1});
  const WritePiece write{100, bytes};
  (void)blocking.write(kId, {&write, 1}, 0);
  (void)blocking.sync(kId);
  (void)blocking.truncate(kId, 70'000, 70'000);
  (void)blocking.stored_bytes();
  (void)blocking.remove(kId);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::set_level(log::Level::kOff);
  FuzzInput in(data, size);
  switch (in.byte()) {
    case 'h': any_header(in); break;
    case 'd': drawn_headers(in); break;
    case 'l': label(in); break;
    case 'a': about(in); break;
    case 'n': file_name(in); break;
    case 's': settings(in); break;
    case 'f': fences(in); break;
    case 'w': damaged_store(in); break;
    default: break;
  }
  return 0;
}
