// SPDX-License-Identifier: Apache-2.0
#include "analyzer/ingest/torch_snapshot.hpp"

#include "allocator/policy/conf/size_options.hpp"
#include "analyzer/ingest/pickle/machine.hpp"
#include "analyzer/ingest/snapshot_builder.hpp"
#include "analyzer/ingest/writer_version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::ingest {
namespace {

constexpr std::int64_t kMaxDevice = 1023;
// The leanest real snapshots; an array reserved too large costs nothing until it is used.
constexpr std::size_t kBytesPerEvent = 75;

std::string hex(std::uint64_t number) {
  return fmt::format("{:#x}", number);
}

std::string segment_name(const model::Segment& segment) {
  return "the segment at " + hex(segment.address) + " of device " + std::to_string(segment.device);
}

tl::unexpected<Error> contradiction(const model::Segment& segment, const std::string& what) {
  return failure(ErrorCode::kContradictory, segment_name(segment) + " " + what);
}

// Puts the segment's blocks behind each other and checks that they tile it. Before 2.1 a block
// carries no address; its place follows from the ones before it.
Result<void> place_blocks(const SnapshotBuilder& builder,
                          const RawSegment& raw,
                          model::Recording& recording) {
  model::Segment segment = raw.segment;
  segment.device = static_cast<std::int32_t>(raw.device);
  segment.first_block = static_cast<std::uint32_t>(recording.blocks.size());
  segment.block_count = raw.blocks.count;
  if (segment.size_bytes > ~std::uint64_t{0} - segment.address) {
    return contradiction(segment, "reaches beyond the last address");
  }
  const std::uint64_t end = segment.address + segment.size_bytes;
  std::uint64_t at = segment.address;
  for (std::uint32_t i = 0; i < raw.blocks.count; ++i) {
    const RawBlock& raw_block = builder.blocks[raw.blocks.first + i];
    model::Block block = raw_block.block;
    if (!raw_block.has_address) block.address = at;
    if (block.address != at) {
      return contradiction(segment,
                           "is not tiled by its blocks: expected one at " + hex(at) + ", found " +
                               hex(block.address));
    }
    if (block.size_bytes == 0 || block.size_bytes > end - at) {
      return contradiction(segment,
                           "is not tiled by its blocks: the one at " + hex(at) + " has " +
                               std::to_string(block.size_bytes) + " bytes, " +
                               std::to_string(end - at) + " are left in the segment");
    }
    if (block.state != model::BlockState::kFree && block.has_requested &&
        block.requested_bytes > block.size_bytes) {
      return contradiction(segment,
                           "has a block at " + hex(at) + " of " + std::to_string(block.size_bytes) +
                               " bytes for a request of " + std::to_string(block.requested_bytes));
    }
    at += block.size_bytes;
    recording.blocks.push_back(block);
  }
  if (at != end) {
    return contradiction(segment,
                         "is not tiled by its blocks: " + std::to_string(end - at) + " of its " +
                             std::to_string(segment.size_bytes) + " bytes belong to none");
  }
  recording.segments.push_back(segment);
  return {};
}

Result<void> place_segments(const SnapshotBuilder& builder,
                            const RawSnapshot& root,
                            model::Recording& recording) {
  recording.segments.reserve(root.segments.count);
  recording.blocks.reserve(builder.blocks.size());
  for (std::uint32_t i = 0; i < root.segments.count; ++i) {
    const RawSegment& raw = builder.segments[root.segments.first + i];
    if (raw.device < 0 || raw.device > kMaxDevice) {
      return failure(ErrorCode::kContradictory,
                     "a segment on device " + std::to_string(raw.device) + "; expected 0 to " +
                         std::to_string(kMaxDevice));
    }
    if (const auto placed = place_blocks(builder, raw, recording); !placed) {
      return tl::unexpected<Error>(placed.error());
    }
  }
  auto& segments = recording.segments;
  std::ranges::stable_sort(segments, {}, [](const model::Segment& segment) {
    return std::pair{segment.device, segment.address};
  });
  for (std::size_t i = 1; i < segments.size(); ++i) {
    const model::Segment& before = segments[i - 1];
    if (before.device == segments[i].device &&
        before.address + before.size_bytes > segments[i].address) {
      return contradiction(segments[i], "overlaps " + segment_name(before));
    }
  }
  return {};
}

Result<void> place_traces(const SnapshotBuilder& builder,
                          const RawSnapshot& root,
                          model::Recording& recording) {
  for (std::uint32_t device = 0; device < root.traces.count; ++device) {
    const RecordRange range = builder.traces()[root.traces.first + device];
    if (range.count == 0) continue;
    if (device > kMaxDevice) {
      return failure(ErrorCode::kContradictory,
                     "a trace of device " + std::to_string(device) + "; expected 0 to " +
                         std::to_string(kMaxDevice));
    }
    recording.traces.push_back({static_cast<std::int32_t>(device), range.first, range.count});
  }
  return {};
}

void read_settings(const RawSettings& raw, model::Recording& recording) {
  model::Settings& settings = recording.settings;
  const policy::SizeOptions options = policy::read_size_options(raw.conf);
  settings.rules = options.rules;
  settings.memory_fraction = options.memory_fraction;
  if (raw.present) {
    settings.conf = raw.conf;
    // The parsed values are what was in force; the string may have been changed at run time.
    settings.rules.expandable_segments = raw.expandable_segments;
    settings.rules.roundup_divisions = raw.roundup_divisions;
    if (raw.max_split_size) {
      settings.rules.max_split_size = *raw.max_split_size < 0
                                          ? policy::kUnlimited
                                          : static_cast<std::uint64_t>(*raw.max_split_size);
    }
    return;
  }
  // Before 2.3 the option is not in the file; an expandable segment shows that it was on.
  settings.rules.expandable_segments = std::ranges::any_of(
      recording.segments, [](const model::Segment& segment) { return segment.expandable; });
}

void note_unknown_actions(const SnapshotBuilder& builder, model::Recording& recording) {
  if (builder.unknown_action_count == 0) return;
  std::string names;
  for (const model::StringId id : builder.unknown_actions) {
    names += (names.empty() ? "" : ", ") + std::string(recording.strings.view(id).substr(0, 40));
  }
  recording.trust.push_back({"unknown-actions",
                             std::to_string(builder.unknown_action_count) +
                                 " trace entries with actions this version does not know (" +
                                 names + ") are skipped; whatever they did to blocks is not seen"});
}

}  // namespace

Result<model::Recording> read_torch_snapshot(std::span<const std::uint8_t> bytes,
                                             const ProgressFn& progress) {
  model::Recording recording;
  SnapshotBuilder builder(recording, bytes.size() / kBytesPerEvent);
  PickleMachine<SnapshotBuilder> machine(bytes, builder);
  const Result<Value> root_value = machine.run(progress);
  if (!root_value) return tl::unexpected<Error>(root_value.error());
  const Result<RawSnapshot> root = builder.finish(*root_value);
  if (!root) return tl::unexpected<Error>(root.error());

  recording.kind = "torch-snapshot";
  recording.input_bytes = bytes.size();
  recording.has_requested_sizes =
      builder.blocks.empty() || (builder.seen_block_keys & bit(Key::kRequestedSize)) != 0;
  recording.writer = writer_version(builder, *root);
  return place_segments(builder, *root, recording)
      .and_then([&] { return place_traces(builder, *root, recording); })
      .map([&] {
        read_settings(root->settings, recording);
        note_unknown_actions(builder, recording);
        recording.event_count = recording.events.size();
        return std::move(recording);
      });
}

}  // namespace fragscope::ingest
