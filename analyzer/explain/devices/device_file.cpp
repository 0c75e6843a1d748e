// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/devices/device_file.hpp"

#include "analyzer/stages/weights/bounded_json.hpp"

#include <string>
#include <utility>

namespace fragscope::explain {
namespace {

using Json = nlohmann::json;

// As many as a machine can have, and as many processes as anybody would read.
constexpr std::size_t kMostDevices = 1024;
constexpr std::size_t kMostProcesses = 64;

std::optional<std::uint64_t> number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

ProcessBefore process_of(const Json& json) {
  return {number_of(json, "pid").value_or(0), text_of(json, "name"), number_of(json, "used_bytes")};
}

Device device_of(const Json& json, std::optional<std::uint64_t> time_s) {
  Device device;
  device.name = text_of(json, "name");
  device.uuid = text_of(json, "uuid");
  DeviceBefore before;
  before.uuid = device.uuid;
  before.time_s = time_s;
  before.total_bytes = number_of(json, "total_bytes");
  before.free_bytes = number_of(json, "free_bytes");
  const auto processes = json.find("processes");
  if (processes != json.end() && processes->is_array()) {
    before.has_processes = true;
    for (const Json& process : *processes) {
      if (before.processes.size() == kMostProcesses) break;
      if (process.is_object()) before.processes.push_back(process_of(process));
    }
  }
  if (before.free_bytes) device.before = std::move(before);
  return device;
}

Result<DeviceList> read_inventory(std::string_view text) {
  constexpr int kMaxDepth = 8;
  const Json root = stages::parse_bounded_json(text, kMaxDepth);
  const bool is_ours = root.is_object() && text_of(root, "kind") == "devices" &&
                       root.contains("devices") && root["devices"].is_array();
  if (!is_ours) {
    return failure(ErrorCode::kForeign,
                   "is JSON, but not what fragscope devices --json prints: no list of devices");
  }
  const bool has_cuda = !text_of(root, "cuda_ordinals_from").empty();
  const auto time_s = number_of(root, "time_s");
  DeviceList devices;
  for (const Json& json : root["devices"]) {
    if (!json.is_object()) continue;
    const auto index = number_of(json, has_cuda ? "cuda_ordinal" : "host_ordinal");
    if (!index || *index >= kMostDevices) continue;
    devices[static_cast<std::int32_t>(*index)] = device_of(json, time_s);
  }
  if (devices.empty()) {
    return failure(ErrorCode::kForeign, "names no device that CUDA programs were shown");
  }
  return devices;
}

}  // namespace

Result<DeviceList> read_device_file(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string_view::npos && text[start] == '{') return read_inventory(text);
  DeviceList devices = read_device_list(text);
  if (devices.empty()) {
    return failure(ErrorCode::kForeign,
                   "names no device; expected the output of fragscope devices --json, or of "
                   "nvidia-smi -L, as 'GPU 0: NAME (UUID: GPU-...)'");
  }
  return devices;
}

void add_figures_before(const DeviceList& devices, Explanation& explanation) {
  for (Report& report : explanation.reports) {
    if (!report.message.device) continue;
    const auto known = devices.find(*report.message.device);
    if (known != devices.end()) report.before = known->second.before;
  }
}

}  // namespace fragscope::explain
