// SPDX-License-Identifier: Apache-2.0
// Words of failure that belong to no one engine: what allocators, drivers, Python and the system
// say. Sentences that only warn of running out of memory do not have them.
#include "analyzer/stages/vocabulary/phrase.hpp"

namespace fragscope::stages {
namespace {

using enum Meaning;

constexpr Engine kAny = Engine::kNone;

constexpr Phrase kPhrases[] = {
    {"Traceback (most recent call last)", kAny, kTraceback},
    {".py\", line ", kAny, kFrame},

    // Whether these tell of a failure: memory_words.hpp.
    {"out of memory", kAny, kOutOfMemory},
    {"Out of memory", kAny, kOutOfMemory},
    {"OutOfMemoryError", kAny, kOutOfMemory},
    {"would exceed allowed memory", kAny, kOutOfMemory},
    {"can NOT allocate memory block with size larger than", kAny, kOutOfMemory},
    {"Invalid buffer size: ", kAny, kOutOfMemory},
    {"NVML_SUCCESS == ", kAny, kOutOfMemory},
    {"!handles_.at(i)", kAny, kOutOfMemory},
    {"CUDA_ERROR_OUT_OF_MEMORY", kAny, kOutOfMemory},
    {"cudaErrorMemoryAllocation", kAny, kOutOfMemory},
    {"hipErrorOutOfMemory", kAny, kOutOfMemory},
    {"CUBLAS_STATUS_ALLOC_FAILED", kAny, kOutOfMemory},
    {"CUDNN_STATUS_ALLOC_FAILED", kAny, kOutOfMemory},
    {"OUT_OF_DEVICE_MEMORY", kAny, kOutOfMemory},
    {"ErrorOutOfDeviceMemory", kAny, kOutOfMemory},
    {"RESOURCE_EXHAUSTED", kAny, kOutOfMemory},
    {"OOM when allocating tensor", kAny, kOutOfMemory},

    // Host memory.
    {"DefaultCPUAllocator: ", kAny, kOutOfMemory},
    {"std::bad_alloc", kAny, kOutOfMemory},
    {"OUT_OF_HOST_MEMORY", kAny, kOutOfMemory},
    {"ErrorOutOfHostMemory", kAny, kOutOfMemory},
    {"Cannot allocate memory", kAny, kOutOfMemory},
    {"killed due to memory pressure", kAny, kFailHere},
    {"killed due to the node running low on memory", kAny, kFailHere},
    {"Signals.SIGKILL: 9", kAny, kFailHere},
    {"Killed process ", kAny, kFailHere},
    {"Killed", kAny, kKilled},  // too short to scan for; a line of its own is long enough
    {"exit code 137", kAny, kFailHere},
    {" OOMKilled", kAny, kFailHere},
    {"\"OOMKilled\"", kAny, kFailHere},

    // Last lines of a traceback. Names in full, since shorter words would stand in every log.
    {"RuntimeError: ", kAny, kException},
    {"ValueError: ", kAny, kException},
    {"TypeError: ", kAny, kException},
    {"AssertionError", kAny, kException},
    {"AttributeError: ", kAny, kException},
    {"NotImplementedError", kAny, kException},
    {"AcceleratorError: ", kAny, kException},
    {"SafetensorError: ", kAny, kException},
    {"DistBackendError: ", kAny, kException},
    {"FileNotFoundError: ", kAny, kException},
    {"ModuleNotFoundError: ", kAny, kException},
    {"ImportError: ", kAny, kException},
    {"MemoryError", kAny, kException},
    {"terminate called after throwing", kAny, kFollowUp},
    {"Segmentation fault", kAny, kFollowUp},
};

}  // namespace

std::span<const Phrase> failure_phrases() {
  return kPhrases;
}

}  // namespace fragscope::stages
