// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/comparison.hpp"

#include "tests/fidelity/sides/native_side.hpp"
#include "tests/fidelity/sides/policy_side.hpp"
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

/// Whether frees of several streams were completed at once; see `normalize`.
bool completes_in_any_order(const Observation& observation) {
  const auto is_completed = [](const TraceEvent& event) {
    return event.action == Action::kFreeCompleted;
  };
  return std::ranges::count_if(observation.events, is_completed) > 1;
}

/// How often and when blocks became split ones, which depends on the order in which their
/// neighbours were freed.
bool depends_on_order(std::size_t statistic) {
  const std::string name = statistic_name(statistic);
  return name.starts_with("inactive_split") && !name.ends_with("current");
}

void compare_statistics(const Observation& real,
                        const Observation& ours,
                        bool is_order_known,
                        std::string& text) {
  for (std::size_t i = 0; i < std::max(real.statistics.size(), ours.statistics.size()); ++i) {
    const auto theirs = i < real.statistics.size() ? real.statistics[i] : -1;
    const auto mine = i < ours.statistics.size() ? ours.statistics[i] : -1;
    if (theirs != mine && !is_order_known && depends_on_order(i)) continue;
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
  const auto kind = [](const TraceEvent& event) {
    return event.action == Action::kSegmentUnmap ? Action::kSegmentFree : event.action;
  };
  for (auto run = events.begin(); run != events.end();) {
    const auto end = std::find_if(
        run, events.end(), [&](const TraceEvent& event) { return kind(event) != kind(*run); });
    std::sort(run, end);
    run = end;
  }
  for (BlockState& block : observation.blocks) {
    if (!block.is_active) block.requested_size = 0;
  }
}

DeviceFacts facts_of(NativeAllocator& allocator) {
  constexpr unsigned kStreams = 5;
  DeviceFacts facts;
  facts.total_bytes = allocator.device_total();
  facts.context_bytes = facts.total_bytes - allocator.device_free_bytes();
  for (unsigned stream = 0; stream < kStreams; ++stream)
    facts.streams.push_back(allocator.stream_handle(stream));
  if (std::string_view(allocator.version()).starts_with("2.6")) {
    facts.version = policy::TorchVersion::kTorch26;
  }
  return facts;
}

/// Both sides, and what the program made on them.
class Run {
 public:
  explicit Run(NativeAllocator& allocator)
      : native_(allocator)
      , policy_(facts_of(allocator)) {}

  /// False if the sides differ after the operation; then `text` says how.
  [[nodiscard]] bool take(const Operation& operation, std::string& text) {
    const auto step = world_.resolve(operation);
    if (!step) return true;
    const Outcome real_outcome = native_.run(*step);
    const Outcome our_outcome = policy_.run(*step);
    ++operations_;
    // A request makes its stream the current one even if it fails.
    if (real_outcome.error_type.empty() || operation.kind == OperationKind::kAllocate) {
      world_.note(operation, *step, real_outcome.address);
    }
    native_.observe(real_);
    policy_.observe(ours_);
    normalize(real_);
    normalize(ours_);
    compare(real_outcome, our_outcome, text);
    compare_events(real_, ours_, text);
    if (completes_in_any_order(real_)) is_order_known_ = false;
    compare_statistics(real_, ours_, is_order_known_, text);
    compare_heaps(real_, ours_, text);
    if (text.empty()) return true;
    text = fmt::format("  {}\n{}", to_string(operation), text);
    return false;
  }

  [[nodiscard]] Program closing_steps() const { return world_.closing_steps(); }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }

 private:
  World world_;
  NativeSide native_;
  PolicySide policy_;
  Observation real_;
  Observation ours_;
  bool is_order_known_ = true;
  std::uint64_t operations_ = 0;
};

}  // namespace

Comparison compare(const Program& program, NativeAllocator& allocator) {
  Run run(allocator);
  Comparison result;
  std::string text;
  const auto take_all = [&](const Program& part, std::size_t first_index, bool counts) {
    for (std::size_t i = 0; i < part.size() && !result.difference; ++i) {
      if (!run.take(part[i], text)) result.difference = {first_index + (counts ? i : 0), text};
    }
  };
  take_all(program, 0, true);
  if (!result.difference) take_all(run.closing_steps(), program.size(), false);
  result.operations = run.operations();
  return result;
}

}  // namespace fragscope::fidelity
