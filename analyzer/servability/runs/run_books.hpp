// SPDX-License-Identifier: Apache-2.0
// The free runs of each home by length, and what of them could go back to the driver. Told by
// `FreeRuns`, asked by `HeapOffer`. Not thread-safe.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/model/heap_state.hpp"
#include "analyzer/servability/runs/free_runs.hpp"

#include <absl/container/btree_map.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace fragscope::servability {

/// The free runs of one home.
class HomeRuns {
 public:
  void add(std::uint64_t bytes) {
    ++lengths_[bytes];
    free_bytes_ += bytes;
  }
  void remove(std::uint64_t bytes);

  [[nodiscard]] std::uint64_t largest_bytes() const {
    return lengths_.empty() ? 0 : lengths_.rbegin()->first;
  }
  [[nodiscard]] std::uint64_t free_bytes() const { return free_bytes_; }
  /// The shortest of at least `bytes`, as best fit takes it; 0: there is none.
  [[nodiscard]] std::uint64_t best_fit(std::uint64_t bytes) const;
  /// Sets the flag by which `RunBooks` lists a home once; gives what it was.
  bool set_listed(bool is_listed) { return std::exchange(is_listed_, is_listed); }

 private:
  absl::btree_map<std::uint64_t, std::uint32_t> lengths_;  // how many of each
  std::uint64_t free_bytes_ = 0;
  bool is_listed_ = false;
};

/// The runs of all homes, and what of them could go back to the driver. As with `find_supply`, that
/// is what lies in the default pool: nobody records who holds a private one.
class RunBooks final : public RunListener {
 public:
  explicit RunBooks(const policy::SizeRules& rules)
      : rules_(&rules) {}

  void clear();
  void run_comes(const SegmentRange& segment, Range run) override;
  void run_goes(const SegmentRange& segment, Range run) override;

  [[nodiscard]] const HomeRuns* find(const model::Home& home) const;
  /// Those that ever had a run, in order.
  [[nodiscard]] const std::map<model::Home, HomeRuns>& homes() const { return homes_; }
  /// Whose runs changed since `forget_changes`, each once.
  [[nodiscard]] const std::vector<model::Home>& changed() const { return changed_; }
  void forget_changes();
  /// Wholly free segments, and whole pages of expandable ones.
  [[nodiscard]] std::uint64_t releasable_bytes() const { return releasable_bytes_; }

 private:
  [[nodiscard]] std::uint64_t releasable_of(const SegmentRange& segment, Range run) const;
  [[nodiscard]] HomeRuns& change(const model::Home& home);

  const policy::SizeRules* rules_;
  std::map<model::Home, HomeRuns> homes_;
  std::pair<const model::Home, HomeRuns>* last_ = nullptr;  // of `homes_`, changed
  std::vector<model::Home> changed_;
  std::uint64_t releasable_bytes_ = 0;
};

}  // namespace fragscope::servability
