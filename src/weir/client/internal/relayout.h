#pragma once

#include <weir/client/internal/open_file.h>

namespace weir::client::internal {

/// Moves a file to another layout: all or nothing.
Status relayout(const std::shared_ptr<Session>& session, const std::string& path, const layout::Partition& layout,
                const RelayoutOptions& options);

}  // namespace weir::client::internal
