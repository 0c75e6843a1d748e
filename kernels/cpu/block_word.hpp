// SPDX-License-Identifier: Apache-2.0
// 64 blocks taken apart: their flags as two words, so that what depends on borders is bit
// arithmetic over all of them at once, and the free bytes in front of each. Used by the run scan on
// the CPU.
#pragma once

#include "kernels/block_table.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace fragscope::kernels {

inline constexpr unsigned kWordBlocks = 64;

/// Bit i, entry i: block i.
struct BlockWord {
  std::uint64_t free = 0;
  std::uint64_t first = 0;
  std::array<std::uint64_t, kWordBlocks> free_before;  ///< Bytes, from wherever one counts.
};

/// Takes apart the `kWordBlocks` blocks from `blocks` on, with `free_bytes` in front of them; adds
/// to it what is free in them.
using UnpackWord = void (*)(const PackedBlock* blocks, std::uint64_t& free_bytes, BlockWord& word);

/// All that this processor runs, the fastest last; they do the same.
[[nodiscard]] std::vector<UnpackWord> unpack_words();

[[nodiscard]] UnpackWord fastest_unpack_word();

}  // namespace fragscope::kernels
