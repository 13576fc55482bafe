#pragma once

// What callers can tell apart among errors besides their code.

#include <string>
#include <string_view>

#include <weir/base/status.h>

namespace weir::pario {

/// Status::detail of errors.  Numbers from kFirstOfCaller on belong to the layer above: ranks pass them on with the
/// error.
enum Detail : int {
  kRanksDiffer = 1,  ///< Ranks made different calls, or passed different arguments.
  kReadOnly,         ///< The file is open for reading only.
  kMisuse,           ///< The call does not fit the state of the file, or its view.
  kOtherBuffer,      ///< Not the buffer that the access has begun with.
  kBadHint,
  kFirstOfCaller = 1000,
};

/// The same error with the call and its file in front, unless they are there.
Status named(std::string_view call, const std::string& path, const Status& status);

}  // namespace weir::pario
