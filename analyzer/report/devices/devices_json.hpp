// SPDX-License-Identifier: Apache-2.0
// The devices of a machine as JSON, which `explain --devices` reads again. Fields: docs/json.md.
#pragma once

#include "devices/inventory.hpp"

#include <string>
#include <string_view>

namespace fragscope::report {

/// One line. `redact`: without the programs of processes.
[[nodiscard]] std::string devices_json(const devices::Inventory& inventory,
                                       std::string_view tool_version,
                                       bool redact);

}  // namespace fragscope::report
