// SPDX-License-Identifier: Apache-2.0
// Owns blocks. They come in slabs and are used again, so that splitting and merging allocate
// nothing once a heap has reached its size.
#pragma once

#include "allocator/policy/blocks/block.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace fragscope::policy {

class BlockStore {
 public:
  /// A block in its initial state, in no set.
  [[nodiscard]] Block& make() {
    if (spare_.empty()) add_slab();
    Block& block = *spare_.back();
    spare_.pop_back();
    return block;
  }

  /// Every block that is not recycled.
  template <class Visit>
  void visit_used(Visit visit) const {
    for (const auto& slab : slabs_) {
      for (std::size_t i = 0; i < kSlabBlocks; ++i) {
        if (slab[i].size > 0) visit(slab[i]);
      }
    }
  }

  /// How many there are.
  [[nodiscard]] std::size_t used_count() const {
    return slabs_.size() * kSlabBlocks - spare_.size();
  }

  /// The block must be in no set; nobody may refer to it afterwards.
  void recycle(Block& block) {
    block.~Block();
    spare_.push_back(new (&block) Block());
  }

 private:
  static constexpr std::size_t kSlabBlocks = 256;

  void add_slab() {
    slabs_.push_back(std::make_unique<Block[]>(kSlabBlocks));
    spare_.reserve(slabs_.size() * kSlabBlocks);
    for (std::size_t i = kSlabBlocks; i-- > 0;)
      spare_.push_back(&slabs_.back()[i]);
  }

  std::vector<std::unique_ptr<Block[]>> slabs_;
  std::vector<Block*> spare_;
};

}  // namespace fragscope::policy
