// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/devices/devices_text.hpp"

#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/frame_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace fragscope::report {
namespace {

using devices::DeviceProcess;
using devices::Inventory;
using devices::InventoryDevice;
using devices::OrdinalSource;

std::string shown_bytes(const std::optional<std::uint64_t>& bytes) {
  return bytes ? model::show_bytes(*bytes) : "not known";
}

std::string kinds_text(std::uint8_t kinds) {
  std::string text;
  const auto add = [&text](std::string_view name) {
    text += (text.empty() ? "" : "+") + std::string(name);
  };
  if ((kinds & devices::kCompute) != 0) add("compute");
  if ((kinds & devices::kMps) != 0) add("MPS");
  if ((kinds & devices::kGraphics) != 0) add("graphics");
  return text;
}

class DevicesWriter {
 public:
  DevicesWriter(const Inventory& inventory, bool redact, const Paint& paint)
      : inventory_(inventory)
      , redact_(redact)
      , paint_(paint) {}

  [[nodiscard]] std::string write() {
    write_head();
    for (const InventoryDevice& device : inventory_.devices)
      write_device(device);
    write_notes();
    return std::move(out_);
  }

 private:
  void write_head() {
    const std::string& driver = inventory_.driver_version;
    out_ += fmt::format("driver {}, CUDA up to {}\n",
                        driver.empty() ? "not known" : printable(driver),
                        inventory_.cuda_version ? cuda_version_text(*inventory_.cuda_version)
                                                : std::string("not known"));
    write_variable("CUDA_VISIBLE_DEVICES", inventory_.visible_variable);
    write_variable("CUDA_DEVICE_ORDER", inventory_.order_variable);
  }

  void write_variable(std::string_view name, const std::optional<std::string>& value) {
    if (value) out_ += fmt::format("{}={}\n", name, value->empty() ? "''" : printable(*value));
  }

  [[nodiscard]] std::string numbers_text(const InventoryDevice& device) const {
    std::string text =
        device.host_index
            ? fmt::format("{} {}", device.mig_parent.empty() ? "host" : "part", *device.host_index)
            : std::string("host number not known");
    if (device.cuda_ordinal) return text + fmt::format(", CUDA {}", *device.cuda_ordinal);
    if (inventory_.ordinals == OrdinalSource::kNone) return text + ", CUDA number not known";
    return text + ", not shown to CUDA programs here";
  }

  void write_device(const InventoryDevice& device) {
    out_ += fmt::format(
        "\n{}  {}\n",
        paint_(Tone::kTitle, device.uuid.empty() ? "UUID not known" : printable(device.uuid)),
        device.name.empty() ? "name not known" : printable(device.name));
    out_ += fmt::format("  {}\n", numbers_text(device));
    if (!device.mig_parent.empty()) {
      out_ += fmt::format("  a MIG device of {}\n", printable(device.mig_parent));
    }
    if (device.is_mig_enabled) out_ += "  cut into MIG devices, which programs use instead\n";
    const bool is_by_driver = !device.is_memory_from_nvml;
    Table table;
    const std::string_view source = is_by_driver ? "CUDA driver" : "NVML";
    add_memory(table, "total", device.total_bytes, source);
    add_memory(table, "free", device.free_bytes, source);
    add_memory(table, "used", device.used_bytes, source);
    if (device.reserved_bytes.value_or(0) > 0) {
      add_memory(table, "reserved", device.reserved_bytes, "by the driver itself");
    }
    out_ += table.text(paint_);
    write_processes(device);
    for (const std::string& problem : device.problems)
      out_ += fmt::format("  not told: {}\n", printable(problem));
  }

  static void add_memory(Table& table,
                         std::string_view name,
                         const std::optional<std::uint64_t>& bytes,
                         std::string_view source) {
    table.add({left(std::string(name)),
               right(shown_bytes(bytes)),
               left(bytes ? std::string(source) : std::string(), Tone::kFaint)});
  }

  [[nodiscard]] std::string program_of(const DeviceProcess& process) const {
    if (process.name) return redact_ ? "(masked)" : printable(*process.name);
    if (process.is_visible) return "program not told";
    return inventory_.is_host_namespace ? "gone, or hidden from this user"
                                        : "not visible in this namespace";
  }

  void write_processes(const InventoryDevice& device) {
    if (!device.processes) {
      out_ += "  processes not known\n";
      return;
    }
    if (device.processes->empty()) out_ += "  no process uses it\n";
    Table table;
    for (const DeviceProcess& process : *device.processes) {
      table.add({left(fmt::format("process {}", process.pid)),
                 right(shown_bytes(process.used_bytes)),
                 left(kinds_text(process.kinds)),
                 left(program_of(process))});
    }
    const auto rest = unlisted_bytes(device);
    if (rest.value_or(0) > 0) {
      table.add({left("no process listed"), right(model::show_bytes(*rest))});
    }
    out_ += table.text(paint_);
  }

  void note(const std::string& text) { out_ += wrapped("note: " + text, kTextWidth, 0); }

  void write_notes() {
    out_ += '\n';
    const std::size_t before = out_.size();
    if (!inventory_.nvml_problem.empty()) {
      note(printable(inventory_.nvml_problem) + "; so who uses a device is not known");
    }
    write_notes_on_free();
    if (!inventory_.cuda_problem.empty()) note(printable(inventory_.cuda_problem));
    if (inventory_.visible.stopped_at) {
      note(fmt::format("CUDA reads CUDA_VISIBLE_DEVICES up to '{}': {}",
                       printable(*inventory_.visible.stopped_at),
                       printable(inventory_.visible.reason)));
    }
    if (inventory_.ordinals == OrdinalSource::kVariable) {
      note("CUDA numbers are worked out from the environment, since the driver does not tell them");
    }
    if (is_any_process_unseen()) {
      note(
          "NVML may count processes as the machine does, and this is a namespace of its own: a "
          "process from here can be listed under another number");
    }
    if (out_.size() == before) out_.pop_back();
  }

  void write_notes_on_free() {
    const auto& all = inventory_.devices;
    if (std::any_of(all.begin(), all.end(), devices::could_be_asked_with_context)) {
      note(
          "NVML does not tell what is free; --context asks the driver, with a context of hundreds "
          "of MiB on each device in turn");
    }
    const auto is_by_driver = [](const InventoryDevice& device) {
      return device.free_bytes && !device.is_memory_from_nvml;
    };
    if (std::any_of(all.begin(), all.end(), is_by_driver)) {
      note(
          "what is free by the CUDA driver was asked for with a context of this program, which "
          "took some of it");
    }
  }

  [[nodiscard]] bool is_any_process_unseen() const {
    if (inventory_.is_host_namespace) return false;
    const auto has_unseen = [](const InventoryDevice& device) {
      return device.processes &&
             std::any_of(device.processes->begin(),
                         device.processes->end(),
                         [](const DeviceProcess& process) { return !process.is_visible; });
    };
    return std::any_of(inventory_.devices.begin(), inventory_.devices.end(), has_unseen);
  }

  const Inventory& inventory_;
  bool redact_;
  const Paint& paint_;
  std::string out_;
};

}  // namespace

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::optional<std::uint64_t> unlisted_bytes(const InventoryDevice& device) {
  if (!device.used_bytes || !device.processes) return std::nullopt;
  std::uint64_t listed = 0;
  for (const DeviceProcess& process : *device.processes) {
    if (!process.used_bytes) return std::nullopt;
    listed += *process.used_bytes;
  }
  return *device.used_bytes - std::min(*device.used_bytes, listed);
}

std::string devices_text(const Inventory& inventory, bool redact, const Paint& paint) {
  return DevicesWriter(inventory, redact, paint).write();
}

}  // namespace fragscope::report
