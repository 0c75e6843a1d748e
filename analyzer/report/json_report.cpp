// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/json_report.hpp"

#include "analyzer/report/report_pieces.hpp"
#include "analyzer/report/servability/moment_report.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace fragscope::report {
namespace {

using Json = nlohmann::ordered_json;
using analysis::Analysis;
using analysis::Failure;
using model::Bounds;
using model::StateSummary;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

void put_fact(Json& object, const std::string& name, const verdict::Fact& fact) {
  if (!fact.known()) {
    object[name + "_bytes"] = nullptr;
    return;
  }
  put_bounds(object, name, fact.bytes);
  object[name + "_source"] = fact.source;
}

class JsonWriter {
 public:
  JsonWriter(const Analysis& analysis, const FrameText& frames)
      : analysis_(analysis)
      , frames_(frames)
      , recording_(frames.recording()) {}

  [[nodiscard]] Json write(const InputNames& names) const {
    Json root;
    root["schema"] = 1;
    root["fragscope"] = names.tool_version;
    root["input"] = {{"path", names.path},
                     {"kind", recording_.kind},
                     {"input_bytes", recording_.input_bytes},
                     {"events", recording_.event_count},
                     {"writer", recording_.writer},
                     {"rounding_rule", model::to_string(analysis_.rounding_rule)},
                     {"unjudged_failures", analysis_.unjudged_failures.count}};
    for (const model::RecordedFact& fact : recording_.facts)
      root["input"]["facts"][fact.name] = fact.value;
    root["trust"] = trust_json(analysis_.trust);
    root["devices"] = Json::array();
    for (const analysis::DeviceReport& device : analysis_.devices) {
      root["devices"].push_back(write_device(device));
    }
    root["failures"] = Json::array();
    for (const Failure& failed : analysis_.failures)
      root["failures"].push_back(write(failed));
    return root;
  }

 private:
  [[nodiscard]] Json pool(model::PoolIndex index) const {
    const model::PoolId& id = recording_.pools[model::index_of(index)];
    return Json::array({id.first, id.second});
  }

  [[nodiscard]] Json write_device(const analysis::DeviceReport& device) const {
    Json object;
    object["device"] = device.device;
    object["events"] = device.event_count;
    object["end"] = write_state(device.end, nullptr);
    if (device.peak) {
      Json peak;
      peak["event"] = device.peak->event;
      peak.update(write_state(device.peak->state, nullptr));
      if (device.peak->stages) peak["stages"] = write(*device.peak->stages);
      object["peak"] = std::move(peak);
    } else {
      object["peak"] = nullptr;
    }
    object["peaks"] = device.peak_levels ? write(*device.peak_levels) : Json();
    const whatif::Proof* const proof = analysis_.proof_of(device.device);
    object["replay"] = proof == nullptr ? Json() : write(*proof);
    put_holders(object, device.holders);
    return object;
  }

  [[nodiscard]] static Json write(const whatif::Proof& proof) {
    if (!proof.reason.empty()) return {{"run", false}, {"reason", proof.reason}};
    Json differs;
    if (proof.found.first) {
      differs = {{"event", proof.differs_at}, {"what", proof.found.first->what}};
    }
    return {{"run", true},
            {"first_event", proof.first_event},
            {"operations", proof.op_count},
            {"agreed", proof.found.agreed},
            {"requests", proof.found.requests},
            {"refusals", proof.found.refusals},
            {"differs", std::move(differs)},
            {"assumed", proof.doubts}};
  }

  /// Null: nothing was run, or it is a question that the recording did not ask.
  [[nodiscard]] Json is_replayed(const verdict::Question& question) const {
    const whatif::Proof* const proof = analysis_.proof_of(question.device);
    if (!question.recorded || proof == nullptr || !proof->reason.empty()) return {};
    return proof->covers(question.event);
  }

  [[nodiscard]] Json write(const model::PeakLevels& levels) const {
    Json object;
    object["reserved_bytes"] = levels.reserved_bytes;
    put_bounds(object, "allocated", levels.allocated_bytes);
    put_bounds(object, "active", levels.active_bytes);
    object["requested_active_bytes"] =
        recording_.has_requested_sizes ? Json(levels.requested_active_bytes) : Json();
    put_bounds(object, "inactive_split", levels.inactive_split_bytes);
    return object;
  }

  [[nodiscard]] Json write_state(const StateSummary& state,
                                 const verdict::DeviceFacts* facts) const {
    static const verdict::DeviceFacts no_facts;
    Json object;
    object["reserved_bytes"] = state.reserved_bytes;
    put_bounds(object, "allocated", state.allocated_bytes);
    object["requested_bytes"] = or_null(state.requested_bytes);
    object["requested_active_bytes"] = or_null(state.requested_active_bytes);
    put_bounds(object, "active", state.active_bytes);
    put_bounds(object, "inactive_split", state.inactive_split_bytes);
    put_bounds(object, "pending", state.pending_bytes);
    put_bounds(object, "free", state.free_bytes);
    put_bounds(object, "largest_hole", state.largest_hole_bytes);
    object["segments"] = state.segments;
    object["blocks"] = state.blocks;
    object["holes"] = state.holes;
    object["gap"] = {{"rounding_bytes", or_null(state.gap.rounding_bytes)},
                     {"pending_bytes", state.gap.pending_bytes},
                     {"releasable_bytes", state.gap.releasable_bytes},
                     {"stuck_bytes", state.gap.stuck_bytes}};
    const verdict::DeviceFacts& known = facts != nullptr ? *facts : no_facts;
    put_fact(object, "device_free", known.free);
    put_fact(object, "device_total", known.total);
    put_fact(object, "limit", known.limit);
    if (known.context.known()) put_fact(object, "context", known.context);
    object["homes"] = Json::array();
    for (const model::HomeSummary& home : state.homes) {
      Json entry;
      entry["pool"] = pool(home.home.pool);
      entry["class"] = policy::to_string(home.home.size_class);
      entry["stream"] = home.home.stream;
      entry["expandable"] = home.home.expandable;
      put_bounds(entry, "free", home.free_bytes);
      put_bounds(entry, "largest_hole", home.largest_hole_bytes);
      entry["holes"] = home.holes;
      entry["pending_bytes"] = home.pending_bytes;
      object["homes"].push_back(std::move(entry));
    }
    return object;
  }

  [[nodiscard]] Json write(const Failure& failed) const {
    const verdict::Question& question = failed.question;
    Json object;
    object["device"] = question.device;
    object["event"] = question.event;
    object["time_us"] = question.time_us == model::kNoTime ? Json() : Json(question.time_us);
    object["recorded"] = question.recorded;
    object["request"] = {{"size_bytes", question.size_bytes},
                         {"asked_bytes", or_null(question.asked_bytes)},
                         {"need_bytes", failed.supply.need_now_bytes},
                         {"device_allocation_bytes", failed.supply.limit_need_bytes},
                         {"stream", question.stream},
                         {"pool", pool(question.pool)},
                         {"class", policy::to_string(question.size_class())},
                         {"frames", frames_json(frames_, question.stack)}};
    object["state"] = write_state(failed.state, &failed.facts);
    if (failed.use) put_use(object, *failed.use);
    put_stages(object, failed);
    object["verdict"] = write(failed.judgement.verdict);
    object["replayed"] = is_replayed(question);
    object["ladder"] = Json::array();
    for (const verdict::Rung& rung : failed.judgement.ladder) {
      object["ladder"].push_back(write(rung));
    }
    object["moment"] = moment_json(failed, frames_);
    object["pins"] = failed.pins ? write(*failed.pins) : Json();
    put_holders(object, failed.holders);
    object["advice"] = Json::array();
    for (const verdict::Advice& advice : failed.advice) {
      object["advice"].push_back({{"text", advice.text}, {"shown_by", advice.shown_by}});
    }
    return object;
  }

  void put_use(Json& object, const model::DeviceUse& use) const {
    Json processes = Json::array();
    for (const model::DeviceProcess& process : use.processes) {
      Json name = process.name.empty() ? Json() : Json(process.name);
      if (frames_.redacts() && !process.name.empty()) name = "(masked)";
      processes.push_back({{"pid", process.pid},
                           {"name", std::move(name)},
                           {"used_bytes", or_null(process.used_bytes)},
                           {"this", process.is_this}});
    }
    object["processes"] = use.refused.empty() ? std::move(processes) : Json();
    object["processes_refused"] = use.refused.empty() ? Json() : Json(use.refused);
  }

  [[nodiscard]] Json write(const std::vector<model::Stage>& stages) const {
    Json list = Json::array();
    for (const model::Stage& stage : stages) {
      const bool is_masked = frames_.redacts() && !stage.name.empty();
      list.push_back({{"name", is_masked ? "(masked)" : stage.name},
                      {"source", stage.is_annotation ? "annotation" : "program"},
                      {"thread", stage.thread},
                      {"time_us", stage.begin_us}});
    }
    return list;
  }

  void put_stages(Json& object, const Failure& failed) const {
    if (failed.thread == 0) return;
    Json stages = write(failed.stages);
    for (Json& stage : stages)
      stage["this_thread"] = stage["thread"] == failed.thread;
    object["stages"] = std::move(stages);
  }

  [[nodiscard]] static Json write(const std::vector<verdict::MissingFact>& missing) {
    Json list = Json::array();
    for (const verdict::MissingFact& fact : missing) {
      list.push_back({{"fact", fact.fact}, {"threshold_bytes", fact.threshold_bytes}});
    }
    return list;
  }

  [[nodiscard]] static Json write(const verdict::Verdict& verdict) {
    Json also = Json::array();
    if (verdict.also.limit) also.push_back("limit");
    if (verdict.also.rounding) also.push_back("rounding");
    if (verdict.also.capacity_pressure) also.push_back("capacity-pressure");
    Json stranded_by = Json::array();
    for (const std::string_view barrier : verdict.stranded_by)
      stranded_by.push_back(barrier);
    return {{"kind", verdict::to_string(verdict.kind)},
            {"certainty", verdict::to_string(verdict.certainty)},
            {"stranded_by", std::move(stranded_by)},
            {"short_by_bytes", or_null(verdict.short_by_bytes)},
            {"short_by_is_most", verdict.short_by_is_most},
            {"short_by_is_least", verdict.short_by_is_least},
            {"also", std::move(also)},
            {"missing", write(verdict.missing)},
            {"text", verdict.text}};
  }

  [[nodiscard]] static Json write(const verdict::Rung& rung) {
    Json object;
    object["rung"] = rung.number;
    object["what"] = rung.what;
    if (rung.bytes) {
      object["bytes"] = rung.bytes->low;
      if (rung.bytes->high != rung.bytes->low) object["high_bytes"] = rung.bytes->high;
    } else {
      object["bytes"] = nullptr;
    }
    object["need_bytes"] = rung.need_bytes;
    object["fits"] =
        rung.fits == verdict::Fits::kUnknown ? Json() : Json(rung.fits == verdict::Fits::kYes);
    if (!rung.missing.empty()) object["missing"] = write(rung.missing);
    if (!rung.note.empty()) object["note"] = rung.note;
    return object;
  }

  [[nodiscard]] Json write(const verdict::Pins& pins) const {
    Json object;
    object["kind"] = pins.whole_segments ? "segments" : "window";
    object["address"] = pins.address;
    object["window_bytes"] = pins.window_bytes;
    object["segments"] = pins.segments;
    object["live_bytes"] = pins.live_bytes;
    object["placeable_bytes"] = pins.placeable_bytes;
    object["block_count"] = pins.block_count;
    object["blocks"] = Json::array();
    for (const verdict::PinnedBlock& block : pins.blocks) {
      object["blocks"].push_back({{"address", block.address},
                                  {"size_bytes", block.size_bytes},
                                  {"pending", block.pending},
                                  {"frames", frames_json(frames_, block.stack)}});
    }
    return object;
  }

  void put_holders(Json& object, const analysis::HolderList& holders) const {
    Json list = Json::array();
    for (const verdict::Holder& holder : holders.largest) {
      list.push_back({{"frames", frames_json(frames_, holder.stack)},
                      {"bytes", holder.bytes},
                      {"blocks", holder.blocks}});
    }
    object["holders"] = std::move(list);
    object["holder_count"] = holders.count;
  }

  const Analysis& analysis_;
  const FrameText& frames_;
  const model::Recording& recording_;
};

}  // namespace

std::string json_report(const Analysis& analysis,
                        const FrameText& frames,
                        const InputNames& names) {
  return one_line(JsonWriter(analysis, frames).write(names));
}

}  // namespace fragscope::report
