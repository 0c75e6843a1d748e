// SPDX-License-Identifier: Apache-2.0
// Statistics, snapshots, history and observers, in PyTorch's own structures.
#include "allocator/torch/dropin/dropin_allocator.hpp"

#include <bit>
#include <map>
#include <utility>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>

namespace fragscope::shim {
namespace {

using Stats = c10::CachingDeviceAllocator::DeviceStats;

// What the two versions call alike and keep in different places.
using TorchStat = std::remove_reference_t<decltype(Stats{}.oversize_segments)>;
using TorchStatArray = std::remove_reference_t<decltype(Stats{}.segment)>;
using SegmentInfo = decltype(SnapshotInfo::segments)::value_type;
using BlockInfo = decltype(SegmentInfo::blocks)::value_type;

TorchStat stat_of(const policy::Counter& counter) {
  TorchStat stat;
  stat.current = counter.current;
  stat.peak = counter.peak;
  stat.allocated = counter.allocated;
  stat.freed = counter.freed;
  return stat;
}

TorchStatArray stats_of(const policy::ClassCounters& counters) {
  // StatType: all, small, large.
  return {stat_of(counters.all), stat_of(counters.by_class[0]), stat_of(counters.by_class[1])};
}

Stats stats_of(const policy::Statistics& from) {
  Stats stats;
  stats.allocation = stats_of(from.allocation);
  stats.segment = stats_of(from.segment);
  stats.active = stats_of(from.active);
  stats.inactive_split = stats_of(from.inactive_split);
  stats.allocated_bytes = stats_of(from.allocated_bytes);
  stats.reserved_bytes = stats_of(from.reserved_bytes);
  stats.active_bytes = stats_of(from.active_bytes);
  stats.inactive_split_bytes = stats_of(from.inactive_split_bytes);
  stats.requested_bytes = stats_of(from.requested_bytes);
  stats.num_alloc_retries = from.num_alloc_retries;
  stats.num_ooms = from.num_ooms;
  stats.oversize_allocations = stat_of(from.oversize_allocations);
  stats.oversize_segments = stat_of(from.oversize_segments);
  stats.num_sync_all_streams = from.num_sync_all_streams;
  stats.num_device_alloc = from.num_device_alloc;
  stats.num_device_free = from.num_device_free;
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  stats.num_oom_rejections = from.num_oom_rejections;
  for (const auto& [id, counters] : from.reserved_bytes_by_pool)
    stats.reserved_bytes_by_private_pools[id] = stats_of(counters);
#endif
  return stats;
}

SegmentInfo segment_of(const policy::SegmentSnapshot& from,
                       DeviceIndex device,
                       const History& history) {
  SegmentInfo segment;
  segment.device = device;
  segment.address = from.address;
  segment.total_size = from.total_size;
  segment.requested_size = from.requested_size;
  segment.allocated_size = from.allocated_size;
  segment.active_size = from.active_size;
  segment.stream = std::bit_cast<cudaStream_t>(from.stream);
  segment.is_large = from.size_class == policy::SizeClass::kLarge;
  segment.is_expandable = from.is_expandable;
  segment.owner_private_pool_id = from.pool;
  segment.context_when_allocated = history.context_of_segment(from.address);
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  segment.registration_counter = static_cast<std::int32_t>(from.number);
#endif
  policy::Address address = from.address;
  for (const policy::BlockSnapshot& block : from.blocks) {
    BlockInfo& added = segment.blocks.emplace_back();
    added.size = block.size;
    added.requested_size = block.requested_size;
    added.gc_counter = static_cast<std::int32_t>(block.lookups);
    added.allocated = block.is_allocated;
    added.active = block.is_active;
    if (block.is_active) added.context_when_allocated = history.context_of_block(address);
    address += block.size;
  }
  return segment;
}

#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
std::vector<TraceEntry::Action> actions_of(const std::vector<std::string>& names) {
  std::vector<TraceEntry::Action> actions;
  actions.reserve(names.size());
  for (const std::string& name : names)
    actions.push_back(c10::CachingDeviceAllocator::parseTraceEntryAction(name));
  return actions;
}
#endif

}  // namespace

// --- Statistics. ---------------------------------------------------------------------------------

c10::CachingDeviceAllocator::DeviceStats DropinAllocator::getDeviceStats(DeviceIndex device) {
  check(device);
  engine::Device* open = opened(device);
  Stats stats = stats_of(open == nullptr ? policy::Statistics{} : open->statistics());
  stats.num_sync_all_streams += early_syncs_[static_cast<std::size_t>(device)];
  stats.max_split_size = native().getDeviceStats(device).max_split_size;
  return stats;
}

void DropinAllocator::resetAccumulatedStats(DeviceIndex device) {
  check(device);
  if (engine::Device* open = opened(device)) open->reset_accumulated();
  early_syncs_[static_cast<std::size_t>(device)] = 0;
}

void DropinAllocator::resetPeakStats(DeviceIndex device) {
  check(device);
  if (engine::Device* open = opened(device)) open->reset_peaks();
}

// --- Snapshots. ----------------------------------------------------------------------------------

// The native allocator fills in what does not concern blocks of the device: settings, host memory.
void DropinAllocator::fill(SnapshotInfo& info, MempoolId_t pool, bool with_traces) {
  const policy::PoolId wanted = pool;
  const auto to_ns = clock_.makeConverter();
  const auto to_us = [&to_ns](auto& time) { time.t_ = to_ns(time.approx_t_) / 1000; };
  info.segments.clear();
  info.device_traces.clear();
  if (with_traces) info.device_traces.resize(static_cast<std::size_t>(device_count_));
  each_open([&](engine::Device& device, DeviceIndex ordinal) {
    device.locked([&] {
      const History& known = history(ordinal);
      // The entry of the snapshot itself comes behind what it shows.
      if (with_traces) info.device_traces[static_cast<std::size_t>(ordinal)] = known.entries();
      for (const policy::SegmentSnapshot& segment : device.snapshot()) {
        if (wanted != policy::PoolId{} && segment.pool != wanted) continue;
        info.segments.push_back(segment_of(segment, ordinal, known));
      }
    });
  });
  for (auto& trace : info.device_traces) {
    for (TraceEntry& entry : trace)
      to_us(entry.time_);
  }
  info.external_annotations = annotations_.entries();
  for (auto& annotation : info.external_annotations)
    to_us(annotation.time_);
}

#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR

SnapshotInfo DropinAllocator::snapshot(MempoolId_t pool, bool with_traces) {
  SnapshotInfo info = native().snapshot(pool, with_traces);
  fill(info, pool, with_traces);
  return info;
}

std::vector<caching::StreamSegmentSize> DropinAllocator::getExpandableSegmentSizes(
    DeviceIndex device) {
  std::map<std::uint64_t, caching::StreamSegmentSize> segments;  // by their number
  for (const policy::SegmentSnapshot& range : used(device).snapshot()) {
    if (!range.is_expandable) continue;
    const auto [place, is_new] = segments.try_emplace(range.number,
                                                      std::bit_cast<cudaStream_t>(range.stream),
                                                      range.size_class == policy::SizeClass::kSmall,
                                                      0);
    place->second.total_size += range.total_size;
  }
  std::vector<caching::StreamSegmentSize> sizes;
  for (const auto& [number, size] : segments)
    sizes.push_back(size);
  return sizes;
}

std::shared_ptr<c10::GatheredContext> DropinAllocator::getContextForPointer(const void* pointer) {
  const auto found = find(pointer);
  if (!found) return nullptr;
  Context context;
  found->first.device->locked([&] {
    context =
        history(found->first.ordinal).context_of_block(std::bit_cast<policy::Address>(pointer));
  });
  return context;
}

#else

SnapshotInfo DropinAllocator::snapshot() {
  SnapshotInfo info = native().snapshot();
  fill(info, {0, 0}, true);
  return info;
}

#endif

// --- History. ------------------------------------------------------------------------------------

void DropinAllocator::begin_listening(DeviceIndex device) {
  engine::Device* open = opened(device);
  if (open != nullptr) open->listen(history(device).is_needed() ? &history(device) : nullptr);
}

void DropinAllocator::request_history(const HistoryRequest& request) {
  TORCH_CHECK(request.when == RecordContext::NEVER || request.context != nullptr);
  const std::lock_guard lock(mutex_);
  for (DeviceIndex device = 0; device < device_count_; ++device) {
    engine::Device* open = opened(device);
    if (open == nullptr) {
      history(device).request(request);
    } else {
      open->locked([&] { history(device).request(request); });
    }
    begin_listening(device);
  }
  annotations_.request(request.is_enabled, request.is_cleared, request.most_entries);
}

bool DropinAllocator::isHistoryEnabled() {
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  check(device);
  return history(device).is_enabled();
}

void DropinAllocator::recordAnnotation(
    const std::vector<std::pair<std::string, std::string>>& annotation) {
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  annotations_.add(device, annotation);
}

void DropinAllocator::attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) {
  const std::lock_guard lock(mutex_);
  if (device_count_ > 0) out_of_memory_observers_.push_back(std::move(observer));
}

// As with PyTorch's own, one that comes before CUDA is in use is never called.
void DropinAllocator::attachAllocatorTraceTracker(AllocatorTraceTracker tracker) {
  const std::lock_guard lock(mutex_);
  for (DeviceIndex device = 0; device < device_count_; ++device) {
    engine::Device* open = opened(device);
    if (open == nullptr) {
      history(device).add_tracker(tracker);
    } else {
      open->locked([&] { history(device).add_tracker(tracker); });
    }
    begin_listening(device);
  }
}

#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR

void DropinAllocator::recordHistory(bool is_enabled,
                                    CreateContextFn context,
                                    size_t most_entries,
                                    RecordContext when,
                                    bool is_cleared,
                                    const std::vector<std::string>& skipped) {
  request_history({is_enabled, context, most_entries, when, is_cleared, actions_of(skipped)});
}

void DropinAllocator::attachOomRejectionObserver(caching::OomRejectionObserver observer) {
  const std::lock_guard lock(mutex_);
  if (device_count_ > 0) rejection_observers_.push_back(std::move(observer));
}

void DropinAllocator::pushCompileContext(std::string& text) {
  if (annotations_.is_enabled()) push_compile_context(text);
}

void DropinAllocator::popCompileContext() {
  if (annotations_.is_enabled()) pop_compile_context();
}

void DropinAllocator::annotateMemory(const void* pointer, const std::string& text) {
  const auto found = find(pointer);
  TORCH_CHECK(found, "annotateMemory: no live allocation found at pointer ", pointer);
  found->first.device->locked([&] {
    history(found->first.ordinal)
        .annotate(std::bit_cast<policy::Address>(pointer), found->second, text);
  });
}

#else

void DropinAllocator::recordHistory(bool is_enabled,
                                    CreateContextFn context,
                                    size_t most_entries,
                                    RecordContext when) {
  request_history({is_enabled, context, most_entries, when, !is_enabled, {}});
}

#endif

}  // namespace fragscope::shim
