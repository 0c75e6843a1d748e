// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/fidelity/sides.hpp"

namespace fragscope::fidelity {

/// PyTorch's allocator. It outlives every program: `reset` makes it as good as new.
class NativeSide final : public Side {
 public:
  explicit NativeSide(NativeAllocator& allocator)
      : allocator_(allocator) {}

  Outcome run(const Step& step) override;
  void observe(Observation& observation) override;

  /// Options and counters as at the start. The program's memory and pools must be gone. False if
  /// PyTorch still holds something.
  [[nodiscard]] bool reset();

 private:
  [[nodiscard]] bool run_on_pool(const Step& step);
  [[nodiscard]] bool run_on_allocator(const Step& step);
  void run_on_device(const Step& step, Outcome& outcome);

  NativeAllocator& allocator_;
};

}  // namespace fragscope::fidelity
