// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/advice.hpp"

#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace fragscope::verdict {
namespace {

using model::show_bytes;

std::uint64_t low(const Rung& rung) {
  return rung.bytes ? rung.bytes->low : 0;
}

// Before it fails, the allocator waits for events and gives its cache back, but not while a graph
// is captured. There neither can be made up for: empty_cache() does nothing to the default pool
// then.
std::string release_advice(const Question& question) {
  return question.recorded
             ? "give the cache back before the graph capture (or the MemPool scope) that kept it "
               "begins: torch.cuda.empty_cache()"
             : "give the cache back before the request: torch.cuda.empty_cache()";
}

std::string pending_advice(const Question& question) {
  return question.recorded
             ? "let the graph capture (or the MemPool scope) that keeps these blocks pending end "
               "first, or use them on one stream only in it"
             : "synchronize the streams the blocks wait for before the request";
}

std::string barrier_advice(std::string_view barrier, const Question& question) {
  if (barrier == "stream") {
    return "make the request on the stream that owns the hole, or give that segment back "
           "(torch.cuda.empty_cache()) once it is wholly free";
  }
  if (barrier == "class") {
    return "nothing in the settings moves a hole between the small and the large class; only a "
           "wholly free segment can go back to the driver";
  }
  if (barrier == "pool") {
    return "make the request in the pool that owns the hole, or free that pool (delete the graph "
           "or MemPool that holds it)";
  }
  if (barrier == "pending") return pending_advice(question);
  if (barrier == "oversize") {
    return "unset max_split_size_mb: under it this hole may not serve the request";
  }
  return "turn expandable_segments on again: the hole lies in an expandable segment";
}

void add_stranded_advice(const Question& question,
                         const Judgement& judgement,
                         std::vector<Advice>& advice) {
  const Rung& at = judgement.ladder[4];
  const std::string shown_by =
      fmt::format("rung 5: a hole of {} >= {}", show_bytes(low(at)), show_bytes(at.need_bytes));
  std::string joint;
  for (const std::string_view barrier : judgement.verdict.stranded_by) {
    if (judgement.verdict.barriers_are_joint) {
      joint += (joint.empty() ? "all of these together: " : "; and ") +
               barrier_advice(barrier, question);
    } else {
      advice.push_back({barrier_advice(barrier, question), shown_by});
    }
  }
  if (!joint.empty()) advice.push_back({std::move(joint), shown_by});
}

std::string capacity_advice(const Judgement& judgement, const std::string& short_by) {
  const Verdict& verdict = judgement.verdict;
  if (verdict.also.rounding) {
    return fmt::format(
        "use {} less, or lose less to rounding (roundup_power2_divisions, or sizes that "
        "are multiples of 512 bytes)",
        short_by);
  }
  if (judgement.ladder[7].fits == Fits::kUnknown) {
    return fmt::format(
        "use {} less, or free as much that others hold on the device: no setting of this "
        "allocator can serve it otherwise",
        short_by);
  }
  return fmt::format("use {} less: no allocator setting can serve it otherwise", short_by);
}

}  // namespace

std::vector<Advice> find_advice(const Question& question,
                                const Supply& supply,
                                const DeviceFacts& facts,
                                const Judgement& judgement,
                                const std::optional<Pins>& pins) {
  std::vector<Advice> advice;
  const Verdict& verdict = judgement.verdict;
  const auto& ladder = judgement.ladder;
  const std::string short_by = (verdict.short_by_is_least ? "at least " : "") +
                               show_bytes(verdict.short_by_bytes.value_or(0));
  switch (verdict.kind) {
    case VerdictKind::kReleasable:
      advice.push_back(
          {release_advice(question),
           fmt::format(
               "rung 3: {} >= {}", show_bytes(low(ladder[2])), show_bytes(ladder[2].need_bytes))});
      break;
    case VerdictKind::kLimit:
      if (!verdict.short_by_bytes) break;
      advice.push_back({fmt::format("raise the memory fraction so that the limit is at least {}",
                                    show_bytes(supply.reserved_bytes + supply.limit_need_bytes)),
                        fmt::format("{} reserved + {}, against a limit of {}",
                                    show_bytes(supply.reserved_bytes),
                                    show_bytes(supply.limit_need_bytes),
                                    show_bytes(facts.limit.bytes.low))});
      break;
    case VerdictKind::kStranded:
      add_stranded_advice(question, judgement, advice);
      break;
    case VerdictKind::kExternal:
      advice.push_back({fmt::format("{} less used outside this allocator serves it", short_by),
                        fmt::format("rung 7: {} of {} needed",
                                    show_bytes(low(ladder[6])),
                                    show_bytes(ladder[6].need_bytes))});
      break;
    case VerdictKind::kCapacity:
      advice.push_back({capacity_advice(judgement, short_by),
                        fmt::format("rung 7: {} of {} needed",
                                    show_bytes(low(ladder[6])),
                                    show_bytes(ladder[6].need_bytes))});
      break;
    case VerdictKind::kImpossible:
      advice.push_back({"make the request smaller, or use a larger device",
                        fmt::format("{} needed, {} on the device",
                                    show_bytes(supply.need_whole_bytes),
                                    show_bytes(facts.total.bytes.high))});
      break;
    default:
      break;
  }
  const bool moving_helps =
      verdict.kind == VerdictKind::kFragmented || verdict.kind == VerdictKind::kScattered;
  if (pins && moving_helps && pins->live_bytes > 0) {
    const std::string shown_by =
        pins->whole_segments
            ? fmt::format("pins: {} back to the driver, and device free {}, give {}",
                          show_bytes(pins->window_bytes),
                          show_bytes(facts.free.bytes.low),
                          show_bytes(supply.need_whole_bytes))
            : fmt::format("pins: they leave a hole of {} >= {}",
                          show_bytes(pins->window_bytes),
                          show_bytes(question.size_bytes));
    advice.push_back({fmt::format("free or move the {} in the pins before the request",
                                  show_bytes(pins->live_bytes)),
                      shown_by});
  }
  return advice;
}

}  // namespace fragscope::verdict
