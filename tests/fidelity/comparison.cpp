// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/comparison.hpp"

#include "tests/fidelity/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace fragscope::fidelity {
namespace {

constexpr auto kArrays = std::to_array<std::string_view>({"allocation",
                                                          "allocated_bytes",
                                                          "active",
                                                          "active_bytes",
                                                          "requested_bytes",
                                                          "segment",
                                                          "reserved_bytes",
                                                          "inactive_split",
                                                          "inactive_split_bytes"});
constexpr auto kClasses = std::to_array<std::string_view>({"all", "small_pool", "large_pool"});
constexpr auto kParts = std::to_array<std::string_view>({"current", "peak", "allocated", "freed"});
constexpr auto kSingle =
    std::to_array<std::string_view>({"oversize_allocations", "oversize_segments"});
constexpr auto kNumbers = std::to_array<std::string_view>({"num_alloc_retries",
                                                           "num_ooms",
                                                           "num_sync_all_streams",
                                                           "num_device_alloc",
                                                           "num_device_free",
                                                           "num_oom_rejections"});
constexpr auto kActions = std::to_array<std::string_view>({"alloc",
                                                           "free_requested",
                                                           "free_completed",
                                                           "segment_alloc",
                                                           "segment_free",
                                                           "segment_map",
                                                           "segment_unmap",
                                                           "snapshot",
                                                           "oom"});

/// Of a list, differences beyond these say nothing new.
constexpr int kShown = 4;

std::string describe(const TraceEvent& event) {
  const auto action = static_cast<std::size_t>(event.action);
  return fmt::format("{} {:#x} {} bytes, stream {:#x}, pool ({},{})",
                     action < kActions.size() ? kActions[action] : "?",
                     event.address,
                     event.size,
                     event.stream,
                     event.pool.first,
                     event.pool.second);
}

void compare(const Outcome& real, const Outcome& ours, std::string& text) {
  if (real == ours) return;
  const auto add = [&text](std::string_view what, const auto& theirs, const auto& mine) {
    if (theirs != mine) text += fmt::format("  {}: PyTorch {}, policy {}\n", what, theirs, mine);
  };
  add("address", fmt::format("{:#x}", real.address), fmt::format("{:#x}", ours.address));
  add("error", real.error_type, ours.error_type);
  add("error text", "\n    " + real.error_text, "\n    " + ours.error_text);
}

void compare_events(const Observation& real, const Observation& ours, std::string& text) {
  if (real.events == ours.events) return;
  int shown = 0;
  for (std::size_t i = 0; i < std::max(real.events.size(), ours.events.size()); ++i) {
    if (i < real.events.size() && i < ours.events.size() && real.events[i] == ours.events[i]) {
      continue;
    }
    if (++shown > kShown) break;
    const std::string theirs = i < real.events.size() ? describe(real.events[i]) : "-";
    const std::string mine = i < ours.events.size() ? describe(ours.events[i]) : "-";
    text += fmt::format("  event {}: PyTorch {}\n           policy  {}\n", i, theirs, mine);
  }
}

void compare_statistics(const Observation& real, const Observation& ours, std::string& text) {
  for (std::size_t i = 0; i < std::max(real.statistics.size(), ours.statistics.size()); ++i) {
    const auto theirs = i < real.statistics.size() ? real.statistics[i] : -1;
    const auto mine = i < ours.statistics.size() ? ours.statistics[i] : -1;
    // The rest of the counters says nothing new once the current values differ.
    if (theirs == mine || (i % kParts.size() != 0 && text.size() > 200)) continue;
    text += fmt::format("  {}: PyTorch {}, policy {}\n", statistic_name(i), theirs, mine);
  }
  if (real.by_pool == ours.by_pool) return;
  for (const auto* side : {&real, &ours}) {
    for (const PoolReserved& pool : side->by_pool) {
      text += fmt::format("  {} reserved_bytes_by_private_pools ({},{}): {}\n",
                          side == &real ? "PyTorch" : "policy ",
                          pool.pool.first,
                          pool.pool.second,
                          fmt::join(pool.counters, " "));
    }
  }
}

std::string describe(const Observation& observation, std::size_t index) {
  if (index >= observation.segments.size()) return "-";
  const SegmentState& segment = observation.segments[index];
  std::string line = fmt::format("{:#x} {} bytes, {}{}, stream {:#x}, pool ({},{}):",
                                 segment.address,
                                 segment.total_size,
                                 segment.is_large ? "large" : "small",
                                 segment.is_expandable ? ", expandable" : "",
                                 segment.stream,
                                 segment.pool.first,
                                 segment.pool.second);
  for (std::uint32_t i = 0; i < segment.block_count; ++i) {
    const BlockState& block = observation.blocks[segment.first_block + i];
    const char* state = block.is_allocated ? "" : block.is_active ? " pending" : " free";
    line += fmt::format(" [{}{} of {}]", block.size, state, block.requested_size);
  }
  return line;
}

void compare_heaps(const Observation& real, const Observation& ours, std::string& text) {
  if (real.segments == ours.segments && real.blocks == ours.blocks) return;
  int shown = 0;
  for (std::size_t i = 0; i < std::max(real.segments.size(), ours.segments.size()); ++i) {
    const std::string theirs = describe(real, i);
    const std::string mine = describe(ours, i);
    if (theirs != mine && ++shown <= kShown)
      text += fmt::format("  PyTorch {}\n  policy  {}\n", theirs, mine);
  }
}

/// PyTorch walks hash tables of streams and of pools, so what it completes or gives back in one go
/// comes in no order that a rule could give. And what the last holder of an inactive block had
/// asked for depends on which of its parts was freed last.
void normalize(Observation& observation) {
  auto& events = observation.events;
  for (auto run = events.begin(); run != events.end();) {
    const auto end = std::find_if(
        run, events.end(), [run](const TraceEvent& event) { return event.action != run->action; });
    std::sort(run, end);
    run = end;
  }
  for (BlockState& block : observation.blocks) {
    if (!block.is_active) block.requested_size = 0;
  }
}

}  // namespace

std::string statistic_name(std::size_t index) {
  const std::size_t in_arrays = kArrays.size() * kClasses.size() * kParts.size();
  if (index < in_arrays) {
    return fmt::format("{}.{}.{}",
                       kArrays[index / (kClasses.size() * kParts.size())],
                       kClasses[index / kParts.size() % kClasses.size()],
                       kParts[index % kParts.size()]);
  }
  index -= in_arrays;
  if (index < kSingle.size() * kParts.size()) {
    return fmt::format("{}.{}", kSingle[index / kParts.size()], kParts[index % kParts.size()]);
  }
  index -= kSingle.size() * kParts.size();
  return std::string(index < kNumbers.size() ? kNumbers[index] : "?");
}

std::optional<Difference> Comparer::run(const Program& program) {
  std::optional<Difference> difference;
  World world(++programs_);
  PolicySide policy(facts_);
  Observation real;
  Observation ours;
  std::size_t index = 0;
  const auto take = [&](const Operation& operation) {
    const auto step = world.resolve(operation);
    if (!step) return;
    const Outcome real_outcome = native_.run(*step);
    // A request makes its stream the current one even if it fails.
    if (real_outcome.error_type.empty() || operation.kind == OperationKind::kAllocate) {
      world.note(operation, *step, real_outcome.address);
    }
    ++operations_;
    // PyTorch has no way back to "no fraction was ever set".
    if (operation.kind == OperationKind::kSetFraction) facts_.fraction = 1;
    if (difference) return;
    const Outcome our_outcome = policy.run(*step);
    native_.observe(real);
    policy.observe(ours);
    normalize(real);
    normalize(ours);
    std::string text;
    compare(real_outcome, our_outcome, text);
    compare_events(real, ours, text);
    compare_statistics(real, ours, text);
    compare_heaps(real, ours, text);
    if (!text.empty()) difference = Difference{index, std::move(text)};
  };
  for (; index < program.size() && !difference; ++index)
    take(program[index]);
  // One at a time, since each changes what is left to end.
  for (const Operation& operation : world.closing_steps())
    take(operation);
  if (!native_.reset() && !difference) {
    difference = Difference{index, "  PyTorch still holds memory at the end\n"};
  }
  return difference;
}

}  // namespace fragscope::fidelity
