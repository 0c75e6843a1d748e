// SPDX-License-Identifier: Apache-2.0
#include "kernels/block_table.hpp"

#include <string>

namespace fragscope::kernels {
namespace {

tl::unexpected<Error> wrong(ErrorCode code, const std::string& what) {
  return failure(code, "block table: " + what);
}

Result<void> check_begins(std::span<const std::uint64_t> begins,
                          std::uint64_t blocks,
                          const char* name) {
  for (std::size_t i = 1; i < begins.size(); ++i) {
    if (begins[i] >= begins[i - 1]) continue;
    return wrong(ErrorCode::kContradictory,
                 std::string(name) + " " + std::to_string(i - 1) + " ends at block " +
                     std::to_string(begins[i]) + ", before it begins at " +
                     std::to_string(begins[i - 1]));
  }
  const std::uint64_t covered = begins.empty() ? 0 : begins.back() - begins.front();
  if (covered == blocks) return {};
  return wrong(ErrorCode::kContradictory,
               std::string(name) + "s cover " + std::to_string(covered) + " blocks of " +
                   std::to_string(blocks));
}

/// Whether no block is empty and their bytes together stay below 2^62. Without a branch on a block,
/// as this runs over everything that is scanned.
bool has_sound_sizes(std::span<const PackedBlock> blocks) {
  std::uint64_t bytes = 0;
  std::uint64_t seen = 0;  // Bits of all sums, and the top bit if a size was 0.
  for (const PackedBlock block : blocks) {
    const std::uint64_t size = block.size_bytes();
    bytes += size;  // Both below 2^62, or bit 62 or 63 has been seen already.
    seen |= bytes | (size - 1);
  }
  return seen <= PackedBlock::kSizeMask;
}

Result<void> check_group(std::span<const PackedBlock> blocks, std::uint64_t group) {
  const bool begins_segment = blocks.empty() || blocks.front().is_first();
  if (begins_segment && has_sound_sizes(blocks)) return {};
  const std::string name = "group " + std::to_string(group);
  if (!begins_segment) {
    return wrong(ErrorCode::kContradictory, name + " does not begin with the first of a segment");
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].size_bytes() > 0) continue;
    return wrong(ErrorCode::kContradictory,
                 "block " + std::to_string(i) + " of " + name + " has no bytes");
  }
  return wrong(ErrorCode::kTooLarge, name + " has 2^62 bytes or more");
}

}  // namespace

Result<void> check_table(const BlockTable& table) {
  if (Result<void> begins = check_begins(table.group_begins, table.blocks.size(), "group");
      !begins) {
    return begins;
  }
  for (std::uint64_t group = 0; group < table.groups(); ++group) {
    if (Result<void> checked = check_group(table.part(group, group + 1).blocks, group); !checked) {
      return checked;
    }
  }
  return {};
}

Result<void> check_segments(const BlockTable& table,
                            std::span<const std::uint64_t> segment_begins) {
  if (Result<void> begins = check_begins(segment_begins, table.blocks.size(), "segment"); !begins) {
    return begins;
  }
  if (segment_begins.empty()) return {};
  const std::uint64_t base = table.group_begins.front();
  if (segment_begins.front() != base) {
    return wrong(ErrorCode::kContradictory,
                 "segments are counted from " + std::to_string(segment_begins.front()) +
                     ", groups from " + std::to_string(base));
  }
  std::size_t segment = 0;
  for (std::uint64_t i = 0; i < table.blocks.size(); ++i) {
    while (segment < segment_begins.size() && segment_begins[segment] - base < i)
      ++segment;
    const bool begins = segment_begins[segment] - base == i;
    if (begins == table.blocks[i].is_first()) continue;
    return wrong(ErrorCode::kContradictory,
                 "block " + std::to_string(i) + (begins ? " is not" : " is") +
                     " the first of a segment, against the segments' begins");
  }
  return {};
}

}  // namespace fragscope::kernels
