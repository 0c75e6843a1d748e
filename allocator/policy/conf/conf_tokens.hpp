// SPDX-License-Identifier: Apache-2.0
// The lowest layer of PYTORCH_CUDA_ALLOC_CONF: a string as tokens, and tokens as numbers, both as
// PyTorch makes them. Used by the parser and by the lenient reader of sizes. Pure.
#pragma once

#include "allocator/policy/conf/torch_version.hpp"

#include <tl/expected.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::policy {

/// Each of `,` `:` `[` `]` is a token, and so is whatever stands between them, without whitespace
/// (2.6: without the space character only).
[[nodiscard]] std::vector<std::string> conf_tokens(std::string_view text, TorchVersion version);

/// Why a token is no number: what std::invalid_argument and std::out_of_range stand for.
enum class NumberFault : std::uint8_t { kNoNumber, kOutOfRange };

template <class T>
using Number = tl::expected<T, NumberFault>;

/// Numbers as std::stoull, std::stoi and std::stod read them: what follows the number is ignored
/// ("128.7" is 128), and a minus sign wraps an unsigned one (-1 is the largest).
[[nodiscard]] Number<std::uint64_t> to_unsigned(const std::string& token);
[[nodiscard]] Number<int> to_int(const std::string& token);
[[nodiscard]] Number<double> to_double(const std::string& token);

/// A number that must be the whole token, as a C++ stream reads it: no hexadecimal form, no "inf".
[[nodiscard]] Number<double> to_plain_double(const std::string& token);

}  // namespace fragscope::policy
