// Any bytes as a connection file: refused by an error that quotes no key, or read, and the same when it was written and
// read again.

#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/testing/fuzz_input.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/base/text.h>
#include <weir/client/connection_file.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir;
  using testing::require;
  const Descriptor file(memfd_create("fuzz", MFD_CLOEXEC));
  require(fchmod(file.get(), 0600) == 0 && write(file.get(), data, size) == static_cast<ssize_t>(size), "a file");
  // A `key_file` beside it would be below /proc, where nothing of that name is.
  const auto read = client::ConnectionFile::read(concat("/proc/self/fd/", file.get()));
  if (!read.is_ok()) return 0;
  static const testing::TemporaryDirectory directory;
  const std::string path = directory.path() + "/fs.toml";
  require(read->write(path).is_ok(), "it can be written");
  const auto again = client::ConnectionFile::read(path);
  require(again.is_ok() && again->servers == read->servers && again->key.bytes == read->key.bytes, "it means the same");
  return 0;
}
