// SPDX-License-Identifier: Apache-2.0
#include "allocator/driver/driver_memory.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace fragscope::driver {
namespace {

// CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
constexpr std::int32_t kRdmaAttribute = 110;
// CU_STREAM_CAPTURE_MODE_RELAXED: what is asked of the driver here belongs to no graph.
constexpr std::int32_t kRelaxed = 2;

/// Lets a call be made that a capture of the same thread would forbid.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Api& api)
      : api_(api) {
    api_.thread_exchange_stream_capture_mode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { api_.thread_exchange_stream_capture_mode(&mode_); }

 private:
  const Api& api_;
  std::int32_t mode_ = kRelaxed;
};

tl::unexpected<Error> refusal(const Api& api, const char* call, Status status) {
  return failure(ErrorCode::kUnreadable, std::string(call) + ": " + api.name_of(status));
}

}  // namespace

CurrentContext::CurrentContext(const Api& api, ContextHandle context)
    : api_(api) {
  api_.ctx_get_current(&before_);
  is_changed_ = before_ != context;
  if (is_changed_) api_.ctx_set_current(context);
}

CurrentContext::~CurrentContext() {
  if (is_changed_) api_.ctx_set_current(before_);
}

Device describe_device(const Api& api, DeviceHandle ordinal) {
  Device device;
  device.ordinal = ordinal;
  std::array<char, 256> name{};
  if (api.device_get_name(name.data(), static_cast<int>(name.size()), ordinal) == kSuccess) {
    device.name = name.data();
  }
  static_cast<void>(api.device_get_uuid(device.uuid.data(), ordinal));
  std::size_t bytes = 0;
  if (api.device_total_mem(&bytes, ordinal) == kSuccess) device.total_bytes = bytes;
  return device;
}

Result<Device> open_device(const Api& api, DeviceHandle ordinal) {
  Device device = describe_device(api, ordinal);
  if (const Status status = api.device_primary_ctx_retain(&device.context, ordinal);
      status != kSuccess) {
    return refusal(api, "cuDevicePrimaryCtxRetain", status);
  }
  const CurrentContext current(api, device.context);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (const Status status = api.mem_get_info(&free_bytes, &total_bytes); status != kSuccess) {
    return refusal(api, "cuMemGetInfo", status);
  }
  device.total_bytes = total_bytes;
  return device;
}

DriverMemory::DriverMemory(const Api& api, const Device& device)
    : api_(api)
    , device_(device) {
  properties_.location.ordinal = device.ordinal;
  int rdma = 0;
  if (api.device_get_attribute(&rdma, kRdmaAttribute, device.ordinal) == kSuccess && rdma != 0) {
    properties_.gpu_direct_rdma_capable = 1;  // As PyTorch does: NICs may read what it maps.
  }
  access_.push_back({properties_.location});
}

bool DriverMemory::is_done(Status status) const {
  if (status != kSuccess && status != kOutOfMemory) last_error_ = status;
  return status == kSuccess;
}

std::optional<policy::Address> DriverMemory::allocate(std::uint64_t size) {
  const CurrentContext current(api_, device_.context);
  const RelaxedCapture relaxed(api_);
  DevicePointer pointer = 0;
  if (!is_done(api_.mem_alloc(&pointer, size))) return std::nullopt;
  return pointer;
}

void DriverMemory::free(policy::Address address, std::uint64_t /*size*/) {
  const CurrentContext current(api_, device_.context);
  const RelaxedCapture relaxed(api_);
  static_cast<void>(is_done(api_.mem_free(address)));
}

std::optional<policy::Address> DriverMemory::reserve(std::uint64_t size) {
  const CurrentContext current(api_, device_.context);
  DevicePointer pointer = 0;
  if (!is_done(api_.mem_address_reserve(&pointer, size, 0, 0, 0))) return std::nullopt;
  return pointer;
}

bool DriverMemory::map(policy::Address address, std::uint64_t size, std::uint64_t page_size) {
  const CurrentContext current(api_, device_.context);
  std::uint64_t mapped = 0;
  while (mapped < size && map_page(address + mapped, page_size))
    mapped += page_size;
  if (mapped == size &&
      is_done(api_.mem_set_access(address, size, access_.data(), access_.size()))) {
    return true;
  }
  if (mapped > 0) unmap(address, mapped);
  return false;
}

bool DriverMemory::map_page(policy::Address address, std::uint64_t size) {
  PagesHandle handle = 0;
  if (!is_done(api_.mem_create(&handle, size, &properties_, 0))) return false;
  if (!is_done(api_.mem_map(address, size, 0, handle, 0))) {
    static_cast<void>(api_.mem_release(handle));
    return false;
  }
  pages_[address] = {handle, size};
  return true;
}

bool DriverMemory::add_peer(DeviceHandle ordinal) {
  const auto is_same = [ordinal](const PageAccess& access) {
    return access.location.ordinal == ordinal;
  };
  if (std::ranges::any_of(access_, is_same)) return true;
  const CurrentContext current(api_, device_.context);
  PageAccess peer = access_.front();
  peer.location.ordinal = ordinal;
  for (const auto& [address, pages] : pages_) {
    if (!is_done(api_.mem_set_access(address, pages.size, &peer, 1))) return false;
  }
  access_.push_back(peer);
  return true;
}

void DriverMemory::unmap(policy::Address address, std::uint64_t size) {
  const CurrentContext current(api_, device_.context);
  static_cast<void>(is_done(api_.ctx_synchronize()));
  for (std::uint64_t at = address; at < address + size;) {
    const auto page = pages_.find(at);
    if (page == pages_.end()) return;
    const Pages pages = page->second;
    static_cast<void>(is_done(api_.mem_unmap(at, pages.size)));
    static_cast<void>(is_done(api_.mem_release(pages.handle)));
    pages_.erase(page);
    at += pages.size;
  }
}

void DriverMemory::release(policy::Address address, std::uint64_t size) {
  const CurrentContext current(api_, device_.context);
  static_cast<void>(is_done(api_.mem_address_free(address, size)));
}

policy::Capacity DriverMemory::capacity() const {
  const CurrentContext current(api_, device_.context);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = device_.total_bytes;
  static_cast<void>(is_done(api_.mem_get_info(&free_bytes, &total_bytes)));
  return {free_bytes, total_bytes};
}

}  // namespace fragscope::driver
