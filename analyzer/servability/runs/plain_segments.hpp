// SPDX-License-Identifier: Apache-2.0
// How much of each plain segment the program uses, followed event by event, and so which segments
// could go back to the driver once pending frees are waited for. A count for each segment is
// enough, since the driver takes a plain segment back as a whole. Used by `HeapOffer`. Not
// thread-safe.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/servability/runs/free_runs.hpp"

#include <absl/container/btree_map.h>

#include <cstdint>

namespace fragscope::servability {

class PlainSegments {
 public:
  /// Begins again with this heap; its expandable segments are left out.
  void begin(const model::HeapState& state);

  /// One that lies on another is passed over.
  void add(Range range, const model::Home& home);
  void remove(Range range);

  /// The program uses the block from now on. Gives the home of its segment, null if it lies in
  /// none; valid until a segment comes or goes.
  const model::Home* take(Range block);
  /// The program does not use it any more, whether or not a stream still does.
  const model::Home* give(Range block);

  /// Of the default pool; nobody records who holds a private one.
  [[nodiscard]] std::uint64_t releasable_bytes() const { return releasable_bytes_; }

 private:
  struct Segment {
    SegmentRange at;
    std::uint64_t used_bytes = 0;
  };

  [[nodiscard]] Segment* find(std::uint64_t address);
  [[nodiscard]] static std::uint64_t releasable_of(const Segment& segment);
  const model::Home* change(Range block, bool is_taken);

  absl::btree_map<std::uint64_t, Segment> segments_;  // by begin
  Segment* last_ = nullptr;  // found; blocks of one segment often follow each other
  std::uint64_t releasable_bytes_ = 0;
};

}  // namespace fragscope::servability
