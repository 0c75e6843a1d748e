// SPDX-License-Identifier: Apache-2.0
// Memory over repeats, as text for people and as JSON.
#pragma once

#include "analyzer/course/growth/growth.hpp"
#include "analyzer/report/course/course_pieces.hpp"

#include <span>
#include <string>
#include <string_view>

namespace fragscope::report {

/// One file. `frames` hides what is to be hidden.
[[nodiscard]] std::string growth_text(const course::Growth& growth,
                                      const CourseInput& input,
                                      const FrameText& frames,
                                      const Paint& paint);
/// One line of JSON, without a line break.
[[nodiscard]] std::string growth_json(const course::Growth& growth,
                                      const CourseInput& input,
                                      const FrameText& frames,
                                      std::string_view tool_version);

/// Several files, in the order given; with three of them A, B, A again.
[[nodiscard]] std::string control_text(std::span<const course::Growth> runs, const Paint& paint);
[[nodiscard]] std::string control_json(std::span<const course::Growth> runs,
                                       std::string_view tool_version);

}  // namespace fragscope::report
