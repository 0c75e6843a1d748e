// SPDX-License-Identifier: Apache-2.0
// Heaps, questions and facts in a few words, for the tests of the verdict:
//
//   const HeapState state = heap({segment({live(20_MiB), hole(8_MiB)}),
//                                 segment({hole(30_MiB)}).on_stream(7)});
//   const Judgement judged = judge_heap(state, failed(24_MiB), facts({.free = 10_MiB}));
//   EXPECT_EQ(rungs_of(judged), "nnyyyyyyy");
//
// Segments lie far apart unless `after_gap` says otherwise. Recordings are not built here.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/verdict/ladder.hpp"
#include "analyzer/verdict/question.hpp"
#include "analyzer/verdict/supply.hpp"

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::verdict {

inline void PrintTo(const MissingFact& fact, std::ostream* out) {
  *out << fact.fact << " from " << fact.threshold_bytes;
}

}  // namespace fragscope::verdict

namespace fragscope::model {

inline void PrintTo(const Bounds& bounds, std::ostream* out) {
  *out << "[" << bounds.low << ", " << bounds.high << "]";
}

}  // namespace fragscope::model

namespace fragscope::test {

using model::BlockState;
using model::Bounds;
using model::HeapState;
using model::PoolIndex;
using model::StackId;
using policy::SizeClass;
using policy::SizeRules;
using verdict::DeviceFacts;
using verdict::Judgement;
using verdict::MissingFact;
using verdict::Question;
using verdict::Supply;

constexpr std::uint64_t operator""_KiB(unsigned long long count) {
  return count * policy::kKiB;
}
constexpr std::uint64_t operator""_MiB(unsigned long long count) {
  return count * policy::kMiB;
}
constexpr std::uint64_t operator""_GiB(unsigned long long count) {
  return count * policy::kGiB;
}

/// The private pool of a graph or a MemPool in these tests; the default pool is `kDefaultPool`.
inline constexpr PoolIndex kPrivatePool{1};

[[nodiscard]] inline model::HeapBlock live(std::uint64_t size_bytes) {
  return {.size_bytes = size_bytes, .requested_bytes = size_bytes, .state = BlockState::kLive};
}
[[nodiscard]] inline model::HeapBlock hole(std::uint64_t size_bytes) {
  return {.size_bytes = size_bytes, .state = BlockState::kFree};
}
[[nodiscard]] inline model::HeapBlock pending(std::uint64_t size_bytes) {
  return {.size_bytes = size_bytes, .requested_bytes = size_bytes, .state = BlockState::kPending};
}

/// A live block of which the program asked for only so much; the rest is rounding loss.
[[nodiscard]] inline model::HeapBlock asked_for(std::uint64_t requested_bytes,
                                                model::HeapBlock block) {
  block.requested_bytes = requested_bytes;
  return block;
}
/// A block with the stack that allocated it.
[[nodiscard]] inline model::HeapBlock by(std::uint32_t stack, model::HeapBlock block) {
  block.stack = StackId{stack};
  return block;
}
/// Only bounded: a live block may be this much larger, a hole this much smaller.
[[nodiscard]] inline model::HeapBlock give_or_take(std::uint64_t slack_bytes,
                                                   model::HeapBlock block) {
  block.slack_bytes = static_cast<std::uint32_t>(slack_bytes);
  return block;
}

/// A segment to be: its home and the blocks that tile it.
struct SegmentPlan {
  model::Home home;
  std::vector<model::HeapBlock> blocks;
  std::uint64_t gap_bytes = std::uint64_t{1} << 40;  ///< Address space in front of it.

  [[nodiscard]] SegmentPlan on_stream(std::int64_t stream) && {
    home.stream = stream;
    return std::move(*this);
  }
  [[nodiscard]] SegmentPlan in_private_pool() && {
    home.pool = kPrivatePool;
    return std::move(*this);
  }
  [[nodiscard]] SegmentPlan of_class_small() && {
    home.size_class = SizeClass::kSmall;
    return std::move(*this);
  }
  /// A mapped range of an expandable segment.
  [[nodiscard]] SegmentPlan expandable() && {
    home.expandable = true;
    return std::move(*this);
  }
  /// Starts so far behind the end of the segment before it.
  [[nodiscard]] SegmentPlan after_gap(std::uint64_t bytes) && {
    gap_bytes = bytes;
    return std::move(*this);
  }
};

[[nodiscard]] inline SegmentPlan segment(std::vector<model::HeapBlock> blocks) {
  SegmentPlan plan;
  plan.blocks = std::move(blocks);
  return plan;
}

[[nodiscard]] inline HeapState heap(const std::vector<SegmentPlan>& plans) {
  HeapState state;
  std::uint64_t address = 0;
  for (const SegmentPlan& plan : plans) {
    address += plan.gap_bytes;
    model::HeapSegment placed;
    placed.address = address;
    placed.home = plan.home;
    placed.first_block = static_cast<std::uint32_t>(state.blocks.size());
    placed.block_count = static_cast<std::uint32_t>(plan.blocks.size());
    for (model::HeapBlock block : plan.blocks) {
      block.address = address;
      address += block.size_bytes;
      placed.size_bytes += block.size_bytes;
      state.blocks.push_back(block);
    }
    state.segments.push_back(placed);
  }
  return state;
}

/// A request for the default pool on stream 0 that failed in the recording.
[[nodiscard]] inline Question failed(std::uint64_t size_bytes) {
  Question question;
  question.recorded = true;
  question.size_bytes = size_bytes;
  return question;
}
/// The same request as a question of the user.
[[nodiscard]] inline Question asked(std::uint64_t size_bytes) {
  Question question = failed(size_bytes);
  question.recorded = false;
  question.asked_bytes = size_bytes;
  return question;
}

/// What is known about the device, to the byte.
struct KnownBytes {
  std::optional<std::uint64_t> free = std::nullopt;
  std::optional<std::uint64_t> total = std::nullopt;
  std::optional<std::uint64_t> limit = std::nullopt;
  std::optional<std::uint64_t> context = std::nullopt;
};

[[nodiscard]] inline DeviceFacts facts(const KnownBytes& known) {
  const auto fact = [](const std::optional<std::uint64_t>& bytes) {
    return bytes ? verdict::Fact{model::exactly(*bytes), "test"} : verdict::Fact{};
  };
  return {fact(known.free), fact(known.total), fact(known.limit), fact(known.context)};
}

[[nodiscard]] inline SizeRules expandable_rules() {
  SizeRules rules;
  rules.expandable_segments = true;
  return rules;
}

[[nodiscard]] inline Judgement judge_heap(const HeapState& state,
                                          const Question& question,
                                          const DeviceFacts& known,
                                          const SizeRules& rules = {}) {
  const Supply supply = verdict::find_supply(state, question, rules);
  const model::StateSummary summary = model::summarize(state, rules);
  return verdict::judge(question, supply, summary.requested_bytes, known, rules);
}

/// "capacity, proven".
[[nodiscard]] inline std::string verdict_of(const Judgement& judged) {
  return std::string(to_string(judged.verdict.kind)) + ", " +
         std::string(to_string(judged.verdict.certainty));
}

/// The nine rungs in order, each as y(es), n(o) or ? (unknown).
[[nodiscard]] inline std::string rungs_of(const Judgement& judged) {
  std::string text;
  for (const verdict::Rung& rung : judged.ladder) {
    text += rung.fits == verdict::Fits::kYes ? 'y' : rung.fits == verdict::Fits::kNo ? 'n' : '?';
  }
  return text;
}

[[nodiscard]] inline const verdict::Rung& rung_of(const Judgement& judged, int number) {
  return judged.ladder.at(static_cast<std::size_t>(number - 1));
}

}  // namespace fragscope::test
