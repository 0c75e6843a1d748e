// SPDX-License-Identifier: Apache-2.0
// What NVML says about devices: their names and memory, and the processes that use it. Found at run
// time in libnvidia-ml.so.1 and built without NVIDIA's headers; no CUDA context is made. Used by
// `fragscope devices` and by the allocator at its start, at marks and for the message of a refused
// request.
//
// A call takes milliseconds, may be denied, and hangs where the driver does. So never on the way of
// an allocation that succeeds, and under a device's lock only once a request has failed for good,
// which is where PyTorch's own allocator asks NVML.
#pragma once

#include "trace/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::devices {

using NvmlStatus = std::int32_t;  ///< nvmlReturn_t
inline constexpr NvmlStatus kNvmlSuccess = 0;
inline constexpr NvmlStatus kNvmlNotFound = 6;
inline constexpr NvmlStatus kNvmlInsufficientSize = 7;
using NvmlHandle = void*;  ///< nvmlDevice_t

/// nvmlProcessInfo_v1_t, which the function's name without a suffix means.
struct NvmlProcess1 {
  std::uint32_t pid = 0;
  unsigned long long used_bytes = 0;
};
static_assert(sizeof(NvmlProcess1) == 16);

/// nvmlProcessInfo_v2_t, of the functions _v2 and _v3.
struct NvmlProcess2 {
  std::uint32_t pid = 0;
  unsigned long long used_bytes = 0;
  std::uint32_t gpu_instance = 0;
  std::uint32_t compute_instance = 0;
};
static_assert(sizeof(NvmlProcess2) == 24);

/// nvmlMemory_t
struct NvmlMemory1 {
  unsigned long long total_bytes = 0;
  unsigned long long free_bytes = 0;
  unsigned long long used_bytes = 0;
};
static_assert(sizeof(NvmlMemory1) == 24);

/// nvmlMemory_v2_t
struct NvmlMemory2 {
  std::uint32_t version = 40U | (2U << 24);  ///< Its size and a 2.
  unsigned long long total_bytes = 0;
  unsigned long long reserved_bytes = 0;
  unsigned long long free_bytes = 0;
  unsigned long long used_bytes = 0;
};
static_assert(sizeof(NvmlMemory2) == 40);

/// How one kind of processes is listed: the newest form there is, else the oldest.
struct NvmlListing {
  NvmlStatus (*newer)(NvmlHandle device, unsigned* count, NvmlProcess2* processes) = nullptr;
  NvmlStatus (*oldest)(NvmlHandle device, unsigned* count, NvmlProcess1* processes) = nullptr;
};

/// NVML's functions. One that an older NVML lacks is null, but for `init`.
struct NvmlApi {
  NvmlStatus (*init)() = nullptr;
  const char* (*error_string)(NvmlStatus status) = nullptr;
  NvmlStatus (*driver_version)(char* text, unsigned bytes) = nullptr;
  NvmlStatus (*device_count)(unsigned* count) = nullptr;
  NvmlStatus (*device_by_index)(unsigned index, NvmlHandle* device) = nullptr;
  NvmlStatus (*device_by_pci)(const char* bus_id, NvmlHandle* device) = nullptr;
  NvmlStatus (*device_index)(NvmlHandle device, unsigned* index) = nullptr;
  NvmlStatus (*device_name)(NvmlHandle device, char* text, unsigned bytes) = nullptr;
  NvmlStatus (*device_uuid)(NvmlHandle device, char* text, unsigned bytes) = nullptr;
  NvmlStatus (*memory)(NvmlHandle device, NvmlMemory1* memory) = nullptr;
  NvmlStatus (*memory_v2)(NvmlHandle device, NvmlMemory2* memory) = nullptr;
  NvmlStatus (*mig_mode)(NvmlHandle device, unsigned* current, unsigned* pending) = nullptr;
  NvmlStatus (*mig_count)(NvmlHandle device, unsigned* most) = nullptr;
  NvmlStatus (*mig_by_index)(NvmlHandle device, unsigned index, NvmlHandle* mig) = nullptr;
  NvmlStatus (*process_name)(unsigned pid, char* text, unsigned bytes) = nullptr;
  NvmlListing compute;
  NvmlListing graphics;
  NvmlListing mps;
};

/// What a process does on a device; one can do several things.
enum ProcessKind : std::uint8_t { kCompute = 1, kGraphics = 2, kMps = 4 };

struct ProcessUse {
  std::uint32_t pid = 0;  ///< As NVML counts, which in a container may be the host's number.
  std::uint8_t kinds = 0;
  std::optional<std::uint64_t> used_bytes;  ///< None: NVML does not know, as under WSL.
};

struct MemoryUse {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t used_bytes = 0;  ///< By processes and, before _v2, the driver's, too.
  std::optional<std::uint64_t> reserved_bytes;  ///< The driver's own; none before _v2.
};

/// Thread-safe, as NVML is. After a fork the child may go on asking.
class Nvml {
 public:
  /// Over a table of functions, which may be somebody else's. Fails: `init` does, with NVML's word
  /// for why.
  [[nodiscard]] static Result<Nvml> open(const NvmlApi& api);

  [[nodiscard]] std::string error_text(NvmlStatus status) const;

  [[nodiscard]] Result<std::string> driver_version() const;
  [[nodiscard]] Result<unsigned> device_count() const;
  [[nodiscard]] Result<NvmlHandle> device_by_index(unsigned index) const;
  /// "00000000:01:00.0": domain, bus, device, function. Of a MIG device this is its GPU's.
  [[nodiscard]] Result<NvmlHandle> device_by_pci(const std::string& bus_id) const;
  /// The device's number among all of this machine, in the order of their places on the bus.
  [[nodiscard]] Result<unsigned> device_index(NvmlHandle device) const;
  [[nodiscard]] Result<std::string> device_name(NvmlHandle device) const;
  [[nodiscard]] Result<std::string> device_uuid(NvmlHandle device) const;
  [[nodiscard]] Result<MemoryUse> memory(NvmlHandle device) const;
  /// Whether the device is cut into MIG devices; false where NVML knows no MIG.
  [[nodiscard]] bool is_mig(NvmlHandle device) const;
  /// The MIG devices of a GPU that there are.
  [[nodiscard]] std::vector<NvmlHandle> mig_devices(NvmlHandle device) const;

  /// Those with a compute context, in NVML's order: what PyTorch puts into its message.
  [[nodiscard]] Result<std::vector<ProcessUse>> compute_processes(NvmlHandle device) const;
  /// All kinds, each process once, in the order in which they were met. Fails where the compute
  /// ones cannot be had; where only others cannot, those are missing.
  [[nodiscard]] Result<std::vector<ProcessUse>> all_processes(NvmlHandle device) const;
  /// None: it is gone, or not to be seen from here.
  [[nodiscard]] std::optional<std::string> process_name(std::uint32_t pid) const;

 private:
  explicit Nvml(const NvmlApi& api)
      : api_(api) {}

  [[nodiscard]] tl::unexpected<Error> refusal(const char* call, NvmlStatus status) const;
  [[nodiscard]] Result<std::vector<ProcessUse>> list(const char* call,
                                                     const NvmlListing& listing,
                                                     NvmlHandle device,
                                                     ProcessKind kind) const;

  NvmlApi api_;
};

/// The functions in libnvidia-ml.so.1, which stays loaded. Fails: there is none, or it is not NVML.
[[nodiscard]] Result<NvmlApi> load_nvml();

/// This machine's NVML, looked for at the first call and never again. Thread-safe. Fails: there is
/// none, or it does not start; the message says why.
[[nodiscard]] const Result<Nvml>& nvml();

}  // namespace fragscope::devices
