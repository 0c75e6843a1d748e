// SPDX-License-Identifier: Apache-2.0
// What virtual CUDA is asked to be: the string in the environment variable FRAGSCOPE_VIRTUAL_CUDA,
// which `virtual_cuda/run` fills from its command line.
#pragma once

#include "trace/result.hpp"
#include "virtual_cuda/device/device.hpp"
#include "virtual_cuda/device/device_model.hpp"
#include "virtual_cuda/device/fault_plan.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::virtual_cuda {

inline constexpr const char* kOptionsVariable = "FRAGSCOPE_VIRTUAL_CUDA";

/// What NVML answers instead of doing what it is asked.
struct NvmlAnswer {
  std::string function;   ///< Part of the names of the functions that do.
  std::int32_t code = 0;  ///< nvmlReturn_t
};

struct Options {
  std::vector<DeviceModel> devices;  ///< One for each GPU of the machine.
  /// What a context takes of a device: about what one of an H100 takes.
  std::uint64_t context_bytes = 512 * kMiB;
  std::uint64_t kernel_ns = 0;  ///< How long a kernel takes by the virtual clock.
  std::vector<Neighbour> neighbours;
  std::vector<FaultRule> faults;
  std::vector<OtherProcess> processes;
  std::vector<NvmlAnswer> nvml_answers;
  std::uint32_t nvml_pid = 0;  ///< How NVML calls this process, as in a container; 0: by its id.
  bool trace = false;          ///< Every call on standard error.
};

/// Reads `key=value` pairs with commas between them. A key given again describes the next GPU
/// (preset, memory, name, compute, sms; the last one holds for the rest) or adds one more
/// (neighbour, process, nvml, fail).
///
///   gpus=2                  how many GPUs, 1 to 8
///   preset=h100-80g         a card that people have; see device_model.cpp
///   memory=80GiB            total memory instead of the preset's
///   name=..., compute=9.0, sms=132
///   context=512MiB          what a context takes
///   kernel-ns=1000          how long a kernel takes
///   neighbour=0:10GiB@40    other processes hold 10 GiB of GPU 0 from its 40th attempt to get
///   memory process=0:77:2GiB:name  process 77 holds 2 GiB of GPU 0; without a name NVML cannot
///   tell it nvml-pid=4242           how NVML calls this process nvml=MemoryInfo:3       NVML's
///   functions with this in their name answer 3 fail=malloc:3           the third call of the kind
///   fails; fail=malloc:3.. and all later ones trace                   every call on standard error
[[nodiscard]] Result<Options> parse_options(std::string_view text);

/// "80GiB", "512MiB", "1.5GiB" or a plain number of bytes.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

}  // namespace fragscope::virtual_cuda
