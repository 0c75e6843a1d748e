// SPDX-License-Identifier: Apache-2.0
#include "devices/cuda_driver.hpp"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <initializer_list>

namespace fragscope::devices {
namespace {

using Status = std::int32_t;  // CUresult
constexpr Status kSuccess = 0;
constexpr Status kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
using ContextHandle = void*;

// CUdevice_attribute
constexpr std::int32_t kPciBus = 33;
constexpr std::int32_t kPciDevice = 34;
constexpr std::int32_t kPciDomain = 50;

struct Driver {
  Status (*init)(unsigned flags) = nullptr;
  Status (*get_version)(int* version) = nullptr;
  Status (*get_error_name)(Status status, const char** name) = nullptr;
  Status (*device_count)(int* count) = nullptr;
  Status (*device_name)(char* name, int bytes, std::int32_t device) = nullptr;
  Status (*device_uuid)(char* uuid, std::int32_t device) = nullptr;
  Status (*device_total)(std::size_t* bytes, std::int32_t device) = nullptr;
  Status (*device_attribute)(int* value, std::int32_t attribute, std::int32_t device) = nullptr;
  Status (*context_retain)(ContextHandle* context, std::int32_t device) = nullptr;
  Status (*context_release)(std::int32_t device) = nullptr;
  Status (*context_set)(ContextHandle context) = nullptr;
  Status (*mem_get_info)(std::size_t* free, std::size_t* total) = nullptr;
};

template <class Function>
void find(void* library, Function*& into, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    into = reinterpret_cast<Function*>(dlsym(library, name));
    if (into != nullptr) return;
  }
}

Driver find_functions(void* library) {
  Driver driver;
  find(library, driver.init, {"cuInit"});
  find(library, driver.get_version, {"cuDriverGetVersion"});
  find(library, driver.get_error_name, {"cuGetErrorName"});
  find(library, driver.device_count, {"cuDeviceGetCount"});
  find(library, driver.device_name, {"cuDeviceGetName"});
  find(library, driver.device_uuid, {"cuDeviceGetUuid_v2", "cuDeviceGetUuid"});
  find(library, driver.device_total, {"cuDeviceTotalMem_v2"});
  find(library, driver.device_attribute, {"cuDeviceGetAttribute"});
  find(library, driver.context_retain, {"cuDevicePrimaryCtxRetain"});
  find(library, driver.context_release, {"cuDevicePrimaryCtxRelease_v2"});
  find(library, driver.context_set, {"cuCtxSetCurrent"});
  find(library, driver.mem_get_info, {"cuMemGetInfo_v2"});
  return driver;
}

bool is_whole(const Driver& driver) {
  return driver.init != nullptr && driver.get_version != nullptr &&
         driver.get_error_name != nullptr && driver.device_count != nullptr &&
         driver.device_name != nullptr && driver.device_uuid != nullptr &&
         driver.device_total != nullptr && driver.device_attribute != nullptr &&
         driver.context_retain != nullptr && driver.context_release != nullptr &&
         driver.context_set != nullptr && driver.mem_get_info != nullptr;
}

std::string name_of(const Driver& driver, Status status) {
  const char* name = nullptr;
  const bool is_known = driver.get_error_name(status, &name) == kSuccess && name != nullptr;
  return is_known ? name : "error " + std::to_string(status);
}

std::string bus_id_of(const Driver& driver, std::int32_t device) {
  std::array<int, 3> place{};
  constexpr std::array kAttributes = {kPciDomain, kPciBus, kPciDevice};
  for (std::size_t i = 0; i < place.size(); ++i) {
    if (driver.device_attribute(&place[i], kAttributes[i], device) != kSuccess) return "";
  }
  std::array<char, 40> text{};
  std::snprintf(text.data(),
                text.size(),
                "%08X:%02X:%02X.0",
                static_cast<unsigned>(place[0]),
                static_cast<unsigned>(place[1]),
                static_cast<unsigned>(place[2]));
  return text.data();
}

std::optional<std::uint64_t> free_bytes_of(const Driver& driver, std::int32_t device) {
  ContextHandle context = nullptr;
  if (driver.context_retain(&context, device) != kSuccess) return std::nullopt;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const bool is_told = driver.context_set(context) == kSuccess &&
                       driver.mem_get_info(&free_bytes, &total_bytes) == kSuccess;
  static_cast<void>(driver.context_set(nullptr));
  static_cast<void>(driver.context_release(device));
  if (!is_told) return std::nullopt;
  return free_bytes;
}

DriverDevice describe(const Driver& driver, std::int32_t ordinal, WithContext context) {
  DriverDevice device;
  std::array<char, 256> name{};
  if (driver.device_name(name.data(), static_cast<int>(name.size()) - 1, ordinal) == kSuccess) {
    device.name = name.data();
  }
  char uuid[16] = {};
  if (driver.device_uuid(uuid, ordinal) == kSuccess) device.uuid = uuid_text(uuid);
  std::size_t total = 0;
  if (driver.device_total(&total, ordinal) == kSuccess) device.total_bytes = total;
  device.pci_bus_id = bus_id_of(driver, ordinal);
  if (context == WithContext::kYes) device.free_bytes = free_bytes_of(driver, ordinal);
  return device;
}

}  // namespace

DriverAnswer ask_cuda_driver(WithContext context) {
  DriverAnswer answer;
  constexpr const char* kLibrary = "libcuda.so.1";
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    // The answer is this thread's own.
    answer.problem = std::string("no CUDA driver: ") + dlerror();  // NOLINT(concurrency-mt-unsafe)
    return answer;
  }
  const Driver driver = find_functions(library);
  if (!is_whole(driver)) {
    answer.problem = std::string(kLibrary) + " is older than CUDA 11";
    return answer;
  }
  int version = 0;
  if (driver.get_version(&version) == kSuccess) answer.cuda_version = version;
  int count = 0;
  Status status = driver.init(0);
  if (status == kSuccess) status = driver.device_count(&count);
  if (status == kSuccess && count == 0) status = kNoDevice;
  if (status != kSuccess) {
    answer.problem = "cuInit: " + name_of(driver, status);
    if (status == kNoDevice) answer.problem += ", CUDA programs are shown no device here";
    answer.shows_none = status == kNoDevice;
    return answer;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal)
    answer.devices.push_back(describe(driver, ordinal, context));
  return answer;
}

std::string uuid_text(const char (&bytes)[16]) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof(bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace fragscope::devices
