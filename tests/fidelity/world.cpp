// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/world.hpp"

#include "allocator/policy/size_rules.hpp"

#include <algorithm>

namespace fragscope::fidelity {

namespace {

constexpr std::size_t kFreedKept = 16;

Operation make(OperationKind kind, std::uint64_t first = 0) {
  Operation operation;
  operation.kind = kind;
  operation.first = first;
  return operation;
}

}  // namespace

std::optional<Step> World::resolve(const Operation& operation) const {
  Step step;
  step.kind = operation.kind;
  step.text = operation.text;
  switch (operation.kind) {
    case OperationKind::kAllocate:
    case OperationKind::kFree:
    case OperationKind::kRecordStream:
    case OperationKind::kDeviceAllocate:
    case OperationKind::kDeviceFree:
      return resolve_tensor(operation, step);
    case OperationKind::kAllocateAt:
      return resolve_address(operation, step);
    case OperationKind::kCreatePool:
    case OperationKind::kBeginPool:
    case OperationKind::kEndPool:
    case OperationKind::kReleasePool:
    case OperationKind::kUseOnOom:
    case OperationKind::kNoSplit:
      return resolve_pool(operation, step);
    case OperationKind::kBeginCapture:
    case OperationKind::kJoinCapture:
    case OperationKind::kCaptureWork:
    case OperationKind::kEndCapture:
      return resolve_capture(operation, step);
    case OperationKind::kHoldStream:
      // What a capture does with held work is CUDA's business, not the allocator's.
      if (!capturing_.empty()) return std::nullopt;
      step.stream = static_cast<unsigned>(operation.first);
      break;
    case OperationKind::kUseStream:
      // Frees that wait for the end of a capture must not be met by a request outside, see above.
      if (has_deferred_ && !is_captured(static_cast<unsigned>(operation.first)))
        return std::nullopt;
      [[fallthrough]];
    case OperationKind::kReleaseStream:
    case OperationKind::kTagStream:
      step.stream = static_cast<unsigned>(operation.first);
      break;
    case OperationKind::kEmptyCache:
      // A pool without users gives pages back even within a capture, see `may_be_current`.
      if (!capturing_.empty() && has_expandable_) return std::nullopt;
      return may_be_current(current_) ? std::optional(step) : std::nullopt;
    case OperationKind::kFailMalloc:
    case OperationKind::kFailCreate:
      if (operation.first == 0) return std::nullopt;
      step.flag = operation.second != 0;
      [[fallthrough]];
    default:
      step.bytes = operation.first;
      break;
  }
  return step;
}

std::optional<Step> World::resolve_tensor(const Operation& operation, Step step) const {
  const bool is_device = operation.kind == OperationKind::kDeviceAllocate ||
                         operation.kind == OperationKind::kDeviceFree;
  const auto& tensors = is_device ? device_memory_ : tensors_;
  const auto tensor = tensors.find(operation.first);
  // No memory can be asked of the runtime while it records a graph.
  if (is_device && !capturing_.empty()) return std::nullopt;
  if (operation.kind == OperationKind::kAllocate ||
      operation.kind == OperationKind::kDeviceAllocate) {
    if (tensor != tensors.end()) return std::nullopt;
    if (!is_device && !may_be_current(operation.third)) return std::nullopt;
    step.bytes = operation.second;
    step.stream = static_cast<unsigned>(operation.third);
    return step;
  }
  if (tensor == tensors.end()) return std::nullopt;
  // Outside the capture PyTorch records an event on the captured stream, and crashes on it later.
  if (operation.kind == OperationKind::kFree && !is_captured(current_) &&
      is_used_in_capture(tensor->second)) {
    return std::nullopt;
  }
  // With reuse PyTorch keeps what captures recorded of blocks that are gone, by their place in host
  // memory; a later block at that place may be taken for one of them.
  if (operation.kind == OperationKind::kFree && has_reuse_ && !capturing_.empty() &&
      tensor->second.is_used_outside) {
    return std::nullopt;
  }
  step.address = tensor->second.address;
  step.bytes = tensor->second.bytes;
  step.stream = static_cast<unsigned>(operation.second);
  return step;
}

std::optional<Step> World::resolve_address(const Operation& operation, Step step) const {
  // With reuse: blocks that come and go, taken for those of a capture, see `resolve_tensor`.
  if (freed_.empty() || has_reuse_ || tensors_.contains(operation.first)) return std::nullopt;
  const Tensor& freed = freed_[operation.second % freed_.size()];
  if (!may_be_current(freed.stream)) return std::nullopt;
  step.address = freed.address;
  step.bytes = operation.third == 0 ? freed.bytes : operation.third;
  step.stream = freed.stream;
  return step;
}

bool World::is_captured(unsigned stream) const {
  return std::ranges::count(capturing_, stream) > 0;
}

bool World::is_used_in_capture(const Tensor& tensor) const {
  return std::ranges::any_of(tensor.used_on, [this](unsigned on) { return is_captured(on); });
}

// PyTorch counts what a pool holds of expandable segments wrongly, and may destroy a pool without
// users while blocks of it live.
bool World::may_lose_pool() const {
  if (!has_expandable_) return true;
  return !has_pending_of_pool_ && std::ranges::none_of(tensors_, [](const auto& tensor) {
    return tensor.second.is_of_pool;
  });
}

// Outside a capture that is underway, PyTorch must not meet frees that wait for its end, nor give
// pages back, which waits for streams that are captured: both end in errors of CUDA.
bool World::may_be_current(std::uint64_t stream) const {
  if (capturing_.empty() || is_captured(static_cast<unsigned>(stream))) return true;
  return !has_deferred_ && !has_expandable_;
}

World::Pool World::pool_at(std::uint64_t number) const {
  const auto pool = pools_.find(number);
  if (pool != pools_.end()) return pool->second;
  Pool made;
  made.key = {0, pools_made_ + 1};
  return made;
}

std::optional<Step> World::resolve_pool(const Operation& operation, Step step) const {
  const Pool pool = pool_at(operation.first);
  step.pool = pool.key;
  step.flag = operation.second != 0;
  switch (operation.kind) {
    case OperationKind::kBeginPool:
      if (pool.is_open || pool.is_lending || (has_reuse_ && !capturing_.empty())) {
        return std::nullopt;
      }
      step.stream = operation.second == kAnyStream ? ~0U : static_cast<unsigned>(operation.second);
      return step;
    case OperationKind::kEndPool:
      if (!pool.is_open ||
          (!capturing_.empty() && (has_reuse_ || capture_pool_ == operation.first))) {
        return std::nullopt;
      }
      return step;
    case OperationKind::kReleasePool:
      // A MemPool that ends stops lending first: PyTorch asserts that a lender has users.
      if (pool.users == 0 ||
          (pool.users == 1 && (pool.is_open || pool.is_lending || !may_lose_pool()))) {
        return std::nullopt;
      }
      return step;
    case OperationKind::kCreatePool:
      // An allocator can be given to a new pool only.
      return step.flag && pool.users > 0 ? std::nullopt : std::optional(step);
    case OperationKind::kUseOnOom:
      // Where somebody else's request would borrow from a pool in use, PyTorch raises a
      // RuntimeError
      // ("already recording to mempool_id"). Our policy lends.
      // Which of several lenders is asked first is a matter of PyTorch's hash table.
      if (step.flag && std::ranges::any_of(pools_, [&](const auto& other) {
            return other.first != operation.first && other.second.is_lending;
          })) {
        return std::nullopt;
      }
      return pool.users > 0 && !pool.is_open ? std::optional(step) : std::nullopt;
    default:
      return pool.users > 0 ? std::optional(step) : std::nullopt;
  }
}

std::optional<Step> World::resolve_capture(const Operation& operation, Step step) const {
  if (operation.kind == OperationKind::kBeginCapture) {
    const Pool pool = pool_at(operation.first);
    // PyTorch compares nodes of the last graph, which is gone, with those of the next.
    if (has_reuse_ && has_deferred_) return std::nullopt;
    if (!capturing_.empty() || !held_.empty() || pool.is_open || pool.is_lending ||
        operation.second == 0) {
      return std::nullopt;
    }
    step.pool = pool.key;
    step.stream = static_cast<unsigned>(operation.second);
    return step;
  }
  if (capturing_.empty()) return std::nullopt;
  if (operation.kind == OperationKind::kEndCapture) return step;
  if (operation.kind == OperationKind::kCaptureWork) {
    step.stream = static_cast<unsigned>(operation.first);
    return is_captured(step.stream) ? std::optional(step) : std::nullopt;
  }
  if (!is_captured(static_cast<unsigned>(operation.first)) || operation.second == 0 ||
      operation.first == operation.second) {
    return std::nullopt;
  }
  step.stream = static_cast<unsigned>(operation.first);
  step.other_stream = static_cast<unsigned>(operation.second);
  return step;
}

void World::note(const Operation& operation, const Step& step, std::uint64_t address) {
  if (operation.kind >= OperationKind::kCreatePool &&
      operation.kind <= OperationKind::kEndCapture) {
    return note_pool(operation, step);
  }
  const std::uint64_t number = operation.first;
  switch (operation.kind) {
    case OperationKind::kAllocate:
    case OperationKind::kAllocateAt:
      current_ = step.stream;
      // What is refused at once meets no frees.
      if (capturing_.empty() && step.bytes > 0 && step.bytes < policy::kTooLarge) {
        has_deferred_ = false;
      }
      if (address != 0) {
        tensors_[number] = {address, step.bytes, {}, false, !open_.empty(), step.stream};
      }
      break;
    case OperationKind::kRecordStream:
      tensors_[number].used_on.push_back(step.stream);
      if (!is_captured(current_)) tensors_[number].is_used_outside = true;
      break;
    case OperationKind::kUseStream:
      current_ = step.stream;
      break;
    case OperationKind::kFree:
      // Any of its streams may join the capture yet.
      if (!capturing_.empty() && !tensors_[number].used_on.empty()) has_deferred_ = true;
      if (tensors_[number].is_of_pool && !tensors_[number].used_on.empty()) {
        has_pending_of_pool_ = true;
      }
      if (freed_.size() == kFreedKept) freed_.erase(freed_.begin());
      freed_.push_back(tensors_[number]);
      tensors_.erase(number);
      break;
    case OperationKind::kDeviceAllocate:
      if (address != 0) device_memory_[number] = {address, step.bytes, {}, false, false, 0};
      break;
    case OperationKind::kDeviceFree:
      device_memory_.erase(number);
      break;
    case OperationKind::kEmptyCache:
      if (capturing_.empty()) has_deferred_ = false;
      if (capturing_.empty() && open_.empty()) has_pending_of_pool_ = false;  // It waits for all.
      break;
    case OperationKind::kApplyConf:
      if (operation.text.find("expandable_segments:True") != std::string::npos) {
        has_expandable_ = true;
      }
      if (operation.text.find("record_stream_reuse:True") != std::string::npos) has_reuse_ = true;
      break;
    case OperationKind::kHoldStream:
      held_.insert(step.stream);
      break;
    case OperationKind::kReleaseStream:
      held_.erase(step.stream);
      break;
    case OperationKind::kTagStream:
      tagged_.insert(step.stream);
      break;
    default:
      break;
  }
}

void World::note_pool(const Operation& operation, const Step& step) {
  const std::uint64_t number = operation.first;
  switch (operation.kind) {
    case OperationKind::kCreatePool:
    case OperationKind::kBeginPool:
    case OperationKind::kBeginCapture: {
      Pool pool = pool_at(number);
      if (pool.users == 0) ++pools_made_;
      ++pool.users;
      if (operation.kind != OperationKind::kCreatePool) {
        pool.is_open = true;
        open_.push_back(number);
      }
      if (operation.kind == OperationKind::kBeginCapture) {
        capturing_ = {step.stream};
        capture_pool_ = number;
      }
      pools_[number] = pool;
      break;
    }
    case OperationKind::kEndCapture:
      capturing_.clear();
      pools_[capture_pool_].is_open = false;
      std::erase(open_, capture_pool_);
      break;
    case OperationKind::kEndPool:
      pools_[number].is_open = false;
      std::erase(open_, number);
      break;
    case OperationKind::kUseOnOom:
      pools_[number].is_lending = step.flag;
      break;
    case OperationKind::kReleasePool:
      if (--pools_[number].users == 0) pools_.erase(number);
      break;
    case OperationKind::kJoinCapture:
      if (!is_captured(step.other_stream)) capturing_.push_back(step.other_stream);
      break;
    default:
      break;
  }
}

Program World::closing_steps() const {
  Program steps{make(OperationKind::kClearFaults)};
  if (!capturing_.empty()) steps.push_back(make(OperationKind::kEndCapture));
  for (const auto pool : open_)
    steps.push_back(make(OperationKind::kEndPool, pool));
  for (const unsigned stream : held_)
    steps.push_back(make(OperationKind::kReleaseStream, stream));
  for (const unsigned stream : tagged_)
    steps.push_back(make(OperationKind::kTagStream, stream));
  for (const auto& [slot, tensor] : tensors_)
    steps.push_back(make(OperationKind::kFree, slot));
  steps.push_back(make(OperationKind::kEmptyCache));
  for (const auto& [slot, memory] : device_memory_)
    steps.push_back(make(OperationKind::kDeviceFree, slot));
  for (const auto& [number, pool] : pools_) {
    if (pool.is_lending) steps.push_back(make(OperationKind::kUseOnOom, number));
    steps.insert(steps.end(), pool.users, make(OperationKind::kReleasePool, number));
  }
  steps.push_back(make(OperationKind::kSetNeighbour));
  steps.push_back(make(OperationKind::kEmptyCache));
  return steps;
}

}  // namespace fragscope::fidelity
