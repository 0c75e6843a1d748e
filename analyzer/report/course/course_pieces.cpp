// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/course/course_pieces.hpp"

#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace fragscope::report {

using Json = nlohmann::ordered_json;
using model::show_bytes;
using model::show_count;

std::string shown_change(std::int64_t bytes) {
  if (bytes == 0) return "0 B";
  const auto size =
      bytes < 0 ? ~static_cast<std::uint64_t>(bytes) + 1 : static_cast<std::uint64_t>(bytes);
  return (bytes < 0 ? "-" : "+") + show_bytes(size);
}

std::string shown_name(const std::string& name, const FrameText& frames) {
  if (name.empty()) return "(no name)";
  return frames.redacts() ? "(masked)" : printable(name);
}

std::string evidence_text(const CourseInput& input, const Paint& paint, std::string_view name) {
  const model::Recording& recording = input.recording;
  std::string text = title(paint,
                           name,
                           fmt::format("{}, written by {}; {}; GPU {}",
                                       recording.kind,
                                       printable(recording.writer),
                                       plural(recording.event_count, "event", "events"),
                                       input.device));
  for (const model::TrustSignal& signal : recording.trust) {
    text += wrapped(fmt::format("{}: {}", signal.signal, printable(signal.effect)), kTextWidth, 2);
  }
  if (recording.trust.empty()) text += "  nothing in the file weakens it\n";
  return text;
}

Json input_json(const CourseInput& input) {
  return {{"path", input.path},
          {"kind", input.recording.kind},
          {"events", input.recording.event_count},
          {"writer", input.recording.writer},
          {"unjudged_failures", input.recording.unjudged_failures.count}};
}

Json levels_json(const model::CourseLevels& levels, const model::Recording& recording) {
  Json object;
  object["reserved_bytes"] = levels.reserved_bytes;
  put_bounds(object, "allocated", levels.allocated_bytes);
  put_bounds(object, "active", levels.active_bytes);
  object["requested_active_bytes"] =
      recording.has_requested_sizes ? Json(levels.requested_bytes) : Json();
  return object;
}

}  // namespace fragscope::report
