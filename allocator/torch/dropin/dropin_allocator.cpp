// SPDX-License-Identifier: Apache-2.0
// Handing out and taking back, and the state of a device. Private pools and reports are in the
// files beside.
#include "allocator/torch/dropin/dropin_allocator.hpp"

#include "allocator/torch/dropin/pool_source.hpp"

#include <dlfcn.h>

#include <bit>
#include <cstdlib>

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>

namespace fragscope::shim {
namespace {

// The one that PyTorch's deleters, which carry nothing but an address, come to.
DropinAllocator* current = nullptr;

DeviceIndex current_device() {
  DeviceIndex device = 0;
  C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
  return device;
}

/// As PyTorch has it: whatever the variable's value is.
bool is_caching_forbidden() {
  return std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr;
}

/// Memory that PyTorch's other parts keep for later, such as tensors that were shared with another
/// process; true if some came back.
bool run_free_memory_callbacks() {
  bool is_freed = false;
  for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
    is_freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
  return is_freed;
}

/// The call stack of what this thread does until the end of the scope.
class ContextScope {
 public:
  explicit ContextScope(Context context)
      : is_set_(context != nullptr) {
    if (is_set_) History::set_context(std::move(context));
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope() {
    if (is_set_) History::set_context(nullptr);
  }

 private:
  bool is_set_;
};

}  // namespace

// --- Devices. ------------------------------------------------------------------------------------

void DropinAllocator::init(int device_count) {
  native().init(device_count);
  const std::lock_guard lock(mutex_);
  for (int i = device_count_; i < std::min(device_count, kMostDevices); ++i) {
    histories_[static_cast<std::size_t>(i)] =
        std::make_unique<History>(static_cast<DeviceIndex>(i));
  }
  device_count_ = std::max<int>(device_count_, std::min(device_count, kMostDevices));
}

DropinAllocator::DropinAllocator(CUDAAllocator& native, engine::Engine& engine)
    : ForwardingAllocator(native)
    , engine_(engine)
    , is_caching_(!is_caching_forbidden()) {}

void DropinAllocator::check(DeviceIndex device) const {
  TORCH_CHECK(0 <= device && device < device_count_,
              "Invalid device argument ",
              static_cast<int>(device),
              ": did you call init?");
}

engine::Device& DropinAllocator::used(DeviceIndex device) {
  if (device >= 0 && device < kMostDevices) {
    engine::Device* open = opened(device);
    if (open != nullptr) [[likely]]
      return *open;
  }
  return open(device);
}

engine::Device& DropinAllocator::open(DeviceIndex device) {
  check(device);
  const std::lock_guard lock(mutex_);
  auto& place = devices_[static_cast<std::size_t>(device)];
  if (engine::Device* open = place.load(std::memory_order_acquire)) return *open;
  engine::Device* opened = engine_.open(device);
  TORCH_CHECK(opened != nullptr,
              "fragscope: device ",
              static_cast<int>(device),
              " cannot be used: ",
              std::string(engine_.reason()));
  opened->set_settings(settings_.take());
  if (const auto& early = early_fractions_[static_cast<std::size_t>(device)]) {
    opened->set_memory_fraction(*early);
  }
  opened->set_reclaim(run_free_memory_callbacks);
  if (history(device).is_needed()) opened->listen(&history(device));
  only_device_ = ++open_count_ == 1 ? device : -1;
  place.store(opened, std::memory_order_release);
  return *opened;
}

std::optional<std::pair<DropinAllocator::Owned, engine::HandedOut>> DropinAllocator::find(
    const void* pointer) {
  std::optional<std::pair<Owned, engine::HandedOut>> found;
  each_open([&](engine::Device& device, DeviceIndex ordinal) {
    if (found) return;
    if (const auto block = device.find(std::bit_cast<policy::Address>(pointer))) {
      found.emplace(Owned{&device, ordinal}, *block);
    }
  });
  return found;
}

void DropinAllocator::take_settings() {
  const std::lock_guard lock(mutex_);
  const engine::Settings settings = settings_.take();
  each_open([&](engine::Device& device, DeviceIndex) { device.set_settings(settings); });
}

// --- Handing out. --------------------------------------------------------------------------------

DataPtr DropinAllocator::allocate(size_t size) {
  if (!is_caching_.load(std::memory_order_relaxed)) [[unlikely]]
    return native().allocate(size);
  const DeviceIndex device = current_device();
  void* pointer = nullptr;
  if (size != 0) pointer = take(device, size, c10::cuda::getCurrentCUDAStream(device).stream());
  return {pointer, pointer, &delete_block, c10::Device(c10::DeviceType::CUDA, device)};
}

void* DropinAllocator::raw_alloc(size_t size) {
  if (!is_caching_.load(std::memory_order_relaxed)) [[unlikely]]
    return native().raw_alloc(size);
  if (size == 0) return nullptr;
  const DeviceIndex device = current_device();
  return take(device, size, c10::cuda::getCurrentCUDAStream(device).stream());
}

void* DropinAllocator::raw_alloc_with_stream(size_t size, cudaStream_t stream) {
  if (!is_caching_.load(std::memory_order_relaxed)) [[unlikely]] {
    return native().raw_alloc_with_stream(size, stream);
  }
  return size == 0 ? nullptr : take(current_device(), size, stream);
}

void* DropinAllocator::take(DeviceIndex device, size_t size, cudaStream_t stream) {
  engine::Device& used_device = used(device);
  if (settings_.has_changed(size)) [[unlikely]]
    take_settings();
  const ContextScope context(history(device).gather(RecordContext::STATE));
  engine::Refusal refusal;
  void* pointer = std::bit_cast<void*>(used_device.allocate(
      size, std::bit_cast<policy::StreamId>(stream), used_device.stack_for(size), refusal));
  if (pointer == nullptr) [[unlikely]]
    refuse(device, size, refusal);
  report_hand_out(device, pointer);
  return pointer;
}

void DropinAllocator::report_hand_out(DeviceIndex device, void* pointer) {
  if (c10::memoryProfilingEnabled()) [[unlikely]] {
    const auto block = used(device).find(std::bit_cast<policy::Address>(pointer));
    report_to_profiler(device, pointer, block ? static_cast<std::int64_t>(block->size) : 0);
  }
  if (const c10::impl::PyInterpreter* trace = c10::impl::GPUTrace::get_trace()) [[unlikely]] {
    (*trace)->trace_gpu_memory_allocation(c10::kCUDA, std::bit_cast<std::uintptr_t>(pointer));
  }
}

#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
DataPtr DropinAllocator::allocateWithAddress(size_t size, void* address) {
  if (!is_caching_.load(std::memory_order_relaxed))
    return native().allocateWithAddress(size, address);
  const auto wanted = std::bit_cast<policy::Address>(address);
  TORCH_CHECK(wanted % policy::kMinBlockSize == 0,
              "mallocWithAddress: addr must be aligned to kMinBlockSize (",
              policy::kMinBlockSize,
              " bytes), got ",
              address);
  const DeviceIndex device = current_device();
  engine::Device& used_device = used(device);
  if (settings_.has_changed(size)) take_settings();
  const ContextScope context(history(device).gather(RecordContext::STATE));
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device).stream();
  void* pointer = std::bit_cast<void*>(used_device.allocate_at(
      size, std::bit_cast<policy::StreamId>(stream), wanted, used_device.stack_for(size)));
  TORCH_CHECK(pointer != nullptr, "Could not allocate CUDA storage at exact address ", address);
  report_hand_out(device, pointer);
  return {pointer, pointer, &delete_block, c10::Device(c10::DeviceType::CUDA, device)};
}
#endif

// Observers are called without a lock: they may take a snapshot.
void DropinAllocator::refuse(DeviceIndex device, size_t size, const engine::Refusal& refusal) {
  using Kind = engine::Refusal::Kind;
  const std::string message(refusal.message);
  PoolSource::rethrow_failure();
  TORCH_CHECK(refusal.kind != Kind::kUnusable, message);
  const auto total = refusal.capacity.total_bytes;
  if (refusal.kind == Kind::kOutOfMemory) {
    const c10::Device place(c10::DeviceType::CUDA, device);
    c10::reportOutOfMemoryToProfiler(
        static_cast<std::int64_t>(size), refusal.allocated_bytes, refusal.reserved_bytes, place);
    std::vector<caching::OutOfMemoryObserver> observers;
    {
      const std::lock_guard lock(mutex_);
      observers = out_of_memory_observers_;
    }
    for (const auto& observer : observers) {
      observer(device,
               refusal.device_allocation,
               refusal.limit_bytes.value_or(total),
               refusal.capacity.free_bytes);
    }
  }
#if FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  if (refusal.kind == Kind::kRejected) {
    std::vector<caching::OomRejectionObserver> observers;
    {
      const std::lock_guard lock(mutex_);
      observers = rejection_observers_;
    }
    for (const auto& observer : observers)
      observer(device, refusal.device_allocation, refusal.reserved_bytes, total);
  }
#endif
  TORCH_CHECK_WITH(OutOfMemoryError, false, message);
}

void DropinAllocator::report_to_profiler(DeviceIndex device, void* pointer, std::int64_t bytes) {
  const policy::Statistics statistics = used(device).statistics();
  c10::reportMemoryUsageToProfiler(pointer,
                                   bytes,
                                   static_cast<size_t>(statistics.allocated_bytes.all.current),
                                   static_cast<size_t>(statistics.reserved_bytes.all.current),
                                   c10::Device(c10::DeviceType::CUDA, device));
}

// --- Taking back. --------------------------------------------------------------------------------

// A deleter must not throw, and may run when nearly everything else of the process is gone.
void DropinAllocator::delete_block(void* pointer) {
  static_cast<void>(current->give_back(pointer));
}

bool DropinAllocator::give_back(void* pointer) {
  if (pointer == nullptr) return true;
  if (const c10::impl::PyInterpreter* trace = c10::impl::GPUTrace::get_trace()) [[unlikely]] {
    (*trace)->trace_gpu_memory_deallocation(c10::kCUDA, std::bit_cast<std::uintptr_t>(pointer));
  }
  const auto give_to = [&](DeviceIndex ordinal) {
    engine::Device* device = opened(ordinal);
    if (device == nullptr) return false;
    const ContextScope context(history(ordinal).gather(RecordContext::ALL));
    const auto address = std::bit_cast<policy::Address>(pointer);
    if (c10::memoryProfilingEnabled()) [[unlikely]] {
      const auto block = device->find(address);
      if (!device->give_back(address)) return false;
      report_to_profiler(ordinal, pointer, block ? -static_cast<std::int64_t>(block->size) : 0);
      return true;
    }
    return device->give_back(address);
  };
  // Mostly there is one device, or a thread gives back to the one that it did before.
  const int only = only_device_.load(std::memory_order_relaxed);
  if (only >= 0) [[likely]]
    return give_to(static_cast<DeviceIndex>(only));
  static thread_local DeviceIndex last = 0;
  if (give_to(last)) return true;
  for (DeviceIndex ordinal = 0; ordinal < device_count_; ++ordinal) {
    if (ordinal == last || !give_to(ordinal)) continue;
    last = ordinal;
    return true;
  }
  return false;
}

c10::DeleterFnPtr DropinAllocator::raw_deleter() const {
  return is_caching_ ? &delete_block : native().raw_deleter();
}

void DropinAllocator::raw_delete(void* pointer) {
  if (give_back(pointer)) return;
  // What was handed out while caching is off is the driver's.
  TORCH_CHECK(!is_caching_, "invalid device pointer: ", pointer);
  native().raw_delete(pointer);
}

void DropinAllocator::recordStream(const DataPtr& data, CUDAStream stream) {
  if (data.get() == nullptr) return;
  if (data.get_deleter() != &delete_block) {
    native().recordStream(data, stream);
    return;
  }
  const auto address = std::bit_cast<policy::Address>(data.get());
  const bool is_known =
      used(data.device().index())
          .record_stream(address, std::bit_cast<policy::StreamId>(stream.stream()));
  TORCH_INTERNAL_ASSERT(is_known, "No allocated block can be found");
}

void DropinAllocator::enable(bool value) {
  is_enabled_ = value;
  is_caching_ = value && !is_caching_forbidden();
  native().enable(value);
}

// --- The state of a device. ----------------------------------------------------------------------

// To open a device makes a context on it, which takes memory there: neither to ask nor to set a
// limit is reason enough.
double DropinAllocator::getMemoryFraction(DeviceIndex device) {
  check(device);
  if (engine::Device* open = opened(device)) return open->memory_fraction();
  const std::lock_guard lock(mutex_);
  const auto& early = early_fractions_[static_cast<std::size_t>(device)];
  return early ? *early : settings_.take().per_process_memory_fraction;
}

void DropinAllocator::setMemoryFraction(double fraction, DeviceIndex device) {
  TORCH_CHECK(
      0 <= fraction && fraction <= 1, "invalid fraction:", fraction, ". Please set within [0, 1].");
#if !FRAGSCOPE_TORCH_HAS_DEVICE_ALLOCATOR
  // As PyTorch had it then: the device becomes the current one.
  C10_CUDA_CHECK(c10::cuda::SetDevice(device));
#endif
  check(device);
  const std::lock_guard lock(mutex_);
  if (engine::Device* open = opened(device)) {
    open->set_memory_fraction(fraction);
  } else {
    early_fractions_[static_cast<std::size_t>(device)] = fraction;
  }
}

void DropinAllocator::cacheInfo(DeviceIndex device, size_t* largest) {
  engine::Device& asked = used(device);
  if (*largest == 0) *largest = asked.capacity().free_bytes;
  *largest = std::max<size_t>(*largest, asked.largest_free_block());
}

void* DropinAllocator::getBaseAllocation(void* pointer, size_t* size) {
  const auto found = find(pointer);
  TORCH_CHECK(found, "invalid device pointer: ", pointer);
  const engine::HandedOut& block = found->second;
  TORCH_CHECK(!block.is_expandable,
              "Tensors allocated with expandable_segments:True cannot be shared between processes. "
              "Consider using expandable_segments:False in data loading workers via "
              "torch.cuda.memory._set_allocator_settings('expandable_segments:False')");
  if (size != nullptr) *size = block.segment_size;
  return std::bit_cast<void*>(block.segment);
}

// Another process opens the memory by PyTorch's own code, whose handles begin with marks that
// differ by version: they are taken from a handle that PyTorch makes.
caching::ShareableHandle DropinAllocator::shareIpcHandle(void* pointer) {
  const auto* base = static_cast<const char*>(getBaseAllocation(pointer, nullptr));
  cudaIpcMemHandle_t handle;
  C10_CUDA_CHECK(cudaIpcGetMemHandle(&handle, const_cast<char*>(base)));
  static const std::string prefix = [this] {
    void* sample = native().raw_alloc(1);
    const std::string whole = native().shareIpcHandle(sample).handle;
    native().raw_delete(sample);
    return whole.substr(0, whole.size() - sizeof(cudaIpcMemHandle_t));
  }();
  const std::string_view bytes(static_cast<const char*>(handle.reserved), sizeof(handle));
  return {static_cast<const char*>(pointer) - base, prefix + std::string(bytes)};
}

void DropinAllocator::enablePeerAccess(DeviceIndex device, DeviceIndex peer) {
  native().enablePeerAccess(device, peer);
  TORCH_CHECK(used(peer).add_peer(device),
              "fragscope: device ",
              static_cast<int>(device),
              " cannot be given access to memory of device ",
              static_cast<int>(peer));
}

// Memory that was mapped page by page is only reached from another device by a copy between peers.
cudaError_t DropinAllocator::memcpyAsync(void* to,
                                         int to_device,
                                         const void* from,
                                         int from_device,
                                         size_t size,
                                         cudaStream_t stream,
                                         bool is_peer_enabled) {
  const auto is_plain = [this](int device) {
    return !used(static_cast<DeviceIndex>(device)).has_expandable_segments();
  };
  if (is_peer_enabled || to_device == from_device ||
      (is_plain(to_device) && is_plain(from_device))) {
    return cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream);
  }
  return cudaMemcpyPeerAsync(to, to_device, from, from_device, size, stream);
}

void DropinAllocator::empty_cache(MempoolId_t pool) {
  for (DeviceIndex ordinal = 0; ordinal < device_count_; ++ordinal) {
    engine::Device* device = opened(ordinal);
    if (device == nullptr) {
      // It has no pool that could be waited for, but whoever waits for all waits.
      if (pool == MempoolId_t{0, 0}) ++early_syncs_[static_cast<std::size_t>(ordinal)];
      continue;
    }
    const ContextScope context(history(ordinal).gather(RecordContext::ALL));
    device->empty_cache(pool);
  }
}

// --- The way in. ---------------------------------------------------------------------------------

const char* drop_in(const char* library) {
  CUDAAllocator* native = caching::get();
  if (native->initialized()) {
    return "CUDA is in use already: fragscope can only be put in before, or attached";
  }
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return dlerror();
  const auto engine_of_process = std::bit_cast<void* (*)()>(dlsym(handle, "fragscope_engine"));
  if (engine_of_process == nullptr) return "the library has no fragscope_engine";
  void* engine = engine_of_process();
  if (engine == nullptr) return "the library's engine could not be made";
  current = new DropinAllocator(*native, *static_cast<engine::Engine*>(engine));
  become_current(*current);
  return nullptr;
}

}  // namespace fragscope::shim
