// SPDX-License-Identifier: Apache-2.0
// A program under other settings than its own, on a simulated device: does it fit, and what would
// it take? What the program itself would have done otherwise (after a failure that no longer comes,
// or with memory that it asked for by `mem_get_info`) no replay can know.
#pragma once

#include "allocator/policy/caching_policy.hpp"
#include "analyzer/model/heap_state.hpp"
#include "analyzer/verdict/ladder.hpp"
#include "analyzer/whatif/arena/arena.hpp"
#include "analyzer/whatif/program/program.hpp"
#include "analyzer/whatif/replay.hpp"
#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::whatif {

/// Other processes' memory from an event on.
struct OutsideChange {
  model::EventIndex event = 0;
  std::uint64_t bytes = 0;
};

struct Variant {
  std::string name;
  policy::PolicyOptions options;
  /// Whether what the program itself set at run time counts.
  bool follows_program = true;
  std::uint64_t device_bytes = 0;
  std::uint64_t outside_bytes = 0;             ///< Of the device, that others hold.
  std::vector<OutsideChange> outside_changes;  ///< By event.
  std::optional<std::uint64_t> limit_bytes;
  std::optional<ArenaKind> arena;  ///< In place of PyTorch's rules; `options` are not looked at.
};

/// The program's own settings on the device that was recorded, or on one that has as much as was
/// there for this allocator; none if the recording shows neither, or only the latter where the
/// settings allow a share of the device.
[[nodiscard]] std::optional<Variant> recorded_variant(const Program& program);
/// The same on a device of this size, of which others hold nothing.
[[nodiscard]] Variant recorded_variant_on(const Program& program, std::uint64_t device_bytes);

/// `base` with the options that a string sets on a fresh allocator, in place of the program's own.
/// Fails: the string is not one that this PyTorch takes, in its words.
[[nodiscard]] Result<Variant> with_options(Variant base, const std::string& conf);

/// `base` with a plain allocator in place of PyTorch's rules.
[[nodiscard]] Variant with_arena(Variant base, ArenaKind kind);

struct FailedOp {
  std::size_t op = 0;
  std::uint64_t bytes = 0;
  verdict::Verdict verdict;
};

struct Outcome {
  /// The first request that was refused; none: the program fits.
  std::optional<FailedOp> first_failure;
  std::uint64_t failures = 0;
  /// Requests that are served here and were refused in the recording; what the program would have
  /// done with them is not known.
  std::uint64_t served_refusals = 0;
  /// The run ended at a request that was served in the recording: the program would have ended,
  /// too.
  bool is_cut_short = false;
  std::size_t ops = 0;  ///< That were run.

  std::uint64_t peak_reserved_bytes = 0;
  std::uint64_t peak_allocated_bytes = 0;
  std::size_t peak_op = 0;  ///< The most allocated moment, after this op.
  std::uint64_t driver_allocations =
      0;                           ///< Segments obtained and ranges mapped, growths of an arena
  std::uint64_t driver_frees = 0;  ///< and given back.
  std::uint64_t page_maps = 0;     ///< Of the allocations those that map pages,
  std::uint64_t page_unmaps = 0;   ///< and of the frees those that unmap some.
  std::uint64_t retries = 0;
};

/// Cost: that of the ops. Several may run side by side over one program.
[[nodiscard]] Outcome run(const Program& program, const Variant& variant, const Tick& tick = {});

/// A variant and what came of it.
struct Trial {
  Variant variant;
  Outcome outcome;
  model::StateSummary peak;  ///< The most allocated moment.
};

/// All of them, side by side on as many threads as the machine has; the best first: what fits, then
/// what comes furthest, then what holds least. `tick` counts finished ones, and is called by any
/// thread, one at a time.
[[nodiscard]] std::vector<Trial> try_all(const Program& program,
                                         std::vector<Variant> variants,
                                         const Tick& tick = {});

/// The gap at the most allocated moment of that outcome. Cost: the run up to there.
[[nodiscard]] model::StateSummary state_at_peak(const Program& program,
                                                const Variant& variant,
                                                const Outcome& outcome);

}  // namespace fragscope::whatif
