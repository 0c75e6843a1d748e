// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/trust_signals.hpp"

#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace fragscope::analysis {
namespace {

using model::show_count;

/// "1 block is", "2 blocks are".
std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", show_count(count), count == 1 ? one : many);
}

/// Adds one signal if it counts anything, with the device it belongs to.
class SignalList {
 public:
  SignalList(std::int32_t device, std::vector<model::TrustSignal>& trust)
      : device_(device)
      , trust_(trust) {}

  void add_if(bool present, std::string_view signal, const std::string& effect) {
    if (!present) return;
    trust_.push_back({std::string(signal), fmt::format("device {}: {}", device_, effect)});
  }

 private:
  std::int32_t device_;
  std::vector<model::TrustSignal>& trust_;
};

std::uint64_t total_slack(const model::Timeline& timeline) {
  std::uint64_t slack = 0;
  for (const model::BlockLife& life : timeline.lives())
    slack += life.slack_bytes;
  return slack;
}

void add_dump_later(const model::Timeline& timeline, SignalList& list) {
  const auto failed = timeline.failed_requests();
  if (failed.empty()) return;
  const auto events = timeline.events();
  const auto after = events.subspan(static_cast<std::size_t>(failed.back().event) + 1);
  const auto frees =
      std::ranges::count(after, model::Action::kFreeRequested, &model::Event::action);
  list.add_if(
      !after.empty(),
      "dump-later-than-failure",
      fmt::format("{} ({}) {} the last failure; its state was rebuilt by undoing {}, and the "
                  "state at the end is a later one",
                  counted(after.size(), "event", "events"),
                  counted(static_cast<std::uint64_t>(frees), "free", "frees"),
                  after.size() == 1 ? "follows" : "follow",
                  after.size() == 1 ? "it" : "them"));
}

}  // namespace

void add_trace_signals(const model::Timeline& timeline, std::vector<model::TrustSignal>& trust) {
  SignalList list(timeline.device(), trust);
  const model::RebuildCounts& counts = timeline.counts();
  if (timeline.events().empty()) return;
  list.add_if(counts.from_before > 0,
              "history-cut",
              fmt::format("{} handed out before the first event; nothing is known of the time "
                          "before it, and a higher peak there would not be seen",
                          counted(counts.from_before, "block was", "blocks were")));
  list.add_if(
      counts.bounded_sizes > 0,
      "bounded-sizes",
      fmt::format("the size of {} is a bound, not a number; together at most {} more than the "
                  "lower end, and shown where it matters",
                  counted(counts.bounded_sizes, "block", "blocks"),
                  model::show_bytes(total_slack(timeline))));
  list.add_if(counts.unmatched_frees > 0,
              "unmatched-frees",
              fmt::format("{} skipped; states before may lack blocks",
                          counted(counts.unmatched_frees,
                                  "free of a block that was not live is",
                                  "frees of blocks that were not live are")));
  list.add_if(
      counts.allocs_on_live_blocks > 0,
      "missing-frees",
      fmt::format("{} handed out where one was still live; what was there is taken as freed at "
                  "that moment, so states before it hold too much",
                  counted(counts.allocs_on_live_blocks, "block was", "blocks were")));
  list.add_if(
      counts.no_free_completed,
      "skipped-actions",
      "free_completed was not recorded; frees count as completed at once, so pending blocks "
      "are not seen");
  list.add_if(counts.no_free_requested,
              "skipped-actions",
              "free_requested was not recorded; blocks count as live until their free completed");
  list.add_if(counts.overlapping_blocks > 0,
              "overlapping-blocks",
              fmt::format("{}; the rounding rule or the segment events do not fit",
                          counted(counts.overlapping_blocks,
                                  "block is larger than the hole it came from",
                                  "blocks are larger than the hole they came from")));
  list.add_if(counts.unmatched_segment_events > 0,
              "unmatched-segment-events",
              fmt::format("{} skipped; reserved may be off before",
                          counted(counts.unmatched_segment_events,
                                  "segment event contradicts the others and is",
                                  "segment events contradict the others and are")));
  list.add_if(
      counts.assumed_homes > 0,
      "assumed-pool",
      fmt::format("{} gone by the end without a pool named in the trace: taken for the default "
                  "pool",
                  counted(counts.assumed_homes, "segment was", "segments were")));
  list.add_if(counts.end_mismatches > 0,
              "redo-differs",
              fmt::format("redoing the trace leaves {} otherwise than the file; earlier states are "
                          "uncertain by as much",
                          counted(counts.end_mismatches, "block", "blocks")));
  list.add_if(counts.clock_goes_back,
              "clock-goes-back",
              "time stamps are not in order; events are taken in the order of the file");
  add_dump_later(timeline, list);
}

void add_file_signals(const model::Recording& recording,
                      model::RoundingRule rule,
                      std::vector<model::TrustSignal>& trust) {
  if (rule == model::RoundingRule::kPadded32 || rule == model::RoundingRule::kUnknown) {
    trust.push_back(
        {"other-writer",
         fmt::format("live blocks are not rounded as PyTorch's CUDA allocator does (rule: "
                     "{}); sizes before the end are bounds",
                     model::to_string(rule))});
  }
  if (recording.traces.empty()) {
    trust.push_back({"no-history",
                     "no events were recorded: only the state at the end is known, and "
                     "no failure in it"});
  }
  if (!recording.has_requested_sizes) {
    trust.push_back(
        {"no-requested-sizes", "this format has no requested sizes; rounding loss is not known"});
  }
  if (recording.stacks.stack_count() <= 1) {
    trust.push_back(
        {"no-stacks", "no call stacks were recorded; who holds the memory is not known"});
  }
}

}  // namespace fragscope::analysis
