// SPDX-License-Identifier: Apache-2.0
// Where the facts about a device come from, in order of trust: an option given by hand; the event
// of the failure; the message of the same failure in a log; the settings at the time of the dump.
// Each fact keeps its source.
#pragma once

#include "analyzer/analysis/analysis.hpp"
#include "analyzer/verdict/question.hpp"
#include "analyzer/verdict/supply.hpp"

#include <cstdint>
#include <optional>

namespace fragscope::analysis {

struct FactSources {
  const Options& options;
  const model::Settings& settings;
  const verdict::DeviceFacts& recorded;  ///< As the recording has them at this event.
  /// Of this process, as NVML showed it there.
  std::optional<std::uint64_t> process_bytes = std::nullopt;
};

struct FoundFacts {
  verdict::DeviceFacts facts;
  bool log_matched = false;  ///< A message of the log is about this failure.
};

/// A message is about this failure if device, request and free memory agree within its rounding.
[[nodiscard]] FoundFacts find_device_facts(const FactSources& sources,
                                           const verdict::Question& question,
                                           const verdict::Supply& supply);

}  // namespace fragscope::analysis
