// SPDX-License-Identifier: Apache-2.0
// Sums of bytes that stop where a number ends. Recordings may be damaged, and what is unknown is
// said by the largest number, so neither below 0 nor beyond that does a sum begin again.
#pragma once

#include <cstdint>

namespace fragscope::model {

[[nodiscard]] constexpr std::uint64_t plus(std::uint64_t left, std::uint64_t right) {
  return left > ~std::uint64_t{0} - right ? ~std::uint64_t{0} : left + right;
}

/// 0 if there is less than that.
[[nodiscard]] constexpr std::uint64_t minus(std::uint64_t left, std::uint64_t right) {
  return left > right ? left - right : 0;
}

}  // namespace fragscope::model
