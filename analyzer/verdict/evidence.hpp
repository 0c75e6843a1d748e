// SPDX-License-Identifier: Apache-2.0
// What stands in the way, and who holds the memory. Pins: the cheapest range that could hold the
// request if the fewest live bytes moved. Holders: live memory by the stack that allocated it.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/verdict/question.hpp"
#include "analyzer/verdict/supply.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace fragscope::verdict {

struct PinnedBlock {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  model::StackId stack = model::kNoStack;
  bool pending = false;
};

struct Pins {
  /// False: a window inside one segment at home. True: clearing whole segments costs less; these
  /// segments, with few live bytes, would have to go back to the driver.
  bool whole_segments = false;
  std::uint64_t address = 0;       ///< Start of the window, or of the lowest segment.
  std::uint64_t window_bytes = 0;  ///< Length of the window, or of the segments together.
  std::uint64_t segments = 1;
  std::uint64_t live_bytes = 0;       ///< Live and pending bytes that would have to move.
  std::uint64_t placeable_bytes = 0;  ///< Of these, bytes that holes elsewhere at home can take.
  std::vector<PinnedBlock> blocks;    ///< All that would have to move, largest first.
  std::uint64_t block_count = 0;      ///< How many, also where only the first are kept.

  void keep_first(std::size_t count) {
    if (blocks.size() <= count) return;
    blocks.resize(count);
    blocks.shrink_to_fit();
  }
};

/// Empty if a hole at home holds the request already, or nothing at home could ever hold it.
/// Cost: one pass over the blocks at home, and a sort of the holes there.
[[nodiscard]] std::optional<Pins> find_pins(const model::HeapState& state,
                                            const Question& question,
                                            const Supply& supply,
                                            const DeviceFacts& facts);

struct Holder {
  model::StackId stack = model::kNoStack;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

/// Live memory by stack, most bytes first.
[[nodiscard]] std::vector<Holder> find_holders(const model::HeapState& state);

}  // namespace fragscope::verdict
