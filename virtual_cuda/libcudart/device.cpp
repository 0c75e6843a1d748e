// SPDX-License-Identifier: Apache-2.0
// The runtime's calls about devices and errors.
#include "virtual_cuda/core/call.hpp"
#include "virtual_cuda/core/unimplemented.hpp"
#include "virtual_cuda/device/device_attributes.hpp"

#include <cstdio>
#include <string>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::int32_t kDriverVersion = 13020;

// Whether device `a` could read the memory of device `b`. All of ours are linked.
bool can_access(int a, int b) {
  return a != b;
}

}  // namespace

extern "C" {

std::int32_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return runtime_call(__func__, [&](Call& call) -> Status {
    *count = call.machine.visible_count();
    return Status::kSuccess;
  });
}

std::int32_t cudaGetDevice(int* ordinal) {
  // PyTorch asks this in every allocation, and whoever times those must not time our lock.
  if (Machine::existing() != nullptr) {
    *ordinal = thread_context().ordinal;
    return 0;
  }
  return runtime_call(__func__, [&](Call& call) -> Status {
    *ordinal = call.thread.ordinal;
    return Status::kSuccess;
  });
}

std::int32_t cudaSetDevice(int ordinal) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(ordinal)) return Status::kInvalidDevice;
    call.thread.ordinal = ordinal;
    call.device().activate();
    return Status::kSuccess;
  });
}

std::int32_t cudaDriverGetVersion(int* version) {
  *version = kDriverVersion;
  return 0;
}

std::int32_t cudaDeviceGetAttribute(int* value, std::int32_t attribute, int ordinal) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(ordinal)) return Status::kInvalidDevice;
    const auto found = device_attribute(call.machine.visible(ordinal), attribute);
    if (!found) {
      say_unimplemented("cudaDeviceGetAttribute(" + std::to_string(attribute) + ")");
      return Status::kInvalidValue;
    }
    *value = *found;
    return Status::kSuccess;
  });
}

std::int32_t cudaDeviceGetPCIBusId(char* text, int size_bytes, int ordinal) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(ordinal)) return Status::kInvalidDevice;
    const int bus = pci_bus(call.machine.visible(ordinal));
    const int length =
        std::snprintf(text, static_cast<std::size_t>(size_bytes), "0000:%02X:00.0", unsigned(bus));
    return length < size_bytes ? Status::kSuccess : Status::kInvalidValue;
  });
}

std::int32_t cudaDeviceGetByPCIBusId(int* ordinal, const char* text) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    unsigned bus = 0;
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): any other text finds nothing
    if (std::sscanf(text, "%*x:%x", &bus) != 1) return Status::kInvalidValue;
    for (int i = 0; i < call.machine.visible_count(); ++i) {
      if (pci_bus(call.machine.visible(i)) != static_cast<int>(bus)) continue;
      *ordinal = i;
      return Status::kSuccess;
    }
    return Status::kInvalidDevice;
  });
}

std::int32_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return 0;
}

std::int32_t cudaDeviceSynchronize() {
  return runtime_call(__func__, [](Call& call) -> Status {
    Device& device = call.device();
    const Status status =
        call.machine.timeline().synchronize_device(device.index(), call.thread.capture);
    if (status == Status::kSuccess) call.machine.pool(device.index()).trim_to_threshold();
    return status;
  });
}

std::int32_t cudaDeviceCanAccessPeer(int* can, int ordinal, int peer) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(ordinal) || !call.machine.is_ordinal(peer)) {
      return Status::kInvalidDevice;
    }
    *can = can_access(ordinal, peer) ? 1 : 0;
    return Status::kSuccess;
  });
}

std::int32_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(peer)) return Status::kInvalidDevice;
    return can_access(call.thread.ordinal, peer) ? Status::kSuccess : Status::kInvalidDevice;
  });
}

std::int32_t cudaGetLastError() {
  ThreadContext& thread = thread_context();
  return static_cast<std::int32_t>(std::exchange(thread.last_error, Status::kSuccess));
}

std::int32_t cudaPeekAtLastError() {
  return static_cast<std::int32_t>(thread_context().last_error);
}

const char* cudaGetErrorName(std::int32_t error) {
  const StatusText* const text = find_status_text(error);
  return text == nullptr ? "unrecognized error code" : text->runtime_name;
}

const char* cudaGetErrorString(std::int32_t error) {
  const StatusText* const text = find_status_text(error);
  return text == nullptr ? "unrecognized error code" : text->description;
}

// A profiler may start and stop; there is nothing to see.
std::int32_t cudaProfilerStart() {
  return 0;
}
std::int32_t cudaProfilerStop() {
  return 0;
}

}  // extern "C"
