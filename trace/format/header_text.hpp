// SPDX-License-Identifier: Apache-2.0
// The texts of a header, for readers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace fragscope::trace {

/// What a field of `Header` says: up to its zero byte, or all of it if a hostile one has none.
/// Lives as long as the field.
template <std::size_t kSize>
[[nodiscard]] std::string_view text_of(const std::array<char, kSize>& field) {
  return {field.data(), static_cast<std::size_t>(std::ranges::find(field, '\0') - field.begin())};
}

}  // namespace fragscope::trace
