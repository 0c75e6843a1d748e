// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/course/course_pieces.hpp"

#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace fragscope::report {

using Json = nlohmann::ordered_json;
using model::show_bytes;
using model::show_count;

std::string shown_bounds(model::Bounds bounds) {
  const std::string low = show_bytes(bounds.low);
  const std::string high = show_bytes(bounds.high);
  return low == high ? low : low + " to " + high;
}

std::string shown_change(std::int64_t bytes) {
  if (bytes == 0) return "0 B";
  const auto size =
      bytes < 0 ? ~static_cast<std::uint64_t>(bytes) + 1 : static_cast<std::uint64_t>(bytes);
  return (bytes < 0 ? "-" : "+") + show_bytes(size);
}

std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", show_count(count), count == 1 ? one : many);
}

std::string shown_name(const std::string& name, const FrameText& frames) {
  if (name.empty()) return "(no name)";
  return frames.redacts() ? "(masked)" : printable(name);
}

std::string title(const Paint& paint, std::string_view name, std::string_view rest) {
  std::string text = "\n" + paint(Tone::kTitle, name);
  if (!rest.empty()) text += "  " + std::string(rest);
  return text + "\n";
}

std::string evidence_text(const CourseInput& input, const Paint& paint, std::string_view name) {
  const model::Recording& recording = input.recording;
  std::string text = title(paint,
                           name,
                           fmt::format("{}, written by {}; {} events; GPU {}",
                                       recording.kind,
                                       printable(recording.writer),
                                       show_count(recording.event_count),
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
          {"writer", input.recording.writer}};
}

Json trust_json(const model::Recording& recording) {
  Json list = Json::array();
  for (const model::TrustSignal& signal : recording.trust)
    list.push_back({{"signal", signal.signal}, {"effect", signal.effect}});
  return list;
}

Json levels_json(const model::CourseLevels& levels, const model::Recording& recording) {
  Json object;
  const auto put = [&object](const std::string& name, model::Bounds bounds) {
    object[name + "_bytes"] = bounds.low;
    if (bounds.high != bounds.low) object[name + "_high_bytes"] = bounds.high;
  };
  object["reserved_bytes"] = levels.reserved_bytes;
  put("allocated", levels.allocated_bytes);
  put("active", levels.active_bytes);
  object["requested_active_bytes"] =
      recording.has_requested_sizes ? Json(levels.requested_bytes) : Json();
  return object;
}

Json frames_json(const FrameText& frames, model::StackId stack) {
  Json list = Json::array();
  const model::Recording& recording = frames.recording();
  for (const model::FrameId id : recording.stacks.stack(stack)) {
    const model::Frame& frame = recording.stacks.frame(id);
    list.push_back(
        {{"name", frames.name(frame)}, {"filename", frames.filename(frame)}, {"line", frame.line}});
  }
  return list;
}

std::string one_line(const Json& root) {
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fragscope::report
