// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/whatif/replay_report.hpp"
#include "analyzer/whatif/driver_time.hpp"
#include "analyzer/whatif/program/dependence.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <optional>

namespace fragscope::report {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::string_view version_name(policy::TorchVersion version) {
  return version == policy::TorchVersion::kTorch26 ? "2.6" : "2.15";
}

Json of_verification(const ReplayReport& report) {
  if (!report.verification) return {};
  const whatif::Verification& found = *report.verification;
  Json object = {{"verified", !found.first.has_value()},
                 {"policy", version_name(report.program.version)},
                 {"operations", report.program.ops.size()},
                 {"agreed", found.agreed},
                 {"requests", found.requests},
                 {"refusals", found.refusals},
                 {"difference", nullptr}};
  if (found.first) {
    const whatif::Op& op = report.program.ops[found.first->op];
    object["difference"] = {{"event", report.program.event_of(op)},
                            {"operation", describe(report.program, op)},
                            {"text", found.first->what}};
  }
  return object;
}

Json of_failure(const ReplayReport& report, const whatif::FailedOp& failed) {
  const whatif::Program& program = report.program;
  const whatif::Op& op = program.ops[failed.op];
  const verdict::Verdict& verdict = failed.verdict;
  return {{"event", program.event_of(op)},
          {"asked_bytes", failed.bytes},
          {"verdict",
           {{"kind", verdict::to_string(verdict.kind)},
            {"certainty", verdict::to_string(verdict.certainty)},
            {"short_by_bytes", or_null(verdict.short_by_bytes)},
            {"text", verdict.text}}}};
}

/// By kind; null for what was not measured.
Json of_driver_times(const whatif::DriverTimes& times) {
  constexpr std::array<const char*, whatif::kDeviceCallKinds> kNames = {
      "segment_alloc", "segment_free", "page_map", "page_unmap"};
  Json object;
  for (std::size_t kind = 0; kind < times.size(); ++kind) {
    const whatif::CallTimes& of = times[kind];
    object[kNames[kind]] = nullptr;
    if (of.calls == 0) continue;
    object[kNames[kind]] = {
        {"calls", of.calls}, {"median_ns", of.median_ns}, {"total_ns", of.total_ns}};
  }
  return object;
}

Json of_trial(const ReplayReport& report,
              const whatif::DriverTimes& times,
              const whatif::Trial& trial) {
  const whatif::Variant& variant = trial.variant;
  const whatif::Outcome& outcome = trial.outcome;
  Json object = {
      {"name", variant.name},
      {"policy", variant.arena ? to_string(*variant.arena) : version_name(variant.options.version)},
      {"device_total_bytes", variant.device_bytes},
      {"outside_bytes", variant.outside_bytes},
      {"limit_bytes", or_null(variant.limit_bytes)},
      {"fits", !outcome.first_failure.has_value()},
      {"first_failure", nullptr},
      {"failures", outcome.failures},
      {"served_refusals", outcome.served_refusals},
      {"cut_short", outcome.is_cut_short},
      {"operations", outcome.ops}};
  if (outcome.first_failure) object["first_failure"] = of_failure(report, *outcome.first_failure);
  const model::Gap& gap = trial.peak.gap;
  const auto& ops = report.program.ops;
  object["peak"] = {
      {"reserved_bytes", outcome.peak_reserved_bytes},
      {"allocated_bytes", outcome.peak_allocated_bytes},
      {"event", ops.empty() ? Json() : Json(report.program.event_of(ops[outcome.peak_op]))},
      {"gap",
       {{"rounding_bytes", or_null(gap.rounding_bytes)},
        {"pending_bytes", gap.pending_bytes},
        {"releasable_bytes", gap.releasable_bytes},
        {"stuck_bytes", gap.stuck_bytes}}}};
  object["driver"] = {{"allocations", outcome.driver_allocations},
                      {"frees", outcome.driver_frees},
                      {"page_maps", outcome.page_maps},
                      {"page_unmaps", outcome.page_unmaps},
                      {"retries", outcome.retries},
                      {"estimated_ns", or_null(whatif::estimated_ns(times, variant, outcome))}};
  return object;
}

}  // namespace

std::string replay_json(const ReplayReport& report, const InputNames& names) {
  Json root;
  root["schema"] = 1;
  root["fragscope"] = names.tool_version;
  root["input"] = {{"path", names.path},
                   {"kind", report.recording.kind},
                   {"events", report.recording.event_count},
                   {"writer", report.recording.writer}};
  root["device"] = report.device;
  root["verification"] = of_verification(report);
  root["doubts"] = report.program.doubts;
  root["depends_on_memory"] = Json::array();
  for (const whatif::Dependence& each : whatif::dependences_of(report.program)) {
    root["depends_on_memory"].push_back(
        {{"kind", each.kind}, {"count", each.count}, {"first_event", each.first_event}});
  }
  const whatif::DriverTimes times = whatif::driver_times(report.program);
  root["driver_times"] = of_driver_times(times);
  root["variants"] = Json::array();
  for (const whatif::Trial& trial : report.trials)
    root["variants"].push_back(of_trial(report, times, trial));
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fragscope::report
