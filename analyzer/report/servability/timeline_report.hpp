// SPDX-License-Identifier: Apache-2.0
// The largest request that would have been served, over a recording, as text for people and as
// JSON.
#pragma once

#include "analyzer/analysis/timeline_analysis.hpp"
#include "analyzer/report/course/course_pieces.hpp"

#include <string>
#include <string_view>

namespace fragscope::report {

[[nodiscard]] std::string timeline_text(const analysis::TimelineAnalysis& analysis,
                                        const CourseInput& input,
                                        const FrameText& frames,
                                        const Paint& paint);
/// One line of JSON, without a line break.
[[nodiscard]] std::string timeline_json(const analysis::TimelineAnalysis& analysis,
                                        const CourseInput& input,
                                        const FrameText& frames,
                                        std::string_view tool_version);

}  // namespace fragscope::report
