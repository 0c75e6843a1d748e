// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/variant.hpp"

#include "allocator/policy/device/simulated_device.hpp"
#include "analyzer/verdict/running/policy_failure.hpp"
#include "analyzer/verdict/running/policy_heap.hpp"
#include "analyzer/whatif/replay.hpp"
#include "analyzer/whatif/side_by_side.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace fragscope::whatif {
namespace {

constexpr std::size_t kOpsOfATick = std::size_t{1} << 18;

Replay::Settings settings_of(const Variant& variant) {
  return {variant.options, variant.limit_bytes, variant.follows_program};
}

/// A device that holds what the program begins with.
class VariantDevice {
 public:
  VariantDevice(const Program& program, const Variant& variant)
      : program_(program)
      , changes_(variant.outside_changes)
      , device_(variant.device_bytes) {
    for (const policy::ImageSegment& segment : program.start.segments) {
      std::uint64_t memory = 0;
      for (const policy::ImageBlock& block : segment.blocks)
        memory += block.size;
      device_.hold(segment.address, segment.size, memory);
    }
    device_.set_outside_bytes(variant.outside_bytes);
    std::ranges::stable_sort(changes_, {}, &OutsideChange::event);
  }

  /// What others do before this op.
  void move_to(const Op& op) {
    while (next_ < changes_.size() && changes_[next_].event <= program_.event_of(op))
      device_.set_outside_bytes(changes_[next_++].bytes);
  }
  [[nodiscard]] policy::SimulatedDevice& device() { return device_; }

 private:
  const Program& program_;
  std::vector<OutsideChange> changes_;
  std::size_t next_ = 0;
  policy::SimulatedDevice device_;
};

void take_sums(const policy::Statistics& statistics, Outcome& outcome) {
  outcome.peak_reserved_bytes = static_cast<std::uint64_t>(statistics.reserved_bytes.all.peak);
  outcome.peak_allocated_bytes = static_cast<std::uint64_t>(statistics.allocated_bytes.all.peak);
  outcome.driver_allocations = static_cast<std::uint64_t>(statistics.num_device_alloc);
  outcome.driver_frees = static_cast<std::uint64_t>(statistics.num_device_free);
  outcome.retries = static_cast<std::uint64_t>(statistics.num_alloc_retries);
}

}  // namespace

Variant recorded_variant_on(const Program& program, std::uint64_t device_bytes) {
  Variant variant;
  variant.name = "as recorded";
  variant.options = {program.version, program.conf};
  variant.limit_bytes = program.limit_bytes;
  variant.device_bytes = device_bytes;
  return variant;
}

std::optional<Variant> recorded_variant(const Program& program) {
  const std::uint64_t bytes =
      program.device_bytes > 0 ? program.device_bytes : program.available_bytes.value_or(0);
  if (bytes == 0) return std::nullopt;
  Variant variant = recorded_variant_on(program, bytes);
  if (program.device_bytes > 0) variant.outside_bytes = program.outside_bytes.value_or(0);
  return variant;
}

Result<Variant> with_options(Variant base, const std::string& conf) {
  policy::AllocatorConf options;
  if (const auto error = policy::apply_conf(conf, base.options.version, options)) {
    return failure(ErrorCode::kUsage, "--conf " + conf + ": " + error->message);
  }
  base.name = conf.empty() ? "the defaults" : conf;
  base.options.conf = std::move(options);
  base.follows_program = false;
  return base;
}

Outcome run(const Program& program, const Variant& variant, const Tick& tick) {
  Outcome outcome;
  VariantDevice device(program, variant);
  Replay replay(program, settings_of(variant), device.device());
  const policy::Statistics& statistics = replay.policy().statistics();
  std::int64_t peak = statistics.allocated_bytes.all.peak;
  for (std::size_t i = 0; i < program.ops.size() && !outcome.is_cut_short; ++i) {
    const Op& op = program.ops[i];
    if (!variant.outside_changes.empty()) device.move_to(op);
    const policy::Address got = replay.run(op);
    ++outcome.ops;
    if (tick && i % kOpsOfATick == 0) tick(i, program.ops.size());
    if (op.kind != OpKind::kAllocate) continue;
    if (statistics.allocated_bytes.all.peak > peak) {
      peak = statistics.allocated_bytes.all.peak;
      outcome.peak_op = i;
    }
    if (got != 0) {
      outcome.served_refusals += op.failed ? 1 : 0;
      continue;
    }
    ++outcome.failures;
    outcome.is_cut_short = !op.failed;
    if (outcome.first_failure) continue;
    const auto judgement = verdict::judge_failure(
        replay.policy(), 0, program.streams[op.stream], "the replayed device");
    outcome.first_failure = FailedOp{i, op.bytes, judgement.verdict};
  }
  take_sums(statistics, outcome);
  return outcome;
}

model::StateSummary state_at_peak(const Program& program,
                                  const Variant& variant,
                                  const Outcome& outcome) {
  VariantDevice device(program, variant);
  Replay replay(program, settings_of(variant), device.device());
  for (std::size_t i = 0; i < outcome.ops && i <= outcome.peak_op; ++i) {
    device.move_to(program.ops[i]);
    static_cast<void>(replay.run(program.ops[i]));
  }
  return model::summarize(verdict::heap_of(replay.policy()).heap,
                          replay.policy().options().conf.rules);
}

namespace {

/// Less is better.
auto rank(const Trial& trial) {
  const Outcome& outcome = trial.outcome;
  const std::size_t ops_left =
      outcome.first_failure ? ~std::size_t{0} - outcome.first_failure->op : 0;
  return std::tuple(ops_left, outcome.peak_reserved_bytes, outcome.driver_allocations);
}

}  // namespace

std::vector<Trial> try_all(const Program& program,
                           std::vector<Variant> variants,
                           const Tick& tick) {
  std::vector<Trial> trials(variants.size());
  side_by_side(variants.size(), tick, [&](std::size_t i) {
    Trial& trial = trials[i];
    trial.variant = std::move(variants[i]);
    trial.outcome = run(program, trial.variant);
    trial.peak = state_at_peak(program, trial.variant, trial.outcome);
  });
  std::ranges::stable_sort(trials, {}, rank);
  return trials;
}

}  // namespace fragscope::whatif
