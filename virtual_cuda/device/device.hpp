// SPDX-License-Identifier: Apache-2.0
// One virtual device: its model, the books of its memory and its window of addresses. Owned by the
// machine and used under its lock.
#pragma once

#include "virtual_cuda/device/address_space.hpp"
#include "virtual_cuda/device/device_model.hpp"
#include "virtual_cuda/device/fault_plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::virtual_cuda {

inline constexpr int kMaxDevices = 8;
/// What memory comes in, as on every NVIDIA GPU since Pascal.
inline constexpr std::uint64_t kPageBytes = 2 * kMiB;
/// The window of device i begins at kFirstWindow + i * kWindowBytes. The windows lie where neither
/// Linux's loader nor AddressSanitizer puts anything, and one holds what PyTorch may reserve at
/// once: 32 streams with two expandable segments of 1.125 times the memory of a card of 80 GiB, 5.6
/// TiB.
#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer leaves programs little room; its tests need less.
inline constexpr std::uint64_t kFirstWindow = 64 * kGiB;
inline constexpr std::uint64_t kWindowBytes = 32 * kGiB;
#else
inline constexpr std::uint64_t kFirstWindow = 0x2000'0000'0000;
inline constexpr std::uint64_t kWindowBytes = 6 * kTiB;
#endif

/// Another process that NVML shows by itself.
struct OtherProcess {
  int device = 0;
  std::uint32_t pid = 0;
  std::uint64_t bytes = 0;
  std::string name;  ///< Empty: NVML cannot tell it.
};

/// The memory of one device, as books:
///
///   total = context + used + neighbours and others + free
///
/// The context's share is taken when the first call needs a context. Neighbours and others are
/// other processes; they take what they take even if this process holds it, in which case nothing
/// is free.
class Device {
 public:
  Device(int index, DeviceModel model, std::uint64_t context_bytes);

  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] const DeviceModel& model() const { return model_; }
  [[nodiscard]] AddressSpace& addresses() { return addresses_; }
  [[nodiscard]] const AddressSpace& addresses() const { return addresses_; }

  /// Makes the context exist; it stays for good.
  void activate() { active_ = true; }
  [[nodiscard]] bool active() const { return active_; }

  /// Counts an attempt to get memory, which lets neighbours arrive.
  void begin_attempt();
  /// Takes `bytes` from what is free. Fails: not enough is.
  [[nodiscard]] bool take(std::uint64_t bytes);
  void give(std::uint64_t bytes) { used_bytes_ -= bytes; }

  void schedule(const Neighbour& neighbour);
  /// Neighbours hold `bytes` from now on; those still scheduled come as planned.
  void set_neighbour_bytes(std::uint64_t bytes) { neighbour_bytes_ = bytes; }
  void add_other(OtherProcess process);

  [[nodiscard]] std::uint64_t total_bytes() const { return model_.memory_bytes; }
  [[nodiscard]] std::uint64_t free_bytes() const;
  /// What this process holds: its context and what it took.
  [[nodiscard]] std::uint64_t process_bytes() const;
  /// What this process took, without its context.
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] std::uint64_t neighbour_bytes() const { return neighbour_bytes_; }
  [[nodiscard]] const std::vector<OtherProcess>& others() const { return others_; }

 private:
  int index_;
  DeviceModel model_;
  AddressSpace addresses_;
  std::uint64_t context_bytes_;
  bool active_ = false;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t neighbour_bytes_ = 0;
  std::vector<OtherProcess> others_;
  std::uint64_t other_bytes_ = 0;
  std::uint64_t attempt_count_ = 0;
  std::vector<Neighbour> scheduled_;
};

}  // namespace fragscope::virtual_cuda
