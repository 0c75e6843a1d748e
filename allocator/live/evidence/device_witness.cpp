// SPDX-License-Identifier: Apache-2.0
#include "allocator/live/evidence/device_witness.hpp"

#include "devices/inventory.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

namespace fragscope::live {
namespace {

constexpr std::uint64_t kNotAvailable = std::numeric_limits<std::uint64_t>::max();
// Of more processes nobody reads the names, and each is a call.
constexpr std::size_t kMostNames = 64;

bool is_nvml_wanted() {
  const char* text = std::getenv("FRAGSCOPE_NVML");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr || std::string_view(text) != "0";
}

Result<NvmlDevice> find_device(const driver::Api& api, driver::DeviceHandle ordinal) {
  if (!is_nvml_wanted()) {
    return failure(ErrorCode::kUsage, "NVML is left alone, as FRAGSCOPE_NVML=0 says");
  }
  return find_in_nvml(api, ordinal);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Of the CUDA runtime that this process has loaded, whichever that is; none: it has none, or one
/// inside another library.
std::optional<int> runtime_version() {
  for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}) {
    void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const auto get =
        reinterpret_cast<std::int32_t (*)(int*)>(dlsym(library, "cudaRuntimeGetVersion"));
    int version = 0;
    const bool is_told = get != nullptr && get(&version) == 0;
    dlclose(library);
    if (is_told) return version;
  }
  return std::nullopt;
}

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace

void DeviceSight::record(recorder::DeviceRecorder& recorder, policy::Capacity capacity) const {
  std::vector<recorder::ProcessOnDevice> shown;
  shown.reserve(processes.size());
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const policy::ProcessMemory& process = processes[i];
    shown.push_back({process.pid,
                     process.bytes == kNotAvailable ? std::nullopt : std::optional(process.bytes),
                     process.is_this,
                     names[i]});
  }
  recorder.device_use(capacity, shown, refusal);
}

DeviceWitness::DeviceWitness(const driver::Api& api, driver::DeviceHandle ordinal)
    : api_(api)
    , device_(find_device(api, ordinal)) {}

void DeviceWitness::record_facts(recorder::DeviceRecorder& recorder) const {
  recorder.fact("nvml", device_ ? "present" : device_.error().message);
  if (device_) {
    if (const auto version = device_->nvml->driver_version()) recorder.fact("driver", *version);
    if (const auto index = device_->nvml->device_index(device_->handle)) {
      recorder.fact("host_ordinal", std::to_string(*index));
    }
  }
  int version = 0;
  if (api_.driver_get_version(&version) == driver::kSuccess) {
    recorder.fact("cuda_driver", version_text(version));
  }
  if (const auto runtime = runtime_version()) {
    recorder.fact("cuda_runtime", version_text(*runtime));
  }
  const devices::Environment environment = devices::read_environment();
  if (environment.visible_variable) {
    recorder.fact("CUDA_VISIBLE_DEVICES", *environment.visible_variable);
  }
  if (environment.order_variable) recorder.fact("CUDA_DEVICE_ORDER", *environment.order_variable);
  recorder.fact("pid_namespace", environment.is_host_namespace ? "host" : "own");
}

DeviceSight DeviceWitness::look() const {
  DeviceSight sight;
  auto processes = device_.and_then(list_processes);
  if (!processes) {
    sight.refusal = processes.error().message;
    return sight;
  }
  sight.processes = std::move(*processes);
  sight.names.resize(sight.processes.size());
  for (std::size_t i = 0; i < std::min(sight.processes.size(), kMostNames); ++i) {
    const policy::ProcessMemory& process = sight.processes[i];
    // This one's command line is in the ring's header.
    if (process.is_this) continue;
    sight.names[i] =
        device_->nvml->process_name(static_cast<std::uint32_t>(process.pid)).value_or("");
  }
  return sight;
}

std::optional<DeviceSight> DeviceWitness::look_if_due() {
  const std::int64_t begin = now_ns();
  if (begin < next_look_ns_.load(std::memory_order_relaxed)) return std::nullopt;
  DeviceSight sight = look();
  const std::int64_t end = now_ns();
  next_look_ns_.store(end + 19 * (end - begin), std::memory_order_relaxed);
  return sight;
}

}  // namespace fragscope::live
