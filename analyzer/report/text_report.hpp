// SPDX-License-Identifier: Apache-2.0
// An analysis as text for people: the verdict first, then what it rests on.
#pragma once

#include "analyzer/analysis/analysis.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/report/terminal.hpp"

#include <string>

namespace fragscope::report {

[[nodiscard]] std::string text_report(const analysis::Analysis& analysis,
                                      const FrameText& frames,
                                      const std::string& path,
                                      const Paint& paint);

/// The last failure's verdict alone: the first line and the paragraph of the whole report. Empty
/// without a failure.
[[nodiscard]] std::string verdict_summary(const analysis::Analysis& analysis,
                                          const FrameText& frames,
                                          const std::string& path,
                                          const Paint& paint);

}  // namespace fragscope::report
