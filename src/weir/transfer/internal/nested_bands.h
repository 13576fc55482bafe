#pragma once

#include <weir/transfer/route.h>

namespace weir::transfer::internal {

/// A server keeps the bands of every view: patterns that fall apart into more are worked on window by window.
inline constexpr std::size_t kMostBands = 1024;

/// The bands of a mapping whose loops are nested in a.  \error kTooComplex if there are more than kMostBands
Result<std::vector<Route::Band>> nested_bands_of(const layout::Mapping& a_to_b);

}  // namespace weir::transfer::internal
