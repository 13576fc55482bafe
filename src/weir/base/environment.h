#pragma once

#include <span>
#include <string>

namespace weir {

/// A variable of the environment; empty if it is not set.  Those of Weir are in variables().
std::string environment(const char* name);

struct Variable {
  const char* name;
  const char* meaning;
  const char* by_default;  ///< Empty: nothing.
};

/// All variables that Weir has, by name.
std::span<const Variable> variables() noexcept;

/// "Seconds that a collective call waits for a rank. [60]"
std::string meaning_and_default(const Variable& variable);

}  // namespace weir
