// SPDX-License-Identifier: Apache-2.0
// Reads a memory snapshot as PyTorch writes it (torch.cuda.memory._dump_snapshot, _snapshot,
// memory_snapshot; the bare list of 1.x up to 2.15) into a `Recording`, and checks that it can be
// true: blocks tile their segments, segments do not overlap.
#pragma once

#include "analyzer/ingest/input.hpp"
#include "analyzer/recording/recording.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <span>

namespace fragscope::ingest {

/// Fails: damaged or foreign pickle (byte offset), contradictory segments. Cost: one pass; memory
/// follows what is kept, about half the file. The bytes are not referred to afterwards.
[[nodiscard]] Result<model::Recording> read_torch_snapshot(std::span<const std::uint8_t> bytes,
                                                           const ProgressFn& progress = {});

}  // namespace fragscope::ingest
