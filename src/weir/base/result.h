#pragma once

#include <cassert>
#include <type_traits>
#include <utility>
#include <variant>

#include <weir/base/status.h>

namespace weir {

/// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  static_assert(!std::is_same_v<std::remove_cv_t<T>, Status>, "return Status itself");

  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Status error) : state_(std::in_place_index<0>, std::move(error)) {  // NOLINT: implicit on purpose
    assert(!std::get<0>(state_).is_ok());
  }

  [[nodiscard]] bool is_ok() const noexcept { return state_.index() == 1; }
  [[nodiscard]] Status status() const { return is_ok() ? Status::ok() : std::get<0>(state_); }

  /// \pre is_ok()
  [[nodiscard]] const T& value() const& noexcept { return *get(); }
  [[nodiscard]] T& value() & noexcept { return *get(); }
  [[nodiscard]] T&& value() && noexcept { return std::move(*get()); }
  const T& operator*() const& noexcept { return *get(); }
  T& operator*() & noexcept { return *get(); }
  T&& operator*() && noexcept { return std::move(*get()); }
  const T* operator->() const noexcept { return get(); }
  T* operator->() noexcept { return get(); }

 private:
  const T* get() const noexcept {
    assert(is_ok());
    return std::get_if<1>(&state_);
  }
  T* get() noexcept {
    assert(is_ok());
    return std::get_if<1>(&state_);
  }
  std::variant<Status, T> state_;
};

}  // namespace weir

#define WEIR_CONCAT_INNER(a, b) a##b
#define WEIR_CONCAT(a, b) WEIR_CONCAT_INNER(a, b)

/// WEIR_TRY(const Offset n, checked_mul(a, b)): declares n, or returns the error from this function.
#define WEIR_TRY(declaration, expression) WEIR_TRY_INNER(WEIR_CONCAT(weir_result_, __LINE__), declaration, expression)
#define WEIR_TRY_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                           \
  if (!temporary.is_ok()) return temporary.status();       \
  declaration = std::move(temporary).value()

#define WEIR_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                       \
    if (::weir::Status weir_status = (expression); !weir_status.is_ok()) return weir_status; \
  } while (false)
