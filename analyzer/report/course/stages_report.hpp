// SPDX-License-Identifier: Apache-2.0
// Memory by stage, as text for people and as JSON.
#pragma once

#include "analyzer/course/stage_memory.hpp"
#include "analyzer/report/course/course_pieces.hpp"

#include <string>
#include <string_view>

namespace fragscope::report {

[[nodiscard]] std::string stages_text(const course::StageMemory& memory,
                                      const CourseInput& input,
                                      const FrameText& frames,
                                      const Paint& paint);
/// One line of JSON, without a line break.
[[nodiscard]] std::string stages_json(const course::StageMemory& memory,
                                      const CourseInput& input,
                                      const FrameText& frames,
                                      std::string_view tool_version);

}  // namespace fragscope::report
