// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/course/growth_report.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <vector>

namespace fragscope::report {
namespace {

using Json = nlohmann::ordered_json;
using course::Growth;
using course::Judged;
using course::LayerCourse;
using course::Repeat;
using course::RepeatBasis;
using course::Slope;
using course::Trend;

const char* word_of(RepeatBasis basis) {
  switch (basis) {
    case RepeatBasis::kStages:
      return "stages";
    case RepeatBasis::kMarks:
      return "marks";
    case RepeatBasis::kAnnotations:
      return "annotations";
    case RepeatBasis::kPeriod:
      return "period";
    case RepeatBasis::kNone:
      break;
  }
  return "none";
}

const char* word_of(Trend trend) {
  switch (trend) {
    case Trend::kTooFew:
      return "too-few";
    case Trend::kPlateau:
      return "plateau";
    case Trend::kGrowth:
      return "growth";
    case Trend::kFall:
      return "falling";
    case Trend::kUndecided:
      break;
  }
  return "undecided";
}

// Slopes have a sign, so they are no fields of bytes.
Json slope_json(const Slope& slope) {
  return {{"median", std::llround(slope.median)},
          {"low", std::llround(slope.low)},
          {"high", std::llround(slope.high)}};
}

Json layer_json(const LayerCourse& layer) {
  const Judged& judged = layer.judged;
  const bool has_slope = judged.trend != Trend::kTooFew;
  return {{"trend", word_of(judged.trend)},
          {"warm_up", judged.warm_up},
          {"slope_per_repeat", has_slope ? slope_json(judged.slope) : Json()},
          {"tolerance_bytes", static_cast<std::uint64_t>(judged.tolerance)},
          {"steps", judged.steps}};
}

Json control_layers(std::span<const Growth> runs) {
  Json list = Json::array();
  for (const course::Control& layer : course::compare_with_control(runs)) {
    list.push_back({{"layer", layer.layer},
                    {"a_bytes", layer.first_bytes},
                    {"b_bytes", layer.other_bytes},
                    {"a_again_bytes", layer.again_bytes},
                    {"noise_bytes", layer.noise_bytes},
                    {"control_comes_back", layer.comes_back},
                    {"differs", layer.differs}});
  }
  return list;
}

class JsonWriter {
 public:
  JsonWriter(const Growth& growth, const CourseInput& input, const FrameText& frames)
      : growth_(growth)
      , input_(input)
      , frames_(frames) {}

  [[nodiscard]] Json basis() const {
    const course::Repeats& repeats = growth_.repeats;
    Json object = {{"kind", word_of(repeats.basis)},
                   {"name", repeats.name.empty() ? Json() : Json(shown(repeats.name))},
                   {"period", nullptr},
                   {"overlapping", repeats.overlapping},
                   {"out_of_order", repeats.is_out_of_order},
                   {"not_kept", repeats.not_kept}};
    if (repeats.period) {
      const course::Period& period = *repeats.period;
      object["period"] = {{"frames", frames_json(frames_, period.stack)},
                          {"requested_bytes", period.requested_bytes},
                          {"stream", period.stream},
                          {"allocations", period.allocations},
                          {"deviation", period.deviation},
                          {"alike", period.alike}};
    }
    object["names"] = Json::array();
    for (const course::MarkName& name : repeats.names) {
      object["names"].push_back(
          {{"name", shown(name.name)}, {"kind", word_of(name.basis)}, {"times", name.count}});
    }
    return object;
  }

  [[nodiscard]] Json repeats() const {
    Json list = Json::array();
    for (const Repeat& repeat : growth_.repeats.all) {
      Json object = {{"name", shown(repeat.name)},
                     {"begin_event", repeat.begin.event},
                     {"end_event", repeat.has_end ? Json(repeat.end.event) : Json()},
                     {"whole", repeat.is_whole()},
                     {"failures", repeat.failures},
                     {"low", nullptr},
                     {"peak", nullptr},
                     {"end", nullptr},
                     {"peak_reserved_bytes", nullptr}};
      if (repeat.extremes.most_allocated) {
        object["low"] = write(*repeat.extremes.least_allocated);
        object["peak"] = write(*repeat.extremes.most_allocated);
        object["end"] = write(repeat.end);
        object["peak_reserved_bytes"] = repeat.extremes.most_reserved_bytes;
      }
      list.push_back(std::move(object));
    }
    return list;
  }

  [[nodiscard]] Json stacks() const {
    Json list = Json::array();
    for (const course::StackGrowth& stack : growth_.stacks) {
      list.push_back({{"frames", frames_json(frames_, stack.stack)},
                      {"first_bytes", stack.first_bytes},
                      {"last_bytes", stack.last_bytes},
                      {"slope_per_repeat", slope_json(stack.slope)}});
    }
    return list;
  }

 private:
  [[nodiscard]] std::string shown(const std::string& name) const {
    return frames_.redacts() && !name.empty() ? "(masked)" : name;
  }

  [[nodiscard]] Json write(const course::Moment& moment) const {
    Json object = {{"event", moment.event}};
    object.update(levels_json(moment.levels, input_.recording));
    return object;
  }

  const Growth& growth_;
  const CourseInput& input_;
  const FrameText& frames_;
};

}  // namespace

std::string growth_json(const Growth& growth,
                        const CourseInput& input,
                        const FrameText& frames,
                        std::string_view tool_version) {
  const JsonWriter writer(growth, input, frames);
  const Json root = {{"schema", 1},
                     {"fragscope", tool_version},
                     {"input", input_json(input)},
                     {"device", input.device},
                     {"trust", trust_json(input.recording.trust)},
                     {"kind", course::to_string(growth.kind)},
                     {"basis", writer.basis()},
                     {"whole_repeats", growth.whole.size()},
                     {"low", layer_json(growth.low)},
                     {"peak", layer_json(growth.peak)},
                     {"reserved", layer_json(growth.reserved)},
                     {"growing_stacks", growth.growing_stacks},
                     {"stacks", writer.stacks()},
                     {"repeats", writer.repeats()}};
  return one_line(root);
}

std::string control_json(std::span<const Growth> runs, std::string_view tool_version) {
  return one_line({{"schema", 1},
                   {"fragscope", tool_version},
                   {"runs", runs.size()},
                   {"control", control_layers(runs)}});
}

}  // namespace fragscope::report
