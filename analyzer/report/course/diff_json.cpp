// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/course/diff_report.hpp"

#include <nlohmann/json.hpp>

#include <optional>

namespace fragscope::report {
namespace {

using Json = nlohmann::ordered_json;
using difference::Likeness;
using difference::Moment;
using difference::SettingsLikeness;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

const char* word_of(Moment moment) {
  return moment == Moment::kFailure ? "oom" : moment == Moment::kPeak ? "peak" : "end";
}

const char* word_of(Likeness likeness) {
  switch (likeness) {
    case Likeness::kSame:
      return "same";
    case Likeness::kSimilar:
      return "similar";
    case Likeness::kOther:
      return "other";
    case Likeness::kUnknown:
      break;
  }
  return "unknown";
}

const char* word_of(SettingsLikeness likeness) {
  switch (likeness) {
    case SettingsLikeness::kSame:
      return "same";
    case SettingsLikeness::kOther:
      return "other";
    case SettingsLikeness::kUnknown:
      break;
  }
  return "unknown";
}

Json side_json(const CourseInput& input, const difference::SideState& side) {
  const model::StateSummary& state = side.summary;
  Json object;
  object["input"] = input_json(input);
  object["device"] = input.device;
  object["trust"] = trust_json(input.recording.trust);
  object["before_event"] = side.event;
  Json& shown = object["state"];
  shown["reserved_bytes"] = state.reserved_bytes;
  put_bounds(shown, "allocated", state.allocated_bytes);
  shown["requested_bytes"] = or_null(state.requested_bytes);
  put_bounds(shown, "pending", state.pending_bytes);
  put_bounds(shown, "free", state.free_bytes);
  put_bounds(shown, "largest_hole", state.largest_hole_bytes);
  shown["segments"] = state.segments;
  shown["blocks"] = state.blocks;
  shown["holes"] = state.holes;
  shown["gap"] = {{"rounding_bytes", or_null(state.gap.rounding_bytes)},
                  {"pending_bytes", state.gap.pending_bytes},
                  {"releasable_bytes", state.gap.releasable_bytes},
                  {"stuck_bytes", state.gap.stuck_bytes}};
  return object;
}

Json holders_json(const difference::Difference& found, const DiffInput& input) {
  Json list = Json::array();
  for (const difference::HolderPair& pair : found.holders) {
    const FrameText& frames = pair.is_in_second ? input.second_frames : input.first_frames;
    const model::StackId stack = pair.is_in_second ? pair.second_stack : pair.first_stack;
    list.push_back({{"place", frames.place(stack)},
                    {"frames", frames_json(frames, stack)},
                    {"in",
                     !pair.is_in_first    ? "b"
                     : !pair.is_in_second ? "a"
                                          : "both"},
                    {"a_bytes", pair.first_bytes},
                    {"b_bytes", pair.second_bytes},
                    {"a_blocks", pair.first_blocks},
                    {"b_blocks", pair.second_blocks}});
  }
  return list;
}

Json segments_json(const difference::Difference& found) {
  Json list = Json::array();
  for (const difference::SegmentPair& pair : found.segments) {
    list.push_back({{"class", policy::to_string(pair.size_class)},
                    {"expandable", pair.expandable},
                    {"private", pair.is_private},
                    {"a_bytes", pair.first_bytes},
                    {"b_bytes", pair.second_bytes},
                    {"a_segments", pair.first_count},
                    {"b_segments", pair.second_count}});
  }
  return list;
}

Json facts_json(const difference::Difference& found) {
  Json list = Json::array();
  for (const difference::ComparedFact& fact : found.facts) {
    list.push_back({{"name", fact.name},
                    {"is_setting", fact.is_setting},
                    {"a", or_null(fact.first)},
                    {"b", or_null(fact.second)},
                    {"same", fact.is_known() ? Json(!fact.differs()) : Json()}});
  }
  return list;
}

}  // namespace

std::string diff_json(const difference::Difference& found,
                      const DiffInput& input,
                      std::string_view tool_version) {
  const difference::ProgramLikeness& program = found.program;
  const Json root = {{"schema", 1},
                     {"fragscope", tool_version},
                     {"relation", relation_word(found)},
                     {"program",
                      {{"likeness", word_of(program.likeness)},
                       {"basis", program.basis},
                       {"a_requests", program.first_requests},
                       {"b_requests", program.second_requests},
                       {"common_requests", program.common_requests},
                       {"paired_requests", program.paired_requests}}},
                     {"settings", word_of(found.settings)},
                     {"at", word_of(found.moment)},
                     {"a", side_json(input.first, found.first)},
                     {"b", side_json(input.second, found.second)},
                     {"holders", holders_json(found, input)},
                     {"holder_count", found.holder_count},
                     {"segments", segments_json(found)},
                     {"facts", facts_json(found)}};
  return one_line(root);
}

}  // namespace fragscope::report
