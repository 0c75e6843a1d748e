// SPDX-License-Identifier: Apache-2.0
// Binary buddies: a block is a power of two of grains, lies at a multiple of its size, and merges
// with its other half alone.
#pragma once

#include "analyzer/whatif/arena/arena.hpp"

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <optional>
#include <set>

namespace fragscope::whatif {

class BuddyArena final : public Arena {
 public:
  BuddyArena();

  /// The lowest of the smallest blocks that lie below the capacity.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes,
                                                      std::uint64_t capacity) override;
  void free(std::uint64_t offset) override;
  [[nodiscard]] std::uint64_t block_bytes(std::uint64_t bytes) const override;
  [[nodiscard]] std::uint64_t largest_hole() const override;

 private:
  /// Sizes are kArenaGrain << order; the last is more than any device has.
  static constexpr std::size_t kOrders = 40;
  [[nodiscard]] static std::uint64_t size_of(std::size_t order) { return kArenaGrain << order; }

  std::array<std::set<std::uint64_t>, kOrders> free_;
  absl::flat_hash_map<std::uint64_t, std::size_t> orders_;  // of blocks that are not free
};

}  // namespace fragscope::whatif
