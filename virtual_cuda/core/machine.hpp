// SPDX-License-Identifier: Apache-2.0
// The machine that virtual CUDA pretends to be: its devices, its memory and its timeline, behind
// one lock. There is one per process, shared by every library that stands in for one of NVIDIA's.
#pragma once

#include "virtual_cuda/abi/status.hpp"
#include "virtual_cuda/core/options.hpp"
#include "virtual_cuda/device/device.hpp"
#include "virtual_cuda/device/fault_plan.hpp"
#include "virtual_cuda/memory/allocations.hpp"
#include "virtual_cuda/memory/async_pool.hpp"
#include "virtual_cuda/memory/memory_map.hpp"
#include "virtual_cuda/memory/virtual_memory.hpp"
#include "virtual_cuda/timeline/timeline.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::virtual_cuda {

/// Locking: everything but `mutex` and `instance` is used with `mutex` held, and nothing that the
/// program passed in is called while it is: the allocator of a program holds locks of its own when
/// it calls us, and another of its threads may hold them in a callback.
class Machine {
 public:
  /// The process's machine, made from the environment by the first call into any of the libraries.
  /// It is never destroyed: programs call CUDA until their last static destructor.
  static Machine& instance();
  /// The process's machine if it is made and shows a device, else null. For calls that only read
  /// what never changes, and so need no lock.
  [[nodiscard]] static const Machine* existing() noexcept;

  /// `visible` is what CUDA_VISIBLE_DEVICES says, or null.
  Machine(Options options, const char* visible);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  [[nodiscard]] std::mutex& mutex() { return mutex_; }
  /// Whether there is a machine at all. If not, the reason was said on standard error.
  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] const Options& options() const { return options_; }

  /// How many devices CUDA shows, and the device behind one of its ordinals.
  [[nodiscard]] int visible_count() const { return static_cast<int>(visible_.size()); }
  [[nodiscard]] Device& visible(int ordinal) {
    return *visible_[static_cast<std::size_t>(ordinal)];
  }
  [[nodiscard]] bool is_ordinal(int ordinal) const {
    return ordinal >= 0 && ordinal < visible_count();
  }
  /// The ordinal under which CUDA shows the device of this index, or -1.
  [[nodiscard]] int ordinal_of(int index) const;
  /// All devices, as NVML shows them.
  [[nodiscard]] std::vector<std::unique_ptr<Device>>& devices() { return devices_; }
  [[nodiscard]] Device& device(int index) { return *devices_[static_cast<std::size_t>(index)]; }

  /// Whether cuInit was called, or any call that does it on the way.
  [[nodiscard]] bool initialized() const { return initialized_; }
  void initialize() { initialized_ = true; }

  [[nodiscard]] FaultPlan& faults() { return faults_; }
  [[nodiscard]] MemoryMap& memory() { return memory_; }
  [[nodiscard]] Allocations& allocations() { return allocations_; }
  [[nodiscard]] VirtualMemory& virtual_memory() { return virtual_memory_; }
  [[nodiscard]] AsyncPool& pool(int index) { return *pools_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] Timeline& timeline() { return timeline_; }

 private:
  [[nodiscard]] Device* named(std::string_view entry);
  void choose_visible(const char* visible);
  [[nodiscard]] Status claim_windows();

  std::mutex mutex_;
  Options options_;
  Status status_ = Status::kSuccess;
  bool initialized_ = false;
  std::vector<AddressRange> claimed_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Device*> visible_;
  FaultPlan faults_;
  MemoryMap memory_;
  Allocations allocations_;
  VirtualMemory virtual_memory_;
  std::vector<std::unique_ptr<AsyncPool>> pools_;
  Timeline timeline_;
};

}  // namespace fragscope::virtual_cuda
