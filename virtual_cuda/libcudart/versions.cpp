// SPDX-License-Identifier: Apache-2.0
// Entry points that have another form, or another name, in CUDA 12 than in CUDA 13. Compiled once
// for each, with FRAGSCOPE_CUDART_MAJOR saying which.
#include "virtual_cuda/abi/device_prop.hpp"
#include "virtual_cuda/core/unimplemented.hpp"
#include "virtual_cuda/device/device_attributes.hpp"
#include "virtual_cuda/libcudart/capture.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kMajor = FRAGSCOPE_CUDART_MAJOR;
constexpr std::int32_t kRuntimeVersion = kMajor == 12 ? 12040 : 13020;

template <class Prop>
void fill_common(const Device& device, Prop& prop) {
  const auto figure = [&](std::int32_t attribute) {
    return device_attribute(device, attribute).value_or(0);
  };
  const DeviceModel& model = device.model();
  std::memset(&prop, 0, sizeof(prop));
  model.name.copy(prop.head.name, sizeof(prop.head.name) - 1);
  const auto uuid = device_uuid(device);
  std::copy(uuid.begin(), uuid.end(), prop.head.uuid);
  prop.head.total_global_bytes = model.memory_bytes;
  prop.head.shared_bytes_per_block = kSharedBytesPerBlock;
  prop.head.registers_per_block = kRegisterCount;
  prop.head.warp_size = kWarpSize;
  prop.head.pitch_bytes = static_cast<std::size_t>(figure(11));
  prop.head.max_threads_per_block = kMaxThreadsPerBlock;
  for (int axis = 0; axis < 3; ++axis) {
    prop.head.max_threads_dim[axis] = figure(2 + axis);
    prop.max_grid_size[axis] = figure(5 + axis);
  }
  prop.total_constant_bytes = static_cast<std::size_t>(figure(9));
  prop.major = model.compute_major;
  prop.minor = model.compute_minor;
  prop.texture_alignment = static_cast<std::size_t>(figure(14));
  prop.texture_pitch_alignment = static_cast<std::size_t>(figure(51));
  prop.multiprocessor_count = model.multiprocessor_count;
  prop.can_map_host_memory = 1;
  prop.surface_alignment = 512;
  prop.concurrent_kernels = 1;
  prop.ecc_enabled = figure(32);
  prop.pci_bus_id = pci_bus(device);
  prop.async_engine_count = figure(40);
  prop.unified_addressing = 1;
  prop.memory_bus_width = model.bus_bits;
  prop.l2_cache_bytes = figure(38);
  prop.persisting_l2_cache_max_bytes = figure(108);
  prop.max_threads_per_multiprocessor = model.threads_per_multiprocessor;
  prop.stream_priorities_supported = 1;
  prop.global_l1_cache_supported = 1;
  prop.local_l1_cache_supported = 1;
  prop.shared_bytes_per_multiprocessor =
      static_cast<std::size_t>(shared_bytes_per_multiprocessor(device));
  prop.registers_per_multiprocessor = kRegisterCount;
  prop.managed_memory = 1;
  prop.concurrent_managed_access = 1;
  prop.compute_preemption_supported = 1;
  prop.can_use_host_pointer_for_registered_memory = 1;
  prop.cooperative_launch = 1;
  prop.tail.shared_bytes_per_block_optin =
      static_cast<std::size_t>(shared_bytes_per_block_optin(device));
  prop.tail.max_blocks_per_multiprocessor = figure(106);
  prop.tail.access_policy_max_window_bytes = figure(109);
  prop.tail.reserved_shared_bytes_per_block = static_cast<std::size_t>(figure(111));
  prop.tail.host_register_supported = 1;
  prop.tail.memory_pools_supported = 1;
  prop.tail.cluster_launch = figure(120);
  prop.tail.unified_function_pointers = 1;
}

template <class Prop>
void fill(const Device& device, Prop& prop) {
  fill_common(device, prop);
  if constexpr (std::is_same_v<Prop, DeviceProp12>) {
    prop.clock_khz = device_attribute(device, 13).value_or(0);
    prop.memory_clock_khz = device_attribute(device, 36).value_or(0);
    prop.device_overlap = 1;
    prop.single_to_double_ratio = 2;
  }
}

template <class Prop>
std::int32_t device_properties(const char* name, Prop* prop, int ordinal) {
  return runtime_call(name, [&](Call& call) -> Status {
    if (!call.machine.is_ordinal(ordinal)) return Status::kInvalidDevice;
    fill(call.machine.visible(ordinal), *prop);
    return Status::kSuccess;
  });
}

// cudaDriverEntryPointQueryResult.
enum class EntryPoint : std::int32_t { kFound = 0, kNotFound = 1 };

// A driver function by name. Where the driver kept an old form under the plain name, the new one is
// called NAME_v2, and that is what programs of CUDA 12 and 13 mean.
std::int32_t driver_entry_point(const char* symbol, void** pointer, std::int32_t* result) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  *pointer = nullptr;
  if (driver != nullptr) {
    *pointer = dlsym(driver, (std::string(symbol) + "_v2").c_str());
    if (*pointer == nullptr) *pointer = dlsym(driver, symbol);
  }
  const EntryPoint found = *pointer == nullptr ? EntryPoint::kNotFound : EntryPoint::kFound;
  if (result != nullptr) *result = static_cast<std::int32_t>(found);
  return 0;
}

}  // namespace

extern "C" {

std::int32_t cudaRuntimeGetVersion(int* version) {
  *version = kRuntimeVersion;
  return 0;
}

std::int32_t cudaGetDriverEntryPoint(const char* symbol,
                                     void** pointer,
                                     unsigned long long,
                                     std::int32_t* result) {
  return driver_entry_point(symbol, pointer, result);
}

std::int32_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** pointer, unsigned, unsigned long long, std::int32_t* result) {
  return driver_entry_point(symbol, pointer, result);
}

#if FRAGSCOPE_CUDART_MAJOR == 12

std::int32_t cudaGetDeviceProperties_v2(DeviceProp12* prop, int ordinal) {
  return device_properties(__func__, prop, ordinal);
}

// The form of CUDA 11, and what it means without a suffix in 12 as well.
std::int32_t cudaStreamGetCaptureInfo(StreamHandle stream,
                                      std::int32_t* status,
                                      unsigned long long* id) {
  return capture_info(__func__, stream, {.status = status, .id = id});
}

std::int32_t cudaStreamGetCaptureInfo_v2(StreamHandle stream,
                                         std::int32_t* status,
                                         unsigned long long* id,
                                         GraphHandle* graph,
                                         const NodeHandle** dependencies,
                                         std::size_t* count) {
  return capture_info(__func__, stream, {status, id, graph, dependencies, nullptr, count});
}

std::int32_t cudaStreamGetCaptureInfo_v3(StreamHandle stream,
                                         std::int32_t* status,
                                         unsigned long long* id,
                                         GraphHandle* graph,
                                         const NodeHandle** dependencies,
                                         const EdgeData** edges,
                                         std::size_t* count) {
  return capture_info(__func__, stream, {status, id, graph, dependencies, edges, count});
}

std::int32_t cudaStreamUpdateCaptureDependencies(StreamHandle stream,
                                                 NodeHandle* nodes,
                                                 std::size_t count,
                                                 unsigned flags) {
  return update_capture_dependencies(__func__, stream, {nodes, count}, flags);
}

std::int32_t cudaGraphNodeGetDependencies(NodeHandle node, NodeHandle* nodes, std::size_t* count) {
  return node_dependencies(__func__, node, {nodes, nullptr, count});
}

std::int32_t cudaGraphNodeGetDependentNodes(NodeHandle node,
                                            NodeHandle* nodes,
                                            std::size_t* count) {
  return node_dependents(__func__, node, {nodes, nullptr, count});
}

std::int32_t cudaGraphGetEdges(GraphHandle graph,
                               NodeHandle* from,
                               NodeHandle* to,
                               std::size_t* count) {
  return graph_edges(__func__, graph, {from, to, nullptr, count});
}

std::int32_t cudaGraphAddDependencies(GraphHandle,
                                      const NodeHandle* from,
                                      const NodeHandle* to,
                                      std::size_t count) {
  return add_edges(__func__, {from, count}, {to, count});
}

std::int32_t cudaGraphAddNode(NodeHandle* node,
                              GraphHandle graph,
                              const NodeHandle* dependencies,
                              std::size_t count,
                              const NodeParams* params) {
  const Work work{.kind = static_cast<NodeKind>(params->type)};
  return add_node(__func__, graph, {dependencies, count}, work, node);
}

#else

std::int32_t cudaGetDeviceProperties(DeviceProp13* prop, int ordinal) {
  return device_properties(__func__, prop, ordinal);
}

std::int32_t cudaStreamGetCaptureInfo(StreamHandle stream,
                                      std::int32_t* status,
                                      unsigned long long* id,
                                      GraphHandle* graph,
                                      const NodeHandle** dependencies,
                                      const EdgeData** edges,
                                      std::size_t* count) {
  return capture_info(__func__, stream, {status, id, graph, dependencies, edges, count});
}

std::int32_t cudaStreamUpdateCaptureDependencies(
    StreamHandle stream, NodeHandle* nodes, const EdgeData*, std::size_t count, unsigned flags) {
  return update_capture_dependencies(__func__, stream, {nodes, count}, flags);
}

std::int32_t cudaGraphNodeGetDependencies(NodeHandle node,
                                          NodeHandle* nodes,
                                          EdgeData* edges,
                                          std::size_t* count) {
  return node_dependencies(__func__, node, {nodes, edges, count});
}

std::int32_t cudaGraphNodeGetDependentNodes(NodeHandle node,
                                            NodeHandle* nodes,
                                            EdgeData* edges,
                                            std::size_t* count) {
  return node_dependents(__func__, node, {nodes, edges, count});
}

std::int32_t cudaGraphGetEdges(
    GraphHandle graph, NodeHandle* from, NodeHandle* to, EdgeData* edges, std::size_t* count) {
  return graph_edges(__func__, graph, {from, to, edges, count});
}

std::int32_t cudaGraphAddDependencies(
    GraphHandle, const NodeHandle* from, const NodeHandle* to, const EdgeData*, std::size_t count) {
  return add_edges(__func__, {from, count}, {to, count});
}

std::int32_t cudaGraphAddNode(NodeHandle* node,
                              GraphHandle graph,
                              const NodeHandle* dependencies,
                              const EdgeData*,
                              std::size_t count,
                              const NodeParams* params) {
  const Work work{.kind = static_cast<NodeKind>(params->type)};
  return add_node(__func__, graph, {dependencies, count}, work, node);
}

#endif

}  // extern "C"
