// SPDX-License-Identifier: Apache-2.0
// Two recordings side by side, as text for people and as JSON.
#pragma once

#include "analyzer/difference/difference.hpp"
#include "analyzer/report/course/course_pieces.hpp"

#include <string>
#include <string_view>

namespace fragscope::report {

/// A and B; `frames` of both hide by the same names.
struct DiffInput {
  CourseInput first;
  CourseInput second;
  const FrameText& first_frames;
  const FrameText& second_frames;
};

[[nodiscard]] std::string diff_text(const difference::Difference& found,
                                    const DiffInput& input,
                                    const Paint& paint);
/// One line of JSON, without a line break.
[[nodiscard]] std::string diff_json(const difference::Difference& found,
                                    const DiffInput& input,
                                    std::string_view tool_version);

/// "same-program-other-settings", and so on: what the two have in common.
[[nodiscard]] std::string_view relation_word(const difference::Difference& found);

}  // namespace fragscope::report
