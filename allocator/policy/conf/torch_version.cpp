// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/conf/torch_version.hpp"

#include <charconv>
#include <utility>

namespace fragscope::policy {

std::optional<TorchVersion> torch_version(std::string_view text) {
  const char* const end = text.data() + text.size();
  unsigned major = 0;
  unsigned minor = 0;
  const auto [dot, major_error] = std::from_chars(text.data(), end, major);
  if (major_error != std::errc{} || dot == end || *dot != '.') return std::nullopt;
  if (std::from_chars(dot + 1, end, minor).ec != std::errc{}) return std::nullopt;
  return std::pair(major, minor) < std::pair(2U, 10U) ? TorchVersion::kTorch26
                                                      : TorchVersion::kTorch215;
}

std::string_view releases_of(TorchVersion version) {
  return version == TorchVersion::kTorch26 ? "PyTorch 2.6 to 2.9" : "PyTorch 2.10 and later";
}

}  // namespace fragscope::policy
