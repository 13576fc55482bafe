#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace weir {

/// What a caller can react to.  A new code exists only if some caller would do something else because of it.
enum class ErrorCode : std::uint8_t {
  kOk = 0,
  kInvalidArgument,  ///< The input is wrong and stays wrong: mend it.
  kOutOfRange,       ///< A value leaves the range of file offsets, [0, 2^62].
  kTooComplex,       ///< The answer has more parts than the caller allowed: ask for a smaller range.
  kCorrupt,          ///< Bytes from outside do not hold what they claim to hold.
  kIoError,          ///< The operating system refused; the message says what and why.
  kNotFound,         ///< No such file, directory or view.
  kExists,           ///< The name is taken.
  kNotDirectory,     ///< A part of the path is a file.
  kIsDirectory,      ///< The operation is for files.
  kNotEmpty,         ///< The directory still holds something.
  kPermission,       ///< The owner, group and mode of the file do not allow it, or the key is wrong.
  kNoSpace,          ///< The store is full.
  kStale,            ///< The file has got another layout or is gone: open it again.
  kUnavailable,      ///< A server cannot be reached; nothing was done.  Trying again can help.
  kTimedOut,         ///< The deadline passed; whether it was done is not known.
  kQuota,            ///< A user would have more than allowed: remove something, or ask for more.
};

/// The name of a code, e.g. "invalid argument".
std::string_view to_string(ErrorCode code) noexcept;

/// Success, or an error code with a message that names the operation, the values and the object.
///
/// Success allocates nothing.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(ErrorCode code, std::string message, std::optional<std::int64_t> location = std::nullopt);

  static Status ok() noexcept { return {}; }

  [[nodiscard]] bool is_ok() const noexcept { return rep_ == nullptr; }
  [[nodiscard]] ErrorCode code() const noexcept { return rep_ ? rep_->code : ErrorCode::kOk; }
  [[nodiscard]] const std::string& message() const noexcept;

  /// What the error is in the terms of a layer above, such as an MPI error class; 0: the code says it all.
  [[nodiscard]] int detail() const noexcept { return rep_ ? rep_->detail : 0; }
  /// The same error with a detail.
  [[nodiscard]] Status with_detail(int detail) const;

  /// Where the error is: the column of a syntax error (from 1), or the offending byte of a file.
  [[nodiscard]] std::optional<std::int64_t> location() const noexcept { return rep_ ? rep_->location : std::nullopt; }

 private:
  struct Rep {
    ErrorCode code;
    std::string message;
    std::optional<std::int64_t> location;
    int detail = 0;
  };
  std::shared_ptr<const Rep> rep_;  // shared: copies of an error are cheap and cannot throw
};

inline Status invalid_argument(std::string message, std::optional<std::int64_t> location = std::nullopt) {
  return {ErrorCode::kInvalidArgument, std::move(message), location};
}
inline Status out_of_range(std::string message) { return {ErrorCode::kOutOfRange, std::move(message)}; }
inline Status too_complex(std::string message) { return {ErrorCode::kTooComplex, std::move(message)}; }
inline Status corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

}  // namespace weir
