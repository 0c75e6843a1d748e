// SPDX-License-Identifier: Apache-2.0
// The scans on a GPU. Called through `kernels/scans.hpp`, which says what the arguments mean, and
// only after `find_cuda_devices` found one: without a GPU nothing of CUB may be called. A build
// without CUDA has these, too; they fail.
#pragma once

#include "kernels/algorithm/groups.hpp"
#include "kernels/algorithm/servability.hpp"
#include "kernels/algorithm/window.hpp"
#include "kernels/block_table.hpp"
#include "kernels/run_stream.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <span>

namespace fragscope::kernels {

/// The runs of a checked table, into an output in host memory.
[[nodiscard]] Result<void> find_runs_cuda(const BlockTable& table, const RunsOutput& output);

/// Everything that `fill` can fill; all it points to is in host memory.
[[nodiscard]] Result<void> find_servability_cuda(const FillServability& fill);

/// The cheapest window of each segment; `output` has one for each.
[[nodiscard]] Result<void> find_windows_cuda(std::span<const PackedBlock> blocks,
                                             std::span<const std::uint64_t> segment_begins,
                                             std::uint64_t size_bytes,
                                             std::span<Window> output);

/// `stream_runs` with two buffers: one is filled and taken while the other is on the GPU.
[[nodiscard]] Result<void> stream_runs_cuda(const ChunkRoom& room,
                                            const FillChunk& fill,
                                            const TakeRuns& take);

}  // namespace fragscope::kernels
