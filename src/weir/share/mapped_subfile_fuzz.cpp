// A server that writes anything into the control page of a subfile that a client has mapped, or gives it a
// descriptor of something else.  The client is told what cannot be; what it does stays within its mapping.
//
// The file itself is long enough for what the client touches: a server can always stop a client that reads its
// memory.
//
// Input: what the file is, then writes to the page and calls of the client in turn.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/testing/fuzz_input.h>
#include <weir/share/life.h>
#include <weir/share/lifeline.h>
#include <weir/share/mapped_subfile.h>

namespace {

using namespace weir;
using share::Control;
using share::MappedSubfile;
using testing::FuzzInput;
using testing::require;

constexpr Offset kChunks = 4;
constexpr Offset kBytes = kChunks * share::kChunkBytes;

Descriptor make_file(FuzzInput& in) {
  switch (in.below(8)) {
    case 0: {
      Descriptor file(memfd_create("fuzz", MFD_CLOEXEC));
      (void)ftruncate(file.get(), in.number());
      return file;
    }
    case 1: return Descriptor(eventfd(0, EFD_CLOEXEC));
    case 2: return Descriptor(open("/dev/null", O_RDWR | O_CLOEXEC));
    case 3: return Descriptor(open("/", O_RDONLY | O_CLOEXEC));
    case 4: return Descriptor(open("/dev/zero", O_RDWR | O_CLOEXEC));
    default: {
      Descriptor file(memfd_create("fuzz", MFD_CLOEXEC));
      (void)ftruncate(file.get(), share::kDataStart + kBytes);
      return file;
    }
  }
}

void write_page(FuzzInput& in, Control& control) {
  switch (in.below(10)) {
    case 0: control.state = static_cast<std::uint32_t>(in.number()); break;
    case 1: control.mappings = static_cast<std::uint32_t>(in.number()); break;
    case 2: control.huge = static_cast<std::uint32_t>(in.below(3)); break;
    case 3: control.mapped_bytes = in.number(); break;
    case 4: control.length = in.number(); break;
    case 5: control.file_end = in.number(); break;
    case 6: control.claimed[in.byte() % std::size(control.claimed)] = in.u64(); break;
    case 7: control.made[0] = in.byte() % (1U << kChunks); break;
    case 8: control.touched[in.byte()] = in.u64(); break;
    default: control.full[in.flag() ? 0 : in.byte()] = in.u64(); break;
  }
}

// A range that the client may have been asked for: within what it has mapped.
struct Range {
  Offset from = 0;
  Offset to = 0;
};
Range range_within(FuzzInput& in, Offset bytes) {
  const Offset from = (Offset{in.u16()} << 8) % bytes;
  return {from, std::min(bytes, from + (Offset{in.u16()} << 6))};
}

void use(FuzzInput& in, std::shared_ptr<MappedSubfile>& mapped) {
  const Range anywhere = range_within(in, mapped->room());
  const Range there = range_within(in, kBytes);
  switch (in.below(10)) {
    case 0: return (void)mapped->is_full(anywhere.from, anywhere.to);
    case 1: return (void)mapped->touched(anywhere.from, anywhere.to);
    case 2: {
      const Offset begin = mapped->begin_of(anywhere.from, anywhere.to);
      return require(anywhere.from <= begin && begin <= anywhere.to, "a writer begins within what it writes");
    }
    case 3: return mapped->publish(there.to, in.number());
    case 4: return (void)mapped->make_pages(there.from, there.to);
    case 5: return (void)mapped->enter_pages(there.from, there.to);
    case 6: {
      const std::vector<std::byte> chunk(static_cast<std::size_t>(share::kChunkBytes), std::byte{1});
      return (void)mapped->write_new(static_cast<Offset>(in.below(kChunks)) * share::kChunkBytes, chunk);
    }
    case 7: {
      auto longer = mapped->longer(kBytes + (Offset{in.u16()} << 20) % share::kMappableBytes);
      if (longer.is_ok()) mapped = std::move(*longer);
      return;
    }
    case 8: return (void)(mapped->is_gone() || mapped->is_fenced() || mapped->is_alive() || mapped->prefers_calls());
    default:
      if (there.from < there.to && mapped->is_full(there.from, there.to)) {
        std::memset(mapped->data() + there.from, 1, static_cast<std::size_t>(there.to - there.from));
      }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput in(data, size);
  static const auto life = share::Life::create();
  require(life.is_ok(), "a lifeline can be made");
  auto lifeline = share::Lifeline::map((*life)->descriptor());
  require(lifeline.is_ok(), "it can be mapped");
  (void)share::Lifeline::map(make_file(in).get());
  const Descriptor file = make_file(in);
  const auto mapped = MappedSubfile::map(file.get(), *lifeline, 1, in.byte());
  if (!mapped.is_ok()) return 0;
  struct stat info {};
  // Of shorter ones just what is there may be touched.
  if (fstat(file.get(), &info) != 0 || info.st_size < share::kDataStart + kBytes) return 0;
  std::shared_ptr<MappedSubfile> current = *mapped;
  for (int i = 0; i < 100 && !in.empty(); ++i) {
    for (std::size_t writes = in.below(4); writes > 0; --writes) write_page(in, current->control());
    use(in, current);
  }
  return 0;
}
