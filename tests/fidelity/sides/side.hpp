// SPDX-License-Identifier: Apache-2.0
// The two that run a program: PyTorch's allocator on virtual CUDA, and our policy on a simulated
// device. Both do a step at a time and tell what it did in the same terms.
#pragma once

#include "tests/fidelity/native/native_allocator.hpp"
#include "tests/fidelity/program/operation.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::fidelity {

/// What a caller of the allocator sees of a step.
struct Outcome {
  std::uint64_t address = 0;  ///< Of an allocation.
  std::string error_type;     ///< As Python shows it; empty: none.
  std::string error_text;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// A step after all names in it were resolved: addresses instead of slots, ids instead of numbers.
struct Step {
  OperationKind kind = OperationKind::kAllocate;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  ///< Or another number, as the kind says.
  unsigned stream = 0;      ///< Or ~0: any.
  unsigned other_stream = 0;
  PoolKey pool;
  bool flag = false;
  std::string text;
};

/// The whole state after a step. Valid until the next step.
struct Observation {
  std::vector<TraceEvent> events;  ///< Of this step, in their order.
  std::vector<std::int64_t> statistics;
  std::vector<PoolReserved> by_pool;
  std::vector<SegmentState> segments;
  std::vector<BlockState> blocks;
};

class Side {
 public:
  Side() = default;
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  virtual ~Side() = default;

  virtual Outcome run(const Step& step) = 0;
  virtual void observe(Observation& observation) = 0;
};

}  // namespace fragscope::fidelity
