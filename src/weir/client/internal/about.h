#pragma once

// Tells stores what file their subfiles belong to, so that it can be found without the metadata service: wire::About.

#include <string>

#include <weir/client/internal/session.h>
#include <weir/wire/wire.h>

namespace weir::client::internal {

/// Whether the About that was kept says of the file what is true of it now.
bool is_up_to_date(const wire::AboutT& about, const std::string& path, const wire::AttributesT& attributes);

/// Writes the About of the first wire::kDescribedAtOnce subfiles, if stores keep that.
/// \returns the first error; nothing depends on it: sync and fsck tell it again
Status write_about(Session& session, const std::string& path, const wire::AttributesT& attributes,
                   bool is_pending = false);

}  // namespace weir::client::internal
