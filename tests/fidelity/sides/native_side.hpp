// SPDX-License-Identifier: Apache-2.0
// The side that is real.
#pragma once

#include "tests/fidelity/sides/side.hpp"

namespace fragscope::fidelity {

/// PyTorch's allocator, in a process of its own for each program.
class NativeSide final : public Side {
 public:
  explicit NativeSide(NativeAllocator& allocator)
      : allocator_(allocator) {}

  Outcome run(const Step& step) override;
  void observe(Observation& observation) override;

 private:
  [[nodiscard]] bool run_on_pool(const Step& step);
  [[nodiscard]] bool run_on_allocator(const Step& step);
  void run_on_device(const Step& step, Outcome& outcome);

  NativeAllocator& allocator_;
};

}  // namespace fragscope::fidelity
