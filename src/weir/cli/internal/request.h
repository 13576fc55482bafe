#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <weir/base/checked.h>

namespace weir::cli::internal {

/// The keys that batch requests are made of.
enum class Key : std::uint8_t {
  kOp,
  kLayout,
  kElement,
  kX,
  kY,
  kMode,
  kFrom,
  kTo,
  kA,
  kAi,
  kB,
  kBi,
  kFalls,
  kL,
  kR,
  kView
};
inline constexpr std::size_t kKeyCount = 16;

std::string_view to_string(Key key) noexcept;

/// One parsed line of a batch: a flat JSON object.  Other keys, and whatever they hold, are ignored; of a key given
/// twice the last counts.  Reused from line to line so that parsing need not allocate.
class Request {
 public:
  /// \error kInvalidArgument if `line` is not a JSON object.
  Status parse(std::string_view line);

  [[nodiscard]] bool has(Key key) const noexcept { return field(key).kind != Kind::kMissing; }

  /// \error kInvalidArgument if the key is missing or holds something else, naming the key.
  [[nodiscard]] Result<std::string_view> text(Key key) const;
  /// An integer in [0, 2^62].
  [[nodiscard]] Result<Offset> number(Key key) const;

 private:
  enum class Kind : std::uint8_t { kMissing, kText, kInteger, kHuge, kFraction, kOther };
  struct Field {
    Kind kind = Kind::kMissing;
    Offset number = 0;
    std::string text;
  };
  class Reader;

  [[nodiscard]] const Field& field(Key key) const noexcept { return fields_[static_cast<std::size_t>(key)]; }

  std::array<Field, kKeyCount> fields_;
};

}  // namespace weir::cli::internal
