// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/timeline_rebuilder.hpp"

#include <algorithm>
#include <utility>

namespace fragscope::model {
namespace {

bool is_block_action(Action action) {
  return action <= Action::kFreeCompleted;
}

class Rebuilder {
 public:
  Rebuilder(const Recording& recording,
            std::span<const Segment> segments,
            std::span<const Event> events,
            RoundingRule rule,
            SegmentHistory& history)
      : recording_(recording)
      , rules_(recording.settings.rules)
      , segments_(segments)
      , events_(events)
      , rule_(rule)
      , history_(history)
      , end_(static_cast<ShortIndex>(events.size())) {}

  [[nodiscard]] RebuiltHistory run() {
    number_places();
    rank_places();
    settle_start();
    for (ShortIndex index = 0; index < end_; ++index)
      redo(index);
    settle_end();
    count_bounds();
    return std::move(out_);
  }

 private:
  struct EndBlock {
    const Block* block;
    Place place;
  };

  BlockLife& life(LifeId id) { return out_.lives[index_of(id)]; }
  [[nodiscard]] const Event& event(ShortIndex index) const {
    return events_[static_cast<std::size_t>(index)];
  }

  LifeId add_life(const BlockLife& added) {
    out_.lives.push_back(added);
    return LifeId{static_cast<std::uint32_t>(out_.lives.size() - 1)};
  }

  // --- Undo: which blocks were there before the first event. -------------------------------------

  // Numbers every address, and finds the blocks that must have been there at the start: those
  // whose first event is a free, and those that have no event but are there at the end.
  void number_places() {
    numbers_.assign(events_.size(), kNoPlace);
    // A life has a hand-out and two free events.
    out_.lives.reserve(events_.size() / 3 + 1);
    out_.plain_of_life.reserve(events_.size() / 3 + 1);
    std::uint64_t requested = 0;
    std::uint64_t completed = 0;
    std::int64_t last_time = kNoTime;
    for (ShortIndex index = 0; index < end_; ++index) {
      const Event& seen = event(index);
      out_.counts.clock_goes_back |= seen.time_us != kNoTime && seen.time_us < last_time;
      last_time = std::max(last_time, seen.time_us);
      if (!is_block_action(seen.action)) continue;
      requested += seen.action == Action::kFreeRequested ? 1U : 0U;
      completed += seen.action == Action::kFreeCompleted ? 1U : 0U;
      const std::uint32_t number = out_.places.add(seen.address);
      numbers_[static_cast<std::size_t>(index)] = number;
      const bool is_first = number == known_places_;
      known_places_ += is_first ? 1U : 0U;
      if (!is_first || seen.action == Action::kAlloc) continue;
      BlockLife before = life_at_start(number, seen.size_bytes);
      if (seen.action == Action::kFreeCompleted) before.free_requested_event = kBeforeFirst;
      out_.lives_at_start.push_back(add_life(before));
    }
    out_.counts.unmatched_segment_events = history_.unmatched_count();
    freed_inside_ = out_.lives_at_start.size();
    number_end_blocks();
    number_borders();
    // Frees that never complete are still pending at the end; if they are not, completions were
    // left out of the recording.
    const auto pending = std::ranges::count_if(end_blocks_, [](const EndBlock& end_block) {
      return end_block.block->state == BlockState::kPending;
    });
    out_.counts.no_free_requested = requested == 0 && completed > 0;
    out_.counts.no_free_completed =
        completed == 0 && requested > static_cast<std::uint64_t>(pending);
  }

  [[nodiscard]] BlockLife life_at_start(std::uint32_t number, std::uint64_t requested_bytes) const {
    const BoundedSize size = rounded_size(requested_bytes, rule_, rules_);
    BlockLife before;
    before.size_bytes = size.bytes;
    before.slack_bytes = size.slack_bytes;
    before.requested_bytes = requested_bytes;
    before.place = number;
    before.free_requested_event = end_;
    before.free_completed_event = end_;
    return before;
  }

  void number_end_blocks() {
    for (const Segment& segment : segments_) {
      for (const Block& block : recording_.blocks_of(segment)) {
        if (block.state == BlockState::kFree) continue;
        const std::uint32_t number = out_.places.add(block.address);
        end_blocks_.push_back({&block, number});
        if (number < known_places_) continue;
        ++known_places_;
        BlockLife before = life_at_start(number, block.requested_bytes);
        set_exact(before, block.size_bytes);
        if (block.state == BlockState::kPending) before.free_requested_event = kBeforeFirst;
        before.stack = block.stack;
        out_.lives_at_start.push_back(add_life(before));
      }
    }
  }

  void number_borders() {
    for (const PlainSegment& plain : history_.plain()) {
      borders_of_plain_.push_back(
          {out_.places.add(plain.address), out_.places.add(plain.address + plain.size_bytes)});
    }
  }

  void rank_places() {
    const std::vector<Place> place_of = out_.places.rank();
    for (Place& number : numbers_) {
      if (number != kNoPlace) number = place_of[number];
    }
    for (BlockLife& start : out_.lives)
      start.place = place_of[start.place];
    for (EndBlock& end_block : end_blocks_)
      end_block.place = place_of[end_block.place];
    for (auto& [first, last] : borders_of_plain_) {
      first = place_of[first];
      last = place_of[last];
    }
    const std::size_t count = out_.places.size();
    current_.assign(count, kNoLife);
    last_.assign(count, kNoLife);
    plain_at_.assign(count, -1);
    border_uses_.assign(count, 0);
    borders_ = PlaceSet(count);
    occupied_ = PlaceSet(count);
  }

  // Blocks that last to the end have the size that the file gives; of the others, the large ones in
  // plain segments are open until something shows where they end.
  void settle_start() {
    const auto plain = history_.plain();
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (plain[i].alloc_event == kBeforeFirst) add_plain(i);
    }
    for (const LifeId id : out_.lives_at_start) {
      current_[life(id).place] = last_[life(id).place] = id;
      occupied_.insert(life(id).place);
    }
    for (const BlockLife& start : out_.lives)
      out_.plain_of_life.push_back(plain_around(start.place));
    for (const LifeId id : std::span(out_.lives_at_start).first(freed_inside_)) {
      BlockLife& start = life(id);
      if (start.size_bytes <= policy::kSmallSize) continue;
      const std::int32_t segment = plain_around(start.place);
      if (segment < 0) continue;
      if (start.size_bytes >= rules_.max_split_size) {
        set_exact(start, history_.plain()[static_cast<std::size_t>(segment)].size_bytes);
        continue;
      }
      start.slack_bytes += static_cast<std::uint32_t>(policy::kSmallSize);
      close_by_gap(start);
    }
    out_.counts.from_before = out_.lives_at_start.size();
  }

  // --- Redo. -------------------------------------------------------------------------------------

  void redo(ShortIndex index) {
    const Event& seen = event(index);
    if (seen.action == Action::kSegmentAlloc || seen.action == Action::kSegmentFree) {
      change_plain(index);
      return;
    }
    if (!is_block_action(seen.action)) return;
    // From here on the slot holds the life, no longer the place.
    std::uint32_t& slot = numbers_[static_cast<std::size_t>(index)];
    const Place place = slot;
    LifeId id = current_[place];
    if (seen.action == Action::kAlloc) {
      if (id != kNoLife) close_without_free(id, index);
      id = hand_out(index, place);
    } else if (id == kNoLife) {
      ++out_.counts.unmatched_frees;
    } else if (seen.action == Action::kFreeRequested) {
      id = request_free(id, index);
    } else {
      complete_free(id, index);
    }
    slot = static_cast<std::uint32_t>(id);
  }

  void close_without_free(LifeId id, ShortIndex index) {
    ++out_.counts.allocs_on_live_blocks;
    BlockLife& closed = life(id);
    closed.free_completed_event = index;
    closed.free_requested_event = std::min(closed.free_requested_event, index);
    occupied_.erase(closed.place);
  }

  LifeId hand_out(ShortIndex index, Place place) {
    const Event& seen = event(index);
    const BoundedSize size = rounded_size(seen.size_bytes, rule_, rules_);
    BlockLife added;
    added.size_bytes = size.bytes;
    added.slack_bytes = size.slack_bytes;
    added.requested_bytes = seen.size_bytes;
    added.place = place;
    added.alloc_event = index;
    added.free_requested_event = end_;
    added.free_completed_event = end_;
    added.stack = seen.stack;

    const bool is_large = size.bytes > policy::kSmallSize;
    const std::int32_t segment = plain_around(place);
    if (segment >= 0) {
      PlainSegment& plain = history_.plain()[static_cast<std::size_t>(segment)];
      if (plain.home.pool == kUnknownPool) plain.home.pool = seen.pool;
      if (is_large) take_from_hole(added, size);
    }
    const LifeId id = add_life(added);
    out_.plain_of_life.push_back(segment);
    current_[place] = last_[place] = id;
    // Only large blocks of plain segments are looked for as neighbours.
    if (is_large) occupied_.insert(place);
    return id;
  }

  // In a plain segment a hand-out takes the front of a hole; the hole begins where the block before
  // it ends, and is taken whole if what remains would not be worth splitting.
  void take_from_hole(BlockLife& added, const BoundedSize& size) {
    if (added.place > 0) close_left_neighbour(added.place);
    const std::uint64_t hole = room_behind(added.place);
    if (hole < size.bytes) {
      ++out_.counts.overlapping_blocks;
    } else if (!policy::should_split(hole, size.bytes, false, rules_)) {
      set_exact(added, hole);
    }
  }

  void close_left_neighbour(Place place) {
    const Place left = occupied_.previous(place - 1);
    if (left == kNoPlace || current_[left] == kNoLife) return;
    BlockLife& neighbour = life(current_[left]);
    if (neighbour.slack_bytes == 0) return;
    const Place border = borders_.previous(place);
    if (border != kNoPlace && border > left) return;
    const std::uint64_t distance = out_.places.address(place) - out_.places.address(left);
    if (distance >= neighbour.size_bytes &&
        distance <= neighbour.size_bytes + neighbour.slack_bytes) {
      set_exact(neighbour, distance);
    }
  }

  LifeId request_free(LifeId id, ShortIndex index) {
    BlockLife& freed = life(id);
    if (freed.free_requested_event != end_) {
      ++out_.counts.unmatched_frees;
      return kNoLife;
    }
    freed.free_requested_event = index;
    if (out_.counts.no_free_completed) complete_free(id, index);
    return id;
  }

  void complete_free(LifeId id, ShortIndex index) {
    BlockLife& freed = life(id);
    const bool was_requested = freed.free_requested_event != end_;
    if (!was_requested && !out_.counts.no_free_requested) ++out_.counts.unmatched_frees;
    drop_phantom(id);
    if (freed.slack_bytes > policy::kMinBlockSize) close_by_gap(freed);
    freed.free_completed_event = index;
    freed.free_requested_event = std::min(freed.free_requested_event, index);
    current_[freed.place] = kNoLife;
    if (freed.size_bytes > policy::kSmallSize || freed.alloc_event == kBeforeFirst) {
      occupied_.erase(freed.place);
    }
  }

  // A free names a block from before the first event, in a segment that came later: there was none.
  void drop_phantom(LifeId id) {
    BlockLife& freed = life(id);
    if (freed.alloc_event != kBeforeFirst) return;
    const std::int32_t segment = plain_around(freed.place);
    if (segment < 0 ||
        history_.plain()[static_cast<std::size_t>(segment)].alloc_event == kBeforeFirst) {
      return;
    }
    ++out_.counts.unmatched_frees;
    freed.free_requested_event = kBeforeFirst;
    phantoms_.push_back(id);
  }

  // No free piece of 1 MiB or less exists in a plain large segment: so small a rest is the block's.
  void close_by_gap(BlockLife& open) {
    const std::uint64_t room = room_behind(open.place);
    if (room < open.size_bytes) {
      ++out_.counts.overlapping_blocks;
      open.slack_bytes = 0;
    } else if (room - open.size_bytes <= policy::kSmallSize) {
      set_exact(open, room);
    }
  }

  static void set_exact(BlockLife& block, std::uint64_t size_bytes) {
    block.size_bytes = size_bytes;
    block.slack_bytes = 0;
  }

  /// Bytes from a place to the next block or segment border behind it.
  [[nodiscard]] std::uint64_t room_behind(Place place) const {
    if (place + 1 >= out_.places.size()) return 0;
    const Place next = std::min(occupied_.next(place + 1), borders_.next(place + 1));
    if (next == kNoPlace) return 0;
    return out_.places.address(next) - out_.places.address(place);
  }

  // --- Plain segments. ---------------------------------------------------------------------------

  /// The plain segment that holds this place now, -1 if there is none.
  [[nodiscard]] std::int32_t plain_around(Place place) const {
    const Place border = borders_.previous(place);
    return border == kNoPlace ? -1 : plain_at_[border];
  }

  void add_plain(std::size_t index) {
    const auto [first, last] = borders_of_plain_[index];
    plain_at_[first] = static_cast<std::int32_t>(index);
    for (const Place border : {first, last}) {
      if (border_uses_[border]++ == 0) borders_.insert(border);
    }
  }

  void remove_plain(std::size_t index) {
    const auto [first, last] = borders_of_plain_[index];
    plain_at_[first] = -1;
    for (const Place border : {first, last}) {
      if (--border_uses_[border] == 0) borders_.erase(border);
    }
  }

  void change_plain(ShortIndex index) {
    while (history_.changes()[next_change_] < index)
      ++next_change_;
    const std::int32_t plain = history_.plain_of_change(next_change_);
    if (plain < 0) return;
    if (event(index).action == Action::kSegmentAlloc) {
      add_plain(static_cast<std::size_t>(plain));
    } else {
      remove_plain(static_cast<std::size_t>(plain));
    }
  }

  // --- The end: what redo arrived at against what the file says. ---------------------------------

  void settle_end() {
    out_.life_of_event.resize(events_.size(), kNoLife);
    for (ShortIndex index = 0; index < end_; ++index) {
      const auto at = static_cast<std::size_t>(index);
      if (is_block_action(event(index).action)) out_.life_of_event[at] = LifeId{numbers_[at]};
    }
    numbers_ = {};
    std::ranges::sort(phantoms_);
    std::erase_if(out_.lives_at_start,
                  [this](LifeId id) { return std::ranges::binary_search(phantoms_, id); });
    for (const LifeId id : phantoms_)
      life(id).free_requested_event = kBeforeFirst;
    for (const EndBlock& end_block : end_blocks_) {
      const Block& block = *end_block.block;
      LifeId id = current_[end_block.place];
      if (id == kNoLife) {
        ++out_.counts.end_mismatches;
        id = revive(last_[end_block.place]);
      }
      current_[end_block.place] = kNoLife;
      match_end(life(id), block);
    }
    for (const LifeId id : current_) {
      if (id == kNoLife) continue;
      ++out_.counts.end_mismatches;  // live by the trace, not there by the file
    }
  }

  /// The file has the block although the trace freed it last: the file is right, the free is not.
  LifeId revive(LifeId id) {
    BlockLife& revived = life(id);
    for (const ShortIndex index : {revived.free_requested_event, revived.free_completed_event}) {
      if (index != end_ && index >= 0) {
        out_.life_of_event[static_cast<std::size_t>(index)] = kNoLife;
      }
    }
    revived.free_requested_event = revived.free_completed_event = end_;
    return id;
  }

  void match_end(BlockLife& lasting, const Block& block) {
    const bool is_pending = lasting.free_requested_event != end_;
    const bool from_window = lasting.alloc_event != kBeforeFirst;
    const bool size_fits = lasting.size_bytes <= block.size_bytes &&
                           block.size_bytes <= lasting.size_bytes + lasting.slack_bytes;
    if ((from_window && !size_fits) || is_pending != (block.state == BlockState::kPending)) {
      ++out_.counts.end_mismatches;
    }
    set_exact(lasting, block.size_bytes);
    if (block.has_requested) lasting.requested_bytes = block.requested_bytes;
    if (block.stack != kNoStack) lasting.stack = block.stack;
  }

  void count_bounds() {
    for (const BlockLife& each : out_.lives) {
      out_.counts.bounded_sizes += each.slack_bytes > 0 ? 1U : 0U;
    }
    for (const PlainSegment& plain : history_.plain()) {
      out_.counts.assumed_homes += plain.home_assumed && plain.home.pool == kUnknownPool ? 1U : 0U;
    }
    for (const Area& area : history_.areas()) {
      for (const AreaOwner& owner : area.owners) {
        const bool assumed = owner.class_assumed || owner.home.pool == kUnknownPool;
        out_.counts.assumed_homes += assumed ? 1U : 0U;
      }
    }
  }

  const Recording& recording_;
  const policy::SizeRules& rules_;
  std::span<const Segment> segments_;
  std::span<const Event> events_;
  RoundingRule rule_;
  SegmentHistory& history_;
  ShortIndex end_;
  RebuiltHistory out_;

  LargeVector<std::uint32_t> numbers_;  // by event: provisional number, then place, then life
  std::uint32_t known_places_ = 0;
  std::size_t freed_inside_ = 0;  // so many of the lives at the start end inside the window
  std::vector<EndBlock> end_blocks_;
  std::vector<std::pair<Place, Place>> borders_of_plain_;
  std::vector<LifeId> current_;  // by place: the life there now
  std::vector<LifeId> last_;     // by place: the latest life there
  std::vector<std::int32_t> plain_at_;
  std::vector<std::uint16_t> border_uses_;
  PlaceSet borders_{0};
  PlaceSet occupied_{0};
  std::size_t next_change_ = 0;
  std::vector<LifeId> phantoms_;
};

}  // namespace

RebuiltHistory rebuild_history(const Recording& recording,
                               std::span<const Segment> segments,
                               std::span<const Event> events,
                               RoundingRule rule,
                               SegmentHistory& history) {
  return Rebuilder(recording, segments, events, rule, history).run();
}

}  // namespace fragscope::model
