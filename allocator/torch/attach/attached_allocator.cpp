// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/attach/attached_allocator.hpp"

#include "allocator/engine/attachment.hpp"
#include "allocator/torch/captured_pools.hpp"
#include "allocator/torch/forwarding_allocator.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <type_traits>
#include <utility>

#include <c10/cuda/CUDAFunctions.h>

namespace fragscope::shim {
namespace {

using engine::Attachment;
using engine::NativeAction;
using engine::NativeBlock;
using engine::NativeEvent;

constexpr int kMostDevices = 64;

/// What the tracker is to know of the call that it runs in.
struct CallUnderWay {
  std::size_t requested = 0;
  const void* stack = nullptr;
  int failed_device = -1;
  bool takes_keyframe = false;
  int snapshot_device = -1;  // whose snapshot is next; -1: none is taken
};
thread_local CallUnderWay call_under_way;

/// PyTorch tells of every device's snapshot as if it were of device 0. Within one call they come in
/// the order of devices, of all that there are.
class SnapshotScope {
 public:
  SnapshotScope()
      : outer_(std::exchange(call_under_way.snapshot_device, 0)) {}
  SnapshotScope(const SnapshotScope&) = delete;
  SnapshotScope& operator=(const SnapshotScope&) = delete;
  ~SnapshotScope() { call_under_way.snapshot_device = outer_; }

 private:
  int outer_;
};

/// The device that the event is of; -1: not known.
int device_of(const TraceEntry& entry) {
  if (entry.action_ != TraceEntry::SNAPSHOT) return entry.device_;
  int& next = call_under_way.snapshot_device;
  return next < 0 ? -1 : next++;
}

/// The numbers of actions, and whether we record them.
bool is_recorded(TraceEntry::Action action, NativeAction& into) {
  switch (action) {
    case TraceEntry::ALLOC:
      into = NativeAction::kAlloc;
      return true;
    case TraceEntry::FREE_REQUESTED:
      into = NativeAction::kFreeRequested;
      return true;
    case TraceEntry::FREE_COMPLETED:
      into = NativeAction::kFreeCompleted;
      return true;
    case TraceEntry::SEGMENT_ALLOC:
      into = NativeAction::kSegmentAlloc;
      return true;
    case TraceEntry::SEGMENT_FREE:
      into = NativeAction::kSegmentFree;
      return true;
    case TraceEntry::SEGMENT_MAP:
      into = NativeAction::kSegmentMap;
      return true;
    case TraceEntry::SEGMENT_UNMAP:
      into = NativeAction::kSegmentUnmap;
      return true;
    case TraceEntry::OOM:
      into = NativeAction::kOutOfMemory;
      return true;
    case TraceEntry::SNAPSHOT:
      into = NativeAction::kSnapshot;
      return true;
    default:
      return false;
  }
}

std::uint64_t handle_of(const void* stream) {
  return reinterpret_cast<std::uintptr_t>(stream);
}

NativeBlock native_block(const caching::SegmentInfo& segment, const caching::BlockInfo& block) {
  NativeBlock native;
  native.size = block.size;
  native.requested = block.requested_size;
  native.stream = handle_of(segment.stream);
  native.pool_first = segment.owner_private_pool_id.first;
  native.pool_second = segment.owner_private_pool_id.second;
  native.is_large = segment.is_large;
  native.is_expandable = segment.is_expandable;
  native.is_allocated = block.allocated;
  native.is_pending = block.active && !block.allocated;
  return native;
}

class AttachedAllocator final : public ForwardingAllocator {
 public:
  AttachedAllocator(CUDAAllocator& native, void* (*attachment)(int))
      : ForwardingAllocator(native)
      , attachment_(attachment) {}

  /// Has an event come, for what waits for one.
  void flush() {
    const auto is_behind = [](const auto& device) {
      const Attachment* recorded = device.load(std::memory_order_acquire);
      return recorded != nullptr && recorded->is_behind();
    };
    // Each device's snapshot is an event, and changes nothing.
    if (std::any_of(recorded_.begin(), recorded_.end(), is_behind)) {
      const SnapshotScope scope;
      static_cast<void>(blocks_of(native()));
    }
  }

  /// CUDA is in use: whatever there is becomes the trace's beginning.
  void begin_in_the_middle(int device_count);

  void init(int device_count) override {
    native().init(device_count);
    // A tracker from before would never be told anything.
    begin(device_count, false);
  }

  DataPtr allocate(size_t size) override {
    return asking(size, [&] { return native().allocate(size); });
  }
  void* raw_alloc(size_t size) override {
    return asking(size, [&] { return native().raw_alloc(size); });
  }
  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    return asking(size, [&] { return native().raw_alloc_with_stream(size, stream); });
  }
  void recordStream(const DataPtr& data, CUDAStream stream) override {
    native().recordStream(data, stream);
    if (Attachment* recorded = of(data.device().index()); recorded != nullptr && data.get()) {
      recorded->record_stream(handle_of(data.get()), handle_of(stream.stream()));
    }
  }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    native().setMemoryFraction(fraction, device);
    if (Attachment* recorded = of(device)) recorded->memory_fraction(fraction);
  }
  void beginAllocateToPool(DeviceIndex device,
                           MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    pools_.begin(device, pool, filter);
    native().beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    native().endAllocateToPool(device, pool);
    pools_.end(device, pool);
  }
  caching::CheckpointDelta setCheckpointPoolState(
      DeviceIndex device, std::shared_ptr<caching::AllocatorState> state) override;

#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  SnapshotInfo snapshot(MempoolId_t pool, bool with_traces) override {
    const SnapshotScope scope;
    return native().snapshot(pool, with_traces);
  }
  using ForwardingAllocator::emptyCache;
  void emptyCache(MempoolId_t pool) override {
    native().emptyCache(pool);
    tell_release(pool);
  }
  using ForwardingAllocator::recordStream;
  DataPtr allocateWithAddress(size_t size, void* address) override {
    return asking(size, [&] { return native().allocateWithAddress(size, address); });
  }
  void markCaptureBegin(DeviceIndex device) override {
    native().markCaptureBegin(device);
    if (Attachment* recorded = of(device)) recorded->capturing(true);
  }
  void markCaptureEnd(DeviceIndex device) override {
    native().markCaptureEnd(device);
    if (Attachment* recorded = of(device)) recorded->capturing(false);
  }
#else
  SnapshotInfo snapshot() override {
    const SnapshotScope scope;
    return native().snapshot();
  }
  void emptyCache() override {
    native().emptyCache();
    tell_release(pool_to_empty());
  }
#endif

 private:
  void begin(int device_count, bool is_in_the_middle);
  [[nodiscard]] Attachment* of(int device) const {
    const bool is_device = device >= 0 && device < kMostDevices;
    return is_device ? recorded_[static_cast<std::size_t>(device)].load(std::memory_order_acquire)
                     : nullptr;
  }

  /// A call that may hand a block out, or fail.
  template <class Call>
  std::invoke_result_t<Call> asking(size_t size, Call call) {
    if (is_keyframe_due_.load(std::memory_order_relaxed)) take_keyframe();
    call_under_way.requested = size;
    if (wants_stacks_.load(std::memory_order_relaxed)) note_stack(size);
    try {
      return call();
    } catch (const c10::OutOfMemoryError& error) {
      throw_with_line(error);
      throw;
    }
  }
  void note_stack(size_t size);
  void throw_with_line(const c10::OutOfMemoryError& error) const;
  void hear(const TraceEntry& entry) noexcept;
  void tell_settings() noexcept;
  void tell_release(const MempoolId_t& pool) noexcept;
  void take_keyframe() noexcept;

  void* (*attachment_)(int);
  std::array<std::atomic<Attachment*>, kMostDevices> recorded_{};
  std::atomic<bool> is_keyframe_due_ = false;
  std::atomic<bool> wants_stacks_ = false;
  std::mutex keyframe_mutex_;
  CapturedPools pools_;
};

void AttachedAllocator::begin(int device_count, bool is_in_the_middle) {
  for (int device = 0; device < std::min(device_count, kMostDevices); ++device) {
    auto* recorded = static_cast<Attachment*>(attachment_(device));
    if (recorded == nullptr || of(device) != nullptr) continue;
    if (is_in_the_middle) recorded->begin_in_the_middle();
    if (recorded->wants_stacks()) wants_stacks_.store(true, std::memory_order_relaxed);
    recorded_[static_cast<std::size_t>(device)].store(recorded, std::memory_order_release);
  }
  tell_settings();
  native().attachAllocatorTraceTracker([this](const TraceEntry& entry) { hear(entry); });
}

void AttachedAllocator::begin_in_the_middle(int device_count) {
  begin(device_count, true);
  take_keyframe();
  // Whether or not the job allocates again: the event of another snapshot writes the first one's
  // blocks.
  take_keyframe();
}

// Under PyTorch's lock of the device, on whatever thread: takes no lock but that of what is told
// meanwhile, and nothing leaves it.
void AttachedAllocator::hear(const TraceEntry& entry) noexcept {
  const int device = device_of(entry);
  Attachment* recorded = of(device);
  NativeEvent event;
  if (recorded == nullptr || !is_recorded(entry.action_, event.action)) return;
  event.address = entry.addr_;
  event.size = entry.size_;
  event.stream = handle_of(entry.stream_);
  const bool is_of_segment = event.action <= NativeAction::kSegmentUnmap;
  // The call under way is asked only where it matters: to find a thread's own costs most of a
  // record.
  if (is_of_segment || event.action == NativeAction::kOutOfMemory) {
    event.requested = call_under_way.requested;
    tell_settings();
  }
  // What a request sets off on the way to its block belongs to it; a free has none.
  const bool is_of_free =
      event.action == NativeAction::kFreeRequested || event.action == NativeAction::kFreeCompleted;
  if (!is_of_free && wants_stacks_.load(std::memory_order_relaxed)) {
    event.stack = call_under_way.stack;
  }
  const MempoolId_t pool = pools_.pool_of(entry, is_of_segment);
  event.pool_first = pool.first;
  event.pool_second = pool.second;
#if defined(C10_RDTSC)
  event.ticks = entry.time_.approx_t_;
#endif
  if (event.action == NativeAction::kSnapshot) {
    event.is_keyframe = call_under_way.takes_keyframe;
  }
  if (event.action == NativeAction::kOutOfMemory) call_under_way.failed_device = device;
  if (recorded->on_event(event)) is_keyframe_due_.store(true, std::memory_order_relaxed);
}

// Before PyTorch's lock is taken, since Python's is needed.
void AttachedAllocator::note_stack(size_t size) {
  DeviceIndex device = 0;
  if (c10::cuda::GetDevice(&device) != cudaSuccess) return;
  Attachment* recorded = of(device);
  call_under_way.stack = recorded == nullptr ? nullptr : recorded->stack_for(size);
}

/// They may change at any time, and no call tells of it.
void AttachedAllocator::tell_settings() noexcept {
  try {
    const std::string settings = last_settings();
    for (const auto& device : recorded_) {
      if (Attachment* recorded = device.load(std::memory_order_acquire)) {
        recorded->settings(settings);
      }
    }
  } catch (const std::exception&) {
    // They are not recorded.
  }
}

void AttachedAllocator::tell_release(const MempoolId_t& pool) noexcept {
  for (const auto& device : recorded_) {
    if (Attachment* recorded = device.load(std::memory_order_acquire)) {
      recorded->cache_released(pool.first, pool.second);
    }
  }
}

// Not in the tracker: a snapshot takes the locks of all devices, one after another.
void AttachedAllocator::take_keyframe() noexcept {
  const std::unique_lock lock(keyframe_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  is_keyframe_due_.store(false, std::memory_order_relaxed);
  try {
    const SnapshotScope scope;
    call_under_way.takes_keyframe = true;
    const SnapshotInfo snapshot = blocks_of(native());
    call_under_way.takes_keyframe = false;
    std::array<std::vector<NativeBlock>, kMostDevices> blocks;
    for (const auto& segment : snapshot.segments) {
      if (segment.device < 0 || segment.device >= kMostDevices) continue;
      auto& into = blocks[static_cast<std::size_t>(segment.device)];
      std::uint64_t address = segment.address;
      for (const auto& block : segment.blocks) {
        NativeBlock& native = into.emplace_back(native_block(segment, block));
        native.address = address;
        native.is_first = address == segment.address;
        address += block.size;
      }
    }
    for (int device = 0; device < kMostDevices; ++device) {
      if (Attachment* recorded = of(device)) {
        recorded->keyframe(blocks[static_cast<std::size_t>(device)]);
      }
    }
  } catch (const std::exception&) {
    // The next one will do.
    call_under_way.takes_keyframe = false;
  }
}

// The state of a private pool is put back to what it was by hand-outs and frees whose sizes follow
// no rule.
caching::CheckpointDelta AttachedAllocator::setCheckpointPoolState(
    DeviceIndex device, std::shared_ptr<caching::AllocatorState> state) {
  if (Attachment* recorded = of(device)) recorded->lose();
  caching::CheckpointDelta delta = native().setCheckpointPoolState(device, std::move(state));
  take_keyframe();
  return delta;
}

/// The same error with our line behind PyTorch's text.
void AttachedAllocator::throw_with_line(const c10::OutOfMemoryError& error) const {
  const Attachment* recorded = of(std::exchange(call_under_way.failed_device, -1));
  const std::string_view line = recorded == nullptr ? "" : recorded->failure_line();
  if (line.empty()) return;
  std::string text = error.msg();
  text += '\n';
  text += line;
  c10::OutOfMemoryError longer(std::move(text), error.backtrace(), error.caller());
  for (const std::string& context : error.context())
    longer.add_context(context);
  throw longer;
}

std::mutex attach_mutex;
AttachedAllocator* attached_one = nullptr;

}  // namespace

void flush() {
  // In a forked child nobody would open it again.
  const std::unique_lock lock(attach_mutex, std::try_to_lock);
  if (lock.owns_lock() && attached_one != nullptr) attached_one->flush();
}

const char* attach(const char* library) {
  const std::lock_guard lock(attach_mutex);
  if (attached_one != nullptr) return nullptr;
  CUDAAllocator& native = *caching::get();
  if (native.name() != "native") return "PyTorch's allocator is not the native one";
  // PyTorch gives memory back after static destructors have run: it is never unloaded.
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (loaded == nullptr) return dlerror();
  auto* attachment = reinterpret_cast<void* (*)(int)>(dlsym(loaded, "fragscope_attachment"));
  if (attachment == nullptr) return "the library has no fragscope_attachment";
  // Nor is this one destroyed.
  auto* attached = new AttachedAllocator(native, attachment);
  if (native.initialized()) attached->begin_in_the_middle(c10::cuda::device_count());
  become_current(*attached);
  attached_one = attached;
  return nullptr;
}

}  // namespace fragscope::shim
