// SPDX-License-Identifier: Apache-2.0
#include "analyzer/verdict/supply.hpp"

#include "analyzer/verdict/layout/address_layout.hpp"

#include <algorithm>
#include <span>

namespace fragscope::verdict {
namespace {

using model::BlockState;
using model::HeapBlock;
using model::HeapSegment;
using model::HeapState;

constexpr BarrierSet barrier(Barrier which) {
  return static_cast<BarrierSet>(which);
}

/// Barriers that a segment as a whole puts between its holes and the request.
BarrierSet segment_barriers(const HeapSegment& segment,
                            const Question& question,
                            const policy::SizeRules& rules) {
  BarrierSet set = 0;
  if (segment.home.stream != question.stream) set |= barrier(Barrier::kStream);
  if (segment.home.size_class != question.size_class()) set |= barrier(Barrier::kClass);
  if (segment.home.pool != question.pool) set |= barrier(Barrier::kPool);
  if (segment.home.expandable && !rules.expandable_segments) set |= barrier(Barrier::kExpandable);
  return set;
}

/// Home is (device, pool, class, stream); whether a segment is expandable does not matter to it.
bool is_home(BarrierSet set) {
  return (set & ~barrier(Barrier::kExpandable)) == 0;
}

void raise(Bounds& largest, Bounds hole) {
  largest.low = std::max(largest.low, hole.low);
  largest.high = std::max(largest.high, hole.high);
}

class SupplyFinder {
 public:
  SupplyFinder(const HeapState& state, const Question& question, const policy::SizeRules& rules)
      : state_(state)
      , question_(question)
      , rules_(rules) {}

  [[nodiscard]] Supply run() {
    for (const HeapSegment& segment : state_.segments)
      add_segment(segment);
    find_unmapped_space();
    find_need();
    return std::move(supply_);
  }

 private:
  void add_segment(const HeapSegment& segment) {
    const BarrierSet barriers = segment_barriers(segment, question_, rules_);
    supply_.reserved_bytes += segment.size_bytes;
    if (is_home(barriers) && segment.home.expandable) home_ranges_.push_back(&segment);
    for (const HeapBlock& block : state_.blocks_of(segment))
      add_block(segment, block, barriers);
    add_releasable(segment, barriers);

    for (const bool pending_is_free : {false, true}) {
      model::for_each_free_run(
          state_,
          segment,
          pending_is_free,
          [&](std::uint64_t begin, std::uint64_t end, std::uint32_t slack) {
            add_run({end - begin - slack, end - begin}, barriers, pending_is_free);
            // It may as well belong to a pool that is not the request's.
            if (segment.pool_assumed && (barriers & barrier(Barrier::kPool)) == 0) {
              add_run({0, end - begin}, barriers | barrier(Barrier::kPool), pending_is_free);
            }
          });
    }
  }

  void add_block(const HeapSegment& segment, const HeapBlock& block, BarrierSet barriers) {
    const Bounds used{block.size_bytes, block.size_bytes + block.slack_bytes};
    if (block.state == BlockState::kLive) {
      supply_.live_bytes = supply_.live_bytes + used;
    } else if (block.state == BlockState::kPending) {
      supply_.pending_bytes = supply_.pending_bytes + used;
      if (is_home(barriers)) supply_.home_pending_bytes = supply_.home_pending_bytes + used;
    } else {
      const Bounds hole{block.size_bytes - block.slack_bytes, block.size_bytes};
      supply_.free_bytes = supply_.free_bytes + hole;
      if (!is_home(barriers)) return;
      supply_.home_free_bytes =
          supply_.home_free_bytes + (segment.pool_assumed ? Bounds{0, hole.high} : hole);
      raise(supply_.largest_hole_bytes, hole);
      if (barriers != 0 || hole.high < question_.size_bytes) return;
      supply_.home_holes.push_back({block.address,
                                    block.size_bytes,
                                    block.slack_bytes,
                                    segment.home.expandable,
                                    segment.pool_assumed,
                                    0});
      const bool at_end = block.address + block.size_bytes == segment.address + segment.size_bytes;
      grows_.push_back(segment.home.expandable && at_end ? home_ranges_.size() : 0);
    }
  }

  // How far an expandable segment could still grow behind each hole. The reservation's end is not
  // in any recording; it is larger than the card, so the last range can always grow.
  void find_unmapped_space() {
    for (std::size_t i = 0; i < grows_.size(); ++i) {
      const std::size_t next = grows_[i];
      if (next == 0) continue;
      const HeapSegment& range = *home_ranges_[next - 1];
      supply_.home_holes[i].unmapped_behind =
          next == home_ranges_.size()
              ? kEndlessSpace
              : home_ranges_[next]->address - range.address - range.size_bytes;
    }
  }

  void add_releasable(const HeapSegment& segment, BarrierSet barriers) {
    const std::uint64_t bytes = model::releasable_bytes(state_, segment, rules_, true);
    if (segment.home.pool == model::kDefaultPool) {
      supply_.releasable_bytes = supply_.releasable_bytes + model::exactly(bytes);
      if (is_home(barriers)) supply_.home_releasable_bytes += bytes;
    } else if (!question_.recorded && segment.home.pool != question_.pool) {
      // Only a pool that nobody holds gives back, and no recording says who holds it. Before a
      // recorded failure those were released already, so what is left is held; and a request inside
      // a pool shows that this one is.
      supply_.releasable_bytes = supply_.releasable_bytes + Bounds{0, bytes};
    }
  }

  void add_run(Bounds run, BarrierSet barriers, bool with_pending) {
    if (run.high < question_.size_bytes) return;
    if (with_pending) barriers |= barrier(Barrier::kPending);
    const bool same_class = (barriers & barrier(Barrier::kClass)) == 0;
    if (same_class && !policy::oversize_rules_admit(run.high, question_.size_bytes, rules_)) {
      barriers |= barrier(Barrier::kOversize);
    }
    raise(supply_.behind_barriers[barriers], run);
  }

  void find_need() {
    const std::uint64_t size = question_.size_bytes;
    supply_.limit_need_bytes = policy::device_allocation(size, rules_);
    supply_.need_now_bytes = supply_.limit_need_bytes;
    supply_.need_released_bytes = supply_.limit_need_bytes;
    supply_.need_whole_bytes = supply_.limit_need_bytes;
    supply_.expandable_on = rules_.expandable_segments;
    if (!rules_.expandable_segments) return;

    supply_.need_whole_bytes = size;
    supply_.need_now_bytes = home_layout(false).pages_to_map(size);
    supply_.need_released_bytes = home_layout(true).pages_to_map(size);
  }

  /// The home's expandable segments by address, with the unmapped space between and behind them.
  /// `released`: pending events waited for, and whole pages inside holes given back.
  [[nodiscard]] AddressLayout home_layout(bool released) const {
    AddressLayout layout(policy::page_size(question_.size_class(), rules_));
    if (!home_ranges_.empty()) {
      const std::uint64_t first = home_ranges_.front()->address;
      layout.add_unmapped(first - first_known_address(first));
    }
    for (std::size_t i = 0; i < home_ranges_.size(); ++i) {
      const HeapSegment& range = *home_ranges_[i];
      add_range(range, released, layout);
      const bool is_last = i + 1 == home_ranges_.size();
      const std::uint64_t end = range.address + range.size_bytes;
      layout.add_unmapped(is_last ? kEndlessSpace : home_ranges_[i + 1]->address - end);
    }
    if (home_ranges_.empty()) layout.add_unmapped(kEndlessSpace);
    return layout;
  }

  /// Where the home's address space begins, as far as the trace shows it.
  [[nodiscard]] std::uint64_t first_known_address(std::uint64_t first_mapped) const {
    std::uint64_t start = first_mapped;
    for (const model::ExpandableStart& each : state_.expandable_starts) {
      if (each.home == home_ranges_.front()->home) start = std::min(start, each.address);
    }
    return start;
  }

  void add_range(const HeapSegment& range, bool released, AddressLayout& layout) const {
    std::uint64_t at = 0;  // counted from the range's start, which is a page border
    model::for_each_free_run(
        state_, range, released, [&](std::uint64_t begin, std::uint64_t end, std::uint32_t slack) {
          begin += slack - range.address;
          end -= range.address;
          layout.add_used(begin - at);
          at = end;
          // A private pool that the request is made in is held, and gives no page back.
          const bool gives_back = released && range.home.pool == model::kDefaultPool;
          if (gives_back) {
            layout.add_released(begin, end);
          } else {
            layout.add_free(begin, end);
          }
        });
    layout.add_used(range.size_bytes - at);
  }

  const HeapState& state_;
  const Question& question_;
  const policy::SizeRules& rules_;
  Supply supply_;
  std::vector<const HeapSegment*> home_ranges_;  // expandable ones, by address
  std::vector<std::size_t> grows_;  // by home hole: number of the range it ends; 0: it cannot grow
};

}  // namespace

Supply find_supply(const HeapState& state,
                   const Question& question,
                   const policy::SizeRules& rules) {
  return SupplyFinder(state, question, rules).run();
}

}  // namespace fragscope::verdict
