// SPDX-License-Identifier: Apache-2.0
#include "allocator/live/evidence/failure_verdict.hpp"

#include "analyzer/model/heap_state.hpp"
#include "analyzer/verdict/ladder.hpp"
#include "analyzer/verdict/question.hpp"
#include "analyzer/verdict/supply.hpp"
#include "analyzer/verdict/verdict_text.hpp"

#include <map>
#include <utility>

namespace fragscope::live {
namespace {

/// Pools by number, as the analyzer has them; the default pool is 0.
class PoolNumbers {
 public:
  [[nodiscard]] model::PoolIndex of(policy::PoolId pool) {
    if (pool == policy::PoolId{}) return model::kDefaultPool;
    const auto next = static_cast<std::uint16_t>(numbers_.size() + 1);
    return model::PoolIndex{numbers_.try_emplace(pool, next).first->second};
  }

 private:
  std::map<policy::PoolId, std::uint16_t> numbers_;
};

class HeapBuilder {
 public:
  explicit HeapBuilder(PoolNumbers& pools)
      : pools_(pools) {}

  /// Blocks come in the order of addresses.
  void add(const policy::Block& block) {
    const bool continues = block.prev != nullptr && block.prev->mapped;
    if (block.prev == nullptr && block.expandable != nullptr) {
      heap_.expandable_starts.push_back({block.address, home_of(block)});
    }
    if (!block.mapped) return;
    if (!continues) {
      model::HeapSegment& segment = heap_.segments.emplace_back();
      segment.address = block.address;
      segment.home = home_of(block);
      segment.first_block = static_cast<std::uint32_t>(heap_.blocks.size());
    }
    model::HeapSegment& segment = heap_.segments.back();
    segment.size_bytes += block.size;
    ++segment.block_count;
    const bool is_free = block.is_free();
    heap_.blocks.push_back({block.address,
                            block.size,
                            is_free ? 0 : block.requested_size,
                            0,
                            model::kNoStack,
                            is_free           ? model::BlockState::kFree
                            : block.allocated ? model::BlockState::kLive
                                              : model::BlockState::kPending});
  }
  [[nodiscard]] const model::HeapState& heap() const { return heap_; }

 private:
  [[nodiscard]] model::Home home_of(const policy::Block& block) {
    const policy::PrivatePool* owner = block.pool->owner();
    return {owner == nullptr ? model::kDefaultPool : pools_.of(owner->id),
            block.pool->size_class(),
            block.expandable != nullptr,
            static_cast<std::int64_t>(block.stream)};
  }

  PoolNumbers& pools_;
  model::HeapState heap_;
};

verdict::DeviceFacts facts_of(const policy::AllocationFailure& failure) {
  verdict::DeviceFacts facts;
  facts.free = {model::exactly(failure.capacity.free_bytes), "the driver"};
  facts.total = {model::exactly(failure.capacity.total_bytes), "the driver"};
  if (failure.limit_bytes) facts.limit = {model::exactly(*failure.limit_bytes), "the allocator"};
  return facts;
}

}  // namespace

std::string failure_verdict(const policy::CachingPolicy& policy,
                            std::int32_t device,
                            policy::StreamId stream) {
  const policy::AllocationFailure& failure = policy.failure();
  PoolNumbers pools;
  HeapBuilder builder(pools);
  for (const policy::Block* block : policy.blocks())
    builder.add(*block);

  verdict::Question question;
  question.device = device;
  question.recorded = true;
  question.size_bytes = failure.rounded_size;
  question.asked_bytes = failure.requested_size;
  question.stream = static_cast<std::int64_t>(stream);
  question.pool = pools.of(failure.pool);

  const policy::SizeRules& rules = policy.options().conf.rules;
  const auto supply = verdict::find_supply(builder.heap(), question, rules);
  const auto requested = model::summarize(builder.heap(), rules).requested_bytes;
  const auto judgement = verdict::judge(question, supply, requested, facts_of(failure), rules);
  const verdict::Verdict& verdict = judgement.verdict;
  return std::string(to_string(verdict.kind)) + " (" + std::string(to_string(verdict.certainty)) +
         "). " + verdict.text;
}

}  // namespace fragscope::live
