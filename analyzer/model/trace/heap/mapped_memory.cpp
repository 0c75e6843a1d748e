// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/trace/heap/mapped_memory.hpp"

#include <iterator>

namespace fragscope::model {

bool MappedMemory::add(AddressRange range, std::uint64_t base) {
  std::uint64_t start = range.address;
  std::uint64_t end = range.address + range.size;
  auto behind = pieces_.upper_bound(start);
  if (behind != pieces_.end() && behind->first < end) return false;
  const auto front = behind == pieces_.begin() ? pieces_.end() : std::prev(behind);
  if (front != pieces_.end() && front->second.end > start) return false;

  if (behind != pieces_.end() && behind->first == end && behind->second.base == base) {
    end = behind->second.end;
    pieces_.erase(behind);
  }
  if (front != pieces_.end() && front->second.end == start && front->second.base == base) {
    start = front->first;
  }
  pieces_[start] = {end, base};
  return true;
}

bool MappedMemory::remove(AddressRange range) {
  const std::uint64_t end = range.address + range.size;
  auto found = pieces_.upper_bound(range.address);
  if (found == pieces_.begin()) return false;
  --found;
  const Piece piece = found->second;
  if (piece.end < end) return false;
  if (found->first == range.address) {
    pieces_.erase(found);
  } else {
    found->second.end = range.address;
  }
  if (piece.end > end) pieces_[end] = piece;
  return true;
}

void MappedMemory::move_base(std::uint64_t from, std::uint64_t to) {
  for (auto& [start, piece] : pieces_) {
    if (piece.base == from) piece.base = to;
  }
}

}  // namespace fragscope::model
