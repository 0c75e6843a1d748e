// SPDX-License-Identifier: Apache-2.0
// What reports say the same way, whatever they are of: bounds, counts, titles, stacks and what
// weakens the evidence, as text and as JSON.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/recording/plural.hpp"
#include "analyzer/recording/recording.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/report/terminal.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::report {

/// "4.94 GiB", or "4.94 to 4.95 GiB" for a bound.
[[nodiscard]] std::string shown_bounds(model::Bounds bounds);
using model::plural;
/// What a recording says in whose history no failure was judged: "no failed request", if it can.
[[nodiscard]] std::string no_failure(const model::UnjudgedFailures& unjudged, const Paint& paint);
/// "TITLE  what the numbers are", after an empty line.
[[nodiscard]] std::string title(const Paint& paint,
                                std::string_view name,
                                std::string_view rest = {});

/// `name_bytes`, and `name_high_bytes` beside it where it is a bound (null: no upper end known).
void put_bounds(nlohmann::ordered_json& object, const std::string& name, model::Bounds bounds);
[[nodiscard]] nlohmann::ordered_json trust_json(const std::vector<model::TrustSignal>& trust);
[[nodiscard]] nlohmann::ordered_json frames_json(const FrameText& frames, model::StackId stack);
/// As one line. Names in a file may be any bytes: those that are no UTF-8 are replaced.
[[nodiscard]] std::string one_line(const nlohmann::ordered_json& root);

}  // namespace fragscope::report
