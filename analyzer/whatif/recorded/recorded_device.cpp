// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/recorded/recorded_device.hpp"

#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>

namespace fragscope::whatif {
namespace {

std::string describe(DeviceCall::Kind kind, policy::Address address, std::uint64_t size) {
  const std::string bytes = model::show_bytes(size);
  switch (kind) {
    case DeviceCall::Kind::kAllocate:
      return fmt::format("asks the driver for a segment of {}", bytes);
    case DeviceCall::Kind::kFree:
      return fmt::format("gives back the segment of {} at {:#x}", bytes, address);
    case DeviceCall::Kind::kMap:
      return fmt::format("maps {} at {:#x}", bytes, address);
    case DeviceCall::Kind::kUnmap:
      break;
  }
  return fmt::format("unmaps {} at {:#x}", bytes, address);
}

std::string describe(const DeviceCall* call) {
  return call == nullptr ? "does nothing more with the driver"
                         : describe(call->kind, call->address, call->size);
}

}  // namespace

void RecordedDevice::end() {
  if (const DeviceCall* call = next()) {
    differ("the recorded allocator " + describe(call) + ", the replay does not");
  }
}

const DeviceCall* RecordedDevice::next() const {
  if (next_ == program_.device_calls.size()) return nullptr;
  const DeviceCall& call = program_.device_calls[next_];
  return call.op <= op_ ? &call : nullptr;
}

const DeviceCall* RecordedDevice::next_if(DeviceCall::Kind kind) const {
  const DeviceCall* call = next();
  return call != nullptr && call->kind == kind ? call : nullptr;
}

const DeviceCall* RecordedDevice::granted(DeviceCall::Kind kind) const {
  const DeviceCall* call = next_if(kind);
  return call != nullptr && is_first_try_ && !call->is_first_try ? nullptr : call;
}

void RecordedDevice::differ(const std::string& what) {
  if (difference_.empty()) difference_ = what;
}

// The driver had refused where the recorded allocator went on to give memory back, or gave up.
std::optional<policy::Address> RecordedDevice::allocate(std::uint64_t size) {
  const DeviceCall* call = granted(DeviceCall::Kind::kAllocate);
  if (call == nullptr) return std::nullopt;
  if (call->size != size) {
    differ("the replay " + describe(DeviceCall::Kind::kAllocate, 0, size) +
           ", the recorded allocator " + describe(call));
  }
  ++next_;
  return call->address;
}

void RecordedDevice::expect(DeviceCall::Kind kind, policy::Address address, std::uint64_t size) {
  const DeviceCall* call = next();
  const bool is_same =
      call != nullptr && call->kind == kind && call->address == address && call->size == size;
  if (!is_same) {
    differ("the replay " + describe(kind, address, size) + ", the recorded allocator " +
           describe(call));
  }
  if (call != nullptr) ++next_;
}

void RecordedDevice::free(policy::Address address, std::uint64_t size) {
  expect(DeviceCall::Kind::kFree, address, size);
}

void RecordedDevice::unmap(policy::Address address, std::uint64_t size) {
  expect(DeviceCall::Kind::kUnmap, address, size);
}

// A new address space begins where its first pages were mapped. Where none were granted, it was
// reserved all the same.
std::optional<policy::Address> RecordedDevice::reserve(std::uint64_t /*size*/) {
  const DeviceCall* call = granted(DeviceCall::Kind::kMap);
  if (call == nullptr) return spaces_.of_request(program_, op_);
  return call->base != 0 ? call->base : call->address;
}

bool RecordedDevice::map(policy::Address address, std::uint64_t size, std::uint64_t /*page_size*/) {
  if (granted(DeviceCall::Kind::kMap) == nullptr) return false;
  expect(DeviceCall::Kind::kMap, address, size);
  return true;
}

}  // namespace fragscope::whatif
