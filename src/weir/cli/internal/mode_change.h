#pragma once

// What `weir chmod` is told: an octal mode (0644), or changes as POSIX writes them (u+rw,go-w,a+X).

#include <cstdint>
#include <string_view>
#include <vector>

#include <weir/base/result.h>

namespace weir::cli::internal {

class ModeChange {
 public:
  /// Letters without a `who` before them mean everybody; there is no umask.  \error kInvalidArgument
  static Result<ModeChange> parse(std::string_view text);
  /// The mode that a file or directory with this `mode` gets.
  [[nodiscard]] std::uint32_t apply(std::uint32_t mode, bool is_directory) const;

 private:
  struct Clause {
    std::uint32_t who = 0;   // bits that it may change
    char how = '=';          // '+', '-', '='
    std::uint32_t bits = 0;  // for everybody
    bool has_big_x = false;  // X: execute where that is of use
  };
  static Result<Clause> parse_clause(std::string_view text);

  std::vector<Clause> clauses_;
};

}  // namespace weir::cli::internal
