#pragma once

// A library that is loaded when it is first needed: most programs never speak to another host, and loading takes
// milliseconds.

#include <type_traits>

#include <weir/base/result.h>

namespace weir::net::internal {

class DynamicLibrary {
 public:
  /// Loaded for as long as the process lives.  `purpose` and `package` are for the message if it is missing.
  DynamicLibrary(const char* file, const char* purpose, const char* package);

  /// Stores the address of a function.  If there is none, status() says so from then on.
  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(symbol(name));
  }
  /// \error kUnavailable if the library is missing or too old
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  void* symbol(const char* name);

  const char* file_;
  void* handle_;
  Status status_;
};

}  // namespace weir::net::internal
