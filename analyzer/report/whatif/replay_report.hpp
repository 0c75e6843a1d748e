// SPDX-License-Identifier: Apache-2.0
// What a replay found, as text for people and as JSON.
#pragma once

#include "analyzer/recording/recording.hpp"
#include "analyzer/report/json_report.hpp"
#include "analyzer/report/terminal.hpp"
#include "analyzer/whatif/program/program.hpp"
#include "analyzer/whatif/recorded/verify.hpp"
#include "analyzer/whatif/variant.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::report {

struct ReplayReport {
  const model::Recording& recording;
  const whatif::Program& program;
  std::int32_t device = 0;
  /// None: the recording has requests alone, and nothing to compare with.
  std::optional<whatif::Verification> verification;
  std::vector<whatif::Trial> trials;  ///< The best first.
  /// Why the recorded settings were not tried; empty if they were, or nobody asked.
  std::string no_trial_reason;
};

[[nodiscard]] std::string replay_text(const ReplayReport& report,
                                      const std::string& path,
                                      const Paint& paint);
/// One line of JSON, without a line break.
[[nodiscard]] std::string replay_json(const ReplayReport& report, const InputNames& names);

/// Where the program may have gone by the state of memory: "depends on memory: 2 ..."; empty if
/// nowhere.
[[nodiscard]] std::string dependences_text(const whatif::Program& program);

/// An op as one line: "event 57: allocate 512 B on stream 0".
[[nodiscard]] std::string describe(const whatif::Program& program, const whatif::Op& op);

}  // namespace fragscope::report
