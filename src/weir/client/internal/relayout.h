#pragma once

#include <weir/client/internal/open_file.h>

namespace weir::client::internal {

/// What the metadata service knows of the file at `path`.  `access`: as in wire::Lookup.
Result<wire::AttributesT> look_up(Session& session, const std::string& path, std::uint8_t access = 0);

/// Moves a file to another layout: all or nothing.
Status relayout(const std::shared_ptr<Session>& session, const std::string& path, const layout::Partition& layout,
                const RelayoutOptions& options);

}  // namespace weir::client::internal
