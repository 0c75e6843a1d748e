// SPDX-License-Identifier: Apache-2.0
// A request that is asked about, what the driver could give, and who would have served it. Plain
// data, for those who ask and for those who only show the answers.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/model/heap_state.hpp"

#include <cstdint>
#include <optional>

namespace fragscope::servability {

/// What is asked, again and again.
struct Request {
  std::uint64_t size_bytes = 0;  ///< Rounded.
  model::PoolIndex pool = model::kDefaultPool;
  std::int64_t stream = 0;

  [[nodiscard]] policy::SizeClass size_class() const { return policy::size_class(size_bytes); }
  [[nodiscard]] model::Home home(bool expandable) const {
    return {pool, size_class(), expandable, stream};
  }
};

/// What the driver could give, known at one moment. What others hold of the device is taken not to
/// change: what this allocator gives back becomes free, what it gets was free before.
struct DriverRoom {
  std::uint64_t free_bytes = 0;      ///< At that moment.
  std::uint64_t reserved_bytes = 0;  ///< By this allocator, then.
  std::optional<std::uint64_t> limit_bytes;

  [[nodiscard]] std::uint64_t free_with(std::uint64_t reserved) const {
    const std::uint64_t all = free_bytes + reserved_bytes;
    return all > reserved ? all - reserved : 0;
  }
};

/// Who would have served a request.
enum class Server : std::uint8_t {
  kNobody,
  kHole,  ///< A free run at home: rung 1.
  /// With what is free on the device, once pending frees are waited for and the cache went back:
  /// rungs 2 and 3.
  kDriver,
};

}  // namespace fragscope::servability
