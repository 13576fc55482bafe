#pragma once

// toml++, compiled into this library (toml.cpp).
//
// Under a name of its own, because our libraries are loaded into programs that may use toml++ themselves.  Without
// assertions, because toml++ 3.3 asserts that no list has a '}' where a value is due; without them it reports an error.
// With NDEBUG they would become assumptions of the compiler.

#include <string_view>

#include <weir/base/result.h>

#pragma push_macro("NDEBUG")
#undef NDEBUG
#define toml weir_toml
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_HEADER_ONLY 0
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace weir::config {

/// \error kCorrupt says what is wrong; location() is the line.  The text itself is not quoted: it may have keys.
Result<toml::table> parse(std::string_view text);

}  // namespace weir::config
