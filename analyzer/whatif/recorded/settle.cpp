// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/recorded/settle.hpp"

#include "analyzer/recording/plural.hpp"
#include "analyzer/whatif/recorded/recorded_device.hpp"
#include "analyzer/whatif/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace fragscope::whatif {
namespace {

bool is_open(const Op& op) {
  return op.kind == OpKind::kRelease || (op.kind == OpKind::kAllocate && op.failed);
}

/// What the recording shows of a refused request.
struct Refusal {
  bool gave_back = false;  ///< Memory went back to the driver for it,
  bool waited = false;     ///< and pending frees became complete.
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

bool has_calls(const Program& program, std::size_t op) {
  const auto call = std::ranges::lower_bound(
      program.device_calls, static_cast<std::uint32_t>(op), {}, &DeviceCall::op);
  return call != program.device_calls.end() && call->op == op;
}

Refusal refusal_at(const Program& program, std::size_t op) {
  const bool is_after_release = op > 0 && program.ops[op - 1].kind == OpKind::kRelease;
  std::size_t next = op + 1;
  while (next < program.ops.size() && program.ops[next].kind == OpKind::kUsePool)
    ++next;
  const bool waited = next < program.ops.size() && program.ops[next].kind == OpKind::kComplete &&
                      program.ops[next].event == program.ops[op].event;
  return {is_after_release || has_calls(program, op), waited};
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

/// An op that comes in front of another.
struct Insertion {
  std::size_t at = 0;
  Op op;
};

/// By rising places.
void insert(Program& program, const std::vector<Insertion>& insertions) {
  if (insertions.empty()) return;
  std::vector<Op> ops;
  std::vector<policy::Address> addresses;
  ops.reserve(program.ops.size() + insertions.size());
  addresses.reserve(ops.capacity());
  auto next = insertions.begin();
  auto call = program.device_calls.begin();
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    for (; next != insertions.end() && next->at == i; ++next) {
      ops.push_back(next->op);
      addresses.push_back(0);
    }
    for (; call != program.device_calls.end() && call->op == i; ++call)
      call->op = static_cast<std::uint32_t>(ops.size());
    ops.push_back(program.ops[i]);
    addresses.push_back(program.addresses[i]);
  }
  program.ops = std::move(ops);
  program.addresses = std::move(addresses);
}

/// Requests that are refused in a row leave everything as it was: the blocks are looked at for the
/// first of them alone.
class Captures {
 public:
  /// Whether the request at `op`, which was refused, was so within a capture.
  [[nodiscard]] bool contains(const Program& program, const Replay& replay, std::size_t op) {
    const Refusal refusal = refusal_at(program, op);
    if (!is_known_ || last_ != refusal) {
      would_act_ = would_act(replay.policy(), refusal);
      last_ = refusal;
      is_known_ = true;
    }
    return would_act_;
  }
  /// Something else was run than a refused request that changes nothing.
  void forget() { is_known_ = false; }

 private:
  Refusal last_;
  bool is_known_ = false;
  bool would_act_ = false;
};

}  // namespace

void settle(Program& program) {
  if (std::ranges::none_of(program.ops, is_open)) return;
  std::uint64_t releases = 0;
  std::uint64_t captures = 0;
  Captures refusals;
  std::vector<Insertion> insertions;
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
        // What goes back for a request stays in front of it.
        const bool is_after_release = i > 0 && program.ops[i - 1].kind == OpKind::kRelease;
        insertions.push_back({is_after_release ? i - 1 : i, change});
        static_cast<void>(replay.run(change));
        refusals.forget();
      }
      op.in_capture = refusals.contains(program, replay, i);
      captures += op.in_capture ? 1 : 0;
      if (has_calls(program, i)) refusals.forget();
    } else {
      refusals.forget();
    }
    if (op.kind == OpKind::kRelease) continue;  // Its calls are the next one's.
    device.begin(static_cast<std::uint32_t>(i));
    static_cast<void>(replay.run(op));
  }
  insert(program, insertions);
  if (releases > 0) {
    program.doubts.push_back(fmt::format(
        "{} memory went back to the driver just before a request got some: taken to be the "
        "program's doing where the cache could have served the request, else the request's own",
        model::plural(releases, "time", "times")));
  }
  if (captures > 0) {
    program.doubts.push_back(
        fmt::format("{} refused without anything being given back, though something could be: "
                    "taken to be within "
                    "the capture of a graph",
                    model::plural(captures, "request was", "requests were")));
  }
}

}  // namespace fragscope::whatif
