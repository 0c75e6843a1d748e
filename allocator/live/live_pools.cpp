// SPDX-License-Identifier: Apache-2.0
// Private pools, and what a live device says of itself.
#include "allocator/live/guarded.hpp"
#include "allocator/live/live_device.hpp"

#include <bit>
#include <utility>

namespace fragscope::live {

// --- Private pools. ------------------------------------------------------------------------------

void LiveDevice::create_pool(policy::PoolId pool,
                             std::shared_ptr<policy::DeviceMemory> source) noexcept {
  guarded([&] { policy_.create_pool(pool, std::move(source)); });
}

bool LiveDevice::begin_allocate_to_pool(policy::PoolId pool,
                                        std::function<bool(policy::StreamId)> filter) noexcept {
  return guarded(false, [&] { return policy_.begin_allocate_to_pool(pool, std::move(filter)); });
}

bool LiveDevice::end_allocate_to_pool(policy::PoolId pool) noexcept {
  return guarded(false, [&] { return policy_.end_allocate_to_pool(pool); });
}

bool LiveDevice::release_pool(policy::PoolId pool) noexcept {
  return guarded(false, [&] { return policy_.release_pool(pool); });
}

std::uint32_t LiveDevice::pool_use_count(policy::PoolId pool) noexcept {
  return guarded(std::uint32_t{0}, [&] { return policy_.pool_use_count(pool); });
}

bool LiveDevice::set_use_on_oom(policy::PoolId pool, bool use_on_oom) noexcept {
  return guarded(false, [&] { return policy_.set_use_on_oom(pool, use_on_oom); });
}

bool LiveDevice::set_no_split(policy::PoolId pool, bool no_split) noexcept {
  return guarded(false, [&] { return policy_.set_no_split(pool, no_split); });
}

void LiveDevice::begin_capture() noexcept {
  guarded([&] { policy_.begin_capture(); });
}

void LiveDevice::end_capture() noexcept {
  guarded([&] { static_cast<void>(policy_.end_capture()); });
}

bool LiveDevice::has_live_blocks(policy::PoolId pool,
                                 const std::unordered_set<void*>& expected) noexcept {
  return guarded(false, [&] {
    std::unordered_set<policy::Address> addresses;
    for (void* pointer : expected)
      addresses.insert(std::bit_cast<policy::Address>(pointer));
    return policy_.has_live_blocks(pool, addresses);
  });
}

std::optional<policy::PoolState> LiveDevice::pool_state(policy::PoolId pool) noexcept {
  return guarded(std::optional<policy::PoolState>{}, [&] { return policy_.pool_state(pool); });
}

policy::RestoredPool LiveDevice::restore_pool(const policy::PoolState& state) noexcept {
  policy::RestoredPool failed;
  failed.error = "the host has no memory for the allocator's books";
  return guarded(std::move(failed), [&] { return policy_.restore_pool(state); });
}

// --- Reports. ------------------------------------------------------------------------------------

policy::Statistics LiveDevice::statistics() noexcept {
  return guarded(policy::Statistics{}, [&] { return policy_.statistics(); });
}

void LiveDevice::reset_peaks() noexcept {
  guarded([&] { policy_.statistics().reset_peaks(); });
}

void LiveDevice::reset_accumulated() noexcept {
  guarded([&] { policy_.statistics().reset_accumulated(); });
}

std::vector<policy::SegmentSnapshot> LiveDevice::snapshot() noexcept {
  return guarded(std::vector<policy::SegmentSnapshot>{}, [&] {
    auto segments = policy::snapshot(policy_);
    std::uint64_t active = 0;
    for (const policy::SegmentSnapshot& segment : segments)
      active += segment.active_size;
    if (recorder_ != nullptr) recorder_->snapshot_taken(active);
    if (teller_) teller_->tell_snapshot(active);
    return segments;
  });
}

policy::Capacity LiveDevice::capacity() noexcept {
  return guarded(policy::Capacity{}, [&] { return memory_.capacity(); });
}

std::uint64_t LiveDevice::largest_free_block() noexcept {
  return guarded(std::uint64_t{0}, [&] { return policy_.largest_free_block(); });
}

}  // namespace fragscope::live
