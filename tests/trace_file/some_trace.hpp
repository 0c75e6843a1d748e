// SPDX-License-Identifier: Apache-2.0
// A small trace with everything in it: a table, records in two chunks, a failure, a keyframe.
#pragma once

#include "tests/support/trace_builder.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fragscope::test {

inline constexpr std::uint64_t kBase = 0x200000000000;
inline constexpr std::uint64_t kSegment = std::uint64_t{2} << 20;

inline TableBuilder some_table() {
  TableBuilder table;
  table.text("step");
  table.text("train.py");
  const std::uint32_t frames[] = {table.frame({1, 2, 12})};
  table.stack(frames);
  table.stream(0x55);
  table.pool({1, 0});
  return table;
}

/// A segment, a block of 512 bytes in it, and a request that fails.
inline std::vector<trace::Record> some_records() {
  using trace::RecordKind;
  return {record(RecordKind::kSegmentAlloc, {kBase, kSegment, 0}),
          record(RecordKind::kSplit, {kBase, 512, kSegment - 512}),
          record(RecordKind::kAlloc, {kBase, 512, 100}),
          record(RecordKind::kOutOfMemory, {1024, kSegment * 2, kSegment * 2 - 1}, 1)};
}

/// The heap that those leave, as a keyframe, and the same request again.
inline std::vector<trace::Record> some_keyframe() {
  using trace::RecordKind;
  return {
      record(RecordKind::kKeyframeBegin, {4, 2, kSegment}),
      record(
          RecordKind::kKeyframeBlock, {kBase, 512, 100}, trace::kFlagFirst | trace::kFlagAllocated),
      record(RecordKind::kKeyframeBlock, {kBase + 512, kSegment - 512, 0}),
      record(RecordKind::kKeyframeEnd, {4, 2, 0}),
      record(RecordKind::kOutOfMemory, {1024, kSegment * 2, kSegment * 2 - 1}, 1)};
}

/// Nine records in two chunks.
inline Bytes some_trace(trace::ChunkCodec codec) {
  TraceBuilder builder(trace_header(), codec);
  builder.table(some_table()).records(numbered(some_records()));
  return builder.records(numbered(some_keyframe(), 4)).end().bytes();
}

}  // namespace fragscope::test
