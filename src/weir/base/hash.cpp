#include <weir/base/hash.h>

#define XXH_INLINE_ALL  // no shared library to load
#include <xxhash.h>

namespace weir {

std::uint64_t hash_of(std::string_view bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace weir
