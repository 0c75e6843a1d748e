// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/recorded/proof.hpp"

#include "analyzer/whatif/recorded/settle.hpp"

namespace fragscope::whatif {

Proof prove(std::int32_t device, Result<Program> program) {
  Proof proof;
  proof.device = device;
  if (!program) {
    proof.reason = program.error().message;
    return proof;
  }
  settle(*program);
  proof.version = program->version;
  proof.found = verify(*program);
  proof.op_count = program->ops.size();
  proof.first_event = program->first_event;
  if (proof.found.first) proof.differs_at = program->event_of(program->ops[proof.found.first->op]);
  proof.doubts = std::move(program->doubts);
  return proof;
}

std::future<Proof> prove_beside(std::int32_t device, Result<Program> program) {
  // With both policies it is done by whoever asks for the result if no thread can be started.
  return std::async(std::launch::async | std::launch::deferred, prove, device, std::move(program));
}

}  // namespace fragscope::whatif
