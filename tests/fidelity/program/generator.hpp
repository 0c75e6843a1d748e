// SPDX-License-Identifier: Apache-2.0
// Programs from seeds.
#pragma once

#include "tests/fidelity/program/operation.hpp"

#include <cstdint>

namespace fragscope::fidelity {

struct GeneratorOptions {
  std::size_t operations = 2000;
  std::uint64_t device_bytes = std::uint64_t{2} << 30;  ///< Sizes are drawn so that it fills up.
  bool is_old = false;  ///< PyTorch 2.6: without what it does not have.
};

/// The same program for the same seed and options, on every machine. A seed draws a regime first
/// (sizes, streams, pools, settings), so that programs differ in kind.
[[nodiscard]] Program generate(std::uint64_t seed, const GeneratorOptions& options);

}  // namespace fragscope::fidelity
