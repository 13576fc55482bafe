#pragma once

// Matchers for Status and Result, and how GoogleTest prints them.  For tests only: needs GoogleMock, is not installed.
//
//   EXPECT_THAT(validate(layout), IsOk());
//   EXPECT_THAT(checked_mul(a, b), StatusIs(ErrorCode::kOutOfRange, HasSubstr("2^62")));
//   EXPECT_THAT(checked_add(1, 2), IsOkAndHolds(3));
//   EXPECT_THAT(read_back, HasBytes(std::cref(written)));

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ostream>
#include <random>
#include <type_traits>
#include <utility>

#include <gmock/gmock.h>

#include <weir/base/result.h>
#include <weir/base/status.h>

namespace weir {

// Found by argument-dependent look-up, so that a failed expectation shows the error instead of raw bytes.
inline void PrintTo(ErrorCode code, std::ostream* out) { *out << to_string(code); }

inline void PrintTo(const Status& status, std::ostream* out) {
  *out << to_string(status.code());
  if (status.is_ok()) return;
  *out << ": " << status.message();
  if (status.location()) *out << " (location " << *status.location() << ")";
}

template <typename T>
void PrintTo(const Result<T>& result, std::ostream* out) {
  if (!result.is_ok()) return PrintTo(result.status(), out);
  *out << "ok, holds " << ::testing::PrintToString(*result);
}

}  // namespace weir

namespace weir::testing {

/// WEIR_TEST_SEED, or another seed for each run: to be printed by the test.
inline std::uint64_t choose_seed() {
  if (const char* given = std::getenv("WEIR_TEST_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

inline const Status& to_status(const Status& status) { return status; }
template <typename T>
Status to_status(const Result<T>& result) {
  return result.status();
}

/// Matches a Status that is ok and a Result that holds a value.
MATCHER(IsOk, negation ? "is an error" : "is ok") {
  (void)result_listener;
  return arg.is_ok();
}

/// Matches an error with this code.
MATCHER_P(StatusIs, code, "has code " + ::testing::PrintToString(code)) {
  (void)result_listener;
  return to_status(arg).code() == code;
}

/// Matches an error with this code and a message that `message` (a matcher or a text) matches.
MATCHER_P2(StatusIs, code, message,
           "has code " + ::testing::PrintToString(code) + " and a message that " +
               ::testing::DescribeMatcher<const std::string&>(message, negation)) {
  const Status status = to_status(arg);
  return status.code() == code && ::testing::ExplainMatchResult(message, status.message(), result_listener);
}

/// Matches contiguous bytes equal to `expected` (a container, or std::cref of one).  Compares by memcmp and names the
/// first difference: at -O0, == of std::vector<std::byte> is a loop over bytes.
MATCHER_P(HasBytes, expected, negation ? "has other bytes" : "has the expected bytes") {
  const std::remove_cvref_t<std::unwrap_reference_t<expected_type>>& wanted = expected;
  if (arg.size() != wanted.size()) {
    *result_listener << "has " << arg.size() << " bytes instead of " << wanted.size();
    return false;
  }
  if (arg.empty() || std::memcmp(arg.data(), wanted.data(), arg.size()) == 0) return true;
  *result_listener << "differs at byte " << std::mismatch(arg.begin(), arg.end(), wanted.begin()).first - arg.begin();
  return false;
}

/// Matches a Result that holds a value that `value` (a matcher or a plain value) matches.
MATCHER_P(IsOkAndHolds, value,
          "is ok and holds a value that " +
              ::testing::DescribeMatcher<std::decay_t<decltype(*std::declval<arg_type>())>>(value, negation)) {
  return arg.is_ok() && ::testing::ExplainMatchResult(value, *arg, result_listener);
}

}  // namespace weir::testing
