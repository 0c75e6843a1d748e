// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/dropin/torch_settings.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace fragscope::shim {
namespace {

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

/// Where the divisions for requests of this size stand: by the power of two of their MiB.
std::size_t division_index(std::size_t size) {
  const std::uint64_t mib = size >> 20;
  return mib == 0 ? 0 : std::min<std::size_t>(std::bit_width(mib) - 1, 15);
}

#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR

using Common = c10::CachingAllocator::AcceleratorAllocatorConfig;
std::uint64_t large_segment_size() {
  return Common::large_segment_size();
}
bool expandable_segments() {
  return Common::use_expandable_segments();
}
bool throw_on_cudamalloc_oom() {
  return caching::CUDAAllocatorConfig::throw_on_cudamalloc_oom();
}

#else

using Common = caching::CUDAAllocatorConfig;
std::uint64_t large_segment_size() {
  return policy::kLargeBuffer;
}
bool expandable_segments() {
  return Common::expandable_segments();
}
bool throw_on_cudamalloc_oom() {
  return false;
}

#endif

}  // namespace

TorchSettings::TorchSettings() {
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  // The second half of what reads a string is reached through a hook, which is asked for each.
  auto& hook = Common::getConfigParserHook();
  hook = [others = std::move(hook)](const std::string& text) {
    struct Count {
      ~Count() { changes.fetch_add(1, std::memory_order_relaxed); }
    } count;  // Also if it throws: the first half has been applied.
    if (others) others(text);
  };
#endif
  static_cast<void>(take());
}

bool TorchSettings::differs(std::size_t size) const {
  return seen_.max_split_size.load(kRelaxed) != Common::max_split_size() ||
         seen_.max_non_split_rounding.load(kRelaxed) != Common::max_non_split_rounding_size() ||
         seen_.large_segment_size.load(kRelaxed) != large_segment_size() ||
         seen_.garbage_collection_threshold.load(kRelaxed) !=
             Common::garbage_collection_threshold() ||
         seen_.expandable_segments.load(kRelaxed) != expandable_segments() ||
         seen_.throw_on_cudamalloc_oom.load(kRelaxed) != throw_on_cudamalloc_oom() ||
         seen_.roundup_divisions[division_index(size)].load(kRelaxed) !=
             Common::roundup_power2_divisions(size);
}

engine::Settings TorchSettings::take() {
  static thread_local std::string text;
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  seen_changes_.store(changes.load(kRelaxed), kRelaxed);
#endif
  text = last_settings();
  engine::Settings settings;
  settings.text = text;
  policy::SizeRules& rules = settings.rules;
  rules.max_split_size = Common::max_split_size();
  rules.max_non_split_rounding = Common::max_non_split_rounding_size();
  rules.large_segment_size = large_segment_size();
  rules.expandable_segments = expandable_segments();
  settings.garbage_collection_threshold = Common::garbage_collection_threshold();
  settings.throw_on_cudamalloc_oom = throw_on_cudamalloc_oom();
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  using Cuda = caching::CUDAAllocatorConfig;
  settings.per_process_memory_fraction = Cuda::per_process_memory_fraction();
  settings.graph_capture_record_stream_reuse = Cuda::graph_capture_record_stream_reuse();
#endif
  seen_.max_split_size.store(rules.max_split_size, kRelaxed);
  seen_.max_non_split_rounding.store(rules.max_non_split_rounding, kRelaxed);
  seen_.large_segment_size.store(rules.large_segment_size, kRelaxed);
  seen_.garbage_collection_threshold.store(settings.garbage_collection_threshold, kRelaxed);
  seen_.expandable_segments.store(rules.expandable_segments, kRelaxed);
  seen_.throw_on_cudamalloc_oom.store(settings.throw_on_cudamalloc_oom, kRelaxed);
  for (std::size_t i = 0; i < rules.roundup_divisions.size(); ++i) {
    rules.roundup_divisions[i] = Common::roundup_power2_divisions(std::size_t{1} << (20 + i));
    seen_.roundup_divisions[i].store(rules.roundup_divisions[i], kRelaxed);
  }
  return settings;
}

}  // namespace fragscope::shim
