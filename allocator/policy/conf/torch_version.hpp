// SPDX-License-Identifier: Apache-2.0
// The generations of PyTorch that the policy tells apart: by rules, and by how settings are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fragscope::policy {

/// Whose rules are followed where versions differ.
enum class TorchVersion : std::uint8_t {
  kTorch26,   ///< 2.6 to 2.9
  kTorch215,  ///< 2.10 to 2.15
};

/// Of a text that begins with a version, such as "2.15.0+cu130"; none if it does not.
[[nodiscard]] std::optional<TorchVersion> torch_version(std::string_view text);

/// The releases of a generation, for people: "PyTorch 2.6 to 2.9".
[[nodiscard]] std::string_view releases_of(TorchVersion version);

}  // namespace fragscope::policy
