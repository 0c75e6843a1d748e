// SPDX-License-Identifier: Apache-2.0
// When a request became impossible, as text for people and as JSON; and what the report of
// `timeline` says the same way.
#pragma once

#include "analyzer/analysis/analysis.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/report/terminal.hpp"
#include "analyzer/servability/moment.hpp"
#include "analyzer/servability/size_map.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace fragscope::report {

/// "21.00 MiB handed out", "20.00 MiB taken from the driver".
[[nodiscard]] std::string cause_text(const model::CourseStep& cause);
/// "hole", "driver", "nobody".
[[nodiscard]] std::string_view to_string(servability::Server server);
/// "hole", "driver", "compaction", "nothing".
[[nodiscard]] std::string_view to_string(servability::Means means);
/// "(0,0) large, stream 0".
[[nodiscard]] std::string home_text(const model::Home& home, const model::Recording& recording);

/// Empty without a moment.
[[nodiscard]] std::string moment_text(const analysis::Failure& failed,
                                      const FrameText& frames,
                                      const Paint& paint);
/// Null without a moment.
[[nodiscard]] nlohmann::ordered_json moment_json(const analysis::Failure& failed,
                                                 const FrameText& frames);
[[nodiscard]] nlohmann::ordered_json turn_json(const servability::Turn& turn,
                                               const FrameText& frames);

}  // namespace fragscope::report
