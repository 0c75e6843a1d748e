// SPDX-License-Identifier: Apache-2.0
#include "allocator/driver/driver_api.hpp"

#include <dlfcn.h>

#include <utility>

namespace fragscope::driver {
namespace {

/// Takes functions out of the library; remembers the first that is missing.
class Finder {
 public:
  explicit Finder(void* library)
      : library_(library) {}

  template <class Function>
  void find(Function*& into, const char* name, const char* older = nullptr) {
    void* found = dlsym(library_, name);
    if (found == nullptr && older != nullptr) found = dlsym(library_, older);
    if (found == nullptr && missing_.empty()) missing_ = name;
    into = reinterpret_cast<Function*>(found);
  }
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

void find_devices(Finder& finder, Api& api) {
  finder.find(api.init, "cuInit");
  finder.find(api.driver_get_version, "cuDriverGetVersion");
  finder.find(api.get_error_name, "cuGetErrorName");
  finder.find(api.device_get_count, "cuDeviceGetCount");
  finder.find(api.device_get_name, "cuDeviceGetName");
  finder.find(api.device_get_uuid, "cuDeviceGetUuid_v2", "cuDeviceGetUuid");
  finder.find(api.device_total_mem, "cuDeviceTotalMem_v2", "cuDeviceTotalMem");
  finder.find(api.device_get_attribute, "cuDeviceGetAttribute");
  finder.find(api.device_primary_ctx_retain, "cuDevicePrimaryCtxRetain");
  finder.find(api.ctx_get_current, "cuCtxGetCurrent");
  finder.find(api.ctx_set_current, "cuCtxSetCurrent");
  finder.find(api.ctx_synchronize, "cuCtxSynchronize");
}

void find_memory(Finder& finder, Api& api) {
  finder.find(api.mem_get_info, "cuMemGetInfo_v2");
  finder.find(api.mem_alloc, "cuMemAlloc_v2");
  finder.find(api.mem_free, "cuMemFree_v2");
  finder.find(api.mem_address_reserve, "cuMemAddressReserve");
  finder.find(api.mem_address_free, "cuMemAddressFree");
  finder.find(api.mem_create, "cuMemCreate");
  finder.find(api.mem_release, "cuMemRelease");
  finder.find(api.mem_map, "cuMemMap");
  finder.find(api.mem_unmap, "cuMemUnmap");
  finder.find(api.mem_set_access, "cuMemSetAccess");
}

void find_streams(Finder& finder, Api& api) {
  finder.find(api.thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode");
  finder.find(api.stream_is_capturing, "cuStreamIsCapturing");
  // Without edge data. Where a graph has any, these fail, and the graph is not looked into.
  finder.find(api.stream_get_capture_info, "cuStreamGetCaptureInfo_v2");
  finder.find(api.graph_node_get_dependencies, "cuGraphNodeGetDependencies");
  finder.find(api.event_create, "cuEventCreate");
  finder.find(api.event_destroy, "cuEventDestroy_v2");
  finder.find(api.event_record, "cuEventRecord");
  finder.find(api.event_query, "cuEventQuery");
  finder.find(api.event_synchronize, "cuEventSynchronize");
}

Result<Api> load() {
  constexpr const char* kLibrary = "libcuda.so.1";
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    // The answer is this thread's own.
    const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe)
    return failure(ErrorCode::kUnreadable, std::string("no CUDA driver: ") + reason);
  }
  Api api;
  Finder finder(library);
  find_devices(finder, api);
  find_memory(finder, api);
  find_streams(finder, api);
  if (!finder.missing().empty()) {
    return failure(ErrorCode::kUnreadable,
                   std::string(kLibrary) + " has no " + finder.missing() +
                       "; a driver for CUDA 11.3 or later is needed");
  }
  if (const Status status = api.init(0); status != kSuccess) {
    return failure(ErrorCode::kUnreadable, "cuInit: " + api.name_of(status));
  }
  return api;
}

}  // namespace

std::string Api::name_of(Status status) const {
  const char* name = nullptr;
  if (get_error_name(status, &name) != kSuccess || name == nullptr) {
    return "error " + std::to_string(status);
  }
  return name;
}

const Result<Api>& api() {
  // Never destroyed: memory is given back after everything of ours is gone.
  static const auto* const loaded = new Result<Api>(load());
  return *loaded;
}

}  // namespace fragscope::driver
