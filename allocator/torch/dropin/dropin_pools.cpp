// SPDX-License-Identifier: Apache-2.0
// Private pools: of CUDA graphs, of MemPool, and their checkpoints. Errors have PyTorch's words.
#include "allocator/torch/dropin/dropin_allocator.hpp"
#include "allocator/torch/dropin/pool_source.hpp"

#include <bit>
#include <utility>

namespace fragscope::shim {
namespace {

class CheckpointState final : public caching::AllocatorState {
 public:
  explicit CheckpointState(policy::PoolState state)
      : state_(std::move(state)) {}
  [[nodiscard]] const policy::PoolState& state() const { return state_; }

 private:
  policy::PoolState state_;
};

}  // namespace

void DropinAllocator::beginAllocateToPool(DeviceIndex device,
                                          MempoolId_t pool,
                                          std::function<bool(cudaStream_t)> filter) {
  engine::Device& asked = used(device);
#if !FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  // Only here 2.6 tells which allocator a pool has.
  c10::cuda::MemPool* active = c10::cuda::MemPoolContext::getActiveMemPool();
  if (active != nullptr && active->id() == pool && active->allocator() != nullptr) {
    const std::shared_ptr<CUDAAllocator> not_owned(std::shared_ptr<void>(), active->allocator());
    asked.create_pool(pool, std::make_shared<PoolSource>(not_owned));
    static_cast<void>(asked.release_pool(pool));
  }
#endif
  TORCH_CHECK(asked.begin_allocate_to_pool(pool,
                                           [filter = std::move(filter)](policy::StreamId stream) {
                                             return filter(std::bit_cast<cudaStream_t>(stream));
                                           }),
              "beginAllocateToPool: already recording to mempool_id");
}

void DropinAllocator::endAllocateToPool(DeviceIndex device, MempoolId_t pool) {
  TORCH_CHECK(used(device).end_allocate_to_pool(pool),
              "endAllocatePool: not currently recording to mempool_id");
}

void DropinAllocator::releasePool(DeviceIndex device, MempoolId_t pool) {
  TORCH_INTERNAL_ASSERT(used(device).release_pool(pool));
}

int DropinAllocator::getPoolUseCount(DeviceIndex device, MempoolId_t pool) {
  return static_cast<int>(used(device).pool_use_count(pool));
}

bool DropinAllocator::checkPoolLiveAllocations(DeviceIndex device,
                                               MempoolId_t pool,
                                               const std::unordered_set<void*>& expected) {
  engine::Device& asked = used(device);
  TORCH_CHECK(asked.pool_use_count(pool) > 0 || asked.pool_state(pool),
              "Could not find pool of id");
  return asked.has_live_blocks(pool, expected);
}

std::shared_ptr<caching::AllocatorState> DropinAllocator::getCheckpointState(DeviceIndex device,
                                                                             MempoolId_t pool) {
  auto state = used(device).pool_state(pool);
  TORCH_CHECK(state, "Could not find pool of id");
  return std::make_shared<CheckpointState>(*std::move(state));
}

caching::CheckpointDelta DropinAllocator::setCheckpointPoolState(
    DeviceIndex device, std::shared_ptr<caching::AllocatorState> state) {
  const auto checkpoint = std::dynamic_pointer_cast<CheckpointState>(state);
  TORCH_CHECK(checkpoint, "Expected PrivatePoolState");
  const policy::RestoredPool restored = used(device).restore_pool(checkpoint->state());
  TORCH_CHECK(restored.error.empty(), std::string(restored.error));
  caching::CheckpointDelta delta;
  for (const policy::Address address : restored.freed)
    delta.ptrs_freed.push_back(std::bit_cast<void*>(address));
  for (const policy::Address address : restored.handed_out) {
    void* pointer = std::bit_cast<void*>(address);
    delta.dataptrs_allocd.emplace_back(
        pointer, pointer, &delete_block, c10::Device(c10::DeviceType::CUDA, device));
  }
  return delta;
}

#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR

void DropinAllocator::createOrIncrefPool(DeviceIndex device,
                                         MempoolId_t pool,
                                         std::shared_ptr<CUDAAllocator> allocator) {
  std::shared_ptr<policy::DeviceMemory> source;
  if (allocator != nullptr) source = std::make_shared<PoolSource>(std::move(allocator));
  used(device).create_pool(pool, std::move(source));
}

void DropinAllocator::setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool is_used) {
  TORCH_CHECK(used(device).set_use_on_oom(pool, is_used), "Could not find pool of id");
}

void DropinAllocator::setNoSplit(DeviceIndex device, MempoolId_t pool) {
  TORCH_CHECK(used(device).set_no_split(pool, true), "Could not find pool of id");
}

#else

void DropinAllocator::ensureExistsAndIncrefPool(DeviceIndex device, MempoolId_t pool) {
  used(device).create_pool(pool, nullptr);
}

#endif

}  // namespace fragscope::shim
