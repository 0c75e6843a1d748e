// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/device_list.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace fragscope::explain {
namespace {

constexpr std::string_view kUuid = " (UUID: GPU-";
constexpr std::array kPhrases = {kUuid};
constexpr std::string_view kStart = "GPU ";

// A log may hold anything; no machine has more devices, and no name is longer.
constexpr std::int32_t kMaxDevices = 1024;
constexpr std::size_t kLongest = 120;

}  // namespace

void add_device(std::string_view line, DeviceList& devices) {
  const auto uuid = line.find(kUuid);
  if (uuid == std::string_view::npos) return;
  const std::size_t uuid_start = uuid + kUuid.find("GPU-");
  const auto uuid_end = line.find(')', uuid_start);
  const auto start = line.substr(0, uuid).rfind(kStart);
  if (uuid_end == std::string_view::npos || uuid_end - uuid_start > kLongest) return;
  if (start == std::string_view::npos || uuid - start > kLongest) return;

  std::int32_t index = 0;
  const char* digits = line.data() + start + kStart.size();
  const auto [end, error] = std::from_chars(digits, line.data() + uuid, index);
  std::string_view name = line.substr(static_cast<std::size_t>(end - line.data()));
  name = name.substr(0, name.find(kUuid));
  if (error != std::errc{} || index < 0 || index >= kMaxDevices || !name.starts_with(": ")) return;
  devices[index] = {std::string(name.substr(2)),
                    std::string(line.substr(uuid_start, uuid_end - uuid_start)),
                    std::nullopt};
}

DeviceList read_device_list(std::string_view listing) {
  DeviceList devices;
  while (!listing.empty()) {
    const auto end = std::min(listing.find('\n'), listing.size());
    add_device(listing.substr(0, end), devices);
    listing.remove_prefix(std::min(listing.size(), end + 1));
  }
  return devices;
}

std::span<const std::string_view> device_phrases() {
  return kPhrases;
}

}  // namespace fragscope::explain
