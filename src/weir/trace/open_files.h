#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir::trace {

/// Which files the ranks of a job have open, by what their traces say so far.
class OpenFiles {
 public:
  /// Only traces that begin at `since` (ns since 1970) or later.
  OpenFiles(std::string traces, std::int64_t since) : folder_(std::move(traces)), since_(since) {}

  /// Reads what was added to the traces.
  void update();

  /// Grows when a file is opened for writing, and when it is closed then; 0: nobody has.
  [[nodiscard]] std::int64_t version(const std::string& path) const;
  /// Nobody has it open for writing.
  [[nodiscard]] bool is_closed(const std::string& path) const;
  /// All that were opened for writing.
  [[nodiscard]] std::vector<std::string> written() const;

 private:
  struct Tail {
    std::int64_t offset = 0;
    std::string rest;  // of a line that is not whole yet
    bool is_old = false;
    bool has_begun = false;
    std::map<std::int64_t, std::string> open;  // for writing, by number
  };
  struct State {
    std::int64_t openings = 0;
    std::int64_t closings = 0;
  };
  void read(const std::string& file, Tail& tail);
  void note(const std::string& line, Tail& tail);

  std::string folder_;
  std::int64_t since_;
  std::map<std::string, Tail> tails_;    // by file
  std::map<std::string, State> states_;  // by path
};

}  // namespace weir::trace
