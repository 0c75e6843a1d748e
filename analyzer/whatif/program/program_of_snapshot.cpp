// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/program/program_of_snapshot.hpp"

#include "analyzer/whatif/program/program_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

namespace fragscope::whatif {
namespace {

using model::Action;
using model::Event;

/// "PyTorch 2.5 to 2.7": the first.
policy::TorchVersion version_of(std::string_view writer) {
  const auto digit = std::min(writer.find_first_of("0123456789"), writer.size());
  return policy::torch_version(writer.substr(digit)).value_or(policy::TorchVersion::kTorch215);
}

class SnapshotReading {
 public:
  SnapshotReading(const model::Recording& recording, const model::Timeline& timeline)
      : recording_(recording)
      , timeline_(timeline) {}

  [[nodiscard]] Program read() {
    Program& program = builder_.program();
    program.version = version_of(recording_.writer);
    program.conf.rules = recording_.settings.rules;
    program.device_bytes = recording_.settings.device_total_bytes.value_or(0);
    program.limit_bytes = recording_.settings.limit_bytes;
    program.conf.per_process_memory_fraction = recording_.settings.memory_fraction.value_or(1);
    take_beginning();
    builder_.set_expandable(recording_.settings.rules.expandable_segments);
    const auto events = timeline_.events();
    for (std::size_t i = 0; i < events.size(); ++i) {
      builder_.at(static_cast<std::uint32_t>(i));
      take(events[i]);
    }
    Program made = builder_.finish();
    add_doubts(made);
    return made;
  }

 private:
  void take_beginning() {
    const std::array target = {timeline_.first_event()};
    timeline_.visit_states_until(target, [this](model::EventIndex, model::HeapState& heap) {
      for (const model::HeapBlock& block : heap.blocks)
        bounded_blocks_ += block.slack_bytes > 0 ? 1 : 0;
      for (const model::HeapSegment& segment : heap.segments)
        held_bytes_ += segment.size_bytes;
      has_beginning_ = !heap.segments.empty();
      unplaced_blocks_ = heap.unplaced_count;
      builder_.begin_with(heap, recording_.pools, recording_.settings.rules);
      return false;
    });
  }

  /// Null if none of what is held at the end has this address.
  [[nodiscard]] const model::Segment* segment_at_the_end(policy::Address address) const {
    const auto key = [](const model::Segment& segment) {
      return std::pair(segment.device, segment.address);
    };
    const auto behind = std::ranges::upper_bound(
        recording_.segments, std::pair(timeline_.device(), address), {}, key);
    if (behind == recording_.segments.begin()) return nullptr;
    const model::Segment& segment = *std::prev(behind);
    const bool holds =
        segment.device == timeline_.device() && address - segment.address < segment.size_bytes;
    return holds ? &segment : nullptr;
  }

  /// The pool of an event; before 2.12 that of the segment, as far as it is there at the end.
  [[nodiscard]] policy::PoolId pool_of(const Event& event) const {
    model::PoolIndex index = event.pool;
    if (index == model::kUnknownPool) {
      const model::Segment* segment = segment_at_the_end(event.address);
      index = segment == nullptr ? model::kDefaultPool : segment->pool;
    }
    const model::PoolId& pool = recording_.pools[model::index_of(index)];
    return {pool.first, pool.second};
  }

  void take(const Event& event) {
    const ProgramBuilder::Home home = {static_cast<policy::StreamId>(event.stream), pool_of(event)};
    switch (event.action) {
      case Action::kAlloc:
        return builder_.allocate(event.address, event.size_bytes, home);
      case Action::kFreeRequested:
        return builder_.free(event.address);
      case Action::kFreeCompleted:
        return builder_.complete(event.address);
      case Action::kOom:
        if (event.has_address) builder_.program().available_bytes = held_bytes_ + event.address;
        return builder_.fail(event.size_bytes, home);
      case Action::kSegmentAlloc:
        return take_device_call(DeviceCall::Kind::kAllocate, event, home);
      case Action::kSegmentFree:
        return take_device_call(DeviceCall::Kind::kFree, event, home);
      case Action::kSegmentMap:
        return take_device_call(DeviceCall::Kind::kMap, event, home);
      case Action::kSegmentUnmap:
        return take_device_call(DeviceCall::Kind::kUnmap, event, home);
      case Action::kSnapshot:
      case Action::kAnnotate:
      case Action::kOther:
        return;
    }
  }

  void take_device_call(DeviceCall::Kind kind,
                        const Event& event,
                        const ProgramBuilder::Home& home) {
    const bool gets = kind == DeviceCall::Kind::kAllocate || kind == DeviceCall::Kind::kMap;
    held_bytes_ = gets ? held_bytes_ + event.size_bytes : held_bytes_ - event.size_bytes;
    builder_.device_call(kind, event.address, event.size_bytes, 0, home.pool);
  }

  void add_doubts(Program& program) const {
    const auto add_if = [&program](std::uint64_t count, const char* what) {
      if (count > 0) program.doubts.push_back(fmt::format("{} {}", count, what));
    };
    if (has_beginning_) {
      program.doubts.emplace_back(
          "the history begins in the middle of the program: which of several free blocks of one "
          "size is the oldest is not known for those that were there before");
    }
    doubt_unknown_ages(program);
    add_if(bounded_blocks_, "blocks of the beginning have a size that is only bounded");
    add_if(unplaced_blocks_, "blocks of the beginning lie in no known segment and are left out");
    add_if(builder_.unknown_frees(), "frees of blocks that nobody had seen handed out");
  }

  const model::Recording& recording_;
  const model::Timeline& timeline_;
  ProgramBuilder builder_;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t bounded_blocks_ = 0;
  std::uint64_t unplaced_blocks_ = 0;
  bool has_beginning_ = false;
};

}  // namespace

Result<Program> program_of_snapshot(const model::Recording& recording,
                                    const model::Timeline& timeline,
                                    model::RoundingRule rule) {
  if (!timeline.has_events()) {
    return failure(ErrorCode::kContradictory,
                   "the snapshot has no history: torch.cuda.memory._record_memory_history() before "
                   "the job's work turns it on");
  }
  if (rule != model::RoundingRule::kCuda && rule != model::RoundingRule::kUntested) {
    return failure(ErrorCode::kContradictory,
                   fmt::format("its writer rounds requests otherwise than PyTorch: {}",
                               model::to_string(rule)));
  }
  Program program = SnapshotReading(recording, timeline).read();
  if (is_sound(program.start)) return program;
  return failure(ErrorCode::kContradictory,
                 "undoing the history leads to blocks that cannot be there together");
}

}  // namespace fragscope::whatif
