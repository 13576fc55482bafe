#include <weir/wire/about.h>

#include <memory>

namespace weir::wire {

namespace {

// What is longer is kept beside the first few subfiles only.
constexpr std::size_t kMostShapeBytes = 4096;
constexpr std::uint32_t kShapedAlways = 4;

}  // namespace

std::vector<std::uint8_t> about_of(const std::string& path, const AttributesT& attributes, std::uint32_t element,
                                   bool is_pending) {
  AboutT about;
  about.path = path;
  about.element = element;
  about.attributes = std::make_unique<AttributesT>(attributes);
  about.attributes->rights = 0;
  about.attributes->capability.clear();
  about.pending = is_pending;
  const std::size_t shape_bytes =
      attributes.layout.size() + attributes.targets.size() * (sizeof(std::uint32_t) + sizeof(std::uint64_t));
  if (shape_bytes > kMostShapeBytes && element >= kShapedAlways) {
    about.attributes->layout.clear();
    about.attributes->targets.clear();
    about.attributes->stores.clear();
  }
  return encode_about(about);
}

}  // namespace weir::wire
