// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/devices/devices_json.hpp"

#include "analyzer/report/devices/devices_text.hpp"

#include <nlohmann/json.hpp>

namespace fragscope::report {
namespace {

using Json = nlohmann::ordered_json;
using devices::DeviceProcess;
using devices::Inventory;
using devices::InventoryDevice;

template <class T>
Json value_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json text_of(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json kinds_of(std::uint8_t kinds) {
  Json names = Json::array();
  if ((kinds & devices::kCompute) != 0) names.push_back("compute");
  if ((kinds & devices::kMps) != 0) names.push_back("mps");
  if ((kinds & devices::kGraphics) != 0) names.push_back("graphics");
  return names;
}

Json to_json(const DeviceProcess& process, bool redact) {
  Json name = value_of(process.name);
  if (process.name && redact) name = "(masked)";
  return {{"pid", process.pid},
          {"kinds", kinds_of(process.kinds)},
          {"used_bytes", value_of(process.used_bytes)},
          {"name", std::move(name)},
          {"visible", process.is_visible}};
}

Json to_json(const InventoryDevice& device, bool redact) {
  Json processes;
  if (device.processes) {
    processes = Json::array();
    for (const DeviceProcess& process : *device.processes)
      processes.push_back(to_json(process, redact));
  }
  const bool is_known = device.total_bytes.has_value();
  return {{"uuid", text_of(device.uuid)},
          {"name", text_of(device.name)},
          {"host_ordinal", value_of(device.host_index)},
          {"cuda_ordinal", value_of(device.cuda_ordinal)},
          {"pci_bus_id", text_of(device.pci_bus_id)},
          {"mig_enabled", device.is_mig_enabled},
          {"mig_parent", text_of(device.mig_parent)},
          {"total_bytes", value_of(device.total_bytes)},
          {"free_bytes", value_of(device.free_bytes)},
          {"used_bytes", value_of(device.used_bytes)},
          {"reserved_bytes", value_of(device.reserved_bytes)},
          {"memory_from", is_known ? Json(device.is_memory_from_nvml ? "nvml" : "driver") : Json()},
          {"processes", std::move(processes)},
          {"unlisted_bytes", value_of(unlisted_bytes(device))},
          {"problems", device.problems}};
}

Json ordinals_of(devices::OrdinalSource source) {
  switch (source) {
    case devices::OrdinalSource::kDriver:
      return "driver";
    case devices::OrdinalSource::kVariable:
      return "environment";
    case devices::OrdinalSource::kNone:
      break;
  }
  return nullptr;
}

}  // namespace

std::string devices_json(const Inventory& inventory, std::string_view tool_version, bool redact) {
  Json root;
  root["schema"] = 1;
  root["fragscope"] = tool_version;
  root["kind"] = "devices";
  root["time_s"] = inventory.unix_seconds;
  root["driver_version"] = text_of(inventory.driver_version);
  root["cuda_version"] =
      inventory.cuda_version ? Json(cuda_version_text(*inventory.cuda_version)) : Json();
  root["nvml_problem"] = text_of(inventory.nvml_problem);
  root["cuda_problem"] = text_of(inventory.cuda_problem);
  root["cuda_visible_devices"] = value_of(inventory.visible_variable);
  root["cuda_device_order"] = value_of(inventory.order_variable);
  root["cuda_ordinals_from"] = ordinals_of(inventory.ordinals);
  root["visible_stopped_at"] = value_of(inventory.visible.stopped_at);
  root["visible_stopped_why"] = text_of(inventory.visible.reason);
  root["host_namespace"] = inventory.is_host_namespace;
  root["devices"] = Json::array();
  for (const InventoryDevice& device : inventory.devices)
    root["devices"].push_back(to_json(device, redact));
  // Names of programs may hold any bytes.
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fragscope::report
