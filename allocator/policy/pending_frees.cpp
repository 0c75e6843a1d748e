// SPDX-License-Identifier: Apache-2.0
// Blocks that other streams used: their free waits for events, or for the end of a capture.
#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/inspect/rules.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace fragscope::policy {

void CachingPolicy::record_stream(Block& block, StreamId stream) {
  if (stream == block.stream) {
    count_rule(Rule::kOwnStreamUse);
    return;
  }
  const auto add = [stream](std::vector<StreamId>& streams) {
    if (std::ranges::count(streams, stream) == 0) streams.push_back(stream);
  };
  add(block.used_on);
  if (observer_ != nullptr) observer_->on_record_stream(block, stream);
  if (is_capturing()) add(used_in_capture_[&block]);
}

void CachingPolicy::insert_events(Block& block) {
  for (const StreamId stream : block.used_on) {
    ++block.open_events;
    pending_[stream].push_back({events_.record(stream), &block});
  }
  block.used_on.clear();
}

bool CachingPolicy::is_capturing() const {
  if (options_.version == TorchVersion::kTorch26) return captures_ > 0 || !scopes_.empty();
  return captures_ > 0 && events_.is_capturing();
}

void CachingPolicy::complete_frees(StreamId stream) {
  if (!is_capturing()) return process_events();
  count_rule(Rule::kAsksNothingInCapture);
  if (options_.conf.graph_capture_record_stream_reuse && !deferred_.empty()) free_deferred(stream);
}

void CachingPolicy::process_events() {
  count_rule(Rule::kAsksForEvents);
  if (!deferred_.empty()) insert_deferred_events();
  for (auto queue = pending_.begin(); queue != pending_.end();) {
    auto& events = queue->second;
    while (!events.empty() && events_.is_done(events.front().event)) {
      count_rule(Rule::kEventDone);
      Block& block = *events.front().block;
      events.pop_front();
      if (--block.open_events == 0) complete_free(block);
    }
    if (!events.empty()) count_rule(Rule::kEventOpen);
    queue = events.empty() ? pending_.erase(queue) : std::next(queue);
  }
}

bool CachingPolicy::end_capture() {
  if (captures_ == 0) return false;
  --captures_;
  return true;
}

void CachingPolicy::defer_free(Block& block) {
  deferred_.push_back({&block, {}});
  if (!options_.conf.graph_capture_record_stream_reuse) return;
  std::vector<CaptureNode> last_uses;
  const auto add = [&](StreamId stream) {
    const auto ends = events_.capture_ends(stream);
    if (ends) last_uses.insert(last_uses.end(), ends->begin(), ends->end());
    return ends.has_value();
  };
  if (add(block.stream) && std::ranges::all_of(block.used_on, add)) {
    deferred_.back().last_uses = std::move(last_uses);
  }
}

// What is captured on the stream from now on runs after all uses of such a block.
void CachingPolicy::free_deferred(StreamId stream) {
  std::erase_if(deferred_, [&](const DeferredFree& deferred) {
    Block& block = *deferred.block;
    if (block.stream != stream || deferred.last_uses.empty() ||
        !events_.precede(deferred.last_uses, stream)) {
      return false;
    }
    count_rule(Rule::kReuseInCapture);
    block.used_on.clear();
    complete_free(block);
    return true;
  });
}

void CachingPolicy::insert_deferred_events() {
  for (const DeferredFree& deferred : std::exchange(deferred_, {}))
    end_deferral(*deferred.block);
}

void CachingPolicy::end_deferral(Block& block) {
  // What a capture recorded was over when the capture was: nothing waits for it.
  if (const auto used = used_in_capture_.find(&block); used != used_in_capture_.end()) {
    std::erase_if(block.used_on,
                  [&](StreamId stream) { return std::ranges::count(used->second, stream) > 0; });
    used_in_capture_.erase(used);
    count_rule(Rule::kForgetsCaptureUse);
  }
  insert_events(block);
  if (block.open_events == 0) complete_free(block);
}

}  // namespace fragscope::policy
