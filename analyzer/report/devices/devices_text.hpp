// SPDX-License-Identifier: Apache-2.0
// The devices of a machine as text for people: each by itself, never as one sum.
#pragma once

#include "analyzer/report/terminal.hpp"
#include "devices/inventory.hpp"

#include <optional>
#include <string>

namespace fragscope::report {

/// "13.2" of 13020.
[[nodiscard]] std::string cuda_version_text(int version);

/// What a device's used bytes are beyond those of its listed processes: the driver's, and what
/// cannot be seen. None where not every process's use is known.
[[nodiscard]] std::optional<std::uint64_t> unlisted_bytes(const devices::InventoryDevice& device);

/// `redact`: without the programs of processes.
[[nodiscard]] std::string devices_text(const devices::Inventory& inventory,
                                       bool redact,
                                       const Paint& paint);

}  // namespace fragscope::report
