// SPDX-License-Identifier: Apache-2.0
// The dict keys and words of PyTorch's memory snapshots. They are interned first and in this order,
// so that a string's id says at once which key it is. Source: torch/csrc/cuda/memory_snapshot.cpp
// and torch/cuda/memory.py, PyTorch 1.4 to 2.15.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace fragscope::ingest {

enum class Key : std::uint8_t {
  // Divisions come first: the n-th is the bucket of 2^n MiB.
  kDivision1 = 0,
  kDivision32768 = 15,
  // Trace entries; kAction also marks one.
  kAction,
  kAddr,
  kSize,
  kStream,
  kFrames,
  kTimeUs,
  kCompileContext,
  kUserMetadata,
  kPoolId,
  kDeviceFree,
  // Segments and blocks.
  kDevice,
  kAddress,
  kTotalSize,
  kAllocatedSize,
  kActiveSize,
  kRequestedSize,
  kSegmentType,
  kSegmentPoolId,
  kIsExpandable,
  kBlocks,
  kState,
  kHistory,
  kRealSize,
  // Frames.
  kName,
  kFilename,
  kLine,
  // The outermost dict.
  kSegments,
  kDeviceTraces,
  kAllocatorSettings,
  kExternalAnnotations,
  kHostSegments,
  kHostTraces,
  // allocator_settings.
  kConf,
  kMaxSplitSize,
  kExpandableSegments,
  kRoundupDivisions,
  kGraphCaptureReuse,
  kMaxRoundThreshold,
  // External annotations.
  kStage,
  kCount,
};

inline constexpr std::size_t kKeyCount = static_cast<std::size_t>(Key::kCount);

inline constexpr std::array<std::string_view, kKeyCount> kKeyNames = {
    "1",
    "2",
    "4",
    "8",
    "16",
    "32",
    "64",
    "128",
    "256",
    "512",
    "1024",
    "2048",
    "4096",
    "8192",
    "16384",
    "32768",
    "action",
    "addr",
    "size",
    "stream",
    "frames",
    "time_us",
    "compile_context",
    "user_metadata",
    "pool_id",
    "device_free",
    "device",
    "address",
    "total_size",
    "allocated_size",
    "active_size",
    "requested_size",
    "segment_type",
    "segment_pool_id",
    "is_expandable",
    "blocks",
    "state",
    "history",
    "real_size",
    "name",
    "filename",
    "line",
    "segments",
    "device_traces",
    "allocator_settings",
    "external_annotations",
    "host_segments",
    "host_traces",
    "PYTORCH_CUDA_ALLOC_CONF",
    "max_split_size",
    "expandable_segments",
    "roundup_power2_divisions",
    "graph_capture_record_stream_reuse",
    "max_round_threshold",
    "stage",
};

/// A set of keys, one bit each.
using KeySet = std::uint64_t;
static_assert(kKeyCount <= 64, "a key set is one word");

[[nodiscard]] constexpr KeySet bit(Key key) {
  return KeySet{1} << static_cast<unsigned>(key);
}

[[nodiscard]] constexpr std::string_view name_of(Key key) {
  return kKeyNames[static_cast<std::size_t>(key)];
}

/// The values of "action", interned behind the keys, in the order of `model::Action`.
inline constexpr std::array<std::string_view, 10> kActionNames = {
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "oom",
    "snapshot",
    "annotate",
};

}  // namespace fragscope::ingest
