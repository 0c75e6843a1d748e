// SPDX-License-Identifier: Apache-2.0
// Where one home's expandable segments could take a request: the stretches of address space between
// used ranges, free or not mapped. Kept while events change them, so that the first place that is
// large enough is found without a look at all others. Used by `HeapOffer`. Not thread-safe.
#pragma once

#include "analyzer/servability/runs/free_runs.hpp"

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace fragscope::servability {

/// Cost of a change: a few look-ups in ordered maps, and one for each size that was asked for.
class Places {
 public:
  /// What the last place ends at: address space has no end that a recording tells.
  static constexpr std::uint64_t kEndless = ~std::uint64_t{0};

  /// The home's address space begins here, or already further down.
  void begin_at(std::uint64_t address);
  void use(Range range);
  /// Used no more: free now, or not mapped.
  void leave(Range range);

  /// The first one behind `address` that has at least `bytes`; none before `begin_at` alone, since
  /// the last place is endless. The first time for a size looks at all places.
  [[nodiscard]] std::optional<Range> first_of(std::uint64_t bytes, std::uint64_t address) const;

 private:
  /// So many sizes are kept in mind; beyond, they are found anew.
  static constexpr std::size_t kKeptSizes = 256;
  using Begins = absl::btree_set<std::uint64_t>;

  void add(Range place);
  void remove(Range place);

  absl::btree_map<std::uint64_t, std::uint64_t> places_;  // begin, end
  std::optional<std::uint64_t> begin_;
  mutable std::map<std::uint64_t, Begins> large_enough_;  // by size asked for
};

}  // namespace fragscope::servability
