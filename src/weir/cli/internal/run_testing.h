#pragma once

// Runs the command in-process.  For tests only.

#include <sstream>
#include <string>
#include <vector>

#include <weir/cli/run.h>

namespace weir::cli::testing {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

inline Outcome weir(const std::vector<std::string>& arguments, const std::string& input = "",
                    const Terminal& terminal = {}) {
  std::vector<const char*> argv{"weir"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  const int code = run(static_cast<int>(argv.size()), argv.data(), in, out, err, terminal);
  return {code, out.str(), err.str()};
}

/// weir layout ...
inline Outcome layout(std::vector<std::string> arguments, const std::string& input = "",
                      const Terminal& terminal = {}) {
  arguments.insert(arguments.begin(), "layout");
  return weir(arguments, input, terminal);
}

}  // namespace weir::cli::testing
