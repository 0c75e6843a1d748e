// SPDX-License-Identifier: Apache-2.0
// The driver's calls about code: modules hold nothing, and a launch is work on a stream that does
// nothing.
#include "virtual_cuda/core/call.hpp"

#include <array>
#include <cstdint>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

using ModuleHandle = void*;
using FunctionHandle = void*;

// One module and one function stand for all, as no call depends on which it is given.
std::array<char, 1> the_module{};
std::array<char, 1> the_function{};

std::int32_t launch(const char* name, StreamHandle stream) {
  return driver_call(name, [&](Call& call) -> Status {
    const std::uint64_t duration_ns = call.machine.options().kernel_ns;
    return call.enqueue(stream, {.kind = NodeKind::kKernel, .duration_ns = duration_ns});
  });
}

std::int32_t load(const char* name, ModuleHandle* module) {
  return driver_call(name, [&](Call&) -> Status {
    *module = the_module.data();
    return Status::kSuccess;
  });
}

}  // namespace

extern "C" {

std::int32_t cuModuleLoad(ModuleHandle* module, const char*) {
  return load(__func__, module);
}
std::int32_t cuModuleLoadData(ModuleHandle* module, const void*) {
  return load(__func__, module);
}
std::int32_t cuModuleLoadDataEx(ModuleHandle* module, const void*, unsigned, void*, void**) {
  return load(__func__, module);
}
std::int32_t cuModuleUnload(ModuleHandle) {
  return 0;
}

std::int32_t cuModuleGetFunction(FunctionHandle* function, ModuleHandle, const char*) {
  *function = the_function.data();
  return 0;
}

std::int32_t cuFuncGetAttribute(int* value, std::int32_t, FunctionHandle) {
  *value = 0;
  return 0;
}
std::int32_t cuFuncSetAttribute(FunctionHandle, std::int32_t, int) {
  return 0;
}
std::int32_t cuFuncSetCacheConfig(FunctionHandle, std::int32_t) {
  return 0;
}

std::int32_t cuOccupancyMaxActiveBlocksPerMultiprocessor(int* count,
                                                         FunctionHandle,
                                                         int,
                                                         std::size_t) {
  *count = 2;
  return 0;
}

std::int32_t cuLaunchKernel(FunctionHandle,
                            unsigned,
                            unsigned,
                            unsigned,
                            unsigned,
                            unsigned,
                            unsigned,
                            unsigned,
                            StreamHandle stream,
                            void**,
                            void**) {
  return launch(__func__, stream);
}

std::int32_t cuLaunchCooperativeKernel(FunctionHandle,
                                       unsigned,
                                       unsigned,
                                       unsigned,
                                       unsigned,
                                       unsigned,
                                       unsigned,
                                       unsigned,
                                       StreamHandle stream,
                                       void**) {
  return launch(__func__, stream);
}

}  // extern "C"
