// SPDX-License-Identifier: Apache-2.0
// The driver's calls about initialisation, devices, contexts and errors, and how its other
// functions are found.
#include "virtual_cuda/core/call.hpp"
#include "virtual_cuda/core/unimplemented.hpp"
#include "virtual_cuda/device/device_attributes.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <string>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::int32_t kDriverVersion = 13020;
using ContextHandle = void*;
constexpr std::uint64_t kContextHandles = 0x6700'0000'0000;

ContextHandle primary_context(const Device& device) {
  return handle_of(kContextHandles + 256 * static_cast<std::uint64_t>(device.index() + 1));
}

// The device of an ordinal, handed to `body`.
template <class Body>
std::int32_t device_call(const char* name, int ordinal, Body&& body) {
  return driver_call(name, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(ordinal)) return Status::kInvalidDevice;
    return body(call.machine.visible(ordinal));
  });
}

Status set_current(Call& call, ContextHandle context) {
  if (context == nullptr) return Status::kSuccess;  // The current device stays what it is.
  for (int ordinal = 0; ordinal < call.machine.visible_count(); ++ordinal) {
    if (primary_context(call.machine.visible(ordinal)) != context) continue;
    call.thread.ordinal = ordinal;
    return Status::kSuccess;
  }
  return Status::kInvalidContext;
}

Status get_current(Call& call, ContextHandle* context) {
  const Device& device = call.machine.visible(call.thread.ordinal);
  *context = device.active() ? primary_context(device) : nullptr;
  return Status::kSuccess;
}

}  // namespace

extern "C" {

std::int32_t cuInit(unsigned) {
  return static_cast<std::int32_t>(locked_call(__func__, [](Call& call) -> Status {
    if (call.machine.visible_count() == 0) return Status::kNoDevice;
    call.machine.initialize();
    return Status::kSuccess;
  }));
}

std::int32_t cuDriverGetVersion(int* version) {
  *version = kDriverVersion;
  return 0;
}

std::int32_t cuDeviceGetCount(int* count) {
  return driver_call(__func__, [&](Call& call) -> Status {
    *count = call.machine.visible_count();
    return Status::kSuccess;
  });
}

std::int32_t cuDeviceGet(std::int32_t* device, int ordinal) {
  return device_call(__func__, ordinal, [&](const Device&) -> Status {
    *device = ordinal;
    return Status::kSuccess;
  });
}

std::int32_t cuDeviceGetName(char* name, int size_bytes, std::int32_t ordinal) {
  return device_call(__func__, ordinal, [&](const Device& device) -> Status {
    if (size_bytes <= 0) return Status::kInvalidValue;
    const std::size_t length = device.model().name.copy(name, std::size_t(size_bytes) - 1);
    name[length] = '\0';
    return Status::kSuccess;
  });
}

std::int32_t cuDeviceTotalMem_v2(std::size_t* bytes, std::int32_t ordinal) {
  return device_call(__func__, ordinal, [&](const Device& device) -> Status {
    *bytes = device.total_bytes();
    return Status::kSuccess;
  });
}

std::int32_t cuDeviceGetAttribute(int* value, std::int32_t attribute, std::int32_t ordinal) {
  return device_call(__func__, ordinal, [&](const Device& device) -> Status {
    const auto found = device_attribute(device, attribute);
    if (!found) {
      say_unimplemented("cuDeviceGetAttribute(" + std::to_string(attribute) + ")");
      return Status::kInvalidValue;
    }
    *value = *found;
    return Status::kSuccess;
  });
}

std::int32_t cuDeviceGetUuid_v2(std::uint8_t* uuid, std::int32_t ordinal) {
  return device_call(__func__, ordinal, [&](const Device& device) -> Status {
    const auto bytes = device_uuid(device);
    std::copy(bytes.begin(), bytes.end(), uuid);
    return Status::kSuccess;
  });
}

std::int32_t cuDeviceGetUuid(std::uint8_t* uuid, std::int32_t ordinal) {
  return cuDeviceGetUuid_v2(uuid, ordinal);
}

std::int32_t cuDeviceGetPCIBusId(char* text, int size_bytes, std::int32_t ordinal) {
  return device_call(__func__, ordinal, [&](const Device& device) -> Status {
    const int length = std::snprintf(
        text, static_cast<std::size_t>(size_bytes), "0000:%02X:00.0", unsigned(pci_bus(device)));
    return length < size_bytes ? Status::kSuccess : Status::kInvalidValue;
  });
}

std::int32_t cuDevicePrimaryCtxGetState(std::int32_t ordinal, unsigned* flags, int* active) {
  return device_call(__func__, ordinal, [&](const Device& device) -> Status {
    *flags = 0;
    *active = device.active() ? 1 : 0;
    return Status::kSuccess;
  });
}

std::int32_t cuDevicePrimaryCtxRetain(ContextHandle* context, std::int32_t ordinal) {
  return device_call(__func__, ordinal, [&](Device& device) -> Status {
    device.activate();
    *context = primary_context(device);
    return Status::kSuccess;
  });
}

// A primary context stays until the process ends.
std::int32_t cuDevicePrimaryCtxRelease_v2(std::int32_t ordinal) {
  return device_call(__func__, ordinal, [](const Device&) { return Status::kSuccess; });
}

std::int32_t cuCtxGetCurrent(ContextHandle* context) {
  return driver_call(__func__, [&](Call& call) { return get_current(call, context); });
}

std::int32_t cuCtxSetCurrent(ContextHandle context) {
  return driver_call(__func__, [&](Call& call) { return set_current(call, context); });
}

std::int32_t cuCtxGetDevice(std::int32_t* device) {
  return driver_call(__func__, [&](Call& call) -> Status {
    if (!call.machine.visible(call.thread.ordinal).active()) return Status::kInvalidContext;
    *device = call.thread.ordinal;
    return Status::kSuccess;
  });
}

std::int32_t cuCtxSynchronize() {
  return driver_call(__func__, [](Call& call) -> Status {
    const int index = call.device().index();
    return call.machine.timeline().synchronize_device(index, call.thread.capture);
  });
}

std::int32_t cuGetErrorString(std::int32_t error, const char** text) {
  const StatusText* const found = find_status_text(error);
  *text = found == nullptr ? nullptr : found->description;
  return static_cast<std::int32_t>(found == nullptr ? Status::kInvalidValue : Status::kSuccess);
}

std::int32_t cuGetErrorName(std::int32_t error, const char** text) {
  const StatusText* const found = find_status_text(error);
  *text = found == nullptr ? nullptr : found->driver_name;
  return static_cast<std::int32_t>(found == nullptr ? Status::kInvalidValue : Status::kSuccess);
}

// The driver has no log of its own: every failure is an error code.
std::int32_t cuLogsRegisterCallback(void*, void*, void** callback) {
  if (callback != nullptr) *callback = nullptr;
  return 0;
}
std::int32_t cuLogsUnregisterCallback(void*) {
  return 0;
}

// A function by name; the newest form, which has the suffix where there are two. `result` may be
// null.
std::int32_t cuGetProcAddress_v2(
    const char* symbol, void** pointer, int, std::uint64_t, std::int32_t* result) {
  // Looked for in this library alone, which is loaded if this code runs.
  static void* const self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  *pointer = nullptr;
  if (self != nullptr) {
    *pointer = dlsym(self, (std::string(symbol) + "_v2").c_str());
    if (*pointer == nullptr) *pointer = dlsym(self, symbol);
  }
  if (result != nullptr) *result = *pointer == nullptr ? 1 : 0;
  const Status status = *pointer == nullptr ? Status::kNotFound : Status::kSuccess;
  return static_cast<std::int32_t>(status);
}

std::int32_t cuGetProcAddress(const char* symbol,
                              void** pointer,
                              int version,
                              std::uint64_t flags) {
  return cuGetProcAddress_v2(symbol, pointer, version, flags, nullptr);
}

}  // extern "C"
