// SPDX-License-Identifier: Apache-2.0
// How this process's allocators work and record: from the environment, and from whoever loads the
// library before the first use.
#pragma once

#include "allocator/policy/caching_policy.hpp"
#include "allocator/recorder/process_recorder.hpp"
#include "allocator/stacks/call_stacks.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace fragscope::live {

struct LiveOptions {
  policy::PolicyOptions policy;
  recorder::RecorderOptions recorder;
  stacks::StackKind stacks = stacks::StackKind::kOff;
  std::uint64_t min_stack_size = 0;  ///< Smaller requests are recorded without a stack.

  /// The process's own. At the first call PyTorch's options are read out of PYTORCH_CUDA_ALLOC_CONF
  /// (or the other names that PyTorch 2.15 reads), as 2.15 takes them; what it refuses keeps its
  /// default. Not thread-safe: for the start.
  [[nodiscard]] static LiveOptions& of_process();

  /// Sets one of them by name. Names and values: `fragscope_configure` in fragscope_alloc.h. An
  /// empty text, or what is wrong with the value.
  [[nodiscard]] std::string set(std::string_view name, std::string_view value);
};

}  // namespace fragscope::live
