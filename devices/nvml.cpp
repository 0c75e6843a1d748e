// SPDX-License-Identifier: Apache-2.0
#include "devices/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

namespace fragscope::devices {
namespace {

// NVML_VALUE_NOT_AVAILABLE
constexpr unsigned long long kNotAvailable = ~0ULL;
// No list of processes is longer; where NVML says otherwise, it says nonsense.
constexpr unsigned kMostProcesses = 1U << 16;
// Processes come while they are listed, and each time there is more room than asked for.
constexpr int kMostTries = 8;

constexpr NvmlStatus kFunctionNotFound = 13;  // NVML_ERROR_FUNCTION_NOT_FOUND

/// The answer of a function that may be missing.
template <class Function, class... Arguments>
NvmlStatus ask(Function* function, Arguments... arguments) {
  return function == nullptr ? kFunctionNotFound : function(arguments...);
}

template <class Function>
void find(void* library, Function*& into, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    into = reinterpret_cast<Function*>(dlsym(library, name));
    if (into != nullptr) return;
  }
}

void find_devices(void* library, NvmlApi& api) {
  find(library, api.init, {"nvmlInit_v2"});
  find(library, api.error_string, {"nvmlErrorString"});
  find(library, api.driver_version, {"nvmlSystemGetDriverVersion"});
  find(library, api.device_count, {"nvmlDeviceGetCount_v2"});
  find(library, api.device_by_index, {"nvmlDeviceGetHandleByIndex_v2"});
  find(library, api.device_by_pci, {"nvmlDeviceGetHandleByPciBusId_v2"});
  find(library, api.device_index, {"nvmlDeviceGetIndex"});
  find(library, api.device_name, {"nvmlDeviceGetName"});
  find(library, api.device_uuid, {"nvmlDeviceGetUUID"});
  find(library, api.memory, {"nvmlDeviceGetMemoryInfo"});
  find(library, api.memory_v2, {"nvmlDeviceGetMemoryInfo_v2"});
  find(library, api.mig_mode, {"nvmlDeviceGetMigMode"});
  find(library, api.mig_count, {"nvmlDeviceGetMaxMigDeviceCount"});
  find(library, api.mig_by_index, {"nvmlDeviceGetMigDeviceHandleByIndex"});
}

void find_processes(void* library, NvmlApi& api) {
  find(library, api.process_name, {"nvmlSystemGetProcessName"});
  find(library,
       api.compute.newer,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  find(library, api.compute.oldest, {"nvmlDeviceGetComputeRunningProcesses"});
  find(library,
       api.graphics.newer,
       {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"});
  find(library, api.graphics.oldest, {"nvmlDeviceGetGraphicsRunningProcesses"});
  find(
      library,
      api.mps.newer,
      {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"});
  find(library, api.mps.oldest, {"nvmlDeviceGetMPSComputeRunningProcesses"});
}

/// Calls a function that fills an array, with more room each time that it was too small. Gives the
/// last status; kNvmlInsufficientSize: the list never stood still.
template <class Info>
NvmlStatus fill(NvmlStatus (*call)(NvmlHandle, unsigned*, Info*),
                NvmlHandle device,
                std::vector<Info>& infos) {
  unsigned room = 16;
  for (int tries = 0; tries < kMostTries; ++tries) {
    infos.resize(room);
    unsigned count = room;
    const NvmlStatus status = call(device, &count, infos.data());
    if (status != kNvmlInsufficientSize) {
      infos.resize(status == kNvmlSuccess ? std::min(count, room) : 0);
      return status;
    }
    room = std::min(std::max(2 * room, count + 16), kMostProcesses);
  }
  infos.clear();
  return kNvmlInsufficientSize;
}

template <class Info>
std::vector<ProcessUse> uses_of(const std::vector<Info>& infos, ProcessKind kind) {
  std::vector<ProcessUse> uses;
  uses.reserve(infos.size());
  for (const Info& info : infos) {
    ProcessUse use{info.pid, kind, std::nullopt};
    if (info.used_bytes != kNotAvailable) use.used_bytes = info.used_bytes;
    uses.push_back(use);
  }
  return uses;
}

/// A process's use may stand in several lists; it is the same use.
void merge(const std::vector<ProcessUse>& more, std::vector<ProcessUse>& all) {
  for (const ProcessUse& use : more) {
    const auto known = std::find_if(
        all.begin(), all.end(), [&use](const ProcessUse& one) { return one.pid == use.pid; });
    if (known == all.end()) {
      all.push_back(use);
      continue;
    }
    known->kinds |= use.kinds;
    known->used_bytes = std::max(known->used_bytes, use.used_bytes);
  }
}

}  // namespace

Result<Nvml> Nvml::open(const NvmlApi& api) {
  Nvml nvml(api);
  if (const NvmlStatus status = api.init(); status != kNvmlSuccess) {
    return nvml.refusal("nvmlInit", status);
  }
  return nvml;
}

std::string Nvml::error_text(NvmlStatus status) const {
  const char* text = api_.error_string == nullptr ? nullptr : api_.error_string(status);
  return text == nullptr ? "error " + std::to_string(status) : text;
}

tl::unexpected<Error> Nvml::refusal(const char* call, NvmlStatus status) const {
  return failure(
      ErrorCode::kUnreadable,
      std::string(call) + ": " + error_text(status) + " (" + std::to_string(status) + ")");
}

Result<std::string> Nvml::driver_version() const {
  std::array<char, 96> text{};
  const NvmlStatus status =
      ask(api_.driver_version, text.data(), static_cast<unsigned>(text.size()) - 1);
  if (status != kNvmlSuccess) return refusal("nvmlSystemGetDriverVersion", status);
  return std::string(text.data());
}

Result<unsigned> Nvml::device_count() const {
  unsigned count = 0;
  const NvmlStatus status = ask(api_.device_count, &count);
  if (status != kNvmlSuccess) return refusal("nvmlDeviceGetCount", status);
  return count;
}

Result<NvmlHandle> Nvml::device_by_index(unsigned index) const {
  NvmlHandle device = nullptr;
  const NvmlStatus status = ask(api_.device_by_index, index, &device);
  if (status != kNvmlSuccess) return refusal("nvmlDeviceGetHandleByIndex", status);
  return device;
}

Result<NvmlHandle> Nvml::device_by_pci(const std::string& bus_id) const {
  NvmlHandle device = nullptr;
  const NvmlStatus status = ask(api_.device_by_pci, bus_id.c_str(), &device);
  if (status != kNvmlSuccess) return refusal("nvmlDeviceGetHandleByPciBusId", status);
  return device;
}

Result<unsigned> Nvml::device_index(NvmlHandle device) const {
  unsigned index = 0;
  const NvmlStatus status = ask(api_.device_index, device, &index);
  if (status != kNvmlSuccess) return refusal("nvmlDeviceGetIndex", status);
  return index;
}

Result<std::string> Nvml::device_name(NvmlHandle device) const {
  std::array<char, 128> text{};
  const NvmlStatus status =
      ask(api_.device_name, device, text.data(), static_cast<unsigned>(text.size()) - 1);
  if (status != kNvmlSuccess) return refusal("nvmlDeviceGetName", status);
  return std::string(text.data());
}

Result<std::string> Nvml::device_uuid(NvmlHandle device) const {
  std::array<char, 128> text{};
  const NvmlStatus status =
      ask(api_.device_uuid, device, text.data(), static_cast<unsigned>(text.size()) - 1);
  if (status != kNvmlSuccess) return refusal("nvmlDeviceGetUUID", status);
  return std::string(text.data());
}

Result<MemoryUse> Nvml::memory(NvmlHandle device) const {
  NvmlMemory2 newer;
  if (ask(api_.memory_v2, device, &newer) == kNvmlSuccess) {
    return MemoryUse{newer.total_bytes, newer.free_bytes, newer.used_bytes, newer.reserved_bytes};
  }
  NvmlMemory1 older;
  const NvmlStatus status = ask(api_.memory, device, &older);
  if (status != kNvmlSuccess) return refusal("nvmlDeviceGetMemoryInfo", status);
  return MemoryUse{older.total_bytes, older.free_bytes, older.used_bytes, std::nullopt};
}

bool Nvml::is_mig(NvmlHandle device) const {
  unsigned current = 0;
  unsigned pending = 0;
  return ask(api_.mig_mode, device, &current, &pending) == kNvmlSuccess && current == 1;
}

std::vector<NvmlHandle> Nvml::mig_devices(NvmlHandle device) const {
  std::vector<NvmlHandle> found;
  unsigned most = 0;
  if (ask(api_.mig_count, device, &most) != kNvmlSuccess) return found;
  for (unsigned i = 0; i < std::min(most, 64U); ++i) {
    NvmlHandle mig = nullptr;
    // Numbers without a device are in between.
    if (ask(api_.mig_by_index, device, i, &mig) == kNvmlSuccess) found.push_back(mig);
  }
  return found;
}

Result<std::vector<ProcessUse>> Nvml::list(const char* call,
                                           const NvmlListing& listing,
                                           NvmlHandle device,
                                           ProcessKind kind) const {
  NvmlStatus status = kFunctionNotFound;
  if (listing.newer != nullptr) {
    std::vector<NvmlProcess2> infos;
    status = fill(listing.newer, device, infos);
    if (status == kNvmlSuccess) return uses_of(infos, kind);
  } else if (listing.oldest != nullptr) {
    std::vector<NvmlProcess1> infos;
    status = fill(listing.oldest, device, infos);
    if (status == kNvmlSuccess) return uses_of(infos, kind);
  }
  return refusal(call, status);
}

Result<std::vector<ProcessUse>> Nvml::compute_processes(NvmlHandle device) const {
  return list("nvmlDeviceGetComputeRunningProcesses", api_.compute, device, kCompute);
}

Result<std::vector<ProcessUse>> Nvml::all_processes(NvmlHandle device) const {
  auto all = compute_processes(device);
  if (!all) return all;
  const auto graphics =
      list("nvmlDeviceGetGraphicsRunningProcesses", api_.graphics, device, kGraphics);
  if (graphics) merge(*graphics, *all);
  const auto mps = list("nvmlDeviceGetMPSComputeRunningProcesses", api_.mps, device, kMps);
  if (mps) merge(*mps, *all);
  return all;
}

std::optional<std::string> Nvml::process_name(std::uint32_t pid) const {
  std::array<char, 256> text{};
  const NvmlStatus status =
      ask(api_.process_name, pid, text.data(), static_cast<unsigned>(text.size()) - 1);
  if (status != kNvmlSuccess || text[0] == '\0') return std::nullopt;
  return std::string(text.data());
}

Result<NvmlApi> load_nvml() {
  constexpr const char* kLibrary = "libnvidia-ml.so.1";
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    // The answer is this thread's own.
    const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe)
    return failure(ErrorCode::kUnreadable, std::string("no NVML: ") + reason);
  }
  NvmlApi api;
  find_devices(library, api);
  find_processes(library, api);
  if (api.init == nullptr) {
    return failure(ErrorCode::kUnreadable, std::string(kLibrary) + " has no nvmlInit_v2");
  }
  return api;
}

const Result<Nvml>& nvml() {
  // Never destroyed, as the driver: memory is given back after everything of ours is gone.
  static const auto* const opened = new Result<Nvml>(load_nvml().and_then(Nvml::open));
  return *opened;
}

}  // namespace fragscope::devices
