// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/device/device.hpp"

#include <utility>

namespace fragscope::virtual_cuda {

Device::Device(int index, DeviceModel model, std::uint64_t context_bytes)
    : index_(index)
    , model_(std::move(model))
    , addresses_({kFirstWindow + static_cast<std::uint64_t>(index) * kWindowBytes, kWindowBytes},
                 kPageBytes)
    , context_bytes_(context_bytes) {}

void Device::begin_attempt() {
  ++attempt_count_;
  for (const Neighbour& neighbour : scheduled_) {
    if (neighbour.attempt == attempt_count_) neighbour_bytes_ = neighbour.bytes;
  }
}

bool Device::take(std::uint64_t bytes) {
  if (bytes > free_bytes()) return false;
  used_bytes_ += bytes;
  return true;
}

void Device::schedule(const Neighbour& neighbour) {
  if (neighbour.attempt <= 1) {
    neighbour_bytes_ = neighbour.bytes;
  } else {
    scheduled_.push_back(neighbour);
  }
}

void Device::add_other(OtherProcess process) {
  other_bytes_ += process.bytes;
  others_.push_back(std::move(process));
}

std::uint64_t Device::process_bytes() const {
  return used_bytes_ + (active_ ? context_bytes_ : 0);
}

std::uint64_t Device::free_bytes() const {
  const std::uint64_t taken = process_bytes() + neighbour_bytes_ + other_bytes_;
  return taken < total_bytes() ? total_bytes() - taken : 0;
}

}  // namespace fragscope::virtual_cuda
