// SPDX-License-Identifier: Apache-2.0
// What a terminal, a JSON logger or a panic message did to a text, undone. Pure.
#pragma once

#include <string>
#include <string_view>

namespace fragscope::logtext {

/// `raw` without ANSI codes (also written out, as \x1b[31m or \u001b[0m), with the escapes of JSON
/// and Rust strings undone, and other control characters as blanks. Line breaks stay.
[[nodiscard]] std::string clean_text(std::string_view raw);

}  // namespace fragscope::logtext
