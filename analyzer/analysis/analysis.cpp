// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/analysis.hpp"

#include "analyzer/analysis/device_facts.hpp"
#include "analyzer/analysis/trust_signals.hpp"
#include "analyzer/model/timeline.hpp"
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/recording/plural.hpp"
#include "analyzer/whatif/program/program_of_snapshot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

namespace fragscope::analysis {
namespace {

using model::EventIndex;
using model::HeapState;
using model::History;
using verdict::Question;

/// What keeping a failure's evidence costs, in block visits.
constexpr std::uint64_t kVisitsPerFailure = 1024;
/// Judging one failure costs a few passes over the blocks. This many block visits take some ten
/// seconds; a file that wants more was made to hurt, or wants a narrower question.
constexpr std::uint64_t kMaxBlockVisits = std::uint64_t{1} << 27;
/// Events times failures that are followed to find when each became impossible; some two seconds.
constexpr std::uint64_t kMaxWatchedEvents = std::uint64_t{1} << 24;

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
  EventIndex target = 0;          ///< The state before this event.
  verdict::DeviceFacts recorded;  ///< What the recording says of the device.
  std::optional<model::DeviceUse> use;
  std::vector<model::Stage> stages;
  std::uint32_t thread = 0;
};

/// None: the recording does not have it, or NVML called this process by another number.
std::optional<std::uint64_t> bytes_of_this_process(const std::optional<model::DeviceUse>& use) {
  if (!use) return std::nullopt;
  const auto found = std::ranges::find_if(use->processes, &model::DeviceProcess::is_this);
  return found == use->processes.end() ? std::nullopt : found->used_bytes;
}

class Analyzer {
 public:
  /// `histories`: by device, one for each that has a segment or an event.
  Analyzer(const model::Recording& recording, const Histories& histories, const Options& options)
      : recording_(recording)
      , histories_(histories)
      , options_(options)
      , rules_(recording.settings.rules) {
    for (const History* history : histories_)
      devices_.push_back(history->device());
  }

  [[nodiscard]] Result<Analysis> run(model::RoundingRule rule,
                                     std::vector<model::TrustSignal> trust) {
    out_.rounding_rule = rule;
    out_.trust = std::move(trust);
    out_.unjudged_failures = recording_.unjudged_failures;
    if (options_.device && std::ranges::count(devices_, *options_.device) == 0) {
      return failure(
          ErrorCode::kUsage,
          fmt::format(
              "no device {} in this recording; it has: {}", *options_.device, list_of(devices_)));
    }
    const Result<std::vector<Task>> tasks =
        options_.request_bytes ? asked_task() : recorded_tasks();
    if (!tasks) return tl::unexpected<Error>(tasks.error());
    for (const History* history : histories_) {
      const Result<void> reported = report_device(*history, *tasks);
      if (!reported) return tl::unexpected<Error>(reported.error());
    }
    note_unmatched_log();
    return std::move(out_);
  }

 private:
  [[nodiscard]] static verdict::Fact fact(std::optional<std::uint64_t> bytes, const char* source) {
    return bytes ? verdict::Fact{model::exactly(*bytes), source} : verdict::Fact{};
  }

  /// What is known at any moment.
  [[nodiscard]] verdict::DeviceFacts standing_facts() const {
    verdict::DeviceFacts facts;
    facts.total = fact(recording_.settings.device_total_bytes, "the recording's header");
    facts.limit = fact(recording_.settings.limit_bytes, "the recorded limit");
    return facts;
  }

  [[nodiscard]] Task task_at_failure(const History& history,
                                     const model::FailedRequest& failed) const {
    Task task;
    task.target = failed.event;
    task.question.device = history.device();
    task.question.event = failed.event;
    task.question.time_us = failed.time_us;
    task.recorded = standing_facts();
    task.recorded.free =
        fact(failed.device_free_bytes, "the oom entry of the trace (cudaMemGetInfo)");
    if (failed.device_total_bytes) {
      task.recorded.total =
          fact(failed.device_total_bytes, "the recording at the failure (cudaMemGetInfo)");
    }
    if (failed.limit_bytes) task.recorded.limit = fact(failed.limit_bytes, "the recorded limit");
    task.use = failed.use;
    task.stages = failed.stages;
    task.thread = failed.thread;
    return task;
  }

  [[nodiscard]] Result<std::vector<Task>> recorded_tasks() {
    const Result<model::PoolIndex> named_pool = asked_pool();
    if (!named_pool) return tl::unexpected<Error>(named_pool.error());
    std::vector<Task> tasks;
    bool pool_is_assumed = false;
    for (const History* history : histories_) {
      if (options_.device && *options_.device != history->device()) continue;
      const std::vector<model::FailedRequest> failures = history->failed_requests();
      const bool skips = options_.last_failure_only && !failures.empty();
      for (const model::FailedRequest& failed :
           std::span(failures).subspan(skips ? failures.size() - 1 : 0)) {
        Task task = task_at_failure(*history, failed);
        task.question.recorded = true;
        task.question.size_bytes = std::max<std::uint64_t>(failed.size_bytes, 1);
        task.question.asked_bytes = failed.asked_bytes;
        task.question.stream = failed.stream;
        pool_is_assumed |= failed.pool == model::kUnknownPool;
        task.question.pool = failed.pool == model::kUnknownPool ? *named_pool : failed.pool;
        task.question.stack = failed.stack;
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

  [[nodiscard]] Result<const History*> asked_history(Moment::Kind kind) const {
    if (options_.device) {
      const auto at = std::ranges::find(devices_, *options_.device) - devices_.begin();
      return histories_[static_cast<std::size_t>(at)];
    }
    if (histories_.size() == 1) return histories_.front();
    if (kind == Moment::Kind::kOom) {
      const History* only = nullptr;
      for (const History* history : histories_) {
        if (history->failed_requests().empty()) continue;
        if (only != nullptr) return name_a_device();
        only = history;
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
    const Result<const History*> history = asked_history(moment.kind);
    if (!history) return tl::unexpected<Error>(history.error());
    const Result<model::PoolIndex> pool = asked_pool();
    if (!pool) return tl::unexpected<Error>(pool.error());
    Result<Task> task = task_at(**history, moment);
    if (!task) return tl::unexpected<Error>(task.error());
    Question& question = task->question;
    question.device = (*history)->device();
    question.asked_bytes = asked;
    question.size_bytes = policy::round_size(asked, rules_);
    question.stream = options_.stream;
    question.pool = *pool;
    return std::vector<Task>{std::move(*task)};
  }

  [[nodiscard]] Result<Task> task_at(const History& history, const Moment& moment) const {
    Task task;
    task.recorded = standing_facts();
    if (moment.kind == Moment::Kind::kOom) {
      const auto failures = history.failed_requests();
      const auto last = static_cast<std::int64_t>(failures.size()) - 1;
      const std::int64_t which = moment.number.value_or(last);
      if (which < 0 || which > last) {
        return failure(
            ErrorCode::kUsage,
            fmt::format("device {} has {}; --at oom:N counts from 0",
                        history.device(),
                        model::plural(failures.size(), "recorded failure", "recorded failures")));
      }
      return task_at_failure(history, failures[static_cast<std::size_t>(which)]);
    }
    EventIndex target = history.end_event();
    if (moment.kind == Moment::Kind::kPeak) target = history.peak().event + 1;
    if (moment.kind == Moment::Kind::kEvent) target = moment.number.value_or(0);
    if (target < history.first_event() || target > history.end_event()) {
      return failure(ErrorCode::kUsage,
                     fmt::format("device {} has the events {} to {}; --at EVENT asks before one "
                                 "of them, {} is the end",
                                 history.device(),
                                 history.first_event(),
                                 history.end_event() - 1,
                                 history.end_event()));
    }
    if (!history.is_known_before(target)) {
      return failure(
          ErrorCode::kUsage,
          fmt::format("the heap before event {} is not known: records in front of it are "
                      "lost, and no keyframe follows them in time",
                      target));
    }
    task.target = target;
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

  [[nodiscard]] Result<void> report_device(const History& history, const std::vector<Task>& tasks) {
    DeviceReport report;
    report.device = history.device();
    report.event_count = static_cast<std::uint64_t>(history.end_event() - history.first_event());
    HeapState end = model::end_state(recording_, history.device());
    report.end = model::summarize(end, rules_);
    const bool has_events = history.has_events();
    if (!has_events) report.holders = HolderList(verdict::find_holders(end));

    const EventIndex peak_target = history.peak().event + 1;
    std::map<EventIndex, std::vector<const Task*>> tasks_at;
    if (has_events) {
      tasks_at[peak_target];
      report.peak_levels = history.peak_levels();
    }
    for (const Task& task : tasks) {
      if (task.question.device == history.device()) tasks_at[task.target].push_back(&task);
    }
    std::vector<EventIndex> targets;
    targets.reserve(tasks_at.size());
    for (const auto& [target, ignored] : tasks_at)
      targets.push_back(target);
    std::uint64_t unplaced = 0;
    const std::size_t first_failure = out_.failures.size();
    history.visit_states_until(targets, [&](EventIndex target, HeapState& rebuilt) {
      if (target == history.end_event()) {
        // The end needs no rebuilding: the file has it to the byte.
        end.expandable_starts = rebuilt.expandable_starts;
        rebuilt = end;
      }
      unplaced = std::max(unplaced, rebuilt.unplaced_count);
      if (has_events && target == peak_target) {
        report.peak = PeakState{
            history.peak().event, model::summarize(rebuilt, rules_), history.peak().stages};
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
    if (has_events && options_.find_moments) {
      find_moments(history, std::span(out_.failures).subspan(first_failure));
    }
    if (unplaced > 0) {
      out_.trust.push_back({"unplaced-blocks",
                            fmt::format("device {}: left out: up to {} in no known segment, or in "
                                        "one another",
                                        history.device(),
                                        model::plural(unplaced, "block", "blocks"))});
    }
    if (!options_.device || *options_.device == history.device()) {
      out_.devices.push_back(std::move(report));
    }
    return {};
  }

  /// Of the last failures, if following all of them would take too long.
  void find_moments(const History& history, std::span<Failure> failures) {
    const auto events = static_cast<std::uint64_t>(history.end_event() - history.first_event());
    const std::uint64_t most = kMaxWatchedEvents / events;
    if (failures.size() > most) failures = failures.last(most);
    std::vector<servability::Watch> watches;
    watches.reserve(failures.size());
    for (const Failure& failed : failures)
      watches.push_back({request_of(failed.question), room_of(failed), failed.question.event});
    if (watches.empty()) return;
    std::vector<servability::Moment> moments = servability::find_moments(history, watches, rules_);
    for (std::size_t i = 0; i < failures.size(); ++i)
      failures[i].moment = moments[i];
  }

  [[nodiscard]] Failure judge_task(const Task& task, const HeapState& state) {
    Failure failed;
    failed.question = task.question;
    failed.state = model::summarize(state, rules_);
    failed.supply = verdict::find_supply(state, task.question, rules_);
    const FactSources sources{
        options_, recording_.settings, task.recorded, bytes_of_this_process(task.use)};
    FoundFacts found = find_device_facts(sources, task.question, failed.supply);
    failed.facts = std::move(found.facts);
    failed.use = task.use;
    failed.stages = task.stages;
    failed.thread = task.thread;
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
  const Histories& histories_;
  const Options& options_;
  const policy::SizeRules& rules_;
  std::vector<std::int32_t> devices_;
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

servability::DriverRoom room_of(const Failure& failed) {
  servability::DriverRoom room;
  room.reserved_bytes = failed.state.reserved_bytes;
  if (failed.facts.free.known()) room.free_bytes = failed.facts.free.bytes.high;
  if (failed.facts.limit.known()) room.limit_bytes = failed.facts.limit.bytes.high;
  const std::uint64_t need = failed.supply.need_now_bytes;
  const bool was_refused = failed.question.recorded && room.free_bytes >= need &&
                           room.free_bytes - need < verdict::kDriverReserveBytes;
  if (was_refused) room.free_bytes = need - std::min<std::uint64_t>(need, 1);
  return room;
}

servability::Request request_of(const verdict::Question& question) {
  return {question.size_bytes, question.pool, question.stream};
}

const whatif::Proof* Analysis::proof_of(std::int32_t device) const {
  const auto found = std::ranges::find(proofs, device, &whatif::Proof::device);
  return found == proofs.end() ? nullptr : &*found;
}

Result<Analysis> analyze(const model::Recording& recording,
                         const Histories& histories,
                         const Options& options) {
  return Analyzer(recording, histories, options)
      .run(model::find_rounding_rule(recording), recording.trust);
}

Result<Analysis> analyze(const model::Recording& recording, const Options& options) {
  const model::RoundingRule rule = model::find_rounding_rule(recording);
  std::vector<model::TrustSignal> trust = recording.trust;
  add_file_signals(recording, rule, trust);
  std::vector<std::unique_ptr<const History>> timelines;
  Histories histories;
  std::vector<std::future<whatif::Proof>> proofs;
  for (const std::int32_t device : devices_of(recording)) {
    auto timeline = std::make_unique<model::Timeline>(recording, device, rule);
    add_trace_signals(*timeline, trust);
    if (timeline->has_events() && options.device.value_or(device) == device) {
      proofs.push_back(
          whatif::prove_beside(device, whatif::program_of_snapshot(recording, *timeline, rule)));
    }
    histories.push_back(timeline.get());
    timelines.push_back(std::move(timeline));
  }
  Result<Analysis> made = Analyzer(recording, histories, options).run(rule, std::move(trust));
  if (!made) return made;
  for (std::future<whatif::Proof>& proof : proofs)
    made->proofs.push_back(proof.get());
  return made;
}

}  // namespace fragscope::analysis
