// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/arena/buddy_arena.hpp"

#include <algorithm>
#include <bit>

namespace fragscope::whatif {

BuddyArena::BuddyArena() {
  free_.back().insert(0);
}

std::uint64_t BuddyArena::block_bytes(std::uint64_t bytes) const {
  return std::bit_ceil(std::max(bytes, kArenaGrain));
}

std::optional<std::uint64_t> BuddyArena::allocate(std::uint64_t bytes, std::uint64_t capacity) {
  const std::uint64_t size = block_bytes(bytes);
  const auto wanted = static_cast<std::size_t>(std::countr_zero(size / kArenaGrain));
  for (std::size_t order = wanted; order < kOrders; ++order) {
    if (free_[order].empty() || *free_[order].begin() + size > capacity) continue;
    const std::uint64_t offset = *free_[order].begin();
    free_[order].erase(free_[order].begin());
    while (order > wanted) {
      --order;
      free_[order].insert(offset + size_of(order));
    }
    orders_[offset] = wanted;
    take(offset, size);
    return offset;
  }
  return std::nullopt;
}

void BuddyArena::free(std::uint64_t offset) {
  const auto block = orders_.find(offset);
  std::size_t order = block->second;
  orders_.erase(block);
  give_back(size_of(order));
  while (order + 1 < kOrders && free_[order].erase(offset ^ size_of(order)) > 0) {
    offset &= ~size_of(order);
    ++order;
  }
  free_[order].insert(offset);
}

std::uint64_t BuddyArena::largest_hole() const {
  std::uint64_t largest = 0;
  for (std::size_t order = 0; order < kOrders; ++order) {
    if (free_[order].empty()) continue;
    const std::uint64_t offset = *free_[order].begin();
    if (offset < end()) largest = std::max(largest, std::min(size_of(order), end() - offset));
  }
  return largest;
}

}  // namespace fragscope::whatif
