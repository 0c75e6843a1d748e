// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/replay.hpp"

#include <absl/container/flat_hash_set.h>

#include <utility>

namespace fragscope::whatif {

policy::EventId ProgramStreams::record(policy::StreamId id) {
  Stream& stream = streams_[id];
  const policy::EventId event = events_.size();
  events_.push_back({&stream, ++stream.recorded});
  events_of_slot_[current_].push_back(event);
  return event;
}

void ProgramStreams::complete(std::uint32_t slot) {
  const auto events = events_of_slot_.find(slot);
  if (events == events_of_slot_.end()) return;
  for (const policy::EventId event : events->second)
    events_[event].finish();
  events_of_slot_.erase(events);
}

Replay::Settings Replay::settings_of(const Program& program) {
  return {{program.version, program.conf}, program.limit_bytes, true};
}

Replay::Replay(const Program& program,
               const Settings& settings,
               policy::DeviceMemory& device,
               policy::Observer* observer)
    : program_(program)
    , settings_(settings)
    , policy_(device, streams_, settings.policy)
    , addresses_(program.slot_count, 0)
    , pool_is_known_(program.pools.size(), false) {
  policy_.adopt(program.start);
  begin();
  policy_.set_observer(observer);
}

// What the heap at the beginning holds is handed out already.
void Replay::begin() {
  if (settings_.limit_bytes) policy_.set_limit(settings_.limit_bytes);
  std::size_t next = 0;
  absl::flat_hash_set<policy::PoolId> there;
  for (const policy::ImageSegment& segment : program_.start.segments) {
    for (const policy::ImageBlock& block : segment.blocks) {
      if (block.is_allocated) addresses_[program_.start_slots[next++]] = block.address;
    }
    there.insert(segment.pool);
  }
  for (std::size_t i = 1; i < program_.pools.size(); ++i)
    pool_is_known_[i] = there.contains(program_.pools[i]);
}

void Replay::apply_settings(const std::string& text) {
  policy::PolicyOptions options = policy_.options();
  const auto error = policy::apply_conf(text, options.version, options.conf);
  if (error && problem_.empty()) problem_ = error->message;
  policy_.set_options(options);
}

// Each request goes to the pool that its record names, whatever stream it is on.
void Replay::route_to(std::uint16_t pool) {
  if (pool == routed_to_) return;
  if (routed_to_ != 0) {
    static_cast<void>(policy_.end_allocate_to_pool(program_.pools[routed_to_]));
    static_cast<void>(policy_.release_pool(program_.pools[routed_to_]));
  }
  routed_to_ = pool;
  if (pool == 0) return;
  if (!pool_is_known_[pool]) policy_.create_pool(program_.pools[pool]);
  pool_is_known_[pool] = true;
  static_cast<void>(
      policy_.begin_allocate_to_pool(program_.pools[pool], [](policy::StreamId) { return true; }));
}

// Up to 2.9 a free within the scope of a pool counts as one within a capture. A recording does not
// show where scopes end: they are taken to be as short as can be.
void Replay::leave_pool() {
  if (settings_.policy.version == policy::TorchVersion::kTorch26) route_to(0);
}

policy::Address Replay::allocate(const Op& op) {
  route_to(op.pool);
  if (op.in_capture) capture(true);
  const policy::Block* block = policy_.allocate(op.bytes, program_.streams[op.stream]);
  if (op.in_capture) capture(false);
  const policy::Address address = block == nullptr ? 0 : block->address;
  if (!op.failed) {
    addresses_[op.slot] = address;
  } else if (address != 0) {
    static_cast<void>(
        policy_.free(address));  // What the program would have done with it is not known.
  }
  return address;
}

void Replay::free(const Op& op) {
  streams_.use(op.slot);
  const policy::Address address = std::exchange(addresses_[op.slot], 0);
  if (address != 0) static_cast<void>(policy_.free(address));
}

policy::Address Replay::run(const Op& op) {
  switch (op.kind) {
    case OpKind::kAllocate:
      return allocate(op);
    case OpKind::kFree:
      leave_pool();
      free(op);
      break;
    case OpKind::kRecordStream:
      leave_pool();
      if (policy::Block* block = policy_.find(addresses_[op.slot])) {
        policy_.record_stream(*block, program_.streams[op.stream]);
      }
      break;
    case OpKind::kComplete:
      streams_.complete(op.slot);
      break;
    case OpKind::kEmptyCache:
      route_to(0);
      static_cast<void>(policy_.empty_cache(program_.pools[op.pool]));
      break;
    case OpKind::kReleasePool:
      route_to(0);
      if (pool_is_known_[op.pool]) {
        static_cast<void>(policy_.release_pool(program_.pools[op.pool]));
        pool_is_known_[op.pool] = false;
      }
      break;
    case OpKind::kUsePool:
      if (!pool_is_known_[op.pool]) policy_.create_pool(program_.pools[op.pool]);
      pool_is_known_[op.pool] = true;
      break;
    case OpKind::kLimit:
      if (!settings_.follows_program) break;
      policy_.set_limit(op.bytes == policy::kUnlimited ? std::nullopt : std::optional(op.bytes));
      break;
    case OpKind::kSettings:
      if (settings_.follows_program) apply_settings(program_.texts[op.bytes]);
      break;
    case OpKind::kExpandable:
      if (settings_.follows_program) set_expandable(op.bytes != 0);
      break;
    case OpKind::kCapture:
      capture(op.bytes != 0);
      break;
    case OpKind::kRelease:
    case OpKind::kMark:
      break;
  }
  return 0;
}

void Replay::set_expandable(bool is_expandable) {
  policy::PolicyOptions options = policy_.options();
  options.conf.rules.expandable_segments = is_expandable;
  policy_.set_options(options);
}

void Replay::capture(bool begins) {
  streams_.capture(begins);
  if (begins) {
    policy_.begin_capture();
  } else {
    static_cast<void>(policy_.end_capture());
  }
}

bool Replay::could_serve(const Op& op) {
  route_to(op.pool);
  return policy_.could_serve(op.bytes, program_.streams[op.stream]);
}

}  // namespace fragscope::whatif
