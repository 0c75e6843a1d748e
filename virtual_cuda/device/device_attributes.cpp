// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/device/device_attributes.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace fragscope::virtual_cuda {
namespace {

struct FixedAttribute {
  std::int32_t attribute;
  int value;
};

// What no model changes. The numbers are those of cudaDeviceAttr; what is true of every device
// since Volta, and 0 for what virtual CUDA has not (IPC, fabric handles, NUMA, GPUDirect).
constexpr FixedAttribute kFixed[] = {
    {1, kMaxThreadsPerBlock},
    {2, 1024},  // Block dimensions x, y, z.
    {3, 1024},
    {4, 64},
    {5, 2147483647},  // Grid dimensions x, y, z.
    {6, 65535},
    {7, 65535},
    {8, kSharedBytesPerBlock},
    {9, 65536},  // Constant memory.
    {10, kWarpSize},
    {11, 2147483647},  // Pitch.
    {12, kRegisterCount},
    {14, 512},  // Texture alignment.
    {15, 1},    // Copies overlap kernels.
    {17, 0},    // No time limit for kernels.
    {18, 0},    // Not integrated.
    {19, 1},    // Can map host memory.
    {20, 0},    // Default compute mode.
    {31, 1},    // Concurrent kernels.
    {32, 1},    // ECC.
    {34, 0},    // PCI device.
    {35, 0},    // TCC driver.
    {40, 3},    // Copy engines.
    {41, 1},    // Unified addressing.
    {50, 0},    // PCI domain.
    {51, 32},   // Texture pitch alignment.
    {78, 1},    // Stream priorities.
    {79, 1},    // L1 caches.
    {80, 1},
    {82, kRegisterCount},
    {83, 1},  // Managed memory.
    {84, 0},  // Multi-GPU board.
    {85, 0},
    {86, 0},  // Native host atomics.
    {87, 2},  // Single to double precision.
    {88, 0},  // Pageable memory access.
    {89, 1},  // Concurrent managed access.
    {90, 1},  // Compute preemption.
    {91, 1},  // Host pointer of registered memory.
    {92, 0},  // Stream memory operations: retired.
    {93, 0},
    {94, 1},  // 32-bit and 64-bit waits on values.
    {95, 1},  // Cooperative launch.
    {96, 0},
    {98, 0},  // Flush remote writes.
    {99, 1},  // Host register.
    {100, 0},
    {101, 0},
    {102, 1},  // Virtual memory management.
    {103, 0},  // Handle types: POSIX file descriptor, Win32, KMT.
    {104, 0},
    {105, 0},
    {106, 32},  // Blocks per multiprocessor.
    {107, 0},   // Compression.
    {110, 0},   // GPUDirect with virtual memory.
    {111, 1024},
    {112, 0},
    {113, 0},
    {114, 0},
    {115, 1},  // Memory pools.
    {116, 0},
    {117, 0},
    {118, 0},
    {119, 0},
    {121, 0},
    {122, 1},
    {123, 0},
    {124, 0},  // dma-buf.
    {125, 0},  // IPC events.
    {126, 1},
    {128, 0},  // Fabric handles.
    {129, 1},  // Unified function pointers.
    {130, 0},  // NUMA.
    {131, -1},
    {132, 0},  // Multicast.
    {133, 0},  // MPS.
    {134, -1},
};

int kib(int count) {
  return count * 1024;
}

std::optional<int> model_attribute(const Device& device, std::int32_t attribute) {
  const DeviceModel& model = device.model();
  switch (attribute) {
    case 13:
      return model.clock_mhz * 1000;
    case 16:
      return model.multiprocessor_count;
    case 33:
      return pci_bus(device);
    case 36:
      return 2 * model.clock_mhz * 1000;  // Memory clock; no two cards agree, and nobody asks.
    case 37:
      return model.bus_bits;
    case 38:
      return kib(model.l2_kib);
    case 39:
      return model.threads_per_multiprocessor;
    case 75:
      return model.compute_major;
    case 76:
      return model.compute_minor;
    case 81:
      return shared_bytes_per_multiprocessor(device);
    case 97:
      return shared_bytes_per_block_optin(device);
    case 108:
      return kib(model.l2_kib) / 8 * 5;
    case 109:
      return 128 * 1024 * 1024;
    case 120:
      return model.compute_major >= 9 ? 1 : 0;  // Clusters.
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<int> device_attribute(const Device& device, std::int32_t attribute) {
  const auto* const fixed =
      std::find_if(std::begin(kFixed), std::end(kFixed), [attribute](const FixedAttribute& known) {
        return known.attribute == attribute;
      });
  if (fixed != std::end(kFixed)) return fixed->value;
  return model_attribute(device, attribute);
}

int pci_bus(const Device& device) {
  return device.index() + 1;
}

std::array<std::uint8_t, 16> device_uuid(const Device& device) {
  // Of the form that RFC 9562 keeps for experiments (version 8), so it is nobody's real card.
  return {0xf7,
          0xa6,
          0x5c,
          0x0e,
          0x00,
          0x00,
          0x80,
          0x00,
          0x80,
          0x00,
          0x00,
          0x00,
          0x00,
          0x00,
          0x00,
          static_cast<std::uint8_t>(device.index())};
}

std::string device_uuid_text(const Device& device) {
  std::string text = "GPU";
  int at = 0;
  for (const std::uint8_t byte : device_uuid(device)) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", unsigned(byte));
    if (at == 0 || at == 4 || at == 6 || at == 8 || at == 10) text += '-';
    text += digits;
    ++at;
  }
  return text;
}

int shared_bytes_per_multiprocessor(const Device& device) {
  return kib(device.model().shared_kib_per_multiprocessor);
}

int shared_bytes_per_block_optin(const Device& device) {
  // Since Ampere one KiB of each block's is the system's.
  const int total = shared_bytes_per_multiprocessor(device);
  return device.model().compute_major >= 8 ? total - kib(1) : total;
}

}  // namespace fragscope::virtual_cuda
