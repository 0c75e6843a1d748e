// SPDX-License-Identifier: Apache-2.0
// What the form of a message tells: which versions print it, and which tensors lie behind the
// figure that it prints as "Tried to allocate". Pure.
#pragma once

#include "analyzer/explain/message/message.hpp"

#include <string>
#include <string_view>

namespace fragscope::explain {

/// The format of a message that PyTorch did not print.
inline constexpr std::string_view kForeignFormat = "another framework";
/// The format of a message that refuses a block for its size alone.
inline constexpr std::string_view kXpuExtensionFormat = "Intel Extension for PyTorch";

/// The widest range of writers that print this text: "PyTorch 2.2 to 2.8", "driver or runtime".
/// `text` is the message with the name of its exception and its advice, without blanks.
[[nodiscard]] std::string format_of(const Message& message, std::string_view text);

/// The sizes of tensors that make PyTorch print `request`, which is what it asks the driver for: 2
/// MiB for up to 1 MiB; 20 MiB for up to 10 MiB; from there on the size rounded up to 2 MiB. A
/// figure that is none of these is of PyTorch 1.0, which asked for the size rounded to 128 KiB.
[[nodiscard]] Bounds tensor_behind(Bounds request);

}  // namespace fragscope::explain
