// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/core/call.hpp"

#include <cstdio>

namespace fragscope::virtual_cuda {

ThreadContext& thread_context() {
  static thread_local ThreadContext context;
  return context;
}

Device& Call::device() {
  Device& device = machine.visible(thread.ordinal);
  device.activate();
  return device;
}

Stream* Call::stream(StreamHandle handle) {
  return machine.timeline().find_stream(number_of(handle), device().index());
}

Status Call::check_unsafe() {
  return machine.timeline().captures().check_unsafe_call(thread.capture);
}

Status Call::enqueue(StreamHandle handle, Work work) {
  Stream* const found = stream(handle);
  if (found == nullptr) return Status::kInvalidHandle;
  return machine.timeline().enqueue(*found, std::move(work), thread.capture);
}

void trace_call(const char* name, Status status) {
  const StatusText* const text = find_status_text(static_cast<std::int32_t>(status));
  std::fprintf(stderr, "virtual_cuda: %s: %s\n", name, text->description);
}

}  // namespace fragscope::virtual_cuda
