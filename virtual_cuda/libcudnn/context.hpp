// SPDX-License-Identifier: Apache-2.0
// What the parts of our cuDNN share: its error numbers, its handle, and how it gives work to a
// stream.
#pragma once

#include "virtual_cuda/core/call.hpp"

#include <cstdint>

namespace fragscope::virtual_cuda {

/// cudnnStatus_t of cuDNN 9.
enum class DnnStatus : std::int32_t {
  kSuccess = 0,
  kBadParameter = 2000,
  kNotSupported = 3000,
  kInternalError = 4000,
};

struct DnnContext {
  StreamHandle stream = nullptr;
};

/// Stands for a descriptor that programs fill and that nothing here reads.
struct DnnOpaque {
  char unused = 0;
};

/// One piece of work that computes nothing, on the stream of a cuDNN handle.
[[nodiscard]] inline std::int32_t dnn_work(const char* name, void* handle) noexcept {
  const Status status = locked_call(name, [&](Call& call) -> Status {
    Work work;
    work.duration_ns = call.machine.options().kernel_ns;
    return call.enqueue(static_cast<DnnContext*>(handle)->stream, std::move(work));
  });
  return static_cast<std::int32_t>(status == Status::kSuccess ? DnnStatus::kSuccess
                                                              : DnnStatus::kInternalError);
}

}  // namespace fragscope::virtual_cuda
