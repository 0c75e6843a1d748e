// SPDX-License-Identifier: Apache-2.0
// The grammar of out-of-memory messages: PyTorch 1.0 to 2.15 for CUDA, ROCm, XPU, NPU and MPS,
// cudaMallocAsync, the bare errors of driver and libraries, NVML assertions, other frameworks, and
// start-up checks that are no failures. Source: the message templates of the PyTorch releases named
// in docs/oom_messages.md. Pure.
#pragma once

#include "analyzer/explain/message/message.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace fragscope::explain {

/// The literals without one of which a text is no message, for a scanner.
[[nodiscard]] std::span<const std::string_view> message_phrases();

struct ReadMessage {
  Message message;      ///< Without line, count, process and time.
  std::size_t end = 0;  ///< Offset in the window behind the last part that was understood.
};

/// Reads the message that one of the phrases at window[at] belongs to. The window is cleaned text
/// of one writer, from the start of the line that holds the phrase. Empty: the phrase stands in
/// prose.
[[nodiscard]] std::optional<ReadMessage> read_message(std::string_view window, std::size_t at);

}  // namespace fragscope::explain
