// SPDX-License-Identifier: Apache-2.0
// An NVML of a test's own: a table of functions over a machine that the test describes. For what
// the virtual CUDA has not: MIG, old versions, lists that grow while they are read.
#pragma once

#include "devices/nvml.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace fragscope::devices {

struct TableDevice {
  std::string uuid;
  std::string name = "NVIDIA Test";
  std::uint64_t total_bytes = std::uint64_t{80} << 30;
  std::uint64_t free_bytes = std::uint64_t{60} << 30;
  std::vector<NvmlProcess2> processes;
  std::vector<NvmlProcess2> drawing;
  std::vector<NvmlProcess2> mps;
  std::vector<TableDevice> parts;  ///< MIG devices.
  bool is_lost = false;
};

struct TableMachine {
  NvmlStatus init = kNvmlSuccess;
  NvmlStatus memory = kNvmlSuccess;
  NvmlStatus processes = kNvmlSuccess;
  /// So many processes more each time that a list is asked for.
  unsigned growth = 0;
  unsigned list_calls = 0;
  std::vector<TableDevice> devices;
  std::map<std::uint32_t, std::string> names;
};

/// The one that the functions below are about.
inline TableMachine machine;

inline NvmlStatus put(const std::string& value, char* text, unsigned bytes) {
  if (bytes <= value.size()) return kNvmlInsufficientSize;
  std::memcpy(text, value.c_str(), value.size() + 1);
  return kNvmlSuccess;
}

inline TableDevice& of(NvmlHandle handle) {
  return *static_cast<TableDevice*>(handle);
}

template <class Info>
NvmlStatus list(std::vector<NvmlProcess2>& all, unsigned* count, Info* out) {
  ++machine.list_calls;
  for (unsigned i = 0; i < machine.growth; ++i)
    all.push_back({static_cast<std::uint32_t>(1000 + all.size()), 1, 0, 0});
  const unsigned room = *count;
  *count = static_cast<unsigned>(all.size());
  if (machine.processes != kNvmlSuccess) return machine.processes;
  if (room < all.size()) return kNvmlInsufficientSize;
  for (std::size_t i = 0; i < all.size(); ++i) {
    out[i].pid = all[i].pid;
    out[i].used_bytes = all[i].used_bytes;
  }
  return kNvmlSuccess;
}

inline NvmlApi table_of_devices() {
  NvmlApi api;
  api.init = [] { return machine.init; };
  api.error_string = [](NvmlStatus status) {
    return status == 3 ? "Not Supported" : status == 9 ? "Driver Not Loaded" : "Other";
  };
  api.driver_version = [](char* text, unsigned bytes) { return put("570.1", text, bytes); };
  api.device_count = [](unsigned* count) {
    *count = static_cast<unsigned>(machine.devices.size());
    return kNvmlSuccess;
  };
  api.device_by_index = [](unsigned index, NvmlHandle* device) -> NvmlStatus {
    *device = &machine.devices[index];
    return machine.devices[index].is_lost ? 15 : kNvmlSuccess;
  };
  api.device_index = [](NvmlHandle device, unsigned* index) {
    *index = 0;
    for (std::size_t i = 0; i < machine.devices.size(); ++i) {
      if (&machine.devices[i] == device) *index = static_cast<unsigned>(i);
    }
    return kNvmlSuccess;
  };
  api.device_name = [](NvmlHandle device, char* text, unsigned bytes) {
    return put(of(device).name, text, bytes);
  };
  api.device_uuid = [](NvmlHandle device, char* text, unsigned bytes) {
    return put(of(device).uuid, text, bytes);
  };
  return api;
}

/// The functions of an NVML of today.
inline NvmlApi table() {
  NvmlApi api = table_of_devices();
  api.memory_v2 = [](NvmlHandle device, NvmlMemory2* memory) {
    const TableDevice& shown = of(device);
    *memory = {memory->version,
               shown.total_bytes,
               1 << 20,
               shown.free_bytes,
               shown.total_bytes - shown.free_bytes - (1 << 20)};
    return machine.memory;
  };
  api.memory = [](NvmlHandle device, NvmlMemory1* memory) {
    const TableDevice& shown = of(device);
    *memory = {shown.total_bytes, shown.free_bytes, shown.total_bytes - shown.free_bytes};
    return machine.memory;
  };
  api.mig_mode = [](NvmlHandle device, unsigned* current, unsigned* pending) {
    *current = *pending = of(device).parts.empty() ? 0 : 1;
    return kNvmlSuccess;
  };
  api.mig_count = [](NvmlHandle, unsigned* most) {
    *most = 7;
    return kNvmlSuccess;
  };
  api.mig_by_index = [](NvmlHandle device, unsigned index, NvmlHandle* part) {
    auto& parts = of(device).parts;
    if (index >= parts.size()) return kNvmlNotFound;
    *part = &parts[index];
    return kNvmlSuccess;
  };
  api.process_name = [](unsigned pid, char* text, unsigned bytes) {
    const auto known = machine.names.find(pid);
    return known == machine.names.end() ? kNvmlNotFound : put(known->second, text, bytes);
  };
  api.compute.newer = [](NvmlHandle device, unsigned* count, NvmlProcess2* out) {
    return list(of(device).processes, count, out);
  };
  api.graphics.newer = [](NvmlHandle device, unsigned* count, NvmlProcess2* out) {
    return list(of(device).drawing, count, out);
  };
  api.mps.newer = [](NvmlHandle device, unsigned* count, NvmlProcess2* out) {
    return list(of(device).mps, count, out);
  };
  return api;
}

/// The same as an NVML of the year 2015 has it.
inline NvmlApi old_table() {
  NvmlApi api = table();
  api.memory_v2 = nullptr;
  api.mig_mode = nullptr;
  api.mig_count = nullptr;
  api.mig_by_index = nullptr;
  api.compute = {};
  api.graphics = {};
  api.mps = {};
  api.compute.oldest = [](NvmlHandle device, unsigned* count, NvmlProcess1* out) {
    return list(of(device).processes, count, out);
  };
  return api;
}

}  // namespace fragscope::devices
