// SPDX-License-Identifier: Apache-2.0
// Expandable segments as they would be once pending frees were waited for: what of them could go
// back to the driver, and how many pages a request would want from it then. Used by `HeapOffer`.
// Not thread-safe.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/model/heap_state.hpp"
#include "analyzer/servability/runs/free_runs.hpp"
#include "analyzer/servability/runs/places.hpp"
#include "analyzer/servability/runs/run_books.hpp"
#include "analyzer/verdict/layout/address_layout.hpp"

#include <cstdint>
#include <map>

namespace fragscope::servability {

class WaitedRuns final : public RunListener {
 public:
  explicit WaitedRuns(const policy::SizeRules& rules)
      : rules_(&rules)
      , books_(rules)
      , runs_(*this) {}
  WaitedRuns(const WaitedRuns&) = delete;
  WaitedRuns& operator=(const WaitedRuns&) = delete;
  ~WaitedRuns() override = default;

  void begin(const model::HeapState& state);
  void map(Range pages, const model::Home& home);
  void unmap(Range pages);
  void take(Range block) { runs_.take(block); }
  void give(Range block) { runs_.give(block); }

  [[nodiscard]] const RunBooks& books() const { return books_; }
  /// Pages that the driver must give for a request of this size in this home, once those that are
  /// wholly free went back to it.
  [[nodiscard]] std::uint64_t pages_to_map(std::uint64_t bytes, const model::Home& home) const;

 private:
  void run_comes(const SegmentRange& segment, Range run) override;
  void run_goes(const SegmentRange& segment, Range run) override;
  [[nodiscard]] verdict::AddressLayout layout_of(const Range& place,
                                                 std::uint64_t bytes,
                                                 const model::Home& home) const;

  const policy::SizeRules* rules_;
  RunBooks books_;
  FreeRuns runs_;
  std::map<model::Home, Places> places_;
};

}  // namespace fragscope::servability
