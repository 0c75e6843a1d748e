// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/sides/policy_side.hpp"

#include "allocator/policy/inspect/heap_check.hpp"
#include "allocator/policy/inspect/out_of_memory_message.hpp"
#include "allocator/policy/inspect/snapshot.hpp"
#include "trace/check.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fragscope::fidelity {
namespace {

policy::PoolId id_of(PoolKey pool) {
  return {pool.first, pool.second};
}
PoolKey key_of(policy::PoolId pool) {
  return {pool.first, pool.second};
}

void append(const policy::Counter& counter, std::vector<std::int64_t>& values) {
  values.insert(values.end(), {counter.current, counter.peak, counter.allocated, counter.freed});
}
void append(const policy::ClassCounters& counters, std::vector<std::int64_t>& values) {
  append(counters.all, values);
  for (const policy::Counter& counter : counters.by_class)
    append(counter, values);
}

}  // namespace

PolicySide::PolicySide(const DeviceFacts& facts)
    : facts_(facts)
    , device_(facts.total_bytes, policy::Address{1} << 45, &streams_)
    , tracer_(facts.version != policy::TorchVersion::kTorch26)
    , policy_(device_, streams_, policy::PolicyOptions{facts.version, {}}, &tracer_) {
  device_.set_outside_bytes(facts.context_bytes);
}

// --- Steps. --------------------------------------------------------------------------------------

Outcome PolicySide::run(const Step& step) {
  Outcome outcome;
  if (step.kind == OperationKind::kAllocate) {
    outcome = allocate(step);
  } else if (step.kind == OperationKind::kAllocateAt) {
    outcome = allocate_at(step);
  } else if (step.kind >= OperationKind::kSetNeighbour) {
    run_on_device(step, outcome);
  } else if (step.kind >= OperationKind::kCreatePool) {
    run_on_pool(step);
  } else {
    outcome = run_on_allocator(step);
  }
  return outcome;
}

Outcome PolicySide::allocate(const Step& step) {
  Outcome outcome;
  streams_.use(handle(step.stream));
  if (step.bytes == 0) return outcome;
  const policy::Block* block = policy_.allocate(step.bytes, handle(step.stream));
  if (block != nullptr) {
    outcome.address = block->address;
  } else {
    outcome.error_type = "OutOfMemoryError";
    outcome.error_text =
        policy::out_of_memory_message(policy_.failure(), policy_.options(), 0, processes());
  }
  return outcome;
}

Outcome PolicySide::allocate_at(const Step& step) {
  streams_.use(handle(step.stream));
  const policy::Block* block = policy_.allocate_at(step.bytes, handle(step.stream), step.address);
  Outcome outcome;
  if (block != nullptr) {
    outcome.address = block->address;
  } else {
    outcome.error_type = "RuntimeError";
    outcome.error_text =
        fmt::format("Could not allocate CUDA storage at exact address {:#x}", step.address);
  }
  return outcome;
}

// As virtual CUDA's NVML shows them: this process, and one that stands for all others.
std::vector<policy::ProcessMemory> PolicySide::processes() const {
  std::vector<policy::ProcessMemory> found;
  found.push_back({.bytes = facts_.context_bytes + device_.used_bytes(), .is_this = true});
  if (neighbour_bytes_ > 0) found.push_back({.pid = 4194304, .bytes = neighbour_bytes_});
  return found;
}

Outcome PolicySide::apply_conf(const std::string& text) {
  policy::PolicyOptions options = policy_.options();
  const auto error = policy::apply_conf(text, options.version, options.conf);
  policy_.set_options(options);
  if (!error) return {};
  return {.error_type = std::string(policy::python_exception(error->kind, options.version)),
          .error_text = error->message};
}

Outcome PolicySide::run_on_allocator(const Step& step) {
  switch (step.kind) {
    case OperationKind::kFree:
      FRAGSCOPE_CHECK(policy_.free(step.address));
      break;
    case OperationKind::kRecordStream:
      policy_.record_stream(*policy_.find(step.address), handle(step.stream));
      break;
    case OperationKind::kHoldStream:
      streams_.hold(handle(step.stream));
      break;
    case OperationKind::kReleaseStream:
      streams_.release(handle(step.stream));
      break;
    case OperationKind::kEmptyCache:
      if (policy_.empty_cache()) break;
      return {.error_type = "RuntimeError",
              .error_text = "captures_underway.empty() INTERNAL ASSERT FAILED"};
    case OperationKind::kUseStream:
      streams_.use(handle(step.stream));
      break;
    case OperationKind::kSetFraction:
      policy_.set_memory_fraction(static_cast<double>(step.bytes) / 1e6);
      break;
    case OperationKind::kApplyConf:
      return apply_conf(step.text);
    case OperationKind::kResetPeaks:
      policy_.statistics().reset_peaks();
      break;
    case OperationKind::kResetAccumulated:
      policy_.statistics().reset_accumulated();
      break;
    default:
      break;
  }
  return {};
}

void PolicySide::run_on_pool(const Step& step) {
  const policy::PoolId id = id_of(step.pool);
  switch (step.kind) {
    case OperationKind::kCreatePool:
      policy_.create_pool(id,
                          {std::shared_ptr<void>(), step.flag ? &device_ : nullptr});  // not owned
      break;
    case OperationKind::kBeginPool: {
      const bool any = step.stream == ~0U;
      const policy::StreamId only = any ? 0 : handle(step.stream);
      policy_.begin_allocate_to_pool(
          id, [any, only](policy::StreamId asking) { return any || asking == only; });
      break;
    }
    case OperationKind::kEndPool:
      policy_.end_allocate_to_pool(id);
      break;
    case OperationKind::kReleasePool:
      policy_.release_pool(id);
      break;
    case OperationKind::kUseOnOom:
      policy_.set_use_on_oom(id, step.flag);
      break;
    case OperationKind::kNoSplit:
      policy_.set_no_split(id, true);
      break;
    case OperationKind::kBeginCapture:
      streams_.capture(handle(step.stream));
      capture_pool_ = step.pool;
      policy_.begin_allocate_to_pool(
          id, [this](policy::StreamId asking) { return streams_.is_captured(asking); });
      policy_.begin_capture();
      break;
    case OperationKind::kJoinCapture:
      streams_.join_capture(handle(step.stream), handle(step.other_stream));
      break;
    case OperationKind::kCaptureWork:
      streams_.capture_work(handle(step.stream));
      break;
    case OperationKind::kEndCapture:
      policy_.end_allocate_to_pool(id_of(capture_pool_));
      policy_.end_capture();
      streams_.end_capture();
      break;
    default:
      break;
  }
}

void PolicySide::run_on_device(const Step& step, Outcome& outcome) {
  switch (step.kind) {
    case OperationKind::kTagStream:
      policy_.set_reserve_class(handle(step.stream), step.text);
      break;
    case OperationKind::kSetNeighbour:
      neighbour_bytes_ = step.bytes;
      device_.set_outside_bytes(facts_.context_bytes + step.bytes);
      break;
    case OperationKind::kFailMalloc:
      device_.fail(policy::SimulatedDevice::Fault::kAllocate, step.bytes, step.flag);
      break;
    case OperationKind::kFailCreate:
      device_.fail(policy::SimulatedDevice::Fault::kPage, step.bytes, step.flag);
      break;
    case OperationKind::kClearFaults:
      device_.clear_faults();
      break;
    case OperationKind::kDeviceAllocate:
      outcome.address = device_.allocate(step.bytes).value_or(0);
      break;
    case OperationKind::kDeviceFree:
      device_.free(step.address, step.bytes);
      break;
    default:
      break;
  }
}

// --- What it shows. ------------------------------------------------------------------------------

void PolicySide::observe(Observation& observation) {
  observation.events.swap(tracer_.events);
  tracer_.events.clear();

  const policy::Statistics& statistics = policy_.statistics();
  auto& values = observation.statistics;
  values.clear();
  for (const auto* counters : {&statistics.allocation,
                               &statistics.allocated_bytes,
                               &statistics.active,
                               &statistics.active_bytes,
                               &statistics.requested_bytes,
                               &statistics.segment,
                               &statistics.reserved_bytes,
                               &statistics.inactive_split,
                               &statistics.inactive_split_bytes}) {
    append(*counters, values);
  }
  observation.by_pool.clear();
  for (const auto& [id, counters] : statistics.reserved_bytes_by_pool) {
    if (facts_.version == policy::TorchVersion::kTorch26) break;  // It does not count these.
    std::vector<std::int64_t> reserved;
    append(counters, reserved);
    PoolReserved pool{.pool = key_of(id)};
    std::ranges::copy(reserved, std::begin(pool.counters));
    if (pool != PoolReserved{.pool = pool.pool}) observation.by_pool.push_back(pool);
  }
  append(statistics.oversize_allocations, values);
  append(statistics.oversize_segments, values);
  values.insert(values.end(),
                {statistics.num_alloc_retries,
                 statistics.num_ooms,
                 statistics.num_sync_all_streams,
                 statistics.num_device_alloc,
                 statistics.num_device_free,
                 statistics.num_oom_rejections});

  observation.segments.clear();
  observation.blocks.clear();
  for (const policy::SegmentSnapshot& segment : policy::snapshot(policy_)) {
    SegmentState& state = observation.segments.emplace_back();
    state.address = segment.address;
    state.total_size = segment.total_size;
    state.requested_size = segment.requested_size;
    state.allocated_size = segment.allocated_size;
    state.active_size = segment.active_size;
    state.stream = segment.stream;
    state.pool = key_of(segment.pool);
    state.is_large = segment.size_class == policy::SizeClass::kLarge;
    state.is_expandable = segment.is_expandable;
    state.first_block = static_cast<std::uint32_t>(observation.blocks.size());
    state.block_count = static_cast<std::uint32_t>(segment.blocks.size());
    for (const policy::BlockSnapshot& block : segment.blocks) {
      observation.blocks.push_back(
          {block.size, block.requested_size, block.is_allocated, block.is_active});
    }
  }
  FRAGSCOPE_CHECK(policy::broken_invariant(policy_).empty());
}

// --- The trace. ----------------------------------------------------------------------------------

void PolicySide::Tracer::add(Action action,
                             const policy::Block& block,
                             std::uint64_t start,
                             std::uint64_t size) {
  const policy::PrivatePool* owner = block.pool->owner();
  TraceEvent& event = events.emplace_back();
  event.action = action;
  event.address = start;
  event.size = size;
  event.stream = block.stream;
  if (has_pools_ && owner != nullptr) event.pool = key_of(owner->id);
}

void PolicySide::Tracer::on_alloc(const policy::Block& block) {
  add(Action::kAlloc, block, block.address, block.requested_size);
}
void PolicySide::Tracer::on_free_requested(const policy::Block& block) {
  add(Action::kFreeRequested, block, block.address, block.requested_size);
}
void PolicySide::Tracer::on_free_completed(const policy::Block& block) {
  add(Action::kFreeCompleted, block, block.address, block.requested_size);
}
void PolicySide::Tracer::on_segment_alloc(const policy::Block& block) {
  add(Action::kSegmentAlloc, block, block.address, block.size);
}
void PolicySide::Tracer::on_segment_free(const policy::Block& block) {
  add(Action::kSegmentFree, block, block.address, block.size);
}
void PolicySide::Tracer::on_segment_map(const policy::Block& block,
                                        policy::Address start,
                                        std::uint64_t size) {
  add(Action::kSegmentMap, block, start, size);
}
void PolicySide::Tracer::on_segment_unmap(const policy::Block& block,
                                          policy::Address start,
                                          std::uint64_t size) {
  add(Action::kSegmentUnmap, block, start, size);
}
void PolicySide::Tracer::on_out_of_memory(const policy::AllocationFailure& failure,
                                          policy::StreamId stream,
                                          policy::PoolId pool) {
  TraceEvent& event = events.emplace_back();
  event.action = Action::kOutOfMemory;
  event.address = failure.capacity.free_bytes;
  event.size = failure.rounded_size;
  event.stream = stream;
  if (has_pools_) event.pool = key_of(pool);
}

}  // namespace fragscope::fidelity
