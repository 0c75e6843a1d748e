// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/program/dependence.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace fragscope::whatif {
namespace {

/// A refusal ends most programs: the last one counts only if a request follows.
bool is_survived(const Program& program, std::size_t refusal) {
  const auto rest = std::next(program.ops.begin(), static_cast<std::ptrdiff_t>(refusal) + 1);
  return std::any_of(
      rest, program.ops.end(), [](const Op& op) { return op.kind == OpKind::kAllocate; });
}

}  // namespace

std::vector<Dependence> dependences_of(const Program& program) {
  Dependence refusals{"survived-refusal", "refusals after which the program went on"};
  Dependence releases{"empty-cache", "times the program gave the cache back"};
  std::size_t last_refusal = 0;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const bool is_refusal = op.kind == OpKind::kAllocate && op.failed;
    if (!is_refusal && op.kind != OpKind::kEmptyCache) continue;
    Dependence& kind = is_refusal ? refusals : releases;
    if (kind.count++ == 0) kind.first_event = program.event_of(op);
    if (is_refusal) last_refusal = i;
  }
  if (refusals.count > 0 && !is_survived(program, last_refusal)) --refusals.count;
  std::vector<Dependence> found;
  if (refusals.count > 0) found.push_back(refusals);
  if (releases.count > 0) found.push_back(releases);
  return found;
}

}  // namespace fragscope::whatif
