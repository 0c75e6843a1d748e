// SPDX-License-Identifier: Apache-2.0
#include "allocator/live/evidence/failure_verdict.hpp"

#include "analyzer/verdict/running/policy_failure.hpp"

namespace fragscope::live {

std::string failure_verdict(const policy::CachingPolicy& policy,
                            std::int32_t device,
                            policy::StreamId stream) {
  const auto judgement = verdict::judge_failure(policy, device, stream, "the driver");
  const verdict::Verdict& verdict = judgement.verdict;
  return std::string(to_string(verdict.kind)) + " (" + std::string(to_string(verdict.certainty)) +
         "). " + verdict.text;
}

}  // namespace fragscope::live
