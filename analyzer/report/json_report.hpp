// SPDX-License-Identifier: Apache-2.0
// An analysis as one JSON object, with the fields of the contract (docs/json.md).
#pragma once

#include "analyzer/analysis/analysis.hpp"
#include "analyzer/report/frame_text.hpp"

#include <string>
#include <string_view>

namespace fragscope::report {

/// What the analysis does not know about its input.
struct InputNames {
  std::string path;
  std::string_view tool_version;
};

/// One line of JSON, without a line break.
[[nodiscard]] std::string json_report(const analysis::Analysis& analysis,
                                      const FrameText& frames,
                                      const InputNames& names);

}  // namespace fragscope::report
