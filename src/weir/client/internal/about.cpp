#include <weir/client/internal/about.h>

#include <algorithm>

#include <weir/wire/found_files.h>

namespace weir::client::internal {

namespace {

// What is longer is kept beside the first few subfiles only.
constexpr std::size_t kMostShapeBytes = 4096;
constexpr std::uint32_t kShapedAlways = 4;

}  // namespace

std::vector<std::uint8_t> about_of(const std::string& path, const wire::AttributesT& attributes, std::uint32_t element,
                                   bool is_pending) {
  wire::AboutT about;
  about.path = path;
  about.element = element;
  about.attributes = std::make_unique<wire::AttributesT>(attributes);
  about.pending = is_pending;
  const std::size_t shape_bytes =
      attributes.layout.size() + attributes.targets.size() * (sizeof(std::uint32_t) + sizeof(std::uint64_t));
  if (shape_bytes > kMostShapeBytes && element >= kShapedAlways) {
    about.attributes->layout.clear();
    about.attributes->targets.clear();
    about.attributes->stores.clear();
  }
  return wire::encode_about(about);
}

bool is_up_to_date(const wire::AboutT& about, const std::string& path, const wire::AttributesT& attributes) {
  const wire::AttributesT& kept = *about.attributes;
  return about.path == path && !about.pending && kept.file == attributes.file && kept.data == attributes.data &&
         kept.mode == attributes.mode && kept.uid == attributes.uid && kept.gid == attributes.gid &&
         (kept.layout.empty() || (kept.layout == attributes.layout && kept.targets == attributes.targets));
}

Status write_about(Session& session, const std::string& path, const wire::AttributesT& attributes, bool is_pending) {
  if (!session.keeps_about() || attributes.is_directory) return Status::ok();
  std::vector<Outgoing> calls;
  const auto count = std::min<std::size_t>(attributes.targets.size(), wire::kDescribedAtOnce);
  for (std::uint32_t element = 0; element < count; ++element) {
    wire::DescribeT table;
    table.subfile = std::make_unique<wire::Subfile>(attributes.data, element);
    table.about = about_of(path, attributes, element, is_pending);
    const std::uint64_t store = element < attributes.stores.size() ? attributes.stores[element] : 0;
    calls.push_back(
        {attributes.targets[element], wire::encode_request(std::move(table), session.timeout_ms(), store), {}, {}, {}});
  }
  return session.run_all(calls);
}

}  // namespace weir::client::internal
