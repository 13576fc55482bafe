// Any text as the name of a store: refused, or printed in a form that means the same.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <weir/base/testing/fuzz_input.h>
#include <weir/storage/store_spec.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using weir::storage::StoreSpec;
  using weir::testing::require;
  const auto spec = StoreSpec::parse({reinterpret_cast<const char*>(data), size});
  if (!spec.is_ok()) return 0;
  const auto again = StoreSpec::parse(spec->text());
  require(again.is_ok() && *again == *spec, "it means the same");
  if (spec->slow)
    require(spec->slow->seek.count() >= 0 && spec->slow->bytes_per_second > 0, "its numbers are possible");
  return 0;
}
