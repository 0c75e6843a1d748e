// SPDX-License-Identifier: Apache-2.0
// The words that a lack of memory is told in without figures, and whether they tell of a failure or
// stand in a sentence about failures ("in case of CUDA out of memory, ..."). Messages and timelines
// are read by this one rule, so that they never contradict each other. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace fragscope::stages {

/// What tells an error from a sentence.
enum class Wording : std::uint8_t {
  kWords,      ///< "out of memory": what stands around it.
  kPhrase,     ///< A whole error text.
  kException,  ///< A class: its text follows, or it stands alone.
  kStatus,     ///< A status of a library: it stands in errors, unless a warning word is near.
  kAssertion,  ///< A condition, behind which "INTERNAL ASSERT FAILED" follows.
  kExhausted,  ///< A status for any resource: its text must speak of memory.
  kCpu,        ///< PyTorch's allocator of host memory, which must say what it could not.
  kFigure,     ///< A label: a number must follow.
};

struct MemoryWords {
  std::string_view text;
  Wording wording = Wording::kStatus;
  bool is_host = false;  ///< Memory of the host, not of a device.
};

/// Each is at least ten bytes long, since a scanner looks for them.
[[nodiscard]] std::span<const MemoryWords> memory_words();

/// Whether `words`, at text[at, end), tell of a failure. A blank in them may be a line end.
[[nodiscard]] bool tells_of_failure(const MemoryWords& words,
                                    std::string_view text,
                                    std::size_t at,
                                    std::size_t end);

/// Whether any of the words in the line tell of one.
[[nodiscard]] bool tells_of_failure(std::string_view line);

/// The text in front of these words at its end, whatever blanks and line ends stand between their
/// letters; or none if it does not end with them.
[[nodiscard]] std::optional<std::string_view> without_end(std::string_view text,
                                                          std::string_view words);

}  // namespace fragscope::stages
