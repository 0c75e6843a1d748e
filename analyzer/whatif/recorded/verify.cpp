// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/recorded/verify.hpp"

#include "analyzer/recording/byte_size.hpp"
#include "analyzer/whatif/recorded/recorded_device.hpp"
#include "analyzer/whatif/replay.hpp"

#include <fmt/format.h>

namespace fragscope::whatif {
namespace {

constexpr std::size_t kOpsOfATick = std::size_t{1} << 18;

std::string describe(policy::Address address, bool failed) {
  return failed ? "refuses the request" : fmt::format("hands out {:#x}", address);
}

/// What differs in the outcome of a request; empty: nothing.
std::string difference_in(const Op& op, policy::Address recorded, policy::Address replayed) {
  const bool is_refused = replayed == 0;
  if (is_refused == op.failed && (is_refused || replayed == recorded)) return {};
  return fmt::format("a request of {} bytes: the recorded allocator {}, the replay {}",
                     op.bytes,
                     describe(recorded, op.failed),
                     describe(replayed, is_refused));
}

}  // namespace

Verification verify(const Program& program, const Tick& tick) {
  Verification result;
  RecordedDevice device(program);
  Replay replay(program, Replay::settings_of(program), device, &device);
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    ++result.agreed;
    if (op.kind == OpKind::kRelease) continue;  // Its calls are the next op's.
    device.begin(static_cast<std::uint32_t>(i));
    const policy::Address got = replay.run(op);
    device.end();
    std::string what = device.difference();
    if (op.kind == OpKind::kAllocate) {
      ++result.requests;
      if (op.failed) ++result.refusals;
      if (what.empty()) what = difference_in(op, program.addresses[i], got);
    }
    if (!what.empty()) {
      --result.agreed;
      result.first = Difference{i, std::move(what)};
      return result;
    }
    if (tick && i % kOpsOfATick == 0) tick(i, program.ops.size());
  }
  result.problem = replay.problem();
  return result;
}

}  // namespace fragscope::whatif
