// SPDX-License-Identifier: Apache-2.0
// Numbers out of the lines that mark stages: what each is, as printed, with its unit. Layers
// overlap and ranks differ, so numbers are kept, not added.
#pragma once

#include "analyzer/stages/vocabulary/phrase.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace fragscope::stages {

/// One number, "KV cache budget" and "-2.14 GiB".
struct Fact {
  std::string label;
  std::string value;
};

/// The number that the phrase's rule asks for, if `text` has it.
[[nodiscard]] std::optional<Fact> read_fact(const Phrase& phrase, std::string_view text);

/// The version that stands behind the anchor: "0.6.3.post1".
[[nodiscard]] std::optional<std::string> read_version(const Phrase& phrase, std::string_view text);

/// The seconds behind `anchor`.
[[nodiscard]] std::optional<double> read_seconds(std::string_view anchor, std::string_view text);

/// The whole number behind the phrase's anchor.
[[nodiscard]] std::optional<std::uint64_t> read_count(const Phrase& phrase, std::string_view text);

}  // namespace fragscope::stages
