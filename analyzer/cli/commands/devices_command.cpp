// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/report/devices/devices_json.hpp"
#include "analyzer/report/devices/devices_text.hpp"
#include "devices/inventory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

namespace fragscope::cli {
namespace {

struct DevicesArguments {
  std::string color = "auto";
  bool context = false;
  bool json = false;
  bool redact = false;
};

Result<devices::Inventory> take_inventory(devices::WithContext context) {
  return devices::make_inventory(
      devices::nvml(), devices::ask_cuda_driver(context), devices::read_environment());
}

int run_devices(const DevicesArguments& arguments) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto inventory = take_inventory(devices::WithContext::kNo);
  if (!inventory) return complain(inventory.error());
  const auto& all = inventory->devices;
  // Only where it must be: with a context of ours a device is less free than it was.
  if (arguments.context &&
      std::any_of(all.begin(), all.end(), devices::could_be_asked_with_context)) {
    inventory = take_inventory(devices::WithContext::kYes);
    if (!inventory) return complain(inventory.error());
  }
  inventory->unix_seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  if (arguments.json) {
    fmt::print("{}\n", report::devices_json(*inventory, FRAGSCOPE_VERSION, arguments.redact));
  } else {
    const report::Paint paint(wants_colour(arguments.color));
    fmt::print("{}", report::devices_text(*inventory, arguments.redact, paint));
  }
  return printed(kDone);
}

}  // namespace

void add_devices_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<DevicesArguments>();
  CLI::App* command = app.add_subcommand("devices",
                                         "Show each GPU: its UUID, its numbers, what is free and "
                                         "who uses what. Makes no CUDA context");
  command->add_flag("--context",
                    arguments->context,
                    "Where NVML does not tell what is free: make a context on each device in turn, "
                    "which takes hundreds of MiB meanwhile, to ask the driver");
  command->add_flag(
      "--json", arguments->json, "One JSON object, which explain --devices reads later");
  command->add_flag("--redact", arguments->redact, "Mask the programs of processes");
  command->add_option("--color", arguments->color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->callback([arguments, &run] { run = [arguments] { return run_devices(*arguments); }; });
}

}  // namespace fragscope::cli
