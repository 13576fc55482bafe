#pragma once

// The batch protocol: one JSON object a line in, one answer a line out, in order.
//
// Every line is answered, also an empty or a broken one, so that the n-th answer belongs to the n-th line.  A request
// that cannot be served is answered {"error": text}, and the next line is read.

#include <iosfwd>
#include <string>
#include <string_view>

#include <weir/cli/internal/layout_cache.h>
#include <weir/cli/internal/request.h>
#include <weir/layout/mapping.h>

namespace weir {
class JsonWriter;
}

namespace weir::cli::internal {

struct BatchLimits {
  Offset pieces = 10'000'000;  ///< In one answer.
  std::size_t line_bytes = std::size_t{64} << 20;
  std::size_t cached = 4096;  ///< Layouts and elements remembered.
  int cost_calls = 15;        ///< Timed calls of which "cost" takes the median.
  layout::Budget budget;
};

/// Answers single requests.
class BatchEngine {
 public:
  explicit BatchEngine(const BatchLimits& limits = {}) : limits_(limits), cache_(limits.cached) {}

  /// Appends the answer to `line` and a newline.
  void answer(std::string_view line, std::string& out);
  /// Appends an answer that is an error, and a newline.
  static void refuse(const Status& status, std::string& out);

 private:
  using Operation = Status (BatchEngine::*)(JsonWriter&);
  struct Named;
  static Operation find_operation(std::string_view name);

  Status dispatch(std::string_view line, std::string& out);
  Status print(JsonWriter& json);
  Status size(JsonWriter& json);
  Status map(JsonWriter& json);
  Status unmap(JsonWriter& json);
  Status segments(JsonWriter& json);
  Status intersect(JsonWriter& json);
  Status project(JsonWriter& json);
  Status simplify(JsonWriter& json);
  Status cut(JsonWriter& json);
  Status match(JsonWriter& json);
  Status validate(JsonWriter& json);
  Status cost(JsonWriter& json);

  Result<std::shared_ptr<const layout::Partition>> partition(Key key);
  Result<layout::Element> element(Key layout, Key index);
  Result<layout::FallsSet> falls();
  Status check_pieces(Offset count) const;

  BatchLimits limits_;
  LayoutCache cache_;
  Request request_;
};

/// Answers all lines of `in`.  Whatever has arrived is answered and flushed before more is waited for, so a program can
/// send a line and wait for its answer.
/// \error kIoError if a stream fails.
Status run_batch(std::istream& in, std::ostream& out, const BatchLimits& limits = {});

}  // namespace weir::cli::internal
