// SPDX-License-Identifier: Apache-2.0
// What a heap could offer to one request: holes at home and elsewhere, bytes that could go back to
// the driver, and what the driver must give. One pass over the blocks; `ladder` judges it.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/verdict/question.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace fragscope::verdict {

/// Why a hole large enough is not for this request; a bit each.
enum class Barrier : std::uint8_t {
  kStream = 1,       ///< Its segment belongs to another stream.
  kClass = 2,        ///< Its segment is of the other class.
  kPool = 4,         ///< Its segment belongs to another pool.
  kPending = 8,      ///< Part of it waits for an event.
  kOversize = 16,    ///< max_split_size forbids it.
  kExpandable = 32,  ///< In an expandable segment, while the option is off.
};
inline constexpr std::size_t kBarrierSets = 64;
using BarrierSet = std::uint8_t;

/// A free block at home that may serve the request by size.
struct HomeHole {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;  ///< Upper end of its bounds.
  std::uint32_t slack_bytes = 0;
  bool expandable = false;
  bool pool_assumed = false;  ///< Nobody knows the pool of its segment; it may not be at home.
  std::uint64_t unmapped_behind = 0;  ///< Address space that could still be mapped behind it.
};

struct Supply {
  std::uint64_t reserved_bytes = 0;
  Bounds live_bytes;
  Bounds free_bytes;  ///< On the whole device, all pools, classes and streams.
  Bounds pending_bytes;
  Bounds largest_hole_bytes;  ///< At home.
  Bounds home_free_bytes;
  Bounds home_pending_bytes;
  std::uint64_t home_releasable_bytes = 0;  ///< The part of releasable_bytes that lies at home.
  /// Could go back to the driver: sure, and if nobody holds the private pools it lies in.
  Bounds releasable_bytes;
  std::vector<HomeHole> home_holes;  ///< Those of at least S (by their upper end).
  /// By set of barriers: the largest hole of at least S behind exactly these.
  std::array<Bounds, kBarrierSets> behind_barriers{};

  /// What the driver must give: now; after releasing (an expandable tail goes back too). And what
  /// the rungs that count every free byte must reach: for an expandable request S itself, since its
  /// tail is among those bytes, and borders of pages are ignored there as those of segments are.
  std::uint64_t need_now_bytes = 0;
  std::uint64_t need_released_bytes = 0;
  std::uint64_t need_whole_bytes = 0;
  /// What the limit is checked against: the device allocation, even for an expandable request.
  std::uint64_t limit_need_bytes = 0;
  bool expandable_on = false;  ///< Whether holes in expandable segments may serve the request.
};

[[nodiscard]] Supply find_supply(const model::HeapState& state,
                                 const Question& question,
                                 const policy::SizeRules& rules);

}  // namespace fragscope::verdict
