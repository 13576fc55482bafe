#include <weir/pario/errors.h>

#include <weir/base/text.h>

namespace weir::pario {

Status named(std::string_view call, const std::string& path, const Status& status) {
  if (status.is_ok() || status.message().starts_with(call)) return status;
  return Status(status.code(), concat(call, " ", path, ": ", status.message()), status.location())
      .with_detail(status.detail());
}

}  // namespace weir::pario
