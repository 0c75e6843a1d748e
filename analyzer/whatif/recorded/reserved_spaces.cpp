// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/recorded/reserved_spaces.hpp"

#include <absl/container/flat_hash_map.h>

#include <algorithm>

namespace fragscope::whatif {
namespace {

/// Bytes that are mapped of each address space that is there, by its base.
using MappedBytes = absl::flat_hash_map<policy::Address, std::uint64_t>;

MappedBytes mapped_at_start(const Program& program) {
  MappedBytes mapped;
  for (const policy::ImageSegment& segment : program.start.segments) {
    if (segment.page_size == 0) continue;
    std::uint64_t& bytes = mapped[segment.address];
    for (const policy::ImageBlock& block : segment.blocks)
      bytes += block.size;
  }
  return mapped;
}

/// The addresses go with the last page.
void unmap(MappedBytes& mapped, const DeviceCall& call) {
  const auto space = mapped.find(call.base);
  if (space == mapped.end()) return;
  space->second -= std::min(space->second, call.size);
  if (space->second == 0) mapped.erase(space);
}

}  // namespace

ReservedSpaces::ReservedSpaces(const Program& program) {
  MappedBytes mapped = mapped_at_start(program);
  for (const DeviceCall& call : program.device_calls) {
    if (call.kind == DeviceCall::Kind::kUnmap) unmap(mapped, call);
    // Snapshots do not say which space pages belong to.
    if (call.kind != DeviceCall::Kind::kMap || call.base == 0) continue;
    const auto [space, is_first] = mapped.try_emplace(call.base, 0);
    space->second += call.size;
    if (call.op >= program.ops.size()) continue;
    pages_[home_of(program, program.ops[call.op])].push_back({call.op, call.base, is_first});
  }
}

std::optional<policy::Address> ReservedSpaces::of_request(const Program& program,
                                                          std::uint32_t op) const {
  if (op >= program.ops.size()) return std::nullopt;
  const auto home = pages_.find(home_of(program, program.ops[op]));
  if (home == pages_.end()) return std::nullopt;
  const auto next = std::ranges::lower_bound(home->second, op, {}, &Pages::op);
  if (next == home->second.end() || !next->is_first) return std::nullopt;
  return next->base;
}

ReservedSpaces::Home ReservedSpaces::home_of(const Program& program, const Op& op) {
  const std::uint64_t size = policy::round_size(op.bytes, program.conf.rules);
  return {op.pool, op.stream, policy::size_class(size)};
}

}  // namespace fragscope::whatif
