// SPDX-License-Identifier: Apache-2.0
// Sizes as people write and read them: binary units, two decimals. Pure.
#pragma once

#include "trace/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace fragscope::model {

/// "4.94 GiB", "20.00 MiB", "512 B". Two decimals; the exact number belongs beside it.
[[nodiscard]] std::string show_bytes(std::uint64_t bytes);

/// "4,194,304": the exact number, readable.
[[nodiscard]] std::string show_count(std::uint64_t count);

/// "4.94GiB", "512 MiB", "20971520", "1.5G"; units are powers of 1024, "GB" is refused since it
/// could mean either. Fractions are rounded to the nearest byte. Fails: anything else, negative
/// numbers, 2^63 bytes or more.
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace fragscope::model
