// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/report_pieces.hpp"

#include "analyzer/recording/byte_size.hpp"
#include "analyzer/verdict/question.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace fragscope::report {

using Json = nlohmann::ordered_json;
using model::show_bytes;

std::string shown_bounds(model::Bounds bounds) {
  const std::string low = show_bytes(bounds.low);
  const std::string high = show_bytes(bounds.high);
  return low == high ? low : low + " to " + high;
}

std::string no_failure(const model::UnjudgedFailures& unjudged, const Paint& paint) {
  if (unjudged.count > 0) {
    return paint(Tone::kDoubt,
                 plural(unjudged.count, "failed request", "failed requests") +
                     " that cannot be judged (see EVIDENCE)");
  }
  if (unjudged.may_be_more) {
    return paint(Tone::kDoubt, "no failed request in what is left of the file (see EVIDENCE)");
  }
  return paint(Tone::kGood, "no failed request");
}

std::string title(const Paint& paint, std::string_view name, std::string_view rest) {
  std::string text = "\n" + paint(Tone::kTitle, name);
  if (!rest.empty()) text += "  " + std::string(rest);
  return text + "\n";
}

void put_bounds(Json& object, const std::string& name, model::Bounds bounds) {
  object[name + "_bytes"] = bounds.low;
  if (bounds.high == verdict::kUnlimited) {
    object[name + "_high_bytes"] = nullptr;
  } else if (bounds.high != bounds.low) {
    object[name + "_high_bytes"] = bounds.high;
  }
}

Json trust_json(const std::vector<model::TrustSignal>& trust) {
  Json list = Json::array();
  for (const model::TrustSignal& signal : trust)
    list.push_back({{"signal", signal.signal}, {"effect", signal.effect}});
  return list;
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
