// SPDX-License-Identifier: Apache-2.0
// Kernels: how nvcc's code registers and launches them, and what programs ask about them. A launch
// is work on a stream that does nothing.
#include "virtual_cuda/core/call.hpp"
#include "virtual_cuda/libcudart/kernel_names.hpp"

#include <array>
#include <cstring>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

// What torch.cuda._sleep launches: a kernel that counts to its first argument. Here a cycle is a
// nanosecond.
constexpr const char* kSpinKernel = "spin_kernel";
constexpr int kBlocksPerMultiprocessor =
    2;  // Any positive number lets programs compute their grids.

std::int32_t launch(const char* name, const void* function, void** arguments, StreamHandle stream) {
  return runtime_call(name, [&](Call& call) -> Status {
    Work work{.kind = NodeKind::kKernel, .duration_ns = call.machine.options().kernel_ns};
    if (arguments != nullptr && std::strstr(kernel_name(function), kSpinKernel) != nullptr) {
      std::memcpy(&work.duration_ns, arguments[0], sizeof(work.duration_ns));
    }
    return call.enqueue(stream, std::move(work));
  });
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void*) {  // NOLINT(bugprone-reserved-identifier)
  static std::array<void*, 8> handle{};
  return handle.data();
}
void __cudaRegisterFatBinaryEnd(void**) {}  // NOLINT(bugprone-reserved-identifier)
void __cudaUnregisterFatBinary(void**) {}   // NOLINT(bugprone-reserved-identifier)
char __cudaInitModule(void**) {             // NOLINT(bugprone-reserved-identifier)
  return 1;
}

void __cudaRegisterFunction(void**,  // NOLINT(bugprone-reserved-identifier)
                            const char* host_function,
                            char*,
                            const char* device_name,
                            int,
                            void*,
                            void*,
                            void*,
                            void*,
                            int*) {
  register_kernel(host_function, device_name);
}

void __cudaRegisterVar(  // NOLINT(bugprone-reserved-identifier)
    void**,
    char*,
    char*,
    const char*,
    int,
    std::size_t,
    int,
    int) {}

unsigned __cudaPushCallConfiguration(  // NOLINT(bugprone-reserved-identifier)
    Dim3 grid,
    Dim3 block,
    std::size_t shared_bytes,
    StreamHandle stream) {
  thread_context().launches.push_back({grid, block, shared_bytes, stream});
  return 0;
}

std::int32_t __cudaPopCallConfiguration(  // NOLINT(bugprone-reserved-identifier)
    Dim3* grid,
    Dim3* block,
    std::size_t* shared_bytes,
    StreamHandle* stream) {
  auto& launches = thread_context().launches;
  if (launches.empty()) return static_cast<std::int32_t>(Status::kMissingConfiguration);
  const PendingLaunch pending = launches.back();
  launches.pop_back();
  *grid = pending.grid;
  *block = pending.block;
  *shared_bytes = pending.shared_bytes;
  *stream = pending.stream;
  return 0;
}

std::int32_t __cudaGetKernel(  // NOLINT(bugprone-reserved-identifier)
    const void** kernel,
    const void* function) {
  *kernel = function;
  return 0;
}

std::int32_t __cudaLaunchKernel(  // NOLINT(bugprone-reserved-identifier)
    const void* kernel,
    Dim3,
    Dim3,
    void** arguments,
    std::size_t,
    StreamHandle stream) {
  return launch(__func__, kernel, arguments, stream);
}

std::int32_t cudaLaunchKernel(
    const void* function, Dim3, Dim3, void** arguments, std::size_t, StreamHandle stream) {
  return launch(__func__, function, arguments, stream);
}

std::int32_t cudaLaunchKernelExC(const LaunchConfig* config,
                                 const void* function,
                                 void** arguments) {
  return launch(__func__, function, arguments, config->stream);
}

std::int32_t cudaLaunchCooperativeKernel(
    const void* function, Dim3, Dim3, void** arguments, std::size_t, StreamHandle stream) {
  return launch(__func__, function, arguments, stream);
}

std::int32_t cudaLaunchHostFunc(StreamHandle stream, HostFunction function, void* data) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.enqueue(stream, {.kind = NodeKind::kHost, .action = [=] { function(data); }});
  });
}

std::int32_t cudaStreamAddCallback(StreamHandle stream,
                                   StreamCallback callback,
                                   void* data,
                                   unsigned) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    return call.enqueue(stream,
                        {.kind = NodeKind::kHost, .action = [=] { callback(stream, 0, data); }});
  });
}

std::int32_t cudaFuncGetAttributes(FunctionAttributes* attributes, const void*) {
  return runtime_call(__func__, [&](Call& call) -> Status {
    const DeviceModel& model = call.device().model();
    *attributes = {};
    attributes->max_threads_per_block = 1024;
    attributes->register_count = 32;
    attributes->max_dynamic_shared_bytes = 48 * 1024;
    attributes->binary_version = 10 * model.compute_major + model.compute_minor;
    attributes->ptx_version = attributes->binary_version;
    return Status::kSuccess;
  });
}

std::int32_t cudaFuncSetAttribute(const void*, std::int32_t, int) {
  return 0;
}

std::int32_t cudaKernelSetAttributeForDevice(const void*, std::int32_t, int, int) {
  return 0;
}

std::int32_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count,
                                                           const void*,
                                                           int,
                                                           std::size_t) {
  *count = kBlocksPerMultiprocessor;
  return 0;
}

std::int32_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* count, const void*, int, std::size_t, unsigned) {
  *count = kBlocksPerMultiprocessor;
  return 0;
}

// No code runs that could read a symbol, so all of them may share the same bytes.
std::int32_t cudaGetSymbolAddress(void** pointer, const void*) {
  static std::array<char, 1 << 16> bytes{};
  *pointer = bytes.data();
  return 0;
}

std::int32_t cudaMemcpyToSymbol(const void*, const void*, std::size_t, std::size_t, std::int32_t) {
  return 0;
}

}  // extern "C"
