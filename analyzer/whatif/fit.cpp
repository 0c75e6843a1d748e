// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/fit.hpp"

#include "analyzer/whatif/side_by_side.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace fragscope::whatif {
namespace {

/// Every step above the border is tried so far, and below it, before steps grow.
constexpr std::uint64_t kDenseSteps = 48;
constexpr std::uint64_t kIslandSteps = 16;
/// More than any device has; a run never asks for the rest of it.
constexpr std::uint64_t kEnough = std::uint64_t{1} << 43;

/// Runs a variant on devices of several sizes, each once.
class Sizes {
 public:
  Sizes(const Program& program, Variant variant)
      : program_(program)
      , variant_(std::move(variant)) {}

  [[nodiscard]] const Outcome& on(std::uint64_t device_bytes) {
    const auto known = outcomes_.find(device_bytes);
    if (known != outcomes_.end()) return known->second;
    variant_.device_bytes = device_bytes;
    return outcomes_.emplace(device_bytes, run(program_, variant_)).first->second;
  }
  [[nodiscard]] bool fits(std::uint64_t device_bytes) { return !on(device_bytes).first_failure; }
  [[nodiscard]] std::uint64_t tried() const { return outcomes_.size(); }
  [[nodiscard]] const Variant& variant() const { return variant_; }

 private:
  const Program& program_;
  Variant variant_;
  std::map<std::uint64_t, Outcome> outcomes_;
};

/// The lowest size that fits between one that does not and one that does, as if there were one
/// border alone.
std::uint64_t bisect(Sizes& sizes, std::uint64_t fails, std::uint64_t fits) {
  while (fits - fails > kFitStep) {
    const std::uint64_t middle = fails + (fits - fails) / 2 / kFitStep * kFitStep;
    (sizes.fits(middle) ? fits : fails) = middle;
  }
  return fits;
}

/// The highest size tried above `from` that does not fit; 0 if all do.
std::uint64_t highest_failure_above(Sizes& sizes, std::uint64_t from, std::uint64_t top) {
  std::uint64_t highest = 0;
  std::uint64_t step = kFitStep;
  std::uint64_t count = 0;
  for (std::uint64_t size = from + step; size < top; size += step) {
    if (!sizes.fits(size)) highest = size;
    if (++count > kDenseSteps) step += step / 2 / kFitStep * kFitStep + kFitStep;
  }
  return highest;
}

/// A program that begins in the middle holds so much already.
std::uint64_t held_at_start(const Program& program) {
  std::uint64_t held = 0;
  for (const policy::ImageSegment& segment : program.start.segments) {
    for (const policy::ImageBlock& block : segment.blocks)
      held += block.size;
  }
  return held;
}

std::uint64_t whole_steps(std::uint64_t bytes) {
  return policy::round_up(bytes, kFitStep);
}

/// From this size on a device refuses nothing, and a run is the same on all of them: it has what
/// the program holds where nothing is refused, and whatever share of it the options allow is as
/// much.
std::uint64_t enough_for(const Variant& variant, std::uint64_t held) {
  const policy::AllocatorConf& conf = variant.options.conf;
  double share = std::min(conf.per_process_memory_fraction, 1.0);
  // Within a limit, blocks are given back before it is reached.
  if (share < 1 && conf.garbage_collection_threshold > 0)
    share *= conf.garbage_collection_threshold;
  if (share >= 1) return whole_steps(held + variant.outside_bytes);
  const double enough = std::ceil(static_cast<double>(held) / share) + 1;  // Against rounding.
  if (!(enough < static_cast<double>(kEnough))) return kEnough;
  return whole_steps(std::max(held + variant.outside_bytes, static_cast<std::uint64_t>(enough)));
}

}  // namespace

const std::vector<std::string>& settings_worth_trying() {
  static const std::vector<std::string> settings = {
      "",
      "expandable_segments:True",
      "max_split_size_mb:64",
      "max_split_size_mb:128",
      "max_split_size_mb:256",
      "max_split_size_mb:512",
      "roundup_power2_divisions:8",
  };
  return settings;
}

std::optional<Fit> find_fit(const Program& program, const Variant& variant) {
  if (variant.outside_bytes >= kEnough) return std::nullopt;
  Sizes sizes(program, variant);
  // Where the driver refuses nothing, a run is the same on every device: from the most that it
  // holds on, no size has to be tried.
  const Outcome free_run = sizes.on(kEnough);
  if (free_run.first_failure) return std::nullopt;
  const std::uint64_t outside = variant.outside_bytes;
  const std::uint64_t top = enough_for(variant, free_run.peak_reserved_bytes);
  const std::uint64_t least =
      whole_steps(std::max(free_run.peak_allocated_bytes, held_at_start(program)) + outside);

  if (!sizes.fits(top)) return std::nullopt;  // Others take more in the middle.
  std::uint64_t border = sizes.fits(least) ? least : bisect(sizes, least, top);
  while (const std::uint64_t failure = highest_failure_above(sizes, border, top))
    border = bisect(sizes, failure, top);

  Fit fit;
  for (std::uint64_t i = 1; i <= kIslandSteps && border >= least + i * kFitStep; ++i) {
    if (sizes.fits(border - i * kFitStep)) fit.islands.push_back(border - i * kFitStep);
  }
  fit.outcome = sizes.on(border);
  fit.variant = sizes.variant();
  fit.variant.device_bytes = border;
  fit.sizes_tried = sizes.tried();
  fit.dense_until = std::min(top, border + kDenseSteps * kFitStep);
  fit.sparse_until = top;
  return fit;
}

std::vector<Fit> find_fits(const Program& program,
                           std::vector<Variant> variants,
                           const Tick& tick) {
  std::vector<std::optional<Fit>> found(variants.size());
  side_by_side(
      variants.size(), tick, [&](std::size_t i) { found[i] = find_fit(program, variants[i]); });
  std::vector<Fit> fits;
  for (std::optional<Fit>& fit : found) {
    if (fit) fits.push_back(std::move(*fit));
  }
  std::ranges::stable_sort(fits, {}, [](const Fit& fit) { return fit.variant.device_bytes; });
  return fits;
}

}  // namespace fragscope::whatif
