// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/inspect/out_of_memory_message.hpp"

#include <fmt/format.h>

#include <string_view>

namespace fragscope::policy {
namespace {

std::string of_processes(std::span<const ProcessMemory> processes) {
  std::string text;
  for (const ProcessMemory& process : processes) {
    text += process.is_this ? std::string("Including non-PyTorch memory, this process")
                            : fmt::format("Process {}", process.pid);
    text += fmt::format(" has {} memory in use. ", format_size(process.bytes));
  }
  return text;
}

std::string hint(const AllocationFailure& failure, const PolicyOptions& options) {
  if (options.version == TorchVersion::kTorch26) {
    return " If reserved but unallocated memory is large try setting "
           "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
           "documentation for Memory Management  "
           "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";
  }
  if (!options.conf.rules.expandable_segments) {
    return " If reserved but unallocated memory is large try setting "
           "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
           "documentation for Memory Management  "
           "(https://docs.pytorch.org/docs/stable/notes/"
           "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";
  }
  // Beyond the device's memory a larger reserve would not help.
  if (failure.reserve_bytes && failure.device_allocation > *failure.reserve_bytes &&
      failure.device_allocation <= failure.capacity.total_bytes) {
    const std::string of_class =
        failure.reserve_class.empty()
            ? std::string(" for this stream")
            : fmt::format(" for stream reserve class '{}'", failure.reserve_class);
    return fmt::format(
        " This allocation exceeds the expandable-segment reserve of {}{}, and a single allocation "
        "cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF "
        "expandable_segments_reserve "
        "or expandable_segments_reserve_by_class (or unset it) so that a segment is at least {}.",
        format_size(*failure.reserve_bytes),
        of_class,
        format_size(failure.device_allocation));
  }
  return " expandable_segments is enabled. If instead the process is running out of virtual "
         "address "
         "space (VSZ), expandable segments may be over-reserving VA (each segment reserves ~9/8 of "
         "device memory, times the number of streams); reduce it via PYTORCH_CUDA_ALLOC_CONF "
         "expandable_segments_reserve / expandable_segments_reserve_by_class.";
}

}  // namespace

std::string format_size(std::uint64_t bytes) {
  const auto in = [bytes](std::uint64_t unit, std::string_view name) {
    return fmt::format("{:.2f} {}", static_cast<double>(bytes) / static_cast<double>(unit), name);
  };
  if (bytes <= kKiB) return fmt::format("{} bytes", bytes);
  if (bytes <= kMiB) return in(kKiB, "KiB");
  if (bytes <= kGiB) return in(kMiB, "MiB");
  return in(kGiB, "GiB");
}

std::string out_of_memory_message(const AllocationFailure& failure,
                                  const PolicyOptions& options,
                                  int device,
                                  std::span<const ProcessMemory> processes) {
  if (failure.kind == AllocationFailure::Kind::kBeyondAnExbibyte) {
    return "CUDA out of memory. Tried to allocate more than 1EB memory.";
  }
  if (failure.kind == AllocationFailure::Kind::kRejected) {
    return fmt::format(
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
        "per_process_memory_fraction limit. Requested size: {}",
        format_size(failure.requested_size));
  }
  // What lies free in private pools counts as allocated there.
  const std::uint64_t free_in_pools = failure.private_free_bytes;
  std::string text = fmt::format(
      "CUDA out of memory. Tried to allocate {}. GPU {} has a total capacity of {} of which {} is "
      "free. {}",
      format_size(failure.device_allocation),
      device,
      format_size(failure.capacity.total_bytes),
      format_size(failure.capacity.free_bytes),
      of_processes(processes));
  if (failure.limit_bytes) text += fmt::format("{} allowed; ", format_size(*failure.limit_bytes));
  text += fmt::format("Of the allocated memory {} is allocated by PyTorch, ",
                      format_size(failure.allocated_bytes + free_in_pools));
  if (free_in_pools > 0) {
    text += fmt::format("with {} allocated in private pools (e.g., CUDA Graphs), ",
                        format_size(free_in_pools));
  }
  text +=
      fmt::format("and {} is reserved by PyTorch but unallocated.",
                  format_size(failure.reserved_bytes - failure.allocated_bytes - free_in_pools));
  text += hint(failure, options);
  if (failure.is_source_empty && options.version != TorchVersion::kTorch26) {
    text +=
        " The custom allocator backing this MemPool returned nullptr. Check preceding allocator "
        "warnings or logs for the underlying cause. This can indicate an allocator-specific error "
        "or memory constraint, even when device-wide free memory is available.";
  }
  return text;
}

}  // namespace fragscope::policy
