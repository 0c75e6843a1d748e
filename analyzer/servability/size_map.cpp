// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/size_map.hpp"

#include "analyzer/recording/byte_sums.hpp"
#include "analyzer/verdict/supply.hpp"

#include <algorithm>
#include <utility>

namespace fragscope::servability {

using kernels::GroupRuns;
using kernels::PackedBlock;
using model::EventIndex;
using model::HeapState;
using model::minus;

namespace {

/// As many blocks are scanned at once, 32 MiB of them, or as many as the last moment brings along.
constexpr std::size_t kBatchBlocks = std::size_t{1} << 22;

/// Each moment's blocks at the request's home as a group of a table, until they are scanned.
class Batch {
 public:
  [[nodiscard]] bool is_full() const { return blocks_.size() >= kBatchBlocks; }

  void add(const HeapState& state, const Request& request, const policy::SizeRules& rules) {
    for (const model::HeapSegment& segment : state.segments) {
      const bool expandable = segment.home.expandable;
      if (expandable && !rules.expandable_segments) continue;
      if (segment.home == request.home(expandable)) add_segment(state, segment);
    }
    group_begins_.push_back(blocks_.size());
    group_segments_.push_back(segment_begins_.size());
  }

  /// Appends the runs of each group, and tells the moments of these groups what must move.
  [[nodiscard]] Result<void> scan(std::uint64_t size_bytes,
                                  const kernels::ScanOptions& options,
                                  std::vector<GroupRuns>& runs,
                                  std::span<MapMoment> moments) {
    const kernels::BlockTable table{blocks_, group_begins_};
    segment_begins_.push_back(blocks_.size());
    if (Result<void> checked = kernels::check_table(table); !checked) return checked;
    const auto found = kernels::find_runs(table, false, options);
    if (!found) return tl::unexpected<Error>(found.error());
    const auto windows = kernels::find_windows(table, segment_begins_, size_bytes, options);
    if (!windows) return tl::unexpected<Error>(windows.error());

    runs.insert(runs.end(), found->groups.begin(), found->groups.end());
    std::size_t segment = 0;
    for (std::size_t group = 0; group < moments.size(); ++group) {
      kernels::Window cheapest;
      for (; segment < group_segments_[group]; ++segment)
        cheapest = kernels::CheaperWindow{}(cheapest, windows->segments[segment]);
      if (cheapest.exists()) moments[group].move_bytes = cheapest.live_bytes;
    }
    *this = Batch();
    return {};
  }

 private:
  void add_segment(const HeapState& state, const model::HeapSegment& segment) {
    const std::size_t first = blocks_.size();
    segment_begins_.push_back(first);
    for (const model::HeapBlock& block : state.blocks_of(segment)) {
      blocks_.push_back(block.state == model::BlockState::kFree
                            ? PackedBlock::free(block.size_bytes)
                            : PackedBlock::live(block.size_bytes));
    }
    blocks_[first] = blocks_[first].as_first();
  }

  std::vector<PackedBlock> blocks_;
  std::vector<std::uint64_t> group_begins_{0};
  std::vector<std::uint64_t> segment_begins_;
  std::vector<std::size_t> group_segments_;  // how many segments there are up to each group's end
};

/// What the driver could give in this state, the cache given back to it.
std::uint64_t driver_bytes(const verdict::Supply& supply, const DriverRoom& room) {
  const std::uint64_t releasable = supply.releasable_bytes.low;
  const std::uint64_t give = room.free_with(supply.reserved_bytes) + releasable;
  if (!room.limit_bytes) return give;
  return std::min(give, minus(*room.limit_bytes, minus(supply.reserved_bytes, releasable)));
}

MapMoment moment_of(EventIndex behind, const verdict::Supply& supply, const DriverRoom& room) {
  MapMoment moment;
  moment.behind = behind;
  moment.driver_bytes = driver_bytes(supply, room);
  moment.home_bytes = supply.home_free_bytes.high + supply.home_pending_bytes.high;
  moment.elsewhere_bytes = minus(moment.driver_bytes, supply.home_releasable_bytes);
  return moment;
}

/// What the driver is asked for to serve a size.
std::uint64_t need_of(std::uint64_t size, const policy::SizeRules& rules) {
  const std::uint64_t page = policy::page_size(policy::size_class(size), rules);
  return rules.expandable_segments ? policy::round_up(size, page)
                                   : policy::device_allocation(size, rules);
}

/// Whether blocks moved together leave a hole, or so much to the driver that it gives the rest.
bool compaction_serves(std::uint64_t size,
                       const MapMoment& moment,
                       const policy::SizeRules& rules) {
  // A tail at home counts towards an expandable request, so that no whole page is wanted for it.
  const std::uint64_t need = rules.expandable_segments ? size : need_of(size, rules);
  return moment.home_bytes >= size || moment.home_bytes + moment.elsewhere_bytes >= need;
}

/// Which sizes a moment serves by a hole is the scans' answer; the rest is compared.
Result<void> fill_means(SizeMap& map,
                        const std::vector<GroupRuns>& runs,
                        const policy::SizeRules& rules,
                        const kernels::ScanOptions& options) {
  const auto found = kernels::find_servability(runs, {}, map.sizes, options);
  if (!found) return tl::unexpected<Error>(found.error());
  for (std::size_t i = 0; i < map.sizes.size(); ++i) {
    const std::uint64_t size = map.sizes[i];
    for (std::size_t at = 0; at < runs.size(); ++at) {
      const MapMoment& moment = map.moments[at];
      Means means = Means::kNothing;
      if (found->served(kernels::Sense::kHoles, static_cast<std::uint32_t>(i), at)) {
        means = Means::kHole;
      } else if (need_of(size, rules) <= moment.driver_bytes) {
        means = Means::kDriver;
      } else if (compaction_serves(size, moment, rules)) {
        means = Means::kCompaction;
      }
      map.means.push_back(means);
    }
  }
  return {};
}

/// What all moments hold together, as far as the end of the history tells.
std::uint64_t expected_work_bytes(const model::History& history, std::size_t targets) {
  std::uint64_t blocks = 0;
  const EventIndex end = history.end_event();
  if (!history.is_known_before(end)) return 0;
  history.visit_states_until(std::span(&end, 1), [&blocks](EventIndex, const HeapState& state) {
    blocks = state.blocks.size();
    return false;
  });
  return blocks * sizeof(PackedBlock) * targets;
}

}  // namespace

Result<SizeMap> find_size_map(const model::History& history,
                              const Watch& watch,
                              std::vector<std::uint64_t> sizes,
                              std::span<const EventIndex> targets,
                              const policy::SizeRules& rules,
                              kernels::Device device) {
  SizeMap map;
  map.sizes = std::move(sizes);
  const auto chosen = kernels::choose_device(device, expected_work_bytes(history, targets.size()));
  if (!chosen) return tl::unexpected<Error>(chosen.error());
  map.ran = *chosen;
  const kernels::ScanOptions options{map.ran.device, 0};

  std::vector<EventIndex> known;
  std::ranges::copy_if(targets, std::back_inserter(known), [&history](EventIndex target) {
    return history.is_known_before(target);
  });
  verdict::Question question;
  question.size_bytes = watch.request.size_bytes;
  question.pool = watch.request.pool;
  question.stream = watch.request.stream;

  Batch batch;
  std::vector<GroupRuns> runs;
  Result<void> scanned;
  const auto scan = [&] {
    const std::span<MapMoment> fresh = std::span(map.moments).subspan(runs.size());
    scanned = batch.scan(watch.request.size_bytes, options, runs, fresh);
    return scanned.has_value();
  };
  history.visit_states_until(known, [&](EventIndex target, const HeapState& state) {
    const verdict::Supply supply = verdict::find_supply(state, question, rules);
    map.moments.push_back(moment_of(target - 1, supply, watch.room));
    batch.add(state, watch.request, rules);
    return !batch.is_full() || scan();
  });
  if (scanned && runs.size() < map.moments.size()) scan();
  if (scanned) scanned = fill_means(map, runs, rules, options);
  if (!scanned) return tl::unexpected<Error>(scanned.error());
  return map;
}

}  // namespace fragscope::servability
