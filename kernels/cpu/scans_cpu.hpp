// SPDX-License-Identifier: Apache-2.0
// The scans on the CPU. They define the answers; the CUDA forms must equal them. Called through
// `kernels/scans.hpp`, which says what the arguments mean.
#pragma once

#include "kernels/algorithm/groups.hpp"
#include "kernels/algorithm/servability.hpp"
#include "kernels/algorithm/window.hpp"
#include "kernels/block_table.hpp"

#include <cstdint>
#include <span>

namespace fragscope::kernels {

/// The runs of a checked table, into an output that is zero.
void find_runs_cpu(const BlockTable& table, unsigned threads, const RunsOutput& output);

/// Everything that `fill` can fill.
void find_servability_cpu(const FillServability& fill, unsigned threads);

/// The cheapest window of each segment; `output` has one for each.
void find_windows_cpu(std::span<const PackedBlock> blocks,
                      std::span<const std::uint64_t> segment_begins,
                      std::uint64_t size_bytes,
                      unsigned threads,
                      std::span<Window> output);

}  // namespace fragscope::kernels
