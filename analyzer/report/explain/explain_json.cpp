// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/explain/explain_json.hpp"

#include "analyzer/explain/finding_text.hpp"

#include <nlohmann/json.hpp>

namespace fragscope::report {
namespace {

using Json = nlohmann::ordered_json;
using explain::Bounds;
using explain::Figures;
using explain::Finding;
using explain::Message;

Json bounds_json(const std::optional<Bounds>& bounds) {
  if (!bounds) return nullptr;
  return {{"low_bytes", bounds->low}, {"high_bytes", bounds->high}};
}

Json numbers_json(const Figures& figures) {
  Json numbers;
  numbers["request"] = bounds_json(figures.request);
  numbers["tensor"] = bounds_json(figures.tensor);
  numbers["total"] = bounds_json(figures.total);
  numbers["free"] = bounds_json(figures.free);
  numbers["allocated"] = bounds_json(figures.allocated);
  numbers["reserved"] = bounds_json(figures.reserved);
  numbers["gap"] = bounds_json(figures.gap);
  numbers["private_pools"] = bounds_json(figures.private_pools);
  numbers["limit"] = bounds_json(figures.limit);
  numbers["process"] = bounds_json(figures.process);
  numbers["outside"] = bounds_json(explain::outside_bytes(figures));
  if (figures.other_allocations) {
    numbers["other_allocations"] = bounds_json(figures.other_allocations);
  }
  numbers["processes"] = Json::array();
  for (const explain::ProcessUse& use : figures.processes) {
    numbers["processes"].push_back(
        {{"pid", use.pid}, {"low_bytes", use.bytes.low}, {"high_bytes", use.bytes.high}});
  }
  return numbers;
}

Json verdict_json(const Finding& finding) {
  Json also = Json::array();
  for (const explain::Kind kind : finding.also)
    also.push_back(explain::to_string(kind));
  const std::string_view basis = explain::to_string(finding.basis);
  return {{"kind", explain::to_string(finding.kind)},
          {"also", std::move(also)},
          {"basis", basis.empty() ? Json() : Json(basis)},
          {"certainty", finding.certain ? "certain" : "possible"},
          {"text", finding.text}};
}

template <class T>
Json value_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json before_json(const explain::DeviceBefore& before) {
  Json processes;
  if (before.has_processes) processes = Json::array();
  for (const explain::ProcessBefore& process : before.processes) {
    processes.push_back({{"pid", process.pid == 0 ? Json() : Json(process.pid)},
                         {"name", process.name.empty() ? Json() : Json(process.name)},
                         {"used_bytes", value_of(process.used_bytes)}});
  }
  return {{"uuid", before.uuid.empty() ? Json() : Json(before.uuid)},
          {"time_s", value_of(before.time_s)},
          {"total_bytes", value_of(before.total_bytes)},
          {"free_bytes", value_of(before.free_bytes)},
          {"processes", std::move(processes)}};
}

Json report_json(const explain::Report& report) {
  const Message& message = report.message;
  Json object;
  object["line"] = message.line;
  object["count"] = message.count;
  object["backend"] = explain::to_string(message.backend);
  object["format"] = message.format;
  object["device"] = message.device ? Json(*message.device) : Json();
  object["process"] = message.process.empty() ? Json() : Json(message.process);
  object["time"] = message.time.empty() ? Json() : Json(message.time);
  object["numbers"] = numbers_json(message.figures);
  object["verdict"] = verdict_json(report.finding);
  if (report.before) object["before"] = before_json(*report.before);
  object["notes"] = report.finding.notes;
  object["next"] = report.finding.next;
  object["message"] = message.text;
  return object;
}

Json facts_json(const stages::StageRecord& stage) {
  Json facts = Json::array();
  for (const stages::StageFact& fact : stage.facts)
    facts.push_back(to_string(fact));
  return facts;
}

Json timeline_json(const stages::Timeline& timeline) {
  const auto name = [](const std::optional<stages::Stage>& stage) {
    return stage ? Json(stages::to_string(*stage)) : Json();
  };
  Json object;
  object["process"] = timeline.process.empty() ? Json() : Json(timeline.process);
  object["engine"] = timeline.engine;
  object["version"] = timeline.version.empty() ? Json() : Json(timeline.version);
  object["stages"] = Json::array();
  for (const stages::StageRecord& stage : timeline.stages) {
    object["stages"].push_back({{"stage", stages::to_string(stage.stage)},
                                {"first_line", stage.first_line},
                                {"last_line", stage.last_line},
                                {"seconds", stage.seconds ? Json(*stage.seconds) : Json()},
                                {"completed", stage.completed},
                                {"facts", facts_json(stage)}});
  }
  object["last_completed"] = name(timeline.last_completed);
  object["failing"] = name(timeline.failing);
  object["recovered"] = Json::array();
  for (const stages::Stage stage : timeline.recovered) {
    object["recovered"].push_back(stages::to_string(stage));
  }
  object["ready"] = timeline.ready;
  return object;
}

Json weights_json(const Weights& weights) {
  const stages::WeightBound& bound = weights.bound;
  Json sources = Json::array();
  for (const stages::WeightSource& source : bound.sources) {
    sources.push_back(
        {{"source", source.source}, {"bytes", source.bytes}, {"tensors", source.tensors}});
  }
  Json dtypes = Json::array();
  for (const stages::DtypeBytes& dtype : bound.dtypes) {
    dtypes.push_back({{"dtype", dtype.dtype}, {"bytes", dtype.bytes}});
  }
  return {{"at_least_bytes", bound.bytes},
          {"stored_bytes", bound.stored_bytes},
          {"devices", weights.devices},
          {"share_bytes", stages::even_share(bound, weights.devices)},
          {"sources", std::move(sources)},
          {"dtypes", std::move(dtypes)},
          {"notes", bound.notes}};
}

}  // namespace

std::string explain_json(const explain::Explanation& explanation,
                         std::string_view tool_version,
                         const std::string& path,
                         const std::optional<Weights>& weights) {
  const std::string_view encoding = explanation.totals.encoding;
  Json root;
  root["schema"] = 1;
  root["fragscope"] = tool_version;
  root["input"] = {{"path", path},
                   {"input_bytes", explanation.totals.bytes},
                   {"lines", explanation.totals.lines},
                   {"encoding", encoding.empty() ? Json() : Json(encoding)}};
  root["reports"] = Json::array();
  for (const explain::Report& report : explanation.reports) {
    root["reports"].push_back(report_json(report));
  }
  root["dropped_reports"] = explanation.dropped_count;
  root["timelines"] = Json::array();
  for (const stages::Timeline& timeline : explanation.timelines) {
    root["timelines"].push_back(timeline_json(timeline));
  }
  root["skipped_starts"] = explanation.skipped_starts;
  if (weights) root["weights"] = weights_json(*weights);
  // Logs may hold any bytes; what is no UTF-8 is replaced, never an error.
  return root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace fragscope::report
