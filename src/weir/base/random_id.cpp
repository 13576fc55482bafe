#include <weir/base/random_id.h>

#include <random>

namespace weir {

std::uint64_t random_id() {
  std::random_device device;
  for (;;) {
    if (const std::uint64_t id = (std::uint64_t{device()} << 32) | device(); id != 0) return id;
  }
}

}  // namespace weir
