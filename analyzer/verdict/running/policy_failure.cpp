// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/running/policy_failure.hpp"

#include "analyzer/model/heap_state.hpp"
#include "analyzer/verdict/question.hpp"
#include "analyzer/verdict/running/policy_heap.hpp"
#include "analyzer/verdict/supply.hpp"

#include <string>

namespace fragscope::verdict {

Judgement judge_failure(const policy::CachingPolicy& policy,
                        std::int32_t device,
                        policy::StreamId stream,
                        std::string_view device_source) {
  const policy::AllocationFailure& failure = policy.failure();
  PolicyHeap made = heap_of(policy);

  Question question;
  question.device = device;
  question.recorded = true;
  question.size_bytes = failure.rounded_size;
  question.asked_bytes = failure.requested_size;
  question.stream = static_cast<std::int64_t>(stream);
  question.pool = made.number_of(failure.pool);

  DeviceFacts facts;
  facts.free = {model::exactly(failure.capacity.free_bytes), std::string(device_source)};
  facts.total = {model::exactly(failure.capacity.total_bytes), std::string(device_source)};
  if (failure.limit_bytes) facts.limit = {model::exactly(*failure.limit_bytes), "the allocator"};

  const policy::SizeRules& rules = policy.options().conf.rules;
  const Supply supply = find_supply(made.heap, question, rules);
  const auto requested = model::summarize(made.heap, rules).requested_bytes;
  return judge(question, supply, requested, facts, rules);
}

}  // namespace fragscope::verdict
