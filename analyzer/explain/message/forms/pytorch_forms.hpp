// SPDX-License-Identifier: Apache-2.0
// Messages of PyTorch's allocators: 1.0 to 2.15 for CUDA, ROCm, XPU and NPU, cudaMallocAsync, MPS.
#pragma once

#include "analyzer/explain/message/forms/reading.hpp"

#include <span>

namespace fragscope::explain {

[[nodiscard]] std::span<const Form> pytorch_forms();

}  // namespace fragscope::explain
