#include <weir/client/internal/about.h>

#include <algorithm>

#include <weir/wire/about.h>
#include <weir/wire/found_files.h>

namespace weir::client::internal {

bool is_up_to_date(const wire::AboutT& about, const std::string& path, const wire::AttributesT& attributes) {
  const wire::AttributesT& kept = *about.attributes;
  return about.path == path && !about.pending && kept.file == attributes.file && kept.data == attributes.data &&
         kept.mode == attributes.mode && kept.uid == attributes.uid && kept.gid == attributes.gid &&
         (kept.layout.empty() || (kept.layout == attributes.layout && kept.targets == attributes.targets));
}

Status write_about(Session& session, const std::string& path, const wire::AttributesT& attributes, bool is_pending) {
  if (!session.keeps_about() || attributes.is_directory) return Status::ok();
  std::vector<Outgoing> calls;
  Capability capability(session.server_count(), attributes.capability);
  const auto count = std::min<std::size_t>(attributes.targets.size(), wire::kDescribedAtOnce);
  for (std::uint32_t element = 0; element < count; ++element) {
    wire::DescribeT table;
    table.subfile = std::make_unique<wire::Subfile>(attributes.data, element);
    table.about = wire::about_of(path, attributes, element, is_pending);
    const std::uint64_t store = element < attributes.stores.size() ? attributes.stores[element] : 0;
    calls.push_back({session.server_of(attributes.targets[element]),
                     wire::encode_request(std::move(table), session.timeout_ms(), store),
                     {},
                     {},
                     {},
                     &capability});
  }
  return session.run_all(calls);
}

}  // namespace weir::client::internal
