// SPDX-License-Identifier: Apache-2.0
// The smallest devices, as text for people and as JSON.
#pragma once

#include "analyzer/recording/recording.hpp"
#include "analyzer/report/json_report.hpp"
#include "analyzer/report/terminal.hpp"
#include "analyzer/whatif/fit.hpp"
#include "analyzer/whatif/program/program.hpp"
#include "analyzer/whatif/recorded/verify.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::report {

struct FitReport {
  const model::Recording& recording;
  const whatif::Program& program;
  std::int32_t device = 0;
  /// None: the recording has requests alone, and nothing to compare with.
  std::optional<whatif::Verification> verification;
  std::vector<whatif::Fit> fits;     ///< The least device first.
  std::vector<std::string> misfits;  ///< Settings under which the program fits no device.
};

[[nodiscard]] std::string fit_text(const FitReport& report,
                                   const std::string& path,
                                   const Paint& paint);
/// One line of JSON, without a line break.
[[nodiscard]] std::string fit_json(const FitReport& report, const InputNames& names);

}  // namespace fragscope::report
