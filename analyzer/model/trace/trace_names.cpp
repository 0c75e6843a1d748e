// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/trace/trace_names.hpp"

#include "trace/format/record.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace fragscope::model {
namespace {

/// Deeper stacks are damage.
constexpr std::size_t kMostFrames = 4096;

}  // namespace

TraceNames::TraceNames(const trace::Table& table, Recording& recording) {
  std::vector<FrameId> frames{FrameId{}};
  const std::size_t frame_count = table.count(trace::TableKind::kFrame);
  for (std::uint32_t id = 1; id <= frame_count; ++id) {
    const trace::TableFrame frame = table.frame(id);
    frames.push_back(
        recording.stacks.intern_frame({recording.strings.intern(table.text(frame.name)),
                                       recording.strings.intern(table.text(frame.file)),
                                       frame.line}));
  }
  std::vector<FrameId> stack;
  const std::size_t stack_count = table.count(trace::TableKind::kStack);
  for (std::uint32_t id = 1; id <= stack_count; ++id) {
    stack.clear();
    for (const std::uint32_t frame : table.stack(id)) {
      if (frame > 0 && frame < frames.size() && stack.size() < kMostFrames) {
        stack.push_back(frames[frame]);
      }
    }
    stacks_.push_back(recording.stacks.intern_stack(stack));
  }
  const std::size_t stream_count = table.count(trace::TableKind::kStream);
  for (std::uint32_t id = 1; id <= stream_count; ++id)
    streams_.push_back(static_cast<std::int64_t>(table.stream(id)));

  // The recording's own ids end below the one that means "not known".
  const std::size_t pool_count = std::min<std::size_t>(table.count(trace::TableKind::kPool),
                                                       trace::kUnknownPool - std::size_t{1});
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint16_t> indexes{{{0, 0}, 0}};
  for (std::uint32_t id = 1; id <= pool_count; ++id) {
    const trace::TablePool pool = table.pool(id);
    const auto next = static_cast<std::uint16_t>(recording.pools.size());
    const auto [known, is_new] = indexes.try_emplace({pool.first, pool.second}, next);
    pools_.push_back(PoolIndex{known->second});
    if (is_new) recording.pools.push_back({pool.first, pool.second});
  }
}

PoolIndex TraceNames::pool(std::uint16_t id) const {
  return id < pools_.size() ? pools_[id] : kDefaultPool;
}
std::int64_t TraceNames::stream(std::uint32_t id) const {
  return id < streams_.size() ? streams_[id] : 0;
}
StackId TraceNames::stack(std::uint32_t id) const {
  return id < stacks_.size() ? stacks_[id] : kNoStack;
}

}  // namespace fragscope::model
