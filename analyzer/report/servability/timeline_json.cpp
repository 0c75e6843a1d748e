// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/servability/moment_report.hpp"
#include "analyzer/report/servability/timeline_report.hpp"

#include <nlohmann/json.hpp>

namespace fragscope::report {
namespace {

using Json = nlohmann::ordered_json;
using servability::Curve;

/// Two arrays with an entry for each column; null where the heap is not known.
Json curve_json(const Curve& curve) {
  Json least = Json::array();
  Json most = Json::array();
  for (const auto& column : curve) {
    least.push_back(column ? Json(column->least_bytes) : Json());
    most.push_back(column ? Json(column->most_bytes) : Json());
  }
  return {{"least_bytes", std::move(least)}, {"most_bytes", std::move(most)}};
}

Json home_json(const model::Home& home, const model::Recording& recording) {
  const model::PoolId& pool = recording.pools[model::index_of(home.pool)];
  return {{"pool", {pool.first, pool.second}},
          {"class", policy::to_string(home.size_class)},
          {"stream", home.stream},
          {"expandable", home.expandable}};
}

Json asked_json(const analysis::TimelineAnalysis& analysis,
                const CourseInput& input,
                const FrameText& frames) {
  const servability::AskedCurves& asked = *analysis.timeline.asked;
  const servability::Request& request = asked.watch.request;
  Json object =
      home_json(request.home(input.recording.settings.rules.expandable_segments), input.recording);
  object["size_bytes"] = request.size_bytes;
  object["is_failure"] = analysis.asked->question.recorded;
  object["device_free_known"] = analysis.asked->facts.free.known();
  object["largest_served"] = curve_json(asked.largest_served);
  object["free_at_home"] = curve_json(asked.free_at_home);
  object["known_from_event"] = asked.known_from;
  object["first_served_by"] = to_string(asked.first);
  object["last_served_by"] = to_string(asked.last);
  object["turn_count"] = asked.turn_count;
  object["turns"] = Json::array();
  for (const servability::Turn& turn : asked.turns) {
    Json entry = turn_json(turn, frames);
    const analysis::JudgedTurn* const judged = analysis.judgement_at(turn.cause.event);
    const bool is_judged = turn.is_to_no() && judged != nullptr;
    entry["verdict"] = is_judged ? Json(verdict::to_string(judged->kind)) : Json();
    object["turns"].push_back(std::move(entry));
  }
  return object;
}

Json size_map_json(const servability::SizeMap& map) {
  Json events = Json::array();
  Json driver = Json::array();
  Json moves = Json::array();
  for (const servability::MapMoment& moment : map.moments) {
    events.push_back(moment.behind);
    driver.push_back(moment.driver_bytes);
    moves.push_back(moment.move_bytes ? Json(*moment.move_bytes) : Json());
  }
  Json sizes = Json::array();
  for (std::size_t size = 0; size < map.sizes.size(); ++size) {
    Json served = Json::array();
    for (std::size_t moment = 0; moment < map.moments.size(); ++moment)
      served.push_back(to_string(map.means_for(size, moment)));
    sizes.push_back({{"size_bytes", map.sizes[size]}, {"served_by", std::move(served)}});
  }
  return {{"scanned_on", map.ran.device == kernels::Device::kCuda ? "cuda" : "cpu"},
          {"scanned_on_reason", map.ran.reason},
          {"behind_events", std::move(events)},
          {"driver_bytes", std::move(driver)},
          {"move_bytes", std::move(moves)},
          {"sizes", std::move(sizes)}};
}

}  // namespace

std::string timeline_json(const analysis::TimelineAnalysis& analysis,
                          const CourseInput& input,
                          const FrameText& frames,
                          std::string_view tool_version) {
  const servability::Timeline& timeline = analysis.timeline;
  Json root;
  root["schema"] = 1;
  root["fragscope"] = tool_version;
  root["input"] = input_json(input);
  root["trust"] = trust_json(input.recording.trust);
  root["device"] = input.device;
  root["first_event"] = timeline.first_event;
  root["end_event"] = timeline.end_event;
  root["columns"] = Json::array();
  for (std::size_t column = 0; column < timeline.column_count; ++column)
    root["columns"].push_back(timeline.begin_of(column));
  root["homes"] = Json::array();
  for (const servability::HomeCurve& home : timeline.homes) {
    Json entry = home_json(home.home, input.recording);
    entry["largest_hole"] = curve_json(home.largest_run);
    root["homes"].push_back(std::move(entry));
  }
  root["asked"] = timeline.asked ? asked_json(analysis, input, frames) : Json();
  root["size_map"] = analysis.size_map ? size_map_json(*analysis.size_map) : Json();
  return one_line(root);
}

}  // namespace fragscope::report
