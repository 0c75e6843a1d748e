// SPDX-License-Identifier: Apache-2.0
// For tests of out-of-memory messages: one message of each form, and what was read from a text as
// one line to compare. The figures are made up; the words are those of the programs that print
// them.
#pragma once

#include "analyzer/explain/collector/message_collector.hpp"
#include "analyzer/explain/finding_text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace fragscope::explain::test {

inline constexpr std::uint64_t kKiB = 1ULL << 10;
inline constexpr std::uint64_t kMiB = 1ULL << 20;
inline constexpr std::uint64_t kGiB = 1ULL << 30;

/// The bytes that print as `value` with two decimals of a unit of 2^power bytes.
inline Bounds printed(double value, int power) {
  return {static_cast<std::uint64_t>(std::ceil(std::ldexp(value - 0.005, power))),
          static_cast<std::uint64_t>(std::floor(std::ldexp(value + 0.005, power)))};
}

inline void describe(std::string& text,
                     std::string_view name,
                     const std::optional<Bounds>& bounds) {
  if (bounds) text += "; " + std::string(name) + " " + shown(*bounds);
}

/// "cuda, PyTorch 2.2 or later, GPU 0; request 1.75 GiB; ...": every figure that was read, as it
/// prints.
inline std::string described(const Message& message) {
  const Figures& f = message.figures;
  std::string text = std::string(to_string(message.backend)) + ", " + message.format;
  if (message.device) text += ", GPU " + std::to_string(*message.device);
  describe(text, "request", f.request);
  describe(text, "total", f.total);
  describe(text, "free", f.free);
  describe(text, "allocated", f.allocated);
  describe(text, "reserved", f.reserved);
  describe(text, "gap", f.gap);
  describe(text, "pools", f.private_pools);
  describe(text, "limit", f.limit);
  describe(text, "this process", f.process);
  describe(text, "other", f.other_allocations);
  for (const ProcessUse& use : f.processes)
    describe(text, "process " + use.pid, use.bytes);
  return text + (message.cut_short ? "; cut" : "");
}

/// The same for every message of a log, " | " between them.
inline std::string described(std::string_view log) {
  std::string text;
  for (const Message& message : find_messages(log)) {
    text += text.empty() ? "" : " | ";
    text += described(message);
  }
  return text;
}

/// The message of a log that holds exactly one.
inline Message only(std::string_view log) {
  const auto messages = find_messages(log);
  EXPECT_EQ(messages.size(), 1U) << log;
  return messages.empty() ? Message{} : messages.front();
}

inline constexpr std::string_view k10 =
    "RuntimeError: CUDA out of memory. Tried to allocate 12.50 MiB (GPU 0; 10.92 GiB total "
    "capacity; 9.71 GiB already allocated; 6.31 MiB free; 318.44 MiB cached)";

inline constexpr std::string_view k14 =
    "RuntimeError: CUDA out of memory. Tried to allocate 1.12 GiB (GPU 1; 23.69 GiB total "
    "capacity; 19.30 GiB already allocated; 85.00 MiB free; 23.10 GiB reserved in total by "
    "PyTorch)";

inline constexpr std::string_view k18 =
    "RuntimeError: CUDA out of memory. Tried to allocate 1.12 GiB (GPU 1; 23.69 GiB total "
    "capacity; 9.30 GiB already allocated; 12.05 GiB free; 10.50 GiB allowed; 10.10 GiB reserved "
    "in total by PyTorch)";

inline constexpr std::string_view k111 =
    "RuntimeError: CUDA out of memory. Tried to allocate 1.12 GiB (GPU 1; 23.69 GiB total "
    "capacity; 19.30 GiB already allocated; 85.00 MiB free; 23.10 GiB reserved in total by "
    "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
    "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";

inline constexpr std::string_view k21 =
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 1 has a "
    "total capacty of 23.69 GiB of which 85.00 MiB is free. Process 4711 has 2.50 GiB memory in "
    "use. Including non-PyTorch memory, this process has 21.10 GiB memory in use. Of the "
    "allocated memory 9.26 GiB is allocated by PyTorch, and 11.84 GiB is reserved by PyTorch but "
    "unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to "
    "avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";

inline constexpr std::string_view k22 =
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 1 has a "
    "total capacity of 23.69 GiB of which 85.00 MiB is free. Of the allocated memory 9.26 GiB is "
    "allocated by PyTorch, and 11.84 GiB is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
    "avoid fragmentation.  See documentation for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

inline constexpr std::string_view k26 =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 1 has a total "
    "capacity of 23.69 GiB of which 85.00 MiB is free. Including non-PyTorch memory, this process "
    "has 21.60 GiB memory in use. 23.00 GiB allowed; Of the allocated memory 9.26 GiB is "
    "allocated by PyTorch, with 40.00 MiB allocated in private pools (e.g., CUDA Graphs), and "
    "11.84 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is "
    "large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  "
    "See documentation for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

inline constexpr std::string_view k29 =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 1 has a total "
    "capacity of 23.69 GiB of which 85.00 MiB is free. Of the allocated memory 9.26 GiB is "
    "allocated by PyTorch, and 11.84 GiB is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to "
    "avoid fragmentation.  See documentation for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

inline constexpr std::string_view kHip =
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 4.50 GiB. GPU 0 has a total "
    "capacity of 15.98 GiB of which 1.40 GiB is free. Of the allocated memory 11.26 GiB is "
    "allocated by PyTorch, and 1.61 GiB is reserved by PyTorch but unallocated.";

inline constexpr std::string_view kXpu =
    "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 3.20 GiB. GPU 0 has a total "
    "capacity of 15.11 GiB. Of the allocated memory 11.02 GiB is allocated by PyTorch, and 712.00 "
    "MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all "
    "unoccupied cached memory.";

inline constexpr std::string_view kXpuLargeBlock =
    "RuntimeError: Current platform can NOT allocate memory block with size larger than 4GB! "
    "Tried to allocate 5.25 GiB (GPU  0; 15.11 GiB total capacity; 3.02 GiB already allocated; "
    "3.10 GiB reserved in total by PyTorch)";

inline constexpr std::string_view kMps =
    "RuntimeError: MPS backend out of memory (MPS allocated: 7.81 GB, other allocations: 9.62 GB, "
    "max allowed: 18.13 GB). Tried to allocate 896.00 MB on private pool. Use "
    "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may "
    "cause system failure).";

inline constexpr std::string_view kNpu =
    "RuntimeError: NPU out of memory. Tried to allocate 640.00 MiB (NPU 5; 60.97 GiB total "
    "capacity; 57.20 GiB already allocated; 57.25 GiB current active; 212.40 MiB free; 59.01 GiB "
    "reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
    "max_split_size_mb to avoid fragmentation.";

inline constexpr std::string_view kAsync =
    "torch.OutOfMemoryError: Allocation on device 2 would exceed allowed memory. (out of memory)\n"
    "Currently allocated     : 20.11 GiB\n"
    "Requested               : 3.50 GiB\n"
    "Device limit            : 23.65 GiB\n"
    "Free (according to CUDA): 1.19 GiB\n"
    "PyTorch limit (set by user-supplied memory fraction)\n"
    "                        : 21.00 GiB";

inline constexpr std::string_view kRejected =
    "torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it "
    "would exceed per_process_memory_fraction limit. Requested size: 4294967296 bytes.";

inline constexpr std::string_view kBeyond =
    "RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.";

inline constexpr std::string_view kAllocationAttempt =
    "memory allocation failed with OOM on device 7 while trying to allocate 1879048192 bytes "
    "(free: 89128960, total: 25437405184)";

inline constexpr std::string_view kMappingAttempt =
    "memory mapping failed with OOM on device 7 while trying to map 20971520 bytes (free: "
    "8912896, total: 25437405184)";

inline constexpr std::string_view kVllmCheck =
    "ValueError: Free memory on device (6.12/23.65 GiB) on startup is less than desired GPU "
    "memory utilization (0.9, 21.28 GiB). Decrease GPU memory utilization or reduce GPU memory "
    "used by other processes.";

inline constexpr std::string_view kJax =
    "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 "
    "bytes.";

inline constexpr std::string_view kStreamExecutor =
    "failed to allocate 17.79G (19104890880 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of "
    "memory";

inline constexpr std::string_view kLlama =
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1536.00 MiB on device 0: cudaMalloc "
    "failed: out of memory";

}  // namespace fragscope::explain::test
