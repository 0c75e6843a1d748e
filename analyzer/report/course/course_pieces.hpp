// SPDX-License-Identifier: Apache-2.0
// What the reports of `stages`, `growth` and `diff` share: levels, names and what the evidence is,
// as text and as JSON.
#pragma once

#include "analyzer/model/course/course.hpp"
#include "analyzer/recording/recording.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/report/json_report.hpp"
#include "analyzer/report/report_pieces.hpp"
#include "analyzer/report/terminal.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace fragscope::report {

/// A file as these reports know it.
struct CourseInput {
  std::string path;  ///< As it is printed.
  const model::Recording& recording;
  std::int32_t device = 0;
};

/// "+4.94 GiB", "-12.00 MiB", "0 B".
[[nodiscard]] std::string shown_change(std::int64_t bytes);
/// What a program said, as it may be printed; "(no name)" and "(masked)".
[[nodiscard]] std::string shown_name(const std::string& name, const FrameText& frames);
/// What kind of recording it is, and what weakens it.
[[nodiscard]] std::string evidence_text(const CourseInput& input,
                                        const Paint& paint,
                                        std::string_view name = "EVIDENCE");

[[nodiscard]] nlohmann::ordered_json input_json(const CourseInput& input);
[[nodiscard]] nlohmann::ordered_json levels_json(const model::CourseLevels& levels,
                                                 const model::Recording& recording);

}  // namespace fragscope::report
