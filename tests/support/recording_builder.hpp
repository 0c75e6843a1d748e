// SPDX-License-Identifier: Apache-2.0
// Recordings made by hand, and heap states as text to compare them with: "@100M L4M P2M H14M" is a
// segment at 100 MiB with a live block, a pending one and a hole; "L4M~1M" may be up to 1 MiB
// longer. Sizes that are no whole MiB are given in KiB, or in bytes. Used by the tests of the
// model.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/model/timeline.hpp"
#include "analyzer/recording/recording.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::testing {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;

/// What a segment is, apart from its blocks.
struct SegmentSpec {
  std::uint64_t address = 0;
  model::SizeClass size_class = model::SizeClass::kLarge;
  bool expandable = false;
  std::int64_t stream = 0;
  std::int32_t device = 0;
  model::PoolIndex pool = model::kDefaultPool;
};

/// A block of the end; its address follows from those before it.
struct BlockSpec {
  model::BlockState state = model::BlockState::kFree;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
};

[[nodiscard]] inline BlockSpec live(std::uint64_t size, std::uint64_t requested) {
  return {model::BlockState::kLive, size, requested};
}
[[nodiscard]] inline BlockSpec live(std::uint64_t size) {
  return live(size, size);
}
[[nodiscard]] inline BlockSpec pending(std::uint64_t size) {
  return {model::BlockState::kPending, size, size};
}
[[nodiscard]] inline BlockSpec hole(std::uint64_t size) {
  return {model::BlockState::kFree, size, 0};
}

class RecordingBuilder {
 public:
  RecordingBuilder& segment(const SegmentSpec& spec, const std::vector<BlockSpec>& blocks) {
    segments_.emplace_back(spec, blocks);
    return *this;
  }
  /// The device that the following events belong to.
  RecordingBuilder& on_device(std::int32_t device) {
    device_ = device;
    return *this;
  }
  RecordingBuilder& event(const model::Event& event) {
    events_[device_].push_back(event);
    return *this;
  }
  RecordingBuilder& event(model::Action action, std::uint64_t address, std::uint64_t size) {
    model::Event added;
    added.action = action;
    added.address = address;
    added.size_bytes = size;
    added.has_address = true;
    return event(added);
  }
  RecordingBuilder& alloc(std::uint64_t address, std::uint64_t size) {
    return event(model::Action::kAlloc, address, size);
  }
  RecordingBuilder& free_requested(std::uint64_t address, std::uint64_t size) {
    return event(model::Action::kFreeRequested, address, size);
  }
  RecordingBuilder& free_completed(std::uint64_t address, std::uint64_t size) {
    return event(model::Action::kFreeCompleted, address, size);
  }
  /// Both entries of a free without use on another stream.
  RecordingBuilder& free(std::uint64_t address, std::uint64_t size) {
    return free_requested(address, size).free_completed(address, size);
  }
  RecordingBuilder& segment_alloc(std::uint64_t address, std::uint64_t size) {
    return event(model::Action::kSegmentAlloc, address, size);
  }
  RecordingBuilder& segment_free(std::uint64_t address, std::uint64_t size) {
    return event(model::Action::kSegmentFree, address, size);
  }
  RecordingBuilder& map(std::uint64_t address, std::uint64_t size) {
    return event(model::Action::kSegmentMap, address, size);
  }
  RecordingBuilder& unmap(std::uint64_t address, std::uint64_t size) {
    return event(model::Action::kSegmentUnmap, address, size);
  }
  RecordingBuilder& rules(const policy::SizeRules& rules) {
    rules_ = rules;
    return *this;
  }

  [[nodiscard]] model::Recording build() {
    model::Recording recording;
    recording.settings.rules = rules_;
    std::ranges::sort(segments_, {}, [](const auto& each) {
      return std::pair{each.first.device, each.first.address};
    });
    for (const auto& [spec, blocks] : segments_)
      add_segment(recording, spec, blocks);
    for (const auto& [device, events] : events_) {
      recording.traces.push_back({device,
                                  static_cast<std::uint32_t>(recording.events.size()),
                                  static_cast<std::uint32_t>(events.size())});
      recording.events.insert(recording.events.end(), events.begin(), events.end());
    }
    return recording;
  }

 private:
  static void add_segment(model::Recording& recording,
                          const SegmentSpec& spec,
                          const std::vector<BlockSpec>& blocks) {
    model::Segment added;
    added.address = spec.address;
    added.stream = spec.stream;
    added.device = spec.device;
    added.pool = spec.pool;
    added.size_class = spec.size_class;
    added.expandable = spec.expandable;
    added.first_block = static_cast<std::uint32_t>(recording.blocks.size());
    added.block_count = static_cast<std::uint32_t>(blocks.size());
    for (const BlockSpec& each : blocks) {
      model::Block block;
      block.address = spec.address + added.size_bytes;
      block.size_bytes = each.size_bytes;
      block.requested_bytes = each.requested_bytes;
      block.state = each.state;
      block.has_requested = true;
      added.size_bytes += each.size_bytes;
      recording.blocks.push_back(block);
    }
    recording.segments.push_back(added);
  }

  std::vector<std::pair<SegmentSpec, std::vector<BlockSpec>>> segments_;
  std::map<std::int32_t, std::vector<model::Event>> events_;
  std::int32_t device_ = 0;
  policy::SizeRules rules_;
};

/// "4M", "512K", "100".
[[nodiscard]] inline std::string show_size(std::uint64_t bytes) {
  if (bytes % kMiB == 0) return std::to_string(bytes / kMiB) + "M";
  if (bytes % kKiB == 0) return std::to_string(bytes / kKiB) + "K";
  return std::to_string(bytes);
}

/// One segment after the other, in one line.
[[nodiscard]] inline std::string show(const model::HeapState& state) {
  std::string text;
  for (const model::HeapSegment& segment : state.segments) {
    text += (text.empty() ? "@" : " @") + show_size(segment.address);
    for (const model::HeapBlock& block : state.blocks_of(segment)) {
      const char letter = block.state == model::BlockState::kLive      ? 'L'
                          : block.state == model::BlockState::kPending ? 'P'
                                                                       : 'H';
      text += std::string(" ") + letter + show_size(block.size_bytes);
      if (block.slack_bytes > 0) text += "~" + show_size(block.slack_bytes);
    }
  }
  return text;
}

/// Calls `use` with the state before each of `targets`.
template <class Use>
void visit_states(const model::Timeline& timeline,
                  const std::vector<model::EventIndex>& targets,
                  Use use) {
  timeline.visit_states_until(targets, [&use](model::EventIndex target, model::HeapState& state) {
    use(target, std::as_const(state));
    return true;
  });
}

/// The state before each event, and the one after the last.
[[nodiscard]] inline std::vector<std::string> states_of(const model::Timeline& timeline) {
  std::vector<model::EventIndex> targets;
  for (model::EventIndex target = 0; target <= timeline.event_count(); ++target)
    targets.push_back(target);
  std::vector<std::string> states;
  visit_states(timeline, targets, [&](model::EventIndex, const model::HeapState& state) {
    states.push_back(show(state));
  });
  return states;
}

[[nodiscard]] inline std::vector<std::string> states_of(const model::Recording& recording,
                                                        std::int32_t device = 0) {
  return states_of(model::Timeline(recording, device, model::RoundingRule::kCuda));
}

}  // namespace fragscope::testing
