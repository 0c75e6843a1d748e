// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/analysis.hpp"

#include "analyzer/analysis/device_facts.hpp"
#include "analyzer/analysis/trust_signals.hpp"
#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace fragscope::analysis {
namespace {

using model::Action;
using model::EventIndex;
using model::HeapState;
using model::Timeline;
using verdict::Question;

// Judging one failure costs a few passes over the blocks. This many block visits take some ten
// seconds; a file that wants more was made to hurt, or wants a narrower question.
/// What keeping a failure's evidence costs, in block visits.
constexpr std::uint64_t kVisitsPerFailure = 1024;
constexpr std::uint64_t kMaxBlockVisits = std::uint64_t{1} << 27;

std::vector<std::int32_t> devices_of(const model::Recording& recording) {
  std::set<std::int32_t> devices;
  for (const model::Segment& segment : recording.segments)
    devices.insert(segment.device);
  for (const model::DeviceTrace& trace : recording.traces)
    devices.insert(trace.device);
  return {devices.begin(), devices.end()};
}

std::string list_of(const std::vector<std::int32_t>& devices) {
  return devices.empty() ? "none" : fmt::format("{}", fmt::join(devices, ", "));
}

/// A question and the target state it is judged on.
struct Task {
  Question question;
  EventIndex target = 0;  ///< The state before this event.
  verdict::Fact free;
};

class Analyzer {
 public:
  Analyzer(const model::Recording& recording, const Options& options)
      : recording_(recording)
      , options_(options)
      , rules_(recording.settings.rules) {}

  [[nodiscard]] Result<Analysis> run() {
    out_.rounding_rule = model::find_rounding_rule(recording_);
    devices_ = devices_of(recording_);
    if (options_.device && std::ranges::count(devices_, *options_.device) == 0) {
      return failure(
          ErrorCode::kUsage,
          fmt::format(
              "no device {} in this recording; it has: {}", *options_.device, list_of(devices_)));
    }
    for (const std::int32_t device : devices_) {
      timelines_.push_back(std::make_unique<Timeline>(recording_, device, out_.rounding_rule));
    }
    add_file_signals(recording_, out_.rounding_rule, out_.trust);
    out_.trust.insert(out_.trust.begin(), recording_.trust.begin(), recording_.trust.end());
    for (const auto& timeline : timelines_) {
      add_trace_signals(*timeline, last_failure_of(*timeline), out_.trust);
    }
    const Result<std::vector<Task>> tasks =
        options_.request_bytes ? asked_task() : recorded_tasks();
    if (!tasks) return tl::unexpected<Error>(tasks.error());
    for (const auto& timeline : timelines_) {
      const Result<void> reported = report_device(*timeline, *tasks);
      if (!reported) return tl::unexpected<Error>(reported.error());
    }
    note_unmatched_log();
    return std::move(out_);
  }

 private:
  [[nodiscard]] static std::vector<EventIndex> failures_of(const Timeline& timeline) {
    std::vector<EventIndex> failures;
    const auto events = timeline.events();
    for (std::size_t index = 0; index < events.size(); ++index) {
      if (events[index].action == Action::kOom) failures.push_back(static_cast<EventIndex>(index));
    }
    return failures;
  }

  [[nodiscard]] static std::optional<EventIndex> last_failure_of(const Timeline& timeline) {
    const auto failures = failures_of(timeline);
    return failures.empty() ? std::nullopt : std::optional(failures.back());
  }

  [[nodiscard]] static Task task_at_failure(const Timeline& timeline, EventIndex index) {
    const model::Event& event = timeline.events()[static_cast<std::size_t>(index)];
    Task task;
    task.target = index;
    task.question.device = timeline.device();
    task.question.event = index;
    task.question.time_us = event.time_us;
    if (event.has_address) {
      task.free = {model::exactly(event.address), "the oom entry of the trace (cudaMemGetInfo)"};
    }
    return task;
  }

  [[nodiscard]] Result<std::vector<Task>> recorded_tasks() {
    const Result<model::PoolIndex> named_pool = asked_pool();
    if (!named_pool) return tl::unexpected<Error>(named_pool.error());
    std::vector<Task> tasks;
    bool pool_is_assumed = false;
    for (const auto& timeline : timelines_) {
      if (options_.device && *options_.device != timeline->device()) continue;
      for (const EventIndex index : failures_of(*timeline)) {
        const model::Event& event = timeline->events()[static_cast<std::size_t>(index)];
        Task task = task_at_failure(*timeline, index);
        task.question.recorded = true;
        task.question.size_bytes = std::max<std::uint64_t>(event.size_bytes, 1);
        task.question.stream = event.stream;
        pool_is_assumed |= event.pool == model::kUnknownPool;
        task.question.pool = event.pool == model::kUnknownPool ? *named_pool : event.pool;
        task.question.stack = event.stack;
        tasks.push_back(std::move(task));
      }
    }
    if (pool_is_assumed && recording_.pools.size() > 1 && !options_.pool) {
      out_.trust.push_back({"assumed-request-pool",
                            "the failure's entry names no pool (before PyTorch 2.12); the default "
                            "pool is taken, and --pool A,B asks for another"});
    }
    return tasks;
  }

  [[nodiscard]] Result<const Timeline*> asked_timeline(Moment::Kind kind) const {
    if (options_.device) {
      const auto at = std::ranges::find(devices_, *options_.device) - devices_.begin();
      return timelines_[static_cast<std::size_t>(at)].get();
    }
    if (timelines_.size() == 1) return timelines_.front().get();
    if (kind == Moment::Kind::kOom) {
      const Timeline* only = nullptr;
      for (const auto& timeline : timelines_) {
        if (!last_failure_of(*timeline)) continue;
        if (only != nullptr) return name_a_device();
        only = timeline.get();
      }
      if (only != nullptr) return only;
    }
    return name_a_device();
  }

  [[nodiscard]] tl::unexpected<Error> name_a_device() const {
    if (devices_.empty()) {
      return failure(ErrorCode::kUsage, "the recording has no device: no segments and no events");
    }
    return failure(ErrorCode::kUsage,
                   fmt::format("several devices ({}); name one with --device", list_of(devices_)));
  }

  [[nodiscard]] Result<model::PoolIndex> asked_pool() const {
    const model::PoolId pool = options_.pool.value_or(model::PoolId{});
    const auto found = std::ranges::find(recording_.pools, pool);
    if (found != recording_.pools.end()) {
      return model::PoolIndex{static_cast<std::uint16_t>(found - recording_.pools.begin())};
    }
    return failure(ErrorCode::kUsage,
                   fmt::format("no pool ({},{}) in this recording", pool.first, pool.second));
  }

  [[nodiscard]] Result<std::vector<Task>> asked_task() const {
    const std::uint64_t asked = *options_.request_bytes;
    if (asked == 0 || asked >= policy::kTooLarge) {
      return failure(ErrorCode::kUsage,
                     "a request of 0 bytes, or of 1 EiB and more, never reaches the allocator");
    }
    const Moment moment = options_.at.value_or(Moment{});
    const Result<const Timeline*> timeline = asked_timeline(moment.kind);
    if (!timeline) return tl::unexpected<Error>(timeline.error());
    const Result<model::PoolIndex> pool = asked_pool();
    if (!pool) return tl::unexpected<Error>(pool.error());
    Result<Task> task = task_at(**timeline, moment);
    if (!task) return tl::unexpected<Error>(task.error());
    Question& question = task->question;
    question.device = (*timeline)->device();
    question.asked_bytes = asked;
    question.size_bytes = policy::round_size(asked, rules_);
    question.stream = options_.stream;
    question.pool = *pool;
    return std::vector<Task>{std::move(*task)};
  }

  [[nodiscard]] static Result<Task> task_at(const Timeline& timeline, const Moment& moment) {
    Task task;
    if (moment.kind == Moment::Kind::kOom) {
      const auto failures = failures_of(timeline);
      const auto last = static_cast<std::int64_t>(failures.size()) - 1;
      const std::int64_t which = moment.number.value_or(last);
      if (which < 0 || which > last) {
        return failure(ErrorCode::kUsage,
                       fmt::format("device {} has {} recorded failures; --at oom:N counts from 0",
                                   timeline.device(),
                                   failures.size()));
      }
      return task_at_failure(timeline, failures[static_cast<std::size_t>(which)]);
    }
    std::int64_t target = timeline.event_count();
    if (moment.kind == Moment::Kind::kPeak) target = timeline.peak().event + 1;
    if (moment.kind == Moment::Kind::kEvent) target = moment.number.value_or(0);
    if (target < 0 || target > timeline.event_count()) {
      return failure(ErrorCode::kUsage,
                     fmt::format("device {} has the events 0 to {}; --at EVENT asks before one of "
                                 "them, {} is the end",
                                 timeline.device(),
                                 timeline.event_count() - 1,
                                 timeline.event_count()));
    }
    task.target = static_cast<EventIndex>(target);
    task.question.event = task.target;
    return task;
  }

  [[nodiscard]] tl::unexpected<Error> too_much_work(std::size_t task_count) const {
    return failure(
        ErrorCode::kTooLarge,
        fmt::format("{} failures on so many blocks are too many to judge each; ask for one: "
                    "--request SIZE --device N --at oom:N",
                    task_count));
  }

  [[nodiscard]] Result<void> report_device(const Timeline& timeline,
                                           const std::vector<Task>& tasks) {
    DeviceReport report;
    report.device = timeline.device();
    report.event_count = timeline.events().size();
    HeapState end = model::end_state(recording_, timeline.device());
    report.end = model::summarize(end, rules_);
    if (timeline.events().empty()) report.holders = HolderList(verdict::find_holders(end));

    const bool has_events = !timeline.events().empty();
    const EventIndex peak_target = timeline.peak().event + 1;
    std::map<EventIndex, std::vector<const Task*>> tasks_at;
    if (has_events) {
      tasks_at[peak_target];
      report.peak_levels = timeline.peak_levels();
    }
    for (const Task& task : tasks) {
      if (task.question.device == timeline.device()) tasks_at[task.target].push_back(&task);
    }
    std::vector<EventIndex> targets;
    targets.reserve(tasks_at.size());
    for (const auto& [target, ignored] : tasks_at)
      targets.push_back(target);
    std::uint64_t unplaced = 0;
    timeline.visit_states_until(targets, [&](EventIndex target, HeapState& rebuilt) {
      if (target == timeline.event_count()) {
        // The end needs no rebuilding: the file has it to the byte.
        end.expandable_starts = rebuilt.expandable_starts;
        rebuilt = end;
      }
      unplaced = std::max(unplaced, rebuilt.unplaced_count);
      if (has_events && target == peak_target) {
        report.peak = PeakState{timeline.peak().event, model::summarize(rebuilt, rules_)};
        report.holders = HolderList(verdict::find_holders(rebuilt));
      }
      for (const Task* task : tasks_at[target]) {
        visited_blocks_ += rebuilt.blocks.size() + rebuilt.segments.size() + kVisitsPerFailure;
        if (visited_blocks_ > kMaxBlockVisits) return false;
        out_.failures.push_back(judge_task(*task, rebuilt));
      }
      return true;
    });
    if (visited_blocks_ > kMaxBlockVisits) return too_much_work(tasks.size());
    if (unplaced > 0) {
      out_.trust.push_back({"unplaced-blocks",
                            fmt::format("device {}: up to {} blocks lie in no known segment, or in "
                                        "one another, and are left out",
                                        timeline.device(),
                                        unplaced)});
    }
    if (!options_.device || *options_.device == timeline.device()) {
      out_.devices.push_back(std::move(report));
    }
    return {};
  }

  [[nodiscard]] Failure judge_task(const Task& task, const HeapState& state) {
    Failure failed;
    failed.question = task.question;
    failed.state = model::summarize(state, rules_);
    failed.supply = verdict::find_supply(state, task.question, rules_);
    const FactSources sources{options_, recording_.settings, task.free};
    FoundFacts found = find_device_facts(sources, task.question, failed.supply);
    failed.facts = std::move(found.facts);
    log_matched_ |= found.log_matched;
    failed.judgement = verdict::judge(
        task.question, failed.supply, failed.state.requested_bytes, failed.facts, rules_);
    failed.pins = verdict::find_pins(state, task.question, failed.supply, failed.facts);
    failed.holders = HolderList(verdict::find_holders(state));
    if (failed.pins) failed.pins->keep_first(kKeptEvidence);
    failed.advice = verdict::find_advice(
        task.question, failed.supply, failed.facts, failed.judgement, failed.pins);
    return failed;
  }

  void note_unmatched_log() {
    if (options_.log_name.empty() || log_matched_) return;
    out_.trust.push_back(
        {"log-mismatch",
         fmt::format("{}: none of its {} out-of-memory messages has the device, request and free "
                     "memory of a failure in this recording; no fact was taken from it",
                     options_.log_name,
                     options_.messages.size())});
  }

  const model::Recording& recording_;
  const Options& options_;
  const policy::SizeRules& rules_;
  std::vector<std::int32_t> devices_;
  std::vector<std::unique_ptr<Timeline>> timelines_;
  bool log_matched_ = false;
  std::uint64_t visited_blocks_ = 0;
  Analysis out_;
};

}  // namespace

HolderList::HolderList(std::vector<verdict::Holder> all)
    : largest(std::move(all))
    , count(largest.size()) {
  if (largest.size() > kKeptEvidence) largest.resize(kKeptEvidence);
  largest.shrink_to_fit();
}

Result<Analysis> analyze(const model::Recording& recording, const Options& options) {
  return Analyzer(recording, options).run();
}

}  // namespace fragscope::analysis
