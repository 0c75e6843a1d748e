// SPDX-License-Identifier: Apache-2.0
// GoogleMock matchers for `Result`: EXPECT_THAT(parse(text), IsOk()) prints the error where it
// fails, FailsWith(ErrorCode::kUsage) matches the kind of failure and prints what came instead.
#pragma once

#include "trace/result.hpp"

#include <gmock/gmock.h>

#include <ostream>
#include <string_view>

namespace fragscope {

inline void PrintTo(ErrorCode code, std::ostream* out) {
  static constexpr std::string_view kNames[] = {
      "unreadable", "damaged", "foreign", "contradictory", "too large", "usage"};
  *out << kNames[static_cast<std::size_t>(code)];
}

}  // namespace fragscope

namespace fragscope::test {

MATCHER(IsOk, negation ? "is an error" : "is a value") {
  if (!arg) *result_listener << "which is an error: " << arg.error().describe();
  return arg.has_value();
}

MATCHER_P(FailsWith, code, "is an error of the kind: " + ::testing::PrintToString(code)) {
  if (arg) {
    *result_listener << "which is a value";
    return false;
  }
  *result_listener << "which is: " << arg.error().describe();
  return arg.error().code == code;
}

}  // namespace fragscope::test
