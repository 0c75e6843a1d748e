// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/variant.hpp"

#include "allocator/policy/device/simulated_device.hpp"
#include "analyzer/verdict/running/policy_failure.hpp"
#include "analyzer/verdict/running/policy_heap.hpp"
#include "analyzer/whatif/arena/arena_replay.hpp"
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

/// What others hold of the device, from op to op.
class OutsideCourse {
 public:
  OutsideCourse(const Program& program, const Variant& variant)
      : program_(program)
      , changes_(variant.outside_changes)
      , bytes_(variant.outside_bytes) {
    std::ranges::stable_sort(changes_, {}, &OutsideChange::event);
  }

  [[nodiscard]] std::uint64_t before(const Op& op) {
    while (next_ < changes_.size() && changes_[next_].event <= program_.event_of(op))
      bytes_ = changes_[next_++].bytes;
    return bytes_;
  }

 private:
  const Program& program_;
  std::vector<OutsideChange> changes_;
  std::size_t next_ = 0;
  std::uint64_t bytes_;
};

/// A device that holds what the program begins with.
class VariantDevice {
 public:
  VariantDevice(const Program& program, const Variant& variant)
      : outside_(program, variant)
      , changes_(!variant.outside_changes.empty())
      , device_(variant.device_bytes) {
    for (const policy::ImageSegment& segment : program.start.segments) {
      std::uint64_t memory = 0;
      for (const policy::ImageBlock& block : segment.blocks)
        memory += block.size;
      device_.hold(segment.address, segment.size, memory);
    }
    device_.set_outside_bytes(variant.outside_bytes);
  }

  /// What others do before this op.
  void move_to(const Op& op) {
    if (changes_) device_.set_outside_bytes(outside_.before(op));
  }
  [[nodiscard]] policy::SimulatedDevice& device() { return device_; }

 private:
  OutsideCourse outside_;
  bool changes_;
  policy::SimulatedDevice device_;
};

/// What an arena may take of the device before an op.
class Capacity {
 public:
  Capacity(const Program& program, const Variant& variant)
      : outside_(program, variant)
      , variant_(variant) {}

  [[nodiscard]] std::uint64_t before(const Op& op) {
    const std::uint64_t outside = outside_.before(op);
    const std::uint64_t there = variant_.device_bytes - std::min(variant_.device_bytes, outside);
    return std::min(there, variant_.limit_bytes.value_or(there));
  }

 private:
  OutsideCourse outside_;
  const Variant& variant_;
};

Outcome run_on_arena(const Program& program, const Variant& variant) {
  Outcome outcome;
  ArenaReplay replay(program, *variant.arena);
  Capacity capacity(program, variant);
  outcome.peak_allocated_bytes = replay.allocated_bytes();
  for (std::size_t i = 0; i < program.ops.size() && !outcome.is_cut_short; ++i) {
    const Op& op = program.ops[i];
    const std::uint64_t bytes = capacity.before(op);
    const bool is_served = replay.run(op, bytes);
    ++outcome.ops;
    if (op.kind != OpKind::kAllocate) continue;
    if (replay.allocated_bytes() > outcome.peak_allocated_bytes) {
      outcome.peak_allocated_bytes = replay.allocated_bytes();
      outcome.peak_op = i;
    }
    if (is_served) {
      outcome.served_refusals += op.failed ? 1 : 0;
      continue;
    }
    ++outcome.failures;
    outcome.is_cut_short = !op.failed;
    if (!outcome.first_failure) {
      outcome.first_failure = FailedOp{i, op.bytes, replay.why(op.bytes, bytes)};
    }
  }
  outcome.peak_reserved_bytes = replay.reserved_bytes();
  outcome.driver_allocations = replay.growths();
  return outcome;
}

model::StateSummary arena_at_peak(const Program& program,
                                  const Variant& variant,
                                  const Outcome& outcome) {
  ArenaReplay replay(program, *variant.arena);
  Capacity capacity(program, variant);
  for (std::size_t i = 0; i < outcome.ops && i <= outcome.peak_op; ++i)
    static_cast<void>(replay.run(program.ops[i], capacity.before(program.ops[i])));
  return replay.state();
}

/// `start_segments`: that were there before.
void take_sums(const policy::Statistics& statistics,
               std::uint64_t start_segments,
               Outcome& outcome) {
  outcome.peak_reserved_bytes = static_cast<std::uint64_t>(statistics.reserved_bytes.all.peak);
  outcome.peak_allocated_bytes = static_cast<std::uint64_t>(statistics.allocated_bytes.all.peak);
  outcome.driver_allocations = static_cast<std::uint64_t>(statistics.num_device_alloc);
  outcome.driver_frees = static_cast<std::uint64_t>(statistics.num_device_free);
  const policy::Counter& segments = statistics.segment.all;
  outcome.page_maps = outcome.driver_allocations -
                      (static_cast<std::uint64_t>(segments.allocated) - start_segments);
  outcome.page_unmaps = outcome.driver_frees - static_cast<std::uint64_t>(segments.freed);
  outcome.retries = static_cast<std::uint64_t>(statistics.num_alloc_retries);
}

}  // namespace

Variant recorded_variant_on(const Program& program, std::uint64_t device_bytes) {
  Variant variant;
  variant.name = program.has_decisions ? "as recorded" : "PyTorch's defaults";
  variant.options = {program.version, program.conf};
  variant.limit_bytes = program.limit_bytes;
  variant.device_bytes = device_bytes;
  return variant;
}

std::optional<Variant> recorded_variant(const Program& program) {
  const std::uint64_t bytes =
      program.device_bytes > 0 ? program.device_bytes : program.available_bytes.value_or(0);
  // What a share comes to follows from the whole device alone, not from what of it was there.
  const bool is_share = program.conf.per_process_memory_fraction < 1;
  if (bytes == 0 || (is_share && program.device_bytes == 0)) return std::nullopt;
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

Variant with_arena(Variant base, ArenaKind kind) {
  base.name = to_string(kind);
  base.arena = kind;
  return base;
}

Outcome run(const Program& program, const Variant& variant, const Tick& tick) {
  if (variant.arena) return run_on_arena(program, variant);
  Outcome outcome;
  VariantDevice device(program, variant);
  Replay replay(program, settings_of(variant), device.device());
  const policy::Statistics& statistics = replay.policy().statistics();
  const auto start_segments = static_cast<std::uint64_t>(statistics.segment.all.allocated);
  std::int64_t peak = statistics.allocated_bytes.all.peak;
  for (std::size_t i = 0; i < program.ops.size() && !outcome.is_cut_short; ++i) {
    const Op& op = program.ops[i];
    device.move_to(op);
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
  take_sums(statistics, start_segments, outcome);
  return outcome;
}

model::StateSummary state_at_peak(const Program& program,
                                  const Variant& variant,
                                  const Outcome& outcome) {
  if (variant.arena) return arena_at_peak(program, variant, outcome);
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
