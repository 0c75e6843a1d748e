// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/course/stages_report.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace fragscope::report {
namespace {

using Json = nlohmann::ordered_json;
using course::StackChange;
using course::StageGroup;
using course::StageSource;

constexpr const char* source_word(StageSource source) {
  switch (source) {
    case StageSource::kProgram:
      return "program";
    case StageSource::kPoint:
      return "mark";
    case StageSource::kAnnotation:
      return "annotation";
    case StageSource::kNobody:
      break;
  }
  return "none";
}

Json time_json(std::int64_t time_us) {
  return time_us == model::kNoTime ? Json() : Json(time_us);
}

class JsonWriter {
 public:
  JsonWriter(const CourseInput& input, const FrameText& frames)
      : input_(input)
      , frames_(frames) {}

  [[nodiscard]] Json write(const StageGroup& group) const {
    const course::StageSpan& span = group.highest;
    const bool is_masked = group.source != StageSource::kNobody;
    Json object = {{"name", is_masked ? Json(shown(group.name)) : Json(group.name)},
                   {"stage", group.stage ? Json(stages::to_string(*group.stage)) : Json()},
                   {"source", source_word(group.source)},
                   {"times", group.count},
                   {"times_not_known", group.unknown_count},
                   {"has_end", group.last.has_end},
                   {"failures", group.failures},
                   {"first_event", group.first.begin.event},
                   {"last_event", group.last.end.event},
                   {"begin_us", time_json(group.first.begin_us)},
                   {"end_us", time_json(group.last.end_us)},
                   {"begin", nullptr},
                   {"peak", nullptr},
                   {"peak_reserved_bytes", nullptr},
                   {"end", nullptr},
                   {"temporary_bytes", nullptr},
                   {"stays_bytes", nullptr},
                   {"goes_bytes", nullptr}};
    if (span.extremes.most_allocated) {
      object["begin"] = write(span.begin);
      object["peak"] = write(*span.extremes.most_allocated);
      object["peak_reserved_bytes"] = span.extremes.most_reserved_bytes;
      object["end"] = write(span.end);
      object["temporary_bytes"] = span.temporary_bytes();
      object["stays_bytes"] = std::max<std::int64_t>(group.stays_bytes, 0);
      object["goes_bytes"] = std::max<std::int64_t>(-group.stays_bytes, 0);
    }
    object["temporary"] = write(group.temporary);
    object["stays"] = write(group.stays);
    return object;
  }

  [[nodiscard]] Json write(const course::PointMark& point) const {
    return {{"name", shown(point.name)},
            {"time_us", time_json(point.time_us)},
            {"at", point.at ? write(*point.at) : Json()}};
  }

  [[nodiscard]] Json write(const course::StageMemory& memory,
                           const course::StageFailure& failure) const {
    return {{"event", failure.event},
            {"asked_bytes", failure.requested_bytes},
            {"stage_index", failure.group},
            {"name", write(memory.groups[failure.group])["name"]},
            {"this_thread", failure.is_of_thread}};
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

  [[nodiscard]] Json write(const std::vector<StackChange>& changes) const {
    Json list = Json::array();
    for (const StackChange& change : changes) {
      list.push_back({{"frames", frames_json(frames_, change.stack)},
                      {"begin_bytes", change.begin_bytes},
                      {"peak_bytes", change.peak_bytes},
                      {"end_bytes", change.end_bytes}});
    }
    return list;
  }

  const CourseInput& input_;
  const FrameText& frames_;
};

}  // namespace

std::string stages_json(const course::StageMemory& memory,
                        const CourseInput& input,
                        const FrameText& frames,
                        std::string_view tool_version) {
  const JsonWriter writer(input, frames);
  Json root = {{"schema", 1},
               {"fragscope", tool_version},
               {"input", input_json(input)},
               {"device", input.device},
               {"trust", trust_json(input.recording.trust)},
               {"has_stages", memory.has_stages},
               {"stages", Json::array()},
               {"marks", Json::array()},
               {"mark_count", memory.point_count},
               {"failures", Json::array()},
               {"failure_count", memory.failure_count},
               {"unmatched_ends", memory.unmatched_ends},
               {"gaps", memory.gaps}};
  for (const StageGroup& group : memory.groups)
    root["stages"].push_back(writer.write(group));
  for (const course::PointMark& point : memory.points)
    root["marks"].push_back(writer.write(point));
  for (const course::StageFailure& failure : memory.failures)
    root["failures"].push_back(writer.write(memory, failure));
  return one_line(root);
}

}  // namespace fragscope::report
