// SPDX-License-Identifier: Apache-2.0
#include "allocator/driver/driver_events.hpp"

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace fragscope::driver {
namespace {

constexpr std::int32_t kCaptureActive = 1;  // CU_STREAM_CAPTURE_STATUS_ACTIVE
constexpr unsigned kDisableTiming = 2;      // CU_EVENT_DISABLE_TIMING

StreamHandle handle_of(policy::StreamId stream) {
  return std::bit_cast<StreamHandle>(stream);
}
EventHandle event_of(policy::EventId event) {
  return std::bit_cast<EventHandle>(event);
}

/// What the node depends on directly; none: the driver does not say.
std::optional<std::vector<NodeHandle>> inputs_of(const Api& api, NodeHandle node) {
  std::size_t count = 0;
  if (api.graph_node_get_dependencies(node, nullptr, &count) != kSuccess) return std::nullopt;
  std::vector<NodeHandle> inputs(count);
  if (count != 0 && api.graph_node_get_dependencies(node, inputs.data(), &count) != kSuccess) {
    return std::nullopt;
  }
  inputs.resize(std::min(count, inputs.size()));
  return inputs;
}

}  // namespace

DriverEvents::DriverEvents(const Api& api, const Device& device)
    : api_(api)
    , device_(device) {}

// An event that cannot be had is 0, and done at once only after all work of the device is.
policy::EventId DriverEvents::record(policy::StreamId stream) {
  const CurrentContext current(api_, device_.context);
  EventHandle event = nullptr;
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else if (api_.event_create(&event, kDisableTiming) != kSuccess) {
    event = nullptr;
  }
  if (event != nullptr && api_.event_record(event, handle_of(stream)) == kSuccess) {
    return std::bit_cast<policy::EventId>(event);
  }
  static_cast<void>(api_.ctx_synchronize());
  if (event != nullptr) spare_.push_back(event);
  return 0;
}

bool DriverEvents::is_done(policy::EventId event) {
  if (event == 0) return true;
  const CurrentContext current(api_, device_.context);
  // Any other answer means that the context is broken: nothing will ever run on it again.
  if (api_.event_query(event_of(event)) == kNotReady) return false;
  spare_.push_back(event_of(event));
  return true;
}

void DriverEvents::wait(policy::EventId event) {
  if (event == 0) return;
  const CurrentContext current(api_, device_.context);
  static_cast<void>(api_.event_synchronize(event_of(event)));
  spare_.push_back(event_of(event));
}

bool DriverEvents::is_capturing() const {
  std::int32_t status = 0;
  const CurrentContext current(api_, device_.context);
  return api_.stream_is_capturing(handle_of(current_), &status) == kSuccess && status != 0;
}

std::optional<std::vector<policy::CaptureNode>> DriverEvents::capture_ends(
    policy::StreamId stream) const {
  const CurrentContext current(api_, device_.context);
  std::int32_t status = 0;
  unsigned long long id = 0;
  const NodeHandle* nodes = nullptr;
  std::size_t count = 0;
  const Status answer =
      api_.stream_get_capture_info(handle_of(stream), &status, &id, nullptr, &nodes, &count);
  if (answer != kSuccess || status != kCaptureActive) return std::nullopt;
  std::vector<policy::CaptureNode> ends;
  ends.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    ends.push_back(std::bit_cast<policy::CaptureNode>(nodes[i]));
  return ends;
}

// Walks against the edges from what the stream depends on now.
bool DriverEvents::precede(const std::vector<policy::CaptureNode>& nodes,
                           policy::StreamId stream) const {
  const auto ends = capture_ends(stream);
  if (!ends) return false;
  const CurrentContext current(api_, device_.context);
  std::unordered_set<policy::CaptureNode> wanted(nodes.begin(), nodes.end());
  std::unordered_set<policy::CaptureNode> seen;
  std::vector<policy::CaptureNode> open = *ends;
  while (!open.empty() && !wanted.empty()) {
    const policy::CaptureNode node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    wanted.erase(node);
    const auto inputs = inputs_of(api_, std::bit_cast<NodeHandle>(node));
    if (!inputs) return false;
    for (const NodeHandle input : *inputs)
      open.push_back(std::bit_cast<policy::CaptureNode>(input));
  }
  return wanted.empty();
}

}  // namespace fragscope::driver
