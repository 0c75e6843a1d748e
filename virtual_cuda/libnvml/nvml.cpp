// SPDX-License-Identifier: Apache-2.0
// NVML: all devices of the machine, whatever CUDA_VISIBLE_DEVICES says, from the same books that
// CUDA shows, and the processes that hold their memory.
#include "virtual_cuda/core/call.hpp"
#include "virtual_cuda/device/device_attributes.hpp"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

/// nvmlReturn_t.
enum class Nvml : std::int32_t {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kVersionMismatch = 25,
  kNoPermission = 4,
  kUnknown = 999,
};

using DeviceHandle = void*;
constexpr std::uint64_t kDeviceHandles = 0x6800'0000'0000;
// No process can have this number: Linux's are below 2^22.
constexpr unsigned kNeighbourProcess = 1U << 22;

struct ProcessInfo1 {  // The form that the name without a suffix means.
  unsigned pid;
  unsigned long long used_bytes;
};
struct ProcessInfo2 {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
struct MemoryInfo1 {
  unsigned long long total_bytes;
  unsigned long long free_bytes;
  unsigned long long used_bytes;
};
struct MemoryInfo2 {
  unsigned version;
  unsigned long long total_bytes;
  unsigned long long reserved_bytes;
  unsigned long long free_bytes;
  unsigned long long used_bytes;
};
/// The head of nvmlGpuFabricInfoV_t, whose later versions only append.
struct FabricInfo {
  unsigned version;
  unsigned char cluster_uuid[16];
  std::int32_t status;
  unsigned clique;
  unsigned char state;
};

bool initialized = false;  // Under the machine's lock.

// What the options have a function answer instead of what it does, if they do.
std::optional<Nvml> planned_answer(const Machine& machine, std::string_view name) {
  for (const NvmlAnswer& answer : machine.options().nvml_answers) {
    if (name.find(answer.function) != std::string_view::npos) return static_cast<Nvml>(answer.code);
  }
  return std::nullopt;
}

template <class Body>
std::int32_t nvml_call(const char* name, Body&& body) {
  Nvml code = Nvml::kUnknown;
  static_cast<void>(locked_call(name, [&](Call& call) -> Status {
    if (call.machine.faults().strike(FaultKind::kNvml)) return Status::kSuccess;
    const auto planned = planned_answer(call.machine, name);
    code = planned ? *planned : body(call.machine);
    return Status::kSuccess;
  }));
  return static_cast<std::int32_t>(code);
}

DeviceHandle handle_of_device(const Device& device) {
  return handle_of(kDeviceHandles + 256 * static_cast<std::uint64_t>(device.index() + 1));
}

// The device of a handle, handed to `body`.
template <class Body>
std::int32_t device_call(const char* name, DeviceHandle handle, Body&& body) {
  return nvml_call(name, [&](Machine& machine) -> Nvml {
    if (!initialized) return Nvml::kUninitialized;
    for (const auto& device : machine.devices()) {
      if (handle_of_device(*device) == handle) return body(*device);
    }
    return Nvml::kInvalidArgument;
  });
}

// The first device that `matches`, as a handle.
template <class Predicate>
std::int32_t find_device(const char* name, DeviceHandle* handle, Predicate&& matches) {
  return nvml_call(name, [&](Machine& machine) -> Nvml {
    if (!initialized) return Nvml::kUninitialized;
    for (const auto& device : machine.devices()) {
      if (!matches(*device)) continue;
      *handle = handle_of_device(*device);
      return Nvml::kSuccess;
    }
    return Nvml::kNotFound;
  });
}

Nvml print(char* text, unsigned size_bytes, const std::string& value) {
  if (size_bytes <= value.size()) return Nvml::kInsufficientSize;
  value.copy(text, value.size());
  text[value.size()] = '\0';
  return Nvml::kSuccess;
}

unsigned long long used_bytes(const Device& device) {
  return device.total_bytes() - device.free_bytes();
}

// Needs the machine's lock.
unsigned this_process() {
  const unsigned shown = Machine::instance().options().nvml_pid;
  return shown == 0 ? static_cast<unsigned>(getpid()) : shown;
}

// The program of a process, where it can be seen, as the first word of its command line.
std::string name_of_process(Machine& machine, unsigned pid) {
  for (const OtherProcess& other : machine.options().processes) {
    if (other.pid == pid) return other.name;
  }
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::string name;
  std::getline(file, name, '\0');
  return name;
}

template <class Info>
void add_process(std::vector<Info>& processes, unsigned pid, unsigned long long bytes) {
  if (bytes == 0) return;
  Info info{};
  info.pid = pid;
  info.used_bytes = bytes;
  if constexpr (std::is_same_v<Info, ProcessInfo2>) {
    info.gpu_instance = info.compute_instance = ~0U;  // No MIG.
  }
  processes.push_back(info);
}

template <class Info>
std::int32_t running_processes(const char* name, DeviceHandle handle, unsigned* count, Info* out) {
  if (count == nullptr) return static_cast<std::int32_t>(Nvml::kInvalidArgument);
  return device_call(name, handle, [&](const Device& device) -> Nvml {
    std::vector<Info> processes;
    add_process(processes, this_process(), device.process_bytes());
    add_process(processes, kNeighbourProcess, device.neighbour_bytes());
    for (const OtherProcess& other : device.others())
      add_process(processes, other.pid, other.bytes);
    const unsigned room = *count;
    *count = static_cast<unsigned>(processes.size());
    if (room < processes.size()) return Nvml::kInsufficientSize;
    for (std::size_t i = 0; i < processes.size(); ++i)
      out[i] = processes[i];
    return Nvml::kSuccess;
  });
}

}  // namespace

extern "C" {

std::int32_t nvmlInit_v2() {
  return nvml_call(__func__, [](Machine&) -> Nvml {
    initialized = true;
    return Nvml::kSuccess;
  });
}
std::int32_t nvmlInit() {
  return nvmlInit_v2();
}
std::int32_t nvmlInitWithFlags(unsigned) {
  return nvmlInit_v2();
}
std::int32_t nvmlShutdown() {
  return 0;
}

const char* nvmlErrorString(std::int32_t code) {
  switch (static_cast<Nvml>(code)) {
    case Nvml::kSuccess:
      return "Success";
    case Nvml::kUninitialized:
      return "Uninitialized";
    case Nvml::kInvalidArgument:
      return "Invalid Argument";
    case Nvml::kNotSupported:
      return "Not Supported";
    case Nvml::kNotFound:
      return "Not Found";
    case Nvml::kInsufficientSize:
      return "Insufficient Size";
    case Nvml::kNoPermission:
      return "Insufficient Permissions";
    case Nvml::kDriverNotLoaded:
      return "Driver Not Loaded";
    case Nvml::kVersionMismatch:
      return "Argument version mismatch";
    case Nvml::kUnknown:
      break;
  }
  return "Unknown Error";
}

std::int32_t nvmlSystemGetDriverVersion(char* text, unsigned size_bytes) {
  return nvml_call(__func__, [&](Machine&) {
    return initialized ? print(text, size_bytes, "595.00") : Nvml::kUninitialized;
  });
}
// Cut to the room there is, as NVML does.
std::int32_t nvmlSystemGetProcessName(unsigned pid, char* text, unsigned size_bytes) {
  return nvml_call(__func__, [&](Machine& machine) -> Nvml {
    if (!initialized) return Nvml::kUninitialized;
    if (text == nullptr || size_bytes == 0) return Nvml::kInvalidArgument;
    const std::string name = name_of_process(machine, pid);
    return name.empty() ? Nvml::kNotFound : print(text, size_bytes, name.substr(0, size_bytes - 1));
  });
}
std::int32_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13020;
  return 0;
}
std::int32_t nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

std::int32_t nvmlDeviceGetCount_v2(unsigned* count) {
  return nvml_call(__func__, [&](Machine& machine) -> Nvml {
    if (!initialized) return Nvml::kUninitialized;
    *count = static_cast<unsigned>(machine.devices().size());
    return Nvml::kSuccess;
  });
}
std::int32_t nvmlDeviceGetCount(unsigned* count) {
  return nvmlDeviceGetCount_v2(count);
}

std::int32_t nvmlDeviceGetHandleByIndex_v2(unsigned index, DeviceHandle* handle) {
  return nvml_call(__func__, [&](Machine& machine) -> Nvml {
    if (!initialized) return Nvml::kUninitialized;
    if (index >= machine.devices().size()) return Nvml::kInvalidArgument;
    *handle = handle_of_device(machine.device(static_cast<int>(index)));
    return Nvml::kSuccess;
  });
}
std::int32_t nvmlDeviceGetHandleByIndex(unsigned index, DeviceHandle* handle) {
  return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

std::int32_t nvmlDeviceGetHandleByPciBusId_v2(const char* text, DeviceHandle* handle) {
  unsigned bus = 0;
  // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): any other text finds nothing
  if (std::sscanf(text, "%*x:%x", &bus) != 1) bus = 0;
  return find_device(__func__, handle, [&](const Device& device) {
    return static_cast<unsigned>(pci_bus(device)) == bus;
  });
}
std::int32_t nvmlDeviceGetHandleByPciBusId(const char* text, DeviceHandle* handle) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, handle);
}

std::int32_t nvmlDeviceGetHandleByUUID(const char* text, DeviceHandle* handle) {
  return find_device(
      __func__, handle, [&](const Device& device) { return device_uuid_text(device) == text; });
}

std::int32_t nvmlDeviceGetIndex(DeviceHandle handle, unsigned* index) {
  return device_call(__func__, handle, [&](const Device& device) -> Nvml {
    *index = static_cast<unsigned>(device.index());
    return Nvml::kSuccess;
  });
}

std::int32_t nvmlDeviceGetName(DeviceHandle handle, char* text, unsigned size_bytes) {
  return device_call(__func__, handle, [&](const Device& device) {
    return print(text, size_bytes, device.model().name);
  });
}

std::int32_t nvmlDeviceGetUUID(DeviceHandle handle, char* text, unsigned size_bytes) {
  return device_call(__func__, handle, [&](const Device& device) {
    return print(text, size_bytes, device_uuid_text(device));
  });
}

std::int32_t nvmlDeviceGetCudaComputeCapability(DeviceHandle handle, int* major, int* minor) {
  return device_call(__func__, handle, [&](const Device& device) -> Nvml {
    *major = device.model().compute_major;
    *minor = device.model().compute_minor;
    return Nvml::kSuccess;
  });
}

std::int32_t nvmlDeviceGetMemoryInfo(DeviceHandle handle, MemoryInfo1* info) {
  return device_call(__func__, handle, [&](const Device& device) -> Nvml {
    *info = {device.total_bytes(), device.free_bytes(), used_bytes(device)};
    return Nvml::kSuccess;
  });
}

std::int32_t nvmlDeviceGetMemoryInfo_v2(DeviceHandle handle, MemoryInfo2* info) {
  return device_call(__func__, handle, [&](const Device& device) -> Nvml {
    constexpr unsigned kVersion = sizeof(MemoryInfo2) | (2U << 24);
    if (info->version != kVersion) return Nvml::kVersionMismatch;
    *info = {kVersion, device.total_bytes(), 0, device.free_bytes(), used_bytes(device)};
    return Nvml::kSuccess;
  });
}

std::int32_t nvmlDeviceGetComputeRunningProcesses(DeviceHandle handle,
                                                  unsigned* count,
                                                  ProcessInfo1* processes) {
  return running_processes(__func__, handle, count, processes);
}
std::int32_t nvmlDeviceGetComputeRunningProcesses_v2(DeviceHandle handle,
                                                     unsigned* count,
                                                     ProcessInfo2* processes) {
  return running_processes(__func__, handle, count, processes);
}
std::int32_t nvmlDeviceGetComputeRunningProcesses_v3(DeviceHandle handle,
                                                     unsigned* count,
                                                     ProcessInfo2* processes) {
  return running_processes(__func__, handle, count, processes);
}

// Nobody draws.
std::int32_t nvmlDeviceGetGraphicsRunningProcesses_v3(DeviceHandle handle,
                                                      unsigned* count,
                                                      ProcessInfo2*) {
  return device_call(__func__, handle, [&](const Device&) -> Nvml {
    *count = 0;
    return Nvml::kSuccess;
  });
}

// A mode that is off, as on cards that could be cut and are not.
std::int32_t nvmlDeviceGetMigMode(DeviceHandle handle, unsigned* current, unsigned* pending) {
  return device_call(__func__, handle, [&](const Device&) -> Nvml {
    *current = *pending = 0;
    return Nvml::kSuccess;
  });
}

std::int32_t nvmlDeviceGetUtilizationRates(DeviceHandle handle, unsigned* gpu_and_memory) {
  return device_call(__func__, handle, [&](const Device&) -> Nvml {
    gpu_and_memory[0] = gpu_and_memory[1] = 0;
    return Nvml::kSuccess;
  });
}

std::int32_t nvmlDeviceGetTemperature(DeviceHandle handle, std::int32_t, unsigned* celsius) {
  return device_call(__func__, handle, [&](const Device&) -> Nvml {
    *celsius = 40;
    return Nvml::kSuccess;
  });
}

std::int32_t nvmlDeviceGetPowerUsage(DeviceHandle handle, unsigned* milliwatts) {
  return device_call(__func__, handle, [&](const Device&) -> Nvml {
    *milliwatts = 100'000;
    return Nvml::kSuccess;
  });
}

std::int32_t nvmlDeviceGetClockInfo(DeviceHandle handle, std::int32_t, unsigned* mhz) {
  return device_call(__func__, handle, [&](const Device& device) -> Nvml {
    *mhz = static_cast<unsigned>(device.model().clock_mhz);
    return Nvml::kSuccess;
  });
}

std::int32_t nvmlDeviceGetGpuFabricInfoV(DeviceHandle handle, FabricInfo* info) {
  return device_call(__func__, handle, [&](const Device&) -> Nvml {
    const unsigned version = info->version;
    *info = {};  // State 0: no fabric.
    info->version = version;
    return Nvml::kSuccess;
  });
}

}  // extern "C"
