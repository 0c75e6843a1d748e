// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/recorded/settle.hpp"

#include "analyzer/whatif/recorded/recorded_device.hpp"
#include "analyzer/whatif/replay.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fragscope::whatif {
namespace {

bool is_open(const Op& op) {
  return op.kind == OpKind::kRelease || (op.kind == OpKind::kAllocate && op.failed);
}

/// What the recording shows of a refused request.
struct Refusal {
  bool gave_back = false;  ///< Memory went back to the driver for it,
  bool waited = false;     ///< and pending frees became complete.
};

Refusal refusal_at(const Program& program, std::size_t op) {
  const auto call = std::ranges::lower_bound(
      program.device_calls, static_cast<std::uint32_t>(op), {}, &DeviceCall::op);
  const bool is_after_release = op > 0 && program.ops[op - 1].kind == OpKind::kRelease;
  std::size_t next = op + 1;
  while (next < program.ops.size() && program.ops[next].kind == OpKind::kUsePool)
    ++next;
  const bool waited = next < program.ops.size() && program.ops[next].kind == OpKind::kComplete &&
                      program.ops[next].event == program.ops[op].event;
  return {is_after_release || (call != program.device_calls.end() && call->op == op), waited};
}

/// Whether a miss outside of a capture would give something back, or wait for something.
bool would_act(const policy::CachingPolicy& policy, const Refusal& refusal) {
  bool found = false;
  policy.visit_blocks([&](const policy::Block& block) {
    const bool is_pending = !block.allocated && block.open_events > 0;
    const bool is_idle = block.is_free() && block.mapped && block.pool->owner() == nullptr;
    const bool is_whole = block.expandable == nullptr
                              ? !block.is_split()
                              : block.size >= 2 * block.expandable->page_size;
    found = found || (is_pending && !refusal.waited) || (is_idle && is_whole && !refusal.gave_back);
  });
  return found;
}

/// The option at the end of a snapshot may have been set just before a request that it explains.
bool explains(bool is_expandable, Replay& replay, const Op& op) {
  const bool is_set = replay.policy().options().conf.rules.expandable_segments;
  // Asked in any case: what streams are done with is free from then on, as before any request.
  return replay.could_serve(op) && is_set != is_expandable;
}

void insert(Program& program, std::size_t at, const Op& op) {
  const auto place = static_cast<std::ptrdiff_t>(at);
  program.ops.insert(program.ops.begin() + place, op);
  program.addresses.insert(program.addresses.begin() + place, 0);
  for (DeviceCall& call : program.device_calls) {
    if (call.op >= at) ++call.op;
  }
}

}  // namespace

void settle(Program& program) {
  if (std::ranges::none_of(program.ops, is_open)) return;
  std::uint64_t releases = 0;
  std::uint64_t captures = 0;
  RecordedDevice device(program);
  Replay replay(program, Replay::settings_of(program), device, &device);
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    Op& op = program.ops[i];
    if (op.kind == OpKind::kRelease) {
      const auto next =
          std::find_if(program.ops.begin() + static_cast<std::ptrdiff_t>(i),
                       program.ops.end(),
                       [](const Op& later) { return later.kind == OpKind::kAllocate; });
      if (next != program.ops.end() && replay.could_serve(*next)) op.kind = OpKind::kEmptyCache;
      ++releases;
    }
    if (op.kind == OpKind::kAllocate && op.failed) {
      const bool at_end = program.conf.rules.expandable_segments;
      if (explains(at_end, replay, op)) {
        Op change = op;
        change.kind = OpKind::kExpandable;
        change.bytes = at_end ? 1 : 0;
        change.failed = false;
        insert(program, i--, change);
        continue;
      }
      op.in_capture = would_act(replay.policy(), refusal_at(program, i));
      captures += op.in_capture ? 1 : 0;
    }
    if (op.kind == OpKind::kRelease) continue;  // Its calls are the next one's.
    device.begin(static_cast<std::uint32_t>(i));
    static_cast<void>(replay.run(op));
  }
  if (releases > 0) {
    program.doubts.push_back(fmt::format(
        "{} times memory went back to the driver just before a request got some: taken to be the "
        "program's doing where the cache could have served the request, else the request's own",
        releases));
  }
  if (captures > 0) {
    program.doubts.push_back(fmt::format(
        "{} requests were refused without anything being given back, though something could be: "
        "taken to be within the capture of a graph",
        captures));
  }
}

}  // namespace fragscope::whatif
