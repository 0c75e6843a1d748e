// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/inspect/heap_check.hpp"

#include <fmt/format.h>

#include <array>
#include <map>

namespace fragscope::policy {
namespace {

/// Sums over all blocks of a class, by the definitions of the statistics.
struct Sums {
  std::int64_t allocation = 0;
  std::int64_t allocated_bytes = 0;
  std::int64_t active = 0;
  std::int64_t active_bytes = 0;
  std::int64_t requested_bytes = 0;
  std::int64_t segment = 0;
  std::int64_t reserved_bytes = 0;
  std::int64_t inactive_split = 0;
  std::int64_t inactive_split_bytes = 0;
};

class HeapChecker {
 public:
  explicit HeapChecker(const CachingPolicy& policy)
      : policy_(policy)
      , blocks_(policy.blocks()) {}

  [[nodiscard]] std::string run() {
    const Block* below = nullptr;
    for (const Block* block : blocks_) {
      check_block(*block);
      check_neighbours(*block);
      expect(below == nullptr || block->address - below->address >= below->size,
             *block,
             "overlaps the one below");
      add(*block);
      below = block;
    }
    check_sets();
    check_statistics();
    return broken_;
  }

 private:
  void expect(bool holds, const Block& block, std::string_view what) {
    if (holds || !broken_.empty()) return;
    broken_ = fmt::format("block of {} bytes at {:#x} (stream {}): {}",
                          block.size,
                          block.address,
                          block.stream,
                          what);
  }

  void check_block(const Block& block) {
    expect(block.size > 0, block, "has no size");
    expect(block.size % kMinBlockSize == 0, block, "is no multiple of 512 bytes");
    expect(block.pool != nullptr, block, "has no pool");
    expect(block.mapped || block.is_free(), block, "is in use without memory behind it");
    expect(block.mapped || block.expandable != nullptr, block, "is unmapped in a plain segment");
    expect(!block.allocated || block.open_events == 0, block, "is handed out and pending");
    expect(!block.allocated || block.requested_size <= block.size, block, "is too small");
    expect(block.allocated == (policy_.find(block.address) == &block),
           block,
           "is not what its address says");
  }

  void check_neighbours(const Block& block) {
    const Block* next = block.next;
    if (next == nullptr) return;
    expect(next->prev == &block, block, "is not its next one's neighbour");
    expect(
        block.address + block.size == next->address, block, "does not end where the next starts");
    expect(block.pool == next->pool && block.stream == next->stream &&
               block.expandable == next->expandable,
           block,
           "is of another home than the next");
    expect(!block.is_free() || !next->is_free() || block.mapped != next->mapped,
           block,
           "should have been merged with the next");
  }

  void add(const Block& block) {
    Sums& sums = sums_[static_cast<std::size_t>(block.pool->size_class())];
    const auto size = static_cast<std::int64_t>(block.size);
    if (block.prev == nullptr && block.expandable == nullptr) ++sums.segment;
    if (!block.mapped) {
      ++unmapped_[block.pool];
      return;
    }
    sums.reserved_bytes += size;
    if (block.allocated) {
      ++sums.allocation;
      sums.allocated_bytes += size;
    }
    if (!block.is_free()) {
      ++sums.active;
      sums.active_bytes += size;
      sums.requested_bytes += static_cast<std::int64_t>(block.requested_size);
      return;
    }
    ++free_[block.pool];
    if (block.is_split() && block.expandable == nullptr) {
      ++sums.inactive_split;
      sums.inactive_split_bytes += size;
    }
  }

  void check_sets() {
    for (const auto& [pool, count] : free_) {
      if (pool->free_blocks().size() != count && broken_.empty()) {
        broken_ = fmt::format(
            "a pool's set has {} free blocks, its segments {}", pool->free_blocks().size(), count);
      }
    }
    for (const auto& [pool, count] : unmapped_) {
      if (pool->unmapped_blocks().size() != count && broken_.empty()) {
        broken_ = "a pool's set of unmapped blocks is not what its segments have";
      }
    }
  }

  void expect_equal(std::string_view name, const ClassCounters& counted, std::int64_t Sums::*sum) {
    const std::array<std::int64_t, 2> sums = {sums_[0].*sum, sums_[1].*sum};
    const bool holds = counted.by_class[0].current == sums[0] &&
                       counted.by_class[1].current == sums[1] &&
                       counted.all.current == sums[0] + sums[1];
    if (holds || !broken_.empty()) return;
    broken_ = fmt::format("{}: counted {} small and {} large, the blocks have {} and {}",
                          name,
                          counted.by_class[0].current,
                          counted.by_class[1].current,
                          sums[0],
                          sums[1]);
  }

  void check_statistics() {
    const Statistics& s = policy_.statistics();
    expect_equal("allocation", s.allocation, &Sums::allocation);
    expect_equal("allocated_bytes", s.allocated_bytes, &Sums::allocated_bytes);
    expect_equal("active", s.active, &Sums::active);
    expect_equal("active_bytes", s.active_bytes, &Sums::active_bytes);
    expect_equal("requested_bytes", s.requested_bytes, &Sums::requested_bytes);
    expect_equal("segment", s.segment, &Sums::segment);
    expect_equal("reserved_bytes", s.reserved_bytes, &Sums::reserved_bytes);
    expect_equal("inactive_split", s.inactive_split, &Sums::inactive_split);
    expect_equal("inactive_split_bytes", s.inactive_split_bytes, &Sums::inactive_split_bytes);
    const auto held = static_cast<std::int64_t>(policy_.held_bytes());
    if (held != s.reserved_bytes.all.current && broken_.empty()) {
      broken_ = "what is held is not what is counted as reserved";
    }
  }

  const CachingPolicy& policy_;
  std::vector<const Block*> blocks_;
  std::array<Sums, 2> sums_{};
  std::map<BlockPool*, std::size_t> free_;
  std::map<BlockPool*, std::size_t> unmapped_;
  std::string broken_;
};

}  // namespace

std::string broken_invariant(const CachingPolicy& policy) {
  return HeapChecker(policy).run();
}

}  // namespace fragscope::policy
