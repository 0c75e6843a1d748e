// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/layout/address_layout.hpp"

#include "allocator/policy/size_rules.hpp"

#include <algorithm>

namespace fragscope::verdict {

void AddressLayout::add_released(std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t first = policy::round_up(begin, page_bytes_);
  const std::uint64_t last = end / page_bytes_ * page_bytes_;
  if (last <= first) return add_free(begin, end);
  add_free(begin, first);
  add_unmapped(last - first);
  add_free(last, end);
}

bool AddressLayout::has_unmapped() const {
  return std::ranges::find(stretches_, Kind::kUnmapped, &Stretch::kind) != stretches_.end();
}

std::uint64_t AddressLayout::pages_to_map(std::uint64_t size) const {
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    if (stretches_[i].kind != Kind::kUnmapped) continue;
    const bool has_free_in_front = i > 0 && stretches_[i - 1].kind == Kind::kFree;
    std::uint64_t total = has_free_in_front ? stretches_[i - 1].bytes : 0;
    std::uint64_t mapped = 0;
    std::size_t j = i;
    for (; j < stretches_.size() && stretches_[j].kind != Kind::kUsed; ++j) {
      if (total >= size) break;
      const std::uint64_t use = std::min(stretches_[j].bytes, size - total);
      total += use;
      if (stretches_[j].kind == Kind::kUnmapped) mapped += policy::round_up(use, page_bytes_);
    }
    if (total >= size) return mapped;
    i = j;  // From any later place in this run even less adds up.
  }
  return policy::round_up(size, page_bytes_);
}

}  // namespace fragscope::verdict
