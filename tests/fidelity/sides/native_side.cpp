// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/sides/native_side.hpp"

#include <string_view>

namespace fragscope::fidelity {
Outcome NativeSide::run(const Step& step) {
  Outcome outcome;
  bool is_done = true;
  if (step.kind == OperationKind::kAllocate) {
    outcome.address = allocator_.allocate(step.bytes, step.stream);
    is_done = outcome.address != 0 || step.bytes == 0;
  } else if (step.kind == OperationKind::kAllocateAt) {
    outcome.address = allocator_.allocate_at(step.bytes, step.stream, step.address);
    is_done = outcome.address != 0;
  } else if (step.kind >= OperationKind::kSetNeighbour) {
    run_on_device(step, outcome);
  } else if (step.kind >= OperationKind::kCreatePool) {
    is_done = run_on_pool(step);
  } else {
    is_done = run_on_allocator(step);
  }
  if (!is_done) {
    outcome.error_type = allocator_.error_type();
    outcome.error_text = allocator_.error_text();
    // Behind this stands where in PyTorch's source it happened.
    constexpr std::string_view kAssert = "INTERNAL ASSERT FAILED";
    const auto found = outcome.error_text.find(kAssert);
    if (found != std::string::npos) outcome.error_text.resize(found + kAssert.size());
  }
  return outcome;
}

bool NativeSide::run_on_allocator(const Step& step) {
  switch (step.kind) {
    case OperationKind::kFree:
      return allocator_.free(step.address);
    case OperationKind::kRecordStream:
      return allocator_.record_stream(step.address, step.stream);
    case OperationKind::kHoldStream:
      allocator_.hold_stream(step.stream);
      return true;
    case OperationKind::kReleaseStream:
      allocator_.release_stream(step.stream);
      return true;
    case OperationKind::kEmptyCache:
      return allocator_.empty_cache();
    case OperationKind::kUseStream:
      allocator_.use_stream(step.stream);
      return true;
    case OperationKind::kSetFraction:
      return allocator_.set_fraction(static_cast<double>(step.bytes) / 1e6);
    case OperationKind::kApplyConf:
      return allocator_.apply_conf(step.text.c_str());
    case OperationKind::kResetPeaks:
      allocator_.reset_peaks();
      return true;
    case OperationKind::kResetAccumulated:
      allocator_.reset_accumulated();
      return true;
    default:
      return false;
  }
}

bool NativeSide::run_on_pool(const Step& step) {
  switch (step.kind) {
    case OperationKind::kCreatePool:
      return allocator_.create_pool(step.pool,
                                    step.flag ? PoolSource::kCustomAllocator : PoolSource::kDevice);
    case OperationKind::kBeginPool:
      return allocator_.begin_pool(step.pool, step.stream);
    case OperationKind::kEndPool:
      return allocator_.end_pool(step.pool);
    case OperationKind::kReleasePool:
      return allocator_.release_pool(step.pool);
    case OperationKind::kUseOnOom:
      return allocator_.set_use_on_oom(step.pool, step.flag);
    case OperationKind::kNoSplit:
      return allocator_.set_no_split(step.pool);
    case OperationKind::kBeginCapture:
      return allocator_.begin_capture(step.pool, step.stream);
    case OperationKind::kJoinCapture:
      return allocator_.join_capture(step.stream, step.other_stream);
    case OperationKind::kCaptureWork:
      return allocator_.capture_work(step.stream);
    case OperationKind::kEndCapture:
      return allocator_.end_capture();
    default:
      return false;
  }
}

void NativeSide::run_on_device(const Step& step, Outcome& outcome) {
  switch (step.kind) {
    case OperationKind::kSetNeighbour:
      allocator_.set_neighbour(step.bytes);
      break;
    case OperationKind::kFailMalloc:
      allocator_.fail("malloc", step.bytes, step.flag);
      break;
    case OperationKind::kFailCreate:
      allocator_.fail("create", step.bytes, step.flag);
      break;
    case OperationKind::kClearFaults:
      allocator_.clear_faults();
      break;
    case OperationKind::kDeviceAllocate:
      outcome.address = allocator_.device_allocate(step.bytes);
      break;
    case OperationKind::kDeviceFree:
      allocator_.device_free(step.address);
      break;
    case OperationKind::kTagStream:
      allocator_.tag_stream(step.stream, step.text.c_str());
      break;
    default:
      break;
  }
}

void NativeSide::observe(Observation& observation) {
  const auto events = allocator_.take_events();
  observation.events.assign(events.begin(), events.end());
  const StatisticsState statistics = allocator_.statistics();
  observation.statistics.assign(statistics.values.begin(), statistics.values.end());
  observation.by_pool.assign(statistics.by_pool.begin(), statistics.by_pool.end());
  // PyTorch remembers a pool that is gone even after its counters were reset.
  std::erase_if(observation.by_pool,
                [](const PoolReserved& pool) { return pool == PoolReserved{.pool = pool.pool}; });
  const HeapState heap = allocator_.snapshot();
  observation.segments.assign(heap.segments.begin(), heap.segments.end());
  observation.blocks.assign(heap.blocks.begin(), heap.blocks.end());
}

}  // namespace fragscope::fidelity
