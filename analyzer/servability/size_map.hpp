// SPDX-License-Identifier: Apache-2.0
// What would have served requests of many sizes at many moments of a history, and how much would
// have had to move for one of them. The heaps of all moments are scanned at once (`kernels/`), on
// the CPU or on a GPU. Result of `find_size_map`; plain data.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/model/history.hpp"
#include "analyzer/servability/moment.hpp"
#include "kernels/scans.hpp"
#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fragscope::servability {

/// The first of these that would have served a request.
enum class Means : std::uint8_t {
  kHole,    ///< A free run at home, the oversize rules aside.
  kDriver,  ///< With what is free on the device once the cache went back.
  /// All that is free or pending at home put together, with what the driver could give: rung 6.
  kCompaction,
  kNothing,
};

/// Where the answers of one moment are asked.
struct MapMoment {
  model::EventIndex behind = 0;    ///< The event; the heap is the one it left.
  std::uint64_t driver_bytes = 0;  ///< What the driver could give, the cache given back.
  std::uint64_t home_bytes = 0;    ///< Free or pending at home, in whatever pieces.
  /// The part of `driver_bytes` that is not among `home_bytes`.
  std::uint64_t elsewhere_bytes = 0;
  /// The least live bytes in a range of one segment at home that could hold the watched request;
  /// none: no segment is large enough.
  std::optional<std::uint64_t> move_bytes;
};

struct SizeMap {
  std::vector<std::uint64_t> sizes;  ///< Rising, rounded as the allocator does.
  std::vector<MapMoment> moments;    ///< In order, only those whose heap is known.
  std::vector<Means> means;          ///< One row of moments for each size.
  kernels::DeviceChoice ran;         ///< Where the scans ran, and why there.

  [[nodiscard]] Means means_for(std::size_t size, std::size_t moment) const {
    return means[size * moments.size() + moment];
  }
};

/// `sizes` rise and are of the class of the watched request, which names pool and stream, too.
/// `targets` rise; each stands for the heap before that event. In expandable segments the driver's
/// answers count whole pages, so that a request which starts in a free tail may be served although
/// the map says no. Fails as the scans do: no GPU where one was asked for. Cost: one walk over the
/// history, and eight bytes of work for each block at home at each target; blocks are scanned in
/// batches, so that memory does not grow with the targets.
[[nodiscard]] Result<SizeMap> find_size_map(const model::History& history,
                                            const Watch& watch,
                                            std::vector<std::uint64_t> sizes,
                                            std::span<const model::EventIndex> targets,
                                            const policy::SizeRules& rules,
                                            kernels::Device device);

}  // namespace fragscope::servability
